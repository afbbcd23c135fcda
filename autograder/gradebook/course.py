"""An nbgrader course folder: where what nbgrader collected lies, where its gradebook is, and whether we can use it."""

from __future__ import annotations

import difflib
import os
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autograder.submission.names import is_pruned, shown, student_id

_CONFIG = "nbgrader_config.py"
_SQLITE = "sqlite:///"


class CourseError(Exception):
    """The course folder, or its gradebook, is not what it should be. One sentence for people."""


@dataclass(frozen=True)
class Course:
    """One assignment of a course, as nbgrader's own settings place it."""

    root: Path
    assignment: str
    directory: Any  # nbgrader's CourseDirectory
    entries: tuple[tuple[str, Path], ...]  # student, folder with what was collected

    @property
    def database(self) -> str:
        """Return the URL of the gradebook."""
        return str(self.directory.db_url)

    @property
    def course_id(self) -> str:
        return str(self.directory.course_id)

    @property
    def source(self) -> Path:
        """The folder of the assignment's source notebooks; it may not be there."""
        return self.place("source", ".")

    @property
    def submitted(self) -> Path:
        """What all entries lie below, named so that it stands for this assignment alone."""
        return self.place("submitted", "*")

    def place(self, step: str, student: str) -> Path:
        """Return the folder of the assignment in one of nbgrader's steps: source, submitted, autograded, feedback."""
        named = getattr(self.directory, f"{step}_directory")
        return Path(self.directory.format_path(named, student, self.assignment))


def open_course(root: Path, assignment: str) -> Course:
    """Return the course at `root` with all that was collected of `assignment`, after a look at its gradebook.

    Runs the settings in nbgrader_config.py, as every command of nbgrader does. Raises CourseError; writes nothing.
    """
    if not root.is_dir():
        what = "is not a folder" if root.exists() else "is not there"
        raise CourseError(f"{root} {what}: name the folder of an nbgrader course, with submitted/ in it.")
    if "+" in assignment or "/" in assignment or os.sep in assignment or assignment in ("", ".", ".."):
        raise CourseError(f"{shown(assignment)!r} cannot be an assignment: nbgrader's names hold no + and no slash.")
    directory = _directory(root.resolve())
    course = Course(root.resolve(), assignment, directory, ())
    submitted = Path(directory.format_path(directory.submitted_directory, "*", "*"))
    if submitted.parent.parent != Path(directory.root) / directory.submitted_directory:
        raise CourseError(
            "directory_structure is not nbgrader's own here: grade the folders with `workshop grade` alone."
        )
    found = _collected(submitted.parent.parent, assignment)
    _look_at_gradebook(course)
    return Course(course.root, assignment, directory, tuple(found))


def _directory(root: Path) -> Any:
    """Return nbgrader's view of the course, with the settings that nbgrader itself would find."""
    from jupyter_core.paths import jupyter_config_path
    from nbgrader.coursedir import CourseDirectory
    from traitlets.config.loader import Config, ConfigFileNotFound, PyFileConfigLoader

    config = Config()
    for place in [*reversed(jupyter_config_path()), str(root)]:
        try:
            config.merge(PyFileConfigLoader(_CONFIG, path=place).load_config())
        except ConfigFileNotFound:
            continue
        except Exception as error:  # a settings file is a program of the instructor's, and may raise anything
            raise CourseError(f"{Path(place) / _CONFIG} does not run ({type(error).__name__}: {error}).") from error
    config.CourseDirectory.root = str(root)
    return CourseDirectory(config=config)


def _collected(submitted: Path, assignment: str) -> list[tuple[str, Path]]:
    """Return (student, folder) for all who handed `assignment` in, sorted. Raises CourseError when nobody did."""
    try:
        with os.scandir(submitted) as items:
            students = sorted(item.name for item in items if item.is_dir() and not is_pruned(item.name))
    except FileNotFoundError:
        raise CourseError(
            f"There is no {submitted}: collect with nbgrader first (nbgrader collect {assignment})."
        ) from None
    except OSError as error:
        raise CourseError(f"{submitted} cannot be read ({error.strerror}).") from error
    found = [name for name in students if os.path.lexists(submitted / name / assignment)]
    if not found:
        raise CourseError(f"Nobody handed in {shown(assignment)!r}: {_known(submitted, students, assignment)}.")
    return [(student_id(name, is_folder=True), _work(submitted / name, assignment)) for name in found]


def _work(student: Path, assignment: str) -> Path:
    """Return where the work lies. A link in the place of a student's folder is not followed: intake will refuse it."""
    return student if student.is_symlink() else student / assignment


def _known(submitted: Path, students: list[str], assignment: str) -> str:
    names: set[str] = set()
    for student in students:
        try:
            names |= {
                item.name for item in (submitted / student).iterdir() if item.is_dir() and not is_pruned(item.name)
            }
        except OSError:
            continue
    if not names:
        return f"{submitted} holds no hand-ins"
    near = difflib.get_close_matches(assignment, names, 1)
    hint = f" Did you mean {shown(near[0])}?" if near else ""
    return f"{submitted} holds {', '.join(map(shown, sorted(names)))}.{hint}".removesuffix(".")


def _look_at_gradebook(course: Course) -> None:
    """Refuse a gradebook that is missing, is none, or is of another version of nbgrader; changes nothing in it.

    nbgrader itself would make an empty one, or fail in the middle with SQLAlchemy's words.
    """
    if not course.database.startswith(_SQLITE):
        return  # a server: what is wrong with it shows when we connect
    file = Path(course.database.removeprefix(_SQLITE))
    if not file.is_file():
        raise CourseError(
            f"There is no gradebook ({file}): run `nbgrader generate_assignment {course.assignment}` in {course.root} "
            "first, and give this command again."
        )
    try:
        with closing(sqlite3.connect(f"{file.as_uri()}?mode=ro", uri=True)) as book:
            rows = book.execute("SELECT version_num FROM alembic_version").fetchall()
    except sqlite3.Error as error:
        raise CourseError(f"{file} is not a gradebook of nbgrader's, or is damaged ({error}).") from error
    version, ours = (rows[0][0] if rows else None), _head()
    if version != ours:
        raise CourseError(
            f"{file} was made by another version of nbgrader (its tables are {version}, this one's {ours}): "
            f"make a copy of it, then run `nbgrader db upgrade` in {course.root}."
        )


def _head() -> str | None:
    """Return the version of the tables that this nbgrader makes; its own function asks a program on the PATH."""
    from alembic.config import Config
    from alembic.script import ScriptDirectory
    from nbgrader.dbutil import ALEMBIC_DIR

    config = Config()
    config.set_main_option("script_location", str(ALEMBIC_DIR).replace("%", "%%"))
    return ScriptDirectory.from_config(config).get_current_head()
