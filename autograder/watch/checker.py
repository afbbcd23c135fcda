"""Checks in the background: one warm Nursery for all, the newest request wins, a running one is cut short."""

from __future__ import annotations

import contextlib
import signal
import socket
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from autograder.probe.failure import ProbeFailure
from autograder.sandbox import Limits, Nursery
from autograder.sandbox.child import ChildProcess
from autograder.track import Track
from autograder.verdict import Report, Verdict
from autograder.watch.events import Checked, Post

if TYPE_CHECKING:
    from autograder.oracle.memory import Memory

#: Grading one part takes well under a second; a thread that is still importing torch may take a few to let go.
_LEAVE_S = 5.0

Grade = Callable[[Sequence[str], Nursery], Report]


class CutShort(Nursery):
    """A Nursery whose running child can be killed from another thread: then the check that uses it ends at once."""

    def __init__(self, limits: Limits) -> None:
        super().__init__(limits)
        self._guard = threading.Lock()
        self._running: ChildProcess | None = None
        self._cut = False

    def spawn(self, tree: Path, limits: Limits | None = None) -> ChildProcess:
        """Return a new child; after `cut`, and until `again`, raise ProbeFailure (UNGRADABLE)."""
        child = super().spawn(tree, limits)
        with self._guard:
            if not self._cut:
                self._running = child
                return child
        child.end(0.0)
        raise ProbeFailure(Verdict.UNGRADABLE, "The check was interrupted.")

    def cut(self) -> None:
        """Kill the running child and let no other one start."""
        with self._guard:
            self._cut, child, self._running = True, self._running, None
            if child is not None and child.channel.fileno() >= 0:  # else it has ended by itself
                if child.exited is not None and hasattr(signal, "pidfd_send_signal"):
                    with contextlib.suppress(OSError):
                        signal.pidfd_send_signal(child.exited, signal.SIGKILL)
                with contextlib.suppress(OSError):
                    child.channel.shutdown(socket.SHUT_RDWR)

    def again(self) -> None:
        """Let children start again."""
        with self._guard:
            self._cut, self._running = False, None


class Checker:
    """Runs checks in a thread of its own and posts their results. A context manager.

    `grade(parts, nursery)` does the work; it is called in that thread only.
    """

    def __init__(self, grade: Grade, post: Post, limits: Limits | None = None) -> None:
        self._grade, self._post = grade, post
        self._nursery = CutShort(limits or Limits())
        self._turn = threading.Condition()
        self._wanted: tuple[int, tuple[str, ...]] | None = None
        self._busy = self._closed = False
        self._number = 0
        self._thread = threading.Thread(target=self._run, name="checks", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._turn:
            self._closed, self._wanted = True, None
            self._nursery.cut()
            self._turn.notify()
        self._thread.join(_LEAVE_S)
        self._nursery.close()

    def ask(self, parts: Sequence[str]) -> int:
        """Ask for a check of `parts`, instead of any that is waiting or running; return its number."""
        with self._turn:
            self._number += 1
            self._wanted = (self._number, tuple(parts))
            if self._busy:
                self._nursery.cut()
            self._turn.notify()
            return self._number

    def _run(self) -> None:
        with contextlib.suppress(ProbeFailure):  # told with the first check, which tries again
            self._nursery.start()
        while (request := self._next()) is not None:
            number, parts = request
            report, problem = None, ""
            try:
                report = self._grade(parts, self._nursery)
            except Exception as error:  # ours, whatever it is: never shown as a mistake of the student
                problem = f"The grader failed, not your code ({type(error).__name__}: {error}). Please report this."
            with self._turn:
                self._busy = False
                current = number == self._number and not self._closed
            if current:
                self._post(Checked(number, report, problem))

    def _next(self) -> tuple[int, tuple[str, ...]] | None:
        with self._turn:
            self._turn.wait_for(lambda: self._closed or self._wanted is not None)
            if self._closed or self._wanted is None:
                return None
            request, self._wanted = self._wanted, None
            self._busy = True
            self._nursery.again()
        return request


def grader(path: Path, track: Track, seed: int, limits: Limits) -> Grade:
    """Return the function that grades the folder at `path` as it is at that moment, always with the same seed."""
    student = path.resolve().name or "submission"
    memories: list[Memory] = []  # one, made when torch has been imported

    def grade(parts: Sequence[str], nursery: Nursery) -> Report:
        from autograder.grading import grade  # imports torch, while the Nursery's own process does the same
        from autograder.oracle.memory import Memory
        from autograder.submission import read_submission

        memories[:] = memories or [Memory(seed)]
        submission = read_submission(path.resolve(), track, student)
        report = grade(submission, track, nursery, seed=seed, limits=limits, parts=parts, memory=memories[0])
        with contextlib.suppress(ProbeFailure):
            nursery.start()  # where nothing can be forked, the next child's interpreter warms up meanwhile
        return report

    return grade
