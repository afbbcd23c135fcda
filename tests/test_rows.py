"""Claims about the rows that a class keeps of its reports: the same tables, in little memory."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console
from sample_reports import NO_SCALE, TRACK, report, ungradable

from autograder.classroom.rows import Rows
from autograder.reports.folder import GradesFolder
from autograder.reports.html import ClassMeta
from autograder.reports.terminal import class_table
from autograder.verdict import Report

CLASS = [
    report("ada"),
    report("bo", NO_SCALE),
    report("cy", NO_SCALE),
    ungradable("di"),
    replace(report("ed"), warnings=("It prints.",), error="", files={"model.py": "0" * 64}),
]


def class_files(folder: Path, reports: list[Report]) -> dict[str, bytes]:
    grades = GradesFolder(folder, [report.student for report in reports])
    grades.prepare()
    meta = ClassMeta("gpt", "0.1.0", 7, parts=tuple(part.name for part in TRACK.parts))
    grades.write_class(reports, meta)
    return {path.name: path.read_bytes() for path in folder.glob("class.*")}


@pytest.mark.parametrize("order", [1, -1])
def test_the_class_files_and_the_table_are_those_of_whole_reports(order: int, tmp_path: Path) -> None:
    rows = Rows()
    kept = [rows.row(report) for report in CLASS[::order]]
    whole, slim = Console(width=100, record=True, quiet=True), Console(width=100, record=True, quiet=True)
    class_table(CLASS, whole)
    class_table(kept, slim)
    assert whole.export_text() == slim.export_text()
    made = class_files(tmp_path / "rows", kept)
    assert made == class_files(tmp_path / "whole", CLASS) and len(made) == 3


def test_a_number_keeps_the_way_in_which_it_is_written() -> None:
    rows = Rows()
    whole = report("ada")
    part = whole.parts["config"]
    others = [replace(whole, parts={"config": replace(part, score=score)}) for score in (5, 5.0)]
    assert [repr(rows.row(other).parts["config"].score) for other in others] == ["5", "5.0"]


def test_what_is_equal_is_held_once_and_evidence_is_not_held() -> None:
    rows = Rows()
    one, two = (rows.row(Report.from_json(report(name, NO_SCALE).to_json())) for name in ("ada", "bo"))
    assert all(one.parts[name] is two.parts[name] for name in one.parts)
    assert one.isolation is two.isolation
    checks = [check for part in one.parts.values() for check in part.checks]
    assert checks and not any(check.evidence or check.look_at for check in checks)
    own = sys.getsizeof(one) + sys.getsizeof(vars(one)) + sys.getsizeof(one.parts) + sys.getsizeof(one.files)
    assert own < 2000, "bytes that a student costs beside what is shared"
