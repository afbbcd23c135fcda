"""Grades as the CSV files that gradebooks take: Canvas, Moodle, and otter's final_grades.csv.

Cells are quoted by the rules of RFC 4180. A cell of text that a spreadsheet would take for a formula gets a leading
apostrophe; `cell_text` undoes it, so that every name comes back as it was.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Sequence

from autograder.reports.graded import Graded, GradedClass
from autograder.reports.plain import clean, points
from autograder.reports.summary import first_to_do, part_sentence

# What a spreadsheet evaluates, also behind blanks; with apostrophes before it, so that undoing ours is unambiguous.
_FORMULA = re.compile(r"'*[\s\u00a0\ufffd]*[=+\-@＝＋－＠]")


def canvas_csv(graded: GradedClass, assignment: str, *, after_penalty: bool = False) -> str:
    """Return a CSV file for Canvas' gradebook import, which finds students by their SIS login.

    The folder names of the class are written as `SIS Login ID`. No grade is an empty cell, which Canvas leaves alone.
    """
    rows = [["Student", "ID", "SIS User ID", "SIS Login ID", "Section", text_cell(assignment)]]
    rows.append(["    Points Possible", "", "", "", "", points(graded.max_score)])
    for student in graded.students:
        name = text_cell(student.report.student)
        rows.append([name, "", "", name, "", _score(student, after_penalty)])
    return _table(rows)


def moodle_csv(graded: GradedClass, assignment: str, *, after_penalty: bool = False) -> str:
    """Return a CSV file for Moodle's grade import: `Username`, the grade item, its feedback.

    Students without a grade are left out: Moodle would take an empty grade beside a feedback for "no grade", and
    remove one that is there.
    """
    rows = [["Username", text_cell(assignment), text_cell(f"{assignment} (feedback)")]]
    for student in graded.students:
        if student.known:
            rows.append([text_cell(student.report.student), _score(student, after_penalty), _feedback(student)])
    return _table(rows)


def otter_csv(graded: GradedClass, *, after_penalty: bool = False) -> str:
    """Return final_grades.csv as otter-grader writes it: the parts are the questions, the first row their points."""
    parts = graded.parts
    rows = [["file", *map(text_cell, parts), "total_points_earned", "percent_correct", "grading_status"]]
    rows.append(["points-per-question", *map(points, parts.values()), points(graded.max_score), "1", "--"])
    for student in graded.students:
        report = student.report
        scores = [points(report.parts[name].score) if name in report.parts else "0" for name in parts]
        total = student.score(after_penalty)
        share = str(round(total / report.max_score, 4)) if report.max_score else "0"
        if student.known:
            rows.append([text_cell(report.student), *scores, points(total), share, "Completed"])
        else:
            why = text_cell(f"Not graded: {report.error or 'the grader failed'}")
            rows.append([text_cell(report.student), *[""] * (len(parts) + 2), why])
    return _table(rows)


def text_cell(text: str) -> str:
    """Return a cell that no spreadsheet evaluates; control characters become U+FFFD, line breaks stay."""
    plain = clean(text, multiline=True)
    return "'" + plain if _FORMULA.match(plain) else plain


def cell_text(cell: str) -> str:
    """Return the text that `text_cell` made `cell` of."""
    return cell[1:] if cell.startswith("'") and _FORMULA.match(cell) else cell


def _score(graded: Graded, after_penalty: bool) -> str:
    return points(graded.score(after_penalty)) if graded.known else ""


def _feedback(graded: Graded) -> str:
    report = graded.report
    next_part = first_to_do(report)
    if report.error:
        return text_cell(report.error)
    if next_part is None:
        return "All checks passed."
    return text_cell(f"{next_part.title}: {part_sentence(next_part) or 'not right yet'}")


def _table(rows: Iterable[Sequence[str]]) -> str:
    table = io.StringIO()
    csv.writer(table, lineterminator="\r\n").writerows(rows)
    return table.getvalue()
