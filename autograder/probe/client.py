"""The grader's side of the conversation: one request, and its one reply or a ProbeFailure."""

from __future__ import annotations

import io
import secrets
import selectors
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, Protocol, Self, TypeVar

import torch

from autograder.probe.failure import ORPHANED, Ending, ProbeFailure, explain, out_of_memory
from autograder.probe.frames import Assembler, ProtocolError
from autograder.probe.listener import Listener
from autograder.probe.protocol import decode, encode
from autograder.verdict import Verdict

__all__ = ["Budget", "Child", "Probe", "ProbeFailure", "Reply", "Spawner"]

#: How long a process whose channel closed may take to be gone; longer, and it closed the channel while it lives.
_DYING_S = 2.0
_MIB = 1 << 20
_INTRUSION = "The code wrote to the grader's channel, which it must leave alone."


@dataclass(frozen=True)
class Reply:
    """What came back: facts (JSON) and tensors (plain, on the CPU). A claim of the student's process, not a truth."""

    data: dict[str, Any]
    tensors: dict[str, torch.Tensor]


class Budget(Protocol):
    """The limits that the grader's side keeps; see `autograder.sandbox.policy.Limits`."""

    @property
    def wall_s(self) -> float: ...
    @property
    def cpu_s(self) -> int: ...
    @property
    def memory_mb(self) -> int: ...
    @property
    def output_mb(self) -> int: ...
    @property
    def reply_mb(self) -> int: ...


class Child(Protocol):
    """A process that runs `host.serve`, as the sandbox hands it over."""

    channel: socket.socket
    output: io.RawIOBase  # what it prints; non-blocking
    canary: io.RawIOBase | None  # what it writes to a descriptor that is not its own; non-blocking
    exited: int | None  # a descriptor that becomes readable when the process ends, where the system has such

    def end(self, grace_s: float) -> Ending:
        """Wait up to `grace_s` for it to end, kill it and all that it started; return how it ended."""
        ...


LimitsT = TypeVar("LimitsT", bound=Budget)
LimitsT_contra = TypeVar("LimitsT_contra", bound=Budget, contravariant=True)


class Spawner(Protocol[LimitsT_contra]):
    """What makes children; see `autograder.sandbox.Nursery`."""

    def spawn(self, tree: Path, limits: LimitsT_contra) -> Child: ...


