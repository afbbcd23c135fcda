"""Find and kill the processes that a submission leaves behind. Linux; elsewhere killing the group must do."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

_PROC = Path("/proc")
#: Killing takes microseconds a process; a second bounds a fork bomb that races us.
_SWEEP_S = 5.0


def kill_group(leader: int) -> None:
    """Kill every process in the group that `leader` (a session leader of ours) opened."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, signal.SIGKILL)


def kill_all() -> None:
    """Kill and reap every other process that this one sees, at one stroke. For PID 1 of a world of its own only."""
    with suppress(ProcessLookupError):
        os.kill(-1, signal.SIGKILL)
    with suppress(ChildProcessError):
        while True:
            os.waitpid(-1, 0)


def sweep_children(spared: Collection[int]) -> bool:
    """Kill and reap all children of this process but `spared`; return whether none is left.

    For a sub-reaper: orphans of a dead child become ours, and so do their own once they die, hence the loop.
    """
    deadline = time.monotonic() + _SWEEP_S
    while strays := [pid for pid in children_of(os.getpid()) if pid not in spared]:
        if time.monotonic() > deadline:
            return False
        for pid in strays:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        for pid in strays:
            with suppress(ChildProcessError):
                if os.waitpid(pid, os.WNOHANG) == (0, 0):
                    time.sleep(0.0005)  # it is dying: give it the processor
    return True


def children_of(parent: int) -> list[int]:
    """Return the pids of the children of `parent`, zombies included; empty where there is no /proc."""
    try:
        return [int(pid) for pid in (_PROC / f"{parent}/task/{parent}/children").read_text().split()]
    except (OSError, ValueError):
        return [pid for pid in _pids() if _parent_of(pid) == parent]


def hunt(home: Path) -> None:
    """Kill every process that was started with HOME set to `home`, a folder that only our children have as such.

    The last resort when their supervisor is gone. A program that was exec'd with another environment escapes it.
    """
    mark = b"HOME=" + os.fsencode(home)
    for _ in range(20):  # a few rounds: a fork may slip between listing and killing
        marked = [pid for pid in _pids() if pid != os.getpid() and mark in _environment(pid)]
        if not marked:
            return
        for pid in marked:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.001)


def _pids() -> list[int]:
    try:
        return [int(entry.name) for entry in os.scandir(_PROC) if entry.name.isdigit()]
    except OSError:
        return []


def _parent_of(pid: int) -> int:
    try:  # the name in parentheses may itself hold spaces and parentheses
        return int((_PROC / f"{pid}/stat").read_bytes().rpartition(b")")[2].split()[1])
    except (OSError, ValueError, IndexError):
        return -1


def _environment(pid: int) -> list[bytes]:
    try:
        return (_PROC / f"{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return []
