"""A student's progress: one plain JSON file in the folder with their work, written whole or not at all."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import stat
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import autograder
from autograder.track import Track
from autograder.verdict import PartResult, Report, Verdict

FILE_NAME = ".workshop-progress.json"
SCHEMA = 1
#: A hundred times what a course needs; a larger file is not ours.
_MAX_BYTES = 1_000_000
#: What is kept of a part's messages: enough to choose a hint by.
_MAX_WRONG, _MAX_MESSAGE = 12, 300
_MAX_POINTS = 1e6  # no course is worth more


@dataclass(frozen=True)
class PartProgress:
    """How far one part has come. Points never go down; `verdict` is that of the last check (None: not checked)."""

    points: float = 0.0  # the best so far
    attempts: int = 0  # checks of work that differs from the one before; an untouched stub is none
    verdict: Verdict | None = None
    first_passed: str = ""  # UTC, "2026-03-01T12:00:00Z"
    hints: dict[str, tuple[int, ...]] = field(default_factory=dict)  # topic -> rungs that were read, from 1
    work: str = ""  # SHA-256 of the work at the last check
    wrong: dict[str, str] = field(default_factory=dict)  # check id -> message, at the last check; hostile text

    @property
    def hints_used(self) -> int:
        return sum(len(rungs) for rungs in self.hints.values())


@dataclass(frozen=True)
class Progress:
    """The parts of one track by name; those never checked are not in it."""

    parts: dict[str, PartProgress] = field(default_factory=dict)

    def part(self, name: str) -> PartProgress:
        """Return how far part `name` has come, also when nothing is known of it."""
        return self.parts.get(name, PartProgress())

    def passed(self, name: str) -> bool:
        """Tell whether the last check of part `name` passed."""
        return self.part(name).verdict is Verdict.PASSED

    def current(self, track: Track) -> str:
        """Return the first part of `track` that is not passed, then an optional one that was begun, or its last."""
        open_parts = [part.name for part in track.parts if not self.passed(part.name)]
        calm = (None, Verdict.NOT_ATTEMPTED, Verdict.PASSED)
        begun = [part.name for part in track.optional if self.part(part.name).verdict not in calm]
        return [*open_parts, *begun, track.parts[-1].name][0]

    def with_report(self, report: Report, now: datetime | None = None) -> Progress:
        """Return the progress after `report`. Our own failures change nothing."""
        when = f"{now or datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
        parts = dict(self.parts)
        for name, result in report.parts.items():
            if result.verdict is not Verdict.UNGRADABLE:
                parts[name] = _after(self.part(name), result, _work(report, result), when)
        return Progress(parts)

    def with_hint(self, name: str, topic: str, rung: int) -> Progress:
        """Return the progress after rung `rung` of a topic's hints was read."""
        before = self.part(name)
        rungs = tuple(sorted({*before.hints.get(topic, ()), rung}))
        return Progress({**self.parts, name: replace(before, hints={**before.hints, topic: rungs})})

    def with_reset(self, name: str) -> Progress:
        """Return the progress after the stub of part `name` was put back: what was reached is not forgotten."""
        return Progress({**self.parts, name: replace(self.part(name), verdict=None, work="", wrong={})})


def holds_work(folder: Path, track: Track) -> bool:
    """Tell whether `folder` holds a file that the track names: progress is kept there, and nowhere else."""
    names = (track.single_file, *(part.file for part in track.every))
    return folder.is_dir() and any((folder / name).is_file() for name in names)


class ProgressError(Exception):
    """The progress cannot be kept: no folder to write to, or a file of a newer kit. A sentence for people."""


