"""What formgrader and nbgrader's feedback are made from, and our page beside it, without a line of student code run."""

from __future__ import annotations

import ast
import json
import os
import re
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autograder.gradebook.cells import answer_cell, grade_cell, notebook_name
from autograder.gradebook.course import Course, CourseError
from autograder.reports.folder import write_atomic
from autograder.reports.marks import MARKS
from autograder.reports.plain import clean, points
from autograder.reports.summary import part_sentence
from autograder.submission.book import read_book
from autograder.submission.explain import source_text
from autograder.submission.folder import read_regular
from autograder.submission.intake import read_submission
from autograder.submission.limits import MAX_NOTEBOOK, Refused
from autograder.track import Track
from autograder.verdict import Report

#: Our page, in autograded/ (from where nbgrader takes it along into its feedback) and in feedback/.
PAGE = "workshop.html"
#: What nbgrader collected beside the work, and asks for when it releases feedback.
_SLIPS = ("timestamp.txt", "submission_secret.txt")
_SLIP_BYTES = 1000
#: In the metadata of a notebook that we wrote: such a one we may replace.
_OURS = "workshop"
#: What nbgrader keeps from students; its feedback would show it.
_INSTRUCTORS = re.compile(r"^[^\n]*BEGIN (HIDDEN TESTS|MARK SCHEME)[^\n]*\n.*?END \1[^\n]*(?:\n|\Z)", re.DOTALL | re.M)
_NOTHING = "Nothing of this was found in what was handed in."


@dataclass(frozen=True)
class Skeleton:
    """The assignment's notebook as it was written; answers in it are never shown."""

    cells: list[Any]
    metadata: dict[str, Any]


def read_skeleton(course: Course, track: Track) -> Skeleton | None:
    """Return the source notebook; None where there is none, or it cannot be read: then none is written."""
    try:
        book = json.loads((course.source / f"{notebook_name(track)}.ipynb").read_bytes())
        return Skeleton(list(book["cells"]), dict(book["metadata"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def lay_out(course: Course, track: Track, skeleton: Skeleton | None, report: Report, work: Path, page: bytes) -> None:
    """Write a student's folders in autograded/ and feedback/. `work` was collected. Raises CourseError, OSError.

    A notebook that nbgrader itself (or a person) put into autograded/ for this very hand-in stays as it is.
    """
    slips = _slips(work)
    student = work.parent.name
    autograded, feedback = (_folder(course, step, student) for step in ("autograded", "feedback"))
    if skeleton is not None:
        file = autograded / f"{notebook_name(track)}.ipynb"
        if _may_write(file, autograded, slips):
            write_atomic(file, _notebook(skeleton, track, report, work))
    for folder in (autograded, feedback):
        for name, data in slips.items():
            write_atomic(folder / name, data)
        write_atomic(folder / PAGE, page)


def _slips(work: Path) -> dict[str, bytes]:
    found = {}
    for name in _SLIPS:
        try:
            found[name] = read_regular(work, (name,), _SLIP_BYTES)
        except Refused:  # not there, or no file of nbgrader's
            continue
    return found


def _folder(course: Course, step: str, student: str) -> Path:
    """Return a student's folder in one of nbgrader's steps, made if it is not there. Raises CourseError for a link."""
    place = course.place(step, student)
    for folder in (place.parent.parent, place.parent, place):
        folder.mkdir(exist_ok=True)
        if not stat.S_ISDIR(os.lstat(folder).st_mode) and folder != place.parent.parent:
            raise CourseError(f"{folder} is a link: nothing is written behind it.")
    return place


def _may_write(file: Path, folder: Path, slips: dict[str, bytes]) -> bool:
    try:
        there = json.loads(file.read_bytes())["metadata"]
    except FileNotFoundError:
        return True
    except (OSError, ValueError, KeyError, TypeError):
        return False
    if isinstance(there, dict) and _OURS in there:
        return True
    try:
        return (folder / _SLIPS[0]).read_bytes() != slips.get(_SLIPS[0])  # another hand-in
    except OSError:
        return _SLIPS[0] in slips


def _notebook(skeleton: Skeleton, track: Track, report: Report, work: Path) -> str:
    """Return the assignment's notebook with the student's answers in it, and what we found as its outputs."""
    written = _answers(work, f"{notebook_name(track)}.ipynb")
    classes = _classes(track, work)
    wanted = {answer_cell(part): part.class_name for part in track.graded if not part.functions}
    results = {grade_cell(part): report.parts[part.name] for part in track.graded if part.name in report.parts}
    cells = []
    for cell in skeleton.cells:
        about = cell.get("metadata", {}).get("nbgrader", {})
        name = about.get("grade_id")
        source = _INSTRUCTORS.sub("", "".join(cell.get("source", [])))
        new = {**cell, "source": source}
        if about.get("solution"):
            text = written.get(name, "")
            if name in wanted and f"class {wanted[name]}" not in text:
                text = classes.get(wanted[name], text)
            new["source"] = text or (f"# {_NOTHING}" if cell.get("cell_type") == "code" else _NOTHING)
        if cell.get("cell_type") == "code":
            new |= {"outputs": [], "execution_count": None}
            if name in results:
                result = results[name]
                said = f"{result.title}: {points(result.score)} / {points(result.max_score)}, "
                said += f"{MARKS[result.verdict].word}\n{clean(part_sentence(result))}".rstrip() + "\n"
                said += f"Graded by the workshop kit in its sandbox, not in this notebook. The whole report: {PAGE}\n"
                new["outputs"] = [{"output_type": "stream", "name": "stdout", "text": said}]
        cells.append(new)
    metadata = {**skeleton.metadata, _OURS: {"graded": "in the workshop kit's sandbox; no cell was run"}}
    return json.dumps({"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}, indent=1) + "\n"


def _answers(work: Path, name: str) -> dict[str, str]:
    """Return what the student wrote into the cells that have an nbgrader id; of two with one id, the last."""
    try:
        data = read_regular(work, (name,), MAX_NOTEBOOK)
        read_book(data, name)  # refuses what is no notebook, or too much of one
        cells = json.loads(data).get("cells", [])
    except (Refused, AttributeError, ValueError, RecursionError):  # damaged: read otherwise, but not cell by cell
        return {}
    found = {}
    for cell in cells if isinstance(cells, list) else []:
        try:
            grade_id, source = cell["metadata"]["nbgrader"]["grade_id"], cell["source"]
        except (KeyError, TypeError):
            continue
        text = "".join(map(str, source)) if isinstance(source, list) else str(source)
        if isinstance(grade_id, str) and text.strip():
            found[grade_id] = text.encode("utf-8", "replace").decode()
    return found


def _classes(track: Track, work: Path) -> dict[str, str]:
    """Return the text of each class as it was graded, wherever in the hand-in it was."""
    submission = read_submission(work, track)
    found: dict[str, str] = {}
    for name, path in submission.sources.items():
        text = source_text(submission.tree[path])
        try:
            nodes = [node for node in ast.parse(text).body if isinstance(node, ast.ClassDef) and node.name == name]
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue
        if nodes:
            first = min([nodes[-1].lineno, *(decorator.lineno for decorator in nodes[-1].decorator_list)])
            found[name] = "\n".join(text.split("\n")[first - 1 : nodes[-1].end_lineno])
    return found
