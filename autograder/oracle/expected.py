"""What an oracle answers, live or sealed: the expected numbers of one case, and why there may be none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from torch import Tensor


@dataclass(frozen=True)
class Expected:
    """What a right model answers: float64 outputs and gradients (`input.x` and the contract's tensor names)."""

    outputs: tuple[Tensor | None, ...]
    gradients: dict[str, Tensor] = field(default_factory=dict)


class SolutionsNotFound(Exception):
    """The reference solutions are not on this machine (a student kit holds none)."""


class NotSealed(Exception):
    """A student kit holds no answer to this case: only the instructor's live oracle can judge it."""


def count(shapes: Mapping[str, tuple[int, ...]], tied: tuple[str, ...] = ()) -> int:
    """Return how many numbers are in `shapes`, leaving out the tensors in `tied`, which are shared with another."""
    total = 0
    for name, shape in shapes.items():
        if name not in tied:
            size = 1
            for side in shape:
                size *= side
            total += size
    return total
