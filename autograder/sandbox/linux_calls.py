"""The kernel's calls that Python has no function for, made by number through the C library."""

from __future__ import annotations

import ctypes
import os
from functools import cache

from autograder.sandbox.linux_numbers import machine, numbers

_PR_SET_PDEATHSIG = 1
_PR_SET_NO_NEW_PRIVS = 38


@cache
def _library() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def call(name: str, *arguments: int | bytes | None) -> int:
    """Make the system call `name` and return what it returns. Raises OSError, also on a machine that is not known."""
    number = numbers(machine()).get(name) if machine() else None
    if number is None:
        raise OSError(38, f"{name} is not known on this machine")  # 38: ENOSYS, "function not implemented"
    given = [ctypes.c_char_p(a) if isinstance(a, bytes) else ctypes.c_void_p(a) for a in arguments]
    result: int = _library().syscall(ctypes.c_long(number), *given)
    if result < 0:
        error = ctypes.get_errno()
        raise OSError(error, f"{name}: {os.strerror(error)}")
    return result


def no_new_privileges() -> None:
    """Let no program that this process or a descendant starts gain rights (set-uid and the like). Raises OSError."""
    call("prctl", _PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)


def die_with_parent(number: int) -> None:
    """Let the kernel send us signal `number` when our parent ends. A change of user clears it. Raises OSError."""
    call("prctl", _PR_SET_PDEATHSIG, number, 0, 0, 0)
