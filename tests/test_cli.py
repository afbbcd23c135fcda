"""Claims about the `workshop` command: what it prints, writes and returns."""

from __future__ import annotations

import csv
import io
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import fake_grader
import pytest
from fake_grader import submit
from typer.testing import CliRunner, Result

from autograder import __version__
from autograder.cli import app, screen

HERE = Path(__file__).resolve().parent
DRIVER = "import fake_grader; fake_grader.install(); from autograder.cli import main; main()"


@pytest.fixture(autouse=True)
def stand_ins(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name, module in fake_grader.install({}).items():
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setattr(fake_grader.Nursery, "broken", False)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.chdir(tmp_path)
    fake_grader.log.clear()


def workshop(*words: str | Path) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words])


def environment(**extra: str) -> dict[str, str]:
    path = os.pathsep.join([str(HERE), str(HERE.parent)])
    kept = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "PYTHONIOENCODING")}
    return {**kept, "PYTHONPATH": path, **extra}


def shell(*words: str | Path, **extra: str) -> subprocess.CompletedProcess[bytes]:
    """Run the command in a process of its own, with the stand-ins."""
    command = [sys.executable, "-c", DRIVER, *map(str, words)]
    return subprocess.run(command, capture_output=True, env=environment(**extra), timeout=60, check=False)


class Left(io.StringIO):
    """A stream whose reader has left."""

    def __init__(self, descriptor: int | None) -> None:
        super().__init__()
        self.descriptor = descriptor

    def write(self, _: str) -> int:
        raise BrokenPipeError

    def fileno(self) -> int:
        return super().fileno() if self.descriptor is None else self.descriptor


# check


def test_check_passes_only_when_everything_does(tmp_path: Path) -> None:
    submit(tmp_path, ada="pass", bo="fail", cy="ours", di="forbid", ed="raise")
    assert workshop("check", "--path", "ada").exit_code == 0
    assert workshop("check", "--path", "bo").exit_code == 1
    assert workshop("check", "--path", "cy").exit_code == 3
    assert workshop("check", "--path", "di").exit_code == 1
    broken = workshop("check", "--path", "ed")
    assert broken.exit_code == 3 and "crystal ball" in broken.output and "not your fault" in broken.output


def test_check_judges_the_parts_that_were_asked_for(tmp_path: Path) -> None:
    submit(tmp_path, bo="fail", cy="ours", di="forbid")
    assert workshop("check", "mlp", "GPT", "block.py", "--path", "bo").exit_code == 0
    assert workshop("check", "attention", "--path", "bo").exit_code == 1
    assert workshop("check", "mlp", "--path", "cy").exit_code == 3
    assert workshop("check", "mlp", "--path", "di").exit_code == 1
    assert "parts ['mlp', 'gpt', 'block']" in fake_grader.log[2]


def test_check_grades_the_current_folder_and_says_how_to_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(submit(tmp_path, bo="fail") / "bo")
    out = workshop("check").output
    assert out.startswith("bo  (gpt track)") and "then run: workshop check attention" in " ".join(out.split())
    monkeypatch.chdir(tmp_path)
    assert "workshop check --path bo attention" in " ".join(workshop("check", "--path", "bo").output.split())


@pytest.mark.parametrize(("word", "meant"), [("atention", "attention"), ("blok", "block"), ("mlps", "mlp")])
def test_an_unknown_part_is_a_usage_error_that_names_the_nearest(tmp_path: Path, word: str, meant: str) -> None:
    submit(tmp_path, ada="pass")
    result = workshop("check", word, "--path", "ada")
    assert result.exit_code == 2
    assert f"Did you mean {meant}?" in result.output and "config, attention, mlp, block, gpt" in result.output


def test_a_wrong_path_or_track_or_seed_is_a_usage_error() -> None:
    for words in (
        ["check", "--path", "nowhere"],
        ["check", "--track", "gtp"],
        ["check", "--seed", "-1"],
        ["check", "zzz"],
    ):
        assert workshop(*words).exit_code == 2


