"""A notebook file's bytes as cells, in whatever state it is: half merged, cut short, in an old format, misnamed."""

from __future__ import annotations

import itertools
import json
import re
from dataclasses import dataclass
from typing import Any, Literal

from autograder.submission.limits import MAX_NOTEBOOK_VALUES, MAX_SOURCE, MB, Refused, too_large
from autograder.submission.names import shown
from autograder.verdict import Verdict

Kind = Literal["code", "text"]

_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+"', re.DOTALL)
_FENCE = re.compile(r"^[ \t]*```", re.MULTILINE)
_PYTHON = re.compile(r"^[ \t]*(?:class|def)[ \t]+\w+[ \t]*[(:]|^(?:import|from)[ \t]+\w+", re.MULTILINE)
_SIDES = {"<<<<<<<": "mine", "|||||||": "before", "=======": "theirs", ">>>>>>>": ""}
#: In JSON a quote within a string has a backslash before it: these stand outside of strings, or end one.
_CELL_PIECE = re.compile(r'(?<!\\)"(?:cell_type"\s*:\s*"(\w+)"|(?:source|input)"\s*:\s*(?=["\[]))')
_MAX_BROKEN = 20  # sources that do not end: each is looked through to the end of the file
_LARGE_OUTPUT = 5 * MB


@dataclass(frozen=True)
class Cell:
    """One cell. `label` is its place in the student's words: "cell 3" (of the code cells), "text cell 1"."""

    kind: Kind
    label: str
    text: str


@dataclass(frozen=True)
class Book:
    """The cells of one notebook in their order, and what had to be put right to read them, in sentences."""

    name: str
    cells: tuple[Cell, ...]
    repairs: tuple[str, ...] = ()


def read_book(data: bytes, name: str) -> Book:
    """Return the cells of a notebook (nbformat 3 and later). Raises Refused when there are none to be found."""
    name = shown(name)
    if _values(data) > MAX_NOTEBOOK_VALUES:
        raise Refused(f"{name} holds too much: clear the outputs of its cells and save it again.")
    encoding = json.detect_encoding(data)
    text = data.decode(encoding, "replace")
    repairs = []
    if encoding not in ("utf-8", "utf-8-sig"):
        repairs.append(f"{name} is saved as {encoding[:6].upper()}: it was read as that. Notebooks are UTF-8.")
    found, what = _pieces(text, name)
    if what:
        repairs.append(what)
    cells = _labelled(found)
    code = sum(len(cell.text) + len("# %% cell 1\n") for cell in cells if cell.kind == "code")
    if code > MAX_SOURCE:
        raise too_large(f"The code in {name}", MAX_SOURCE)
    if not what and len(data) - sum(len(cell.text) for cell in cells) > _LARGE_OUTPUT:
        repairs.append(f"{name} takes {len(data) / MB:.0f} MB, nearly all of it outputs: they were left out.")
    return Book(name, cells, tuple(repairs))


def _values(data: bytes) -> int:
    """Return how many values the JSON holds, at most: brackets and commas, in strings only if those are few."""
    marks = (b"[", b"{", b",")
    count = sum(data.count(mark) for mark in marks)
    if count > MAX_NOTEBOOK_VALUES:  # printed tensors are full of them
        bare = _STRING.sub(b"", data)
        count = sum(bare.count(mark) for mark in marks)
    return count


def _pieces(text: str, name: str) -> tuple[list[tuple[Kind, str]], str]:
    """Return (kind, source) of each cell, and a sentence about what had to be done for it."""
    try:
        book = json.loads(text.removeprefix("\ufeff"))
    except RecursionError:
        raise Refused(f"{name} is nested too deeply to be a notebook.") from None
    except ValueError:
        return _from_no_json(text, name)
    cells = _cells(book)
    if cells is None:
        raise Refused(f"{name} is not a notebook (it has no cells): save it again from Jupyter.", Verdict.FAILED)
    old = "cells" not in book
    what = f"{name} is in an old format (nbformat 3): Jupyter saves it anew as 4." if old else ""
    return _sources(cells), what


