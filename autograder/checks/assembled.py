"""The whole model, put together from the student's own parts: is it right? Told beside the scores, for no points."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor

from autograder.checks.evidence import compare, shape_text
from autograder.checks.exam import HEAD, TABLE, Exam
from autograder.checks.registry import Stopped
from autograder.checks.replies import Model
from autograder.oracle.cases import full_shapes
from autograder.oracle.reference import count
from autograder.probe.client import ProbeFailure
from autograder.track import Shape
from autograder.verdict import PartResult, Verdict

#: These would only make the whole model wait, die or be refused once more.
HOPELESS = (Verdict.TIMED_OUT, Verdict.OUT_OF_MEMORY, Verdict.FORBIDDEN, Verdict.NOT_ATTEMPTED, Verdict.UNGRADABLE)


def assembled(exam: Exam, results: Sequence[PartResult]) -> dict[str, Any]:
    """Return {"right", "message", "parameters", "expected_parameters", "tensors"}.

    `right` is None when it could not be seen; `tensors` lists [name, expected shape, yours] where they differ.
    """
    part = exam.track.parts[-1]
    shapes = full_shapes(part, exam.track, exam.track.config)
    expected_count = count(shapes, (TABLE,))
    answer: dict[str, Any] = {
        "right": None,
        "parameters": None,
        "expected_parameters": expected_count,
        "tensors": [],
    }
    if any(result.verdict in HOPELESS for result in results) or not exam.student.facts_of(part).found:
        return {**answer, "message": "Not tried: see the parts first."}
    try:
        exam.student.ensure_alive()
        model = exam.student.build(part, exam.track.config, stand_ins="none")
        answer |= {"parameters": model.total, "tensors": _differing(model, shapes)}
        exam.student.forget(model)
        right = _agrees(exam)
    except Stopped as stopped:
        return {**answer, "right": False, "message": f"It does not run: {stopped.outcome.message}"}
    except ProbeFailure as failure:
        if failure.verdict is Verdict.UNGRADABLE:
            raise
        return {**answer, "right": False, "message": f"It does not run: {failure.message}"}
    counted = f"{model.total:,} parameters"
    if model.total != expected_count:
        counted += f" where {expected_count:,} are expected{_first_difference(answer['tensors'])}"
    if right is None:
        sentence = "It runs; its tensors go by other names, so its numbers were compared part by part."
    elif right:
        sentence = "It gives the right numbers."
    else:
        sentence = "It does not give the right numbers yet."
    return {**answer, "right": right, "message": f"{sentence} It has {counted}."}


def _differing(model: Model, shapes: Mapping[str, Shape]) -> list[list[str]]:
    """Return the tensors of the default model that are missing, extra, of another shape, or not shared."""
    own = {parameter.name: parameter for parameter in model.parameters}
    rows = []
    for name in dict.fromkeys([*shapes, *own]):
        wanted = shape_text(shapes[name]) if name in shapes else "-"
        mine = shape_text(own[name].shape) if name in own else "-"
        if wanted != mine:
            rows.append([name, wanted, mine])
    if TABLE in own and HEAD in own and own[TABLE].group != own[HEAD].group:
        rows.append([f"{TABLE} and {HEAD}", "one tensor", "two tensors"])
    return rows[:100]


def _first_difference(rows: Sequence[Sequence[str]]) -> str:
    if not rows:
        return ""
    name, wanted, mine = rows[0]
    what = "is missing" if mine == "-" else "is extra" if wanted == "-" else f"is {mine}, not {wanted}"
    more = f" (and {len(rows) - 1} more)" if len(rows) > 1 else ""
    return f": {name} {what}{more}"


def _agrees(exam: Exam) -> bool | None:
    """Compare the student's whole model with the reference's, under hidden weights; None when the names do not fit."""
    part = exam.track.parts[-1]
    sizes = exam.draws.sizes("assembled", n_layer=2)
    model = exam.student.build(part, sizes.config, stand_ins="none")
    shapes = full_shapes(part, exam.track, sizes.config)
    own = {parameter.name: parameter.shape for parameter in model.parameters}
    if own != shapes:
        return None if len(own) >= len(shapes) else False
    weights = exam.draws.weights("assembled", shapes)
    weights[TABLE] = weights[HEAD]
    exam.student.load_weights(model, weights)
    inputs = exam.inputs(part, sizes, "assembled")
    expected = exam.reference.evaluate(part, sizes.config, weights, inputs, stand_ins=False).outputs[0]
    answer = exam.student.call(part, model, inputs)
    output = answer.first
    if not isinstance(output, Tensor) or expected is None or output.shape != expected.shape:
        return False
    return compare(output, expected).ok