def test_check_prints_json_and_nothing_else(tmp_path: Path) -> None:
    submit(tmp_path, bo="fail")
    result = workshop("check", "--path", "bo", "--json", "--seed", "9")
    data = json.loads(result.stdout)
    assert result.exit_code == 1 and (data["student"], data["seed"]) == ("bo", 9)
    assert data["parts"]["attention"]["checks"]


def test_check_starts_the_sandbox_before_it_imports_the_grader(tmp_path: Path) -> None:
    submit(tmp_path, ada="pass")
    workshop("check", "--path", "ada")
    assert fake_grader.log[:2] == ["nursery started", "grading imported"]


def test_a_seed_is_drawn_afresh_and_always_told(tmp_path: Path) -> None:
    submit(tmp_path, ada="pass")
    first, second = (workshop("check", "--path", "ada").output for _ in range(2))
    assert "--seed" in first and first != second
    assert (
        workshop("check", "--path", "ada", "--seed", "5").output
        == workshop("check", "--path", "ada", "--seed", "5").output
    )
    assert 0 <= screen.fresh_seed() < 2**31


def test_an_interrupted_check_leaves_quietly(tmp_path: Path) -> None:
    submit(tmp_path, ada="interrupt")
    result = workshop("check", "--path", "ada")
    assert result.exit_code == 130 and "Interrupted." in result.output


# grade


def test_grade_writes_the_class_and_every_student(tmp_path: Path) -> None:
    submit(tmp_path / "work", ada="pass", bo="fail", **{"zoë müller": "pass"})
    result = workshop("grade", "work", "--seed", "42")
    assert result.exit_code == 0, result.output
    for line in (
        "ada: 100 / 100  passed",
        "bo: 93 / 100  failed",
        "seed 42",
        "isolation: isolated (glass)",
        "grades: open class.html",
    ):
        assert line in result.output
    assert any(f"[{k}/3] ada: 100" in result.output for k in (1, 2, 3)), "plain lines where there is no terminal"
    written = {str(p.relative_to("grades")) for p in Path("grades").rglob("*") if p.is_file()}
    students = {f"students/{name}.{kind}" for name in ("ada", "bo", "zoë müller") for kind in ("json", "html")}
    assert {name.replace(os.sep, "/") for name in written} == students | {
        *("class.json", "class.csv", "class.html", "ledger.sqlite3")
    }
    data = json.loads(Path("grades/class.json").read_text(encoding="utf-8"))
    assert (data["seed"], data["kit_version"], data["track"]) == (42, __version__, "gpt")
    assert [s["student"] for s in data["submissions"]] == ["ada", "bo", "zoë müller"]
    with Path("grades/class.csv").open(encoding="utf-8", newline="") as stream:
        assert [row["score"] for row in csv.DictReader(stream)] == ["100", "93", "100"]


def test_the_same_seed_gives_the_same_bytes_for_any_number_of_jobs(tmp_path: Path) -> None:
    submit(tmp_path / "work", ada="pass", bo="fail", cy="raise", di="forbid")
    for out, jobs in (("one", 1), ("four", 4)):
        workshop("grade", "work", "--seed", "7", "--jobs", str(jobs), "--out", out)
    files = sorted(p.relative_to("one") for p in Path("one").rglob("*") if p.is_file() and p.suffix != ".sqlite3")
    assert len(files) == 11
    for name in files:
        assert ("one" / name).read_bytes() == ("four" / name).read_bytes()


def test_grade_json_prints_class_json_alone(tmp_path: Path) -> None:
    submit(tmp_path / "work", ada="pass")
    result = workshop("grade", "work", "--json", "--out", "x")
    assert result.stdout == Path("x/class.json").read_text(encoding="utf-8")
    assert "[1/1] ada" in result.stderr and "seed" in result.stderr


