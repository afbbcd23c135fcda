"""A graded class read back from its folder (class.json and students/*.json): what every export is made from."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autograder.classroom.late import Late
from autograder.reports.plain import clean
from autograder.verdict import CheckResult, Report, Verdict


class GradedError(Exception):
    """The folder holds no class that can be read; the text says which file, and what to do."""


@dataclass(frozen=True)
class Graded:
    """One student's grade."""

    report: Report
    late: Late | None = None

    @property
    def known(self) -> bool:
        """Tell whether there is a grade: what we failed to grade has none, and must not become a zero."""
        return self.report.verdict is not Verdict.UNGRADABLE

    def score(self, after_penalty: bool = False) -> float:
        """Return the points: as earned, or what the late penalty leaves of them."""
        return self.late.score_after_penalty if after_penalty and self.late is not None else self.report.score


@dataclass(frozen=True)
class GradedClass:
    """The students of the latest grading run, in class order."""

    track: str
    kit_version: str
    students: tuple[Graded, ...]
    others: tuple[str, ...] = ()  # graded in an earlier run into this folder, and not in the latest

    @property
    def missing(self) -> list[str]:
        """The students who have no grade, for a reason of ours."""
        return [graded.report.student for graded in self.students if not graded.known]

    @property
    def has_late_marks(self) -> bool:
        return any(graded.late is not None for graded in self.students)

    @property
    def parts(self) -> dict[str, float]:
        """The parts in course order, with what each is worth."""
        fullest = max(self.students, key=lambda graded: len(graded.report.parts)).report.parts
        return {name: part.max_score for name, part in fullest.items()}

    @property
    def max_score(self) -> float:
        return max(graded.report.max_score for graded in self.students)


def read_class(folder: Path) -> GradedClass:
    """Read what `workshop grade --out FOLDER` wrote, or one report from `workshop check --json`. Raises GradedError."""
    if folder.is_file():
        _, graded = _student(folder)
        return GradedClass(graded.report.track, graded.report.kit_version, (graded,))
    if not folder.is_dir():
        what = "is not a folder" if folder.exists() else "is not there"
        raise GradedError(f"{folder} {what}: name the folder that `workshop grade --out` wrote.")
    header = _read(folder / "class.json")
    found = dict(_student(path) for path in sorted((folder / "students").glob("*.json")))
    try:
        order = [str(row["student"]) for row in header["submissions"]]
        track, kit_version = str(header["track"]), str(header["kit_version"])
    except (KeyError, TypeError) as error:
        raise GradedError(_not_ours(folder / "class.json")) from error
    lacking = [student for student in order if student not in found]
    if lacking:
        raise GradedError(
            f"class.json lists {clean(lacking[0], limit=60)}, and students/ holds no file of theirs"
            f"{f' (nor of {len(lacking) - 1} more)' if len(lacking) > 1 else ''}: grade again into {folder}."
        )
    if not order:
        raise GradedError(f"{folder / 'class.json'} lists no student: grade again into {folder}.")
    others = tuple(sorted(set(found) - set(order)))
    return GradedClass(track, kit_version, tuple(found[student] for student in order), others)


def _student(path: Path) -> tuple[str, Graded]:
    data = _read(path)
    try:
        late = Late(**data["late"]) if data.get("late") is not None else None
        report = Report.from_json(data)
        points = [report.score, report.max_score, *(check.points for check in checks_of(report))]
        points += [check.max_points for check in checks_of(report)]
        if not all(math.isfinite(value) for value in points):
            raise ValueError
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise GradedError(_not_ours(path)) from error
    return report.student, Graded(report, late)


def checks_of(report: Report) -> list[CheckResult]:
    """Return the check results of a report, in course order."""
    return [check for part in report.parts.values() for check in part.checks]


def _read(path: Path) -> dict[str, Any]:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise GradedError(f"{path} is not there: name the folder that `workshop grade --out` wrote.") from error
    except OSError as error:
        raise GradedError(f"{path} cannot be read: {error.strerror or error}.") from error
    except (ValueError, RecursionError) as error:
        raise GradedError(_not_ours(path)) from error
    if not isinstance(data, dict):
        raise GradedError(_not_ours(path))
    return data


def _not_ours(path: Path) -> str:
    return f"{clean(path, limit=300)} is not a report that this kit wrote, or is damaged: grade again into its folder."
