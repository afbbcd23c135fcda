"""Claim: killing the grader at any moment loses at most the submission in flight; resumed, the end is the same."""

from __future__ import annotations

import os
import random
import re
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from fake_grader import submit

from autograder.classroom.ledger_file import FILE

HERE = Path(__file__).resolve().parent
SAMPLES = HERE.parent / "data" / "sample_class"
pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="kills a process as POSIX systems do")

#: All but ids, times and the order in which the workers finish.
CONTENT = (
    "SELECT results.student, results.digest, results.intake, results.track, results.course, results.kit_version,"
    " results.kit_code, results.limits, results.seed, results.seed_policy, verdict, score, max_score,"
    " copy_of IS NULL, report, runs.kind, runs.source, runs.seed, runs.anew, runs.finished IS NULL"
    " FROM results JOIN runs ON runs.id = results.run ORDER BY 1, 2, 3, runs.id"
)
RUNS = "SELECT kind, source, track, course, kit_code, limits, seed, anew, finished IS NULL FROM runs ORDER BY id"


def workshop(kind: str, moment: int | str, *words: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(HERE / "killed_grader.py"), kind, str(moment), *map(str, words)]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("COV")}
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120, check=False)


def ledger(folder: Path) -> tuple[list[Any], list[Any]]:
    with closing(sqlite3.connect(folder / FILE)) as connection:
        return connection.execute(CONTENT).fetchall(), connection.execute(RUNS).fetchall()


def files(folder: Path) -> dict[str, bytes]:
    """Return what was written beside the ledger."""
    paths = [path for path in folder.rglob("*") if path.is_file() and path.suffix != ".sqlite3"]
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


def graded(done: subprocess.CompletedProcess[str]) -> int:
    return len(re.findall(r"^\[\d+/\d+\] (?!.*earlier run)", done.stdout, re.MULTILINE))


def test_killed_at_any_moment_and_resumed_the_ledger_is_that_of_an_undisturbed_run(tmp_path: Path) -> None:
    work = submit(tmp_path / "work", ada="pass", bo="fail", cy="ours", di="forbid", ed="pass", flo="fail", gus="raise")
    words = ("grade", work, "--jobs", "1")
    whole = workshop("fake", 0, *words, "--out", tmp_path / "whole", "--seed", "7")
    assert whole.returncode == 3, whole.stderr
    calls = int(whole.stdout.split()[-1])
    assert calls > 500
    dice = random.Random(11)
    kills = 0
    for round_ in range(2):
        out = tmp_path / f"killed{round_}"
        moments = sorted(dice.randrange(1, calls) for _ in range(6))  # of one whole run: the later ones may not come
        for number, moment in enumerate(moments):
            # The seed is given until a run has been begun; after that the ledger knows it.
            seed = () if number and (out / FILE).exists() and ledger_has_run(out) else ("--seed", "7")
            kills += workshop("fake", moment, *words, "--out", out, *seed).returncode == -9
            known = ledger_scores(out)
            assert known <= ledger_scores(tmp_path / "whole"), "nothing half, nothing wrong"
        end = workshop("fake", 0, *words, "--out", out, *(() if ledger_has_run(out) else ("--seed", "7")))
        assert end.returncode == 3 and "Traceback" not in end.stderr, end.stderr
        assert ledger(out) == ledger(tmp_path / "whole")
        assert files(out) == files(tmp_path / "whole"), "and the reports are byte-identical"
    assert kills >= 6


@pytest.mark.slow
def test_killed_at_fifty_moments_of_a_hundred_submissions_and_resumed_each_time(tmp_path: Path) -> None:
    kinds = ("pass", "fail", "ours", "forbid", "raise")
    work = submit(tmp_path / "work", **{f"s{number:03}": kinds[number % 5] for number in range(100)})
    words = ("grade", work, "--seed", "7", "--jobs", "2", "--out")
    whole = workshop("fake", 0, *words, tmp_path / "whole")
    assert whole.returncode == 3, whole.stderr
    calls_of_one = int(whole.stdout.split()[-1]) // 100
    dice, right = random.Random(13), ledger_scores(tmp_path / "whole")
    out, kills, known = tmp_path / "killed0", 0, set[Any]()
    while kills < 50:
        # Every fifth at any moment at all; the others among the next few results, so that many fit into one run.
        results = 0 if kills % 5 == 0 else len(known) + dice.randrange(3)
        calls = dice.randrange(1, calls_of_one * (100 if kills % 5 == 0 else 2))
        end = workshop("fake", f"{results}:{calls}", *words, out)
        before, known = known, ledger_scores(out)
        assert before <= known <= right, "nothing lost, nothing half, nothing wrong"
        kills += end.returncode == -9
        if end.returncode != -9:  # it came to its end first
            same_end(end, out, tmp_path / "whole")
            out, known = tmp_path / f"killed{kills}", set[Any]()
    same_end(workshop("fake", 0, *words, out), out, tmp_path / "whole")


