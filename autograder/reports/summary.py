"""What a class shows as a whole: mean and median, the grid of checks by students, the most common diagnoses."""

from __future__ import annotations

import re
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from autograder.reports.marks import CALM
from autograder.reports.tables import in_order, part_names
from autograder.verdict import CheckResult, PartResult, Report, Verdict


@dataclass(frozen=True)
class Figures:
    """The class in five numbers. Submissions that we could not grade count in none of mean, median and percent."""

    submissions: int
    graded: int
    passed_all: int
    max_score: float
    mean: float | None
    median: float | None


@dataclass(frozen=True)
class Column:
    """One check over the whole class."""

    id: str
    part: str
    title: str
    passed: int
    ran: int


@dataclass(frozen=True)
class Grid:
    """Checks by students. `rows[i][j]` is None where that student's report lacks that check."""

    columns: tuple[Column, ...]
    rows: tuple[tuple[Report, tuple[CheckResult | None, ...]], ...]

    @property
    def groups(self) -> list[tuple[str, int]]:
        """The parts above the columns, with how many columns each spans."""
        spans: dict[str, int] = {}
        for column in self.columns:
            spans[column.part] = spans.get(column.part, 0) + 1
        return list(spans.items())


@dataclass(frozen=True)
class Diagnosis:
    """One sentence, and who was told it. Sentences that differ in numbers only are one."""

    part: str
    text: str
    students: tuple[str, ...]


def figures(reports: Sequence[Report]) -> Figures:
    """Return the figures of the class."""
    scores = [report.score for report in reports if report.verdict is not Verdict.UNGRADABLE]
    return Figures(
        submissions=len(reports),
        graded=len(scores),
        passed_all=sum(report.verdict is Verdict.PASSED for report in reports),
        max_score=max((report.max_score for report in reports), default=0.0),
        mean=statistics.fmean(scores) if scores else None,
        median=statistics.median(scores) if scores else None,
    )


def grid(reports: Sequence[Report]) -> Grid:
    """Return the grid of checks by students, both in order."""
    by_student = [(report, _checks(report)) for report in in_order(reports)]
    columns: list[Column] = []
    for part in part_names(reports):
        found: dict[str, str] = {}
        longest = sorted(reports, key=lambda report: -len(report.parts[part].checks) if part in report.parts else 0)
        for report in longest:
            if part in report.parts:
                for check in report.parts[part].checks:
                    found.setdefault(check.id, check.title)
        for id_, title in found.items():
            results = [checks[id_].verdict for _, checks in by_student if id_ in checks]
            ran = [verdict for verdict in results if verdict not in CALM and verdict is not Verdict.UNGRADABLE]
            columns.append(Column(id_, part, title, sum(verdict is Verdict.PASSED for verdict in ran), len(ran)))
    rows = tuple((report, tuple(checks.get(column.id) for column in columns)) for report, checks in by_student)
    return Grid(tuple(columns), rows)


def diagnoses(reports: Sequence[Report], most: int = 12) -> list[Diagnosis]:
    """Return the sentences told most often, most frequent first."""
    texts: dict[tuple[str, str], str] = {}
    students: dict[tuple[str, str], list[str]] = {}
    for report in in_order(reports):
        for part in report.parts.values():
            text = part_sentence(part)
            if not text or part.verdict is Verdict.PASSED or part.verdict in CALM:
                continue
            key = (part.name, re.sub(r"\d[\d.,e+-]*", "#", text))
            texts.setdefault(key, text)
            students.setdefault(key, []).append(report.student)
    ranked = sorted(students, key=lambda key: -len(students[key]))  # stable: ties stay in class order
    return [Diagnosis(key[0], texts[key], tuple(students[key])) for key in ranked[:most]]


def part_sentence(part: PartResult) -> str:
    """Return the one sentence that explains a part: its diagnosis, else what its first wrong check says."""
    if part.diagnosis:
        return part.diagnosis
    wrong = (check.message for check in part.checks if check.verdict is not Verdict.PASSED and check.message)
    return next(wrong, "")


def first_to_do(report: Report) -> PartResult | None:
    """Return the first part that has not passed: what to work on next."""
    return next((part for part in report.parts.values() if part.verdict is not Verdict.PASSED), None)


def _checks(report: Report) -> dict[str, CheckResult]:
    return {check.id: check for part in report.parts.values() for check in part.checks}
