"""Several processes that train one model (DDP, started by torchrun): who am I, how many are we, sums over all."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast

import torch
from torch import nn


@dataclass(frozen=True)
class Processes:
    """The processes of a run. Alone: rank 0 of 1."""

    rank: int = 0
    count: int = 1
    local_rank: int = 0

    @property
    def first(self) -> bool:
        """Tell whether this is the one process that prints and writes."""
        return self.rank == 0

    def wrap(self, model: nn.Module) -> nn.Module:
        """Return `model` so that backward averages gradients over all processes."""
        if self.count == 1:
            return model
        from torch.nn.parallel import DistributedDataParallel

        return DistributedDataParallel(model)

    def sum(self, value: float) -> float:
        """Return the sum of `value` over all processes, the same bits in each."""
        if self.count == 1:
            return value
        from torch import distributed

        total = torch.tensor([value], dtype=torch.float64, device=_device())
        distributed.all_reduce(total)
        return float(total.item())

    def agree(self, flag: bool) -> bool:
        """Return whether any process says so: all must leave a loop in the same step."""
        return self.sum(float(flag)) > 0

    def wait(self) -> None:
        """Wait until all are here: no process may read what the first has not written yet."""
        self.sum(0.0)


def unsynchronised(model: nn.Module, last: bool) -> contextlib.AbstractContextManager[None]:
    """Return a context in which backward keeps its gradients to itself, for all but the last micro-batch of a step."""
    no_sync = getattr(model, "no_sync", None)  # DDP's; a model that is alone has none
    if last or no_sync is None:
        return contextlib.nullcontext()
    return cast("contextlib.AbstractContextManager[None]", no_sync())


@contextlib.contextmanager
def joined() -> Iterator[Processes]:
    """Join the processes that torchrun started, by nccl on GPUs and gloo elsewhere; alone without torchrun."""
    if "WORLD_SIZE" not in os.environ:
        yield Processes()
        return
    from torch import distributed

    local_rank = int(os.environ.get("LOCAL_RANK", "0"))
    if torch.cuda.is_available():
        torch.cuda.set_device(local_rank)
    distributed.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
    try:
        yield Processes(distributed.get_rank(), distributed.get_world_size(), local_rank)
    finally:
        distributed.destroy_process_group()


def _device() -> torch.device:
    from torch import distributed

    return torch.device("cuda" if distributed.get_backend() == "nccl" else "cpu")