def same_end(end: subprocess.CompletedProcess[str], out: Path, whole: Path) -> None:
    assert end.returncode == 3 and "Traceback" not in end.stderr, end.stderr
    assert ledger(out) == ledger(whole)
    assert files(out) == files(whole)


def ledger_has_run(folder: Path) -> bool:
    with closing(sqlite3.connect(folder / FILE)) as connection:
        tables = connection.execute("SELECT count(*) FROM sqlite_master WHERE name = 'runs'").fetchone()[0]
        return bool(tables and connection.execute("SELECT count(*) FROM runs").fetchone()[0])


def ledger_scores(folder: Path) -> set[Any]:
    if not (folder / FILE).exists():
        return set()
    with closing(sqlite3.connect(folder / FILE)) as connection:
        if not connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
            return set()
        return set(connection.execute("SELECT student, digest, seed, verdict, score, report FROM results"))


def test_a_killed_run_loses_at_most_what_was_in_flight(tmp_path: Path) -> None:
    work = submit(tmp_path / "work", **{f"s{number:02}": "pass" for number in range(12)})
    words = ("grade", work, "--jobs", "1", "--seed", "7", "--out")
    for number, moment in enumerate(("1:3", "5:25", "11:60")):
        out = tmp_path / f"killed{number}"
        killed = workshop("fake", moment, *words, out)
        assert killed.returncode == -9
        told = graded(killed)
        again = workshop("fake", 0, *words, out)
        assert again.returncode == 0 and graded(again) in (12 - told, 12 - told - 1), (told, again.stdout)


def test_a_killed_regrade_goes_on_and_still_tells_all_changes(tmp_path: Path) -> None:
    work = submit(tmp_path / "work", ada="pass", bo="pass", cy="pass")
    out = tmp_path / "out"
    assert workshop("fake", 0, "grade", work, "--seed", "1", "--out", out).returncode == 0
    for student in ("ada", "cy"):
        (work / student / "behave.txt").write_text("fail", encoding="utf-8")
    shutil.copytree(out, tmp_path / "whole")
    words = ("regrade", work, "--jobs", "1", "--out")
    whole = workshop("fake", 0, *words, tmp_path / "whole", "--seed", "2")
    assert workshop("fake", "2:30", *words, out, "--seed", "2").returncode == -9
    again = workshop("fake", 0, *words, out)
    for line in (
        "ada: 100 / 100 passed -> 93 / 100 failed (files changed: behave.txt; seed 1 -> 2)",
        "2 changed, 1 as",
    ):
        assert line in again.stdout and line in whole.stdout
    assert ledger(out) == ledger(tmp_path / "whole")


def test_the_real_grader_killed_and_resumed_ends_as_if_undisturbed(tmp_path: Path) -> None:
    for student, source in (("ada", "ada"), ("farah", "farah"), ("goran", "goran")):
        shutil.copytree(SAMPLES / source, tmp_path / "work" / student)
    words = ("grade", tmp_path / "work", "--jobs", "1", "--out")
    whole = workshop("real", 0, *words, tmp_path / "whole", "--seed", "7")
    assert whole.returncode == 0, whole.stderr
    out = tmp_path / "out"
    assert workshop("real", "2:20", *words, out, "--seed", "7").returncode == -9
    end = workshop("real", 0, *words, out)
    assert end.returncode == 0, end.stderr
    assert ledger(out) == ledger(tmp_path / "whole") and files(out) == files(tmp_path / "whole")
