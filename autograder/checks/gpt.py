"""Checks of the whole model's own code: tables, layers, logits. Its blocks are stand-ins (see exam.py)."""

from __future__ import annotations

from torch import Tensor

from autograder.checks.block import faint
from autograder.checks.evidence import compare, describe_difference, margin, shape_text
from autograder.checks.exam import Exam
from autograder.checks.loss import LOUD
from autograder.checks.output_patterns import pattern
from autograder.checks.outputs import (
    answered,
    draw_targets,
    extremes,
    first_output,
    mixing,
    no_tensor,
    random_output,
    value_cases,
)
from autograder.checks.registry import Outcome, Stopped, check, failed, passed
from autograder.checks.replies import Answer, Model
from autograder.checks.student import Call, must
from autograder.oracle.cases import Sizes
from autograder.probe.standins import WEIGHT_NAMES
from autograder.track import Part

#: Rounding grows with the stream, that of right code to 1e-5.
LOUD_TOLERANCE = 1e-3
AXES = ("batch row", "position", "vocabulary entry")


@check("*.layers", needs=["builds"])
def it_has_n_layer_blocks(exam: Exam, part: Part) -> Outcome:
    """It builds n_layer different blocks, for every n_layer, each time anew."""
    repeated = exam.repeated(part)
    assert repeated is not None, f"{part.name} repeats nothing: take {part.name}.layers out of the track"
    (path, used), number = repeated, part.repeat
    prefix = path.partition("{i}")[0]
    for layers in (1, 3, 2):
        sizes = exam.draws.sizes(f"layers {layers}", **{number: layers})
        model = exam.build(part, sizes)
        groups = _groups(model, used, prefix)
        if not groups:
            return failed(
                f"With {number} = {layers} no parameter of a {used.name} is found in the model.",
                f"Keep the {used.name}s in nn.ModuleList, as {prefix[:-1]}: "
                "a Python list hides them from parameters(), and one fused matrix holds none.",
                usable=False,
            )
        if len(groups) != layers:
            return failed(
                f"With {number} = {layers} the model holds {len(groups)} {used.name}s.",
                f"Build one {used.name} for each of range({'' if part.constructor else 'config.'}{number}), "
                "in a list made inside __init__.",
            )
        if len(set(groups.values())) < layers:
            return failed(
                f"With {number} = {layers} the model repeats one {used.name}: "
                f"only {len(set(groups.values()))} are different.",
                "A list times n holds the same object n times: use a list comprehension.",
                usable=True,
            )
    return passed()


def _groups(model: Model, used: Part, prefix: str) -> dict[str, tuple[int, ...]]:
    """Return, for each sub-part by its place in the model, the parameters that it holds."""
    found: dict[str, list[int]] = {}
    for parameter in model.parameters:
        place, _, leaf = parameter.name.rpartition(".")
        if leaf == WEIGHT_NAMES[used.role]:
            found.setdefault(place, []).append(parameter.group)
        elif parameter.name.startswith(prefix):  # one too many, where stand-ins were put in afterwards
            number = parameter.name.removeprefix(prefix).partition(".")[0]
            found.setdefault(prefix + number, []).append(parameter.group)
    return {place: tuple(groups) for place, groups in found.items()}


@check("gpt.shapes", needs=["builds"])
def it_returns_logits_and_loss(exam: Exam, part: Part) -> Outcome:
    """It returns (logits, loss): logits (B, T, V) at all positions, with and without targets."""
    for trial in range(2):
        sizes = exam.draws.sizes(f"gpt shapes {trial}")
        model = exam.build(part, sizes)
        inputs = exam.inputs(part, sizes, f"gpt shapes {trial}")
        for with_targets in (False, True):
            problem = _wrong_reply(exam, part, model, sizes, inputs, with_targets)
            if problem is not None:
                return problem
    return passed()


def _wrong_reply(
    exam: Exam, part: Part, model: Model, sizes: Sizes, inputs: dict[str, Tensor], with_targets: bool
) -> Outcome | None:
    try:
        if with_targets:
            given = {**inputs, "targets": draw_targets(exam, sizes, "shapes")}
            answer = exam.train_call(part, model, given)
            _warn_of_position(exam, part, model, given)
        else:
            answer = exam.student.call(part, model, inputs)
    except Stopped:
        if not with_targets:
            raise
        return None  # a loss that raises is told, and paid for, in the check of the loss
    return _wrong_answer(exam, part, sizes, answer, with_targets)


def _wrong_answer(exam: Exam, part: Part, sizes: Sizes, answer: Answer, with_targets: bool) -> Outcome | None:
    when = "With targets" if with_targets else "Without targets"
    if not answer.sequence or len(answer.outputs) != 2:
        if answer.outputs and answer.outputs[0] is None:
            return no_tensor(exam, part, None)
        return failed(
            f"{when} forward does not return the pair (logits, loss).", "End with: return logits, loss", usable=False
        )
    logits = first_output(exam, part, answer, any_shape=True)
    wanted = (sizes.batch, sizes.length, sizes.config["vocab_size"])
    if tuple(logits.shape) != wanted:
        last_only = tuple(logits.shape) == (sizes.batch, 1, wanted[2])
        flat = sizes.batch > 1 and tuple(logits.shape) == (sizes.batch * sizes.length, wanted[2])
        hint = (
            "Return logits for all T positions, also when there are no targets."
            if last_only
            else "Flatten for the loss only; return the logits as (B, T, V)."
            if flat
            else "lm_head turns (B, T, C) into (B, T, vocab_size)."
        )
        return failed(
            f"{when} the logits have shape {shape_text(logits.shape)}; expected (B, T, V) = {shape_text(wanted)}.",
            hint,
            usable=with_targets,
        )
    return None