def test_what_we_could_not_grade_is_listed_and_is_the_status(tmp_path: Path) -> None:
    submit(tmp_path / "work", ada="pass", bo="raise")
    result = workshop("grade", "work")
    assert result.exit_code == 3 and "Not graded, our fault: bo:" in result.output and "crystal ball" in result.output
    assert json.loads(Path("grades/students/ada.json").read_text(encoding="utf-8"))["score"] == 100


def test_an_earlier_grade_survives_our_failure(tmp_path: Path) -> None:
    submit(tmp_path / "work", ada="pass")
    workshop("grade", "work")
    (tmp_path / "work" / "ada" / "behave.txt").write_text("ours", encoding="utf-8")
    result = workshop("grade", "work")
    assert result.exit_code == 3 and "An earlier grade stays: ada" in result.output
    assert json.loads(Path("grades/students/ada.json").read_text(encoding="utf-8"))["verdict"] == "passed"


def test_limits_are_passed_on(tmp_path: Path) -> None:
    submit(tmp_path / "work", ada="pass")
    workshop("grade", "work", "--timeout", "2.5", "--memory", "2048", "--seed", "1")
    assert "grade ada seed 1 limits 2.5/2048 parts None" in fake_grader.log


def test_unfit_paths_are_usage_errors_that_say_what_to_do(tmp_path: Path) -> None:
    work = submit(tmp_path / "work", ada="pass")
    (tmp_path / "file").touch()
    for words, hint in (
        (["nowhere"], "is not there"),
        (["work", "--out", "file"], "is a file"),
        (["work", "--out", "work/grades"], "would be graded"),
        (["work", "--out", "file/deeper"], "cannot be written"),
        (["work", "--track", "gtp"], "no track called"),
    ):
        result = workshop("grade", *words)
        assert result.exit_code == 2 and hint in " ".join(result.output.split()), result.output
        assert "Traceback" not in result.output
    assert [p.name for p in work.iterdir()] == ["ada"]


def test_a_full_disk_ends_the_run_with_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from autograder.reports.folder import GradesFolder

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    submit(tmp_path / "work", ada="pass")
    monkeypatch.setattr(GradesFolder, "write_student", full)
    result = workshop("grade", "work")
    assert result.exit_code == 3 and "No space left on device" in result.output


def test_a_terminal_gets_a_bar_with_the_time_that_remains(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    submit(tmp_path / "work", ada="pass", bo="fail")
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    out = workshop("grade", "work").output
    assert "0/2" in out and ("-:--:--" in out or "0:00:00" in out) and "[1/2]" not in out
    monkeypatch.setenv("TERM", "dumb")
    assert "[1/2]" in workshop("grade", "work").output


def test_ctrl_c_in_the_middle_keeps_what_is_done(tmp_path: Path) -> None:
    work = submit(tmp_path / "work", ada="pass", bo="stay", cy="pass")
    command = [sys.executable, "-u", "-c", DRIVER, "grade", str(work), "--jobs", "1", "--out", str(tmp_path / "g")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment()) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith(b"[1/3] ada"):
                process.send_signal(signal.SIGINT)
                break
        rest = process.stdout.read()
        assert process.wait(60) == 130, rest
    assert b"Interrupted: 1 of 3 graded" in rest and b"Traceback" not in rest
    data = json.loads((tmp_path / "g" / "class.json").read_text(encoding="utf-8"))
    assert [s["student"] for s in data["submissions"]] == ["ada"]
    assert "Interrupted:" in (tmp_path / "g" / "class.html").read_text(encoding="utf-8")
    assert (tmp_path / "g" / "students" / "ada.html").exists()


# any terminal


def test_a_terminal_that_writes_only_ascii_is_served(tmp_path: Path) -> None:
    work = submit(tmp_path / "work", **{"zoë": "fail"})
    done = shell("grade", work, "--out", tmp_path / "g", PYTHONIOENCODING="ascii")
    assert done.returncode == 0 and done.stdout.isascii() and b"zo?: 93 / 100" in done.stdout and not done.stderr
    done = shell("check", "--path", work / "zoë", PYTHONIOENCODING="ascii")
    assert done.returncode == 1 and b"x CausalSelfAttention" in done.stdout and not done.stderr


@pytest.mark.skipif(os.name != "posix", reason="closes a pipe as POSIX shells do")
@pytest.mark.parametrize(
    "words",
    [["grade", "work", "--out", "g"], ["grade", "work", "--out", "g", "--json"], ["check", "--path", "work/ada"]],
)
def test_a_reader_that_leaves_early_is_no_error(tmp_path: Path, words: list[str]) -> None:
    submit(tmp_path / "work", ada="pass", bo="fail")
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-c", DRIVER, *words]
    done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, env=environment(), timeout=60, check=False)
    os.close(writing)
    assert done.returncode == 0 and b"Traceback" not in done.stderr and b"Exception" not in done.stderr
    if words[0] == "grade":
        assert (tmp_path / "g" / "class.html").exists() and (tmp_path / "g" / "students" / "bo.json").exists()


