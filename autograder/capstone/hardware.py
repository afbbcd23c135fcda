"""The hardware: which device, and whether bf16 is faster there than fp32, measured with the model itself."""

from __future__ import annotations

import contextlib
import statistics
import time
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from autograder.capstone.trouble import CapstoneError

DEVICES = ("auto", "cpu", "cuda", "mps")
PRECISIONS = ("auto", "fp32", "bf16")
#: bf16 rounds more: it must win by this much to be worth it.
WORTH_IT = 1.1
#: One thread must win by this much: the other programs may soon be done.
ALONE_WINS = 1.3
#: After one step to warm up, this many are timed, and the median counts.
TIMED_STEPS = 3


@dataclass(frozen=True)
class Hardware:
    """Where tensors live and in which precision matrices are multiplied."""

    device: torch.device
    precision: str = "fp32"

    def autocast(self) -> contextlib.AbstractContextManager[object]:
        """Return the context of a forward pass."""
        if self.precision == "fp32":
            return contextlib.nullcontext()
        return torch.autocast(self.device.type, dtype=torch.bfloat16)

    def wait(self) -> None:
        """Wait until the device has done what it was given: only then a clock tells the truth."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        elif self.device.type == "mps":
            torch.mps.synchronize()


def choose_device(name: str, local_rank: int = 0) -> torch.device:
    """Return the device called `name`; `auto` is the best that is there. Raises CapstoneError when it is not there."""
    there = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    if name == "auto":
        name = next(kind for kind, is_there in there.items() if is_there)
    if name not in there:
        raise CapstoneError(f"There is no device {name!a}; there are: {', '.join(DEVICES)}.")
    if not there[name]:
        usable = ", ".join(kind for kind, is_there in there.items() if is_there)
        raise CapstoneError(f"torch finds no {name} device on this machine. Usable here: {usable}.")
    return torch.device(name, local_rank) if name == "cuda" else torch.device(name)


def faster_precision(
    model: nn.Module, batch: tuple[Tensor, Tensor], device: torch.device, asked: str = "auto"
) -> tuple[str, dict[str, float]]:
    """Return the faster of fp32 and bf16 for a forward and backward pass, and the seconds that each took.

    Where one is `asked` for, it alone is timed. Leaves no gradients. A device that cannot do bf16 has no time for it.
    """
    if asked != "auto":
        return asked, {asked: _seconds_a_step(model, batch, Hardware(device, asked))}
    times = {"fp32": _seconds_a_step(model, batch, Hardware(device))}
    with contextlib.suppress(RuntimeError):  # no bf16 kernels on this device
        times["bf16"] = _seconds_a_step(model, batch, Hardware(device, "bf16"))
    won = times.get("bf16", float("inf")) * WORTH_IT < times["fp32"]
    return ("bf16" if won else "fp32"), times


def faster_threads(model: nn.Module, batch: tuple[Tensor, Tensor], device: torch.device) -> int:
    """Return how many threads to train with: all, or one where other programs keep the cores busy.

    Threads wait for each other in every operation; on a busy machine two can take ten times as long as one.
    """
    threads = torch.get_num_threads()
    if device.type != "cpu" or threads == 1:
        return threads
    together = _seconds_a_step(model, batch, Hardware(device))
    torch.set_num_threads(1)
    alone = _seconds_a_step(model, batch, Hardware(device))
    torch.set_num_threads(threads)
    return 1 if alone * ALONE_WINS < together else threads


def _seconds_a_step(model: nn.Module, batch: tuple[Tensor, Tensor], hardware: Hardware) -> float:
    taken = []
    for _ in range(1 + TIMED_STEPS):
        hardware.wait()
        started = time.perf_counter()
        with hardware.autocast():
            loss = model(*batch)[1]
        loss.backward()
        hardware.wait()
        taken.append(time.perf_counter() - started)
        model.zero_grad(set_to_none=True)
    return statistics.median(taken[1:])
