"""A student's progress as a table, and hints as text: for `status`, `hint` and `watch`. Reads without colour."""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass
from datetime import datetime

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

from autograder.catalogue import ENGLISH, Catalogue
from autograder.hints import RUNGS, Ladder
from autograder.progress import PartProgress, Progress
from autograder.reports.plain import clean, points
from autograder.reports.translated import ladder_in_language, marks_in_language
from autograder.track import Part, Track
from autograder.verdict import Verdict

_MOST_ATTEMPTS = 99_999  # a file that somebody edited must not break the table


def progress_table(
    track: Track, progress: Progress, *, ascii: bool, current: str = "", catalogue: Catalogue = ENGLISH
) -> Table:
    """Return a row a part: its points, the last verdict, attempts, hints, when it first passed. `current` is marked."""
    say = catalogue.say
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold underline")
    table.add_column("", no_wrap=True, width=1)
    table.add_column(say("part"), no_wrap=True, max_width=16)
    table.add_column(say("points"), justify="right", no_wrap=True)
    table.add_column(say("now"), no_wrap=True)
    table.add_column(say("attempts"), justify="right", no_wrap=True)
    table.add_column(say("hints"), justify="right", no_wrap=True)
    table.add_column(say("first passed"), no_wrap=True)
    for part in track.every:
        known = progress.part(part.name)
        mark = "*" if part.optional else " " if track.optional else ""
        table.add_row(
            ">" if part.name == current else "",
            Text(part.name, style="bold" if part.name == current else ""),
            f"{points(_best(part, known))} / {points(part.max_score)}{mark}",
            now(known.verdict, ascii=ascii, catalogue=catalogue),
            str(min(known.attempts, _MOST_ATTEMPTS)),
            str(min(known.hints_used, _MOST_ATTEMPTS)),
            _local(known.first_passed),
        )
    return table


def progress_total(track: Track, progress: Progress, catalogue: Catalogue = ENGLISH) -> str:
    """Return the best points of all parts together, and how many passed, in one line."""
    best = sum(_best(part, progress.part(part.name)) for part in track.parts)
    passed = sum(progress.passed(part.name) for part in track.parts)
    line = f"{points(best)} of {points(track.max_score)} points, {passed} of {len(track.parts)} parts passed"
    if not any(part.name in progress.parts for part in track.optional):
        return catalogue.say(line)
    best = sum(_best(part, progress.part(part.name)) for part in track.optional)
    most = sum(part.max_score for part in track.optional)
    return f"{catalogue.say(line)}; {catalogue.say(f'optional parts: {points(best)} of {points(most)}')}"


def now(verdict: Verdict | None, *, ascii: bool, catalogue: Catalogue = ENGLISH) -> Text:
    """Return the last verdict as mark and word."""
    if verdict is None:
        return Text(catalogue.say("not checked"), style="dim")
    mark = marks_in_language(catalogue)[verdict]
    return Text(f"{mark.ascii if ascii else mark.symbol} {mark.word}", style=mark.style)


def hint_text(ladder: Ladder, rung: int, catalogue: Catalogue = ENGLISH) -> RenderableType:
    """Return rung `rung` (from 1) of a ladder with its heading."""
    ladder = ladder_in_language(ladder, catalogue)
    of = catalogue.say(f"hint {rung} of {len(ladder.rungs)}: {RUNGS[rung - 1]}")
    heading = Text.assemble((f"{ladder.part}, {ladder.title}", "bold"), f"  ({of})")
    return Group(heading, _Prose(ladder.rungs[rung - 1]))


@dataclass(frozen=True)
class _Prose:
    """Text wrapped to the width that there is: a blank line begins a paragraph, a line with a number is an item."""

    text: str

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for block in self.text.split("\n\n"):
            for piece in re.split(r"\n(?=\d+\. )", block.strip()):
                hang = "     " if re.match(r"\d+\. ", piece) else "  "
                width = max(20, options.max_width)
                for line in textwrap.wrap(" ".join(piece.split()), width, initial_indent="  ", subsequent_indent=hang):
                    yield Text(line, no_wrap=True)


def _best(part: Part, known: PartProgress) -> float:
    return min(known.points, part.max_score)


def _local(when: str) -> str:
    """Return a time of the file in the reader's own zone; what is no time is shown as it is, made harmless."""
    try:
        return f"{datetime.fromisoformat(when).astimezone():%Y-%m-%d %H:%M}" if when else "-"
    except (ValueError, OverflowError, OSError):
        return clean(when, limit=16)
