"""Claims about the ledger: what it keeps, what it recalls, whom it refuses, and what a torn or foreign file does."""

from __future__ import annotations

import json
import os
import random
import shutil
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from fake_grader import Limits, Submission
from sample_reports import NO_SCALE, TRACK, report, sample_class, ungradable

from autograder.classroom.changes import changed_checks, reasons
from autograder.classroom.kit_code import kit_code
from autograder.classroom.ledger import Ledger, LedgerError, Run, Terms
from autograder.classroom.ledger_file import FILE
from autograder.verdict import Report, Verdict

ROOT = Path(__file__).resolve().parent.parent
TERMS = Terms.of(TRACK, Limits())  # type: ignore[arg-type]
SOURCE = Path("submissions")


def begin(ledger: Ledger, seed: int | None = 7, drawn: int = 99, **how: object) -> Run:
    return ledger.begin(how.pop("terms", TERMS), SOURCE, seed=seed, draw=lambda: drawn, **how)  # type: ignore[arg-type]


def hand_in(student: str = "ada", content: str = "1", **how: object) -> Submission:
    return Submission(student, "pass", {"model.py": content}, **how)  # type: ignore[arg-type]


def graded(run: Run, submission: Submission, wrong: object = None, **changes: object) -> Report:
    """Do what a worker does: recall, else grade and record."""
    found = run.recall(submission)  # type: ignore[arg-type]
    made = report(submission.student, wrong, seed=run.seed, files=submission.files, **changes)  # type: ignore[arg-type]
    return run.record(found if found is not None else made)


def test_a_result_is_there_for_whoever_opens_the_folder_next(tmp_path: Path) -> None:
    reports = sample_class()
    for made in reports:
        with Ledger(tmp_path) as ledger:
            run = begin(ledger)
            run.recall(hand_in(made.student))  # type: ignore[arg-type]
            back = run.record(made)
            assert json.dumps(back.to_json()) == json.dumps(made.to_json()), "and reads as it was written"
    with Ledger(tmp_path) as ledger:
        kept = [ledger.history(student) for student in ledger.students()]
        texts = {json.dumps(result.report.to_json()) for (result,) in kept}
        assert texts == {json.dumps(made.to_json()) for made in reports}
    assert [path.name for path in tmp_path.iterdir()] == [FILE], "one file"


def test_what_is_there_is_recalled_on_the_same_terms_only(tmp_path: Path) -> None:
    with Ledger(tmp_path) as ledger:
        first = begin(ledger, seed=None)
        graded(first, hand_in())
        first.finish()
        other_limits = Terms.of(TRACK, Limits(wall_s=1.0))  # type: ignore[arg-type]
        other_course = Terms.of(replace(TRACK, parts=TRACK.parts[:-1]), Limits())  # type: ignore[arg-type]
        for submission, how, known in (
            (hand_in(), {}, True),
            (hand_in(content="2"), {}, False),
            (hand_in("bo"), {}, False),
            (hand_in(warnings=("conftest.py is left out.",)), {}, False),
            (hand_in(), {"terms": replace(TERMS, kit_version="9.9")}, False),
            (hand_in(), {"terms": replace(TERMS, kit_code="edited")}, False),
            (hand_in(), {"terms": other_limits}, False),
            (hand_in(), {"terms": other_course}, False),
            (hand_in(), {"seed": 99}, True),
            (hand_in(), {"seed": 98}, False),
            (hand_in(), {"anew": True}, False),
        ):
            run = begin(ledger, **{"seed": None, **how})  # type: ignore[arg-type]
            assert (run.recall(submission) is not None) is known, (submission, how)  # type: ignore[arg-type]
            run.finish()


def test_the_kits_code_has_one_fingerprint_until_its_solutions_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert kit_code() == kit_code()
    codes = {kit_code()}
    monkeypatch.setenv("WORKSHOP_SOLUTIONS", str(tmp_path / "solutions"))
    for number in range(2):
        shutil.copytree(ROOT / "solutions", tmp_path / "solutions", dirs_exist_ok=True)
        with (tmp_path / "solutions" / "mlp.py").open("a") as file:
            file.write(f"# {number}\n")
        codes.add(kit_code())
    assert len(codes) == 3


