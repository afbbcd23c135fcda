"""What differs between two results of a student, and why: the checks, and what the grade depends on."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from autograder.classroom.ledger import Result
from autograder.verdict import CheckResult, Report, Verdict


@dataclass(frozen=True)
class CheckChange:
    """A check that came out otherwise. None: it was not among the checks of that result."""

    id: str
    before: Verdict | None
    after: Verdict | None


@dataclass(frozen=True)
class Change:
    """A student's result, and the one that counted before it; None: there was none."""

    before: Result | None
    after: Result

    @property
    def moved(self) -> bool:
        """Tell whether the score or any check came out otherwise (or for the first time)."""
        if self.before is None:
            return True
        same = self.before.report.score == self.after.report.score
        return not same or bool(changed_checks(self.before.report, self.after.report))


def changed_checks(before: Report, after: Report) -> list[CheckChange]:
    """Return the checks whose verdict differs, in course order; those that are no more come last."""
    old, new = _checks(before), _checks(after)
    ids = dict.fromkeys([*new, *old])
    pairs = [CheckChange(id_, _verdict(old.get(id_)), _verdict(new.get(id_))) for id_ in ids]
    return [pair for pair in pairs if pair.before is not pair.after]


def reasons(before: Result, after: Result) -> list[str]:
    """Return in what the two results differ that a grade depends on; empty when they differ in nothing of it."""
    found = _files(before.report.files, after.report.files)
    if not found and before.key != after.key:
        found = ["files changed: what is left out, or refused"]
    if before.terms.kit_version != after.terms.kit_version:
        found.append(f"kit version {before.terms.kit_version} -> {after.terms.kit_version}")
    elif before.terms.kit_code != after.terms.kit_code:
        found.append(f"kit's code changed (within version {after.terms.kit_version})")
    if (before.terms.track, before.terms.course) != (after.terms.track, after.terms.course):
        found.append("course changed (its checks or points)")
    if before.seed != after.seed:
        found.append(f"seed {before.seed} -> {after.seed}")
    found += _limits(before.terms.limits, after.terms.limits)
    levels = [str(report.isolation.get("level", "")) for report in (before.report, after.report)]
    if levels[0] != levels[1] and all(levels):
        found.append(f"isolation {levels[0]} -> {levels[1]}")
    return found


def _checks(report: Report) -> dict[str, CheckResult]:
    return {check.id: check for part in report.parts.values() for check in part.checks}


def _verdict(check: CheckResult | None) -> Verdict | None:
    return check.verdict if check is not None else None


def _files(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    names = [name for name in sorted({*before, *after}) if before.get(name) != after.get(name)]
    if not names:
        return []
    words = [name if name in before and name in after else f"{name} {_fate(name in after)}" for name in names]
    return [f"files changed: {', '.join(words[:5])}{f' and {len(words) - 5} more' if len(words) > 5 else ''}"]


def _fate(is_there: bool) -> str:
    return "(new)" if is_there else "(gone)"


def _limits(before: str, after: str) -> list[str]:
    if before == after:
        return []
    old, new = json.loads(before), json.loads(after)
    names = [name for name in sorted({*old, *new}) if old.get(name) != new.get(name)]
    words = [f"{name} {old.get(name)} -> {new.get(name)}" for name in names]
    return [f"limits changed: {', '.join(words)}"]
