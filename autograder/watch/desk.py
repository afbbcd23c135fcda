"""What the student is on: the part, its last result, the open page. Every event changes it in one place: `handle`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from autograder.catalogue import ENGLISH, Catalogue
from autograder.hints import Hints, Ladder
from autograder.progress import Progress
from autograder.stubs import StubError
from autograder.track import Part, Track
from autograder.verdict import Report, Verdict
from autograder.watch.events import Checked, Ended, Event, Key, Saved

Page = Literal["part", "all", "list", "help", "reset"]

#: How far one key scrolls, in lines: a little, and most of a small screen.
_LINE, _PAGE = 3, 12
_SCROLL = {"down": _LINE, "up": -_LINE, "space": _PAGE, "page down": _PAGE, "page up": -_PAGE}


class Services(Protocol):
    """What the desk can have done."""

    def check(self, parts: Sequence[str]) -> int:
        """Ask for a check in the background; return its number."""
        ...

    def note(self, change: Callable[[Progress], Progress]) -> Progress:
        """Note a change of progress; return all of it."""
        ...

    def reset(self, part: Part) -> str:
        """Put a stub back and return what was done, in a sentence. Raises StubError."""
        ...

    def old_name(self, part: Part) -> str:
        """Return the name under which a reset would keep the student's file. Raises StubError."""
        ...


@dataclass
class Desk:
    """The state of one `watch`. `said` holds what plain lines tell next: sentences, results and hints."""

    track: Track
    hints: Hints
    services: Services
    progress: Progress
    part: str
    page: Page = "part"
    report: Report | None = None  # the last one of `part`
    whole: Report | None = None  # the last one of all parts
    hint: tuple[Ladder, int] | None = None
    message: str = ""  # until the next key
    elsewhere: str = ""  # that another part's file was saved; until the current one's is
    problem: str = ""  # why the last check has no result
    scroll: int = 0
    waiting: int = 0  # the number of the check that is awaited; 0: none
    waiting_all: bool = False
    catalogue: Catalogue = ENGLISH  # the language that it is shown in
    ended: bool = False  # no more input: end after the result that is awaited
    said: list[str | Report | tuple[Ladder, int]] = field(default_factory=list)

    def begin(self) -> None:
        """Check the current part for the first time."""
        self._check()

    def handle(self, event: Event) -> bool:
        """Take in one event; return False when it was the last."""
        if isinstance(event, Key):
            return self._pressed(event.name)
        if isinstance(event, Saved):
            self._saved(event)
        elif isinstance(event, Checked):
            self._checked(event)
        elif isinstance(event, Ended):
            self.ended = True
        return not (self.ended and not self.waiting)

    @property
    def next_part(self) -> str:
        """The next part after the current one that is not passed, round about, the required ones first; when all are
        passed, the next one."""
        names = [part.name for part in self.track.every]
        here = names.index(self.part)
        following = names[here + 1 :] + names[:here]
        required = {part.name for part in self.track.parts}
        still = sorted((name for name in following if not self.progress.passed(name)), key=lambda n: n not in required)
        return still[0] if still else following[0] if following else ""

    @property
    def finished(self) -> bool:
        return all(self.progress.passed(part.name) for part in self.track.parts)

    # -- keys ---------------------------------------------------------------------------------------------------------

    def _pressed(self, key: str) -> bool:
        self.message = ""
        if self.page == "reset":
            self._answer_reset(key)
            return True
        letter = key.lower()
        if letter == "q":
            return False
        if key in _SCROLL:
            self.scroll = max(0, self.scroll + _SCROLL[key])
        elif letter == "n":
            self.go_to(self.next_part)
        elif letter == "h":
            self._next_hint()
        elif letter == "l":
            self._open("part" if self.page == "list" else "list")
        elif letter == "c":
            self._check_all()
        elif letter == "x":
            self._ask_reset()
        elif key == "?":
            self._open("part" if self.page == "help" else "help")
        elif key in ("escape", "enter"):
            self._open("part")
        elif key.isdigit() and 1 <= int(key) <= len(self.track.every):
            self.go_to(self.track.every[int(key) - 1].name)
        return True

    def go_to(self, part: str) -> None:
        """Make `part` the current one and check it."""
        if not part:
            return
        self.part, self.report, self.hint, self.elsewhere = part, None, None, ""
        self._open("part")
        self.said.append(f"Now: {part} ({self.track.part(part).file})")
        self._check()

    def _open(self, page: Page) -> None:
        self.page, self.scroll = page, 0
        if page in ("list", "help"):
            self.said.append(page)

    def _say(self, sentence: str) -> None:
        self.message = sentence
        self.said.append(sentence)

    # -- checks -------------------------------------------------------------------------------------------------------

    def _check(self) -> None:
        self.waiting, self.waiting_all = self.services.check([self.part]), False

    def _check_all(self) -> None:
        begun = [part for part in self.track.optional if part.name == self.part or part.name in self.progress.parts]
        names = [part.name for part in (*self.track.parts, *begun)]
        self.waiting, self.waiting_all = self.services.check(names), True
        self._open("all")

    def _saved(self, event: Saved) -> None:
        own = self.track.part(self.part).file
        other = next((part for part in self.track.every if part.file in event.names and part.file != own), None)
        if self.page != "reset":
            self._open("part")
        self.elsewhere = ""
        if other is not None and own not in event.names:
            number = self.track.every.index(other) + 1
            self.elsewhere = f"{other.file} was saved; you are on {self.part}. Press {number} to go there."
        self._check()

    def _checked(self, event: Checked) -> None:
        if event.number != self.waiting:
            return  # of a part that was left meanwhile
        self.waiting = 0
        self.problem = event.problem
        report = event.report
        if report is None:
            self.said.append(event.problem)
            return
        self.progress = self.services.note(lambda before: before.with_report(report))
        if self.waiting_all:
            self.whole = report
        if self.part in report.parts:
            self.report = report
            if report.parts[self.part].verdict is Verdict.PASSED:
                self.hint = None
        self.said.append(report)

    # -- hints and resets ---------------------------------------------------------------------------------------------

    def _next_hint(self) -> None:
        self._open("part")
        known = self.progress.part(self.part)
        found = self.hints.next_rung(self.part, known.wrong, known.hints)
        if found is None:
            self._say(f"There are no hints for {self.part}.")
            return
        ladder, rung = found
        self.hint = found
        self.progress = self.services.note(lambda before: before.with_hint(self.part, ladder.topic, rung))
        self.said.append(found)

    def _ask_reset(self) -> None:
        part = self.track.part(self.part)
        try:
            kept = self.services.old_name(part)
        except StubError as error:
            self._say(str(error))
            return
        self.page, self.scroll = "reset", 0
        self._say(f"Put the stub of {part.file} back? What you wrote is kept as {kept}.  y yes, any other key no")

    def _answer_reset(self, key: str) -> None:
        self._open("part")
        if key.lower() != "y":
            self._say("Nothing was changed.")
            return
        try:
            done = self.services.reset(self.track.part(self.part))
        except StubError as error:
            self._say(str(error))
            return
        self.hint = None
        self.progress = self.services.note(lambda before: before.with_reset(self.part))
        self._check()
        self._say(done)
