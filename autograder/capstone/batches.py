"""Batches: random windows of the training text, drawn from (seed, step), so that a resumed run sees the same."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from autograder.capstone.corpus import Ids
from autograder.capstone.trouble import CapstoneError


class Batches:
    """Gives each step its windows. Each of `processes` takes its own share of a step's rows."""

    def __init__(
        self, ids: Ids, block_size: int, batch_size: int, seed: int, *, accumulate: int, rank: int, processes: int
    ) -> None:
        if len(ids) <= block_size:
            raise CapstoneError(
                f"The training text has {len(ids):,} characters, and a window of block_size = {block_size} needs one "
                "more than that: take a longer text or a smaller --block-size."
            )
        if batch_size % (accumulate * processes):
            raise CapstoneError(
                f"batch_size = {batch_size} does not split into {processes} processes with {accumulate} parts each."
            )
        self._ids = torch.from_numpy(ids)
        self._offsets = torch.arange(block_size + 1)
        self._batch_size, self._seed = batch_size, seed
        self._accumulate, self._rank, self._processes = accumulate, rank, processes

    def __call__(self, step: int, device: torch.device) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield the micro-batches of `step` for this process: idx and targets, each (B, T) int64 on `device`."""
        draw = np.random.default_rng([self._seed, step])
        starts = draw.integers(0, len(self._ids) - (len(self._offsets) - 1), size=self._batch_size)
        shares = torch.from_numpy(starts).chunk(self._accumulate * self._processes)
        for share in shares[self._rank * self._accumulate : (self._rank + 1) * self._accumulate]:
            windows = self._ids[share[:, None] + self._offsets].to(device)  # (B, T + 1)
            yield windows[:, :-1].contiguous(), windows[:, 1:].contiguous()
