"""Checks of gradients: they reach the input and every parameter, and are right."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from autograder.checks.evidence import GRADIENT_TOLERANCE, compare, margin, table
from autograder.checks.exam import Exam, Specimen
from autograder.checks.gradient_patterns import pattern
from autograder.checks.outputs import LARGE, draw_targets, output_shape
from autograder.checks.registry import Outcome, Stopped, check, failed, passed
from autograder.checks.replies import Answer
from autograder.checks.series import Case
from autograder.checks.student import Call, must
from autograder.oracle.cases import Sizes
from autograder.oracle.reference import Expected
from autograder.track import Part
from autograder.verdict import Verdict

#: In what torch says where there is nothing to go back through.
NO_GRAPH = "does not require grad"
CUTS = "Something cuts or bends the graph: look for detach(), .data, NumPy, no_grad(), or a frozen or padded table."
CUT = "No detach(), .item() or .data on the way to the loss."


@check("*.gradients", needs=["shapes", "parameters"])
def gradients_reach_everything(exam: Exam, part: Part) -> Outcome:
    """Gradients of the input and of every parameter are right."""
    label, draw = f"{part.name} gradients", exam.draws.sizes
    cases = [
        _case(exam, part, sizes, f"{label} {trial}")
        for trial, sizes in enumerate(
            (
                draw(label, n_head=3),
                draw(f"{label} long", length=290, block_size=300, n_head=1, head_dim=24, batch=1),
                draw(f"{label} rows", batch=70, length=4, n_head=2, head_dim=10),
            )
        )
    ]
    outcome = passed()
    for case, (specimen, answers) in zip(cases, exam.series(part, cases), strict=True):
        inputs, cotangent = case.calls[0].inputs, case.calls[0].cotangent
        expected = exam.expect(specimen, inputs, cotangent=cotangent)
        for answer in answers:
            outcome = compare_gradients(exam, specimen, _connected(part, answer), expected, inputs, cotangent)
            if outcome.verdict is not Verdict.PASSED:
                return outcome
    return _overflow(exam, part) or outcome


def _case(exam: Exam, part: Part, sizes: Sizes, purpose: str) -> Case:
    inputs = exam.inputs(part, sizes, purpose)
    cotangent = exam.draws.normal(f"{purpose} cotangent", output_shape(part, sizes))
    return Case(sizes, purpose, [Call(inputs, cotangent=cotangent, train=train) for train in (True, False)])


def _connected(part: Part, answer: Answer | Outcome) -> Answer:
    """Return what a call gave; raises Stopped, in the terms of this check, when no gradient can go back from it."""
    if isinstance(answer, Outcome) and NO_GRAPH in answer.message:
        raise Stopped(
            failed(
                f"What {part.class_name} returns is cut off from the graph: nothing in it learns.", CUTS, usable=True
            )
        )
    return must(answer)


def _overflow(exam: Exam, part: Part) -> Outcome | None:
    """Look for gradients that overflow where the output does not: NaN from a branch that was not taken."""
    sizes = exam.draws.sizes(f"{part.name} overflow", length=8)
    inputs = exam.inputs(part, sizes, f"{part.name} overflow", LARGE)
    cotangent = exam.draws.normal(f"{part.name} overflow cotangent", output_shape(part, sizes))
    call = Call(inputs, cotangent=cotangent, train=True)
    _, (given,) = exam.trial(part, Case(sizes, f"{part.name} overflow", [call]))
    answer = must(given)
    bad = [name for name, gradient in answer.gradients.items() if not bool(gradient.isfinite().all())]
    if not bad:
        return None
    return failed(
        f"With large inputs the gradient of {bad[0].removeprefix('input.')} is NaN or infinite; the output is not.",
        "A branch that torch.where leaves out still takes part in the backward pass: mask the scores, not exp(scores).",
        usable=True,
    )


@check("gpt.gradients", needs=["shapes", "parameters", "layers"])
def loss_gradients_are_right(exam: Exam, part: Part) -> Outcome:
    """The gradient of the logits reaches every parameter, and is right."""
    for layers, train in ((5, True), (1, False)):
        sizes = exam.draws.sizes(f"gpt gradients {layers}", n_layer=layers, batch=4)
        inputs = exam.inputs(part, sizes, "gpt gradients")
        cotangent = exam.draws.normal("gpt cotangent", (sizes.batch, sizes.length, sizes.config["vocab_size"]))
        call = Call(inputs, cotangent=cotangent, train=train)
        specimen, (given,) = exam.trial(part, Case(sizes, "gpt gradients", [call], keep=True))
        expected = exam.expect(specimen, inputs, cotangent=cotangent)
        outcome = compare_gradients(
            exam, specimen, _joined(exam, specimen, _connected(part, given)), expected, inputs, cotangent
        )
        if outcome.verdict is not Verdict.PASSED:
            return outcome
    return _of_the_loss(exam, part, specimen, inputs)


def _of_the_loss(exam: Exam, part: Part, specimen: Specimen, inputs: dict[str, Tensor]) -> Outcome:
    sizes = specimen.sizes
    targets = draw_targets(exam, sizes, "gpt gradients")
    given = {**inputs, "targets": targets}
    try:
        trained = exam.train_call(part, specimen.model, given, loss=True, train=True)
    except Stopped as stopped:
        if NO_GRAPH in stopped.outcome.message:
            return failed(
                "The loss is cut off from the graph: loss.backward() has nothing to do.",
                CUT,
                usable=True,
            )
        return passed("The loss itself is another check's business.")
    if not isinstance(trained.second, Tensor) or trained.second.numel() != 1:
        return passed("There is no loss to take a gradient of: see the check of the loss.")
    right = exam.expect(specimen, given, loss=True)
    wanted = right.outputs[1]
    if wanted is None or abs(float(trained.second) - float(wanted)) > 1e-4 * max(1.0, abs(float(wanted))):
        reached = any(float(gradient.abs().max()) > 0.0 for gradient in trained.gradients.values() if gradient.numel())
        return (
            passed("The loss is not right yet, so its gradient was only seen to arrive.")
            if reached
            else failed("loss.backward() leaves every gradient at zero.", CUT, usable=True)
        )
    trained.gradients = specimen.names.to_contract(trained.gradients, specimen.shapes)
    return compare_gradients(exam, specimen, _joined(exam, specimen, trained), right, given)


def _joined(exam: Exam, specimen: Specimen, answer: Answer) -> Answer:
    """Add up the gradients of table and head when they are two parameters: not tying them costs points elsewhere."""
    tables = exam.track.tables
    table_row, head_row = specimen.model.find(tables.tokens), specimen.model.find(tables.head)
    if tables.tied and table_row is not None and head_row is not None and table_row.group != head_row.group:
        table_grad, head_grad = answer.gradients.get(tables.tokens), answer.gradients.get(tables.head)
        if table_grad is not None and head_grad is not None and table_grad.shape == head_grad.shape:
            answer.gradients[tables.head] = table_grad + head_grad
    return answer


def compare_gradients(
    exam: Exam,
    specimen: Specimen,
    answer: Answer,
    right: Expected,
    inputs: Mapping[str, Tensor],
    cotangent: Tensor | None = None,
) -> Outcome:
    """Compare every gradient, of the output along `cotangent` or else of the loss.

    A tensor that the student lacks is another check's business.

    Gradients follow the numbers: where those are wrong already, only missing and zero gradients count. A frozen tensor
    costs its points in `parameters`.
    """
    expected, tables = right.gradients, exam.track.tables
    left_out = _tied_all_the_same(exam, specimen) | set(tables.shared)
    output_right = _output_right(answer, right)
    tensors = {
        **{f"input.{name}": value for name, value in inputs.items() if value.is_floating_point()},
        **specimen.weights,
    }
    rows, bad, worst = [], [], 0.0
    for name in tensors:
        row = specimen.model.find(name)
        if name not in expected or name in left_out or (row is not None and not row.trainable):
            continue
        reference = expected[name]
        mine = answer.gradients.get(name)
        size = float(reference.abs().max())
        if mine is None:
            bad.append((name, f"{_label(name)} has no gradient"))
            rows.append([name, "none", f"{size:.4g}"])
            continue
        mine_size = float(mine.double().abs().max()) if mine.numel() else 0.0
        rows.append([name, f"{mine_size:.4g}", f"{size:.4g}"])
        difference = compare(mine, reference, GRADIENT_TOLERANCE)
        worst = max(worst, difference.ratio if size > 1e-9 else 0.0)
        if mine_size == 0.0 and size > 1e-9:
            bad.append((name, f"{_label(name)} gets a gradient of zero"))
        elif output_right and not difference.ok:
            bad.append((name, f"{_label(name)} gets a wrong gradient"))
    if not bad:
        return passed(evidence=[margin(worst)] if output_right else [])
    _, what = bad[0]
    others = f" (and {len(bad) - 1} more)" if len(bad) > 1 else ""
    known, found, meaning = None, "", ""
    if output_right:
        known = exam.diagnose_gradients(specimen, inputs, answer.gradients, expected, cotangent)
        width = specimen.sizes.config["n_embd"]
        found, meaning = pattern(answer.gradients, expected, [name for name, _ in bad], width)
    return failed(
        f"{known.sentence} It shows in the gradients: {what}{others}."
        if known
        else f"{what}{others}: {found or 'training would not move what it should'}.",
        known.look_at if known else f"{CUTS} {meaning}".rstrip(),
        [table("Largest gradient", ["tensor", "yours", "expected"], rows), margin(worst)],
        usable=True,
    )


def _label(name: str) -> str:
    return "the input" if name.startswith("input.") else name


def _tied_all_the_same(exam: Exam, specimen: Specimen) -> set[str]:
    """Return table and head where they are one parameter though the contract has two: its own check tells of it."""
    tables = exam.track.tables
    table_row, head_row = specimen.model.find(tables.tokens), specimen.model.find(tables.head)
    shared = table_row is not None and head_row is not None and table_row.group == head_row.group
    return set(tables.ends) if shared and not tables.tied else set()


def _output_right(answer: Answer, right: Expected) -> bool:
    output, expected = answer.first, right.outputs[0]
    return (
        isinstance(output, Tensor)
        and expected is not None
        and output.shape == expected.shape
        and compare(output, expected).ok
    )
