"""A child process as the grader holds it: its channel, what it prints, its canary, and the way to end it."""

from __future__ import annotations

import io
import os
import socket
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from autograder.probe.failure import Ending
from autograder.sandbox.scratch import remove_folder


class ChildProcess:
    """Implements `autograder.probe.client.Child`; made by the Nursery."""

    def __init__(
        self,
        channel: socket.socket,
        output: io.RawIOBase,
        canary: io.RawIOBase | None,
        exited: int | None,
        scratch: Path,
        finish: Callable[[float], Ending],
    ) -> None:
        self.channel, self.output, self.canary, self.exited = channel, output, canary, exited
        self._scratch, self._finish = scratch, finish
        self._ending: Ending | None = None

    def end(self, grace_s: float) -> Ending:
        """Wait up to `grace_s` seconds for it to end, kill it and what it started, remove its folder. Idempotent."""
        if self._ending is None:
            try:
                self._ending = self._finish(grace_s)
            finally:
                self._release()
        return self._ending

    def _release(self) -> None:
        self.channel.close()
        self.output.close()
        if self.canary is not None:
            self.canary.close()
        if self.exited is not None:
            os.close(self.exited)
        remove_folder(self._scratch)


def ending_of(wait_status: int, *, cpu_s: float, peak_mb: float, killed: bool) -> Ending:
    """Return the Ending that a POSIX wait status describes."""
    if os.WIFSIGNALED(wait_status):
        return Ending(None, os.WTERMSIG(wait_status), cpu_s, peak_mb, killed)
    return Ending(os.WEXITSTATUS(wait_status), None, cpu_s, peak_mb, killed)


def watch_exit(pid: int) -> int | None:
    """Return a descriptor that becomes readable when `pid` ends, where the system has such (Linux)."""
    if hasattr(os, "pidfd_open"):
        with suppress(OSError):
            return os.pidfd_open(pid)
    return None


def pid_of(hold: int) -> int | None:
    """Return the number here of the process that a descriptor of `watch_exit` stands for; None when it is gone."""
    with suppress(OSError, ValueError):
        for line in Path(f"/proc/self/fdinfo/{hold}").read_text().splitlines():
            if line.startswith("Pid:"):
                number = int(line.split()[1])
                return number if number > 0 else None
    return None


def nonblocking_pipe() -> tuple[io.RawIOBase, int]:
    """Return the reading end of a new pipe, non-blocking, and the descriptor of the other end."""
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    return io.FileIO(reading, "rb"), writing
