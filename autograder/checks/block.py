"""Checks of the Block beyond those of every layer: the epsilon inside its LayerNorms."""

from __future__ import annotations

from autograder.checks.evidence import compare, numbers
from autograder.checks.exam import Exam
from autograder.checks.outputs import first_output
from autograder.checks.registry import Outcome, check, failed, passed
from autograder.oracle.cases import Sizes
from autograder.probe.standins import STAND_IN
from autograder.track import Part

#: Standard deviation of nearly constant rows: their variance is near 1e-5, so the epsilon decides what comes out.
FAINT = 2e-3
#: An epsilon of 1e-6 for 1e-5 moves outputs of these rows by half; right code stays below 1e-4.
FAINT_TOLERANCE = 2e-3


@check("block.norm_epsilon", needs=["values"])
def faint_rows_are_normalised_right(exam: Exam, part: Part) -> Outcome:
    """Rows that are nearly constant are normalised with epsilon 1e-5."""
    sizes = exam.draws.sizes("faint", length=7)
    return faint(exam, part, sizes, "block faint")


def faint(exam: Exam, part: Part, sizes: Sizes, purpose: str) -> Outcome:
    """Compare outputs where every LayerNorm sees rows of variance near its epsilon: small inputs, small weights."""
    specimen = exam.specimen(part, sizes, purpose)
    small = {}
    for name, value in specimen.weights.items():
        leaf = name.rsplit(".", 1)[-1]
        table = name in exam.track.tables.names
        keep = value.dim() == 1 and leaf == "weight"
        small[name] = value if keep else value * (FAINT if table or leaf.startswith(STAND_IN) else 0.01)
    specimen = exam.refill(specimen, small)
    inputs = exam.inputs(part, sizes, purpose, FAINT)
    expected = exam.expect(specimen, inputs).outputs[0]
    assert expected is not None
    output = first_output(exam, part, exam.ask(specimen, inputs))
    difference = compare(output, expected, FAINT_TOLERANCE)
    if difference.ok:
        return passed()
    return failed(
        "LayerNorm's epsilon is not 1e-5 inside the square root: nearly constant rows come out differently.",
        "Use nn.LayerNorm as it is, or (x - mean) / sqrt(var + 1e-5) with the biased variance.",
        [numbers("On rows with a variance near 1e-5", largest_relative_difference=difference.ratio)],
    )
