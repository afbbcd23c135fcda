"""The whole model, put together from the student's own parts: are its numbers right, and do its weights carry over?

What stand-ins hide shows here: sub-parts that are shared, or built from another config. It is one check of the last
part, judged only when all else is right, and the sentence about the whole model that every report has.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor

from autograder.checks.evidence import compare, shape_text
from autograder.checks.exam import Exam
from autograder.checks.outputs import draw_targets, first_output
from autograder.checks.registry import Outcome, Stopped, check, failed, passed
from autograder.checks.replies import Model
from autograder.oracle.cases import Sizes, full_shapes
from autograder.oracle.reference import Expected, count
from autograder.probe.client import ProbeFailure
from autograder.track import Part, Shape, Tables
from autograder.verdict import PartResult, Verdict

#: These would only make the whole model wait, die or be refused once more.
HOPELESS = (Verdict.TIMED_OUT, Verdict.OUT_OF_MEMORY, Verdict.FORBIDDEN, Verdict.NOT_ATTEMPTED, Verdict.UNGRADABLE)
#: Rounding adds up over fourteen blocks.
DEEP_TOLERANCE = 2e-4
DEEP_GRADIENT_TOLERANCE = 5e-3


@check("gpt.whole", needs=["values", "parameters", "layers", "builds"])
def the_whole_model_is_right(exam: Exam, part: Part) -> Outcome:
    """Put together from its own parts it is right: numbers, size, and its weights carried over."""
    exam.join()
    settings = exam.track.config_part
    judged = {name.partition(".")[0] for name in exam.verdicts}
    unknown = [other.class_name for other in exam.track.parts if other is not part and other.name not in judged]
    if unknown:
        return passed(f"Not judged without {unknown[0]}: check all parts together.")
    wrong = [
        name
        for name, verdict in exam.verdicts.items()
        if verdict is not Verdict.PASSED and not (settings and name.startswith(f"{settings.name}."))
    ]
    if wrong:
        return passed(f"Not judged while {wrong[0]} is not right: that costs points there.")
    shapes = full_shapes(part, exam.track, exam.track.config)
    model = default_model(exam, part)
    expected = count(shapes, exam.track.tables.shared)
    if model.total != expected:
        return failed(
            f"The whole model has {model.total:,} parameters; {expected:,} are expected.",
            "Each block has an attention, an MLP and norms of its own: nothing is shared but the tied table."
            if exam.track.tables.tied
            else "Each block has an attention, an MLP and norms of its own: nothing is shared.",
        )
    deep, small = deep_sizes(exam)
    return _wrong_together(exam, part, deep) or _wrong_copy(exam, part, small) or passed()


def _wrong_together(exam: Exam, part: Part, sizes: Sizes) -> Outcome | None:
    """Compare logits, loss and gradients of the whole model, in both modes, with those of the reference."""
    specimen = whole_model(exam, part, sizes)
    if specimen is None:
        return failed(
            f"The whole model with n_layer = {sizes.config['n_layer']} has not the tensors of its parts.",
            "Each block brings its own tensors; GPT adds the tables, ln_f and the head, and no more.",
        )
    model, weights = specimen
    frozen = [parameter.name for parameter in model.parameters if not parameter.trainable]
    if frozen:
        return failed(
            f"In the whole model {frozen[0]} is frozen (requires_grad is False): it would never be trained.",
            "GPT leaves the parameters of its blocks alone.",
        )
    inputs = {**exam.inputs(part, sizes, "whole"), "targets": draw_targets(exam, sizes, "whole")}
    right = exam.reference.evaluate(part, sizes.config, weights, inputs, stand_ins=False, loss=True)
    answer = exam.train_call(part, model, inputs)
    logits, loss = first_output(exam, part, answer), answer.second
    wanted, wanted_loss = right.outputs
    if wanted is None or not compare(logits, wanted, DEEP_TOLERANCE).ok:
        return failed(
            f"Every part is right, but put together they are not (n_layer = {sizes.config['n_layer']}).",
            "Look at what a part hands to the next: config, sharing, order.",
        )
    if not isinstance(loss, Tensor) or wanted_loss is None or abs(float(loss) - float(wanted_loss)) > 1e-3:
        return failed("Put together, the loss is not right.", "Look at the size of batch and vocabulary.")
    return _wrong_in_training(exam, part, model, inputs, right)


def _wrong_copy(exam: Exam, part: Part, sizes: Sizes) -> Outcome | None:
    """Carry the weights of one model over to another by the student's own methods: it must say the same."""
    specimen = whole_model(exam, part, sizes)
    if specimen is None:
        return failed("The whole model has not the tensors of its parts.", "GPT adds the tables, ln_f and the head.")
    model, weights = specimen
    inputs = exam.inputs(part, sizes, "copy")
    right = exam.reference.evaluate(part, sizes.config, weights, inputs, stand_ins=False)
    wanted = right.outputs[0]
    exam.student.call(part, model, inputs)  # what a call adds to the state must fit a model that was not called
    other = exam.student.build(part, sizes.config, stand_ins="none", interface=exam.approach(part).interface)
    exam.student.carry_over(part, model, other)
    again = first_output(exam, part, exam.student.call(part, other, inputs))
    if wanted is None or not compare(again, wanted, DEEP_TOLERANCE).ok:
        return failed(
            "state_dict() of one model, loaded into another, does not give the same logits.",
            "Leave state_dict and load_state_dict as nn.Module has them.",
        )
    return None


