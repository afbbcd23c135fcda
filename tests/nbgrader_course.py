"""An nbgrader course made by the tests, and what its students hand in: the released notebook with answers in it."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from unittest.mock import patch

from typer.testing import CliRunner, Result

from autograder.authoring.assignment import assignment_files, write_assignment
from autograder.cli import app
from autograder.track import load_track

ROOT = Path(__file__).resolve().parent.parent
TRACK = load_track("gpt")
ASSIGNMENT = "gpt"
STAMP = "2025-03-14 22:10:05.123456 UTC"
_MARKERS = re.compile(r"^ *### (?:BEGIN|END) SOLUTION\n?", re.MULTILINE)


def make_course(folder: Path) -> Path:
    """Make a course with our assignment in source/, and nbgrader's settings."""
    write_assignment(assignment_files(ROOT, TRACK, folder, ASSIGNMENT), folder)
    return folder


def generate(course: Path) -> None:
    """Do what `nbgrader generate_assignment` does, in this process: a command takes six seconds to start."""
    from nbgrader.converters import GenerateAssignment

    scripts = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    with patch.dict(os.environ, PATH=scripts):  # nbgrader asks the program alembic for the version of a new gradebook
        _convert(GenerateAssignment, course)


def generate_feedback(course: Path) -> None:
    """Do what `nbgrader generate_feedback --force` does, with the course's own settings."""
    from nbgrader.converters import GenerateFeedback

    _convert(GenerateFeedback, course, force=True)


def _convert(converter: Any, course: Path, **how: Any) -> None:
    from nbgrader.coursedir import CourseDirectory
    from traitlets.config.loader import PyFileConfigLoader

    config = PyFileConfigLoader("nbgrader_config.py", path=str(course)).load_config()
    directory = CourseDirectory(config=config, root=str(course), assignment_id=ASSIGNMENT)
    converter(coursedir=directory, config=config, **how).start()


def book_at(path: Path) -> dict[str, Any]:
    """Return a notebook as data, each source one text."""
    book: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    for cell in book["cells"]:
        cell["source"] = "".join(cell["source"])
    return book


def cell_named(book: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return the one cell with this nbgrader id."""
    (found,) = (cell for cell in book["cells"] if cell["metadata"].get("nbgrader", {}).get("grade_id") == name)
    return dict(found)


def answers(course: Path) -> dict[str, str]:
    """Return our answer for each part, as a student would have written it into its cell."""
    source = book_at(course / "source" / ASSIGNMENT / "model.ipynb")
    return {part.name: _MARKERS.sub("", cell_named(source, f"{part.name}-answer")["source"]) for part in TRACK.parts}


def solved(course: Path, change: Callable[[dict[str, str]], dict[str, str]] = dict) -> dict[str, Any]:
    """Return the released notebook with answers written into it; parts that `change` takes out stay as released."""
    book = book_at(course / "release" / ASSIGNMENT / "model.ipynb")
    written = change(answers(course))
    for cell in book["cells"]:
        name = cell["metadata"]["nbgrader"]["grade_id"].removesuffix("-answer")
        if cell["metadata"]["nbgrader"]["solution"] and name in written:
            cell["source"] = written[name]
    return book


def with_cell(book: dict[str, Any], source: str, after: str = "gpt-answer") -> dict[str, Any]:
    """Return `book` with a code cell of the student's own behind the one called `after`."""
    place = next(i for i, cell in enumerate(book["cells"]) if cell["metadata"]["nbgrader"]["grade_id"] == after)
    own = {"cell_type": "code", "id": "own", "metadata": {}, "outputs": [], "execution_count": None, "source": source}
    return {**book, "cells": [*book["cells"][: place + 1], own, *book["cells"][place + 1 :]]}


def hand_in(course: Path, student: str, book: Mapping[str, Any], stamp: str = STAMP) -> Path:
    """Put a notebook where nbgrader puts what it collects."""
    work = course / "submitted" / student / ASSIGNMENT
    work.mkdir(parents=True, exist_ok=True)
    (work / "model.ipynb").write_text(json.dumps(book), encoding="utf-8")
    (work / "timestamp.txt").write_text(stamp, encoding="utf-8")
    return work


def copy_of(course: Path, folder: Path) -> Path:
    """Return a copy of a course that a test may change."""
    return Path(shutil.copytree(course, folder))


def grades(course: Path) -> dict[str, dict[str, float | None]]:
    """Return what nbgrader says each student has for each graded cell (a score by hand goes first), read by its API."""
    from nbgrader.api import Gradebook

    with Gradebook(f"sqlite:///{course / 'gradebook.db'}") as book:
        return {
            submission.student.id: {
                grade.name: None if grade.auto_score is None and grade.manual_score is None else float(grade.score)
                for notebook in submission.notebooks
                for grade in notebook.grades
            }
            for submission in book.assignment_submissions(ASSIGNMENT)
        }


def comments(course: Path, student: str) -> dict[str, str | None]:
    """Return the comment of each answer of a student."""
    from nbgrader.api import Gradebook

    with Gradebook(f"sqlite:///{course / 'gradebook.db'}") as book:
        submission = book.find_submission(ASSIGNMENT, student)
        return {comment.name: comment.comment for notebook in submission.notebooks for comment in notebook.comments}


def behave(course: Path, student: str, word: str) -> Path:
    """Hand our answers in for a student, with a word for the stand-in grader, and return the folder."""
    work = hand_in(course, student, solved(course))
    (work / "behave.txt").write_text(word, encoding="utf-8")
    return work


def workshop(*words: str | Path) -> Result:
    """Run a command in this process."""
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def graded(course: Path, *words: str) -> Result:
    """Grade the course into its gradebook."""
    return workshop("grade", "--nbgrader", course, ASSIGNMENT, "--out", "grades", *words)
