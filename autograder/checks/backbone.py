"""Checks of what a model offers beside its logits: hidden states, a limit, an untied head, options."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional

from autograder.checks.evidence import GRADIENT_TOLERANCE, compare, describe_difference, numbers, same, shape_text
from autograder.checks.exam import Exam, Specimen
from autograder.checks.outputs import draw_targets
from autograder.checks.registry import Outcome, Stopped, check, failed, passed
from autograder.checks.replies import Answer
from autograder.checks.series import Case
from autograder.checks.student import Call, must
from autograder.oracle.cases import Sizes
from autograder.track import Part
from autograder.verdict import Verdict

#: The same numbers through another order of additions.
ROUNDING = 1e-4
#: The same for gradients, relative to the largest.
LEARNT = 1e-3


@check("gpt.untied", needs=["builds"])
def head_and_table_are_two(exam: Exam, part: Part) -> Outcome:
    """The head has a matrix of its own: it is not tied to the token table."""
    sizes = exam.draws.sizes("untied", n_layer=1)
    model = exam.build(part, sizes)
    names = exam.tied_names(part, model, sizes)
    rows = [model.find(name) for name in names] if names else []
    if len(rows) != 2 or rows[0] is None or rows[1] is None:
        return failed(
            "There is no token table, or no head, to look at.",
            "Keep both: a table of embeddings, and a Linear that makes the logits.",
        )
    table, head = rows
    assert table is not None and head is not None
    exhibit = numbers("Head and table", same_parameter=table.group == head.group)
    if table.group == head.group or table.storage == head.storage:
        return failed(
            f"{head.name} is {table.name}: in this course the head is a matrix of its own.",
            "Do not assign one weight to the other: the head learns by itself.",
            [exhibit],
            usable=True,
        )
    return passed(evidence=[exhibit])  # a bias that is missing is told with the other tensors


@check("gpt.context", needs=["shapes"])
def too_many_tokens_are_refused(exam: Exam, part: Part) -> Outcome:
    """More than block_size tokens raise an error; block_size of them do not."""
    sizes = exam.draws.sizes("context", length=11, block_size=11)
    over = Sizes(sizes.config, sizes.batch, sizes.length + 1)
    calls = [Call(exam.inputs(part, each, f"context {each.length}")) for each in (sizes, over)]
    _, (full, beyond) = exam.fresh(part, sizes, calls)
    must(full)
    if isinstance(beyond, Outcome):
        return passed()
    return failed(
        "More than block_size tokens are taken without an error: there is no position for the rest.",
        "Let the table of positions refuse them, or raise ValueError: do not clamp, wrap or cut in forward.",
        usable=True,
    )


@check("gpt.hidden", needs=["shapes", "parameters"])
def hidden_states_make_the_logits(exam: Exam, part: Part) -> Outcome:
    """forward_hidden gives (B, T, C) after the final norm: the head makes forward's logits of it."""
    head = exam.track.tables.head
    for trial in range(2):
        sizes = exam.draws.sizes(f"hidden {trial}", n_layer=2 + trial)
        inputs = exam.inputs(part, sizes, f"hidden {trial}")
        calls = [Call(inputs), Call(inputs, method="forward_hidden", observe=True)]
        specimen, (plain, given) = exam.trial(part, Case(sizes, f"hidden {trial}", calls, keep=True))
        if isinstance(given, Outcome):
            return without(given, "forward_hidden", part)
        hidden, logits = given.first, must(plain).first
        wanted = (sizes.batch, sizes.length, sizes.config["n_embd"])
        if given.sequence or not isinstance(hidden, Tensor) or tuple(hidden.shape) != wanted:
            shape = shape_text(hidden.shape) if isinstance(hidden, Tensor) else str(hidden or "nothing")
            return failed(
                f"forward_hidden returns {'a tuple' if given.sequence else shape}; "
                f"expected one tensor (B, T, C) = {shape_text(wanted)}.",
                "Return what the final norm gives, at every position, before the head.",
                usable=True,
            )
        if head not in specimen.weights or not isinstance(logits, Tensor):
            return passed("Not measured: there is no head whose weights are known.")
        made = functional.linear(hidden.double(), specimen.weights[head].double(), _bias(specimen, head))
        if not compare(made, logits.double(), ROUNDING).ok:
            sentence, exhibit = describe_difference(
                compare(made, logits.double(), ROUNDING), ("batch row", "position", "vocabulary entry")
            )
            return failed(
                f"The head makes other logits of forward_hidden(idx) than forward(idx) returns: {sentence}.",
                "Both take the same way: embeddings, every block, the final norm. The head comes after.",
                [exhibit],
                usable=True,
            )
    return _unlearnt(exam, specimen, inputs) or passed()