def _wrong_in_training(
    exam: Exam, part: Part, model: Model, inputs: dict[str, Tensor], right: Expected
) -> Outcome | None:
    """Compare what the whole model gives, and learns, in train mode."""
    trained = exam.train_call(part, model, inputs, loss=True, train=True)
    logits, wanted = first_output(exam, part, trained), right.outputs[0]
    if wanted is None or not compare(logits, wanted, DEEP_TOLERANCE).ok:
        return failed(
            "Put together, train() gives other numbers than eval().", "No dropout, in GPT's name or in a block's."
        )
    for name, gradient in right.gradients.items():
        mine = trained.gradients.get(name)
        if mine is None or not compare(mine, gradient, DEEP_GRADIENT_TOLERANCE).ok:
            return failed(
                f"Put together, {name} gets {'no' if mine is None else 'a wrong'} gradient.",
                "Something in GPT cuts or bends the graph inside its blocks: detach(), no_grad(), a hook.",
            )
    return None


def default_model(exam: Exam, part: Part) -> Model:
    """Return the whole model at the course's size, built once, for its table of tensors."""
    if exam.default_model is None:
        student, how = exam.student, exam.approach(part)
        model = student.try_build(part, exam.track.config, stand_ins="none", interface=how.interface, counted=True)
        if isinstance(model, Outcome):  # a constructor may look at what it has drawn
            model = student.build(part, exam.track.config, stand_ins="none", interface=how.interface)
        student.forget(model)
        exam.default_model = model
    return exam.default_model


def deep_sizes(exam: Exam) -> list[Sizes]:
    """Return sizes beyond those of the parts' checks: many blocks, many rows, a large vocabulary."""
    draw = exam.draws.sizes
    return [
        draw("deep", n_layer=14, n_head=2, head_dim=4, vocab_size=300, batch=6, length=5),
        draw("assembled", n_layer=2),
    ]


def whole_model(exam: Exam, part: Part, sizes: Sizes) -> tuple[Model, dict[str, Tensor]] | None:
    """Build the student's whole model with hidden weights in it; None when its names are not the contract's."""
    model = exam.student.build(part, sizes.config, stand_ins="none", interface=exam.approach(part).interface)
    shapes = full_shapes(part, exam.track, sizes.config)
    if {parameter.name: parameter.shape for parameter in model.parameters} != shapes:
        return None
    tables = exam.track.tables
    weights = exam.draws.weights("assembled", shapes, tables=tables.names)
    if tables.tied:
        weights[tables.tokens] = weights[tables.head]
    exam.student.load_weights(model, weights)
    return model, weights


def assembled(exam: Exam, results: Sequence[PartResult]) -> dict[str, Any]:
    """Return {"right", "message", "parameters", "expected_parameters", "tensors"}, for the report and no points.

    `right` is None when it could not be seen; `tensors` lists [name, expected shape, yours] where they differ.
    """
    part = exam.track.parts[-1]
    shapes = full_shapes(part, exam.track, exam.track.config)
    expected_count = count(shapes, exam.track.tables.shared)
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
        model = default_model(exam, part)
        answer |= {"parameters": model.total, "tensors": _differing(model, shapes, exam.track.tables)}
        right = all(result.verdict is Verdict.PASSED for result in results) or _agrees(exam, part)
    except Stopped as stopped:
        return {**answer, "right": False, "message": f"It does not run: {stopped.outcome.message}"}
    except ProbeFailure as failure:
        if failure.verdict is Verdict.UNGRADABLE:
            raise
        return {**answer, "right": False, "message": f"It does not run: {failure.message}"}
    counted = f"It has {model.total:,} parameters."
    if model.total != expected_count:
        first = _first_difference(answer["tensors"])
        counted = f"It has {model.total:,} parameters where {expected_count:,} are expected{first}."
    if right is None:
        sentence = "It runs; its tensors go by other names, so its numbers were compared part by part."
    elif right:
        sentence = "It gives the right numbers."
    else:
        sentence = "It does not give the right numbers yet."
    return {**answer, "right": right, "message": f"{sentence} {counted}"}


def _agrees(exam: Exam, part: Part) -> bool | None:
    """Compare the student's whole model with the reference's; None when the names do not fit."""
    sizes = deep_sizes(exam)[-1]
    specimen = whole_model(exam, part, sizes)
    if specimen is None:
        return None
    model, weights = specimen
    inputs = exam.inputs(part, sizes, "assembled")
    expected = exam.reference.evaluate(part, sizes.config, weights, inputs, stand_ins=False).outputs[0]
    output = exam.student.call(part, model, inputs).first
    return isinstance(output, Tensor) and expected is not None and compare(output, expected).ok


def _differing(model: Model, shapes: Mapping[str, Shape], tables: Tables) -> list[list[str]]:
    """Return the tensors of the default model that are missing, extra, of another shape, or not shared."""
    own = {parameter.name: parameter for parameter in model.parameters}
    rows = []
    for name in dict.fromkeys([*shapes, *own]):
        wanted = shape_text(shapes[name]) if name in shapes else "-"
        mine = shape_text(own[name].shape) if name in own else "-"
        if wanted != mine:
            rows.append([name, wanted, mine])
    table, head = own.get(tables.tokens), own.get(tables.head)
    if table is not None and head is not None and (table.group == head.group) != tables.tied:
        words = ["one tensor", "two tensors"]
        rows.append([f"{tables.tokens} and {tables.head}", *(words if tables.tied else words[::-1])])
    return rows[:100]


def _first_difference(rows: Sequence[Sequence[str]]) -> str:
    if not rows:
        return ""
    name, wanted, mine = rows[0]
    what = f"{name}: {mine}, not {wanted}"
    if "-" in (mine, wanted):
        what = f"{name} is missing" if mine == "-" else f"{name} is extra"
    more = f" (and {len(rows) - 1} more)" if len(rows) > 1 else ""
    return f": {what}{more}"
