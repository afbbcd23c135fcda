"""Small talk between grader, supervisor and child before the first request: fixed-size notices, and the contract.

The contract tells a child what it works on. It goes over the child's own channel, so the supervisor, whose memory every
later child inherits, never learns of any submission.
"""

from __future__ import annotations

import socket
import struct
import time
from dataclasses import asdict, dataclass
from typing import Any

from autograder.probe.frames import Assembler, frame_start, load_header
from autograder.sandbox.policy import Limits

#: What a notice says. Grader to supervisor: SPAWN, END. Supervisor to grader: READY, SPAWNED, FAILED, ENDED.
READY, SPAWN, SPAWNED, FAILED, END, ENDED = range(6)


@dataclass(frozen=True)
class Notice:
    """One line between grader and supervisor about child `number`; what the rest means depends on `kind`.

    END:     `value` is how long to wait, in ms.   SPAWNED: `value` is the pid.   FAILED: `value` is the errno.
    ENDED:   `value` is the wait status, `cpu_ms` and `peak_kb` what it used, `flags` bit 0: killed, bit 1: clean.
    """

    kind: int
    number: int = 0
    value: int = 0
    cpu_ms: int = 0
    peak_kb: int = 0
    flags: int = 0

    def pack(self) -> bytes:
        return _NOTICE.pack(self.kind, self.number, self.value, self.cpu_ms, self.peak_kb, self.flags)


_NOTICE = struct.Struct("!BIqqqB")
NOTICE_SIZE = _NOTICE.size


def read_notice(control: socket.socket, deadline_s: float | None = None) -> tuple[Notice, list[int]] | None:
    """Return the next notice and the descriptors that came with it, or None at the end of the stream.

    Waits for ever, or raises TimeoutError after `deadline_s` seconds. POSIX only.
    """
    data, descriptors = b"", list[int]()
    end = None if deadline_s is None else time.monotonic() + deadline_s
    while len(data) < NOTICE_SIZE:
        control.settimeout(None if end is None else max(end - time.monotonic(), 0.001))
        piece, got, _, _ = socket.recv_fds(control, NOTICE_SIZE - len(data), 3)
        descriptors += got
        if not piece:
            return None
        data += piece
    return Notice(*_NOTICE.unpack(data)), descriptors


def send_json(channel: socket.socket, data: dict[str, Any]) -> None:
    """Send `data` as a frame without a body."""
    channel.sendall(frame_start(data, 0))


def receive_json(channel: socket.socket) -> dict[str, Any]:
    """Return the data of the next frame. Raises EOFError, TimeoutError (by the socket's own), ProtocolError."""
    frame = Assembler(0)
    complete = False
    while not complete:
        count = channel.recv_into(frame.space())
        if not count:
            raise EOFError("the other side has gone")
        complete = frame.advance(count)
    return load_header(frame.header)


def contract(tree: str, scratch: str, limits: Limits) -> dict[str, Any]:
    """Return what a child is told: where the submission lies, where it may write, and its limits. Nothing else."""
    return {"tree": tree, "scratch": scratch, "limits": asdict(limits)}
