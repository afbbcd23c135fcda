"""The two ends of the conversation, each by itself: a host in a thread, a client against a child that lies."""

from __future__ import annotations

import io
import os
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from autograder.probe import host
from autograder.probe.client import Probe, ProbeFailure
from autograder.probe.failure import Ending
from autograder.probe.frames import Assembler, frame_start
from autograder.probe.protocol import decode, encode
from autograder.sandbox import Limits
from autograder.verdict import Verdict

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals and descriptors of POSIX")


# -- the host, in a thread --------------------------------------------------------------------------------------------


#: Numbers that no test of these opens by chance.
WATCHED = {1001: "canary", 1002: "output"}


class Bench:
    """Answers with whatever the request names."""

    def handle(self, op: str, args: dict[str, Any], tensors: dict[str, torch.Tensor]) -> Any:
        if op == "memory":
            raise MemoryError
        if op == "allocator":
            raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 99 bytes")
        if op == "unsendable":
            return {"x": object()}, {}
        if op == "close":
            os.close(args["number"])
            return {}, {}
        if op == "large":
            return {}, {"x": torch.zeros(1000)}
        if op == "complex":
            return {}, {"z": torch.zeros(1, dtype=torch.complex64)}
        raise KeyboardInterrupt("no")


Ask = Callable[..., dict[str, Any]]


@pytest.fixture
def ask() -> Iterator[Ask]:
    yield from ask_host()


def ask_host() -> Iterator[Ask]:
    """Yield a function that asks a host of its own, and stop the host afterwards."""
    ours, theirs = socket.socketpair()
    with ours:
        thread = threading.Thread(target=lambda: host.serve(theirs, Bench, WATCHED, 100))
        thread.start()

        def ask(op: str, **args: Any) -> dict[str, Any]:
            for buffer in encode({"seq": 1, "nonce": "n", "op": op, "args": args}, {}):
                ours.sendall(buffer)
            frame = Assembler(1000)
            while not frame.advance(ours.recv_into(frame.space())):
                pass
            return decode(frame.header, frame.body)[0]

        yield ask
        ours.shutdown(socket.SHUT_RDWR)
        thread.join(5)
        assert not thread.is_alive()
    theirs.close()


@pytest.mark.parametrize(
    ("op", "answer"),
    [
        ("ping", {"data": {}}),
        ("memory", {"fatal": "memory"}),
        ("allocator", {"fatal": "memory"}),
        ("unsendable", {"error": {"type": "ProtocolError", "message": "the header is not plain data: TypeError"}}),
        ("interrupt", {"error": {"type": "KeyboardInterrupt", "message": "no"}}),
    ],
)
def test_the_host_answers_whatever_happens(ask: Ask, op: str, answer: dict[str, Any]) -> None:
    assert ask(op) == {"seq": 1, "nonce": "n", "events": [], **answer}


def test_the_host_tells_what_became_of_watched_descriptors() -> None:
    reading, writing = os.pipe()
    for number in WATCHED:
        os.dup2(writing, number)
    talk = ask_host()
    ask = next(talk)
    assert ask("ping")["events"] == []
    os.dup2(reading, 1002)
    assert ask("ping")["events"] == []  # a pipe's two ends are one file to the system
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1002)
    assert ask("ping")["events"] == ["The code redirects the grader's output."]
    assert ask("close", number=1001)["events"] == [
        "The code closes descriptors that do not belong to it.",
        "The code redirects the grader's output.",
    ]
    for number in (reading, writing, null, 1002):
        os.close(number)
    next(talk, None)


def test_the_host_does_not_send_more_than_it_may(ask: Ask) -> None:
    assert ask("large") == {"seq": 1, "nonce": "n", "events": [], "fatal": "too large"}


def test_the_host_refuses_tensors_that_cannot_be_carried(ask: Ask) -> None:
    assert "complex64" in ask("complex")["error"]["message"]


