"""Grade some parts of every submission of a class, one after another, in one warm sandbox: as `workshop grade` does.

    python benchmarks/grade_parts.py CLASS PART...

`workshop grade` itself always grades all parts; this is for comparing the cost of one with what others need for it.
"""

from __future__ import annotations

import sys
from pathlib import Path


def main(folder: str, *parts: str) -> None:
    """Grade; exit with 1 when a submission does not get all the points of these parts."""
    from autograder.sandbox import Limits, Nursery
    from autograder.submission import find_submissions, read_submission
    from autograder.track import load_track

    track, limits = load_track("gpt"), Limits()
    with Nursery(limits) as nursery:
        from autograder.grading import grade

        for student, path in find_submissions(Path(folder), track):
            submission = read_submission(path, track, student)
            report = grade(submission, track, nursery, seed=1, limits=limits, parts=list(parts))
            if report.score != report.max_score:
                sys.exit(f"{student} got {report.score:g} of {report.max_score:g}: {report.error}")


if __name__ == "__main__":
    main(*sys.argv[1:])
