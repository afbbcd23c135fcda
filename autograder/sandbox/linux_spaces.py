"""Namespaces: the supervisor, and so all of its children, in a world without network, other processes, and most files.

The supervisor becomes PID 1 of that world, made once; with it everything in it ends. Each child then gets a root of its
own: the libraries, read-only, its submission under /submission and a small disk in memory under /scratch.
Containers mostly refuse all this; then the other layers must do.
"""

from __future__ import annotations

import os
import signal
import struct
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

from autograder.sandbox.linux_calls import call, die_with_parent

SUBMISSION, SCRATCH = "/submission", "/scratch"
#: Where the supervisor still sees the machine's files. A child loses it.
OLD = "/old"
#: The null device and its like: harmless, and needed by numpy and Python.
DEVICES = ("/dev/null", "/dev/zero", "/dev/urandom", "/dev/random")

_NEW = {"mount": 0x00020000, "pid": 0x20000000, "network": 0x40000000, "ipc": 0x08000000, "host name": 0x04000000}
_NEW_USER = 0x10000000
_READ_ONLY, _NO_SUID, _NO_DEV, _NO_EXEC, _REMOUNT, _BIND, _RECURSIVE, _PRIVATE = 1, 2, 4, 8, 32, 4096, 16384, 1 << 18
_DETACH = 2
_AT_FDCWD, _AT_RECURSIVE = -100, 0x8000
_LOCKED_DOWN = _READ_ONLY | _NO_SUID | _NO_DEV | _NO_EXEC


def enter(on_leaving: Callable[[], object]) -> tuple[str, ...]:
    """Move into new namespaces; return those that the system grants, in words ("" is none).

    Where processes can be numbered anew, the caller goes on as PID 1 in a fork, and the original process, after
    `on_leaving`, only waits for that fork and ends as it did. Must be called while there is one thread.
    """
    if os.geteuid() != 0 and not _become_root_of_nothing():
        return ()
    granted = []
    for word, flag in _NEW.items():
        with suppress(OSError):
            call("unshare", flag)
            if word == "mount":
                _mount(None, "/", None, _RECURSIVE | _PRIVATE)  # nothing that is mounted below shows outside
            granted.append(word)
    if "pid" in granted:
        _go_on_as_first_process(on_leaving)
    return tuple(granted)


def _become_root_of_nothing() -> bool:
    """Enter a user namespace in which we have all rights, over nothing that is not made in it."""
    user, group = os.geteuid(), os.getegid()
    try:
        call("unshare", _NEW_USER)
        Path("/proc/self/setgroups").write_text("deny")  # asked for before groups may be mapped
        Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
        Path("/proc/self/gid_map").write_text(f"{group} {group} 1")
    except OSError:
        return False
    return True


def _go_on_as_first_process(on_leaving: Callable[[], object]) -> None:
    pid = os.fork()
    if pid == 0:
        die_with_parent(signal.SIGKILL)
        return
    on_leaving()
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    os._exit(status if status >= 0 else 128 - status)


def build_root(place: str, readable: Iterable[str], hidden: Iterable[str]) -> None:
    """Make a root of `readable` alone, mounted over the folder `place`, and move into it.

    `hidden` are folders inside those that turn out empty. Paths keep their names. Raises OSError.
    """
    _mount("tmpfs", place, "tmpfs", _NO_SUID | _NO_DEV, b"size=1m,mode=755")
    for path in sorted({*readable, *DEVICES}):
        _show(path, place + path)
    for path in hidden:
        if Path(place + path).is_dir():
            _mount("tmpfs", place + path, "tmpfs", _LOCKED_DOWN, b"size=4k,mode=000")
    for name, mode in (("proc", 0o555), (SUBMISSION, 0o755), (SCRATCH, 0o755), (OLD, 0o700)):
        Path(place, name.strip("/")).mkdir(mode)
    with suppress(OSError):  # refused where the outer /proc is masked; all that needs it can do without
        _mount("proc", f"{place}/proc", "proc", _NO_SUID | _NO_DEV | _NO_EXEC)
    Path(place, "dev").mkdir(exist_ok=True)
    Path(place, "dev", "fd").symlink_to("/proc/self/fd")
    os.chdir(place)
    call("pivot_root", b".", OLD[1:].encode())
    os.chdir("/")


def _show(path: str, target: str) -> None:
    """Put `path` at `target`, read-only; a link stays a link. What is not there, or is there by now, is passed over."""
    source = Path(path)
    if os.path.lexists(target) or not source.exists():
        return
    Path(target).parent.mkdir(parents=True, exist_ok=True)
    if source.is_symlink():
        Path(target).symlink_to(source.readlink())
        return
    if source.is_dir():
        Path(target).mkdir()
    else:
        Path(target).touch()
    _mount(path, target, None, _BIND | _RECURSIVE)
    _lock(target)


def _lock(target: str) -> None:
    """Make the mount at `target` and those inside it read-only and free of set-uid programs (Linux 5.12)."""
    with suppress(OSError):  # landlock and ownership forbid the same
        attributes = struct.pack("QQQQ", _READ_ONLY | _NO_SUID, 0, 0, 0)  # set, clear, propagation, user namespace
        call("mount_setattr", _AT_FDCWD, target.encode(), _AT_RECURSIVE, attributes, len(attributes))


def enter_cell(tree: str, disk_mb: int) -> None:
    """Take a child from the supervisor's root into its own, with the submission and an empty disk. Raises OSError."""
    call("unshare", _NEW["mount"])
    _mount(OLD + tree, SUBMISSION, None, _BIND | _RECURSIVE)
    _lock(SUBMISSION)
    options = f"size={disk_mb}m,nr_inodes=10k,mode=700"
    _mount("tmpfs", SCRATCH, "tmpfs", _NO_SUID | _NO_DEV | _NO_EXEC, options.encode())
    call("umount2", OLD.encode(), _DETACH)


def close_cell() -> None:
    """Take /proc away and make the root itself read-only. Raises OSError."""
    with suppress(OSError):  # there may be none
        call("umount2", b"/proc", _DETACH)
    _mount(None, "/", None, _REMOUNT | _BIND | _READ_ONLY | _NO_SUID | _NO_DEV)


def _mount(source: str | None, target: str, kind: str | None, flags: int, options: bytes | None = None) -> None:
    words = [None if word is None else os.fsencode(word) for word in (source, target, kind)]
    call("mount", *words, flags, options)
