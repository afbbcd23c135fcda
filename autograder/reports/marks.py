"""How a verdict looks: symbol, word and colour. Never colour alone, and a symbol that ASCII can write too."""

from __future__ import annotations

from dataclasses import dataclass

from autograder.verdict import Verdict


@dataclass(frozen=True)
class Mark:
    """The looks of one verdict."""

    symbol: str
    ascii: str
    word: str
    style: str  # a rich style; cyan and red stay apart for colour-blind eyes where green and red do not


MARKS: dict[Verdict, Mark] = {
    Verdict.PASSED: Mark("✓", "+", "passed", "cyan"),
    Verdict.FAILED: Mark("✗", "x", "failed", "bold red"),
    Verdict.CRASHED: Mark("!", "!", "crashed", "bold red"),
    Verdict.TIMED_OUT: Mark("T", "T", "timed out", "bold red"),
    Verdict.OUT_OF_MEMORY: Mark("M", "M", "out of memory", "bold red"),
    Verdict.NOT_ATTEMPTED: Mark("·", ".", "not attempted", "dim"),
    Verdict.BLOCKED: Mark("–", "-", "blocked", "dim"),
    Verdict.FORBIDDEN: Mark("#", "#", "forbidden", "bold magenta"),
    Verdict.UNGRADABLE: Mark("?", "?", "not graded (our fault)", "yellow"),
}

#: Verdicts that are no mistake of the student: shown calmly.
CALM = frozenset({Verdict.NOT_ATTEMPTED, Verdict.BLOCKED})


def worth_showing(verdict: Verdict) -> bool:
    """Tell whether a check with this verdict is shown in full: something of the student's went wrong in it."""
    return verdict not in CALM and verdict not in (Verdict.PASSED, Verdict.UNGRADABLE)


def isolation_sentence(isolation: dict[str, object]) -> str:
    """Return in plain words what stood between the student's code and the machine; empty when nothing ran."""
    if not isolation:
        return ""
    level = str(isolation.get("level", "unknown"))
    if isolation.get("isolated"):
        return f"isolated ({level})"
    what = "a process of its own with limits, no more" if level == "portable" else "not all layers hold here"
    return f"NOT ISOLATED ({level}): {what}"
