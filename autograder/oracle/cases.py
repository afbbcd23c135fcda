"""Cases: the configurations, hidden weights and inputs of a grading run, drawn from its seed.

All numbers come from numpy's PCG64, so that a seed means the same on every torch version and device. Sizes are chosen
to tell mistakes apart: n_head, head_dim, n_embd, T, B and vocab_size all differ, none is a default of the course, and
each run draws its own.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from autograder.probe.standins import STAND_IN, WEIGHT_NAMES
from autograder.track import Part, Shape, Track

Config = dict[str, int]

#: Longer draws repeat after so many numbers, a prime: no two rows are alike, and it takes a tenth of the time.
PERIOD = 65_521
#: The tables of the gpt track; another track names its own.
TABLES = ("transformer.wte.weight", "transformer.wpe.weight", "lm_head.weight")


@dataclass(frozen=True)
class Sizes:
    """A configuration and the shape of the batch that goes through it."""

    config: Config
    batch: int
    length: int


class Draws:
    """Random numbers of one grading run. Each purpose has its own stream, so that checks do not disturb each other."""

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def generator(self, purpose: str) -> np.random.Generator:
        return np.random.Generator(np.random.PCG64([self.seed, zlib.crc32(purpose.encode())]))

    def sizes(self, purpose: str, **fixed: int) -> Sizes:
        """Draw a small configuration: n_head odd or 2, a head_dim like nothing else, T < block_size.

        vocab_size < block_size, as in the course: a mix-up of tokens and positions then runs, and shows.
        Keyword arguments fix a field of the configuration, `batch` or `length`.
        """
        rng = self.generator(f"sizes {purpose}")
        n_head = int(fixed.get("n_head", rng.choice([2, 3, 5])))
        # Even head_dims, unequal to any T that is drawn: rotary-like code runs, and an axis mix-up cannot fit.
        head_dim = int(fixed.get("head_dim", rng.choice([4, 6, 10])))
        length = int(fixed.get("length", rng.choice([7, 11, 13])))
        config = {
            "vocab_size": int(fixed.get("vocab_size", rng.choice([19, 23, 29]))),
            "block_size": int(fixed.get("block_size", rng.choice([31, 37, 41]))),
            "n_layer": int(fixed.get("n_layer", rng.choice([1, 3]))),
            "n_head": n_head,
            "n_embd": int(fixed.get("n_embd", n_head * head_dim)),
        }
        return Sizes(config, int(fixed.get("batch", rng.choice([3, 5]))), length)

    def normal(self, purpose: str, shape: Shape, scale: float = 1.0) -> Tensor:
        """Draw float32 N(0, scale^2) of `shape`."""
        return _tensor(self.generator(purpose).standard_normal(_fresh(shape)) * scale, shape)

    def tokens(self, purpose: str, shape: Shape, vocab_size: int) -> Tensor:
        """Draw int64 token ids of `shape` that contain both 0 and vocab_size - 1."""
        ids = self.generator(purpose).integers(0, vocab_size, size=shape)
        flat = ids.reshape(-1)
        spots = self.generator(purpose + " ends").permutation(flat.size)[:2]
        flat[spots[0]] = 0
        if len(spots) > 1:
            flat[spots[1]] = vocab_size - 1
        return torch.from_numpy(np.ascontiguousarray(ids)).to(torch.int64)

    def weights(
        self, purpose: str, shapes: Mapping[str, Shape], scale: float = 1.0, *, tables: Collection[str] = TABLES
    ) -> dict[str, Tensor]:
        """Draw weights for named tensors: matrices ~ N(0, 1.5^2 / fan_in), LayerNorm gains around 1, biases around 0,
        `tables` (of which rows are looked up or compared) ~ N(0, 0.7^2).

        Gains and biases are all distinct and far from their initial values, so that a swapped or unused one shows.
        """
        drawn: dict[str, Tensor] = {}
        values = self.generator(purpose).standard_normal(sum(_fresh(shape) for shape in shapes.values()))
        used = 0
        for name, shape in shapes.items():
            own = values[used : used + _fresh(shape)]
            used += len(own)
            leaf = name.rsplit(".", 1)[-1]
            if len(shape) == 1:
                drawn[name] = _tensor(1.0 + 0.4 * own if leaf == "weight" else 0.5 * own, shape)
            elif name in tables:
                drawn[name] = _tensor(0.7 * own, shape)
            else:
                fan_in = shape[0] if leaf.startswith(STAND_IN) else shape[-1]
                drawn[name] = _tensor(scale * 1.5 / fan_in**0.5 * own, shape)
        return drawn


def _fresh(shape: Shape) -> int:
    """Return how many numbers are drawn for a tensor of `shape`."""
    return min(math.prod(shape), PERIOD)


def _tensor(values: NDArray[np.float64], shape: Shape) -> Tensor:
    """Return the numbers as a float32 tensor of `shape`, over and over where they do not fill it."""
    values = values.astype(np.float32)
    return torch.from_numpy(np.resize(values, shape) if math.prod(shape) > len(values) else values.reshape(shape))


def own_and_standin_shapes(part: Part, track: Track, config: Config) -> dict[str, Shape]:
    """Return every tensor of a model of `part` whose sub-parts are stand-ins: name -> shape."""
    shapes = part.shapes(config)
    for path, name in part.uses.items():
        used = track.part(name)
        for place in places(path, config, part.repeat):
            shapes[f"{place}.{WEIGHT_NAMES[used.role]}"] = (config["n_embd"], used.output_width(config))
    return shapes


def full_shapes(part: Part, track: Track, config: Config) -> dict[str, Shape]:
    """Return every tensor of a model of `part` with its real sub-parts: name -> shape, in the contract's names."""
    shapes = part.shapes(config)
    for path, used in part.uses.items():
        for place in places(path, config, part.repeat):
            inner = full_shapes(track.part(used), track, config)
            shapes |= {f"{place}.{name}": shape for name, shape in inner.items()}
    return shapes


def places(path: str, config: Config, repeat: str = "n_layer") -> list[str]:
    """Return the sub-module paths that a `uses` entry stands for: "transformer.h.{i}" is one for each layer."""
    if "{i}" not in path:
        return [path]
    return [path.replace("{i}", str(index)) for index in range(config[repeat])]
