"""Prints of known mistakes: a few numbers each, from which a mistake is recognised but its formula is not told.

A print is the output's product with rows of random signs. Outputs that agree to rounding have prints that do; others
differ in each of the numbers.
"""

from __future__ import annotations

import json
import math
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import torch
from torch import Tensor

#: Numbers of a print: two mistakes agree in all of them by chance once in 10^20.
WIDTH = 6
#: Agreement of two prints, relative to the largest value of the output: rounding in float32 stays below 5e-6.
MATCH = 3e-5
#: The same of gradients, which go through more operations.
GRADIENT_MATCH = 2e-4


#: Where they are one matrix under two names, its gradient goes by the second.
TABLE, HEAD = "transformer.wte.weight", "lm_head.weight"


@dataclass(frozen=True)
class Known:
    """A mistake by its words: what to say, and where to look."""

    sentence: str
    look_at: str


def print_of(output: Tensor) -> tuple[Tensor, int]:
    """Return the print of `output` (WIDTH numbers and the largest value), and a checksum of its shape and NaNs."""
    nan = torch.isnan(output)
    values = torch.nan_to_num(output.double()).reshape(-1)
    largest = float(values.abs().max()) if values.numel() else 0.0
    product = _signs(values.numel()) @ values / math.sqrt(max(values.numel(), 1))
    shape = json.dumps(list(output.shape)).encode()
    return torch.cat([product, torch.tensor([largest or 1.0])]), zlib.crc32(nan.numpy().tobytes(), zlib.crc32(shape))


def gradient_row(gradients: Mapping[str, Tensor], right: Mapping[str, Tensor], names: Iterable[str]) -> Tensor | None:
    """Return the gradients called `names` in one row, in units of the largest right number of each; a missing one is 0.

    None when one has another shape: it is of another model.
    """
    pieces = []
    for name in sorted(names):
        wanted = right[name].double()
        size = float(wanted.abs().max()) if wanted.numel() else 0.0
        mine = gradients.get(name, torch.zeros_like(wanted)).double()
        if mine.shape != wanted.shape or size < 1e-9:  # what is right at zero tells nothing apart
            if size >= 1e-9:
                return None
            continue
        pieces.append(mine.reshape(-1) / size)
    return torch.cat([torch.zeros(0, dtype=torch.float64), *pieces])


def compared(inputs: Mapping[str, Tensor], weights: Mapping[str, Tensor], right: Mapping[str, Tensor]) -> list[str]:
    """Return the names of the gradients that are looked at; a tied table goes by the head's name alone."""
    names = [f"input.{name}" for name, value in inputs.items() if value.is_floating_point()] + list(weights)
    tied = HEAD in right and one_matrix(weights)
    return [name for name in names if name in right and not (name == TABLE and tied)]


def one_matrix(weights: Mapping[str, Tensor]) -> bool:
    """Whether table and head are tied: they hold the same numbers, which two that were drawn apart never do."""
    table, head = weights.get(TABLE), weights.get(HEAD)
    return table is not None and head is not None and torch.equal(table, head)


@cache
def _signs(count: int) -> Tensor:
    drawn = np.random.Generator(np.random.PCG64(count)).integers(0, 2, size=(WIDTH, count))
    return torch.from_numpy(drawn * 2.0 - 1.0)


def pack(found: Sequence[tuple[tuple[int, ...], Tensor]]) -> dict[str, Tensor]:
    """Pack what mistakes (numbers of entries; none: the right answer) give, in the order in which to try them."""
    entries, prints, masks = [], [], []
    for numbers, output in found:
        row, mask = print_of(output)
        entries.append([*numbers, -1, -1][:2])
        prints.append(row)
        masks.append(mask)
    return {
        "entries": torch.tensor(entries, dtype=torch.int16),
        "print": torch.stack(prints).to(torch.float32),
        "mask": torch.tensor(masks, dtype=torch.int64),
    }


def matching(prints: Mapping[str, Tensor], output: Tensor, match: float = MATCH) -> tuple[int, ...]:
    """Return the numbers of the one mistake, or the two, whose print is that of `output`; empty when none is."""
    row, mask = print_of(output)
    kept = prints["print"].double()
    near = (kept[:, :WIDTH] - row[:WIDTH]).abs().amax(dim=1) <= match * kept[:, WIDTH]
    hits = (near & (prints["mask"] == mask)).nonzero().flatten().tolist()
    if not hits:
        return ()
    return tuple(number for number in prints["entries"][hits[0]].tolist() if number >= 0)


def said(words: Sequence[Mapping[str, str]], numbers: Sequence[int]) -> Iterator[Known]:
    """Yield the words for the mistakes called `numbers`."""
    for number in numbers:
        yield Known(words[number]["says"], words[number]["look_at"])
