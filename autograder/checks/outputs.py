"""What came out of a call, and the sizes to try: shared by the checks of layers and of the whole model."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial

from torch import Tensor

from autograder.checks.evidence import same, shape_text
from autograder.checks.exam import Exam, Specimen, Started
from autograder.checks.registry import Outcome, Stopped, failed
from autograder.checks.replies import Answer
from autograder.checks.series import Case
from autograder.checks.student import Call, must
from autograder.oracle.cases import Sizes
from autograder.track import Part
from autograder.verdict import Verdict

#: Inputs this many times as large: scores grow with its square, so that exp() of them overflows; a softmax does not.
LARGE = 20.0


def extremes(exam: Exam, part: Part) -> list[tuple[str, Sizes]]:
    """Return sizes at the edges: each with the words that name it."""
    draw = exam.draws.sizes
    full = draw(f"{part.name} full")
    return [
        ("T = 1", draw(f"{part.name} one", length=1)),
        ("B = 1", draw(f"{part.name} single", batch=1)),
        ("B = 1 and T = 1", draw(f"{part.name} both", batch=1, length=1)),
        ("T = block_size", Sizes(full.config, full.batch, full.config["block_size"])),
        ("n_head = 1", draw(f"{part.name} one head", n_head=1)),
        ("n_head = 3 and n_embd = 21", draw(f"{part.name} odd", n_head=3, head_dim=7)),
        ("B = 70", draw(f"{part.name} rows", batch=70, n_layer=1)),
        (
            "block_size = 300 and T = 300",
            draw(f"{part.name} long", batch=1, length=300, block_size=300, n_head=2, head_dim=4),
        ),
    ]


def value_sizes(exam: Exam, part: Part) -> list[Sizes]:
    """Return the sizes on which outputs are compared: different head counts, widths and lengths, one row, one position,
    many rows, a full block, a length beyond every default, where a window or a clamp shows, odd heads, and the width
    of a real model, where code may branch. Many rows are wide ones: in narrow ones some are nearly constant, and the
    epsilon of a LayerNorm shows, which has a check of its own. Most mistakes are told from the first: four blocks, so
    that which of them are run shows."""
    draw = exam.draws.sizes
    label = f"{part.name} values"
    return [
        draw(f"{label} 0", n_head=3, head_dim=10, length=7, n_layer=4),
        draw(f"{label} 1", n_head=5, head_dim=4, length=11, n_layer=3),
        draw(f"{label} 2", n_head=1, head_dim=12, length=9, block_size=31),
        draw(f"{label} 3", n_head=2, head_dim=6, length=14, block_size=14, batch=1),
        draw(f"{label} 4", n_head=1, head_dim=24, length=1030, block_size=1100, n_layer=1, batch=1),
        draw(f"{label} 5", length=1),
        draw(f"{label} 6", length=1, batch=1),
        draw(f"{label} 7", n_head=2, head_dim=10, length=5, batch=70, n_layer=2),
        draw(f"{label} 8", n_head=11, head_dim=5, length=8, n_layer=5),
        draw(f"{label} 9", n_head=2, head_dim=81, length=9, n_layer=1),
        draw(f"{label} 10", n_head=6, head_dim=64, length=10, n_layer=1, batch=2),
    ]


def value_cases(exam: Exam, part: Part) -> list[Case]:
    """Return a case of each of those sizes; its model stays, to be asked again where it is wrong."""
    cases = []
    for trial, sizes in enumerate(value_sizes(exam, part)):
        purpose = f"{part.name} values {trial}"
        cases.append(Case(sizes, purpose, [Call(exam.inputs(part, sizes, purpose))], keep=True))
    return cases


def first_output(exam: Exam, part: Part, answer: Answer, *, any_shape: bool = False) -> Tensor:
    """Return the first output as a plain tensor of the shape that the inputs ask for.

    Raises Stopped with the reason when it is none: code may answer rightly once, and otherwise for other numbers.
    """
    output = answer.first
    if not isinstance(output, Tensor):
        raise Stopped(no_tensor(exam, part, output))
    if tuple(output.shape) != answer.wanted and not any_shape:
        mine, wanted = shape_text(output.shape), shape_text(answer.wanted)
        raise Stopped(
            failed(f"{part.class_name}.forward returns shape {mine} here; expected {wanted}.", "Follow the shapes.")
        )
    return output


def answered(exam: Exam, part: Part, trial: int, answer: Answer | Outcome) -> Tensor | None:
    """Return the first output of a trial; None when it raises at a size for which another check took points already."""
    try:
        return first_output(exam, part, must(answer))
    except Stopped:
        sizes = exam.verdicts.get(f"{part.name}.sizes", exam.verdicts.get(f"{part.name}.lengths"))
        if trial == 0 or sizes is Verdict.PASSED:
            raise
        return None


def random_output(exam: Exam, specimen: Specimen, call: Call, answer: Answer, output: Tensor) -> Outcome | None:
    """Say that the output is random, when another seed gives another one: its numbers then mean nothing."""
    if not answer.random:
        return None
    again = exam.student.attempt(specimen.part, specimen.model, replace(call, seed=call.seed + 1))
    other = again.first if isinstance(again, Answer) else None
    if not isinstance(other, Tensor) or other.shape != output.shape or same(other, output):
        return None
    return failed(
        f"In eval mode the output of {specimen.part.class_name} is random: two equal calls give other numbers.",
        "F.dropout and dropout_p are on unless training=self.training says otherwise; the contract has no dropout.",
    )


def mixing(exam: Exam, specimen: Specimen, call: Call, output: Tensor) -> str:
    """Return a sentence when what one batch row gives depends on the other rows; else nothing."""
    alone = replace(call, inputs={name: value[:1].contiguous() for name, value in call.inputs.items()})
    answer = exam.student.attempt(specimen.part, specimen.model, alone)
    first = answer.first if isinstance(answer, Answer) else None
    if len(output) < 2 or not isinstance(first, Tensor) or first.shape != output[:1].shape or same(first, output[:1]):
        return ""
    return "Batch row 0 comes out differently when it is alone: rows of the batch must not see each other. "


def no_tensor(exam: Exam, part: Part, output: str | None) -> Outcome:
    """Say what came back instead of a tensor."""
    if output is None:
        if "forward" in exam.student.facts_of(part).unwritten:
            return Outcome(
                Verdict.NOT_ATTEMPTED,
                f"{part.class_name}.forward is not written yet (it returns None).",
                "The layers are there; now write forward.",
            )
        return failed(f"{part.class_name}.forward returns None.", "Is the return statement missing?")
    sentence = f"{part.class_name}.forward returns {output}, not a plain tensor."
    if output.startswith("a subclass of Tensor"):
        exam.student.accuse(sentence)
        return Outcome(Verdict.FORBIDDEN, sentence)
    return failed(sentence, "Return the tensor itself.")


def unchanged(after: Tensor, before: Tensor) -> bool:
    """Whether an input is as it was handed over; NaN stays NaN."""
    return after.shape == before.shape and bool(((after == before) | ((after != after) & (before != before))).all())


def wrong_outputs(exam: Exam, part: Part, cases: Sequence[tuple[Sizes, str]]) -> Iterator[Callable[[], Outcome | None]]:
    """Yield for each size and purpose a function that says what is wrong with what a fresh layer gives, but for its
    numbers, or raises Stopped."""
    inputs = [exam.inputs(part, sizes, purpose) for sizes, purpose in cases]
    results = exam.fresh_series(part, [(sizes, [Call(x)]) for (sizes, _), x in zip(cases, inputs, strict=True)])
    for (sizes, _), result, given in zip(cases, results, inputs, strict=True):
        yield partial(_wrong_output, exam, part, sizes, given, result)


def _wrong_output(exam: Exam, part: Part, sizes: Sizes, inputs: dict[str, Tensor], result: Started) -> Outcome | None:
    _, (given,) = result()
    answer = must(given)
    if answer.sequence:
        return failed(f"{part.class_name}.forward returns a tuple, not a tensor.", "Return y alone.")
    output = first_output(exam, part, answer, any_shape=True)
    taken, wanted = tuple(inputs["x"].shape), output_shape(part, sizes)
    if tuple(output.shape) != wanted:
        keeps = "It should keep the shape" if taken == wanted else f"It should be {shape_text(wanted)}"
        return failed(
            f"forward turns (B, T, C) = {shape_text(taken)} into {shape_text(output.shape)}.",
            f"{keeps}: follow it line by line; squeeze() also removes axes of size 1.",
        )
    return None  # NaN of the right shape is told by the checks of values


def output_shape(part: Part, sizes: Sizes) -> tuple[int, ...]:
    """Return the shape of what forward gives for a batch of `sizes`: (B, T, width)."""
    return sizes.batch, sizes.length, part.output_width(sizes.config)


def draw_targets(exam: Exam, sizes: Sizes, purpose: str) -> Tensor:
    return exam.draws.tokens(f"targets {purpose}", (sizes.batch, sizes.length), sizes.config["vocab_size"])