def _unlearnt(exam: Exam, specimen: Specimen, inputs: dict[str, Tensor]) -> Outcome | None:
    """Another head on the hidden states must teach what lies below as the model's own does: the same gradients."""
    part, head = specimen.part, exam.track.tables.head
    sizes = specimen.sizes
    above = exam.draws.normal("hidden cotangent", (sizes.batch, sizes.length, sizes.config["vocab_size"]))
    below = above @ specimen.weights[head]  # (B, T, V) @ (V, C): what the head hands back to the hidden states
    calls = [Call(inputs, cotangent=above), Call(inputs, cotangent=below, method="forward_hidden")]
    plain, given = exam.student.attempts(part, specimen.model, calls)
    if not isinstance(plain, Answer):
        return None  # the check of gradients tells
    left_out = {head, f"{head.removesuffix('weight')}bias", *(exam.track.tables.ends if _one(exam, specimen) else ())}
    right = specimen.names.to_contract(plain.gradients, specimen.shapes)
    found = specimen.names.to_contract(given.gradients if isinstance(given, Answer) else {}, specimen.shapes)
    taught = [name for name, value in right.items() if bool(value.any()) and name not in left_out]
    cut = [name for name in taught if name not in found or not same(found[name], right[name], LEARNT)]
    if not cut:
        return None
    return failed(
        f"forward_hidden is cut off from the graph: a head on it does not teach {cut[0]} as forward does.",
        "No detach() and no no_grad() in it: other heads are trained through it. Let forward call it.",
        usable=True,
    )


@check("gpt.strided_targets", needs=["shapes", "loss"])
def targets_may_lie_anyhow_in_memory(exam: Exam, part: Part) -> Outcome:
    """Its loss takes ids and targets that are not contiguous, as slices of a longer text are."""
    sizes = exam.draws.sizes("strided")
    inputs = exam.inputs(part, sizes, "strided")
    given = {**inputs, "targets": draw_targets(exam, sizes, "strided")}
    specimen, _ = exam.trial(part, Case(sizes, "strided", [Call(inputs)], keep=True))
    losses = []
    for strided in (False, True):
        call = Call(given, keywords=["targets"], strided=strided, train=True)
        answer = exam.student.attempt(part, specimen.model, call)
        if isinstance(answer, Outcome) and strided and "unexpected keyword" not in answer.message:
            return failed(
                f"With targets that are not contiguous in memory: {answer.message}",
                "Use reshape(-1) or flatten(): view(-1) refuses a slice or a transpose.",
                answer.evidence,
                usable=True,
            )
        losses.append(exam.by_position(part, specimen.model, call, answer).second)
    first, second = losses
    if isinstance(first, Tensor) and isinstance(second, Tensor) and not same(first, second, 1e-5):
        return failed(
            "The loss changes when the same targets lie otherwise in memory.",
            "Use reshape(-1) or flatten(), and no as_strided.",
            usable=True,
        )
    return passed()


@check("gpt.checkpointing", needs=["shapes", "parameters", "loss"])
def checkpointing_changes_no_number(exam: Exam, part: Part) -> Outcome:
    """Where the model has a switch for activation checkpointing, it changes neither the loss nor a gradient."""
    sizes = exam.draws.sizes("checkpointing", n_layer=3)
    inputs = exam.inputs(part, sizes, "checkpointing")
    given = {**inputs, "targets": draw_targets(exam, sizes, "checkpointing")}
    specimen, _ = exam.trial(part, Case(sizes, "checkpointing", [Call(inputs)], keep=True))
    answers = []
    for words in ("", "checkpoint ckpt"):
        call = Call(given, keywords=["targets"], loss=True, train=True, switched=words)
        try:
            answers.append(
                exam.by_position(part, specimen.model, call, exam.student.attempt(part, specimen.model, call))
            )
        except Stopped as stopped:
            if not words:
                return passed("Not measured: the loss does not run.")
            return failed(
                f"With checkpointing switched on: {stopped.outcome.message}",
                "torch.utils.checkpoint.checkpoint(block, x, use_reentrant=False), for each block.",
                stopped.outcome.evidence,
                usable=True,
            )
    plain, switched = answers
    if not switched.switches:
        return passed("It has no switch for checkpointing; none is asked for.")
    for name in ("", *plain.gradients):
        mine = switched.gradients.get(name) if name else switched.second
        right = plain.gradients[name] if name else plain.second
        what = f"the gradient of {name}" if name else "the loss"
        if not isinstance(right, Tensor):
            continue
        if not isinstance(mine, Tensor) or not compare(mine, right.double(), GRADIENT_TOLERANCE).ok:
            return failed(
                f"With {switched.switches[0]} = True {what} is {'missing' if mine is None else 'another one'}.",
                "Checkpointing computes the blocks once more in the backward pass: every block, in the same order.",
                usable=True,
            )
    return passed(f"The same numbers with {switched.switches[0]} = True.")


def without(problem: Outcome, method: str, part: Part) -> Outcome:
    """Say what is wrong with a method that did not answer: it may not be there at all."""
    if f"has no attribute '{method}'" in problem.message:
        return Outcome(
            Verdict.FAILED,
            f"{part.class_name} has no method {method}.",
            f"Define {method} in the class {part.class_name}.",
            usable=True,
        )
    return Outcome(problem.verdict, f"{method}: {problem.message}", problem.look_at, problem.evidence, usable=True)


def _one(exam: Exam, specimen: Specimen) -> bool:
    """Whether table and head are one parameter of the student's: its gradient is then the sum of both uses."""
    rows = [specimen.model.find(name) for name in exam.track.tables.ends]
    return len({row.group for row in rows if row is not None}) < 2


def _bias(specimen: Specimen, head: str) -> Tensor | None:
    bias = specimen.weights.get(head.removesuffix("weight") + "bias")
    return None if bias is None else bias.double()
