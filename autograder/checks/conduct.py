"""Checks of conduct: the same in train and eval mode, no trace of a call, dtype and device followed."""

from __future__ import annotations

import torch
from torch import Tensor

from autograder.checks.evidence import (
    compare,
    describe_difference,
    same,
)
from autograder.checks.exam import Exam
from autograder.checks.outputs import draw_targets, first_output, unchanged
from autograder.checks.registry import Outcome, Stopped, check, failed, passed
from autograder.checks.replies import Answer
from autograder.checks.series import Case
from autograder.checks.student import CALL_SEED, Call, must
from autograder.oracle.cases import Sizes
from autograder.track import Part
from autograder.verdict import Verdict

AXES = ("batch row", "position", "channel")


@check("*.train_mode", needs=["shapes"])
def training_changes_nothing(exam: Exam, part: Part) -> Outcome:
    """train() and eval() give the same numbers, and no randomness."""
    sizes = exam.draws.sizes(f"{part.name} train")
    inputs = exam.inputs(part, sizes, f"{part.name} train")
    throws = [(train, seed) for train in (False, True) for seed in (1, 2)]
    alone, several = exam.fresh_series(
        part, [(sizes, [Call(inputs)]), (sizes, [Call(inputs, train=train, seed=seed) for train, seed in throws])]
    )
    still = first_output(exam, part, must(alone()[1][0]))
    _, given = several()
    for train in (False, True):
        mode = "train" if train else "eval"
        answers = [must(answer) for answer in given[2 * train : 2 * train + 2]]
        if answers[0].random:  # what is random may come out the same twice: a coin needs more throws
            _, more = exam.fresh(part, sizes, [Call(inputs, train=train, seed=seed) for seed in range(3, 11)])
            answers += [must(answer) for answer in more]
        first, *others = [first_output(exam, part, answer) for answer in answers]
        apart = [float((first - other).abs().max()) for other in others if not same(first, other)]
        if answers[0].random and apart:
            return failed(
                f"In {mode} mode the output is random: equal calls differ by up to {max(apart):.3g}.",
                "The contract has no dropout and no noise: drop it, or let it default to 0."
                if train
                else "F.dropout and dropout_p are on unless training=self.training says otherwise; none is asked for.",
            )
        if train and not same(first, still, 1e-5):
            sentence, exhibit = describe_difference(compare(first, still, 1e-5), AXES)
            return failed(
                f"train() and eval() give different numbers: {sentence}.",
                "Nothing here depends on self.training.",
                [exhibit],
            )
    return passed()


@check("*.pure", needs=["shapes"])
def a_call_leaves_no_trace(exam: Exam, part: Part) -> Outcome:
    """A call changes neither its input nor the model, and remembers nothing."""
    sizes = exam.draws.sizes(f"{part.name} pure")
    inputs = exam.inputs(part, sizes, f"{part.name} pure")
    third = exam.inputs(part, sizes, f"{part.name} pure, third")
    calls = [
        Call(inputs, observe=True),
        Call(inputs, grad=True),
        Call(third, observe=True),
        Call(inputs, seed=CALL_SEED + 1),
    ]
    model, (alone, recorded, second, reseeded) = exam.fresh(part, sizes, calls, keep=True)
    if model.reseeded:
        return failed(
            f"{part.class_name}.__init__ resets the global random seed.",
            "Two models would start equal, and the caller's seed is lost: leave torch.manual_seed to the script.",
        )
    first = must(alone)
    problem = _traces(part, first, inputs, "forward") or _remembers(exam, part, sizes, inputs)
    if problem is not None:
        return problem
    output = first_output(exam, part, first)
    # Where it runs without gradients only, the check of gradients tells why.
    if isinstance(recorded, Answer) and recorded.grad_mode_changed:
        return failed("forward leaves gradients switched off.", "Leave torch.set_grad_enabled to the caller.")
    kept = must(second).kept
    if kept is not None and not same(kept, output):
        return failed("A second call changes the result of the first.", "Return a new tensor, not a buffer used again.")
    reseeded = must(reseeded)
    if reseeded.random and same(first_output(exam, part, reseeded), output):
        return failed(
            "forward changes the global random state.",
            "Do not call torch.manual_seed, or draw numbers, inside the model.",
        )
    cotangent = exam.draws.normal(f"{part.name} pure cotangent", tuple(output.shape))
    try:
        trained = exam.student.call(part, model, inputs, observe=True, train=True, cotangent=cotangent)
    except Stopped:
        return passed("Training mode could not be seen: the check of gradients tells why.")
    return _traces(part, trained, inputs, "forward in train mode") or passed()


