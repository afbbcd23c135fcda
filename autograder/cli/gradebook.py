"""`workshop grade --nbgrader`: what nbgrader collected, graded in our sandbox, into nbgrader's gradebook."""

from __future__ import annotations

import importlib.util
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from autograder.cli.screen import INTERRUPTED
from autograder.track import Track

if TYPE_CHECKING:
    from autograder.cli.class_run import ClassRun
    from autograder.gradebook.course import Course
    from autograder.verdict import Report

#: At most so many sentences of a kind on the terminal.
_LISTED = 10


def course_at(root: Path, assignment: str, track: Track) -> Course:
    """Return the course whose `assignment` can be graded into its gradebook; a usage error where it cannot."""
    if importlib.util.find_spec("nbgrader") is None:
        raise typer.BadParameter(
            'this needs nbgrader, which is not installed here: pip install "gpt-workshop-kit[notebook]"',
            param_hint="--nbgrader",
        )
    from autograder.gradebook.book import Book
    from autograder.gradebook.course import CourseError, open_course

    try:
        course = open_course(root, assignment)
        with Book(course, track):  # before anything is graded: all that could be wrong with it shows now
            return course
    except CourseError as error:
        raise typer.BadParameter(str(error), param_hint="--nbgrader") from error


def deliver(course: Course, run: ClassRun) -> int:
    """Write what was graded into the gradebook, and the pages; return how many students it could not be done for.

    All student code has ended by now. A grade that we failed to find, or that is of files handed in before, changes
    nothing there.
    """
    from autograder.gradebook.book import Book
    from autograder.gradebook.course import CourseError
    from autograder.gradebook.pages import lay_out, read_skeleton
    from autograder.reports.plain import clean
    from autograder.verdict import Verdict

    say = run.console.print
    track, work = run.order.track, dict(course.entries)
    skeleton = read_skeleton(course, track)
    missed: list[str] = []
    notices: list[str] = []
    written = 0
    order = {student: number for number, (student, _) in enumerate(course.entries)}  # they came as they were done
    fresh = [report for report in run.reports if report.verdict is not Verdict.UNGRADABLE]
    fresh.sort(key=lambda report: order[report.student])
    try:
        with Book(course, track) as book:
            for report in fresh:
                student = report.student
                if student in run.kept:
                    continue
                name, page = clean(student, limit=60), f"{run.folder.names[student]}.html"
                try:
                    _refuse_unfit(report, work[student])
                    by_hand = book.write(report, _stamp(work[student]))
                except CourseError as error:
                    missed.append(f"{name}: {clean(error, limit=300)}")
                    continue
                written += 1
                if by_hand:
                    notices.append(f"{name}: points by hand stay for {', '.join(by_hand)}")
                if "+" in student:
                    notices.append(f"{name}: nbgrader's exchange cannot bring feedback to an id with +")
                try:
                    text = (run.folder.path / "students" / page).read_bytes()
                    lay_out(course, track, skeleton, report, work[student], text)
                except (CourseError, OSError) as error:
                    reason = error.strerror or error if isinstance(error, OSError) else error
                    missed.append(f"{name}: no page, the points are there: {clean(reason, limit=300)}")
    except CourseError as error:
        say(f"The gradebook: {clean(error)}")
        return len(fresh)
    except KeyboardInterrupt:
        say(f"Interrupted: {written} are in the gradebook. Give the same command again to go on.")
        raise typer.Exit(INTERRUPTED) from None
    say(f"{written} of {len(run.order.entries)} are in the gradebook ({clean(course.assignment, limit=60)})")
    for title, sentences in (("Not written", missed), ("Note", notices)):
        for sentence in sentences[:_LISTED]:
            say(f"{title}: {sentence}")
        if len(sentences) > _LISTED:
            say(f"{title}: and {len(sentences) - _LISTED} more")
    say(f"In {clean(course.root)}: nbgrader generate_feedback --force {clean(course.assignment)}", soft_wrap=True)
    return len(missed)


def _refuse_unfit(report: Report, work: Path) -> None:
    from autograder.gradebook.course import CourseError

    if report.student != work.parent.name:
        raise CourseError("the folder is a link, or its name is no text: it cannot stand for an id in the gradebook.")


def _stamp(work: Path) -> datetime | None:
    """Return when nbgrader collected this, in UTC as the gradebook has it; None where nothing tells."""
    from autograder.classroom.handed_in import parse_stamp
    from autograder.submission.folder import read_regular
    from autograder.submission.limits import Refused

    try:
        return parse_stamp(read_regular(work, ("timestamp.txt",), 1000)).astimezone(UTC).replace(tzinfo=None)
    except (Refused, ValueError):
        return None
