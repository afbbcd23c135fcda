"""A fresh Python process for one submission, where forking is not to be had or not to be trusted (Windows, macOS).

It imports torch anew (about two seconds). The channel is a loopback connection that the child opens and proves to be
its own by a one-time token.
"""

from __future__ import annotations

import hmac
import io
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

from autograder.probe.failure import Ending
from autograder.sandbox import boot, survivors
from autograder.sandbox.child import nonblocking_pipe, watch_exit

_POSIX = sys.platform != "win32"
#: Of the token, in bytes: not to be guessed by another process on the machine.
_TOKEN = 32


class FreshProcess:
    """The grader's hold on one: start it, then `connect` when it is needed, then `finish`."""

    def __init__(self, workbench: str, home: Path) -> None:
        """Launch it; returns at once. Raises OSError."""
        self._home = home
        self._token = secrets.token_hex(_TOKEN)
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=8)
        self.output: io.RawIOBase
        self.canary: io.RawIOBase | None = None
        canary = -1
        if _POSIX:
            self.output, output = nonblocking_pipe()
            self.canary, canary = nonblocking_pipe()
        else:  # pragma: no cover - pipes cannot be polled on Windows
            self.output, output = _relayed_pipe()
        try:
            self._process = subprocess.Popen(
                boot.command("autograder.sandbox.fresh", workbench),
                env=boot.environment(home),
                cwd=home,
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                start_new_session=_POSIX,
                pass_fds=(canary,) if _POSIX else (),
            )
        finally:
            os.close(output)
            if canary >= 0:
                os.close(canary)
        greeting = {"port": self._listener.getsockname()[1], "token": self._token, "canary": canary}
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):  # it died at once: `connect` will say so
            self._process.stdin.write(json.dumps(greeting).encode() + b"\n")
            self._process.stdin.close()

    def connect(self, timeout_s: float) -> socket.socket:
        """Return the channel once the process has called back. Raises OSError (TimeoutError) when it does not."""
        deadline = time.monotonic() + timeout_s
        self._listener.settimeout(0.1)
        with self._listener:
            while self._process.poll() is None and time.monotonic() < deadline:
                with suppress(TimeoutError):
                    channel, _ = self._listener.accept()
                    channel.settimeout(timeout_s)
                    if hmac.compare_digest(_read_exactly(channel, 2 * _TOKEN), self._token.encode()):
                        channel.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                        return channel
                    channel.close()  # somebody else on this machine
        raise TimeoutError(f"the process did not call back (exit status {self._process.poll()})")

    def watch_exit(self) -> int | None:
        return watch_exit(self._process.pid)

    def finish(self, grace_s: float) -> Ending:
        """Wait up to `grace_s` seconds, kill it and what it started; return how it ended."""
        self._listener.close()
        killed = False
        try:
            self._process.wait(max(grace_s, 0.001))
        except subprocess.TimeoutExpired:
            killed = True
            self._process.kill()
        if _POSIX:
            survivors.kill_group(self._process.pid)
        code = self._process.wait()
        survivors.hunt(self._home)
        if code < 0:
            # Its processor time is not to be had from subprocess; a SIGKILL that nobody sent is the limit's.
            return Ending(None, -code, killed=killed)
        return Ending(code, killed=killed)


def _read_exactly(channel: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size and (piece := channel.recv(size - len(data))):
        data += piece
    return data


def _relayed_pipe() -> tuple[io.RawIOBase, int]:  # pragma: no cover - Windows
    """Return a pipe whose reading end is a socket: a thread carries the bytes over."""
    reading, writing = os.pipe()
    near, far = socket.socketpair()

    def relay() -> None:
        with suppress(OSError), far:
            while chunk := os.read(reading, 1 << 16):
                far.sendall(chunk)
        os.close(reading)

    threading.Thread(target=relay, daemon=True).start()
    near.setblocking(False)
    return near.makefile("rb", buffering=0), writing


def main(workbench: str) -> None:
    """Run as the child: call the grader back, import, and serve."""
    greeting = json.loads(sys.stdin.buffer.readline())
    channel = socket.create_connection(("127.0.0.1", greeting["port"]))
    channel.sendall(greeting.pop("token").encode())
    channel.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    from autograder.sandbox.zygote import warm_up

    make = boot.load_workbench(workbench)
    warm_up()
    boot.hide_package()
    if hasattr(signal, "SIGPIPE"):
        signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    canary = greeting["canary"]
    boot.run_child(channel.detach(), None, canary if canary >= 0 else None, make, os.getppid() if _POSIX else None)
