"""Attacks from outside that are stopped: damaged uploads, and processes that would outlive a grader that was killed."""

from __future__ import annotations

import io
import json
import os
import random
import signal
import subprocess
import sys
import tarfile
import time
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from submission_samples import TRACK

from autograder.submission import read_submission, write_tree
from autograder.verdict import Verdict

SOURCE = b"class GPTConfig:\n    n_embd: int = 384\n"
NAMES = (
    *("model.py", "a/model.py", "MODEL.PY", "../model.py", "/abs/model.py", "a\\model.py", "con.py", "x" * 300 + ".py"),
    *("\u202emodel.py", "torch.py", "sitecustomize.py", "model.ipynb", "model.py/", ".", " ", "model.py ", "a//b.py"),
    *("e\u0301.py", "\u00e9.py", "a/b/c/d/e/f/g/h/i/j/k.py"),
)
KINDS = (*[tarfile.REGTYPE] * 6, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.DIRTYPE, tarfile.FIFOTYPE)
#: Enough to meet each kind of damage several times; 3 ms each.
TRIALS = 400
#: A sleeper is gone within milliseconds of the grader; a machine that is busy gets half a minute.
PATIENCE_S = 30.0

#: Leaves its session, forks twice, and sleeps: what a daemon does so that nobody finds it. It tells us of itself by the
#: name of its process: there is no file outside that it could write.
SLEEPER = """\
import ctypes, os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        ctypes.CDLL(None).prctl(15, {name!r}, 0, 0, 0)
        time.sleep(120)
    os._exit(0)
time.sleep(120)
"""


def _zip(names: list[str]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in dict.fromkeys(names):
            archive.writestr(name, SOURCE)
    return buffer.getvalue()


def _tar(names: list[str], rng: random.Random) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name in names:
            member = tarfile.TarInfo(name)
            member.type = rng.choice(KINDS)
            member.linkname = rng.choice(("/etc/passwd", "../x", "model.py"))
            member.size = len(SOURCE) if member.type == tarfile.REGTYPE else 0
            archive.addfile(member, io.BytesIO(SOURCE))
    return buffer.getvalue()


def _notebook(rng: random.Random) -> bytes:
    sources: list[object] = [SOURCE.decode(), [SOURCE.decode()], None, 5, ["x", 3], {"a": 1}]
    cells: object = [{"cell_type": "code", "source": rng.choice(sources), "metadata": {}} for _ in range(3)]
    cells = rng.choice([cells, cells, cells, None, {}, [None], [[]], "x"])
    return json.dumps({"cells": cells, "nbformat": rng.choice([4, 3, None, "4"])}).encode()


def _damaged(data: bytes, rng: random.Random) -> bytes:
    bytes_ = bytearray(data)
    for _ in range(rng.choice([0, 1, 3, 12])):
        bytes_[rng.randrange(len(bytes_))] = rng.randrange(256)
    return bytes(bytes_[: rng.choice([len(bytes_), len(bytes_), rng.randrange(len(bytes_))])])


@pytest.mark.parametrize("suffix", [".zip", ".tar", ".ipynb"])
def test_a_damaged_upload_is_the_students_and_stays_in_its_folder(suffix: str, tmp_path: Path) -> None:
    for trial in range(TRIALS):
        rng = random.Random(f"{suffix} {trial}")
        names = rng.sample(NAMES, rng.randrange(1, 6)) + ["model.py"] * rng.randrange(2)
        whole = _zip(names) if suffix == ".zip" else _tar(names, rng) if suffix == ".tar" else _notebook(rng)
        upload = tmp_path / f"upload{suffix}"
        upload.write_bytes(_damaged(whole, rng))
        submission = read_submission(upload, TRACK)
        assert submission.verdict is not Verdict.UNGRADABLE, (trial, submission.problem)
        if submission.verdict is None:
            write_tree(submission, tmp_path / "trees" / str(trial))
    outside = [path for path in tmp_path.iterdir() if path.name not in ("trees", upload.name)]
    assert not outside


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere no supervisor outlives the grader to clean up after it")
def test_no_process_of_a_submission_outlives_a_killed_grader(tmp_path: Path) -> None:
    name = f"slp{os.getpid()}"
    (tmp_path / "class" / "eve").mkdir(parents=True)
    (tmp_path / "class" / "eve" / "model.py").write_text(SLEEPER.format(name=name.encode()) + SOURCE.decode())
    command = [sys.executable, "-m", "autograder", "grade", str(tmp_path / "class"), "--out", str(tmp_path / "grades")]
    (tmp_path / "tmp").mkdir()
    grader = subprocess.Popen(
        command, env={**os.environ, "TMPDIR": str(tmp_path / "tmp")}, stdout=subprocess.DEVNULL, start_new_session=True
    )
    try:
        assert _comes_true(lambda: bool(_named(name)))
    finally:
        grader.send_signal(signal.SIGKILL)
        grader.wait()
    assert _comes_true(lambda: not _named(name))


def _named(name: str) -> list[int]:
    return [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if _name(pid) == name and _runs(pid)]  # noqa: PTH208


def _name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def _runs(pid: int) -> bool:
    try:  # the name in parentheses may itself hold spaces and parentheses
        state = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != b"Z"  # dead, and only waiting for a parent that a container may not have


def _comes_true(condition: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True
