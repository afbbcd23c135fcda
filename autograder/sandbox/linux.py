"""The Linux sandbox: which layers hold on this machine, found out once, and how a child puts them on, in order.

`prepare` runs in the supervisor, a `Cell` in each child. Every layer is best effort: one that the kernel refuses is
left out and not reported. Whether what is left isolates is found out by trying to break out of it.
"""

from __future__ import annotations

import os
import resource
import signal
import socket
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from autograder.sandbox import linux_files, linux_landlock, linux_seccomp, linux_spaces, linux_user
from autograder.sandbox.linux_calls import die_with_parent
from autograder.sandbox.policy import Limits


@dataclass(frozen=True)
class Plan:
    """What the supervisor has found out about this machine."""

    wanted: frozenset[str]
    spaces: tuple[str, ...]  # the namespaces that it is in, in words
    rooted: bool  # whether it has a root of its own, of which children get theirs
    allowed: tuple[str, ...]  # what landlock lets a child read
    landlock: int  # the ABI, 0 for none
    slot: int | None  # the user that children become
    filters: dict[bool, bytes]  # for seccomp, by whether forks are allowed
    holds: frozenset[str] = frozenset()  # the layers that a trial child put on
    isolated: bool = False  # whether the trial child could not break out

    def cell(self, tree: str, scratch: str) -> Cell:
        """Return the layers for one child, whose submission lies under `tree`, and whose files go to `scratch`."""
        return Cell(self, tree, scratch)


def prepare(wanted: frozenset[str], spaces: tuple[str, ...], home: Path) -> Plan:
    """Build the root for children over the folder `home`, and try the layers on. The last thing before children come.

    Must run after all imports: what is loaded tells what children must be able to read.
    """
    readable, hidden = linux_files.readable_paths(), linux_files.hidden_paths()
    allowed = (*linux_files.without(readable, hidden), *linux_spaces.DEVICES)
    rooted = False
    if {"mount", "pid"} <= set(spaces):
        with suppress(OSError):
            linux_spaces.build_root(str(home), readable, hidden)
            rooted = True
    landlock = linux_landlock.abi() if "landlock" in wanted else 0
    slot = linux_user.pick_slot() if "user" in wanted else None
    if "user" in wanted:
        with suppress(OSError):  # we start no program any more, so that it can be done for all children at once
            linux_user.forgo_capabilities()
    filters = linux_seccomp.ready_made() if "seccomp" in wanted else {}
    plan = Plan(wanted, spaces, rooted, allowed, landlock, slot, filters)
    steps: tuple[dict[str, Any], ...] = ({}, {"filters": {}}, {"filters": {}, "landlock": 0}, _NO_LAYER)
    for weaker in steps:
        plan = replace(plan, **weaker)
        if (tried := _try_out(plan, str(home))) is not None:
            return replace(plan, holds=tried[0], isolated=tried[1])
    return plan


#: What is left of a plan when nothing else lets a child live.
_NO_LAYER: dict[str, Any] = {"filters": {}, "landlock": 0, "slot": None, "wanted": frozenset()}


