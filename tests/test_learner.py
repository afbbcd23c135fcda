"""Claims about `workshop start`, `status`, `hint`, `reset`, and the progress that `check` notes."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import fake_grader
import pytest
from sample_reports import NO_SCALE, report
from typer.testing import CliRunner, Result

from autograder import stubs
from autograder.cli import app
from autograder.kit_mark import marked
from autograder.progress import FILE_NAME, PartProgress, Progress, ProgressFile
from autograder.track import load_track
from autograder.verdict import Verdict

FILES = ("config.py", "attention.py", "mlp.py", "block.py", "gpt.py")
EXERCISES = Path(__file__).parents[1] / "exercises"


@pytest.fixture(autouse=True)
def here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def workshop(*words: str, answer: str = "") -> Result:
    return CliRunner().invoke(app, list(words), input=answer)


def known(folder: Path) -> Progress:
    return ProgressFile(folder, "gpt").read()


def remember(folder: Path, progress: Progress) -> None:
    ProgressFile(folder, "gpt").update(lambda _: progress)


@pytest.fixture
def mine(here: Path) -> Path:
    assert workshop("start", "mine").exit_code == 0
    os.chdir("mine")
    return here / "mine"


# start


def test_start_writes_the_stubs_and_says_what_is_next(here: Path) -> None:
    result = workshop("start")
    assert result.exit_code == 0 and "workshop watch" in result.output
    assert all((here / "my_gpt" / name).read_bytes() == marked((EXERCISES / name).read_bytes()) for name in FILES)


def test_start_overwrites_nothing(mine: Path) -> None:
    (mine / "mlp.py").write_text("my own work", encoding="utf-8")
    (mine / "gpt.py").unlink()
    result = workshop("start", ".")
    assert result.exit_code == 0 and "Written to .: gpt.py" in result.output and "Left as they are" in result.output
    assert (mine / "mlp.py").read_text(encoding="utf-8") == "my own work"


def test_start_where_nothing_can_be_written_is_told(here: Path) -> None:
    (here / "file").touch()
    result = workshop("start", "file")
    assert result.exit_code == 2 and "cannot be written" in result.output and "Traceback" not in result.output


def test_a_kit_without_stubs_says_so(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stubs.autograder, "__file__", str(here / "site-packages" / "autograder" / "__init__.py"))
    assert "Install it again" in workshop("start").output
    packed = here / "site-packages" / "autograder" / "_exercises"
    packed.mkdir(parents=True)
    (packed / "gpt.py").touch()
    assert stubs.find_stubs() == packed.resolve()
    assert "There is no stub of config.py" in workshop("start").output


# status


def test_status_shows_every_part_in_80_columns_without_colour(mine: Path) -> None:
    progress = Progress().with_report(report("ada", NO_SCALE)).with_hint("attention", "scale", 1)
    remember(mine, progress)
    result = workshop("status")
    lines = result.output.splitlines()
    assert result.exit_code == 0 and "\x1b" not in result.output and all(len(line) <= 80 for line in lines)
    (attention,) = (line.split() for line in lines if "attention" in line)
    assert attention[:9] == [">", "attention", "23", "/", "30", "✗", "failed", "1", "1"]
    (mlp,) = (line for line in lines if line.split()[0] == "mlp")
    assert "10 / 10" in mlp and "✓ passed" in mlp and ":" in mlp
    assert lines[-2] == "93 of 100 points, 4 of 5 parts passed" and lines[-1].startswith("* optional")


def test_status_of_a_new_folder_says_how_to_begin(mine: Path) -> None:
    result = workshop("status")
    assert result.exit_code == 0 and "not checked" in result.output and "workshop check" in result.output
    assert not (mine / FILE_NAME).exists()


def test_status_survives_what_somebody_wrote_into_the_file(mine: Path) -> None:
    odd = PartProgress(points=1e5, attempts=10**30, verdict=Verdict.PASSED, first_passed="\x1b[2Jsoon")
    remember(mine, Progress({"mlp": odd}))
    result = workshop("status")
    assert result.exit_code == 0 and "\x1b" not in result.output and "10 of 100 points" in result.output
    (mine / FILE_NAME).write_text("{", encoding="utf-8")
    assert "was damaged" in workshop("status").output
    (mine / FILE_NAME).write_text('{"schema": 9}', encoding="utf-8")
    assert "newer kit" in workshop("status").output


def test_a_path_that_is_no_folder_is_a_usage_error(mine: Path) -> None:
    for words in (["status", "--path", "gone"], ["hint", "--path", "mlp.py"], ["watch", "--path", "gone"]):
        result = workshop(*words)
        assert result.exit_code == 2 and "--path" in result.output


# hint


def test_hint_goes_up_one_rung_at_a_time_and_is_recorded(mine: Path) -> None:
    first, second = workshop("hint", "mlp"), workshop("hint", "MLP")
    assert "(hint 1 of 3: idea)" in first.output and "(hint 2 of 3: shapes)" in second.output
    assert "More: workshop hint mlp" in first.output
    assert all(len(line) <= 80 for line in (first.output + second.output).splitlines())
    assert known(mine).part("mlp").hints == {"general": (1, 2)}
    third, again = workshop("hint", "mlp"), workshop("hint", "mlp")
    assert "(hint 3 of 3: steps)" in third.output == again.output and "More" not in third.output
    assert known(mine).part("mlp").points == 0 and known(mine).part("mlp").hints_used == 3


def test_hint_without_a_part_is_about_the_first_open_one_and_what_went_wrong(mine: Path) -> None:
    assert "config, the part as a whole" in workshop("hint").output
    remember(mine, Progress().with_report(report("ada", NO_SCALE)))
    assert "attention, the scale of the scores  (hint 1 of 3" in workshop("hint").output
    assert "(hint 3 of 3" in workshop("hint", "--rung", "3").output
    assert known(mine).part("attention").hints == {"scale": (1, 3)}


def test_hint_about_a_topic_and_about_one_that_there_is_not(mine: Path) -> None:
    assert "gpt, the loss" in workshop("hint", "gpt", "--about", "loss").output
    assert "(hint 2 of 3" in workshop("hint", "gpt", "--about", "Loss").output
    wrong = workshop("hint", "gpt", "--about", "los")
    assert wrong.exit_code == 2 and "Did you mean loss?" in wrong.output and "tying" in wrong.output
    assert workshop("hint", "gtp").exit_code == 2 and workshop("hint", "gpt", "--rung", "4").exit_code == 2


def test_a_course_without_hints_says_so(mine: Path) -> None:
    from test_track import GOOD

    (mine / "tiny.toml").write_text(GOOD, encoding="utf-8")
    result = workshop("hint", "mlp", "--track", "tiny.toml")
    assert result.exit_code == 2 and "no hints for mlp" in result.output
    (mine / "tiny_hints.toml").write_text("schema = 3", encoding="utf-8")
    assert workshop("hint", "mlp", "--track", "tiny.toml").exit_code == 2


def test_a_hint_elsewhere_leaves_no_file_behind(here: Path) -> None:
    result = workshop("hint", "mlp")
    assert result.exit_code == 0 and "Not noted" in result.output and not list(here.iterdir())


# reset


def test_reset_asks_and_keeps_what_was_written(mine: Path) -> None:
    (mine / "attention.py").write_text("my own work", encoding="utf-8")
    refused = workshop("reset", "attention", answer="n\n")
    assert refused.exit_code == 1 and "Nothing was changed" in refused.output
    assert (mine / "attention.py").read_text(encoding="utf-8") == "my own work"
    agreed = workshop("reset", "attention", answer="y\n")
    assert agreed.exit_code == 0 and "attention.before-reset-1.txt" in agreed.output
    assert (mine / "attention.py").read_bytes() == marked((EXERCISES / "attention.py").read_bytes())
    assert (mine / "attention.before-reset-1.txt").read_text(encoding="utf-8") == "my own work"


def test_a_second_reset_keeps_both(mine: Path) -> None:
    for text in ("first", "second"):
        (mine / "mlp.py").write_text(text, encoding="utf-8")
        assert workshop("reset", "mlp", "--yes").exit_code == 0
    kept = [(mine / f"mlp.before-reset-{number}.txt").read_text(encoding="utf-8") for number in (1, 2)]
    assert kept == ["first", "second"]


def test_reset_of_an_untouched_stub_or_of_a_deleted_file(mine: Path) -> None:
    assert "is the stub already" in workshop("reset", "mlp", "--yes").output
    (mine / "mlp.py").unlink()
    assert workshop("reset", "mlp").exit_code == 0
    assert (mine / "mlp.py").read_bytes() == marked((EXERCISES / "mlp.py").read_bytes())
    assert not list(mine.glob("*.txt"))


def test_reset_is_noted_and_forgets_no_points(mine: Path) -> None:
    remember(mine, Progress().with_report(report()))
    (mine / "mlp.py").write_text("x", encoding="utf-8")
    workshop("reset", "mlp", "--yes")
    assert (known(mine).part("mlp").points, known(mine).part("mlp").verdict) == (10, None)


def test_reset_leaves_what_it_cannot_keep(mine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (mine / "mlp.py").unlink()
    (mine / "mlp.py").symlink_to(mine / "gpt.py")
    assert "not a plain file" in workshop("reset", "mlp", "--yes").output
    (mine / "gpt.py").write_text("my own work", encoding="utf-8")

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("autograder.stubs.tempfile.mkstemp", full)
    result = workshop("reset", "gpt", "--yes")
    assert result.exit_code == 2 and "No space left" in result.output
    assert (mine / "gpt.py").read_text(encoding="utf-8") == "my own work" and not list(mine.glob("*.txt"))


def test_reset_without_links_copies(mine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*_: object) -> None:
        raise OSError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", none)
    (mine / "mlp.py").write_text("my own work", encoding="utf-8")
    assert workshop("reset", "mlp", "--yes").exit_code == 0
    assert (mine / "mlp.before-reset-1.txt").read_text(encoding="utf-8") == "my own work"


def test_reset_of_a_part_in_the_single_file_is_refused(here: Path) -> None:
    (here / "model.py").write_text("my own work", encoding="utf-8")
    result = workshop("reset", "mlp", "--yes")
    assert result.exit_code == 2 and "model.py" in result.output and not (here / "mlp.py").exists()


def test_the_old_file_is_no_part_of_the_answer(mine: Path) -> None:
    from autograder.submission import read_submission

    (mine / "mlp.py").write_text("def (", encoding="utf-8")
    workshop("reset", "mlp", "--yes")
    workshop("hint", "mlp")
    submission = read_submission(mine, load_track(), "ada")
    assert sorted(submission.files) == sorted(part.file for part in load_track().every)
    assert not submission.warnings and not submission.explanations


# check


@pytest.fixture
def stand_ins(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, module in fake_grader.install({}).items():
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setattr(fake_grader.Nursery, "broken", False)


@pytest.mark.usefixtures("stand_ins")
def test_check_notes_what_was_reached_in_a_folder_with_work(mine: Path) -> None:
    (mine / "behave.txt").write_text("fail", encoding="utf-8")
    assert workshop("check").exit_code == 1
    assert known(mine).part("attention").verdict is Verdict.FAILED and known(mine).passed("mlp")
    (mine / "behave.txt").write_text("ours", encoding="utf-8")
    assert workshop("check").exit_code == 3
    assert known(mine).part("attention").verdict is Verdict.FAILED


@pytest.mark.usefixtures("stand_ins")
def test_check_leaves_no_file_where_it_is_asked_not_to_or_where_no_work_is(mine: Path, here: Path) -> None:
    (mine / "behave.txt").write_text("pass", encoding="utf-8")
    assert workshop("check", "--no-progress").exit_code == 0
    fake_grader.submit(here, ada="pass")
    assert workshop("check", "--path", str(here / "ada")).exit_code == 0
    assert not (mine / FILE_NAME).exists() and not (here / "ada" / FILE_NAME).exists()


@pytest.mark.usefixtures("stand_ins")
def test_check_goes_on_where_progress_cannot_be_noted(mine: Path) -> None:
    (mine / "behave.txt").write_text("pass", encoding="utf-8")
    (mine / FILE_NAME).mkdir()
    result = workshop("check")
    assert result.exit_code == 0 and "not noted" in result.stderr and "Total  100 / 100" in result.stdout
    (mine / FILE_NAME).rmdir()
    (mine / FILE_NAME).write_text("damaged", encoding="utf-8")
    result = workshop("check", "--json")
    assert result.exit_code == 0 and result.stdout.startswith("{") and "was damaged" in result.stderr


# watch


def test_watch_hands_over_what_was_asked_and_tells_where_it_stands(mine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: dict[str, object] = {}

    def stand_in(folder: Path, *_: object, **how: object) -> Progress:
        asked.update(how, folder=folder)
        return Progress().with_report(report())

    monkeypatch.setattr("autograder.watch.watch_folder", stand_in)
    result = workshop("watch", "MLP", "--seed", "9")
    assert result.exit_code == 0 and (asked["part"], asked["seed"], asked["folder"]) == ("mlp", 9, Path())
    assert "100 of 100 points" in result.output and "workshop status" in result.output
    workshop("watch")
    assert asked["part"] is None and isinstance(asked["seed"], int)

    def interrupted(*_: object, **__: object) -> Progress:
        raise KeyboardInterrupt

    monkeypatch.setattr("autograder.watch.watch_folder", interrupted)
    assert workshop("watch").exit_code == 130


def test_help_of_each_command_fits_80_columns_and_names_its_purpose() -> None:
    top = workshop("--help").output
    for name in ("start", "watch", "hint", "status", "reset"):
        assert f"\n  {name} " in top
        text = workshop(name, "--help").output
        assert "Usage: " in text and all(len(line) <= 80 for line in text.splitlines()), name
