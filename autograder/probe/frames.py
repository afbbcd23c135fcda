"""One message on the wire: magic, two lengths, a JSON header, raw bytes. Strict, bounded; no pickle, no torch."""

from __future__ import annotations

import json
import re
import struct
from typing import Any

MAGIC = b"WKP1"
_PREFIX = struct.Struct("!4sIQ")  # magic, length of the header, length of the body
PREFIX_SIZE = _PREFIX.size

#: A header carries names, shapes and truncated messages: the largest real one (a GPT's state dict) is about 30 kB.
MAX_HEADER = 1 << 20
#: Our own headers nest about six levels; reports are made from them by recursive code, which must not overflow.
MAX_DEPTH = 32
_NO_BRACKETS = bytes(byte for byte in range(256) if byte not in b"[]{}")
#: Digits of the longest integer: 64 bits need 20 with the sign. Longer ones cost quadratic time to convert.
_MAX_DIGITS = 20
_LONG = re.compile(rb"[0-9]{%d}" % _MAX_DIGITS)


class ProtocolError(Exception):
    """The bytes are not a well-formed message (or the data cannot be made into one)."""


class Assembler:
    """Collect one frame from a stream: read into `space()`, tell `advance` how much came, until it returns True.

    It never asks for more bytes than the frame has, so whatever follows stays unread in the stream. Raises
    ProtocolError as soon as the prefix shows a wrong magic, a header over MAX_HEADER or a body over `body_limit` bytes:
    a claimed 10 GB is refused before a byte of it is read or allocated.
    """

    def __init__(self, body_limit: int) -> None:
        self._limit = body_limit
        self._pieces = [bytearray(PREFIX_SIZE)]
        self._filled = 0

    def space(self) -> memoryview:
        """Return the memory into which the next bytes belong; never empty before the frame is complete."""
        return memoryview(self._pieces[-1])[self._filled :]

    def advance(self, count: int) -> bool:
        """Note that `count` bytes were read into `space()`; return whether the frame is complete."""
        self._filled += count
        while self._filled == len(self._pieces[-1]):
            if len(self._pieces) == 3:
                return True
            if len(self._pieces) == 1:
                header_size, self._body_size = _read_prefix(bytes(self._pieces[0]), self._limit)
                self._pieces.append(bytearray(header_size))
            else:
                self._pieces.append(bytearray(self._body_size))
            self._filled = 0
        return False

    @property
    def started(self) -> bool:
        """Whether any byte has come."""
        return self._filled > 0 or len(self._pieces) > 1

    @property
    def header(self) -> bytes:
        return bytes(self._pieces[1])

    @property
    def body(self) -> bytearray:
        return self._pieces[2]


def _read_prefix(prefix: bytes, body_limit: int) -> tuple[int, int]:
    magic, header_size, body_size = _PREFIX.unpack(prefix)
    if magic != MAGIC:
        raise ProtocolError("the message does not start as a message does")
    if header_size > MAX_HEADER:
        raise ProtocolError(f"the header claims {header_size} bytes; at most {MAX_HEADER} are allowed")
    if body_size > body_limit:
        raise ProtocolError(f"the body claims {body_size} bytes; at most {body_limit} are allowed")
    return header_size, body_size


def frame_start(header: dict[str, Any], body_size: int) -> bytes:
    """Return prefix and header of a frame whose body of `body_size` bytes follows. Raises ProtocolError."""
    text = dump_header(header)
    return _PREFIX.pack(MAGIC, len(text), body_size) + text


def dump_header(header: dict[str, Any]) -> bytes:
    """Return `header` as ASCII JSON (lone surrogates and NaN survive). Raises ProtocolError for other data."""
    try:
        text = json.dumps(header, ensure_ascii=True, separators=(",", ":")).encode("ascii")
    except (TypeError, ValueError, RecursionError) as error:
        raise ProtocolError(f"the header is not plain data: {type(error).__name__}") from error
    if len(text) > MAX_HEADER:
        raise ProtocolError(f"the header has {len(text)} bytes; at most {MAX_HEADER} are allowed")
    _check_depth(text, header)
    return text


def load_header(text: bytes) -> dict[str, Any]:
    """Return the JSON object in `text`. Raises ProtocolError for anything else, also for deep or huge values."""
    if len(text) > MAX_HEADER:
        raise ProtocolError(f"the header has {len(text)} bytes; at most {MAX_HEADER} are allowed")
    try:
        # Python's own way to read integers takes a third of the time; long rows of digits are rare, and get a look.
        header = json.loads(text.decode("utf-8"), parse_int=_integer if _LONG.search(text) else None)
    except (ValueError, RecursionError) as error:
        raise ProtocolError("the header is not JSON") from error
    if not isinstance(header, dict):
        raise ProtocolError("the header is not an object")
    _check_depth(text, header)
    return header


def _integer(digits: str) -> int:
    if len(digits) > _MAX_DIGITS:
        raise ValueError("integer too long")
    return int(digits)


def _check_depth(text: bytes, value: Any) -> None:
    """Refuse `value`, written as `text`, when it nests too deeply: brackets that pair off soon do not."""
    brackets = text.translate(None, _NO_BRACKETS)
    for _ in range(MAX_DEPTH):
        if not brackets:
            return
        brackets = brackets.replace(b"[]", b"").replace(b"{}", b"")
    # Words may hold brackets of their own.
    level: list[Any] = [value]
    for _ in range(MAX_DEPTH):
        level = [
            child
            for item in level
            if isinstance(item, dict | list | tuple)
            for child in (item.values() if isinstance(item, dict) else item)
        ]
        if not level:
            return
    raise ProtocolError(f"the header nests more than {MAX_DEPTH} levels")