class Cell:
    """The layers around one child, which calls `enter`, does what needs /proc, and calls `shut`."""

    def __init__(self, plan: Plan, tree: str, scratch: str) -> None:
        self._plan = plan
        self.tree, self.scratch = tree, scratch  # where the child finds them: after `enter`, elsewhere
        self.held: dict[str, str] = {}  # layer -> words for the report
        self._own_root = False

    @property
    def isolated(self) -> bool:
        """Whether this child is as well locked in as the one that tried to break out and could not."""
        return self._plan.isolated and self._plan.holds <= set(self.held)

    def enter(self, disk_mb: int) -> None:
        """Go where there is nothing but the libraries, the submission and a disk of `disk_mb` MiB in memory."""
        plan = self._plan
        if plan.spaces:
            self.held["namespaces"] = f"namespaces ({', '.join(plan.spaces)})"
        if not plan.rooted:
            return
        try:
            linux_spaces.enter_cell(self.tree, disk_mb)
        except OSError:
            self.held.pop("namespaces")
            self.tree, self.scratch = linux_spaces.OLD + self.tree, linux_spaces.OLD + self.scratch
        else:
            self._own_root = True
            self.tree, self.scratch = linux_spaces.SUBMISSION, linux_spaces.SCRATCH

    def shut(self, limits: Limits, parent: int | None) -> None:
        """Lock the door from inside. The order matters: each step needs what the next ones take away."""
        plan = self._plan
        if self._own_root:
            with suppress(OSError):
                linux_spaces.close_cell()
        slot = self._usable_slot()
        if slot is not None:
            os.chown(self.scratch, slot, slot)
        if plan.landlock:
            with suppress(OSError):
                linux_landlock.restrict((*plan.allowed, self.tree), (self.scratch, "/dev/null"), plan.landlock)
                self.held["landlock"] = f"landlock {plan.landlock}"
        if "user" in plan.wanted:
            with suppress(OSError):
                self._change_user(slot, limits)
        with suppress(OSError):
            die_with_parent(signal.SIGKILL)  # a change of user has cleared it
        if parent is not None and os.getppid() != parent:
            os._exit(0)  # the supervisor died before the request to follow it was made
        if plan.filters:
            with suppress(OSError):
                # Only root's processes cannot be counted: those of any other user are, and may be a few.
                linux_seccomp.restrict(plan.filters[os.geteuid() != 0], os.getpid())
                self.held["seccomp"] = "seccomp"

    def _usable_slot(self) -> int | None:
        slot = self._plan.slot
        if slot is None:
            return None
        needed = (self.tree, *({os.path.dirname(self.scratch)} - {"/"}), os.__file__)  # noqa: PTH120
        return slot if linux_user.can_live_as(slot, needed) else None

    def _change_user(self, slot: int | None, limits: Limits) -> None:
        if slot is not None:
            resource.setrlimit(resource.RLIMIT_NPROC, (limits.processes, limits.processes))
            linux_user.become(slot)
        linux_user.drop_capabilities()
        self.held["user"] = "no capabilities" if slot is None else "a user of its own"


def _try_out(plan: Plan, home: str) -> tuple[frozenset[str], bool] | None:
    """Return which layers a throw-away child can put on, and whether it is then locked in: it tries to break out.

    None when it did not live to tell.
    """
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        report = b""
        try:
            os.close(reading)
            parent = os.getppid()
            cell = plan.cell(home, home)
            cell.enter(1)
            cell.shut(Limits(), parent)
            escapes = [name for name, attempt in _ATTEMPTS.items() if _succeeds(attempt)]
            report = f"held {','.join(cell.held)};{','.join(escapes)}".encode()
        finally:
            os.write(writing, report)
            os._exit(0)
    os.close(writing)
    with open(reading, "rb") as stream:  # noqa: PTH123 (a descriptor)
        said = stream.read().decode()
    os.waitpid(pid, 0)
    if not said:
        return None
    held, _, broken_out = said.partition(";")
    return frozenset(held.removeprefix("held ").split(",")) - {""}, not broken_out


def _succeeds(attempt: Callable[[], object]) -> bool:
    try:
        attempt()
    except OSError:
        return False
    return True


def _send_datagram() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as talk:
        talk.sendto(b"", ("127.0.0.1", 9))  # nobody listens; that it can be sent is enough


def _open_socket() -> None:
    if not Path("/usr").exists() or Path(linux_spaces.SUBMISSION).exists():
        raise OSError("in a root of its own there is no socket to talk to")
    socket.socket(socket.AF_UNIX).close()


#: What no child may achieve: to read the grader's files and others', to reach the network and other processes.
_ATTEMPTS: dict[str, Callable[[], object]] = {
    "reads the grader": lambda: Path(__file__).read_bytes(),
    "reads the machine": lambda: Path("/etc/passwd").read_bytes(),
    "reads the machine beside": lambda: Path(linux_spaces.OLD, "etc/passwd").read_bytes(),
    "reads processes": lambda: Path(f"/proc/{os.getppid()}/status").read_bytes(),
    "uses the network": _send_datagram,
    "talks to programs": _open_socket,
    "signals others": lambda: os.kill(os.getppid(), 0),
}
