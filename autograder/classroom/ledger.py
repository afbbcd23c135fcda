"""The ledger: every result that was ever found in an output folder, and which of them need not be found again.

A result stands under what it depends on: the submission (its digest, and what intake said about it), the course, the
kit version and the limits; and its seed. The current result of a student is the newest that is not `ungradable`.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
import threading
from collections.abc import Callable
from dataclasses import asdict, astuple, dataclass, field, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from autograder import __version__
from autograder.classroom.kit_code import kit_code
from autograder.classroom.ledger_file import FILE, LedgerError, open_ledger, telling
from autograder.track import Track
from autograder.verdict import Report, Verdict

if TYPE_CHECKING:
    from autograder.sandbox import Limits
    from autograder.submission import Submission

__all__ = ["Key", "Ledger", "LedgerError", "Result", "Run", "Terms"]

Kind = Literal["grade", "regrade"]


@dataclass(frozen=True)
class Terms:
    """What all results of a run share, beside the seed."""

    track: str
    course: str  # SHA-256 of the track's content
    kit_version: str
    kit_code: str  # SHA-256 of the grading code
    limits: str  # JSON

    @classmethod
    def of(cls, track: Track, limits: Limits) -> Terms:
        """Return the terms of grading against `track` within `limits`, by this kit."""
        course = json.dumps(asdict(track), sort_keys=False)  # the order of checks is part of the course
        return cls(track.name, _sha(course), __version__, kit_code(), json.dumps(asdict(limits), sort_keys=True))


@dataclass(frozen=True)
class Key:
    """Which submission a result is about."""

    digest: str = ""
    intake: str = ""

    @classmethod
    def of(cls, submission: Submission) -> Key:
        """Return the key of `submission`: two that differ only in what was left out, or refused, differ in `intake`."""
        said = [submission.problem, submission.verdict, submission.warnings, submission.suspicious]
        return cls(submission.digest, _sha(json.dumps(said)))


@dataclass(frozen=True)
class Result:
    """One row of the ledger."""

    id: int
    run: int
    key: Key
    terms: Terms
    seed: int
    seed_policy: str  # given or drawn
    graded: str  # UTC, ISO 8601
    copy_of: int | None
    report: Report


class Ledger:
    """The ledger of one folder, held alone until it is closed. All methods raise LedgerError with a sentence."""

    def __init__(self, folder: Path, *, to_read: bool = False) -> None:
        self._path = folder / FILE
        self._connection = open_ledger(folder, to_read=to_read)
        self._turn = threading.Lock()

    def __enter__(self) -> Ledger:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the folder. The WAL is folded in: one file stays."""
        with self._turn, telling(self._path):
            self._connection.close()

    def begin(
        self,
        terms: Terms,
        source: Path,
        *,
        seed: int | None,
        draw: Callable[[], int],
        anew: bool = False,
        kind: Kind = "grade",
        isolated_only: bool = False,
    ) -> Run:
        """Go on with the unfinished run over `source` on these terms, or begin one.

        Without `seed`, a run that goes on keeps its seed, and a new one calls `draw`. With `anew` a new run begins
        in any case, and results of earlier ones do not count in it. With `isolated_only` a result that was found
        without isolation is not recalled: hostile code may have written it.
        """
        place = _text(str(source.resolve()))
        last = self._rows("SELECT * FROM runs WHERE source = ? ORDER BY id DESC LIMIT 1", place)
        if last and last[0]["finished"] is None and last[0]["kind"] == kind and (not anew or kind == "regrade"):
            row = last[0]
            if _terms(row) == terms and seed in (None, int(row["seed"])):
                anew = bool(row["anew"])
                return Run(self, row["id"], terms, int(row["seed"]), row["seed_policy"], anew, True, isolated_only)
        policy, drawn = ("drawn", draw()) if seed is None else ("given", seed)
        number = self._write(
            "INSERT INTO runs (kind, source, track, course, kit_version, kit_code, limits, seed, seed_policy, anew,"
            " started) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            *(kind, place, *astuple(terms), str(drawn), policy, int(anew), _now()),
        )
        return Run(self, number, terms, drawn, policy, anew, False, isolated_only)

    def students(self) -> list[str]:
        """Return the ids of all students with a result, sorted."""
        return [row["student"] for row in self._rows("SELECT DISTINCT student FROM results ORDER BY student")]

    def history(self, student: str) -> list[Result]:
        """Return all results of a student, oldest first."""
        return [_result(row) for row in self._rows("SELECT * FROM results WHERE student = ? ORDER BY id", student)]

    def current(self, student: str, *, before: int | None = None) -> Result | None:
        """Return the result that counts: the newest one that is not our failure. `before`: only of runs before it."""
        rows = self._rows(
            "SELECT * FROM results WHERE student = ? AND verdict <> ? AND (? IS NULL OR run < ?)"
            " ORDER BY id DESC LIMIT 1",
            *(_text(student), Verdict.UNGRADABLE.value, before, before),
        )
        return _result(rows[0]) if rows else None

    def _rows(self, query: str, *values: object) -> list[sqlite3.Row]:
        with self._turn, telling(self._path):
            cursor = self._connection.cursor()
            cursor.row_factory = sqlite3.Row
            return cursor.execute(query, values).fetchall()

    def _write(self, statement: str, *values: object) -> int:
        """Run one statement; when this returns, it is on the disk. Returns the id of a row that was inserted."""
        with self._turn, telling(self._path):
            return self._connection.execute(statement, values).lastrowid or 0


