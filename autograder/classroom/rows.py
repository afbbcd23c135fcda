"""What a class table needs of each report, in little memory: the ledger is the store, and keeps the rest."""

from __future__ import annotations

import json
from collections.abc import Hashable
from dataclasses import replace
from typing import Any, TypeVar

from autograder.verdict import CheckResult, PartResult, Report

_T = TypeVar("_T", bound=Hashable)


class Rows:
    """Makes rows: reports without what only a student's own page shows; what is equal among them is held once.

    Most checks come out for most students in one of a few ways. A row so takes some 3 kB where a report takes 100.
    """

    def __init__(self) -> None:
        self._held: dict[Any, Any] = {}

    def row(self, report: Report) -> Report:
        """Return `report` without evidence, advice, modules, and what was found about the whole model."""
        isolation: dict[str, Any] = self._held.setdefault(
            json.dumps(report.isolation, sort_keys=True), report.isolation
        )
        return replace(
            report,
            isolation=isolation,
            parts={self._one(name): self._part(part) for name, part in report.parts.items()},
            warnings=tuple(self._one(warning) for warning in report.warnings),
            files={self._one(path): digest for path, digest in report.files.items()},
            assembled={},
            modules={},
        )

    def _part(self, part: PartResult) -> PartResult:
        row = replace(part, checks=tuple(self._check(check) for check in part.checks))
        return self._one(row, type(part.score), type(part.max_score))  # 5 and 5.0 are equal, but not in JSON

    def _check(self, check: CheckResult) -> CheckResult:
        return self._one(replace(check, look_at="", evidence=()), type(check.points), type(check.max_points))

    def _one(self, value: _T, *kinds: type) -> _T:
        """Return the first of all that are equal to `value`, and of the same `kinds`."""
        found: _T = self._held.setdefault((value, *kinds), value)
        return found