def test_our_failure_is_kept_but_never_recalled_and_never_current(tmp_path: Path) -> None:
    with Ledger(tmp_path) as ledger:
        run = begin(ledger)
        graded(run, hand_in())
        run.finish()
        run = begin(ledger, anew=True)
        assert run.recall(hand_in()) is None  # type: ignore[arg-type]
        run.record(ungradable("ada"))
        run.finish()
        current = ledger.current("ada")
        assert current is not None and current.report.score == 100
        assert [kept.report.verdict for kept in ledger.history("ada")] == [Verdict.PASSED, Verdict.UNGRADABLE]
        assert begin(ledger).recall(hand_in()) == current.report  # type: ignore[arg-type]


def test_a_run_that_was_killed_keeps_its_seed_and_one_that_ended_does_not(tmp_path: Path) -> None:
    with Ledger(tmp_path) as ledger:
        graded(begin(ledger, seed=None, drawn=1), hand_in())
    with Ledger(tmp_path) as ledger:
        run = begin(ledger, seed=None, drawn=2)
        assert (run.seed, run.goes_on) == (1, True)
        graded(run, hand_in("bo"))
        run.finish()
        again = begin(ledger, seed=None, drawn=3)
        assert (again.seed, again.goes_on) == (3, False), "what students have seen in reports is not drawn again"


@pytest.mark.parametrize(
    "how", [{"seed": 8}, {"anew": True}, {"kind": "regrade"}, {"terms": replace(TERMS, kit_version="9.9")}]
)
def test_a_killed_run_is_not_gone_on_with_on_other_terms(tmp_path: Path, how: dict[str, object]) -> None:
    with Ledger(tmp_path) as ledger:
        graded(begin(ledger, seed=7), hand_in())
        run = begin(ledger, **{"seed": None, **how})  # type: ignore[arg-type]
        assert not run.goes_on


def test_a_killed_run_that_graded_all_anew_goes_on_doing_so(tmp_path: Path) -> None:
    with Ledger(tmp_path) as ledger:
        first = begin(ledger, seed=1)
        graded(first, hand_in())
        graded(first, hand_in("bo"))
        first.finish()
        graded(begin(ledger, seed=None, drawn=2, anew=True), hand_in())
    with Ledger(tmp_path) as ledger:
        run = begin(ledger, seed=None, drawn=3)
        assert run.goes_on and run.recall(hand_in()) is not None  # type: ignore[arg-type]
        assert run.recall(hand_in("bo")) is None, "bo has a result of the first run only"  # type: ignore[arg-type]


def test_a_second_try_in_the_same_run_takes_the_place_of_our_failure(tmp_path: Path) -> None:
    with Ledger(tmp_path) as ledger:
        run = begin(ledger)
        run.recall(hand_in())  # type: ignore[arg-type]
        run.record(ungradable("ada"))
    with Ledger(tmp_path) as ledger:
        graded(begin(ledger), hand_in())
        assert [kept.report.verdict for kept in ledger.history("ada")] == [Verdict.PASSED]


def test_what_was_found_without_isolation_is_not_recalled_where_isolation_is_asked_for(tmp_path: Path) -> None:
    with Ledger(tmp_path) as ledger:
        run = begin(ledger)
        graded(run, hand_in())
        graded(run, hand_in("bo"), isolation={"level": "linux", "isolated": True})
        strict = begin(ledger, isolated_only=True)
        assert strict.goes_on and strict.recall(hand_in()) is None  # type: ignore[arg-type]
        assert strict.recall(hand_in("bo")) is not None  # type: ignore[arg-type]


def test_going_back_to_earlier_files_brings_back_the_earlier_result(tmp_path: Path) -> None:
    with Ledger(tmp_path) as ledger:
        for content in ("1", "2", "1", "1"):
            run = begin(ledger, seed=None)
            graded(run, hand_in(content=content), NO_SCALE if content == "2" else None)
            run.finish()
        first, second, back = ledger.history("ada")
        assert (first.report.score, second.report.score, back.report.score) == (100, 93, 100)
        assert back.copy_of == first.id
        current = ledger.current("ada")
        assert current is not None and current.id == back.id