@dataclass
class Run:
    """One run of `workshop grade`, kept by `number` in the ledger until all its submissions were tried."""

    ledger: Ledger
    number: int
    terms: Terms
    seed: int
    seed_policy: str
    anew: bool
    goes_on: bool  # it began earlier, and was killed or interrupted
    isolated_only: bool = False
    recalled: set[str] = field(default_factory=set)  # students reported from an earlier run, or an earlier part of this
    _keys: dict[str, Key] = field(default_factory=dict)

    def recall(self, submission: Submission) -> Report | None:
        """Return the report that is there already for this submission on the run's terms; for any thread.

        A result under another seed will do, unless the seed was given. Our own failures never do.
        """
        student, key = submission.student, Key.of(submission)
        self._keys[student] = key
        rows = self.ledger._rows(
            "SELECT * FROM results WHERE student = ? AND digest = ? AND intake = ?"
            " AND track = ? AND course = ? AND kit_version = ? AND kit_code = ? AND limits = ?"
            " AND verdict <> ? AND (? OR seed = ?) AND (NOT ? OR run = ?) ORDER BY id DESC LIMIT 1",
            *(_text(student), *astuple(key), *astuple(self.terms), Verdict.UNGRADABLE.value),
            *(self.seed_policy == "drawn", str(self.seed), self.anew, self.number),
        )
        if not rows:
            return None
        found = _result(rows[0])
        if self.isolated_only and not found.report.isolation.get("isolated"):
            return None
        newest = self.ledger.current(student)
        if newest is not None and newest.id != found.id:
            self._insert(found.report, key, found.seed_policy, copy_of=found.id)
        self.recalled.add(student)
        return found.report

    def record(self, report: Report) -> Report:
        """Keep a result, on the disk when this returns; return it as it will be read back, so that both print alike.

        What `recall` gave is there already. In a run that goes on, a second try takes the place of our failure.
        """
        if report.student in self.recalled:
            return report
        text = self._insert(report, self._keys.pop(report.student, Key()), self.seed_policy)
        return Report.from_json(json.loads(text))

    def earlier(self, student: str) -> Result | None:
        """Return the result that counted before this run."""
        return self.ledger.current(student, before=self.number)

    def finish(self) -> None:
        """Say that every submission was tried. A run that found nothing new leaves no trace."""
        self.ledger._write("UPDATE runs SET finished = ? WHERE id = ?", _now(), self.number)
        self.ledger._write(
            "DELETE FROM runs WHERE id = ? AND NOT EXISTS (SELECT 1 FROM results WHERE run = runs.id)", self.number
        )

    def _insert(self, report: Report, key: Key, policy: str, copy_of: int | None = None) -> str:
        text = json.dumps(report.to_json(), separators=(",", ":"))
        self.ledger._write(
            "INSERT OR REPLACE INTO results (run, student, digest, intake, track, course, kit_version, kit_code,"
            " limits, seed, seed_policy, verdict, score, max_score, graded, copy_of, report)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            *(self.number, _text(report.student), *astuple(key), *astuple(self.terms), str(report.seed), policy),
            *(report.verdict.value, report.score, report.max_score, _now(), copy_of, text),
        )
        return text


def _result(row: sqlite3.Row) -> Result:
    return Result(
        id=row["id"],
        run=row["run"],
        key=Key(row["digest"], row["intake"]),
        terms=_terms(row),
        seed=int(row["seed"]),
        seed_policy=row["seed_policy"],
        graded=row["graded"],
        copy_of=row["copy_of"],
        report=Report.from_json(json.loads(row["report"])),
    )


def _terms(row: sqlite3.Row) -> Terms:
    return Terms(*(row[entry.name] for entry in fields(Terms)))


def _text(text: str) -> str:
    """Return what SQLite can hold: names on a disk may carry bytes that are no text."""
    return text.encode("utf-8", "backslashreplace").decode()


def _sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
