"""Prints of known mistakes: a few numbers each, from which a mistake is recognised but its formula is not told.

A print is the output's product with rows of random signs. Outputs that agree to rounding have prints that do; others
differ in each of the numbers.
"""

from __future__ import annotations

import json
import math
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import torch
from torch import Tensor

#: Numbers of a print: two mistakes agree in all of them by chance once in 10^20.
WIDTH = 6
#: Agreement of two prints, relative to the largest value of the output: rounding in float32 stays below 5e-6.
MATCH = 3e-5


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


def matching(prints: Mapping[str, Tensor], output: Tensor) -> tuple[int, ...]:
    """Return the numbers of the one mistake, or the two, whose print is that of `output`; empty when none is."""
    row, mask = print_of(output)
    kept = prints["print"].double()
    near = (kept[:, :WIDTH] - row[:WIDTH]).abs().amax(dim=1) <= MATCH * kept[:, WIDTH]
    hits = (near & (prints["mask"] == mask)).nonzero().flatten().tolist()
    if not hits:
        return ()
    return tuple(number for number in prints["entries"][hits[0]].tolist() if number >= 0)


def said(words: Sequence[Mapping[str, str]], numbers: Sequence[int]) -> Iterator[Known]:
    """Yield the words for the mistakes called `numbers`."""
    for number in numbers:
        yield Known(words[number]["says"], words[number]["look_at"])
