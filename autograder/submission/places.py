"""Where something is, in the student's own words: not line 90 of a joined source, but line 2 of code cell 4."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace

from autograder.submission.explain import source_text
from autograder.submission.notebook import cell_of
from autograder.submission.tree import Submission
from autograder.verdict import CheckResult, Evidence, PartResult, Report

_LINE = re.compile(r"\bline (\d+) of ([\w.]+\.py)\b")


def in_cells(report: Report, submission: Submission) -> Report:
    """Return `report` with places in what was made from notebooks given as cells, and the file as it was handed in."""
    made = {path: source_text(submission.tree[path]).split("\n") for path in submission.lenient & set(submission.tree)}
    if not made:
        return report
    names = {path: submission.shown_as.get(path, path) for path in made}
    teller = _Teller(made, names)
    handed_in = {path: name for path, name in names.items() if name in report.files}
    return replace(
        report,
        parts={name: teller.part(part) for name, part in report.parts.items()},
        modules={name: handed_in.get(path, path) for name, path in report.modules.items()},
    )


@dataclass(frozen=True)
class _Teller:
    lines: dict[str, list[str]]  # path -> its lines
    names: dict[str, str]  # path -> what the student calls it

    def part(self, part: PartResult) -> PartResult:
        checks = tuple(self.check(check) for check in part.checks)
        return replace(part, diagnosis=self.text(part.diagnosis), checks=checks)

    def check(self, check: CheckResult) -> CheckResult:
        evidence = tuple(self.exhibit(item) for item in check.evidence)
        return replace(check, message=self.text(check.message), look_at=self.text(check.look_at), evidence=evidence)

    def text(self, text: str) -> str:
        text = _LINE.sub(lambda found: self.place(found[2], int(found[1]), found[0]), text)
        for path, name in self.names.items():
            if name != path:
                text = re.sub(rf"(?<![\w./-]){re.escape(path)}(?![\w-])", _as_it_is(name), text)
        return text

    def place(self, path: str, line: int, otherwise: str) -> str:
        found = cell_of(self.lines[path], line) if path in self.lines else ""
        return found if " of " in found else otherwise

    def exhibit(self, item: Evidence) -> Evidence:
        path, line = item.data.get("file"), item.data.get("line")
        if item.kind != "code" or path not in self.lines or not isinstance(line, int):
            return item
        number, _, cell = cell_of(self.lines[path], line).removeprefix("line ").partition(" of ")
        if not cell:
            return replace(item, data={**item.data, "file": self.names[path]})
        return replace(item, data={**item.data, "file": cell, "line": int(number)})


def _as_it_is(name: str) -> Callable[[re.Match[str]], str]:
    return lambda _: name  # a backslash in a name means nothing
