"""What can happen while somebody works: a key, a save, a result, another size, the end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from autograder.verdict import Report


@dataclass(frozen=True)
class Key:
    """A key was pressed: a character, or one of "up", "down", "page up", "page down", "escape", "enter", "space"."""

    name: str


@dataclass(frozen=True)
class Saved:
    """Files of the folder were written, moved or deleted; no names: the folder itself came back."""

    names: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Checked:
    """A check has ended, with its report, or with a sentence about why there is none."""

    number: int  # of the request
    report: Report | None
    problem: str = ""


@dataclass(frozen=True)
class Redraw:
    """The terminal has another size, or was used by somebody else."""


@dataclass(frozen=True)
class Ended:
    """There is no more input: the terminal has gone, or the end of a pipe was reached."""


Event = Key | Saved | Checked | Redraw | Ended
Post = Callable[[Event], None]
