"""The nbgrader assignment: one notebook with all parts, answers in solution regions, and a graded cell for each."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from autograder.authoring.build import Change, sources, write_text
from autograder.authoring.notebooks import NUMBERS, book_text, text_and_code
from autograder.authoring.regions import AuthoringError, task_text
from autograder.gradebook.cells import answer_cell, grade_cell, notebook_name
from autograder.track import DEFAULT, Track

CONFIG = "nbgrader_config.py"
#: What keeps hidden tests out of the feedback; nbgrader shows them there by itself.
HIDING = "ClearHiddenTests"
#: nbgrader refuses a `+`, and takes each of these names as a path.
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_. -]*")

_INTRO = """\
# {title}

Write the {count} below, in this order. Under each stands a cell that says what is right, what is not, and how many
points that is: run it as often as you like. It looks at {thing} as {it_is} now in this notebook, in a process of
its own. Stuck? `hint("{part}"{course})` says a little more each time, and costs nothing."""
_SETUP = "from autograder.jupyter import hint, score"
#: The hidden lines take the name back from a notebook that gave it to something of its own.
_GRADED = """\
### BEGIN HIDDEN TESTS
from autograder.jupyter import score
### END HIDDEN TESTS
score("{part}"{course})"""

_SETTINGS = '''\
"""nbgrader's settings for this course, first written by `workshop build --nbgrader`; yours to change."""

c = get_config()  # noqa: F821

# Hidden tests stay out of the feedback too.
c.GenerateFeedback.preprocessors = [
    "nbgrader.preprocessors.GetGrades",
    "nbgrader.preprocessors.ClearHiddenTests",
    "nbconvert.preprocessors.CSSHTMLHeaderPreprocessor",
]

# A graded cell gives up on a loop in a student's class by itself, after some ten seconds for each call.
c.ExecutePreprocessor.timeout = 120

# A graded cell that a student deleted is put back.
c.OverwriteCells.add_missing_cells = True
'''


def assignment_text(root: Path, track: Track) -> str:
    """Return the source notebook, with the parts that `track` grades, as JSON; the same solutions give the same bytes.

    Raises AuthoringError.
    """
    from nbformat.v4 import new_code_cell, new_markdown_cell

    course = "" if track.name == DEFAULT else f', track="{track.name}"'
    cells = [_named(new_markdown_cell(_intro(track, course)), "intro", locked=True)]
    cells.append(_named(new_code_cell(_SETUP), "setup", locked=True))
    modules = {part.file.removesuffix(".py") for part in track.every}
    for source in (source for source in sources(root, track) if source.part in track.graded):
        part, file = source.part, f"solutions/{source.part.file}"
        text, code = text_and_code(task_text(source.solution, file), file)
        code = _without_imports(code, modules)
        cells.append(_named(new_markdown_cell("#" + text), f"{part.name}-text", locked=True))
        cells.append(_named(new_code_cell(code), answer_cell(part), solution=True))
        graded = new_code_cell(_GRADED.format(part=part.name, course=course))
        cells.append(_named(graded, grade_cell(part), grade=True, locked=True, points=part.max_score))
    return book_text(cells)


def _intro(track: Track, course: str) -> str:
    """Return the notebook's first words; `course` is how a command in it names the track, if it has to."""
    number = len(track.graded)
    functions = any(part.functions for part in track.graded)
    count = NUMBERS.get(number, str(number)) + (" parts" if functions else " classes")
    if number == 1:
        count = "part" if functions else "class"
    thing, it_is = ("your definitions", "they are") if functions else ("the class", "it is")
    part = track.graded[0].name
    return _INTRO.format(title=track.title, count=count, thing=thing, it_is=it_is, part=part, course=course)


def assignment_files(root: Path, track: Track, course: Path, name: str) -> dict[Path, str]:
    """Return what belongs into the course folder for assignment `name`. Raises AuthoringError."""
    if not _NAME.fullmatch(name):
        raise AuthoringError(
            f"{name!r} is no name for an assignment: use letters, digits, spaces and _ . - (nbgrader refuses a +)."
        )
    files = {course / "source" / name / f"{notebook_name(track)}.ipynb": assignment_text(root, track)}
    if not os.path.lexists(course / CONFIG):
        files[course / CONFIG] = _SETTINGS
    return files


def stale_assignment(files: dict[Path, str]) -> list[Change]:
    """Return which of `files` are missing from the course folder, or are not what their source says."""
    changes = []
    for file, text in files.items():
        if not os.path.lexists(file):
            changes.append(Change(file, "missing"))
        elif not file.is_file() or file.read_bytes() != text.encode():
            changes.append(Change(file, "stale"))
    return changes


def write_assignment(files: dict[Path, str], course: Path) -> list[Change]:
    """Write what is missing or stale, and return it. Raises AuthoringError.

    An older notebook is kept in the course folder itself: beside the new one, nbgrader would hand it out to students.
    """
    done = []
    for change in stale_assignment(files):
        kept = _keep(change.file, course) if change.what == "stale" else None
        write_text(change.file, files[change.file])
        done.append(Change(change.file, change.what, kept))
    return done


def shows_hidden_tests(course: Path) -> bool:
    """Tell whether the course's own settings say nothing about keeping hidden tests out of the feedback."""
    try:
        return HIDING not in (course / CONFIG).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False


def _keep(file: Path, course: Path) -> Path:
    stem, number = f"{file.parent.name}-{file.stem}", 1
    while os.path.lexists(kept := course / f"{stem}.before-build-{number}.ipynb"):
        number += 1
    try:
        kept.write_bytes(file.read_bytes())
    except OSError as error:
        raise AuthoringError(f"{file} is not what we would write, and cannot be kept ({error.strerror}).") from error
    return kept


def _named(cell: Any, name: str, **role: Any) -> Any:
    """Give a cell its nbgrader metadata, all keys that schema 3 asks for, and an id that stays the same."""
    about = {"schema_version": 3, "grade_id": name, "grade": False, "solution": False, "locked": False, "task": False}
    cell["metadata"]["nbgrader"] = {**about, **role}
    cell["id"] = name
    return cell


def _without_imports(code: str, modules: set[str]) -> str:
    """Return `code` without its imports from other parts: their classes are in the same notebook."""
    lines = code.split("\n")
    gone = set(_import_lines(code, modules))
    kept = "\n".join(line for number, line in enumerate(lines, 1) if number not in gone)
    return re.sub(r"\n{4,}", "\n\n\n", kept)


def _import_lines(code: str, modules: set[str]) -> Iterator[int]:
    for node in ast.parse(code).body:
        if isinstance(node, ast.ImportFrom) and node.module in modules:
            yield from range(node.lineno, (node.end_lineno or node.lineno) + 1)
