"""The folder that a class is graded into: what may be it, and whole files or none in it."""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from autograder.catalogue import ENGLISH, Catalogue
from autograder.classroom.late import Late
from autograder.reports.html import ClassMeta, class_page_pieces, student_page
from autograder.reports.tables import class_csv, class_json, file_names, json_text, student_json
from autograder.verdict import Report, Verdict

#: The names that `write_atomic` gives, by way of mkstemp.
_UNFINISHED = re.compile(r"\.[a-z0-9_]{8}\.part")


class FolderError(Exception):
    """The folder cannot take the results; the text says why and what to do."""


def write_atomic(path: Path, text: str | bytes | Iterable[str]) -> None:
    """Write `text` (or its pieces) as UTF-8 so that a reader sees the old file or the new one, never half of one."""
    handle, name = tempfile.mkstemp(prefix=".", suffix=".part", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as stream:
            if isinstance(text, bytes):
                stream.write(text)
            else:
                stream.writelines(piece.encode() for piece in ([text] if isinstance(text, str) else text))
        Path(name).chmod(0o644)  # mkstemp makes files that only their owner reads
        Path(name).replace(path)
    except BaseException:  # Ctrl-C too: no half file stays behind
        Path(name).unlink(missing_ok=True)
        raise


def on_disk(name: str) -> str:
    """Return a file's name such that it is UTF-8 on the disk in any locale, also where Python would write ASCII."""
    return os.fsdecode(name.encode())


def check_folder(out: Path, submissions: Path) -> None:
    """Refuse a folder that is a file, or that the next grading run would take for submissions.

    Raises FolderError.
    """
    if out.exists() and not out.is_dir():
        raise FolderError(f"--out {out} is a file: name a folder that is there or can be made.")
    root = submissions.resolve()
    if (root / "submitted").is_dir():  # nbgrader's course folder: only that part of it is read
        root = root / "submitted"
    inside = [place for place in (out.resolve(), (out / "students").resolve()) if place.is_relative_to(root)]
    if inside:
        raise FolderError(
            f"--out {out} lies in the submissions folder ({submissions}), and would be graded as a student next "
            f"time: name a folder outside it, such as --out {root.parent / 'grades'}"
        )


@dataclass
class GradesFolder:
    """DIR/class.{json,csv,html} and DIR/students/<id>.{json,html}. Files of students not graded now stay."""

    path: Path
    students: Iterable[str]
    catalogue: Catalogue = ENGLISH  # the language of the pages; the data is in English
    names: dict[str, str] = field(init=False)

    def __post_init__(self) -> None:
        self.names = file_names(self.students)

    def prepare(self) -> None:
        """Make the folders. Raises FolderError where that is not allowed."""
        try:
            (self.path / "students").mkdir(parents=True, exist_ok=True)
            write_atomic(self.path / "students" / ".writable", "")
            (self.path / "students" / ".writable").unlink()
        except OSError as error:
            raise FolderError(f"--out {self.path} cannot be written: {error.strerror or error}.") from error

    def sweep(self) -> None:
        """Remove what a killed run left of files that it was writing. Only while nobody else writes here."""
        for folder in (self.path, self.path / "students"):
            for path in folder.glob(".*.part"):
                if _UNFINISHED.fullmatch(path.name):
                    path.unlink(missing_ok=True)

    def write_student(self, report: Report, late: Late | None = None) -> bool:
        """Write a student's two files. A report that is our failure never replaces an earlier grade: returns False."""
        base = self.path / "students" / on_disk(self.names[report.student])
        data, page = base.with_name(base.name + ".json"), base.with_name(base.name + ".html")
        if report.verdict is Verdict.UNGRADABLE and page.exists() and _holds_a_grade(data):
            return False
        write_atomic(data, json_text(student_json(report, late)))
        write_atomic(page, student_page(report, late, self.catalogue))
        return True

    def write_class(self, reports: Iterable[Report], meta: ClassMeta, late: Mapping[str, Late] | None = None) -> str:
        """Write the three class files for this run, and return the text of class.json. `late`: marks by student."""
        reports = list(reports)
        data = class_json(
            reports,
            track=meta.track,
            kit_version=meta.kit_version,
            seed=meta.seed,
            isolation=meta.isolation,
            late=late,
        )
        text = json_text(data)
        write_atomic(self.path / "class.json", text)
        write_atomic(self.path / "class.csv", class_csv(reports, meta.parts or None, late))
        write_atomic(self.path / "class.html", class_page_pieces(reports, meta, self.names, late, self.catalogue))
        return text


def _holds_a_grade(path: Path) -> bool:
    try:
        verdict = json.loads(path.read_text(encoding="utf-8"))["verdict"]
    except (OSError, ValueError, KeyError, TypeError):  # not there, or not ours: nothing to keep
        return False
    return bool(verdict != Verdict.UNGRADABLE.value)
