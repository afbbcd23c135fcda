"""Python source seen line by line, without parsing it: where strings, comments and brackets are.

Hostile nesting can crash a parser, and student text that does not parse is just what we must say something about.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_NEWLINE = re.compile(r"\r\n|\r|\n")  # what Python takes for the end of a line; str.splitlines() knows eight more
_MARK = re.compile(r"#|\"\"\"|'''|\"|'|[\[({\])}]+")
_ESCAPE_OR_END = {quote: re.compile(r"\\.|" + quote) for quote in ('"""', "'''", '"', "'")}


@dataclass(frozen=True, slots=True)
class Line:
    """One physical line. `code` is its text with strings emptied, up to `comment`, where its comment begins."""

    number: int  # from 1
    text: str
    code: str
    comment: int
    in_string: bool  # begins inside a string
    opens_statement: bool  # begins outside strings, brackets and continued lines


class Scanner:
    """Reads lines one after the other and remembers what is still open."""

    def __init__(self) -> None:
        self._number = 0
        self._quote = ""
        self._depth = 0
        self._continued = False

    @property
    def at_statement(self) -> bool:
        """Can the next line begin a statement?"""
        return not (self._quote or self._depth or self._continued)

    def feed(self, text: str) -> Line:
        """Return what `text`, the next line without its end, is made of."""
        self._number += 1
        in_string, opens = bool(self._quote), self.at_statement
        code: list[str] = []
        at, comment = 0, len(text)
        while at < len(text):
            if self._quote:
                at = self._skip_string(text, at)
                continue
            mark = _MARK.search(text, at)
            code.append(text[at : mark.start() if mark else len(text)])
            if mark is None:
                break
            at = mark.end()
            if mark[0] == "#":
                comment = mark.start()
                break
            if mark[0][0] in "\"'":
                self._quote = mark[0]
                code.append('""')
                continue
            opened = sum(map(mark[0].count, "([{"))
            self._depth = max(0, self._depth + 2 * opened - len(mark[0]))  # opened minus closed
            code.append(mark[0])
        self._continued = comment == len(text) and text.endswith("\\")
        if len(self._quote) == 1 and not self._continued:
            self._quote = ""  # a string in single quotes ends with its line, closed or not
        return Line(self._number, text, "".join(code), comment, in_string, opens)

    def _skip_string(self, text: str, at: int) -> int:
        for found in _ESCAPE_OR_END[self._quote].finditer(text, at):
            if found[0] == self._quote:
                self._quote = ""
                return found.end()
        return len(text)


def split_lines(text: str) -> list[str]:
    """Split at LF, CRLF and CR, as Python does."""
    return _NEWLINE.split(text)


def scan(text: str) -> Iterator[Line]:
    """Yield the lines of `text`."""
    scanner = Scanner()
    for line in split_lines(text):
        yield scanner.feed(line)
