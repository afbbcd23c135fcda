"""Claims about `workshop grade` with its ledger, `workshop regrade`, `workshop history` and late marks."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import fake_grader
import pytest
from fake_grader import submit
from typer.testing import CliRunner, Result

from autograder.classroom.ledger import Ledger
from autograder.classroom.ledger_file import FILE
from autograder.cli import app

HERE = Path(__file__).resolve().parent
DRIVER = "import fake_grader; fake_grader.install(); from autograder.cli import main; main()"
POLICY = "due = 2025-03-14T23:59:00+01:00\n[penalty]\npercent = 10\n[submitted]\nbo = 2025-03-16T00:30:00+01:00\n"


@pytest.fixture(autouse=True)
def stand_ins(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name, module in fake_grader.install({}).items():
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setattr(fake_grader.Nursery, "broken", False)
    monkeypatch.setattr(fake_grader.Nursery, "made", 0)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.chdir(tmp_path)
    fake_grader.log.clear()


def workshop(*words: str | Path) -> Result:
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def behave(student: str, word: str) -> None:
    Path("work", student, "behave.txt").write_text(word, encoding="utf-8")


def graded() -> list[str]:
    """Return who was graded since the last call."""
    names = sorted(line.split()[1] for line in fake_grader.log if line.startswith("grade "))
    fake_grader.log.clear()
    return names


def rows() -> dict[str, dict[str, object]]:
    data = json.loads(Path("grades/class.json").read_text(encoding="utf-8"))
    return {row["student"]: row for row in data["submissions"]}


def texts(folder: str = "grades") -> dict[str, bytes]:
    return {p.name: p.read_bytes() for p in Path(folder).rglob("*") if p.is_file() and p.suffix != ".sqlite3"}


# grade, resumed


def test_what_is_there_is_reported_and_not_graded_again() -> None:
    submit(Path("work"), ada="pass", bo="fail")
    workshop("grade", "work", "--seed", "7")
    before = texts()
    assert graded() == ["ada", "bo"]
    for path in Path("grades").rglob("*.*ml"):
        path.unlink()
    fake_grader.Nursery.made = 0
    result = workshop("grade", "work")
    assert result.exit_code == 0 and graded() == [] and fake_grader.Nursery.made == 0, "no sandbox either"
    assert (
        "ada: 100 / 100  passed  (from an earlier run)" in result.output
        and "2 of 2 from an earlier run" in result.output
    )
    assert texts() == before, "the reports are made anew from the ledger, to the byte"


def test_only_what_is_new_or_changed_is_graded_with_a_seed_of_its_own() -> None:
    submit(Path("work"), ada="pass", bo="fail", cy="fail")
    workshop("grade", "work", "--seed", "7")
    graded()
    behave("bo", "pass")
    submit(Path("work"), di="pass")
    workshop("grade", "work")
    assert graded() == ["bo", "di"]
    found = rows()
    seeds = {student: row.get("seed") for student, row in found.items()}
    assert seeds == {"ada": 7, "bo": None, "cy": 7, "di": None} and found["bo"]["score"] == 100


@pytest.mark.parametrize("words", [["--no-resume"], ["--seed", "8"], ["--timeout", "3"], ["--memory", "1024"]])
def test_other_terms_grade_anew(words: list[str]) -> None:
    submit(Path("work"), ada="pass")
    workshop("grade", "work", "--seed", "7")
    graded()
    workshop("grade", "work", *words)
    assert graded() == ["ada"]


def test_our_failure_is_tried_again_and_replaces_no_score() -> None:
    submit(Path("work"), ada="pass", bo="ours")
    assert workshop("grade", "work").exit_code == 3
    graded()
    assert workshop("grade", "work").exit_code == 3
    assert graded() == ["bo"]
    behave("ada", "ours")
    result = workshop("grade", "work")
    assert result.exit_code == 3 and "An earlier grade stays: ada: The sandbox could not start" in result.output
    row = rows()["ada"]
    assert row["score"] == 100 and "of files handed in before" in str(row["warnings"])
    with Path("grades/class.csv").open(encoding="utf-8", newline="") as stream:
        assert [line["score"] for line in csv.DictReader(stream)] == ["100", ""]
    behave("ada", "pass")
    behave("bo", "pass")
    assert workshop("grade", "work").exit_code == 0
    assert rows()["ada"]["warnings"] == [] and rows()["bo"]["score"] == 100


def test_after_ctrl_c_the_same_command_goes_on_with_its_seed(tmp_path: Path) -> None:
    submit(Path("work"), ada="pass", bo="stay", cy="pass")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE), str(HERE.parent)])}
    command = [sys.executable, "-u", "-c", DRIVER, "grade", "work", "--jobs", "1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment) as process:
        assert process.stdout is not None
        seed = process.stdout.readline().split()[-1].decode()
        for line in process.stdout:
            if line.startswith(b"[1/3] ada"):
                refused = workshop("grade", "work")
                assert refused.exit_code == 2 and "Another run is using grades" in refused.output
                asked = workshop("history", "ada")
                assert asked.exit_code == 2 and "Another run is using grades" in asked.output
                process.send_signal(signal.SIGINT)
                break
        rest = process.stdout.read()
        assert process.wait(60) == 130 and b"Give the same command again to go on." in rest, rest
    behave("bo", "pass")
    result = workshop("grade", "work")
    assert f"Going on with 3 with seed {seed}" in result.output and graded() == ["bo", "cy"]
    assert {row.get("seed") for row in rows().values()} == {None}, "one seed for all"
    workshop("grade", "work", "--seed", seed, "--out", "undisturbed")
    assert texts() == texts("undisturbed")


# trouble


def test_a_ledger_that_cannot_be_used_is_a_sentence_and_is_left_alone() -> None:
    submit(Path("work"), ada="pass")
    workshop("grade", "work", "--seed", "7")
    before = texts()
    for content, sentence in ((b"rubbish" * 999, "is damaged, or not a ledger"),):
        Path("grades", FILE).write_bytes(content)
        for words in (["grade", "work"], ["regrade", "work"], ["history", "ada"]):
            result = workshop(*words)
            assert result.exit_code == 2 and sentence in result.output and "Traceback" not in result.output
        assert Path("grades", FILE).read_bytes() == content and texts() == before


def test_what_a_killed_run_left_half_written_is_swept() -> None:
    submit(Path("work"), ada="pass")
    workshop("grade", "work")
    half, own = Path("grades/students/.ab1_cd2e.part"), Path("grades/.my notes.part")
    half.touch()
    own.touch()
    workshop("grade", "work")
    assert not half.exists() and own.exists()


def test_a_disk_that_fills_up_ends_the_run_with_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    from autograder.classroom.ledger import LedgerError, Run

    def full(*_: object) -> None:
        raise LedgerError("the disk is full")

    submit(Path("work"), ada="pass")
    monkeypatch.setattr(Run, "record", full)
    result = workshop("grade", "work")
    assert result.exit_code == 3 and "the disk is full" in result.output


@pytest.fixture
def read_only() -> Iterator[Path]:
    """A folder with results that may be read and not written; root gives up its rights for it."""
    if os.name != "posix":
        pytest.skip("takes rights away as POSIX systems do")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        submit(folder / "work", ada="pass", bo="fail")
        grades = folder / "grades"
        workshop("grade", folder / "work", "--out", grades)
        grades.chmod(0o555)
        (grades / "students").chmod(0o555)
        root = os.geteuid() == 0
        if root:
            os.seteuid(65534)
        try:
            yield folder
        finally:
            if root:
                os.seteuid(0)
            grades.chmod(0o755)
            (grades / "students").chmod(0o755)


def test_a_folder_that_may_only_be_read_is_refused_for_writing_and_good_for_reading(read_only: Path) -> None:
    for command in ("grade", "regrade"):
        result = workshop(command, read_only / "work", "--out", read_only / "grades")
        assert result.exit_code == 2 and "cannot be written" in " ".join(result.output.split())
    result = workshop("history", "bo", "--out", read_only / "grades")
    assert result.exit_code == 0 and "93 / 100 failed  <- counts" in result.output
    assert [path.name for path in (read_only / "grades").glob(f"{FILE}*")] == [FILE]


# regrade and history


def test_regrade_tells_what_changed_and_why() -> None:
    submit(Path("work"), ada="pass", bo="pass", cy="pass", di="pass")
    workshop("grade", "work", "--seed", "1")
    behave("bo", "fail")
    behave("cy", "ours")
    submit(Path("work"), ed="fail")
    result = workshop("regrade", "work", "--seed", "2")
    assert result.exit_code == 3
    for line in (
        "bo: 100 / 100 passed -> 93 / 100 failed (files changed: behave.txt; seed 1 -> 2)",
        "    attention.values: passed -> failed",
        "ed: 93 / 100 failed, first result",
        "2 changed, 2 as before",
        "An earlier grade stays: cy",
    ):
        assert line in result.output
    assert rows()["cy"]["score"] == 100 and rows()["bo"]["score"] == 93
    same = workshop("regrade", "work/bo", "--seed", "2")
    assert "0 changed, 1 as before" in same.output
    drawn = workshop("regrade", "work/ada")
    assert drawn.exit_code == 0 and "with seed" in drawn.output and "0 changed, 1 as before" in drawn.output


def test_regrade_says_so_when_nothing_explains_a_change() -> None:
    submit(Path("work"), ada="pass")
    workshop("grade", "work", "--seed", "1")
    with Ledger(Path("grades")) as ledger:
        ledger._write("UPDATE results SET report = replace(report, '\"score\":100.0', '\"score\":99.0')")
    assert "nothing differs that a grade depends on" in workshop("regrade", "work", "--seed", "1").output


def test_history_shows_every_result_and_which_counts() -> None:
    submit(Path("work"), ada="pass")
    for word, seed in (("pass", 1), ("fail", 2), ("ours", 3), ("pass", 1)):
        behave("ada", word)
        workshop("grade", "work", "--seed", str(seed))
    result = workshop("history", "ada")
    assert result.exit_code == 0
    lines = [line for line in result.output.splitlines() if line.startswith("20")]
    shown = ["100 / 100 passed", "93 / 100 failed", "not graded (our fault)", "100 / 100 passed  <- counts"]
    assert [line.split("  ", 1)[1] for line in lines] == shown
    for text in (
        "seed 2 (given)  kit 0.1.0  track gpt",
        "attention.values: passed -> failed",
        "files changed: behave.txt; seed 1 -> 2",
        "The sandbox could not start",
        "from an earlier run: these files were graded before",
    ):
        assert text in result.output


def test_an_unknown_student_or_folder_is_a_usage_error_that_helps() -> None:
    submit(Path("work"), ada="pass", **{"Zoë Müller": "pass"})
    workshop("grade", "work")
    for word, hint in (
        ("zoe muller", "Did you mean Zoë Müller?"),
        ("xyz", "no result of xyz among those of 2 students"),
    ):
        result = workshop("history", word)
        assert result.exit_code == 2 and hint in " ".join(result.output.replace("│", " ").split()), result.output
    result = workshop("history", "ada", "--out", "nowhere")
    assert result.exit_code == 2 and "There is no ledger.sqlite3 in nowhere" in result.output
    assert not Path("nowhere").exists()


# late marks


def test_late_marks_stand_beside_the_raw_score_everywhere() -> None:
    submit(Path("work"), ada="pass", bo="fail", cy="ours")
    Path("policy.toml").write_text(POLICY + "ada = 2025-03-14T20:00:00+01:00\nzz = 2025-03-14T20:00:00Z\n")
    result = workshop("grade", "work", "--policy", "policy.toml", "--seed", "7")
    assert "1 late of 2" in result.output and "bo: 24.52 h late, 93 -> 74.4" in result.output
    assert "name zz, of whom there is no submission" in result.output
    found = rows()
    assert found["bo"]["score"] == 93 and found["bo"]["late"] == {
        "submitted": "2025-03-16T00:30:00+01:00",
        "submitted_from": "the policy file",
        "due": "2025-03-14T23:59:00+01:00",
        "late_by_hours": 24.52,
        "penalty": 18.6,
        "score_after_penalty": 74.4,
        "rule": "10% of the score for each day begun: 2 days, 20%",
    }
    assert "late" not in found["cy"]
    assert json.loads(Path("grades/students/bo.json").read_text(encoding="utf-8"))["late"] == found["bo"]["late"]
    with Path("grades/class.csv").open(encoding="utf-8", newline="") as stream:
        table = {row["student"]: row for row in csv.DictReader(stream)}
    assert (table["bo"]["score"], table["bo"]["score_after_penalty"]) == ("93", "74.4")
    assert (table["ada"]["late_rule"], table["cy"]["score_after_penalty"]) == ("on time", "")
    page = Path("grades/students/bo.html").read_text(encoding="utf-8")
    assert "Late by 24.52 hours: 93 − 18.6 = 74.4 points." in page and "from the policy file" in page
    assert "Handed in on time." in Path("grades/students/ada.html").read_text(encoding="utf-8")
    assert "After penalty" in Path("grades/class.html").read_text(encoding="utf-8")
    again = texts()
    workshop("grade", "work", "--policy", "policy.toml")
    assert texts()["bo.json"] == again["bo.json"]
    workshop("grade", "work")
    assert "late" not in rows()["bo"] and "After penalty" not in Path("grades/class.html").read_text(encoding="utf-8")


def test_a_grade_that_stays_is_not_marked_with_the_date_of_newer_files() -> None:
    submit(Path("work"), bo="fail")
    Path("policy.toml").write_text(POLICY)
    workshop("grade", "work")
    workshop_words = ("grade", "work", "--policy", "policy.toml", "--no-resume")
    behave("bo", "ours")
    workshop(*workshop_words)
    assert rows()["bo"]["score"] == 93 and "late" not in rows()["bo"]


def test_a_long_list_of_late_students_is_cut(tmp_path: Path) -> None:
    submit(Path("work"), **{f"s{number:02}": "pass" for number in range(25)})
    Path("policy.toml").write_text("due = 2001-01-01T00:00:00Z\n")
    result = workshop("grade", "work", "--policy", "policy.toml")
    assert "25 late of 25" in result.output and "and 5 more: see class.csv" in result.output


def test_a_wrong_policy_is_a_usage_error_before_anything_is_graded() -> None:
    submit(Path("work"), ada="pass")
    Path("policy.toml").write_text("dew = 1\n")
    result = workshop("grade", "work", "--policy", "policy.toml")
    assert result.exit_code == 2 and "Did you mean due?" in " ".join(result.output.replace("│", " ").split())
    assert graded() == [] and not Path("grades").exists()


def test_the_help_shows_examples_within_80_columns() -> None:
    for command, example in (
        ("grade", "workshop grade submissions --policy late.toml"),
        ("regrade", "workshop regrade ada.zip --out grades"),
        ("history", "workshop history ada "),
    ):
        result = workshop(command, "--help")
        assert example in result.output and all(len(line) <= 80 for line in result.output.splitlines())