def _from_no_json(text: str, name: str) -> tuple[list[tuple[Kind, str]], str]:
    if found := _merged(text):
        return found, f"{name} holds an unresolved merge (<<<<<<<): both sides were read, the upper one first."
    begins_as_json = text[:100].lstrip("\ufeff \t\r\n").startswith(("{", "["))
    if begins_as_json:
        found = _salvaged(text)
        if any(kind == "code" for kind, _ in found):
            count = f"{len(found)} cells" if len(found) > 1 else "1 cell"
            return found, f"{name} is damaged (its JSON is cut short or broken): {count} could be read."
    elif _FENCE.search(text):
        raise Refused(
            f"{name} is not a notebook but text with code between fences (```): paste the code into a notebook's "
            "cells, or hand it in as a .py file.",
            Verdict.FAILED,
        )
    elif _PYTHON.search(text):
        return [("code", text)], f"{name} is not a notebook but a Python file by that name: it was read as one."
    raise Refused(f"{name} is not a notebook (not valid JSON): save it again from Jupyter.", Verdict.FAILED)


def _cells(book: Any) -> list[Any] | None:
    if not isinstance(book, dict):
        return None
    if isinstance(book.get("cells"), list):
        return list(book["cells"])
    sheets = book.get("worksheets")  # nbformat 3
    if not isinstance(sheets, list):
        return None
    inside = [sheet.get("cells") for sheet in sheets if isinstance(sheet, dict)]
    return [cell for cells in inside if isinstance(cells, list) for cell in cells]


def _sources(cells: list[Any]) -> list[tuple[Kind, str]]:
    return [
        ("code" if cell.get("cell_type") == "code" else "text", _text(cell.get("source", cell.get("input", ""))))
        for cell in cells
        if isinstance(cell, dict)
    ]


def _text(source: object) -> str:
    pieces = source if isinstance(source, list) else [source]
    text = "".join(piece for piece in pieces if isinstance(piece, str))
    # JSON may hold half a surrogate pair, which no file can: shown as its escape
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _labelled(found: list[tuple[Kind, str]]) -> tuple[Cell, ...]:
    counts = {"code": itertools.count(1), "text": itertools.count(1)}
    words = {"code": "cell", "text": "text cell"}
    return tuple(Cell(kind, f"{words[kind]} {next(counts[kind])}", text) for kind, text in found)


def _merged(text: str) -> list[tuple[Kind, str]]:
    """Return the cells of both sides of a merge that git could not finish: in a conflict the upper side's first."""
    if not re.search(r"^<{7}(?: |$)", text, re.MULTILINE):
        return []
    sides: dict[str, list[str]] = {"mine": [], "theirs": []}
    now = ""
    for line in text.split("\n"):
        mark = line[:7]
        if mark in _SIDES and line[7:8].strip() == "":
            now = _SIDES[mark]
            continue
        for side, lines in sides.items():
            if now in ("", side):
                lines.append(line)
    mine, theirs = (_side("\n".join(lines)) for lines in sides.values())
    shared = {cell: place for place, cell in reversed(list(enumerate(mine)))}
    before: dict[int, list[tuple[Kind, str]]] = {}
    waiting: list[tuple[Kind, str]] = []
    for cell in theirs:
        if cell in shared:
            before.setdefault(shared[cell], []).extend(waiting)
            waiting = []
        else:
            waiting.append(cell)
    both = [each for place, cell in enumerate(mine) for each in (*before.get(place, ()), cell)]
    return [*both, *waiting]


def _side(text: str) -> list[tuple[Kind, str]]:
    try:
        cells = _cells(json.loads(text))
    except (ValueError, RecursionError):
        return _salvaged(text)
    return _sources(cells or [])


def _salvaged(text: str) -> list[tuple[Kind, str]]:
    """Return the cells of broken JSON whose source is whole: after each cell's type, the next source is its own."""
    decoder = json.JSONDecoder()
    found: list[tuple[Kind, str]] = []
    kind: str | None = None
    broken = 0
    for piece in _CELL_PIECE.finditer(text):
        if piece[1]:
            kind = piece[1]
        elif kind is not None and broken < _MAX_BROKEN:
            try:
                source, _ = decoder.raw_decode(text, piece.end())
            except (ValueError, RecursionError):
                broken += 1
                continue
            found.append(("code" if kind == "code" else "text", _text(source)))
            kind = None
    return found
