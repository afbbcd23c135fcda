"""Our results in nbgrader's gradebook, by its API: one transaction a student; what a person put there stays."""

from __future__ import annotations

import html
import re
import tempfile
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from autograder.gradebook.cells import answer_cell, grade_cell, options
from autograder.gradebook.course import Course, CourseError
from autograder.reports.plain import clean, points
from autograder.reports.summary import part_sentence
from autograder.submission.names import shown
from autograder.track import Part, Track
from autograder.verdict import Report, Verdict

#: What Markdown would act on: nbgrader shows comments as Markdown, HTML and all. `head_dim` may stay.
_MARKUP = re.compile(r"[\\`*\[\]$#~|]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])")
#: A comment is one sentence; what a student's exception says may be longer.
_COMMENT_LENGTH = 600


@dataclass(frozen=True)
class _Cells:
    """The database's ids of a part's cells."""

    grade: str
    answer: str | None


class Book:
    """The gradebook of a course, for one assignment; a context manager. Raises CourseError.

    An assignment that the gradebook does not know is made from its source, by nbgrader's own generate_assignment.
    """

    def __init__(self, course: Course, track: Track) -> None:
        from nbgrader.api import Gradebook
        from sqlalchemy.exc import SQLAlchemyError

        self._course, self._track = course, track
        try:
            self._book = Gradebook(course.database, course.course_id)
            try:
                if self._assignment() is None:
                    self._generate()
                self._cells = self._find_cells()
            except BaseException:
                self._book.close()
                raise
        except SQLAlchemyError as error:
            raise CourseError(f"The gradebook cannot be used: {_reason(error)}.") from error

    def __enter__(self) -> Book:
        return self

    def __exit__(self, *_: object) -> None:
        self._book.close()

    def write(self, report: Report, handed_in: datetime | None) -> tuple[str, ...]:
        """Write the points of each part, and its sentence as the comment, all or nothing. `handed_in` is in UTC, naive.

        Returns the parts whose points a person set, other than those found now: they count.
        Points and comments by hand, extra credit, extensions and late penalties stay. Points by hand that were given
        when other points had been found are marked for another look, as nbgrader does. Raises CourseError.
        """
        from sqlalchemy.exc import SQLAlchemyError

        assert report.verdict is not Verdict.UNGRADABLE, "our failure is no grade"
        session = self._book.db
        try:
            by_hand = self._write(report, handed_in)
            session.commit()
        except SQLAlchemyError as error:
            session.rollback()
            raise CourseError(f"the gradebook refused it: {_reason(error)}") from error
        except BaseException:  # Ctrl-C too: nothing half written
            session.rollback()
            raise
        return by_hand

    def _write(self, report: Report, handed_in: datetime | None) -> tuple[str, ...]:
        submission = self._submission(report.student)
        if handed_in is not None and submission.timestamp != handed_in:
            submission.timestamp = handed_in
        grades = {grade.cell_id: grade for book in submission.notebooks for grade in book.grades}
        comments = {comment.cell_id: comment for book in submission.notebooks for comment in book.comments}
        by_hand = []
        for part in self._track.graded:
            result, cells = report.parts.get(part.name), self._cells[part.name]
            if result is None:
                continue  # not asked for in this run: what is there stays
            grade = grades[cells.grade]
            found = float(min(max(result.score, 0.0), part.max_score))
            if grade.manual_score is not None:
                if grade.auto_score != found:
                    grade.needs_manual_grade = True
                if grade.manual_score != found:
                    by_hand.append(part.name)
            else:
                grade.needs_manual_grade = False
            grade.auto_score = found
            if cells.answer is not None:
                sentence = "" if result.verdict is Verdict.PASSED else part_sentence(result)
                comments[cells.answer].auto_comment = as_comment(sentence) or None
        return tuple(by_hand)

    def _submission(self, student: str) -> Any:
        """Return the student's submission, with a grade and a comment for each cell; made where it is not there yet."""
        from nbgrader.api import Comment, Grade, Student, SubmittedAssignment, SubmittedNotebook

        session, assignment = self._book.db, self._assignment()
        if session.get(Student, student) is None:
            session.add(Student(id=student))
            session.flush()
        whose = {"assignment_id": assignment.id, "student_id": student}
        found = session.query(SubmittedAssignment).filter_by(**whose).one_or_none()
        if found is None:
            found = _added(session, SubmittedAssignment(**whose))
        there = {book.notebook_id: book for book in found.notebooks}
        for notebook in assignment.notebooks:
            ids = {"notebook_id": notebook.id, "assignment_id": found.id}
            book = there.get(notebook.id) or _added(session, SubmittedNotebook(**ids))
            graded, commented = ({row.cell_id for row in rows} for rows in (book.grades, book.comments))
            wanted = {cell.id for cell in [*notebook.grade_cells, *notebook.task_cells]}
            session.add_all(Grade(cell_id=cell, notebook_id=book.id) for cell in wanted - graded)
            wanted = {cell.id for cell in [*notebook.solution_cells, *notebook.task_cells]}
            session.add_all(Comment(cell_id=cell, notebook_id=book.id) for cell in wanted - commented)
        session.flush()
        session.expire_all()
        return found

    def _assignment(self) -> Any:
        from nbgrader.api import Assignment

        return self._book.db.query(Assignment).filter(Assignment.name == self._course.assignment).one_or_none()

    def _find_cells(self) -> dict[str, _Cells]:
        """Return the cells of each part. Raises CourseError where they are not there, or worth something else."""
        assignment = self._assignment()
        name = shown(self._course.assignment)
        if assignment is None:
            raise CourseError(f"nbgrader did not make {name!r} from {self._course.source}: look at what is in there.")
        graded = {cell.name: cell for book in assignment.notebooks for cell in book.grade_cells}
        answers = {cell.name: cell.id for book in assignment.notebooks for cell in book.solution_cells}
        found = {}
        for part in self._track.graded:
            cell = graded.get(grade_cell(part))
            if cell is None:
                there = ",".join(each.name for each in self._track.every if grade_cell(each) in graded)
                raise CourseError(
                    f"The assignment {name!r} has no cell {grade_cell(part)!r} in the gradebook. "
                    + (
                        f"It was built for --parts {there}: grade with these."
                        if there
                        else f"Its notebook is not ours, or is of another course (--track). {self._how_to_build()}"
                    )
                )
            self._refuse_other_points(part, float(cell.max_score))
            found[part.name] = _Cells(cell.id, answers.get(answer_cell(part)))
        return found

    def _refuse_other_points(self, part: Part, there: float) -> None:
        if there != part.max_score:
            raise CourseError(
                f"{part.name} is worth {points(part.max_score)} points in this course, and {points(there)} in the "
                f"gradebook. {self._how_to_build()}"
            )

    def _how_to_build(self) -> str:
        course, more = self._course, options(self._track)
        return (
            f"Run `workshop build --nbgrader {course.root} --assignment {course.assignment}{more}`, and "
            f"`nbgrader generate_assignment --force {course.assignment}` there."
        )

    def _generate(self) -> None:
        """Let nbgrader read the source assignment into the gradebook; what it hands out goes to a scratch folder."""
        from nbgrader.converters import GenerateAssignment
        from traitlets.config import Config

        course = self._course
        if not list(course.source.glob("*.ipynb")):
            raise CourseError(
                f"The gradebook knows no assignment {shown(course.assignment)!r}, and there is no notebook in "
                f"{course.source} to make it from. {self._how_to_build()}"
            )
        with tempfile.TemporaryDirectory(prefix="workshop-") as scratch:
            config = Config(course.directory.config)
            config.CourseDirectory.release_directory = scratch
            directory = type(course.directory)(config=config)
            directory.assignment_id = course.assignment
            try:
                GenerateAssignment(coursedir=directory, config=config).start()
            except Exception as error:  # nbgrader's, about the instructor's own notebook: it may be anything
                raise CourseError(
                    f"nbgrader cannot make {shown(course.assignment)!r} from {course.source} ({type(error).__name__}: "
                    f"{error}). Run `nbgrader generate_assignment {course.assignment}` there to see why."
                ) from error
        self._book.db.expire_all()


def _added(session: Any, row: Any) -> Any:
    """Add a new row by the ids of what it belongs to; by the objects themselves, SQLAlchemy warns at every step."""
    session.add(row)
    session.flush()
    return row


def as_comment(sentence: str) -> str:
    """Return a sentence as nbgrader's comment: Markdown that shows the very characters, and no HTML."""
    plain = html.escape(clean(sentence, limit=_COMMENT_LENGTH), quote=False)
    return _MARKUP.sub(lambda match: "\\" + match[0], plain)


def _reason(error: BaseException) -> str:
    """Return what the database itself said, without the statement and its values."""
    return clean(getattr(error, "orig", None) or error, limit=200)
