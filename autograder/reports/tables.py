"""The class as data: class.json, class.csv, and a file name for each student. The same reports give the same bytes.

CSV cells that hold text and start with `= + - @` (or their full-width forms) get a leading apostrophe, so that no
spreadsheet takes a student's name for a formula; columns of numbers are left as numbers.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import math
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from autograder.classroom.late import Late
from autograder.reports.plain import clean, points
from autograder.verdict import SCHEMA, Report, Verdict

_FORMULA = ("=", "+", "-", "@", "＝", "＋", "－", "＠")
# Forbidden on Windows, or with a meaning in shells' globs and URLs that makes links go wrong.
_UNSAFE = re.compile(r'[<>:"/\\|?*%#\x00-\x1f\x7f]')
_RESERVED = re.compile(r"(con|prn|aux|nul|conin\$|conout\$|com[0-9¹²³]|lpt[0-9¹²³])(\..*)?", re.IGNORECASE)
_LATE = ("submitted", "due", "late_by_hours", "penalty", "score_after_penalty", "late_rule", "submitted_from")
#: Names stay readable, and with an ending well below the 255 bytes that file systems take.
_NAME_CHARACTERS, _NAME_BYTES = 100, 200


def in_order(reports: Iterable[Report]) -> list[Report]:
    """Return the reports as a class list reads: by student, without regard to case."""
    return sorted(reports, key=lambda report: (report.student.casefold(), report.student))


def part_names(reports: Iterable[Report]) -> list[str]:
    """Return the parts that occur, in track order (a submission that could not be graded may lack some)."""
    longest = sorted(reports, key=lambda report: -len(report.parts))
    return list(dict.fromkeys(name for report in longest for name in report.parts))


def common_isolation(reports: Iterable[Report]) -> dict[str, Any]:
    """Return what may be said of the whole run: the weakest isolation that any submission was graded with."""
    found = [report.isolation for report in in_order(reports) if report.isolation]
    return next((isolation for isolation in found if not isolation.get("isolated")), found[0] if found else {})


def class_json(
    reports: Iterable[Report],
    *,
    track: str,
    kit_version: str,
    seed: int,
    isolation: dict[str, Any],
    late: Mapping[str, Late] | None = None,
) -> dict[str, Any]:
    """Return the content of class.json: a header and one summary a student, in class order.

    `late` has the late marks by student, where there is a policy.
    """
    return {
        "schema": SCHEMA,
        "track": track,
        "kit_version": kit_version,
        "seed": seed,
        "isolation": isolation,
        "submissions": [
            _with_late(
                {**_sorted_files(report.summary()), **_own_terms(report, kit_version, seed)},
                (late or {}).get(report.student),
            )
            for report in in_order(reports)
        ],
    }


def student_json(report: Report, late: Late | None = None) -> dict[str, Any]:
    """Return the content of a student's file: the whole report."""
    return _with_late(_sorted_files(report.to_json()), late)


def _own_terms(report: Report, kit_version: str, seed: int) -> dict[str, Any]:
    """Return what a result from an earlier run does not share with the header."""
    own: dict[str, Any] = {"seed": report.seed} if report.seed != seed else {}
    return own if report.kit_version == kit_version else {**own, "kit_version": report.kit_version}


def _with_late(data: dict[str, Any], late: Late | None) -> dict[str, Any]:
    return data if late is None else {**data, "late": late.to_json()}


def json_text(data: dict[str, Any]) -> str:
    """Return strict JSON, ASCII only: no byte of it can act on a terminal, whatever a student wrote."""
    return json.dumps(_finite(data), indent=1, ensure_ascii=True, allow_nan=False) + "\n"


