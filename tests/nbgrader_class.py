"""Twelve students of an nbgrader course: honest, partly right, and those whose notebooks work against the grading."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nbgrader_course import solved, with_cell

Book = dict[str, Any]

#: A loop that no interrupt ends: what nbgrader sends after its time-out.
_STUBBORN = """\
import time
while True:
    try:
        time.sleep(1)
    except KeyboardInterrupt:
        pass"""
_KILLER = "import os\nos._exit(0)"
_FLOOD = 'for _ in range(300_000):\n    print("x" * 100)'
#: Puts a liar where the hidden line of each graded cell will import `score` from.
_LIAR = """\
import autograder.jupyter
worth = {"config": 5.0, "attention": 30.0, "mlp": 10.0, "block": 20.0, "gpt": 35.0}
autograder.jupyter.score = worth.get
score = worth.get"""
#: Looks for the gradebook above, and gives full marks by hand to its own row, which nbgrader has just made.
_FORGER = """\
import pathlib, sqlite3
for place in pathlib.Path.cwd().parents:
    if (place / "gradebook.db").exists():
        book = sqlite3.connect(place / "gradebook.db", timeout=30)
        book.execute(
            "UPDATE grade SET manual_score = 35 WHERE notebook_id IN (SELECT n.id FROM submitted_notebook n"
            " JOIN submitted_assignment a ON n.assignment_id = a.id WHERE a.student_id = ?)",
            (pathlib.Path.cwd().parent.name,),
        )
        book.commit()
        book.close()
        break"""


@dataclass(frozen=True)
class Person:
    """One student: what is handed in, and the points that it deserves."""

    id: str
    what: str
    points: float
    book: Callable[[Path], Book]
    honest: bool = True


def people() -> list[Person]:
    """Return the class."""
    return [
        Person("ada", "all right", 100, solved),
        Person("bo", "attention without its scale", 93, lambda c: solved(c, _no_scale)),
        Person("chidi", "config and mlp only", 15, lambda c: solved(c, _only("config", "mlp"))),
        Person("dana", "as it was handed out", 0, lambda c: solved(c, _only())),
        Person("emeka", "no config", 95, lambda c: solved(c, _only("attention", "mlp", "block", "gpt"))),
        Person("farah", "mlp loops for ever", 90, lambda c: solved(c, _loops)),
        Person("goran", "right, the graded mlp cell deleted", 100, lambda c: _without(solved(c), "mlp-score")),
        Person(
            "hye-jin",
            "right, then a loop without an end",
            100,
            lambda c: with_cell(solved(c), _STUBBORN),
            False,
        ),
        Person("ines", "right, then ends the kernel", 100, lambda c: with_cell(solved(c), _KILLER), False),
        Person("jonas", "right, then prints 30 MB", 100, lambda c: with_cell(solved(c), _FLOOD), False),
        Person("kofi", "nothing, and a score of its own", 0, lambda c: _first(solved(c, _only()), _LIAR), False),
        Person("lena", "nothing, and edits the gradebook", 0, lambda c: with_cell(solved(c, _only()), _FORGER), False),
    ]


def _only(*names: str) -> Callable[[dict[str, str]], dict[str, str]]:
    return lambda texts: {name: text for name, text in texts.items() if name in names}


def _no_scale(texts: dict[str, str]) -> dict[str, str]:
    return _changed(texts, "attention", " / math.sqrt(self.head_dim)", "")


def _loops(texts: dict[str, str]) -> dict[str, str]:
    first = texts["mlp"].index("        return ")
    return {**texts, "mlp": f"{texts['mlp'][:first]}        while True:\n            pass\n{texts['mlp'][first:]}"}


def _changed(texts: dict[str, str], part: str, find: str, replace: str) -> dict[str, str]:
    assert texts[part].count(find) == 1
    return {**texts, part: texts[part].replace(find, replace)}


def _without(book: Book, name: str) -> Book:
    return {**book, "cells": [cell for cell in book["cells"] if cell["metadata"]["nbgrader"]["grade_id"] != name]}


def _first(book: Book, source: str) -> Book:
    return with_cell(book, source, after="setup")
