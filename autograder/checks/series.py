"""The cases of an exam, and which of them go to the child in one request."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from autograder.checks.student import Call
from autograder.oracle.cases import Sizes

#: Tokens of a batch that goes in a request of its own.
LARGE_BATCH = 500


@dataclass(frozen=True)
class Case:
    """A model with hidden weights of its own purpose, and the calls to make of it."""

    sizes: Sizes
    purpose: str
    calls: Sequence[Call]
    scale: float = 1.0
    keep: bool = False  # whether the model stays, for more calls


def batches(cases: Sequence[Case]) -> Iterator[list[Case]]:
    """Yield neighbours that are small together, and each large one alone: a request has a time limit."""
    batch: list[Case] = []
    for case in cases:
        if batch and (_is_large(case.sizes) or _is_large(batch[-1].sizes)):
            yield batch
            batch = []
        batch.append(case)
    if batch:
        yield batch


def _is_large(sizes: Sizes) -> bool:
    return sizes.batch * sizes.length > LARGE_BATCH
