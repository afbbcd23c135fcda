"""Submissions made from our own solutions by small changes of their text, and what tests ask of a report."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from autograder.verdict import CheckResult, Report, Verdict

SOLUTIONS = Path(__file__).parents[1] / "solutions"
FILES = ("config.py", "attention.py", "mlp.py", "block.py", "gpt.py")


def solutions() -> dict[str, str]:
    """Return the five files of the reference: name -> text."""
    return {name: (SOLUTIONS / name).read_text(encoding="utf-8") for name in FILES}


def changed(file: str, find: str, replace: str) -> dict[str, str]:
    """Return the solutions with one passage of one file replaced. A passage that is not there once is a bad test."""
    files = solutions()
    assert files[file].count(find) == 1, f"{find!r} occurs {files[file].count(find)} times in {file}"
    return {**files, file: files[file].replace(find, replace)}


def single_file(files: Mapping[str, str] | None = None) -> str:
    """Return the five classes as one model.py: the files in order, without the imports of each other."""
    texts = files or solutions()
    between = re.compile(r"^from (?:attention|mlp|block) import .*\n", re.MULTILINE)
    return "\n\n".join(between.sub("", texts[name]) for name in FILES)


def write(folder: Path, files: Mapping[str, str | bytes]) -> Path:
    """Write files below `folder`, which is made, and return it."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return folder


def line_of(text: str, fragment: str) -> int:
    """Return the number of the one line that holds `fragment`, counted from 1."""
    (number,) = (number for number, line in enumerate(text.splitlines(), 1) if fragment in line)
    return number


def checks(report: Report) -> dict[str, CheckResult]:
    """Return every check of a report by its id."""
    return {check.id: check for part in report.parts.values() for check in part.checks}


def rejecting(report: Report) -> dict[str, str]:
    """Return the checks that found something wrong (one that was only blocked found nothing): id -> message."""
    found = checks(report).values()
    return {check.id: check.message for check in found if check.verdict not in (Verdict.PASSED, Verdict.BLOCKED)}


def losing(report: Report) -> list[str]:
    """Return the parts that lost a point."""
    return [name for name, part in report.parts.items() if part.score < part.max_score]
