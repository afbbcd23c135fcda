"""Preloaded by the workers of a test's cluster: sandboxes and grading that take no time and no torch.

What a submission does stands in the first line of its model.py: `# pass`, `# fail`, `# raise`, `# exposed`,
`# die MARKER` (kill the process that grades it, unless the file MARKER is there) or `# die` (every time).
"""

from __future__ import annotations

import os
import signal
import sys
import types
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sample_reports import NO_SCALE, report

from autograder.sandbox import Isolation, Limits
from autograder.submission import Submission
from autograder.verdict import Report

APART = Isolation("glass", True, ("glass",))


class Nursery:
    """Counts the sandboxes that are open."""

    open: list[Nursery] = []  # noqa: RUF012 (of this process)
    isolation = APART

    def __init__(self, limits: Limits) -> None:
        self.limits, self.started = limits, False
        Nursery.open.append(self)

    def start(self) -> Nursery:
        self.started = True
        return self

    def close(self) -> None:
        if self in Nursery.open:
            Nursery.open.remove(self)

    def __enter__(self) -> Nursery:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()


def grade(
    submission: Submission, track: object, nursery: Nursery, *, seed: int, limits: Limits, memory: object
) -> Report:
    assert nursery.started and nursery in Nursery.open and nursery.limits == limits
    word, *more = submission.tree["model.py"].decode().splitlines()[0].split()[1:]
    match word:
        case "raise":
            raise RuntimeError("the oracle lost its crystal ball")
        case "die":
            if not more or not Path(more[0]).exists():
                Path(*more[:1] or ["/dev/null"]).touch()
                os.kill(os.getpid(), signal.SIGKILL)
    sample = report(submission.student, *([NO_SCALE] if word == "fail" else []), seed=seed, files=submission.files)
    return replace(sample, isolation=nursery.isolation.to_json())


def install(patch: pytest.MonkeyPatch) -> None:
    """Put the stand-ins in place of the real ones, for both engines."""
    import autograder.classroom.worker
    import autograder.sandbox

    grading = types.ModuleType("autograder.grading")
    grading.__dict__["grade"] = grade
    patch.setitem(sys.modules, "autograder.grading", grading)
    patch.setattr(autograder.sandbox, "Nursery", Nursery)
    patch.setattr(autograder.classroom.worker, "Nursery", Nursery)


def submit(folder: Path, **words: Any) -> Path:
    """Make a class folder with a student for each keyword, and return it."""
    for student, word in words.items():
        (folder / student).mkdir(parents=True)
        (folder / student / "model.py").write_text(f"# {word}\n", encoding="utf-8")
    return folder


def dask_setup(worker: object) -> None:
    """Begin in a worker process, where nothing needs to be undone."""
    install(pytest.MonkeyPatch())
