"""Landlock: a process gives up all files but a list, TCP, and signals and abstract sockets to outsiders. For good.

Needs no privilege, Linux 5.13 or newer; what each version of it ("ABI") can do is asked at run time.
See https://docs.kernel.org/userspace-api/landlock.html, whose constants these are.
"""

from __future__ import annotations

import os
import stat
import struct
from collections.abc import Iterable

from autograder.sandbox.linux_calls import call, no_new_privileges

_VERSION = 1  # flag of landlock_create_ruleset: tell the ABI
_PATH_BENEATH = 1
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1, 2, 4, 8
_REMOVE_DIR, _REMOVE_FILE, _MAKE_DIR, _MAKE_REG = 16, 32, 128, 256
_REFER, _TRUNCATE, _IOCTL_DEV = 1 << 13, 1 << 14, 1 << 15
#: How many of the rights above an ABI knows (the last entry holds for all later ones): its right to refuse is a bit.
_FS_BITS = {1: 13, 2: 14, 3: 15, 4: 15, 5: 16}
_TCP = 0b11  # bind, connect
_SCOPES = 0b11  # abstract unix sockets, signals
_NET_ABI, _SCOPE_ABI = 4, 6

#: Nothing may be executed: mapping a shared library is reading.
_READ = _READ_FILE | _READ_DIR
#: No links, devices, sockets and pipes.
_WRITE = _READ | _WRITE_FILE | _REMOVE_DIR | _REMOVE_FILE | _MAKE_DIR | _MAKE_REG | _REFER | _TRUNCATE
#: What can be granted on something that is not a folder.
_FOR_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEV


def abi() -> int:
    """Return the version of landlock that the running kernel offers, or 0."""
    try:
        return call("landlock_create_ruleset", None, 0, _VERSION)
    except OSError:
        return 0


def restrict(readable: Iterable[str], writable: Iterable[str], version: int) -> None:
    """Give up every file but those beneath `readable` (read only) and `writable`; TCP and outsiders where it can.

    `version` is what `abi()` gave. Paths that do not exist are passed over. Raises OSError.
    """
    handled = (1 << _FS_BITS[min(version, max(_FS_BITS))]) - 1
    attributes = struct.pack("QQQ", handled, _TCP, _SCOPES)
    size = 8 if version < _NET_ABI else 16 if version < _SCOPE_ABI else 24
    ruleset = call("landlock_create_ruleset", attributes, size, 0)
    try:
        for path in readable:
            _allow(ruleset, path, _READ & handled)
        for path in writable:
            _allow(ruleset, path, _WRITE & handled)
        no_new_privileges()
        call("landlock_restrict_self", ruleset, 0)
    finally:
        os.close(ruleset)


def _allow(ruleset: int, path: str, rights: int) -> None:
    try:
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    try:
        if not stat.S_ISDIR(os.fstat(place).st_mode):
            rights &= _FOR_FILES
        call("landlock_add_rule", ruleset, _PATH_BENEATH, struct.pack("=Qi", rights, place), 0)
    finally:
        os.close(place)
