"""Puts pages on a terminal: one screen redrawn in place, or lines one after the other."""

from __future__ import annotations

import io
import os
from dataclasses import dataclass
from typing import IO

from rich.console import Console, RenderableType

from autograder.catalogue import Catalogue
from autograder.reports.terminal import writes_ascii
from autograder.watch import pages
from autograder.watch.desk import Desk

_HOME, _CLEAR_LINE, _CLEAR_BELOW = "\x1b[H", "\x1b[2K", "\x1b[J"
#: With fewer columns or rows than this nothing can be read anyway.
_SMALLEST = (20, 5)


@dataclass
class Display:
    """Draws the desk on `console`, in place when `whole_screen`."""

    console: Console
    whole_screen: bool
    seed: int
    limit: float

    def show(self, desk: Desk) -> None:
        """Draw the screen anew, or print what has been said since the last time."""
        said, desk.said = desk.said, []
        ascii = writes_ascii(self.console)
        if not self.whole_screen:
            for item in said:
                self.console.print(
                    pages.plain(desk, item, ascii=ascii, seed=self.seed, limit=self.limit), soft_wrap=True
                )
            self.console.file.flush()
            return
        width, height = _size(self.console.file)
        head = self._lines(pages.head(desk, ascii=ascii), width)
        body = self._lines(pages.body(desk, ascii=ascii, seed=self.seed, limit=self.limit), width)
        foot = self._lines(pages.foot(desk), width)
        room = max(1, height - len(head) - len(foot))
        desk.scroll = min(desk.scroll, max(0, len(body) - room + 1))
        shown = _window(body, desk.scroll, room, desk.catalogue)
        rows = [*head, *shown, *[""] * (room - len(shown)), *foot][-height:]
        text = _HOME + "\n".join(_CLEAR_LINE + row for row in rows) + _CLEAR_BELOW
        self.console.file.write(text)
        self.console.file.flush()

    def _lines(self, content: RenderableType, width: int) -> list[str]:
        """Return `content` as lines of at most `width` columns, with the colours of the real terminal."""
        page = Console(
            file=io.StringIO(),
            force_terminal=True,
            width=width,
            color_system=self.console.color_system,  # type: ignore[arg-type]  # its own name for it is a plain str
            no_color=self.console.no_color,
            markup=False,
            highlight=False,
            emoji=False,
            legacy_windows=False,
        )
        with page.capture() as capture:
            page.print(content)
        return capture.get().removesuffix("\n").split("\n")


def _window(lines: list[str], scroll: int, room: int, catalogue: Catalogue) -> list[str]:
    """Return the `room` lines from `scroll` on; the last tells how many more there are."""
    if len(lines) - scroll <= room:
        return lines[scroll:]
    left = len(lines) - scroll - (room - 1)
    return [*lines[scroll : scroll + room - 1], catalogue.say(f"({left} more lines: space)")]


def _size(stream: IO[str]) -> tuple[int, int]:
    """Return the terminal's columns and rows as they are now."""
    try:
        size = os.get_terminal_size(stream.fileno())
    except (OSError, ValueError):
        return 80, 24
    return max(_SMALLEST[0], size.columns or 80), max(_SMALLEST[1], size.lines or 24)
