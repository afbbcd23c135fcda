"""A seccomp filter: which system calls a child may still make. Assembled here, as the few instructions that it takes.

The kernel runs it before each call, on the call's number and arguments, and no process can take it off. What it refuses
fails with EPERM, so that honest code gets an ordinary PermissionError. See https://docs.kernel.org/userspace-api/seccomp_filter.html.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Sequence

from autograder.sandbox.linux_calls import call, no_new_privileges
from autograder.sandbox.linux_numbers import AUDIT_ARCH, REFUSED, machine, names, numbers

Instruction = tuple[int, int, int, int]  # code, jump if true, jump if false, constant

_SET_MODE_FILTER = 1
#: Classic BPF: load a 32-bit word, compare, mask, return.
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _MASK, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x54, 0x06
#: Where the words lie in struct seccomp_data (little endian: the low half of an argument comes first).
_NUMBER, _ARCH, _ARGUMENTS = 0, 4, 16

_ALLOW: Instruction = (_RETURN, 0, 0, 0x7FFF0000)
_KILL: Instruction = (_RETURN, 0, 0, 0x80000000)  # the whole process
_EPERM: Instruction = (_RETURN, 0, 0, 0x00050000 | 1)
_ENOSYS: Instruction = (_RETURN, 0, 0, 0x00050000 | 38)

#: Numbers from here on are the x32 variant of x86-64: the same calls again, so another way round the list.
_X32 = 0x40000000
_CLONE_THREAD = 0x00010000
#: CLONE_NEW{TIME,NS,CGROUP,UTS,IPC,USER,PID,NET}: a new user namespace gives all capabilities in it.
_NEW_NAMESPACES = 0x7E020080
_SOCK_STREAM, _SOCK_TYPE = 1, 0xF
#: Stands for a pid until that is known: above all pids (2**22), and no other constant here.
_ANY_PID = 0x7A5C1E93
#: F_SETOWN, F_SETSIG, F_SETOWN_EX (signals to whom one likes when a file is ready), F_NOTIFY (watch a folder).
_FCNTL = (8, 10, 15, 1026)
#: TIOCSTI, TIOCLINUX (type into the grader's terminal), FIOSETOWN, SIOCSPGRP (as F_SETOWN).
_IOCTL = (0x5412, 0x541C, 0x8901, 0x8902)


def assemble(name: str, pid: int, forks: bool) -> bytes:
    """Return the filter for the process `pid` on the machine `name` ("x86_64" or "aarch64").

    Signals may go to `pid` itself only. With `forks`, it may have children (without namespaces of their own), which are
    bound by the same filter; else only threads.
    """
    table = numbers(name)
    program: list[Instruction] = [(_LOAD, 0, 0, _ARCH), (_EQUAL, 1, 0, AUDIT_ARCH[name]), _KILL, (_LOAD, 0, 0, _NUMBER)]
    if name == "x86_64":
        program += [(_AT_LEAST, 0, 1, _X32), _EPERM]
    refused = [call_name for text in REFUSED.values() for call_name in names(text)]
    if not forks:
        refused += ["fork", "vfork"]
    for each in refused:
        if each in table:
            program += [(_EQUAL, 0, 1, table[each]), _EPERM]
    clone = _no_bit(0, _NEW_NAMESPACES) if forks else _some_bit(0, _CLONE_THREAD)
    # clone3 keeps its flags in memory, where a filter cannot look; told that there is none, the C library uses clone.
    rules: dict[str, list[Instruction]] = {"clone3": [_ENOSYS], "clone": clone}
    for each in ("kill", "tkill", "tgkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo"):
        rules[each] = _only(0, (pid,))
    for each in ("prlimit64", "sched_setaffinity", "sched_setparam", "sched_setscheduler", "sched_setattr"):
        rules[each] = _only(0, (0, pid))
    rules["fcntl"] = _none_of(1, _FCNTL)
    rules["ioctl"] = _none_of(1, _IOCTL)
    # A pair of streams ends in itself; datagrams could be sent to any socket, by its path.
    rules["socketpair"] = [_load(1), (_MASK, 0, 0, _SOCK_TYPE), (_EQUAL, 1, 0, _SOCK_STREAM), _EPERM, _ALLOW]
    rules["sendto"] = [_load(4), (_EQUAL, 0, 2, 0), _load(4, 4), (_EQUAL, 1, 0, 0), _EPERM, _ALLOW]  # to no address
    for each, body in rules.items():
        program += [(_EQUAL, 0, len(body), table[each]), *body]
    return b"".join(struct.pack("HBBI", *instruction) for instruction in [*program, _ALLOW])


def _load(argument: int, half: int = 0) -> Instruction:
    return (_LOAD, 0, 0, _ARGUMENTS + 8 * argument + half)


def _only(argument: int, values: Sequence[int]) -> list[Instruction]:
    """Allow the call when the argument (an int: its low half counts) is one of `values`."""
    tests = [(_EQUAL, len(values) - index, 0, value) for index, value in enumerate(values)]
    return [_load(argument), *tests, _EPERM, _ALLOW]


def _none_of(argument: int, values: Sequence[int]) -> list[Instruction]:
    tests = [(_EQUAL, len(values) - index, 0, value) for index, value in enumerate(values)]
    return [_load(argument), *tests, _ALLOW, _EPERM]


def _no_bit(argument: int, bits: int) -> list[Instruction]:
    return [_load(argument), (_ANY_BIT, 0, 1, bits), _EPERM, _ALLOW]


def _some_bit(argument: int, bits: int) -> list[Instruction]:
    return [_load(argument), (_ANY_BIT, 1, 0, bits), _EPERM, _ALLOW]


class _Program(ctypes.Structure):
    """struct sock_fprog."""

    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))


def ready_made() -> dict[bool, bytes]:
    """Return the filter for any pid, with and without `forks`; empty on a machine that is not known.

    To be made once for many children: it takes longer than all the rest.
    """
    return {forks: assemble(machine(), _ANY_PID, forks) for forks in (True, False)} if machine() else {}


def restrict(ready: bytes, pid: int) -> None:
    """Put this process, whose pid is `pid`, and all that it will start under a filter made ready. Raises OSError."""
    code = ready.replace(struct.pack("I", _ANY_PID), struct.pack("I", pid))
    program = _Program(len(code) // 8, code)
    no_new_privileges()
    call("seccomp", _SET_MODE_FILTER, 0, ctypes.addressof(program))