def _warn_of_position(exam: Exam, part: Part, model: Model, given: dict[str, Tensor]) -> None:
    """Tell, for no points, when targets cannot be given by position, as training loops do."""
    try:
        exam.student.call(part, model, given)
    except Stopped:
        exam.warnings.append("forward takes targets by name only: model(idx, targets) fails.")


@check("gpt.lengths", needs=["shapes"])
def it_takes_every_length(exam: Exam, part: Part) -> Outcome:
    """It takes every batch size and every length from 1 to block_size."""
    edges = extremes(exam, part)
    results = exam.fresh_series(
        part, [(sizes, [Call(exam.inputs(part, sizes, f"gpt {label}"))]) for label, sizes in edges]
    )
    for (label, sizes), result in zip(edges, results, strict=True):
        try:
            _, (answer,) = result()
            problem = _wrong_answer(exam, part, sizes, must(answer), False)
        except Stopped as stopped:
            problem = stopped.outcome
        if problem is not None:
            return Outcome(
                problem.verdict, f"With {label}: {problem.message}", problem.look_at, problem.evidence, usable=True
            )
    _warn_of_too_long(exam, part)
    return passed()


def _warn_of_too_long(exam: Exam, part: Part) -> None:
    """Tell, for no points, when more than block_size tokens are taken without a word."""
    sizes = exam.draws.sizes("too long", length=12, block_size=11)
    _, (answer,) = exam.fresh(part, sizes, [Call(exam.inputs(part, sizes, "too long"))])
    if isinstance(answer, Outcome):
        return
    exam.warnings.append("More than block_size tokens are taken without an error: there is no position for the rest.")


@check("gpt.values", needs=["shapes", "parameters", "layers"])
def logits_are_right(exam: Exam, part: Part) -> Outcome:
    """Its logits equal the reference's under hidden weights: tables, positions, every block, final norm, head."""
    worst = 0.0
    cases = value_cases(exam, part)
    for trial, (case, (specimen, (answer,))) in enumerate(zip(cases, exam.series(part, cases), strict=True)):
        call = case.calls[0]
        inputs = call.inputs
        expected = exam.expect(specimen, inputs).outputs[0]
        assert expected is not None
        output = answered(exam, part, trial, answer)
        if output is None:
            continue
        difference = compare(output, expected)
        worst = max(worst, difference.ratio)
        if not difference.ok:
            random = random_output(exam, specimen, call, must(answer), output)
            if random is not None:
                return random
            sentence, exhibit = describe_difference(difference, AXES)
            known = exam.diagnose(specimen, inputs, output)
            if known:
                return failed(known.sentence, known.look_at, [exhibit])
            shows, means = pattern(output, expected)
            message = f"The logits are not what they should be: {f'{sentence}; {shows}' if shows else sentence}."
            return failed(
                mixing(exam, specimen, call, output) + message,
                means or "Token table plus position table, each block in turn, ln_f, lm_head.",
                [exhibit],
            )
    return _loud(exam, part) or passed(evidence=[margin(worst)])


def _loud(exam: Exam, part: Part) -> Outcome | None:
    """Compare under tables that make a stream and logits in the hundreds: nothing is clipped."""
    sizes = exam.draws.sizes("gpt loud", length=6, n_layer=2)
    specimen = exam.specimen(part, sizes, "gpt loud")
    loud = {name: specimen.weights[name] * LOUD for name in exam.track.tables.ends if name in specimen.weights}
    specimen = exam.refill(specimen, specimen.weights | loud)
    inputs = exam.inputs(part, sizes, "gpt loud")
    expected = exam.expect(specimen, inputs).outputs[0]
    assert expected is not None
    difference = compare(first_output(exam, part, exam.ask(specimen, inputs)), expected, LOUD_TOLERANCE)
    if difference.ok:
        return None
    sentence, exhibit = describe_difference(difference, AXES)
    return failed(
        f"With logits in the hundreds they go wrong: {sentence}.", "Nothing is clipped on the way.", [exhibit]
    )


@check("gpt.norm_epsilon", needs=["values"])
def final_norm_has_the_right_epsilon(exam: Exam, part: Part) -> Outcome:
    """ln_f normalises nearly constant rows with epsilon 1e-5."""
    return faint(exam, part, exam.draws.sizes("gpt faint", length=7, n_layer=1), "gpt faint")


@check("gpt.imports_cleanly", needs=["builds"])
def importing_changes_nothing_else(exam: Exam, part: Part) -> Outcome:
    """Importing the file leaves torch's global settings alone."""
    exam.join()
    if exam.student.side_effects:
        return failed(
            exam.student.side_effects[0],
            "A module defines things; leave global settings to the training script.",
            usable=True,
        )
    return passed()
