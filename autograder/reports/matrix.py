"""The T x T influence matrix, read once for every report: strength of each cell, leaks, and the words for it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

#: Six decades below the largest influence still show: a mask of -1e4 leaks far less than it lets through.
DECADES = 6.0
#: Larger matrices are cut to their first rows and columns, where a leak shows as well as anywhere.
LARGEST = 64


@dataclass(frozen=True)
class Cell:
    """One influence: of input position `column` on output position `row`."""

    row: int
    column: int
    value: float
    strength: float  # 0 when there is no influence, else from 0.15 to 1, on a logarithmic scale or a linear one
    must_be_empty: bool

    @property
    def leak(self) -> bool:
        return self.must_be_empty and self.strength > 0


@dataclass(frozen=True)
class Matrix:
    """The matrix as it is drawn, at most LARGEST rows and columns."""

    cells: tuple[tuple[Cell, ...], ...]
    row_label: str
    column_label: str
    has_empty_region: bool
    cut_from: int  # the number of rows that there were

    @property
    def columns(self) -> int:
        return max((len(row) for row in self.cells), default=0)

    @property
    def leaks(self) -> list[Cell]:
        """The cells that should be empty and are not, strongest first."""
        found = [cell for row in self.cells for cell in row if cell.leak]
        return sorted(found, key=lambda cell: (-cell.strength, cell.row, cell.column))

    def in_words(self) -> str:
        """Return what the picture says, for those who do not see it."""
        size = (
            f"{len(self.cells)} by {self.columns} matrix: rows are {self.row_label}, columns are {self.column_label}."
        )
        if self.cut_from > len(self.cells):
            size += f" The first {len(self.cells)} of {self.cut_from} rows are shown."
        if not self.has_empty_region:
            return size
        total = sum(cell.must_be_empty for row in self.cells for cell in row)
        leaks = self.leaks
        if not leaks:
            return f"{size} All {total} cells above the diagonal are empty, as they must be."
        named = ", ".join(f"row {cell.row} column {cell.column}" for cell in leaks[:5])
        more = " and more" if len(leaks) > 5 else ""
        return f"{size} Above the diagonal {len(leaks)} of {total} cells that must be empty are not: {named}{more}."


def read_matrix(data: dict[str, Any]) -> Matrix:
    """Read the data of a `matrix` exhibit. Not a number counts as full influence: it certainly is not nothing."""
    rows: Sequence[Sequence[Any]] = data["rows"]
    values = [[_magnitude(value) for value in row[:LARGEST]] for row in rows[:LARGEST]]
    finite = [value for row in values for value in row if math.isfinite(value)]
    top = max(finite, default=0.0)
    triangle = bool(data.get("empty_above_diagonal"))
    strength = _linear if data.get("linear") else _strength
    cells = tuple(
        tuple(Cell(i, j, value, strength(value, top), triangle and j > i) for j, value in enumerate(row))
        for i, row in enumerate(values)
    )
    row_label, column_label = str(data.get("row_label", "rows")), str(data.get("column_label", "columns"))
    return Matrix(cells, row_label, column_label, triangle, len(rows))


def _magnitude(value: Any) -> float:
    try:
        return abs(float(value))
    except (TypeError, ValueError):
        return math.nan


def _linear(value: float, top: float) -> float:
    if not math.isfinite(value) or value == 0 or top == 0:
        return _strength(value, top)
    return max(0.15, value / top)


def _strength(value: float, top: float) -> float:
    if value == 0:
        return 0.0
    if not math.isfinite(value) or top == 0:
        return 1.0
    return min(1.0, max(0.15, 1 + math.log10(value / top) / DECADES))