class ProgressFile:
    """The progress file of one folder, for one track. `notices` holds sentences about what was found damaged."""

    def __init__(self, folder: Path, track: str) -> None:
        self.path = folder / FILE_NAME
        self.notices: list[str] = []
        self._track = track

    def read(self) -> Progress:
        """Return what the file says; an empty progress when there is none. Raises ProgressError."""
        return _progress(self._load().get(self._track, {}))

    def update(self, change: Callable[[Progress], Progress]) -> Progress:
        """Read, apply `change`, write; return what was written. Two programs at once lose nothing.

        Raises ProgressError when it cannot be written; then the file is as it was.
        """
        try:
            with _locked(self.path.parent):
                tracks = self._load()
                after = change(_progress(tracks.get(self._track, {})))
                self._write({**tracks, self._track: _to_json(after)})
        except OSError as error:
            reason = error.strerror or type(error).__name__
            raise ProgressError(f"Your progress is not noted: {self.path} cannot be written ({reason}).") from error
        return after

    def _load(self) -> dict[str, Any]:
        """Return track -> part -> fields. What is damaged is moved aside and told."""
        try:
            if not stat.S_ISREG(os.lstat(self.path).st_mode):  # a pipe would be waited for, a link leads elsewhere
                raise ProgressError(f"Your progress is not noted: {self.path} is not a plain file. Remove it.")
            with self.path.open("rb") as stream:
                text = stream.read(_MAX_BYTES + 1)
        except FileNotFoundError:
            return {}
        except OSError as error:
            reason = error.strerror or type(error).__name__
            raise ProgressError(f"Your progress cannot be read: {self.path} ({reason}).") from error
        try:
            data = json.loads(text) if len(text) <= _MAX_BYTES else None
        except (ValueError, RecursionError):
            data = None
        schema = data.get("schema") if isinstance(data, dict) else None
        if isinstance(schema, int) and schema > SCHEMA:
            raise ProgressError(
                f"Your progress is left as it is: {self.path} is of a newer kit. Use that, or move the file away."
            )
        if not isinstance(data, dict) or schema != SCHEMA or not isinstance(data.get("tracks"), dict):
            self._move_aside()
            return {}
        return {name: parts for name, parts in data["tracks"].items() if isinstance(parts, dict)}

    def _move_aside(self) -> None:
        number = 1
        while os.path.lexists(kept := self.path.with_name(f".workshop-progress.damaged-{number}.json")):
            number += 1
        try:
            self.path.rename(kept)
        except OSError as error:
            reason = error.strerror or type(error).__name__
            raise ProgressError(f"{self.path} is damaged and cannot be moved away ({reason}). Remove it.") from error
        self.notices.append(f"The progress file was damaged: it is kept as {kept.name}, and a new one begins.")

    def _write(self, tracks: Mapping[str, Any]) -> None:
        note = "Kept by the workshop command: what you have reached. It need not be handed in."
        kept = {"schema": SCHEMA, "note": note, "kit": autograder.__version__, "tracks": tracks}
        text = json.dumps(kept, indent=1, ensure_ascii=True) + "\n"
        descriptor, name = tempfile.mkstemp(prefix=".workshop-progress.", suffix=".tmp", dir=self.path.parent)
        new = Path(name)
        try:
            with os.fdopen(descriptor, "w", encoding="ascii", newline="\n") as stream:
                stream.write(text)
                stream.flush()
                os.fsync(stream.fileno())
            new.chmod(0o644)  # like any file of the folder: mkstemp makes it private
            new.replace(self.path)
        except BaseException:
            with contextlib.suppress(OSError):
                new.unlink()
            raise


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold the folder's lock, where there is such a thing: `check` may run beside `watch`."""
    try:
        import fcntl
    except ImportError:  # Windows: writes are still whole
        yield
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):  # some network disks have no locks
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _work(report: Report, result: PartResult) -> str:
    """Return the hash of the file that a part is graded from, or of all files together where that is not known."""
    file = report.modules.get(result.title, "")
    known = report.files.get(file)
    return known or hashlib.sha256(" ".join(sorted(report.files.values())).encode()).hexdigest()


def _after(before: PartProgress, result: PartResult, work: str, when: str) -> PartProgress:
    passed = result.verdict is Verdict.PASSED
    tried = result.verdict is not Verdict.NOT_ATTEMPTED and (work != before.work or not before.attempts)
    calm = (Verdict.PASSED, Verdict.BLOCKED, Verdict.NOT_ATTEMPTED)
    wrong = {check.id: check.message[:_MAX_MESSAGE] for check in result.checks if check.verdict not in calm}
    return replace(
        before,
        points=max(before.points, result.score),
        attempts=before.attempts + tried,
        verdict=result.verdict,
        first_passed=before.first_passed or (when if passed else ""),
        work=work,
        wrong=dict(list(wrong.items())[:_MAX_WRONG]),
    )


def _to_json(progress: Progress) -> dict[str, Any]:
    return {
        name: {
            "points": part.points,
            "attempts": part.attempts,
            "verdict": None if part.verdict is None else part.verdict.value,
            "first_passed": part.first_passed,
            "hints": {topic: list(rungs) for topic, rungs in part.hints.items()},
            "work": part.work,
            "wrong": part.wrong,
        }
        for name, part in progress.parts.items()
    }


def _progress(data: Mapping[str, Any]) -> Progress:
    return Progress({name: _part(fields) for name, fields in data.items() if isinstance(fields, dict)})


def _part(data: Mapping[str, Any]) -> PartProgress:
    """Read one part; a field that somebody has changed to something else counts as not there."""

    def text(key: str) -> str:
        value = data.get(key)
        return value if isinstance(value, str) else ""

    points, attempts, verdict = data.get("points"), data.get("attempts"), text("verdict")
    hints, wrong = data.get("hints"), data.get("wrong")
    return PartProgress(
        points=float(points) if isinstance(points, int | float) and 0 <= points <= _MAX_POINTS else 0.0,
        attempts=attempts if isinstance(attempts, int) and attempts >= 0 else 0,
        verdict=Verdict(verdict) if verdict in list(Verdict) else None,
        first_passed=text("first_passed"),
        hints={topic: _rungs(rungs) for topic, rungs in hints.items()} if isinstance(hints, dict) else {},
        work=text("work"),
        wrong={key: str(value)[:_MAX_MESSAGE] for key, value in wrong.items()} if isinstance(wrong, dict) else {},
    )


def _rungs(data: object) -> tuple[int, ...]:
    return tuple(rung for rung in data if rung in range(1, 10)) if isinstance(data, list) else ()
