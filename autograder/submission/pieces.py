"""Cells that only together are Python: a class that was split is put together, one that was pasted is cut out."""

from __future__ import annotations

import ast
import itertools
import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

from autograder.submission.choice import defined
from autograder.submission.notebook import under_header
from autograder.submission.syntax import Parser
from autograder.track import Track

_MAX_PARTS = 6  # a class is rarely split into more cells than it has methods
_CODE = re.compile(r"^[ \t]*(?:class |def |return\b|self\.|import |from |@|raise |if |for |[\w.]+ = )", re.MULTILINE)
_OF_SELF = re.compile(r"\bself\.(\w+)")
_FENCE = re.compile(r"[ \t]*(?:```|~~~)")
_MARKS = re.compile(r"(<{7}|\|{7}|={7}|>{7})(?: |$)")


@dataclass(frozen=True)
class Piece:
    """One cell as Python text; `code` is false for text cells."""

    code: bool
    label: str
    text: str
    book: str

    @property
    def place(self) -> str:
        """Where it is, to begin a sentence: "Code cell 3", "Text cell 1"."""
        return f"Code {self.label}" if self.label.startswith("cell") else self.label[:1].upper() + self.label[1:]


@dataclass(frozen=True)
class Unit:
    """Cells that are Python together: their text under headers, and its statements (None: it is no Python)."""

    pieces: tuple[Piece, ...]
    text: str
    body: list[ast.stmt] | None

    @property
    def code(self) -> bool:
        return any(piece.code for piece in self.pieces)

    @property
    def book(self) -> str:
        return self.pieces[0].book

    @property
    def place(self) -> str:
        return " and ".join([self.pieces[0].place, *(_lower(piece.place) for piece in self.pieces[1:])])

    @property
    def s(self) -> str:
        """The ending of a verb about it: "holds", but "cells hold"."""
        return "s" if len(self.pieces) == 1 else ""

    @property
    def lower_place(self) -> str:
        return _lower(self.place)


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:]


def assembled(pieces: Sequence[Piece], track: Track, parser: Parser) -> list[Unit]:
    """Return the units of one notebook in document order; of text cells, those that look like code."""
    units: list[Unit] = []
    at = 0
    while at < len(pieces):
        piece = pieces[at]
        at += 1
        if not piece.code and not _looks_like_code(piece.text):
            continue
        alone = _unit([piece], parser)
        if _is_indented(piece.text):
            freed = _unit([_dedented(piece)], parser)
            if freed.body is not None and defined(track, freed.text):
                units.append(freed)  # as a notebook runs it: a cell may be indented as a whole
                continue
        elif alone.body is not None:
            units.append(alone)
            continue
        joined, back, used = _joined(units, pieces[at - 1 :], track, parser)
        if joined is None:
            units.append(alone)
        elif back:
            units[-back] = joined
        else:
            units.append(joined)
        at += used - 1
    return _with_strays(units, track, parser)


def _with_strays(units: list[Unit], track: Track, parser: Parser) -> list[Unit]:
    """Put pieces of a class that stand above its beginning where they belong: below it."""
    for place in range(len(units) - 1, -1, -1):
        stray = units[place]
        if stray.body is not None or not _is_indented(stray.pieces[0].text):
            continue
        below = range(place + 1, min(len(units), place + 1 + _MAX_PARTS))
        for later in sorted(below, key=lambda each: -_shared(units[each], stray.pieces[0])):
            joined = _unit([*units[later].pieces, *stray.pieces], parser)
            if joined.body is not None and _holds_all(joined, track):
                units[later] = joined
                del units[place]
                break
    return units