def class_csv(
    reports: Iterable[Report], parts: Sequence[str] | None = None, late: Mapping[str, Late] | None = None
) -> str:
    """Return class.csv: one row a student; with `late`, the late marks stand in columns of their own at the end.

    A submission that could not be graded for a reason of ours has no score in it (an empty cell, not a zero).
    """
    reports = in_order(reports)
    names = list(parts) if parts is not None else part_names(reports)
    table = io.StringIO()
    writer = csv.writer(table, lineterminator="\n")
    columns = [f"{name}_{what}" for name in names for what in ("score", "verdict")]
    writer.writerow(
        [
            "student",
            "score",
            "max_score",
            "percent",
            "verdict",
            *columns,
            "warnings",
            *(_LATE if late is not None else ()),
        ]
    )
    for report in reports:
        graded = report.verdict is not Verdict.UNGRADABLE
        percent = points(100 * report.score / report.max_score) if graded and report.max_score else ""
        row: list[str] = [csv_text(report.student), points(report.score) if graded else "", points(report.max_score)]
        row += [percent, report.verdict.value]
        for name in names:
            part = report.parts.get(name)
            known = part is not None and part.verdict is not Verdict.UNGRADABLE and graded
            row += [points(part.score) if part is not None and known else "", part.verdict.value if part else ""]
        row.append(csv_text(" | ".join(report.warnings)))
        writer.writerow(row if late is None else [*row, *_late_cells(late.get(report.student))])
    return table.getvalue()


def _late_cells(late: Late | None) -> list[str]:
    if late is None:
        return [""] * len(_LATE)
    figures = [points(value) for value in (late.late_by_hours, late.penalty, late.score_after_penalty)]
    return [late.submitted, late.due, *figures, csv_text(late.rule), csv_text(late.submitted_from)]


def csv_text(text: str) -> str:
    """Return a cell of text that no spreadsheet takes for a formula."""
    plain = clean(text)
    return "'" + plain if plain.lstrip(" \u00a0\ufffd").startswith(_FORMULA) else plain


def file_name(student: str) -> str:
    """Return a readable file name (without an ending) for a student id; safe on Linux, macOS and Windows.

    Safe ids stay as they are. Anything that had to be altered gets eight digits of its SHA-256, so that two ids that
    look the same afterwards still differ. For a whole class use `file_names`, which also tells `Ada` from `ada`.
    """
    normal = unicodedata.normalize("NFC", student)
    safe = _UNSAFE.sub("_", clean(normal, limit=10_000)).replace("\ufffd", "_")
    safe = re.sub(r"^[\s.\-~]+|[\s.]+$", "_", safe)
    if not safe.strip("_ ") or _RESERVED.fullmatch(safe):
        safe = f"student_{safe}"
    if safe == normal and len(safe) <= _NAME_CHARACTERS and len(safe.encode()) <= _NAME_BYTES:
        return safe
    return _with_hash(safe, student)


def file_names(students: Iterable[str]) -> dict[str, str]:
    """Return a file name for each student, all different on disks that ignore case, whatever the order."""
    names = {student: file_name(student) for student in students}
    for _ in range(len(names)):  # a name with a hash may meet another student's plain id: then that one gets one too
        counts = Counter(_key(name) for name in names.values())
        clashing = [student for student, name in names.items() if counts[_key(name)] > 1]
        if not clashing:
            break
        names.update({student: _with_hash(names[student], student) for student in clashing})
    return names


def _key(name: str) -> str:
    return unicodedata.normalize("NFC", unicodedata.normalize("NFKD", name).casefold())


def _with_hash(name: str, student: str) -> str:
    digest = hashlib.sha256(student.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    kept = name[: _NAME_CHARACTERS - 9].encode()[: _NAME_BYTES - 9].decode(errors="ignore").rstrip(" .")
    return f"{kept}-{digest}"


def _sorted_files(data: dict[str, Any]) -> dict[str, Any]:
    return {**data, "files": dict(sorted(data["files"].items()))}  # whatever order the disk gave them in


def _finite(value: Any) -> Any:
    """Write not-a-number and infinity as strings: JSON has no such numbers."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value
