"""What a child process may use, and which layers of isolation held it: plain data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

#: The layers of the Linux sandbox, by the names with which one can be left out.
LAYERS = ("namespaces", "landlock", "seccomp", "user")


@dataclass(frozen=True)
class Limits:
    """Limits on one child process. Every number has its reason; all can be changed by the caller.

    wall_s      seconds for one call. The slowest honest one (build the 10.8M GPT, run it at T = 256) takes 0.4 s;
                ten leave room for a busy machine.
    cpu_s       seconds of processor time for a child's whole life: some sixty calls, all of them slow.
    memory_mb   address space in MiB, on top of what the warm process has mapped (640 with torch's CPU build, many
                thousands with a CUDA one). Building and running the 10.8M GPT takes 400.
    file_mb     size of any one file written, in MiB. Nothing needs to be written at all.
    disk_mb     all files together, in MiB, where the child has a disk of its own (it lies in memory).
    processes   processes and threads beside those of the user at the start (no limit can be set for root).
    open_files  descriptors. Imports need a handful; 128 stops a leak early and keeps clear of the grader's numbers.
    output_mb   printed text, in MiB. It is read and thrown away, so this only stops endless printing.
    reply_mb    tensors in one reply, in MiB. The 10.8M GPT's state dict is 43.
    """

    wall_s: float = 10.0
    cpu_s: int = 120
    memory_mb: int = 2048
    file_mb: int = 16
    disk_mb: int = 64
    processes: int = 64
    open_files: int = 128
    output_mb: int = 256
    reply_mb: int = 128


@dataclass(frozen=True)
class Isolation:
    """How far student code was kept apart; goes into every report.

    `isolated` is True only where a trial child could not break out: neither read the grader's files nor others', nor
    reach the network or another process. At level "portable" it is never so: the child is a process of its own under
    limits, yet may read and write what its user may. "linux" adds what this machine offers of namespaces, landlock,
    seccomp and a user of its own.
    """

    level: str
    isolated: bool
    layers: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Return {"level": "portable", "isolated": False, "layers": [...]}."""
        return {"level": self.level, "isolated": self.isolated, "layers": list(self.layers)}
