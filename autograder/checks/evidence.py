"""Shared measurements: how far two tensors differ and where, the influence matrix, tables for the report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from autograder.catalogue import word
from autograder.verdict import Evidence

#: Largest allowed |actual - expected| over the largest |expected| of a tensor, for float32 results against the float64
#: reference: between the largest error of right code and the smallest of wrong code. `make mutants` prints both.
TOLERANCE = 3e-5
#: Gradients add up over the batch and go through more operations.
GRADIENT_TOLERANCE = 2e-4


#: Row of the exhibits that says how near a comparison was; `make mutants` reads it from both sides.
MARGIN = "largest relative difference"


@dataclass(frozen=True)
class Difference:
    """How an actual tensor differs from the expected one. `ratio` is in units of the largest expected magnitude."""

    ratio: float
    actual: Tensor
    expected: Tensor
    wrong: Tensor  # bool, same shape
    note: str = ""

    @property
    def ok(self) -> bool:
        return not bool(self.wrong.any())


def compare(actual: Tensor, expected: Tensor, tolerance: float = TOLERANCE) -> Difference:
    """Compare two tensors; NaN counts as infinitely wrong, and so does every number of another shape."""
    if actual.shape != expected.shape:
        return Difference(torch.inf, actual.double(), expected.double(), torch.ones(1, dtype=torch.bool))
    a, e = actual.double(), expected.double()
    if not e.numel():
        return Difference(0.0, a, e, torch.zeros_like(e, dtype=torch.bool))
    scale = max(float(e.abs().max()), 1e-12)
    error = (a - e).abs()
    largest = float(error.max()) / scale
    if largest <= tolerance:  # nearly always; NaN is no such number
        return Difference(largest, a, e, torch.zeros((), dtype=torch.bool).expand(e.shape))
    error = error / scale
    error = torch.where(torch.isfinite(error), error, torch.inf)
    return Difference(float(error.max()), a, e, error > tolerance)


def describe_difference(difference: Difference, axes: Sequence[str]) -> tuple[str, Evidence]:
    """Return one sentence (how far, how much of it, where) and the numbers behind it."""
    if difference.actual.shape != difference.expected.shape:
        mine, wanted = shape_text(difference.actual.shape), shape_text(difference.expected.shape)
        return f"its shape is {mine} instead of {wanted}", numbers("Shape", yours=mine, expected=wanted)
    wrong, where = difference.wrong, _worst(difference)
    share = float(wrong.double().mean())
    spot = ", ".join(f"{axis} {index}" for axis, index in zip(axes, where, strict=False))
    a, e = float(difference.actual[where]), float(difference.expected[where])
    if bool(torch.isnan(difference.actual).any()):
        sentence = f"{_percent(float(torch.isnan(difference.actual).double().mean()))} of the values are NaN"
    else:
        digits = next((n for n in (4, 7) if f"{a:.{n}g}" != f"{e:.{n}g}"), 10)
        sentence = f"{_percent(share)} of the values differ, most at {spot} ({a:.{digits}g} instead of {e:.{digits}g})"
    pattern = _pattern(wrong, axes)
    rows = [
        ["largest difference", f"{abs(a - e):.4g}"],
        [word("at"), spot],
        ["yours", f"{a:.6g}"],
        ["expected", f"{e:.6g}"],
        ["values that differ", _percent(share)],
        [MARGIN, f"{difference.ratio:.3g}"],
    ]
    if pattern:
        rows.append([word("pattern"), pattern])
    return sentence + (f"; {pattern}" if pattern else ""), Evidence("numbers", "Where it differs", {"rows": rows})


def same(first: Tensor, second: Tensor, tolerance: float = 1e-6) -> bool:
    """Whether two answers of the same code are equal; NaN equals NaN here, since its own check tells of it."""
    if first.shape != second.shape:
        return False
    return compare(torch.nan_to_num(first), torch.nan_to_num(second), tolerance).ok


def _worst(difference: Difference) -> tuple[int, ...]:
    error = (difference.actual - difference.expected).abs()
    error = torch.where(torch.isfinite(error), error, torch.inf)
    flat = int(error.argmax())
    return tuple(int(index) for index in torch.unravel_index(torch.tensor(flat), error.shape))


def _percent(share: float) -> str:
    return word("all") if share == 1.0 else f"{100 * share:.0f} %" if share >= 0.01 else f"{100 * share:.2g} %"


def _pattern(wrong: Tensor, axes: Sequence[str]) -> str:
    """Say along which axis the wrong values keep to some places only: "only position 0", "positions 3 to 6"."""
    found = []
    for axis, name in enumerate(axes[: wrong.dim()]):
        others = tuple(d for d in range(wrong.dim()) if d != axis)
        hit = wrong.any(dim=others) if others else wrong
        count, size = int(hit.sum()), hit.numel()
        if 0 < count < size and name != "channel":
            places = hit.nonzero().flatten().tolist()
            if count == 1:
                found.append(f"only {name} {places[0]}")
            elif places[-1] - places[0] + 1 == count:
                found.append(f"only {name}s {places[0]} to {places[-1]}")
            elif count == size - 1:
                right = next(index for index in range(size) if index not in places)
                found.append(f"every {name} but {right}")
    return ", ".join(found)


def influence_by_touch(outputs: Tensor) -> Tensor:
    """Return the T x T influence matrix from outputs (T+1, T, C): at (i, j) how far output i moves when input j does.

    Batch row 0 is untouched; batch row j+1 had position j changed.
    """
    moved = (outputs[1:].double() - outputs[:1].double()).abs().amax(dim=-1)  # (T touched, T outputs)
    return torch.where(torch.isfinite(moved), moved, torch.inf).transpose(0, 1)


def influence_by_gradient(gradient: Tensor) -> Tensor:
    """Return the T x T matrix of |d output i / d input j| from the gradient (T, T, C) of batch row i's output i."""
    size = gradient.double().abs().amax(dim=-1)
    return torch.where(torch.isfinite(size), size, torch.inf)