# -- the client, against a child that says what it likes ---------------------------------------------------------------


class FakeChild:
    """A child whose other end the test holds."""

    def __init__(self, ending: Ending) -> None:
        self.channel, self.theirs = socket.socketpair()
        reading, writing = os.pipe()
        os.set_blocking(reading, False)
        self.output: io.RawIOBase = io.FileIO(reading)
        self.prints = writing
        self.canary: io.RawIOBase | None = None
        self.exited: int | None = None
        self.ended: list[float] = []
        self._ending = ending

    def end(self, grace_s: float) -> Ending:
        self.ended.append(grace_s)
        for stream in (self.channel, self.theirs, self.output):
            stream.close()
        return self._ending


Answer = Callable[[dict[str, Any]], bytes]


def converse(answer: Answer, ending: Ending | None = None) -> tuple[Any, FakeChild]:
    """Make one call to a child that sends `answer(request header)`; return the reply or the failure."""
    child = FakeChild(ending or Ending(killed=True))

    class Nest:
        def spawn(self, tree: Path, limits: Limits) -> FakeChild:
            return child

    def respond() -> None:
        frame = Assembler(1000)
        while not frame.advance(child.theirs.recv_into(frame.space())):
            pass
        child.theirs.sendall(answer(decode(frame.header, frame.body)[0]))

    thread = threading.Thread(target=respond)
    thread.start()
    probe = Probe(Nest(), Path(), Limits(wall_s=5, reply_mb=1))
    try:
        return probe.call("x"), child
    except ProbeFailure as failure:
        return failure, child
    finally:
        thread.join()
        os.close(child.prints)


def reply(request: dict[str, Any], **changes: Any) -> bytes:
    header = {"seq": request["seq"], "nonce": request["nonce"], "events": [], "data": {"ok": 1}, **changes}
    return b"".join(encode({key: value for key, value in header.items() if value is not None}, {}))  # type: ignore[arg-type]


def test_the_one_bound_reply_is_taken() -> None:
    got, _ = converse(reply)
    assert got.data == {"ok": 1}


@pytest.mark.parametrize(
    "answer",
    [
        lambda request: reply(request, nonce="0" * 32),
        lambda request: reply(request, seq=request["seq"] + 1),
        lambda request: reply(request, seq=True),
        lambda request: reply(request, nonce=None),
        lambda request: reply(request, events=None),
        lambda request: reply(request, events="x"),
        lambda request: reply(request, data=[1]),
        lambda request: reply(request, data=None),
        lambda request: reply(request, extra=1),
        lambda request: reply(request, data=None, fatal="other"),
        lambda request: reply(request) + b"x",
        lambda request: reply(request) * 2,
        lambda request: frame_start({"seq": 1}, 0),
        lambda request: frame_start({"tensors": []}, 3) + b"abc",
        lambda request: b"WKP1" + b"\0\0\0\2" + (10 * 2**30).to_bytes(8, "big") + b"{}",
        lambda request: b"GET / HTTP/1.1\r\n\r\n",
    ],
)
def test_any_other_reply_is_forbidden(answer: Answer) -> None:
    failure, child = converse(answer)
    assert isinstance(failure, ProbeFailure)
    assert failure.verdict is Verdict.FORBIDDEN
    assert "channel" in failure.message
    assert child.ended == [0.0]


@pytest.mark.parametrize(
    ("changes", "verdict"),
    [
        ({"fatal": "memory"}, Verdict.OUT_OF_MEMORY),
        ({"fatal": "too large"}, Verdict.CRASHED),
        ({"error": {"type": "E", "message": "m"}}, Verdict.CRASHED),
        ({"error": "m"}, Verdict.FORBIDDEN),
    ],
)
def test_a_bound_failure_keeps_its_kind(changes: dict[str, Any], verdict: Verdict) -> None:
    failure, _ = converse(lambda request: reply(request, data=None, **changes))
    assert failure.verdict is verdict
