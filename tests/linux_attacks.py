"""Attacks of student code on the machine: what each tries, and which layers of the Linux sandbox stop it alone.

Each is an expression for the toy workbench, over the names in PRELUDE and in the table that `Targets` gives; it is true
when the attack worked, and false or an OSError when it was stopped. All leave the machine as it was.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from autograder.sandbox.linux_numbers import machine, numbers

PRELUDE = """
import ctypes, errno, os, signal, socket, struct, sys, threading, time

libc = ctypes.CDLL(None, use_errno=True)

def raw(name, *args):
    result = libc.syscall(ctypes.c_long(NUMBERS[name]), *[ctypes.c_void_p(a) if type(a) is int else a for a in args])
    if result < 0:
        raise OSError(ctypes.get_errno(), name)
    return result

def read(path):
    with open(path, 'rb') as stream:
        return bool(stream.read(10))

def read_in_c(path):
    libc.fopen.restype = ctypes.c_void_p
    return bool(libc.fopen(path.encode(), b'r'))

def write(path):
    with open(path, 'r+b') as stream:
        return stream.write(b'mine') == 4

def make(name='own'):
    with open(name, 'w') as stream:
        stream.write('x')
    return name

def talk(family, kind, address):
    with socket.socket(family, kind) as door:
        door.settimeout(5)
        door.connect(address)
        return door.send(b'hello') == 5

def talk_in_c(port):
    door = raw('socket', socket.AF_INET, socket.SOCK_STREAM, 0)
    address = struct.pack('=H', socket.AF_INET) + struct.pack('!H', port) + bytes([127, 0, 0, 1]) + bytes(8)
    return raw('connect', door, address, 16) == 0

def listen():
    with socket.socket() as door:
        door.bind(('127.0.0.1', 0))
        return True

def signal_to(pid):
    os.kill(pid, 0)
    return True

def trace(pid):
    return raw('ptrace', 0x4206, pid, 0, 0) == 0  # PTRACE_SEIZE: it goes on running, and is free when we end

def read_memory(pid):
    buffer = ctypes.create_string_buffer(8)
    local = struct.pack('QQ', ctypes.addressof(buffer), 8)
    raw('process_vm_readv', pid, local, 1, struct.pack('QQ', MAPPED, 8), 1, 0)
    return True

def fork_many(count):
    made = 0
    for _ in range(count):
        if os.fork() == 0:
            time.sleep(60)
            os._exit(0)
        made += 1
    return made == count

