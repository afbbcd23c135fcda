"""A report in the reader's language: the sentences are translated, the facts (names, numbers, digests) stay.

What is kept, compared and exported is the English one; this is what is shown of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from autograder.catalogue import Catalogue
from autograder.hints import Ladder
from autograder.reports.marks import MARKS, Mark
from autograder.verdict import CheckResult, Evidence, PartResult, Report, Verdict


def in_language(report: Report, catalogue: Catalogue) -> Report:
    """Return `report` as readers of this language see it; itself in English."""
    if not catalogue:
        return report
    say = catalogue.say
    assembled = dict(report.assembled)
    if isinstance(assembled.get("message"), str):
        assembled["message"] = say(assembled["message"])
    isolation = dict(report.isolation)
    if isinstance(isolation.get("layers"), list | tuple):
        isolation["layers"] = [say(str(layer)) for layer in isolation["layers"]]
    return replace(
        report,
        isolation=isolation,
        parts={name: part_in_language(part, catalogue) for name, part in report.parts.items()},
        warnings=tuple(map(say, report.warnings)),
        repairs=tuple(map(say, report.repairs)),
        assembled=assembled,
        error=say(report.error),
    )


def part_in_language(part: PartResult, catalogue: Catalogue) -> PartResult:
    """Return a part and its checks in this language; itself in English."""
    if not catalogue:
        return part
    checks = tuple(_check(check, catalogue) for check in part.checks)
    return replace(part, diagnosis=catalogue.say(part.diagnosis), checks=checks)


def ladder_in_language(ladder: Ladder, catalogue: Catalogue) -> Ladder:
    """Return hints in this language."""
    if not catalogue:
        return ladder
    say = catalogue.say
    return replace(ladder, title=say(ladder.title), rungs=tuple(map(say, ladder.rungs)))


def marks_in_language(catalogue: Catalogue) -> Mapping[Verdict, Mark]:
    """Return the marks of the verdicts with their words in this language."""
    if not catalogue:
        return MARKS
    return {verdict: replace(mark, word=catalogue.say(mark.word)) for verdict, mark in MARKS.items()}


def exhibit_in_language(item: Evidence, catalogue: Catalogue) -> Evidence:
    """Return an exhibit in this language; source lines stay, and so do numbers."""
    if not catalogue:
        return item
    say = catalogue.say
    data: dict[str, Any] = dict(item.data)
    for key in ("row_label", "column_label"):
        if isinstance(data.get(key), str):
            data[key] = say(data[key])
    if item.kind == "text" and isinstance(data.get("text"), str):
        data["text"] = say(data["text"])
    if isinstance(data.get("columns"), list):
        data["columns"] = [_cell(cell, catalogue) for cell in data["columns"]]
    if item.kind in ("numbers", "table", "bars") and isinstance(data.get("rows"), list):
        data["rows"] = [[_cell(cell, catalogue) for cell in row] for row in data["rows"]]
    return replace(item, title=say(item.title), data=data)


def _cell(cell: object, catalogue: Catalogue) -> object:
    return catalogue.say(cell) if isinstance(cell, str) else cell


def _check(check: CheckResult, catalogue: Catalogue) -> CheckResult:
    say = catalogue.say
    return replace(
        check,
        title=say(check.title),
        message=say(check.message),
        look_at=say(check.look_at),
        evidence=tuple(exhibit_in_language(item, catalogue) for item in check.evidence),
    )
