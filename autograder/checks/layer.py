"""Checks that every layer gets: it builds, keeps the shape at every size, and gives the right numbers."""

from __future__ import annotations

from torch import Tensor

from autograder.checks.attention_pattern import CONFIG, LENGTH, pattern_evidence, patterns, question
from autograder.checks.evidence import compare, describe_difference, margin
from autograder.checks.exam import Exam
from autograder.checks.output_patterns import heads_of, pattern
from autograder.checks.outputs import (
    LARGE,
    answered,
    extremes,
    first_output,
    mixing,
    random_output,
    value_cases,
    wrong_outputs,
)
from autograder.checks.registry import Outcome, Stopped, check, failed, passed
from autograder.checks.series import Case
from autograder.checks.student import Call, must
from autograder.oracle.cases import Sizes
from autograder.oracle.expected import NotSealed
from autograder.track import Part
from autograder.verdict import Evidence, Verdict

#: Rounding of scores in the thousands moves a softmax by about 1e-3.
LARGE_TOLERANCE = 2e-2
AXES = ("batch row", "position", "channel")


@check("*.builds")
def it_builds(exam: Exam, part: Part) -> Outcome:
    """It can be built from a config."""
    facts = exam.student.facts_of(part)
    if not facts.is_class:
        return failed(
            f"{part.class_name} must be a class (nn.Module), not a function.",
            f"class {part.class_name}(nn.Module): ...",
        )
    if not facts.is_module:
        return failed(f"{part.class_name} must inherit from nn.Module.", f"class {part.class_name}(nn.Module): ...")
    if facts.empty or facts.unwritten == {"__init__", "forward"}:
        return Outcome(
            Verdict.NOT_ATTEMPTED,
            f"{part.class_name} is not written yet.",
            f"Fill in {part.class_name} in {facts.file}.",
        )
    how = exam.approach(part)
    for trial in range(2):
        model = exam.build(part, exam.draws.sizes(f"builds {trial}"))
        if model.shared and not part.takes_tokens:  # of the whole model, other checks tell
            return failed(
                f"Two {part.class_name} objects share parameters: what one learns, the other forgets.",
                "Build every layer inside __init__: not in a default argument, at the top of the file, or in a cache.",
                usable=True,
            )
        if model.misled:
            return failed(
                f"In {part.class_name}, {model.misled[0]}.",
                "Hand the config on as it came: no default, no other one."
                if not part.constructor
                else "Hand the numbers on as they came, each under its own name.",
                usable=True,
            )
        if model.hidden:
            name = model.hidden[0]
            return failed(
                f"{part.class_name}.{name} is not a method: it hides nn.Module's {name}(), which every script calls.",
                f"Call the attribute something else than {name}.",
                usable=True,
            )
        if model.config_changed:
            return failed(
                f"{part.class_name}.__init__ changes config.{model.config_changed[0]}.",
                "The caller keeps the config for the next model: read it, do not write to it.",
                usable=True,
            )
    if how.interface != part.interface:
        arguments = ", ".join(exam.student.constructor_arguments(part, exam.track.config) or [])
        return _interface_differs(part, arguments)
    mine = [name for name in model.signature if name in part.constructor]
    if mine != [name for name in part.constructor if name in mine]:
        return _interface_differs(part, ", ".join(mine))
    return passed()


def _interface_differs(part: Part, arguments: str) -> Outcome:
    wanted = f"({', '.join(part.constructor)}), in this order" if part.constructor else "the config object"
    return failed(
        f"Interface differs: {part.class_name} takes ({arguments}); it should take {wanted}.",
        "Name and order the arguments as the stub does."
        if part.constructor
        else "Read n_embd, n_head and the rest from config inside __init__.",
        usable=True,
    )


@check("*.shapes", needs=["builds"])
def it_keeps_the_shape(exam: Exam, part: Part) -> Outcome:
    """(B, T, C) in, (B, T, C) out."""
    purposes = [f"{part.name} shapes {trial}" for trial in range(2)]
    for wrong in wrong_outputs(exam, part, [(exam.draws.sizes(purpose), purpose) for purpose in purposes]):
        problem = wrong()
        if problem is not None:
            return problem
    return passed()