def _joined(units: Sequence[Unit], rest: Sequence[Piece], track: Track, parser: Parser) -> tuple[Unit | None, int, int]:
    """Return the unit that the first of `rest` is a part of, with the cells after it, or what stands before it.

    Also how far back the unit lies that it continues (0: none), and how many of `rest` are used up.
    """
    if parser.left < 0:
        return None, 0, 1
    following = list(rest[: 2 * _MAX_PARTS])
    only_code = [following[0], *(piece for piece in following[1:] if piece.code)]
    with_code = [following[0], *(each for each in following[1:] if each.code or _looks_like_code(each.text))]
    runs: list[list[Piece]] = []
    for run in (only_code, with_code, following):
        if run not in runs:
            runs.append(run)
    backs = [0]
    if _is_indented(rest[0].text):
        near = range(1, min(len(units), _MAX_PARTS) + 1)
        backs = [*sorted(near, key=lambda back: -_shared(units[-back], rest[0])), 0]
    for back, run in itertools.product(backs, runs):
        start = units[-back].pieces if back else ()
        for count in range(1 if back else 2, min(len(run), _MAX_PARTS) + 1):
            unit = _unit([*start, *run[:count]], parser)
            if unit.body is not None and _holds_all(unit, track):
                return unit, back, following.index(run[count - 1]) + 1
    return None, 0, 1


def _shared(unit: Unit, piece: Piece) -> int:
    """Return how many of the names that `piece` takes from self the unit has too: the more, the likelier its class."""
    return sum(f"self.{name}" in unit.text for name in set(_OF_SELF.findall(piece.text)))


def _holds_all(unit: Unit, track: Track) -> bool:
    """Whether each class that is there by the look of the text is there for Python: not within a string, say."""
    names = {node.name for node in unit.body or () if isinstance(node, ast.ClassDef)}
    return all(defined(track, piece.text) <= names for piece in unit.pieces)


def _unit(pieces: Sequence[Piece], parser: Parser) -> Unit:
    text = "\n".join(under_header(piece.label, piece.text, number > 0) for number, piece in enumerate(pieces))
    return Unit(tuple(pieces), text, parser.parse(text))


def _looks_like_code(text: str) -> bool:
    return _CODE.search(text) is not None


def _is_indented(text: str) -> bool:
    first = next((line for line in text.split("\n") if line.strip() and not line.lstrip().startswith("#")), "")
    return first[:1] in (" ", "\t")


def _dedented(piece: Piece) -> Piece:
    return Piece(piece.code, piece.label, textwrap.dedent(piece.text), piece.book)


def cleared(text: str, parser: Parser) -> tuple[str, str]:
    """Return a cell without the marks of a merge or of Markdown, where it is Python then, and a sentence's end.

    Line for line: what is dropped becomes a comment.
    """
    lines = text.split("\n")
    marked = any(_MARKS.match(line) for line in lines)
    if not marked and not any(_FENCE.match(line) for line in lines):
        return text, ""
    if parser.parse(text) is not None:
        return text, ""  # the marks stand in a string
    if marked:
        for side, name in (("lower", "theirs"), ("upper", "mine")):
            candidate = "\n".join(_one_side(lines, name))
            if parser.parse(candidate) is not None:
                return candidate, f"holds an unresolved merge (<<<<<<<): its {side} side is graded."
        return text, ""
    candidate = "\n".join(f"# {line}" if _FENCE.match(line) else line for line in lines)
    if parser.parse(candidate) is not None:
        return candidate, "holds a Markdown fence (```): it was left out."
    return text, ""


def _one_side(lines: Sequence[str], wanted: str) -> list[str]:
    states = {"<": "mine", "|": "before", "=": "theirs", ">": ""}
    now, out = "", []
    for line in lines:
        mark = _MARKS.match(line)
        now = states[line[0]] if mark else now
        out.append(f"# {line}" if mark or now not in ("", wanted) else line)
    return out


def fenced(unit: Unit, parser: Parser) -> Unit | None:
    """Return a text cell with all but what stands between its code fences made comments; None if there are none."""
    if len(unit.pieces) != 1:
        return None
    piece, inside, out, fences = unit.pieces[0], False, [], 0
    for line in piece.text.split("\n"):
        if _FENCE.match(line):
            inside, fences = not inside, fences + 1
            out.append(f"# {line}")
        else:
            out.append(line if inside else f"# {line}")
    return _unit([Piece(piece.code, piece.label, "\n".join(out), piece.book)], parser) if fences else None
