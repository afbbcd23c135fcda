"""Stand-ins for the grading core, so that reports, class grading and commands are tested without running a model.

A student is a folder that holds `behave.txt` with one word: pass, fail, forbid, ours, raise, wait, or stay (until the
sandbox is closed). `install()` puts the stand-ins where the real modules are imported from.
"""

from __future__ import annotations

import hashlib
import sys
import threading
import types
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from sample_reports import NO_SCALE, report, ungradable

import autograder
from autograder.verdict import Report, Verdict

log: list[str] = []
gate = threading.Event()


@dataclass(frozen=True)
class Limits:
    wall_s: float = 10.0
    cpu_s: int = 120
    memory_mb: int = 4096


@dataclass(frozen=True)
class Isolation:
    isolated: bool = True
    layers: tuple[str, ...] = ("glass",)


class IntakeError(Exception):
    pass


class Nursery:
    made = 0
    broken = False
    isolation = Isolation()

    def __init__(self, limits: Limits) -> None:
        self.limits, self.closed, self.started = limits, threading.Event(), False
        Nursery.made += 1

    def __enter__(self) -> Nursery:
        return self

    def __exit__(self, *_: object) -> None:
        self.closed.set()

    def start(self) -> None:
        if Nursery.broken:
            raise OSError("no processes left")
        self.started = True
        log.append("nursery started")


@dataclass(frozen=True)
class Submission:
    student: str
    behaviour: str
    files: dict[str, str] = field(default_factory=dict)
    problem: str = ""
    verdict: Verdict | None = None
    warnings: tuple[str, ...] = ()
    suspicious: tuple[str, ...] = ()

    @property
    def digest(self) -> str:
        return hashlib.sha256(repr(sorted(self.files.items())).encode()).hexdigest()


def find_submissions(path: Path, track: object) -> list[tuple[str, Path]]:
    if not path.exists():
        raise IntakeError(f"{path} is not there.")
    if (path / "behave.txt").exists():
        return [(path.name, path)]
    return [(entry.name, entry) for entry in sorted(path.iterdir()) if entry.is_dir()]


def read_submission(path: Path, track: object, student: str | None = None) -> Submission:
    data = (path / "behave.txt").read_bytes()
    files = {"behave.txt": hashlib.sha256(data).hexdigest()}
    return Submission(student or path.name, data.decode().strip(), files)


def grade(submission: Submission, track: object, nursery: Nursery, **how: Any) -> Report:
    """Return a sample report, as of the sandbox that it was given."""
    apart = nursery.isolation
    isolation = {"level": "glass" if apart.isolated else "none", "isolated": apart.isolated, "layers": [*apart.layers]}
    return replace(_graded(submission, nursery, **how), isolation=isolation)


def _graded(
    submission: Submission,
    nursery: Nursery,
    *,
    seed: int,
    limits: Limits,
    parts: object = None,
    at_once: bool = False,
    memory: object = None,
) -> Report:
    assert nursery.started and not nursery.closed.is_set()
    log.append(f"grade {submission.student} seed {seed} limits {limits.wall_s:g}/{limits.memory_mb} parts {parts}")
    files = submission.files
    match submission.behaviour:
        case "fail":
            return report(submission.student, NO_SCALE, seed=seed, files=files)
        case "forbid":
            cheat = report(submission.student, seed=seed, files=files)
            return replace(cheat, verdict=Verdict.FORBIDDEN, error="It cheats.")
        case "ours":
            return replace(ungradable(submission.student), seed=seed, files=files)
        case "raise":
            raise RuntimeError("the oracle lost its crystal ball")
        case "interrupt":
            raise KeyboardInterrupt
        case "wait":
            gate.wait(30)
        case "stay":
            nursery.closed.wait(30)
    return report(submission.student, seed=seed, files=files)


def install(modules: dict[str, types.ModuleType] | None = None) -> dict[str, types.ModuleType]:
    """Put the stand-ins into `sys.modules` (or hand them back for monkeypatching)."""
    sandbox = types.ModuleType("autograder.sandbox")
    rooms = Path(autograder.__file__).parent
    sandbox.__dict__.update(Nursery=Nursery, Limits=Limits)
    intake = types.ModuleType("autograder.submission")
    intake.__dict__.update(IntakeError=IntakeError, find_submissions=find_submissions, read_submission=read_submission)
    intake.__path__ = [str(rooms / "submission")]  # its other modules are the real ones
    grading = types.ModuleType("autograder.grading")

    def heavy(name: str) -> object:
        if name != "grade":
            raise AttributeError(name)
        log.append("grading imported")
        return grade

    grading.__dict__["__getattr__"] = heavy
    memory = types.ModuleType("autograder.oracle.memory")
    memory.__dict__["Memory"] = lambda seed: seed
    made = {module.__name__: module for module in (sandbox, intake, grading, memory)}
    (sys.modules if modules is None else modules).update(made)
    return made


def submit(folder: Path, **behaviours: str) -> Path:
    """Make a class folder with a student for each keyword, and return it."""
    for student, behaviour in behaviours.items():
        (folder / student).mkdir(parents=True)
        (folder / student / "behave.txt").write_text(behaviour, encoding="utf-8")
    return folder
