"""Ways in which notebooks are damaged, one by one and mixed: a generator for tests.

A book is a list of groups: cells that belong together. A group that holds a class keeps all of it, so whatever is done
here, each class whose groups were not all deleted can still be found.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import dataclass

from answers import solutions
from submission_samples import CLASSES, TRACK

Cell = tuple[str, str]  # kind, text


@dataclass
class Group:
    """Cells that were one; `holds` is the class whose source is in them, `whole` until something is done to it."""

    cells: list[Cell]
    holds: str = ""
    whole: bool = True


SOURCES = {part.class_name: solutions()[part.file] for part in TRACK.parts}
STUBS = {
    name: f"class {name}(nn.Module):\n    def __init__(self, config):\n        raise NotImplementedError\n"
    for name in CLASSES
}
ALIEN = ("import os\nos.getcwd()", "x = 1", "%matplotlib inline\nprint('hi')", "!rm -rf *", "", "1 +", "# nothing")


def healthy() -> list[Group]:
    """Return the solutions' notebook: imports in a cell of their own, a class a cell, calls below."""
    head = Group([("markdown", "# My GPT\nclass GPT is explained here"), ("code", "import math\nimport torch")])
    classes = [Group([("code", SOURCES[name])], name) for name in CLASSES]
    return [head, *classes, Group([("code", "model = GPT(GPTConfig())\nprint(model)")])]


def duplicated(groups: list[Group], draw: random.Random) -> None:
    """A cell is there twice."""
    twin = draw.choice(groups)
    groups.insert(draw.randrange(len(groups) + 1), Group(list(twin.cells), twin.holds, twin.whole))


def deleted(groups: list[Group], draw: random.Random) -> None:
    """A cell is gone."""
    del groups[draw.randrange(len(groups))]


def reordered(groups: list[Group], draw: random.Random) -> None:
    """The cells stand in any order; what was split stays together."""
    draw.shuffle(groups)


def split(groups: list[Group], draw: random.Random) -> None:
    """A class is cut at the beginning of a line within it, blank or not, into two or three cells."""
    if group := _a_whole_class(groups, draw):
        kind, text = group.cells[0]
        lines = text.split("\n")
        first = next(number for number, line in enumerate(lines) if line.startswith("class "))
        cuts = sorted({draw.randrange(first + 1, len(lines)) for _ in range(draw.randint(1, 2))})
        ends = zip([0, *cuts], [*cuts, len(lines)], strict=True)
        group.cells = [(kind, "\n".join(lines[start:end])) for start, end in ends]


def retyped(groups: list[Group], draw: random.Random) -> None:
    """Cells become text: Markdown, raw, or a kind that is none."""
    group, kind = draw.choice(groups), draw.choice(["markdown", "raw", "heading", "Code"])
    group.cells = [(kind, text) for _, text in group.cells]


def quoted(groups: list[Group], draw: random.Random) -> None:
    """A class stands between fences, in a code cell or in a text."""
    if group := _a_whole_class(groups, draw):
        kind, text = group.cells[0]
        around = f"```python\n{text}\n```"
        group.cells = [(kind, around if kind == "code" else f"Mine is this:\n\n{around}\n\nIt works.")]


def indented(groups: list[Group], draw: random.Random) -> None:
    """A whole cell is moved to the right, as after a copy from a chat."""
    if group := _a_whole_class(groups, draw):
        kind, text = group.cells[0]
        group.cells = [(kind, "\n".join(f"    {line}" if line else line for line in text.split("\n")))]


def in_conflict(groups: list[Group], draw: random.Random) -> None:
    """A cell holds both sides of a merge."""
    if group := _a_whole_class(groups, draw):
        kind, text = group.cells[0]
        group.cells = [(kind, f"<<<<<<< HEAD\n{text}\n=======\n{text}\n# theirs\n>>>>>>> branch")]


def stubbed(groups: list[Group], draw: random.Random) -> None:
    """The untouched stub of a class is (still, or again) there."""
    groups.insert(draw.randrange(len(groups) + 1), Group([("code", STUBS[draw.choice(CLASSES)])]))


def disturbed(groups: list[Group], draw: random.Random) -> None:
    """Cells that have nothing to do with it, some of them no Python."""
    groups.insert(draw.randrange(len(groups) + 1), Group([("code", draw.choice(ALIEN))]))


def _a_whole_class(groups: list[Group], draw: random.Random) -> Group | None:
    """Choose a class to which nothing was done within its cell: one such damage is enough for one cell."""
    whole = [group for group in groups if group.holds and group.whole]
    if not whole:
        return None
    group = draw.choice(whole)
    group.whole = False
    return group


DAMAGES: tuple[Callable[[list[Group], random.Random], None], ...] = (
    duplicated,
    deleted,
    reordered,
    split,
    retyped,
    quoted,
    indented,
    stubbed,
    disturbed,
    in_conflict,
)


def damaged(damages: list[Callable[[list[Group], random.Random], None]], draw: random.Random) -> list[Group]:
    """Return the healthy notebook after each of `damages`, in their order."""
    groups = healthy()
    for damage in damages:
        if groups:
            damage(groups, draw)
    return groups


def remaining(groups: list[Group]) -> set[str]:
    """Return the classes whose whole source is still there."""
    return {group.holds for group in groups if group.holds}


def as_json(groups: list[Group], form: str) -> bytes:
    """Write the cells as nbformat 4, with ids or without, as nbformat 3, with widgets, or with large outputs."""
    cells = [(kind, text) for group in groups for kind, text in group.cells]
    if form == "nbformat 3":
        old = [{"cell_type": kind, ("input" if kind == "code" else "source"): text} for kind, text in cells]
        return json.dumps({"worksheets": [{"cells": old}], "nbformat": 3, "nbformat_minor": 0}).encode()
    book: dict[str, object] = {"nbformat": 4, "nbformat_minor": 5, "metadata": {}}
    made: list[dict[str, object]] = []
    for number, (kind, text) in enumerate(cells):
        cell: dict[str, object] = {"cell_type": kind, "metadata": {}, "source": text.splitlines(keepends=True)}
        if form != "no ids":
            cell["id"] = f"cell-{number // 2}"  # every second one is taken already
        if kind == "code":
            cell |= {
                "execution_count": None,
                "outputs": [{"output_type": "stream", "name": "stdout", "text": ["0.5, ["]}],
            }
        made.append(cell)
    if form == "widgets":
        book["metadata"] = {
            "widgets": {"application/vnd.jupyter.widget-state+json": {"state": {"a": {"class GPT": 1}}}}
        }
    text = json.dumps(book | {"cells": made}, indent=1, sort_keys=True)
    if form == "merge":
        lines = text.split("\n")
        return "\n".join(["<<<<<<< HEAD", *lines, "=======", *lines, ">>>>>>> theirs"]).encode()
    if form == "cut short":
        return text[: text.rindex("]")].encode()
    return text.encode("utf-16" if form == "utf-16" else "utf-8")


FORMS = ("ids", "no ids", "nbformat 3", "widgets", "merge", "cut short", "utf-16")
