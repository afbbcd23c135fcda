"""What a child lets fall beside its replies: printed text, writes to the canary, events. Bounded, and made plain."""

from __future__ import annotations

import io
import selectors
from collections.abc import Container
from typing import Any, Protocol

#: Nobody reads more; what was tried shows in the first few.
_MAX_EVENTS = 20
_MAX_TEXT = 300
#: The beginning says what kind of output it is; the end holds the last words of a dying process.
_HEAD = _TAIL = 4096
_CHUNK = 1 << 16
#: Chunks read at one go: 4 MiB, several times what a pipe holds, and soon back at the clock.
_CHUNKS = 64


class _Streams(Protocol):
    output: io.RawIOBase
    canary: io.RawIOBase | None


class Listener:
    """Counts output, keeps its head and tail, and collects events, each once."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.total = 0
        self.head = b""
        self.tail = b""

    def listen(self, child: _Streams, selector: selectors.BaseSelector, ready: Container[object]) -> None:
        """Read the streams that are `ready`; stop watching one that has ended."""
        if child.output in ready and not self._read_output(child):
            selector.unregister(child.output)
        if child.canary is not None and child.canary in ready and not self._read_canary(child.canary):
            selector.unregister(child.canary)

    def drain(self, child: _Streams) -> None:
        """Read what the streams hold now, without waiting."""
        self._read_output(child)
        if child.canary is not None:
            self._read_canary(child.canary)

    def note(self, event: Any) -> None:
        """Keep `event` as a plain sentence, unless it is known or there are too many."""
        text = self.plain(event) if isinstance(event, str) else ""
        if text and text not in self.events and len(self.events) < _MAX_EVENTS:
            self.events.append(text)

    @staticmethod
    def plain(text: str) -> str:
        """Return at most 300 characters of `text`, on one line, without control, format and surrogate characters."""
        return "".join(char if char.isprintable() else " " for char in text[:_MAX_TEXT]).strip()

    def _read_output(self, child: _Streams) -> bool:
        for _ in range(_CHUNKS):
            chunk = _read(child.output)
            if not chunk:
                return chunk is None
            self.total += len(chunk)
            self.head += chunk[: _HEAD - len(self.head)]
            self.tail = (self.tail + chunk[-_TAIL:])[-_TAIL:]
        return True

    def _read_canary(self, canary: io.RawIOBase) -> bool:
        for _ in range(_CHUNKS):
            chunk = _read(canary)
            if not chunk:
                return chunk is None
            self.note("The code writes to descriptors that do not belong to it.")
        return True


def _read(stream: io.RawIOBase) -> bytes | None:
    """Return what came, b"" at the end, None when nothing is there yet."""
    try:
        return stream.read(_CHUNK)
    except OSError:
        return b""
