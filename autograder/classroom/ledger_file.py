"""The file behind the ledger: its schema, its lock, and what is said when it cannot be used.

SQLite in WAL mode and with `synchronous = FULL`: a result is on the disk when its commit returns, and a commit that a
kill or a power cut tears is as if it had never begun. `locking_mode = EXCLUSIVE` makes SQLite's own lock, which dies
with its process, the lock on the whole folder; it also keeps the WAL's index out of shared memory, which network
file systems do not have.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from pathlib import Path

FILE = "ledger.sqlite3"
#: Grows by one when a table changes. Written to `user_version`.
SCHEMA = 1
#: "GPTw" in ASCII: tells a ledger from any other SQLite file.
_APPLICATION = 0x47505477
#: Seconds that somebody who only reads waits for another reader to end; a grading run is not waited for.
_PATIENCE = 2.0

# Seeds are text: `--seed` takes numbers beyond 64 bits. Times are UTC, and stand nowhere but here.
_TABLES = """
CREATE TABLE runs (
    id INTEGER PRIMARY KEY,
    kind TEXT NOT NULL,            -- grade or regrade
    source TEXT NOT NULL,          -- the folder of submissions
    track TEXT NOT NULL,
    course TEXT NOT NULL,          -- SHA-256 of the track's content: its points may be edited
    kit_version TEXT NOT NULL,
    kit_code TEXT NOT NULL,        -- SHA-256 of the grading code: it may change within a version
    limits TEXT NOT NULL,          -- JSON
    seed TEXT NOT NULL,
    seed_policy TEXT NOT NULL,     -- given or drawn
    anew INTEGER NOT NULL,         -- 1: results of other runs do not count
    started TEXT NOT NULL,
    finished TEXT                  -- NULL while it runs, and for ever when it was killed
);
CREATE TABLE results (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    run INTEGER NOT NULL REFERENCES runs (id),
    student TEXT NOT NULL,
    digest TEXT NOT NULL,          -- Submission.digest; empty when it could not be read
    intake TEXT NOT NULL,          -- SHA-256 of what intake said about it
    track TEXT NOT NULL,
    course TEXT NOT NULL,
    kit_version TEXT NOT NULL,
    kit_code TEXT NOT NULL,
    limits TEXT NOT NULL,
    seed TEXT NOT NULL,
    seed_policy TEXT NOT NULL,
    verdict TEXT NOT NULL,
    score REAL NOT NULL,
    max_score REAL NOT NULL,
    graded TEXT NOT NULL,
    copy_of INTEGER,               -- an older result that counts again: the student went back to earlier files
    report TEXT NOT NULL,          -- JSON, Report.to_json
    UNIQUE (run, student, digest, intake)
);
CREATE INDEX results_of_student ON results (student, id);
"""


class LedgerError(Exception):
    """The ledger cannot be used; the text says why and what to do."""


def open_ledger(folder: Path, *, to_read: bool = False) -> sqlite3.Connection:
    """Return a connection that alone holds the ledger in `folder`, made when it is not there (unless `to_read`).

    The connection commits each statement by itself, and may be used from several threads one at a time. Raises
    LedgerError; a file that is damaged, foreign or of a newer kit is left as it is.
    """
    path = folder / FILE
    if to_read and not path.exists():
        raise LedgerError(f"There is no {FILE} in {folder}: name the --out folder of an earlier `workshop grade`.")
    if to_read and not os.access(folder, os.W_OK, effective_ids=os.access in os.supports_effective_ids):
        return _open_copy(path)
    fresh = not path.exists()
    with telling(path):
        connection = sqlite3.connect(
            path, timeout=_PATIENCE if to_read else 0.0, isolation_level=None, check_same_thread=False
        )
        try:
            _prepare(connection, path)
        except BaseException:
            connection.close()
            raise
    if fresh:
        _sync_folder(folder)
    return connection


@contextlib.contextmanager
def telling(path: Path) -> Iterator[None]:
    """Turn what SQLite raises into a LedgerError with a sentence."""
    try:
        yield
    except sqlite3.Error as error:
        raise LedgerError(_sentence(path, error)) from error


def _sentence(path: Path, error: sqlite3.Error) -> str:
    name = getattr(error, "sqlite_errorname", "")
    if name.startswith("SQLITE_BUSY") or name.startswith("SQLITE_LOCKED"):
        return (
            f"Another run is using {path.parent} (it holds {path.name}): wait until it has ended, "
            "or name another folder with --out."
        )
    if name.startswith("SQLITE_FULL"):
        return f"{path} cannot grow: the disk is full. All results before this one are kept; make room and run again."
    if name.startswith(("SQLITE_CANTOPEN", "SQLITE_READONLY", "SQLITE_PERM", "SQLITE_IOERR")):
        return f"{path} cannot be opened for writing ({error}): see who owns it, and its folder."
    return (
        f"{path} is damaged, or not a ledger ({error}). It was left as it is, and so were the reports beside it: "
        "put a backup in its place, or move it away to begin a new one."
    )


def _prepare(connection: sqlite3.Connection, path: Path) -> None:
    connection.execute("PRAGMA locking_mode = EXCLUSIVE")
    application, version = (connection.execute(f"PRAGMA {name}").fetchone()[0] for name in _HEADER)
    empty = not connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    if not (empty and application == version == 0):
        if application != _APPLICATION:
            raise LedgerError(f"{path} is a database, but not a ledger of this kit: move it, or name another --out.")
        if version > SCHEMA:
            raise LedgerError(
                f"{path} was written by a newer kit (its schema is {version}, this kit knows {SCHEMA}): "
                "update the kit, or name another --out."
            )
        verdict = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
        if verdict != "ok":
            raise sqlite3.DatabaseError(str(verdict).strip().replace("\n", " "))
    else:
        # The tables come before the WAL mode: SQLite throws away the WAL of a database that is still empty.
        connection.executescript(
            f"BEGIN IMMEDIATE; PRAGMA application_id = {_APPLICATION}; PRAGMA user_version = {SCHEMA};{_TABLES}COMMIT;"
        )
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA fullfsync = 1")  # macOS: its fsync leaves data in the disk's cache; elsewhere no effect
    connection.execute("BEGIN IMMEDIATE")  # takes the lock now, not at the first result
    connection.execute("COMMIT")


_HEADER = ("application_id", "user_version")


def _open_copy(path: Path) -> sqlite3.Connection:
    """Return a connection to a copy: SQLite cannot open a WAL database where it may not write."""
    with tempfile.TemporaryDirectory(prefix="workshop-") as name:
        try:
            for source in (path, path.with_name(f"{FILE}-wal")):  # the WAL is there after a kill
                if source.exists():
                    shutil.copyfile(source, Path(name) / source.name)
        except OSError as error:
            raise LedgerError(f"{path} cannot be read: {error.strerror or error}.") from error
        copy = open_ledger(Path(name))
        try:
            memory = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
            copy.backup(memory)
        finally:
            copy.close()
        return memory


def _sync_folder(folder: Path) -> None:
    """Put the new file's name on the disk: SQLite syncs what is in it."""
    if os.name != "posix":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError:  # some network file systems cannot sync a folder
        pass
    finally:
        os.close(descriptor)
