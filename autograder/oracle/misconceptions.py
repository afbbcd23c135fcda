"""The bank of known mistakes (misconceptions.toml): which one, or which two, give exactly the student's numbers.

Most show in the output. Some leave that right and show in the gradients alone: those are looked for there.
"""

from __future__ import annotations

import itertools
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Any

import torch
from torch import Tensor

from autograder.oracle.cases import Config
from autograder.oracle.fingerprints import GRADIENT_MATCH, compared, gradient_row
from autograder.oracle.variants import gradients, run


@dataclass(frozen=True)
class Misconception:
    """A mistake: the switches of variants.py that make it, what to say, and where to look."""

    part: str
    switches: tuple[tuple[str, Any], ...]
    sentence: str
    look_at: str
    shows: str = "outputs"  # or "gradients": then the output is right
    alone: bool = False  # too rare to be tried together with another

    @property
    def keys(self) -> frozenset[str]:
        return frozenset(key for key, _ in self.switches)


def _read_bank() -> tuple[Misconception, ...]:
    text = (resources.files("autograder.oracle") / "misconceptions.toml").read_text(encoding="utf-8")
    data = tomllib.loads(text)
    reread = data.pop("reread")
    return tuple(
        Misconception(
            part,
            tuple(entry["switches"].items()),
            entry["says"],
            reread[entry["reread"]],
            entry.get("shows", "outputs"),
            entry.get("alone", False),
        )
        for part, entries in data.items()
        for entry in entries
    )


BANK = _read_bank()

#: Loosest agreement that counts as a match, relative to the largest value: float32 noise is far below it, and any other
#: mistake far above.
MATCH = 1e-4

#: Gradients that a mistake moves by less than this, in units of the largest right one, are not told from right ones.
APART = 2 * GRADIENT_MATCH

#: Positions up to which pairs of mistakes are tried: there are hundreds of pairs, and attention grows with the square.
PAIR_LIMIT = 64


def recognise(
    part: str, inputs: Mapping[str, Tensor], weights: Mapping[str, Tensor], config: Config, output: Tensor
) -> tuple[Misconception, ...]:
    """Return the one mistake, or the two, under which the formulas give exactly `output`; empty when none do."""
    if torch.isnan(output).double().mean() > 0.5:
        return ()  # too little is left to tell mistakes apart
    if matches(part, (), inputs, weights, config, output):
        return ()  # two mistakes may undo each other
    singles = ((entry,) for entry in of_part(part))
    small = output.shape[1] <= PAIR_LIMIT
    for candidate in itertools.chain(singles, pairs(part) if small else ()):
        if matches(part, candidate, inputs, weights, config, output):
            return candidate
    return ()


def recognise_gradients(
    part: str,
    inputs: Mapping[str, Tensor],
    weights: Mapping[str, Tensor],
    config: Config,
    mine: Mapping[str, Tensor],
    right: Mapping[str, Tensor],
    cotangent: Tensor | None,
) -> tuple[Misconception, ...]:
    """Return the mistake, or the two, that give the gradients `mine` where `right` belongs; the output is right.

    They are of the output along `cotangent`, or of the loss where there is none.
    """
    names = compared(inputs, weights, right)
    row, wanted = gradient_row(mine, right, names), gradient_row(right, right, names)
    if row is None or wanted is None or not bool(torch.isfinite(row).all()):
        return ()
    if float((row - wanted).abs().max()) <= GRADIENT_MATCH:
        return ()  # they are right
    for candidate, predicted in gradient_rows(part, inputs, weights, config, right, cotangent):
        if float((predicted - row).abs().max()) <= GRADIENT_MATCH * float(predicted.abs().max() or 1.0):
            return candidate
    return ()


def gradient_rows(
    part: str,
    inputs: Mapping[str, Tensor],
    weights: Mapping[str, Tensor],
    config: Config,
    right: Mapping[str, Tensor],
    cotangent: Tensor | None,
) -> Iterator[tuple[tuple[Misconception, ...], Tensor]]:
    """Yield each mistake, then each two, with the gradients that they give in one row, where those are not the right
    ones."""
    names = compared(inputs, weights, right)
    wanted = gradient_row(right, right, names)
    singles = ((entry,) for entry in of_part(part, "gradients"))
    for candidate in itertools.chain(singles, pairs(part, "gradients")):
        switches = {key: value for entry in candidate for key, value in entry.switches}
        if cotangent is not None and "learns" in switches:
            continue  # of the loss alone
        try:
            given = gradients(part, inputs, weights, config, switches, cotangent)
        except (RuntimeError, KeyError, IndexError):
            continue
        row = gradient_row(given, right, names)
        if row is not None and wanted is not None and float((row - wanted).abs().max()) > APART:
            yield candidate, row


def of_part(part: str, shows: str = "outputs") -> list[Misconception]:
    return [entry for entry in BANK if entry.part == part and entry.shows == shows]


def pairs(part: str, shows: str = "outputs") -> Iterator[tuple[Misconception, ...]]:
    """Yield two mistakes at once, of those that do not touch the same thing and are not rare."""
    common = [entry for entry in of_part(part, shows) if not entry.alone]
    for first, second in itertools.combinations(common, 2):
        if not first.keys & second.keys:
            yield first, second


def matches(
    part: str,
    candidate: tuple[Misconception, ...],
    inputs: Mapping[str, Tensor],
    weights: Mapping[str, Tensor],
    config: Config,
    output: Tensor,
) -> bool:
    """Whether the formulas with these mistakes give `output`; NaN matches NaN."""
    switches = {key: value for entry in candidate for key, value in entry.switches}
    try:
        predicted = run(part, inputs, weights, config, switches)
    except (RuntimeError, KeyError, IndexError):
        return False
    if predicted.shape != output.shape:
        return False
    mine = output.double()
    if not torch.equal(torch.isnan(predicted), torch.isnan(mine)):
        return False
    predicted, mine = torch.nan_to_num(predicted), torch.nan_to_num(mine)
    scale = float(predicted.abs().max()) or 1.0
    return float((predicted - mine).abs().max()) <= MATCH * scale
