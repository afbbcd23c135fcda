"""Grades folders with whatever kit is on the path: `python grade_cases.py SEED FOLDER ...` prints a JSON table.

Run once with the checkout and once with a student kit on PYTHONPATH, it shows whether both say the same.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from autograder.grading import grade
from autograder.sandbox import Nursery
from autograder.submission import read_submission
from autograder.track import load_track


def table(seed: int, folders: Sequence[str], nursery: Nursery) -> dict[str, Any]:
    """Return, for each folder, what its report says, but for exhibits."""
    track, said = load_track("gpt"), {}
    for folder in folders:
        report = grade(read_submission(Path(folder), track, "ada"), track, nursery, seed=seed)
        said[folder] = {
            "score": report.score,
            "verdict": report.verdict,
            "whole": report.assembled.get("message"),
            "warnings": list(report.warnings),
            "checks": {
                check.id: [check.verdict, check.points, check.message, check.look_at]
                for part in report.parts.values()
                for check in part.checks
            },
        }
    return said


if __name__ == "__main__":
    with Nursery() as warm:
        print(json.dumps(table(int(sys.argv[1]), sys.argv[2:], warm)))
