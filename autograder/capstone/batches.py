"""Batches: random windows of the training text, drawn from (seed, step), so that a resumed run sees the same."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from autograder.capstone.corpus import Ids
from autograder.capstone.processes import Processes
from autograder.capstone.trouble import CapstoneError


class Batches:
    """Gives each step its windows. Each of `processes` takes its own share of a step's rows."""

    def __init__(
        self,
        ids: Ids,
        block_size: int,
        batch_size: int,
        seed: int,
        device: torch.device,
        *,
        accumulate: int = 1,
        processes: Processes = Processes(),  # noqa: B008  # frozen: nobody can change the default
    ) -> None:
        if len(ids) <= block_size:
            raise CapstoneError(
                f"The training text has {len(ids):,} characters, and a window of block_size = {block_size} needs one "
                "more than that: take a longer text or a smaller --block-size."
            )
        if batch_size % (accumulate * processes.count):
            raise CapstoneError(
                f"batch_size = {batch_size} does not split into {accumulate} parts for each of "
                f"{processes.count} processes."
            )
        self._ids = torch.from_numpy(ids).to(device)  # all of it: a GPU need not wait for windows cut on the CPU
        self._offsets = torch.arange(block_size + 1, device=device)
        self._count = len(ids) - block_size  # windows that have a character after them
        self._batch_size, self._seed = batch_size, seed
        self._accumulate, self._processes = accumulate, processes

    def __call__(self, step: int) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield the micro-batches of `step` for this process: idx and targets, each (B, T) int64."""
        draw = np.random.default_rng([self._seed, step])
        starts = torch.from_numpy(draw.integers(0, self._count, size=self._batch_size)).to(self._ids.device)
        shares = starts.chunk(self._accumulate * self._processes.count)
        first = self._processes.rank * self._accumulate
        for share in shares[first : first + self._accumulate]:
            windows = self._ids[share[:, None] + self._offsets]  # (B, T + 1)
            yield windows[:, :-1].contiguous(), windows[:, 1:].contiguous()
