"""`score`: the points of one part as a plain number, the last value of a cell that nbgrader grades."""

from __future__ import annotations

import atexit
import contextlib
import io
import os
import secrets
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from autograder.jupyter.cells import history
from autograder.jupyter.checking import grade_gathered, part_of, show_report
from autograder.jupyter.gathering import gather
from autograder.jupyter.showing import note
from autograder.track import load_track
from autograder.verdict import Verdict

if TYPE_CHECKING:
    from autograder.sandbox import Nursery

#: What nbgrader sets while it grades.
_GRADING = "NBGRADER_EXECUTION"


def score(thing: type | str, track: str = "gpt") -> float:
    """Show the report of a part, and return its points: between 0 and what the part is worth.

    nbgrader takes the number for the cell's points, anything on stderr for none, and a missing number for all of them:
    so nothing goes to stderr, and what we fail to grade while nbgrader grades ends the kernel. nbgrader then says that
    this submission could not be graded, and leaves an earlier grade as it is. Raises ValueError for an unknown part.
    """
    course = load_track(track)
    name, problem = part_of(thing, course)
    if problem:
        raise ValueError(problem)
    part = course.part(name)
    noise = io.StringIO()
    try:
        with contextlib.redirect_stderr(noise):
            gathered = gather(course, history(), Path.cwd())
            if not any(name in gathered.places for name in part.names):
                sentence = " ".join([*gathered.notices, f"There is no {part.title} here: 0 points."])
                note(sentence)
                return 0.0
            # Whether the whole is right can only be said beside its parts: the last part is graded with all of them.
            beside = [] if part is course.parts[-1] else [name]
            report = grade_gathered(gathered, course, secrets.randbits(31), beside, _kept_warm())
            show_report(report, gathered, course, Path.cwd(), [name])
    except KeyboardInterrupt:
        return _not_graded("Interrupted: nothing was graded.")
    result = report.parts[name]
    if Verdict.UNGRADABLE in (report.verdict, result.verdict):
        return _not_graded(report.error or result.diagnosis)
    return float(min(max(result.score, 0.0), part.max_score))


def _kept_warm() -> Nursery | None:
    """Return the sandbox that lasts until this kernel ends, while nbgrader grades; a student's checks end theirs."""
    return _warm() if os.environ.get(_GRADING) else None


@cache
def _warm() -> Nursery:
    from autograder.sandbox import Limits, Nursery

    sandbox = Nursery(Limits())  # starts what it needs at its first child, and anew when that has died
    atexit.register(sandbox.close)
    return sandbox


def _not_graded(reason: str) -> float:
    if os.environ.get(_GRADING) == "autograde":
        stream = sys.__stderr__
        if stream is not None:
            stream.write(f"Not graded, for no fault of the student: {reason}\n")
            stream.flush()
        os._exit(1)
    note(reason)
    return 0.0
