"""The file of one released seed: expected numbers and prints of known mistakes, as safetensors, never pickle.

    "d", "f"               all numbers in one row, float64 or, of large tensors, float32; equal tensors are kept once
    "<key>/print", ...     the prints of the mistakes of a case (fingerprints.py)
    metadata "index"       JSON: key -> [label, shape, pieces] of each tensor; label is "out 0" or a gradient's name

The pieces, [row, offset, length], of a tensor are added up, shorter ones along its last axes: an output without its
last bias is the output with it and one vector. Pieces "hd" and "hf" are multiplied by the head's matrix first: logits
are that product.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import torch
from safetensors import safe_open
from safetensors.torch import save
from torch import Tensor

from autograder.oracle.expected import Expected

#: Tensors of more numbers than this are kept in float32, with BITS_LARGE of its 24 bits: the rounding is sixty times
#: below any tolerance, and zeros pack well. Of gradients no figure is shown that would need more.
LARGE, LARGE_GRADIENT = 1_500, 300
#: Bits of a float64 that are kept, of 53. Two runs differ in the last bit here and there (memory lies elsewhere,
#: another order of additions). Of a hundred thousand numbers one then falls on the other side of a step of 2^-36; of
#: 2^-28, one in some hundred builds. That is sixteen times below the rounding of a student's float32.
BITS = 28
BITS_LARGE = 21
#: Two sums of the same terms in another order differ by less than this, relative to the largest.
SAME = 1e-12
#: Logits that are a product with the head are one to this, relative to the largest.
PRODUCT = 1e-11

Piece = tuple[str, int, int]


def rounded(tensor: Tensor, bits: int = BITS) -> Tensor:
    """Return the float64 `tensor` with all but the first `bits` bits of each number rounded away."""
    mantissa, exponent = torch.frexp(tensor.double())
    return torch.ldexp((mantissa * 2.0**bits).round() * 2.0**-bits, exponent)


@dataclass
class Writer:
    """Collects the answers of one seed; `data` gives the file, the same bytes for the same answers."""

    index: dict[str, list[list[Any]]] = field(default_factory=dict)
    prints: dict[str, Tensor] = field(default_factory=dict)
    _rows: dict[str, list[Tensor]] = field(default_factory=lambda: {"d": [], "f": []})
    _lengths: dict[str, int] = field(default_factory=lambda: {"d": 0, "f": 0})
    _kept: dict[str, Piece] = field(default_factory=dict)

    def add(
        self, key: str, expected: Expected, head: Tensor | None = None, others: Mapping[str, Expected] | None = None
    ) -> None:
        """Keep an answer; one that is there already stays.

        `head` (V, C) is the matrix that makes logits; `others` are answers by their keys that may differ by a vector.
        """
        if key in self.index:
            return
        layout: list[list[Any]] = []
        for place, value in enumerate(expected.outputs):
            pieces = [] if value is None else self._output(place, value, head, others or {})
            layout.append([f"out {place}", None if value is None else list(value.shape), pieces])
        for name, value in expected.gradients.items():
            layout.append([name, list(value.shape), [self._keep(value, LARGE_GRADIENT)]])
        self.index[key] = layout

    def add_prints(self, key: str, prints: Mapping[str, Tensor]) -> None:
        """Keep the prints of a case."""
        self.prints |= {f"{key}/{name}": value for name, value in prints.items()}

    def has_prints(self, key: str) -> bool:
        return f"{key}/print" in self.prints

    def data(self) -> bytes:
        """Return the bytes of the file."""
        rows = {row: torch.cat([torch.zeros(0), *pieces]) for row, pieces in self._rows.items()}
        tensors = self.prints | {"d": rows["d"].double(), "f": rows["f"].float()}
        index = json.dumps(self.index, sort_keys=True, separators=(",", ":"))
        return bytes(save({name: tensors[name].contiguous() for name in sorted(tensors)}, metadata={"index": index}))

    def _output(self, place: int, value: Tensor, head: Tensor | None, others: Mapping[str, Expected]) -> list[Piece]:
        for key, other in others.items():
            base = other.outputs[place]
            if base is None or base.shape != value.shape or value.dim() < 2:
                continue
            apart = (value - base).reshape(-1, value.shape[-1])
            if float((apart - apart[:1]).abs().max()) <= SAME * float(value.abs().max()):
                return [*self.index[key][place][2], self._keep(apart[0])]
        if head is not None and place == 0 and value.shape[-1] == len(head) > head.shape[1]:
            hidden = torch.linalg.lstsq(head.double(), value.reshape(-1, len(head)).T).solution.T  # (B*T, C)
            if float((hidden @ head.double().T - value.reshape(-1, len(head))).abs().max()) <= PRODUCT * float(
                value.abs().max()
            ):
                row, offset, length = self._keep(hidden)
                return [("h" + row, offset, length)]
        return [self._keep(value)]

    def _keep(self, value: Tensor, large: int = LARGE) -> Piece:
        row = "d" if value.numel() <= large else "f"
        numbers = rounded(value, BITS if row == "d" else BITS_LARGE).reshape(-1)
        name = row + hashlib.sha256(numbers.numpy().tobytes()).hexdigest()
        if name not in self._kept:
            self._kept[name] = (row, self._lengths[row], numbers.numel())
            self._rows[row].append(numbers)
            self._lengths[row] += numbers.numel()
        return self._kept[name]


class Reader:
    """Looks answers up in one file. Raises OSError or ValueError where it cannot be read."""

    def __init__(self, path: Path) -> None:
        try:
            self._file = cast(Any, safe_open(str(path), framework="pt"))
            self._index = json.loads((self._file.metadata() or {})["index"])
            self._rows = {row: self._file.get_tensor(row) for row in ("d", "f")}
        except OSError:
            raise
        except Exception as error:  # safetensors raises its own
            raise ValueError(f"{path.name} is damaged ({error}): unpack the kit again.") from error
        self._names = set(self._file.keys())

    def expected(self, key: str, head: Tensor | None) -> Expected | None:
        """Return the answer called `key`, or None."""
        if key not in self._index:
            return None
        outputs: list[Tensor | None] = []
        gradients = {}
        for label, shape, pieces in self._index[key]:
            value = None if shape is None else self._sum(shape, pieces, head)
            if label.startswith("out "):
                outputs.append(value)
            elif value is not None:
                gradients[label] = value
        return Expected(tuple(outputs), gradients)

    def prints(self, key: str) -> dict[str, Tensor] | None:
        """Return the prints of the mistakes of case `key`, or None."""
        if f"{key}/print" not in self._names:
            return None
        return {name: self._file.get_tensor(f"{key}/{name}") for name in ("entries", "print", "mask")}

    def _sum(self, shape: list[int], pieces: list[Piece], head: Tensor | None) -> Tensor:
        value = torch.zeros(shape, dtype=torch.float64)
        for row, offset, length in pieces:
            numbers = self._rows[row[-1]][offset : offset + length].double()
            if row[0] == "h":
                assert head is not None
                numbers = (numbers.reshape(-1, head.shape[1]) @ head.double().T).reshape(shape)
            value += numbers.reshape(shape) if numbers.numel() == math.prod(shape) else numbers
        return value