def future_leaks(matrix: Tensor, threshold: float = 1e-6) -> list[tuple[int, int]]:
    """Return pairs (output position, later input position that it sees), strongest first."""
    scale = max(float(matrix[torch.isfinite(matrix)].max()) if torch.isfinite(matrix).any() else 0.0, 1e-12)
    pairs = [
        (i, j)
        for i in range(len(matrix))
        for j in range(i + 1, matrix.shape[1])
        if float(matrix[i, j]) > threshold * scale
    ]
    return sorted(pairs, key=lambda pair: -float(matrix[pair]))


def influence_evidence(matrix: Tensor, title: str) -> Evidence:
    """Return the influence matrix as an exhibit."""
    finite = torch.nan_to_num(matrix, posinf=1e9)
    return Evidence(
        "matrix",
        title,
        {
            "rows": [[round(float(value), 6) for value in row] for row in finite],
            "row_label": "output position",
            "column_label": "input position",
            "empty_above_diagonal": True,
        },
    )


def table(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> Evidence:
    return Evidence("table", title, {"columns": list(columns), "rows": [[str(cell) for cell in row] for row in rows]})


def numbers(title: str, **values: object) -> Evidence:
    """Return named figures as an exhibit; underscores in names become spaces."""
    rows = [
        [name.replace("_", " "), f"{value:.6g}" if isinstance(value, float) else str(value)]
        for name, value in values.items()
    ]
    return Evidence("numbers", title, {"rows": rows})


def bars(title: str, rows: Sequence[tuple[str, float]]) -> Evidence:
    """Return figures to be seen beside each other as an exhibit, the student's own first."""
    return Evidence("bars", title, {"rows": [[name, round(value, 6)] for name, value in rows]})


def margin(ratio: float) -> Evidence:
    """Return how far a result is from the reference's at most, in units of the largest expected magnitude."""
    return Evidence("numbers", "Against the reference", {"rows": [[MARGIN, f"{ratio:.3g}"]]})


def shape_text(shape: Sequence[int]) -> str:
    """Return "(3, 7, 12)"."""
    return f"({', '.join(str(side) for side in shape)}{',' if len(shape) == 1 else ''})"
