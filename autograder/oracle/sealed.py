"""The sealed oracle of a student kit: answers from stored cases, where no solution and no bank of mistakes is.

In a kit these two take the places of `reference.Reference` and `misconceptions.recognise`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import torch
from torch import Tensor

from autograder.oracle.case_key import expected_key, gradient_mistake_key, mistake_key
from autograder.oracle.cases import Config
from autograder.oracle.expected import Expected, NotSealed, SolutionsNotFound
from autograder.oracle.fingerprints import GRADIENT_MATCH, Known, compared, gradient_row, matching, said
from autograder.oracle.released import Released, released
from autograder.oracle.sealed_file import Reader
from autograder.track import Part, Track

#: The matrix of the output layer, where a part has one.
HEAD = "lm_head.weight"


def find_solutions(_: Track | None = None) -> Path:
    """Raise SolutionsNotFound: that is what a student kit is."""
    raise SolutionsNotFound("this is a student kit, which holds no solutions")


def _kit() -> Released:
    kit = released()
    if kit is None:
        raise SolutionsNotFound("no sealed cases came with this kit: unpack or install it again")
    return kit


@cache
def _readers() -> tuple[Reader, ...]:
    kit = _kit()
    return tuple(Reader(kit.file(seed)) for seed in kit.seeds)


@cache
def _words() -> list[dict[str, str]]:
    words: list[dict[str, str]] = json.loads((_kit().folder / "mistakes.json").read_text(encoding="utf-8"))
    return words


class SealedReference:
    """Looks up what the reference of one track gave. Has the questions of `reference.Reference` that checks ask."""

    def __init__(self, track: Track) -> None:
        self.track = track
        self._answers = _readers()

    def evaluate(
        self,
        part: Part,
        config: Config,
        weights: Mapping[str, Tensor],
        inputs: Mapping[str, Tensor],
        *,
        stand_ins: bool = True,
        cotangent: Tensor | None = None,
        loss: bool = False,
    ) -> Expected:
        """Return outputs and gradients in float64. Raises NotSealed for a case that was not written down."""
        key = expected_key(part.name, config, weights, inputs, stand_ins=stand_ins, cotangent=cotangent, loss=loss)
        for answers in self._answers:
            found = answers.expected(key, weights.get(HEAD))
            if found is not None:
                return found
        raise NotSealed(f"no answer is stored for {part.class_name} with {sorted(weights)}")


def recognise(
    part: str, inputs: Mapping[str, Tensor], weights: Mapping[str, Tensor], config: Config, output: Tensor
) -> tuple[Known, ...]:
    """Return the one known mistake, or the two, that give `output` by its print; empty when none does."""
    if torch.isnan(output).double().mean() > 0.5:
        return ()  # too little is left to tell mistakes apart
    key = mistake_key(part, config, weights, inputs)
    for answers in _readers():
        prints = answers.prints(key)
        if prints is not None:
            return tuple(said(_words(), matching(prints, output)))
    return ()


def recognise_gradients(
    part: str,
    inputs: Mapping[str, Tensor],
    weights: Mapping[str, Tensor],
    config: Config,
    mine: Mapping[str, Tensor],
    right: Mapping[str, Tensor],
    cotangent: Tensor | None,
) -> tuple[Known, ...]:
    """Return the known mistake, or the two, that give the gradients `mine` by their print; empty when none does."""
    row = gradient_row(mine, right, compared(inputs, weights, right))
    if row is None or not bool(torch.isfinite(row).all()):
        return ()
    key = gradient_mistake_key(part, config, weights, inputs, cotangent)
    for answers in _readers():
        prints = answers.prints(key)
        if prints is not None:
            return tuple(said(_words(), matching(prints, row, GRADIENT_MATCH)))
    return ()