@check("*.sizes", needs=["shapes"])
def it_takes_every_size(exam: Exam, part: Part) -> Outcome:
    """It takes every batch size and every length from 1 to block_size."""
    edges = extremes(exam, part)
    results = wrong_outputs(exam, part, [(sizes, f"{part.name} {label}") for label, sizes in edges])
    for (label, _), wrong in zip(edges, results, strict=True):
        try:
            problem = wrong()
        except Stopped as stopped:
            problem = stopped.outcome
        if problem is not None:
            return Outcome(
                problem.verdict, f"With {label}: {problem.message}", problem.look_at, problem.evidence, usable=True
            )
    return passed()


@check("*.values", needs=["shapes", "parameters"])
def it_gives_the_right_numbers(exam: Exam, part: Part) -> Outcome:
    """Its output equals the reference's under hidden weights and inputs."""
    worst = 0.0
    cases = value_cases(exam, part)
    for trial, (case, (specimen, (answer,))) in enumerate(zip(cases, exam.series(part, cases), strict=True)):
        call = case.calls[0]
        inputs = call.inputs
        expected = exam.expect(specimen, inputs)
        output = answered(exam, part, trial, answer)
        if output is None:
            continue
        difference = compare(output, _tensor(expected.outputs[0]))
        worst = max(worst, difference.ratio)
        if not difference.ok:
            random = random_output(exam, specimen, call, must(answer), output)
            if random is not None:
                return random
            sentence, exhibit = describe_difference(difference, AXES)
            pictures = _pictures(exam, part)
            known = exam.diagnose(specimen, inputs, output)
            if known:
                return failed(known.sentence, known.look_at, [exhibit, *pictures])
            heads = heads_of(part.in_bank_names(specimen.weights), case.sizes.config["n_head"])
            shows, means = pattern(output, _tensor(expected.outputs[0]), heads=heads)
            sentence = f"{sentence}; {shows}" if shows else sentence
            message = f"The output is not what {part.class_name} should give: {sentence}."
            return failed(
                mixing(exam, specimen, call, output) + message,
                means or f"Compare your forward with the formula of {part.class_name} step by step.",
                [exhibit, *pictures],
            )
    return _large(exam, part) or passed(evidence=[margin(worst)])


def _pictures(exam: Exam, part: Part) -> list[Evidence]:
    """Return the attention pattern of a wrong attention, where it can be had; nothing for other parts."""
    if list(part.parameters) != ["c_attn.weight", "c_attn.bias", "c_proj.weight", "c_proj.bias"]:
        return []
    sizes = Sizes(CONFIG, 1, LENGTH)
    weights, x = question(exam.draws)
    try:
        specimen = exam.refill(exam.specimen(part, sizes, "pattern"), weights)
        output = first_output(exam, part, exam.student.call(part, specimen.model, {"x": x}))
    except (Stopped, NotSealed):
        return []  # at this size it does not run: another check tells. Or a kit cannot tell what is called what
    found = patterns(output)
    return [] if found is None else [pattern_evidence(found, 0)]


def _large(exam: Exam, part: Part) -> Outcome | None:
    """Compare under inputs twenty times as large: right code stays finite, and nothing is clipped."""
    sizes = exam.draws.sizes(f"{part.name} large", length=7)
    inputs = exam.inputs(part, sizes, f"{part.name} large", LARGE)
    specimen, (answer,) = exam.trial(part, Case(sizes, f"{part.name} large", [Call(inputs)]))
    expected = exam.expect(specimen, inputs).outputs[0]
    output = first_output(exam, part, must(answer))
    difference = compare(output, _tensor(expected), LARGE_TOLERANCE)
    if difference.ok:
        return None
    sentence, exhibit = describe_difference(difference, AXES)
    return failed(
        f"With inputs {LARGE:.0f} times as large the output goes wrong: {sentence}.",
        "Nothing here clips or overflows: leave exp() to softmax, and the stream as it is.",
        [exhibit],
    )


def _tensor(value: Tensor | None) -> Tensor:
    assert value is not None
    return value
