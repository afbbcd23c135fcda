"""Repair of a notebook's cells, with receipts: what the student wrote is found by name and content, and put in order.

The file itself is never changed. A notebook to which nothing happened comes out as it is, cell for cell.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from autograder.submission.book import Book
from autograder.submission.choice import defined
from autograder.submission.notebook import plain, under_header
from autograder.submission.order import in_running_order, missing_imports
from autograder.submission.pieces import Piece, Unit, assembled, cleared, fenced
from autograder.submission.syntax import Parser, bound, is_complete
from autograder.track import Track

_MAX_UNREADABLE = 3  # cells named one by one


@dataclass(frozen=True)
class Repaired:
    """The code of notebooks, a source for each group of cells that belong together, and the receipts."""

    pieces: tuple[str, ...]
    repairs: tuple[str, ...] = ()

    @property
    def source(self) -> str:
        """One Python source, each cell under a line with its place."""
        return "\n".join(self.pieces)


class Found(NamedTuple):
    """One definition of a class."""

    unit: int
    node: ast.ClassDef
    complete: bool


def repaired(
    books: Sequence[Book], track: Track, absent: Collection[str] = (), parser: Parser | None = None
) -> Repaired:
    """Return the code of `books`, repaired. Imports from the modules in `absent` become comments.

    Of several definitions of a class the last complete one in document order is graded; with several notebooks, first
    the last complete one in the notebook of its own part. Never raises for what a notebook may hold.
    """
    parser = parser if parser is not None else Parser()
    receipts = [sentence for book in books for sentence in book.repairs]
    units: list[Unit] = []
    for book in books:
        of = f" of {book.name}" if len(books) > 1 else ""
        pieces = []
        for cell in book.cells:
            text, sentence = cleared(plain(cell.text, absent), parser)
            piece = Piece(cell.kind == "code", cell.label + of, text, book.name)
            pieces.append(piece)
            if sentence and piece.code:
                receipts.append(f"{piece.place} {sentence}")
        units += assembled(pieces, track, parser)
    units = _with_texts(units, track, parser, receipts)
    receipts += [f"{unit.place} are one piece of code: put together." for unit in units if len(unit.pieces) > 1]
    chosen = _choose(units, track, receipts)
    receipts += _unreadable(units, track, parser)
    if parser.left >= 0:
        units = _in_order(units, chosen, receipts)
    sources = [unit.text for unit in units]
    imports = missing_imports([unit.body for unit in units if unit.body is not None])
    if imports and parser.left >= 0 and chosen:
        sources.insert(0, under_header("added cell", "\n".join(imports)))
        receipts.append(
            f"Used, but imported in no cell that is left: added {'; '.join(f'`{line}`' for line in imports)}."
        )
    return Repaired(tuple(sources), tuple(dict.fromkeys(receipts)))


def _with_texts(units: list[Unit], track: Track, parser: Parser, receipts: list[str]) -> list[Unit]:
    """Return the units of code, with text cells among them that hold code which is nowhere else."""
    code = [unit for unit in units if unit.code]
    written = {found.node.name for found in _definitions(code, track) if found.complete}
    have = {name for unit in code for name in bound(unit.body or ())}
    kept: list[Unit] = []
    for unit in units:
        if unit.code:
            kept.append(unit)
            continue
        whole = unit if unit.body is not None else fenced(unit, parser)
        brought = _brought(whole, track, written, have, own=whole is unit)
        if whole is not None and brought:
            kept.append(whole)
            written |= brought & set(track.classes)
            have |= brought
            receipts.append(
                f"{whole.place} hold{whole.s} code ({', '.join(sorted(brought)[:5])}): it was read as code."
            )
    return kept


def _brought(unit: Unit | None, track: Track, written: set[str], have: set[str], own: bool) -> set[str]:
    """Return what a text cell brings that no code cell has: classes that are written; if all of it is code, more."""
    if unit is None or unit.body is None:
        return set()
    classes = {found.node.name for found in _definitions([unit], track) if found.complete} - written
    others = [node for node in unit.body if isinstance(node, _HELPING)] if own else []
    return classes | ({name for name in bound(others) if name not in track.classes} - have)


_HELPING = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.ClassDef)


def _definitions(units: Sequence[Unit], track: Track) -> Iterator[Found]:
    for place, unit in enumerate(units):
        for node in unit.body or ():
            if isinstance(node, ast.ClassDef) and node.name in track.classes:
                yield Found(place, node, is_complete(node))


def _choose(units: list[Unit], track: Track, receipts: list[str]) -> dict[str, ast.ClassDef]:
    """Return for each class the definition that is graded; say where there was a choice."""
    chosen: dict[str, ast.ClassDef] = {}
    every = list(_definitions(units, track))
    for part in track.parts:
        name = part.class_name
        found = [each for each in every if each.node.name == name]
        broken = [unit for unit in units if unit.body is None and name in defined(track, unit.text)]
        if found:
            own = [each for each in found if units[each.unit].book == part.file.removesuffix(".py") + ".ipynb"]
            complete = [each for each in own if each.complete] or [each for each in found if each.complete]
            best = (complete or own or found)[-1]
            chosen[name] = best.node
            receipts.extend(_receipt(name, best, found, broken, units))
    return chosen


def _unreadable(units: list[Unit], track: Track, parser: Parser) -> Iterator[str]:
    """Say which cells are no Python; one that holds a class of the course is told with that class."""
    bad = [unit for unit in units if unit.body is None and not defined(track, unit.text) and parser.judges(unit.text)]
    yield from (f"{unit.place} is no Python: it was left out." for unit in bad[:_MAX_UNREADABLE])
    if len(bad) > _MAX_UNREADABLE:
        yield f"{len(bad) - _MAX_UNREADABLE} more cells are no Python: they were left out."


def _receipt(name: str, best: Found, found: list[Found], broken: list[Unit], units: list[Unit]) -> Iterator[str]:
    if len(found) + len(broken) < 2:
        return
    places = [*(units[each.unit].lower_place for each in found), *(unit.lower_place for unit in broken)]
    where, times = ", ".join(dict.fromkeys(places)), f"{name} is there {len(places)} times"
    if not broken and len({ast.dump(each.node) for each in found}) == 1:
        yield f"{times}, word for word ({where}): it counts once."
    else:
        last = "the last complete one" if best.complete else "none is complete, and the last one"
        yield f"{times} ({where}): {last}, in {units[best.unit].lower_place}, is graded."


def _in_order(units: list[Unit], chosen: dict[str, ast.ClassDef], receipts: list[str]) -> list[Unit]:
    """Return the units in an order in which they run, so that each chosen definition is the last of its name."""
    ordered, moved = in_running_order(units)
    for early, late in moved:
        if early.book == late.book:
            receipts.append(
                f"{early.place} stand{early.s} below {late.lower_place}, where it is needed: it was read first."
            )
    out: list[Unit] = []
    passed: set[str] = set()
    for unit in ordered:
        for node in unit.body or ():
            if not isinstance(node, ast.ClassDef) or node.name not in chosen:
                continue
            if chosen[node.name] is node:
                passed.add(node.name)
            elif node.name in passed:
                unit = replace(unit, text=_without(unit, node))
        out.append(unit)
    return out


def _without(unit: Unit, node: ast.ClassDef) -> str:
    """Return a unit's text in which a definition has become comments, line for line."""
    lines = unit.text.split("\n")
    first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
    last = node.end_lineno or node.lineno
    shared = [other for other in unit.body or () if other is not node and first <= other.lineno <= last]
    for number in range(first, 0 if shared else last + 1):
        lines[number - 1] = re.sub(r"^(?!#)", "# ", lines[number - 1])
    return "\n".join(lines)
