"""`watch_folder`: threads post events, the desk takes them in, the display shows it; until somebody leaves."""

from __future__ import annotations

import queue
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO

from rich.console import Console

from autograder import stubs
from autograder.catalogue import ENGLISH, Catalogue
from autograder.hints import Hints
from autograder.progress import Progress, ProgressError, ProgressFile, holds_work
from autograder.sandbox import Limits
from autograder.track import Part, Track
from autograder.watch import terminal
from autograder.watch.checker import Checker, Grade, grader
from autograder.watch.desk import Desk
from autograder.watch.display import Display
from autograder.watch.events import Event
from autograder.watch.saves import Saves

#: On Windows a wait without end cannot be interrupted by Ctrl-C.
_WAIT_S = 0.5 if sys.platform == "win32" else None


def watch_folder(
    folder: Path,
    track: Track,
    hints: Hints,
    *,
    seed: int,
    part: str | None = None,
    source: IO[str],
    console: Console,
    limits: Limits | None = None,
    grade: Grade | None = None,
    catalogue: Catalogue = ENGLISH,
) -> Progress:
    """Check the current part of the work in `folder` at every save, until the student leaves; return the progress.

    Begins with `part`, else with the first that is not passed. Keys come from `source`; without a terminal at both
    ends, lines. Raises KeyboardInterrupt on Ctrl-C, SystemExit on a signal to end; the terminal is restored.
    """
    bounds = limits or Limits()
    whole_screen = terminal.has_screen(source, console.file) and not console.legacy_windows
    mailbox: queue.SimpleQueue[Event] = queue.SimpleQueue()
    record = _Record(folder, track)
    display = Display(console, whole_screen, seed, bounds.wall_s)
    hold = terminal.screen(source, console.file, mailbox.put) if whole_screen else terminal.lines(source, mailbox.put)
    with Checker(grade or grader(folder, track, seed, bounds), mailbox.put, bounds) as checker, hold:
        services = _Services(folder, track, checker, record)
        desk = Desk(
            track, hints, services, record.progress, part or record.progress.current(track), catalogue=catalogue
        )
        with Saves(folder, mailbox.put):
            if not whole_screen:
                desk.said.append(
                    f"Watching {folder.resolve()}: {desk.part}. Lines with n, h, l, c, x, ? or q are keys."
                )
            desk.begin()
            going_on = True
            while going_on:
                desk.message = record.told() or desk.message
                display.show(desk)
                going_on = desk.handle(_next(mailbox))
                while going_on and not mailbox.empty():  # several changes, one redraw
                    going_on = desk.handle(mailbox.get())
            if not whole_screen:
                display.show(desk)
    return record.progress


def _next(mailbox: queue.SimpleQueue[Event]) -> Event:
    while True:
        try:
            return mailbox.get(timeout=_WAIT_S)
        except queue.Empty:
            continue


class _Record:
    """The progress: on the disk when the folder is the student's and can be written, in memory in any case."""

    def __init__(self, folder: Path, track: Track) -> None:
        self._folder, self._track = folder, track
        self._file = ProgressFile(folder, track.name)
        self._told: list[str] = []
        self._failed = ""
        self.progress = Progress()
        try:
            self.progress = self._file.read()
        except ProgressError as error:
            self._fail(error)

    def note(self, change: Callable[[Progress], Progress]) -> Progress:
        """Note a change and return all of the progress."""
        if holds_work(self._folder, self._track):
            try:
                self.progress = self._file.update(change)
            except ProgressError as error:
                self._fail(error)
                self.progress = change(self.progress)
        else:
            self.progress = change(self.progress)
        return self.progress

    def told(self) -> str:
        """Return what is to be told about the file, once."""
        notices, self._told = [*self._told, *self._file.notices], []
        self._file.notices.clear()
        return " ".join(notices)

    def _fail(self, error: ProgressError) -> None:
        if str(error) != self._failed:  # not at every save
            self._failed = str(error)
            self._told.append(str(error))


class _Services:
    """What a desk can have done, in one folder."""

    def __init__(self, folder: Path, track: Track, checker: Checker, record: _Record) -> None:
        self._folder, self._track, self._checker, self._record = folder, track, checker, record

    def check(self, parts: Sequence[str]) -> int:
        return self._checker.ask(parts)

    def note(self, change: Callable[[Progress], Progress]) -> Progress:
        return self._record.note(change)

    def reset(self, part: Part) -> str:
        done = stubs.reset(self._track, part, self._folder)
        if not done.changed:
            return f"{part.file} is the stub already."
        return f"{part.file} is the stub again." + (f" What you wrote is in {done.kept.name}." if done.kept else "")

    def old_name(self, part: Part) -> str:
        return stubs.name_for_old(self._folder / part.file).name