class Probe(Generic[LimitsT]):
    """A conversation with one child in which the submission under `tree` runs. A context manager.

    The child starts with the first call. After a ProbeFailure it is dead (`alive` is False) and so is the probe;
    whoever wants to go on makes another one.

    `events` holds sentences about what the code tried with descriptors; `output_bytes` counts what it printed, of
    which `output_head` is the beginning.
    """

    def __init__(self, nursery: Spawner[LimitsT], tree: Path, limits: LimitsT) -> None:
        self._nursery, self._tree, self._limits = nursery, tree, limits
        self._child: Child | None = None
        self._selector: selectors.BaseSelector | None = None
        self._failure: ProbeFailure | None = None
        self._sequence = 0
        self._listener = Listener()
        self._closed = False

    @property
    def alive(self) -> bool:
        """Whether calls can be made: nothing has failed, and the probe is not closed."""
        return self._failure is None and not self._closed

    @property
    def events(self) -> list[str]:
        return list(self._listener.events)

    @property
    def output_bytes(self) -> int:
        return self._listener.total

    @property
    def output_head(self) -> str:
        return self._listener.head.decode("utf-8", "replace")

    def call(
        self,
        op: str,
        args: dict[str, Any] | None = None,
        tensors: Mapping[str, torch.Tensor] | None = None,
        *,
        wall_s: float | None = None,
    ) -> Reply:
        """Send one request and return its reply; `wall_s` seconds (else the limits') are allowed for it.

        Raises ProbeFailure: TIMED_OUT, CRASHED, OUT_OF_MEMORY, FORBIDDEN (all the code's doing), or UNGRADABLE (ours:
        no process could be started). On a probe that failed before, raises the same failure again.
        """
        if self._failure is not None:
            raise ProbeFailure(self._failure.verdict, self._failure.message)
        if self._closed:
            raise ValueError("this probe is closed")
        child, selector = self._ensure_child()
        self._sequence += 1
        bond = {"seq": self._sequence, "nonce": secrets.token_hex(16)}
        request = encode({**bond, "op": op, "args": args or {}}, tensors or {})
        try:
            frame = self._exchange(child, selector, request, self._limits.wall_s if wall_s is None else wall_s)
            return self._read(frame, bond)
        except ProbeFailure as failure:
            self._failure = failure
            self._end()
            raise

    def close(self) -> None:
        """End the child and all that it started. May be called twice."""
        self._closed = True
        if self._end().orphaned:
            self._listener.note(ORPHANED)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _ensure_child(self) -> tuple[Child, selectors.BaseSelector]:
        if self._child is None or self._selector is None:
            try:
                self._child = child = self._nursery.spawn(self._tree, self._limits)
            except ProbeFailure as failure:
                self._failure = failure
                raise
            child.channel.setblocking(False)
            self._selector = selectors.DefaultSelector()
            self._selector.register(child.channel, selectors.EVENT_READ)
            self._selector.register(child.output, selectors.EVENT_READ)
            if child.canary is not None:
                self._selector.register(child.canary, selectors.EVENT_READ)
            if child.exited is not None:
                self._selector.register(child.exited, selectors.EVENT_READ)
        return self._child, self._selector

    def _end(self, grace_s: float = 0.0) -> Ending:
        child, selector = self._child, self._selector
        self._child = self._selector = None
        if child is None:
            return Ending()
        if selector is not None:
            selector.close()
        self._listener.drain(child)
        return child.end(grace_s)

    # -- one exchange -------------------------------------------------------------------------------------------------

    def _exchange(
        self, child: Child, selector: selectors.BaseSelector, request: list[bytes | memoryview], wall_s: float
    ) -> Assembler:
        """Send `request`, receive exactly one frame, and meanwhile keep the child's output flowing."""
        deadline = time.monotonic() + wall_s
        frame = Assembler(self._limits.reply_mb * _MIB)
        unsent = [memoryview(buffer) for buffer in request]
        if self._receive(child, frame) or frame.started:  # an answer before the question
            raise ProbeFailure(Verdict.FORBIDDEN, _INTRUSION)
        selector.modify(child.channel, selectors.EVENT_READ | selectors.EVENT_WRITE)
        while True:
            left = deadline - time.monotonic()
            if left <= 0:
                raise ProbeFailure(Verdict.TIMED_OUT, f"The call did not finish within {wall_s:g} s.")
            ready = {key.fileobj: mask for key, mask in selector.select(left)}
            self._listener.listen(child, selector, ready)
            if self._listener.total > self._limits.output_mb * _MIB:
                raise ProbeFailure(Verdict.CRASHED, f"It printed more than {self._limits.output_mb} MB.")
            mask = ready.get(child.channel, 0)
            if mask & selectors.EVENT_READ or child.exited in ready:
                if self._receive(child, frame):
                    break
                if frame.started and unsent:
                    raise ProbeFailure(Verdict.FORBIDDEN, _INTRUSION)
                if child.exited in ready and not mask & selectors.EVENT_READ:
                    raise self._explain_death()
            if unsent and mask & selectors.EVENT_WRITE and not self._send(child, unsent):
                selector.modify(child.channel, selectors.EVENT_READ)
        if unsent or self._more_than_a_reply(child):
            raise ProbeFailure(Verdict.FORBIDDEN, _INTRUSION)
        self._listener.drain(child)
        return frame

    def _send(self, child: Child, unsent: list[memoryview]) -> bool:
        """Send what the channel takes; return whether something is left."""
        while unsent:
            try:
                count = child.channel.send(unsent[0])
            except BlockingIOError:
                return True
            except OSError:
                raise self._explain_death() from None
            unsent[0] = unsent[0][count:]
            if not unsent[0]:
                del unsent[0]
        return False

    def _receive(self, child: Child, frame: Assembler) -> bool:
        """Read what is there, up to the end of the frame; return whether the frame is complete."""
        while True:
            try:
                count = child.channel.recv_into(frame.space())
            except BlockingIOError:
                return False
            except OSError:
                count = 0
            if count == 0:
                raise self._explain_death()
            try:
                if frame.advance(count):
                    return True
            except ProtocolError as error:
                raise ProbeFailure(Verdict.FORBIDDEN, _INTRUSION) from error

    @staticmethod
    def _more_than_a_reply(child: Child) -> bool:
        try:
            return bool(child.channel.recv(1))
        except OSError:  # nothing there, or the process has gone since: the next call will see that
            return False

    def _explain_death(self) -> ProbeFailure:
        ending = self._end(_DYING_S)
        limits = self._limits
        output = self._listener.head + self._listener.tail
        return explain(ending, cpu_s=limits.cpu_s, memory_mb=limits.memory_mb, output=output)

    # -- what came ----------------------------------------------------------------------------------------------------

    def _read(self, frame: Assembler, bond: dict[str, Any]) -> Reply:
        try:
            header, tensors = decode(frame.header, frame.body)
        except ProtocolError as error:
            raise ProbeFailure(Verdict.FORBIDDEN, _INTRUSION) from error
        events = header.pop("events", None)
        bound = {key: header.pop(key, None) for key in bond}
        if bound != bond or type(bound["seq"]) is not int or not isinstance(events, list) or len(header) != 1:
            raise ProbeFailure(Verdict.FORBIDDEN, _INTRUSION)
        for event in events:
            self._listener.note(event)
        ((kind, value),) = header.items()
        if kind == "data" and isinstance(value, dict):
            return Reply(value, tensors)
        if kind == "fatal" and value == "memory":
            raise out_of_memory(self._limits.memory_mb)
        if kind == "fatal" and value == "too large":
            raise ProbeFailure(Verdict.CRASHED, f"It returned more than {self._limits.reply_mb} MB of tensors.")
        if kind == "error" and isinstance(value, dict):
            text = self._listener.plain(f"{value.get('type')}: {value.get('message')}")
            raise ProbeFailure(Verdict.CRASHED, f"The call ended with {text}")
        raise ProbeFailure(Verdict.FORBIDDEN, _INTRUSION)
