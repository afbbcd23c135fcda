"""What a child does to itself before it meets student code: descriptors, limits, signals, seeds. Works on any POSIX.

The Linux sandbox (namespaces, landlock, seccomp, another user; see linux.py) goes around this.
"""

from __future__ import annotations

import ctypes
import os
import random
import secrets
import signal
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

from autograder.sandbox.policy import Limits

CANARY = 3  # the first number that code which tries "all descriptors from 3 up" meets
#: Above 1024, where `os.closerange(3, 1024)` ends; below 4096, a common hard limit of old systems.
_HIGH = range(1100, 4000)
#: Same draws for every submission, so that a rerun repeats what was seen.
_SEED = 20240501

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_NO_NEW_PRIVS = 38
_OOM_FIRST = b"1000"  # the kernel's highest badness: where memory runs out, the student's process goes, not the grader


def settle_descriptors(channel: int, output: int | None, canary: int | None) -> int:
    """Move the descriptors to where they belong, close all others, and return the channel's new number.

    0 is the null device, 1 and 2 are `output` (kept as they are when None), CANARY is `canary`; the channel goes to a
    random high number, which code cannot name by chance. POSIX only.
    """
    import fcntl

    high = fcntl.fcntl(channel, fcntl.F_DUPFD_CLOEXEC, _pick_high_number())
    # Out of the way of 0..3 first: any of them may sit there.
    low = CANARY + 1
    output = None if output is None else fcntl.fcntl(output, fcntl.F_DUPFD, low)
    canary = None if canary is None else fcntl.fcntl(canary, fcntl.F_DUPFD, low)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    if output is not None:
        os.dup2(output, 1)
        os.dup2(output, 2)
    kept = {0, 1, 2, high}
    if canary is not None:
        os.dup2(canary, CANARY)
        kept.add(CANARY)
    for number in _open_descriptors():
        if number not in kept:
            with suppress(OSError):  # the listing's own descriptor is gone by now
                os.close(number)
    return high


def _pick_high_number() -> int:
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    room = _HIGH.stop if hard == resource.RLIM_INFINITY else min(hard, _HIGH.stop)
    if soft != resource.RLIM_INFINITY and soft < room:
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (room, hard))
        soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        room = min(room, soft)
    start = _HIGH.start if room > _HIGH.start + 128 else room // 2
    return start + secrets.randbelow(max(room - start - 64, 1))  # 64: the next free number must still be below


def _open_descriptors() -> list[int]:
    try:
        return [int(name) for name in os.listdir("/dev/fd")]  # noqa: PTH208 (Linux and macOS alike)
    except OSError:
        return list(range(CANARY, _HIGH.stop))


def confine(scratch: Path, limits: Limits, parent: int | None) -> list[str]:
    """Enter `scratch`, take on `limits`, let go of what a child must not have; return the layers that hold, in words.

    `parent` is the pid that must still be our parent (a child outliving its supervisor ends at once), or None.
    """
    layers = ["own process", "fixed environment", "scratch folder"]
    os.chdir(scratch)
    os.umask(0o077)
    # Where code looks for a place to write, it finds the one that is removed afterwards.
    os.environ.update(HOME=str(scratch), TMPDIR=str(scratch))
    tempfile.tempdir = None
    _default_signals()
    if sys.platform != "win32":
        layers += [f"{word} limit" for word in _set_limits(limits)]
    if sys.platform == "linux":
        with suppress(OSError):
            Path("/proc/self/oom_score_adj").write_bytes(_OOM_FIRST)
        if prctl(_PR_SET_NO_NEW_PRIVS, 1):
            layers.append("no new privileges")
        if prctl(_PR_SET_PDEATHSIG, signal.SIGKILL):
            layers.append("dies with the grader")
        if parent is not None and os.getppid() != parent:
            os._exit(0)  # the supervisor died before the request to follow it was made
    reseed()
    return layers


def _default_signals() -> None:
    # The supervisor ignores these; its children start as any program does.
    for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGALRM"):
        if number := getattr(signal, name, None):
            signal.signal(number, signal.default_int_handler if name == "SIGINT" else signal.SIG_DFL)


def limit_table(limits: Limits, tasks: int | None, mapped: int = 0) -> list[tuple[str, str, int, int]]:
    """Return (word, resource, soft, hard) for each limit.

    `tasks` is how many run already (None leaves them alone), `mapped` the bytes of address space in use already.
    """
    mib = 1 << 20
    table = [
        ("memory", "RLIMIT_AS", mapped + limits.memory_mb * mib, mapped + limits.memory_mb * mib),
        ("processor", "RLIMIT_CPU", limits.cpu_s, limits.cpu_s + 2),  # two seconds to die of SIGXCPU, then SIGKILL
        ("file size", "RLIMIT_FSIZE", limits.file_mb * mib, limits.file_mb * mib),
        ("descriptor", "RLIMIT_NOFILE", limits.open_files, limits.open_files),
        ("core dump", "RLIMIT_CORE", 0, 0),
    ]
    if tasks is not None:  # counted by user and not by child, hence on top of what runs
        table.append(("process", "RLIMIT_NPROC", tasks + limits.processes, tasks + limits.processes))
    return table


def _set_limits(limits: Limits) -> list[str]:
    import resource

    held = []
    for word, name, soft, hard in limit_table(limits, _tasks(), _mapped()):
        try:
            number = getattr(resource, name)
            ceiling = resource.getrlimit(number)[1]
            if ceiling != resource.RLIM_INFINITY:
                hard = min(hard, ceiling)
            resource.setrlimit(number, (min(soft, hard), hard))
        except (AttributeError, ValueError, OSError):
            continue  # macOS has no working RLIMIT_AS; what is missing is missing from the report's list
        held.append(word)
    return held


def _mapped() -> int:
    """Return how many bytes of address space this process has mapped: torch and its libraries, mostly."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 1 << 30  # no /proc (macOS, where the limit does not work either): more than a CPU build takes


def _tasks() -> int | None:
    """Return how many threads run on this machine (no user has more), or None where no process limit should be set."""
    if os.geteuid() == 0:
        return None  # the kernel does not apply it to root
    try:
        return int(Path("/proc/loadavg").read_text().split()[3].partition("/")[2])
    except (OSError, ValueError, IndexError):
        return None


def reseed() -> None:
    """Seed every generator: forked siblings would otherwise draw what their parent's state says."""
    random.seed(_SEED)
    if numpy := sys.modules.get("numpy"):
        numpy.random.seed(_SEED)
    if torch := sys.modules.get("torch"):
        torch.manual_seed(_SEED)


def adopt_orphans() -> bool:
    """Make this process the parent of all orphaned descendants; return whether the system can (Linux)."""
    return sys.platform == "linux" and prctl(_PR_SET_CHILD_SUBREAPER, 1)


def prctl(option: int, value: int) -> bool:
    """Call prctl(option, value); return whether it took."""
    try:
        return bool(ctypes.CDLL(None).prctl(option, ctypes.c_ulong(value), 0, 0, 0) == 0)
    except (OSError, AttributeError):
        return False