def test_a_run_that_found_nothing_new_leaves_no_trace(tmp_path: Path) -> None:
    with Ledger(tmp_path) as ledger:
        for _ in range(3):
            run = begin(ledger, seed=None)
            graded(run, hand_in())
            run.finish()
    with closing(sqlite3.connect(tmp_path / FILE)) as connection:
        assert connection.execute("SELECT count(*) FROM runs").fetchone() == (1,)


def test_names_and_seeds_beyond_what_sqlite_holds_are_kept(tmp_path: Path) -> None:
    with Ledger(tmp_path) as ledger:
        run = begin(ledger, seed=2**70)
        graded(run, hand_in("a\udcffb"))
        assert run.recall(hand_in("a\udcffb")) is not None  # type: ignore[arg-type]
        (kept,) = ledger.history(ledger.students()[0])
        assert kept.seed == 2**70 and kept.report.student == "a\udcffb"


def test_many_threads_may_recall_at_once(tmp_path: Path) -> None:
    with Ledger(tmp_path) as ledger:
        run = begin(ledger)
        for number in range(20):
            graded(run, hand_in(f"s{number}"))
        found: list[bool] = []

        def look() -> None:
            found.extend(run.recall(hand_in(f"s{number}")) is not None for number in range(20))  # type: ignore[arg-type]

        threads = [threading.Thread(target=look) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert found == [True] * 80


def test_a_folder_takes_one_run_at_a_time(tmp_path: Path) -> None:
    with Ledger(tmp_path) as ledger:
        graded(begin(ledger), hand_in())
        for to_read in (False, True):
            with pytest.raises(LedgerError, match="Another run is using"):
                Ledger(tmp_path, to_read=to_read)
        code = f"import pathlib, autograder.classroom.ledger as l; l.Ledger(pathlib.Path({str(tmp_path)!r}))"
        other = subprocess.run(
            [sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, check=False
        )
        assert other.returncode and b"Another run is using" in other.stderr
        graded(begin(ledger), hand_in("bo"))
    with Ledger(tmp_path) as ledger:
        assert ledger.students() == ["ada", "bo"]


def test_a_newer_schema_is_told_and_left_alone(tmp_path: Path) -> None:
    with Ledger(tmp_path) as ledger:
        graded(begin(ledger), hand_in())
    with closing(sqlite3.connect(tmp_path / FILE)) as connection:
        connection.execute("PRAGMA user_version = 2")
    before = (tmp_path / FILE).read_bytes()
    with pytest.raises(LedgerError, match="newer kit"):
        Ledger(tmp_path)
    assert (tmp_path / FILE).read_bytes() == before


def test_a_damaged_or_foreign_file_is_told_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "good").mkdir()
    with Ledger(tmp_path / "good") as ledger:
        run = begin(ledger)
        for number in range(30):
            graded(run, hand_in(f"s{number}"))
    good = (tmp_path / "good" / FILE).read_bytes()
    foreign = tmp_path / "foreign.sqlite3"
    with closing(sqlite3.connect(foreign)) as connection:
        connection.execute("CREATE TABLE recipes (name TEXT)")
    cases = {
        "text": (b"this is no database at all" * 100, "damaged, or not a ledger"),
        "noise": (good[:20_000] + random.Random(1).randbytes(40_000) + good[60_000:], "damaged, or not a ledger"),
        "cut": (good[: len(good) // 2], "damaged, or not a ledger"),
        "foreign": (foreign.read_bytes(), "not a ledger of this kit"),
    }
    for name, (content, sentence) in cases.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / FILE).write_bytes(content)
        for to_read in (False, True):
            with pytest.raises(LedgerError, match=sentence):
                Ledger(tmp_path / name, to_read=to_read)
        assert (tmp_path / name / FILE).read_bytes() == content, name


def test_a_file_that_cannot_be_opened_is_told(tmp_path: Path) -> None:
    (tmp_path / FILE).mkdir()
    with pytest.raises(LedgerError, match="cannot be opened"):
        Ledger(tmp_path)
    with pytest.raises(LedgerError, match="There is no"):
        Ledger(tmp_path / "elsewhere", to_read=True)


def test_a_full_disk_is_told_and_costs_only_the_result_that_did_not_fit(tmp_path: Path) -> None:
    with Ledger(tmp_path) as ledger:
        run = begin(ledger)
        graded(run, hand_in())
        pages = ledger._connection.execute("PRAGMA page_count").fetchone()[0]
        ledger._connection.execute(f"PRAGMA max_page_count = {pages}")
        with pytest.raises(LedgerError, match="the disk is full"):
            for number in range(10):
                graded(run, hand_in(f"s{number}"), NO_SCALE)
    with Ledger(tmp_path) as ledger:
        assert ledger.current("ada") is not None


def test_a_write_that_a_power_cut_tears_loses_that_result_and_no_other(tmp_path: Path) -> None:
    """The WAL is cut at every kind of place: what was committed before the cut is there, and the ledger opens."""
    code = (
        "import os, signal, sys; sys.path[:0] = sys.argv[1:3]\n"
        "from pathlib import Path; import test_ledger as t\n"
        "ledger = t.Ledger(Path(sys.argv[3])); run = t.begin(ledger)\n"
        "for n in range(12):\n    t.graded(run, t.hand_in(f's{n:02}'))\n"
        "    print(os.path.getsize(sys.argv[3] + '/ledger.sqlite3-wal'), flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    (tmp_path / "run").mkdir()
    command = [sys.executable, "-c", code, str(ROOT), str(ROOT / "tests"), str(tmp_path / "run")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    sizes = [int(line) for line in done.stdout.split()]  # of the WAL after each commit
    assert len(sizes) == 12, done.stderr
    wal = (tmp_path / "run" / f"{FILE}-wal").read_bytes()
    dice = random.Random(5)
    for number, cut in enumerate([0, *sizes, *(dice.randrange(len(wal)) for _ in range(20))]):
        torn = tmp_path / f"torn{number}"
        torn.mkdir()
        shutil.copy(tmp_path / "run" / FILE, torn)
        (torn / f"{FILE}-wal").write_bytes(wal[:cut] + dice.randbytes(dice.randrange(5000)))
        with Ledger(torn) as ledger:
            assert ledger.students() == [f"s{n:02}" for n in range(sum(size <= cut for size in sizes))]


def test_changes_and_their_reasons_are_named(tmp_path: Path) -> None:
    with Ledger(tmp_path) as ledger:
        run = begin(ledger, seed=1)
        graded(run, hand_in())
        run.finish()
        terms = replace(Terms.of(TRACK, Limits(wall_s=5.0)), kit_version="0.2.0", course="other")  # type: ignore[arg-type]
        run = begin(ledger, seed=2, terms=terms)
        graded(run, hand_in(content="2"), NO_SCALE, isolation={"level": "linux", "isolated": True})
        first, second = ledger.history("ada")
    (change,) = changed_checks(first.report, second.report)
    assert (change.id, change.before, change.after) == ("attention.values", Verdict.PASSED, Verdict.FAILED)
    assert reasons(first, second) == [
        "files changed: model.py",
        "kit version 0.1.0 -> 0.2.0",
        "course changed (its checks or points)",
        "seed 1 -> 2",
        "limits changed: wall_s 10.0 -> 5.0",
        "isolation portable -> linux",
    ]
    edited = replace(first, terms=replace(first.terms, kit_code="edited"))
    assert reasons(first, edited) == ["kit's code changed (within version 0.1.0)"]
    assert reasons(first, first) == [] and changed_checks(first.report, first.report) == []
    fewer = replace(
        second.report, parts={"config": second.report.parts["config"]}, files={"a.py": "1", "model.py": "1"}
    )
    assert {gone.after for gone in changed_checks(second.report, fewer)} == {None}
    assert reasons(first, replace(first, report=fewer))[0] == "files changed: a.py (new)"
