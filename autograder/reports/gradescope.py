"""Gradescope's results.json: what a student sees there, and what only instructors see (extra_data).

Format: https://gradescope-autograders.readthedocs.io/en/latest/specs/
"""

from __future__ import annotations

from typing import Any, Literal, get_args

from autograder.reports.graded import Graded
from autograder.reports.marks import MARKS
from autograder.reports.plain import clean, points
from autograder.verdict import CheckResult, Report, Verdict

Visibility = Literal["visible", "after_due_date", "after_published", "hidden"]
VISIBILITIES: tuple[Visibility, ...] = get_args(Visibility)


def results_json(
    graded: Graded, *, visibility: Visibility = "visible", leaderboard: bool = False, after_penalty: bool = False
) -> dict[str, Any]:
    """Return the content of results.json. Raises ValueError for a submission that has no grade: a file is a score.

    The seed, the digests of the files and how the code was locked in stand in `extra_data`, which students do not
    see. All text is marked as plain text, so that nothing that a student wrote is read as HTML or Markdown.
    """
    report = graded.report
    if not graded.known:
        raise ValueError("no grade")
    score = graded.score(after_penalty)
    results: dict[str, Any] = {
        "score": score,
        "output": _summary(graded, after_penalty),
        "output_format": "text",
        "test_output_format": "text",
        "test_name_format": "text",
        "visibility": visibility,
        "stdout_visibility": "hidden",
        "tests": [
            _test(check, f"{number}.{place}", part.title, visibility)
            for number, part in enumerate(report.parts.values(), 1)
            for place, check in enumerate(part.checks, 1)
        ],
        "extra_data": _for_instructors(report),
    }
    if leaderboard:
        results["leaderboard"] = [{"name": "points", "value": score}]
    return results


def _test(check: CheckResult, number: str, part: str, visibility: Visibility) -> dict[str, Any]:
    passed = check.verdict is Verdict.PASSED
    lines = [] if passed else [f"{MARKS[check.verdict].word}: {check.message}" if check.message else _word(check)]
    lines += [f"Look at: {check.look_at}"] if check.look_at and not passed else []
    return {
        "number": number,
        "name": clean(f"{part}: {check.title}", limit=300),
        "name_format": "text",
        "score": check.points,
        "max_score": check.max_points,
        "status": "passed" if passed else "failed",
        "output": clean("\n".join(lines), multiline=True),
        "output_format": "text",
        "visibility": visibility,
    }


def _word(check: CheckResult) -> str:
    return MARKS[check.verdict].word


def _summary(graded: Graded, after_penalty: bool) -> str:
    report = graded.report
    lines = [f"{points(report.score)} of {points(report.max_score)} points"]
    if graded.late is not None and graded.late.late_by_hours:
        late = graded.late
        counts = "" if after_penalty else " (not taken off here)"
        lines.append(f"{points(late.late_by_hours)} h late, penalty {points(late.penalty)}{counts}: {late.rule}")
    lines += [report.error] if report.error else []
    lines += [f"Repaired (costs nothing): {repair}" for repair in report.repairs]
    lines += [f"Warning: {warning}" for warning in report.warnings]
    return clean("\n".join(lines), multiline=True)


def _for_instructors(report: Report) -> dict[str, Any]:
    return {
        "track": report.track,
        "kit_version": report.kit_version,
        "seed": report.seed,
        "isolation": report.isolation,
        "verdict": report.verdict.value,
        "checks_run": report.checks_run,
        "files": dict(sorted(report.files.items())),
    }
