"""The child's side of the conversation: read a request, let the Workbench handle it, answer once."""

from __future__ import annotations

import os
import socket
import stat
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Protocol

import torch

from autograder.probe.frames import Assembler
from autograder.probe.protocol import ProtocolError, body_size, decode, encode

#: Requests come from the grader, which is trusted; this only keeps a corrupted length from asking for the moon.
_REQUEST_LIMIT = 1 << 32
#: Enough to recognise an error by; the workbench has reported what matters.
_MESSAGE_SIZE = 2000
#: How torch words an allocation that failed, in a plain RuntimeError.
_ALLOCATION_FAILED = ("can't allocate memory", "not enough memory", "bad_alloc")

_Tensors = dict[str, torch.Tensor]


class Handler(Protocol):
    """What the host needs of a workbench: requests go in, facts and tensors come out."""

    def handle(self, op: str, args: dict[str, Any], tensors: _Tensors) -> tuple[dict[str, Any], _Tensors]: ...


def serve(
    channel: socket.socket, make_workbench: Callable[[], Handler], watched: Mapping[int, str], reply_limit: int
) -> None:
    """Answer requests on `channel` until the grader closes it. The workbench is made before the first real request.

    `watched` maps descriptors that student code must leave alone to "canary" or "output"; what happens to them is told
    in the replies' "events". Tensors over `reply_limit` bytes in one reply are not sent; the reply says so.
    """
    look = _guard_descriptors(watched)
    workbench: Handler | None = None
    while (request := _receive(channel)) is not None:
        header, tensors = request
        answer: dict[str, Any] = {"seq": header["seq"], "nonce": header["nonce"]}
        out: _Tensors = {}
        try:
            if header["op"] == "ping":
                answer["data"], out = header["args"], tensors
            else:
                workbench = workbench or make_workbench()
                # By its class: student code that finds the workbench may put another `handle` on it.
                answer["data"], out = type(workbench).handle(workbench, header["op"], header["args"], tensors)
            if body_size(out) > reply_limit:
                answer, out = {"seq": header["seq"], "nonce": header["nonce"], "fatal": "too large"}, {}
            buffers = encode({**answer, "events": look()}, out)
        except BaseException as error:
            # Whatever escapes is answered: SystemExit in a student's forward is no reason to leave the grader waiting.
            buffers = encode({"seq": header["seq"], "nonce": header["nonce"], "events": look(), **_fault(error)}, {})
        _flush()
        for buffer in buffers:
            channel.sendall(buffer)
        # Nothing of one request may be around in the next: it would keep tensors alive, or the nonce findable.
        del request, header, tensors, answer, out, buffers


def _receive(channel: socket.socket) -> tuple[dict[str, Any], _Tensors] | None:
    frame = Assembler(_REQUEST_LIMIT)
    complete = False
    while not complete:
        count = channel.recv_into(frame.space())
        if count == 0:
            return None
        complete = frame.advance(count)
    return decode(frame.header, frame.body)


def _fault(error: BaseException) -> dict[str, Any]:
    if ran_out_of_memory(error):
        return {"fatal": "memory"}
    return {"error": {"type": _type_name(error), "message": _text(error)}}


def ran_out_of_memory(error: BaseException) -> bool:
    """Return whether `error` is Python's or torch's way to say that memory ran out. Runs no code of the student's."""
    if isinstance(error, MemoryError):
        return True
    # Exactly RuntimeError: torch raises no subclass here, and a student's subclass could do anything when asked.
    args = error.args if type(error) is RuntimeError else ()
    return bool(args) and type(args[0]) is str and any(words in args[0] for words in _ALLOCATION_FAILED)


def _type_name(error: BaseException) -> str:
    name = type.__getattribute__(type(error), "__name__")
    return str.__getitem__(name, slice(100)) if isinstance(name, str) else "an error"


def _text(error: BaseException) -> str:
    try:  # str() runs the student's __str__, which may raise, or return a subclass of str with ideas of its own
        return str.__getitem__(str(error), slice(_MESSAGE_SIZE))
    except BaseException:
        return "(the message cannot be shown)"


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with suppress(BaseException):  # student code may have put anything there
            stream.flush()


def _guard_descriptors(watched: Mapping[int, str]) -> Callable[[], list[str]]:
    """Return a function that says what has happened to the watched descriptors since now."""
    fstat = os.fstat

    def identity(number: int) -> tuple[int, int, int] | None:
        try:
            status = fstat(number)
        except OSError:
            return None
        return status.st_dev, status.st_ino, stat.S_IFMT(status.st_mode)

    before = {number: identity(number) for number in watched}

    def look() -> list[str]:
        events = []
        for number, kind in watched.items():
            now = identity(number)
            if now is None and before[number] is not None:
                events.append("The code closes descriptors that do not belong to it.")
            elif now != before[number]:
                what = "the grader's output" if kind == "output" else "descriptors that do not belong to it"
                events.append(f"The code redirects {what}.")
        return list(dict.fromkeys(events))

    return look


__all__ = ["Handler", "ProtocolError", "ran_out_of_memory", "serve"]