def fill(megabytes):
    for number in range(megabytes // 8):
        with open(f'fill{number}', 'wb') as stream:
            stream.write(bytes(8 << 20))
    return True

def run_a_program():
    pid = os.fork()
    if pid == 0:
        try:
            os.execv(PROGRAM, [PROGRAM, '-c', 'exit 42'])
        finally:
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 42

def run_from_memory():
    place = raw('memfd_create', b'x', 0)
    os.write(place, open(PROGRAM, 'rb').read(16))
    return True

def new_user_namespace():
    pid = raw('clone', 0x10000000 | signal.SIGCHLD, 0, 0, 0, 0)
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    return True

def link_hard():
    os.link(SECRET, 'linked')
    return True

def link_soft():
    os.symlink(SECRET, 'soft')
    return os.path.islink('soft')

def change_mode():
    os.chmod(make(), 0o777)
    return True

def own_message(place):
    near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    near.sendto(b'hello', place)
    return True

def signal_by_descriptor(pid):
    place = raw('pidfd_open', pid, 0)
    return raw('pidfd_send_signal', place, 0, 0, 0) == 0

def strangle(pid):
    import resource
    resource.prlimit(pid, resource.RLIMIT_CORE, resource.prlimit(pid, resource.RLIMIT_CORE))
    return True
"""


@dataclass(frozen=True)
class Attack:
    """`stopped_by`: the layers that suffice alone; `root`: works only as root; `abi`: what landlock needs for it."""

    code: str
    stopped_by: tuple[str, ...]
    root: bool = False
    abi: int = 1


BOTH = ("landlock", "namespaces")
ALL = ("landlock", "namespaces", "seccomp")
LATER = ("namespaces", "seccomp")

ATTACKS: dict[str, Attack] = {
    "read a secret that all may read": Attack("read(SECRET)", BOTH),
    "read it in C": Attack("read_in_c(SECRET)", BOTH),
    "read the list of users": Attack("read('/etc/passwd')", BOTH),
    "read the solutions": Attack("read(SOLUTION)", BOTH),
    "read the checks": Attack("read(CHECKS)", BOTH),
    "read another submission": Attack("read(OTHER)", BOTH),
    "list submissions": Attack("bool(os.listdir(os.path.dirname(OTHER)))", BOTH),
    "write to a file that all may write": Attack("write(OPEN)", BOTH),
    "read the environment of the grader": Attack("read(f'/proc/{GRADER}/environ')", BOTH),
    "read the memory of the grader": Attack("bool(os.open(f'/proc/{GRADER}/mem', 0))", BOTH),
    "read the memory of the supervisor": Attack("bool(os.open(f'/proc/{os.getppid()}/mem', 0))", BOTH),
    "connect by TCP": Attack("talk(socket.AF_INET, socket.SOCK_STREAM, ('127.0.0.1', TCP))", ALL, abi=4),
    "connect by TCP in C": Attack("talk_in_c(TCP)", ALL, abi=4),
    "send by UDP": Attack("talk(socket.AF_INET, socket.SOCK_DGRAM, ('127.0.0.1', UDP))", LATER),
    "talk to a program by a path": Attack("talk(socket.AF_UNIX, socket.SOCK_STREAM, UNIX)", LATER),
    "talk to a program by a name": Attack("talk(socket.AF_UNIX, socket.SOCK_STREAM, NAME)", ALL, abi=6),
    "send to a program from a pair": Attack("own_message(MAIL)", LATER),
    "offer a service": Attack("listen()", ("landlock", "seccomp"), abi=4),
    "signal the grader": Attack("signal_to(GRADER)", ALL, abi=6),
    "signal the grader in C": Attack("raw('kill', GRADER, 0) == 0", ALL, abi=6),
    "signal the grader by descriptor": Attack("signal_by_descriptor(GRADER)", ALL, abi=6),
    "signal the supervisor": Attack("signal_to(os.getppid())", ("landlock", "seccomp"), abi=6),
    "signal another child": Attack("signal_to(SIBLING)", ("landlock", "seccomp"), abi=6),
    "change the limits of the grader": Attack("strangle(GRADER)", LATER),
    "change the limits of another child": Attack("strangle(SIBLING)", ("seccomp",)),
    "trace the grader": Attack("trace(VICTIM)", ALL),
    "read the memory of another child": Attack("read_memory(SIBLING)", ("landlock", "seccomp")),
    "start a program": Attack("run_a_program()", ("landlock", "seccomp")),
    "make a file in memory to run": Attack("run_from_memory()", ("seccomp",)),
    "change the mode of a file": Attack("change_mode()", ("seccomp",)),
    "make a link": Attack("link_soft()", ("landlock", "seccomp")),
    "link to a secret": Attack("link_hard()", ALL),
    "make shared memory": Attack("raw('shmget', 0, 4096, 0o1600) >= 0", ("seccomp",)),
    "make a namespace": Attack("new_user_namespace()", ("seccomp",)),
    "keep a key": Attack("raw('keyctl', 0, -3, 1) > 0", ("seccomp",)),
    "fill the disk": Attack("fill(80)", ("namespaces",)),
    "start 300 processes": Attack("fork_many(300)", ("seccomp",), root=True),
    "become another user": Attack("os.setresuid(1, 1, 1) is None", ("user",), root=True),
}


class Targets:
    """What the attacks aim at. A context manager; `names` is the table that they use."""

    def __init__(self) -> None:
        self.names: dict[str, Any] = {}
        self._open = ExitStack()

    def __enter__(self) -> Self:
        folder = Path(self._open.enter_context(tempfile.TemporaryDirectory(prefix="workshop-test-"))).resolve()
        folder.chmod(0o755)
        other = folder / "class" / "bo"
        other.mkdir(parents=True)
        for path, mode in ((folder / "secret", 0o644), (folder / "open", 0o666), (other / "model.py", 0o644)):
            path.write_text("the answer is 42")
            path.chmod(mode)
        kit = Path(__file__).resolve().parents[1]
        victim = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
        self._open.callback(lambda: (victim.kill(), victim.wait()))
        name = f"\0workshop-test-{os.getpid()}"
        self.names = {
            "NUMBERS": numbers(machine()),
            "SECRET": str(folder / "secret"),
            "OPEN": str(folder / "open"),
            "OTHER": str(other / "model.py"),
            "SOLUTION": str(kit / "solutions" / "attention.py"),
            "CHECKS": str(kit / "autograder" / "checks" / "attention.py"),
            "GRADER": os.getpid(),
            "VICTIM": victim.pid,
            "PROGRAM": "/bin/sh",
            "TCP": self._listen(socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", 0)),
            "UDP": self._listen(socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", 0)),
            "UNIX": self._listen(socket.AF_UNIX, socket.SOCK_STREAM, str(folder / "door")),
            "MAIL": self._listen(socket.AF_UNIX, socket.SOCK_DGRAM, str(folder / "mail")),
            "NAME": self._listen(socket.AF_UNIX, socket.SOCK_STREAM, name),
        }
        for door in ("door", "mail"):
            (folder / door).chmod(0o777)
        self.untouched: Callable[[], bool] = lambda: (folder / "open").read_text() == "the answer is 42"
        self.restore: Callable[[], object] = lambda: (folder / "open").write_text("the answer is 42")
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def _listen(self, family: int, kind: int, address: Any) -> Any:
        door = self._open.enter_context(socket.socket(family, kind))
        door.bind(address)
        if kind == socket.SOCK_STREAM:
            door.listen(64)
        return door.getsockname()[1] if family == socket.AF_INET else address

    def code(self, expression: str, **more: Any) -> str:
        """Return statements that leave in `worked` whether the attack worked, and in `why` what stopped it."""
        table = json.dumps({**self.names, **more})
        return (
            f"import json\nglobals().update(json.loads({table!r}))\n{PRELUDE}\n"
            f"MAPPED = {'ANCHOR' if 'ANCHOR' in more else '0'}\nworked, why = False, ''\n"
            f"try:\n    worked = bool({expression})\n"
            "except OSError as error:\n    why = errno.errorcode.get(error.errno, '')\n"
        )