def test_a_console_whose_reader_left_goes_on_in_silence(tmp_path: Path) -> None:
    with (tmp_path / "out").open("w") as stream:
        console = screen.Screen(stream)
        console.file = Left(stream.fileno())
        console.print("one")
        console.print("two")
        assert console.quiet


def test_plain_text_for_a_reader_that_left_is_dropped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with (tmp_path / "out").open("w") as stream:
        monkeypatch.setattr(sys, "stdout", Left(stream.fileno()))
        screen.write_plain("{}")
    monkeypatch.setattr(sys, "stdout", Left(None))
    screen.write_plain("{}")


def test_help_shows_examples_and_keeps_its_brackets() -> None:
    top, check, grade = (workshop(*words, "--help") for words in ([], ["check"], ["grade"]))
    assert all(result.exit_code == 0 for result in (top, check, grade))
    assert "workshop check attention " in top.output
    assert (
        "[PART]" in check.output and "[[" not in check.output and "workshop check mlp block --verbose " in check.output
    )
    assert "workshop grade submissions --json > all.json" in grade.output
    assert all(len(line) <= 80 for result in (top, check, grade) for line in result.output.splitlines())


def test_help_and_version_import_nothing_heavy() -> None:
    code = (
        "import sys\nfrom autograder.cli import main\n"
        "try:\n    main()\nexcept SystemExit as end:\n    assert not end.code\n"
        "heavy = {'torch', 'numpy', 'jinja2', 'autograder.grading', 'autograder.sandbox'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    for word in ("--help", "--version"):
        command = [sys.executable, "-c", code, word]
        done = subprocess.run(command, capture_output=True, env=environment(), timeout=60, check=False)
        assert done.returncode == 0, done.stderr


def test_the_version_is_told() -> None:
    assert workshop("--version").output == f"workshop {__version__}\n"
    done = subprocess.run([sys.executable, "-m", "autograder", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"workshop {__version__}\n" and done.stderr == ""


def test_no_arguments_show_the_help() -> None:
    assert "Examples:" in workshop().output


# isolation


def test_grade_refuses_where_student_code_cannot_be_isolated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    submit(tmp_path / "work", ada="pass", bo="pass")
    monkeypatch.setattr(fake_grader.Nursery, "isolation", fake_grader.Isolation(False))
    refused = workshop("grade", "work")
    assert refused.exit_code == 2
    assert "Nothing was graded" in refused.output and "--trust-students" in refused.output and "glass" in refused.output
    assert not any(line.startswith("grade ") for line in fake_grader.log)
    assert not Path("grades/class.json").exists()
    trusting = workshop("grade", "work", "--trust-students")
    assert trusting.exit_code == 0 and "ada: 100 / 100" in trusting.output


def test_one_s_own_work_is_checked_with_or_without_isolation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    submit(tmp_path, ada="pass")
    monkeypatch.setattr(fake_grader.Nursery, "isolation", fake_grader.Isolation(False))
    assert workshop("check", "--path", "ada").exit_code == 0