def _remembers(exam: Exam, part: Part, sizes: Sizes, inputs: dict[str, Tensor]) -> Outcome | None:
    """Call a model again and again, shorter, longer, with other numbers; in another order it must say the same."""
    short = {name: value[:, : sizes.length - 3].contiguous() for name, value in inputs.items()}
    fewer = {name: value[: sizes.batch - 1].contiguous() for name, value in inputs.items()}
    other = exam.inputs(part, sizes, f"{part.name} pure, other")
    last = {name: torch.cat([value[:-1], other[name][-1:]]) for name, value in inputs.items()}
    start = {name: value[:, :1].contiguous() for name, value in inputs.items()}
    step = {name: value[:, 1:2].contiguous() for name, value in inputs.items()}
    trials = (short, inputs, other, last, fewer, start, step)
    purpose = f"{part.name} pure"  # weights large enough for a small memory to show
    # The longest first; and none comes after the same one in both orders.
    orders = ((0, 1, 2, 3, 4, 5, 6), (1, 6, 5, 4, 3, 2, 0))
    # Where training differs from eval, that is told by its own check.
    both = exam.verdicts.get(f"{part.name}.train_mode") is Verdict.PASSED
    runs = [(orders[0], False), (orders[1], False), *([(orders[0], True)] if both else [])]
    cases = [Case(sizes, purpose, [Call(trials[k], train=train) for k in order]) for order, train in runs]
    seen: list[dict[int, Tensor | Outcome]] = []
    for (order, _), (_, answers) in zip(runs, exam.series(part, cases), strict=True):
        seen.append({k: _output_or_fault(exam, part, answer) for k, answer in zip(order, answers, strict=True)})
    first, *others = seen
    for found in others:
        for k, one in first.items():
            two = found[k]
            fails = sum(isinstance(each, Outcome) for each in (one, two))
            if fails == 1 or (isinstance(one, Tensor) and isinstance(two, Tensor) and not same(one, two, 1e-5)):
                what = "fails" if fails else "gives another answer"
                return failed(
                    f"A call {what} after other calls: something is remembered between them.",
                    "Keep no state on self: no masks that may not fit the next call, no keys, values or outputs.",
                )
    return None


def _output_or_fault(exam: Exam, part: Part, answer: Answer | Outcome) -> Tensor | Outcome:
    try:
        return first_output(exam, part, must(answer))
    except Stopped as stopped:
        return stopped.outcome


def _traces(part: Part, answer: Answer, inputs: dict[str, Tensor], when: str) -> Outcome | None:
    for name, value in inputs.items():
        after = answer.after.get(name)
        if after is not None and not unchanged(after, value):
            return failed(
                f"{part.class_name}.{when} changes its input {name} in place.",
                f"Write to a new tensor ({name} = {name} - ...), not to the caller's ({name} -= ..., {name}.zero_()).",
            )
    if answer.changed:
        return failed(
            f"{when} changes the saved tensor {answer.changed[0]}.",
            "Only the optimizer changes weights; LayerNorm keeps no running statistics.",
        )
    if answer.grad_mode_changed:
        return failed(f"{when} leaves gradients switched on or off.", "Leave torch.set_grad_enabled to the caller.")
    if answer.mode_changed:
        return failed(f"{when} switches train/eval mode.", "Leave train() and eval() to the caller.")
    return None


@check("*.follows", needs=["shapes"])
def it_follows_dtype_and_device(exam: Exam, part: Part) -> Outcome:
    """It works in float64 and on another device."""
    sizes = exam.draws.sizes(f"{part.name} follows", length=15)  # a length that nothing was cached for before
    inputs = exam.inputs(part, sizes, f"{part.name} follows")
    for dtype in ("float64", "float32"):  # in this order a cache that keeps the first dtype shows
        given = {n: v.double() if dtype == "float64" and v.is_floating_point() else v for n, v in inputs.items()}
        try:
            _, (outcome,) = exam.fresh(part, sizes, [Call(given)], dtype=dtype)
            answer = must(outcome)
        except Stopped as stopped:
            problem = stopped.outcome
            return Outcome(
                problem.verdict,
                f"After model.to(torch.{dtype}): {problem.message}",
                "Make new tensors with dtype=x.dtype, and leave casts to the caller.",
                problem.evidence,
            )
        returned = str(first_output(exam, part, answer).dtype).removeprefix("torch.")
        if returned != dtype:
            return failed(
                f"Given {dtype}, it returns {returned}.",
                "Return the dtype that came in: no .double(), .float() or .half() on the result.",
            )
    calls = [Call(inputs, moved=True), Call(inputs, moved=True, train=True)]
    if "idx" in inputs:
        given = {**inputs, "targets": draw_targets(exam, sizes, f"{part.name} follows")}
        calls.append(Call(given, keywords=["targets"], moved=True, train=True))
    _, outcomes = exam.fresh(part, sizes, calls)
    seen = [outcome for outcome in outcomes if isinstance(outcome, Answer)]
    for answer in seen:
        if answer.device_faults:
            return _left_behind(answer.device_faults[0])
    if len(seen) < len(calls):  # it runs where the tensors are; that a pretended device confuses it is no fault
        return passed("Whether it follows its device could not be seen: it asks the device for more than its name.")
    return passed()


def _left_behind(what: str) -> Outcome:
    return failed(
        f"A tensor stays on the CPU when the model moves to another device: {what}.",
        "Register it with register_buffer, or make it with device=x.device.",
    )
