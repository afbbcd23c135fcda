"""A few figures beside each other, read once for every report: how long each bar is, and the words for it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from autograder.reports.plain import number

#: More figures than this are a table.
MOST = 12


@dataclass(frozen=True)
class Bar:
    """One figure; `share` is its length, from 0 to 1. What is no number, or below zero, has no length."""

    label: str
    value: float
    share: float


@dataclass(frozen=True)
class Bars:
    """The figures in their order; the first is the student's own."""

    bars: tuple[Bar, ...]

    def in_words(self) -> str:
        """Return what the picture says, for those who do not see it."""
        return "Bars: " + ", ".join(f"{bar.label} {number(bar.value)}" for bar in self.bars) + "."


def read_bars(data: dict[str, Any]) -> Bars:
    """Read the data of a `bars` exhibit."""
    rows = [(str(label), _value(value)) for label, value in data["rows"][:MOST]]
    top = max((value for _, value in rows if math.isfinite(value)), default=0.0)
    return Bars(tuple(Bar(label, value, _share(value, top)) for label, value in rows))


def _value(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        return math.nan


def _share(value: float, top: float) -> float:
    if value == math.inf:
        return 1.0
    return max(0.0, value / top) if math.isfinite(value) and top > 0 else 0.0
