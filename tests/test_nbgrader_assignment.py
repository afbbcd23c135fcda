"""Claims about the nbgrader assignment: one source, the same bytes, hidden where it must be, a plain number last."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest
from answers import changed, solutions
from nbgrader_course import TRACK, answers, book_at, cell_named, copy_of, solved
from sample_reports import NO_SCALE, report, ungradable
from typer.testing import CliRunner, Result

from autograder.authoring.assignment import assignment_text
from autograder.cli import app
from autograder.jupyter import score, scoring
from autograder.jupyter.showing import can_press
from autograder.sandbox import Nursery
from autograder.verdict import Report

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture
def course(released_course: Path) -> Path:
    """A course in which nbgrader has made what is handed out. Not to be changed."""
    return released_course


def build(course: Path, *words: str) -> Result:
    return CliRunner().invoke(app, ["build", "--nbgrader", str(course), *words])


# the source


def test_the_same_solutions_give_the_same_bytes_and_a_current_course_is_left_alone(tmp_path: Path) -> None:
    first = build(tmp_path)
    file = tmp_path / "source" / "gpt" / "model.ipynb"
    assert first.exit_code == 0 and "nbgrader generate_assignment gpt" in first.stdout
    assert file.read_text(encoding="utf-8") == assignment_text(ROOT, TRACK)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert "is current" in build(tmp_path).stdout and build(tmp_path, "--check").exit_code == 0
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_every_cell_has_an_id_of_its_own_a_role_and_each_part_its_points(course: Path) -> None:
    book = book_at(course / "source" / "gpt" / "model.ipynb")
    about = [cell["metadata"]["nbgrader"] for cell in book["cells"]]
    names = [entry["grade_id"] for entry in about]
    assert len(set(names)) == len(names) and all(re.fullmatch(r"[A-Za-z0-9_-]+", name) for name in names)
    assert all(
        entry["schema_version"] == 3 and {"grade", "solution", "locked", "task"} <= set(entry) for entry in about
    )
    points = {entry["grade_id"]: entry["points"] for entry in about if entry["grade"]}
    assert points == {f"{part.name}-score": part.max_score for part in TRACK.parts}
    assert all(entry["locked"] for entry in about if not entry["solution"])
    assert [cell["id"] for cell in book["cells"]] == names


def test_what_is_handed_out_holds_the_tasks_and_no_answer_and_no_hidden_line(course: Path) -> None:
    text = (course / "release" / "gpt" / "model.ipynb").read_text(encoding="utf-8")
    book = book_at(course / "release" / "gpt" / "model.ipynb")
    assert "HIDDEN" not in text and "SOLUTION" not in text
    for line in ("masked_fill", "self.c_fc = ", "vocab_size: int"):
        assert line not in text
    assert cell_named(book, "attention-score")["source"] == 'score("attention")'
    assert "# TODO: refuse an n_embd" in cell_named(book, "attention-answer")["source"]
    assert "# Ours takes 6 lines." in cell_named(book, "attention-answer")["source"]
    assert not any("from block import" in cell["source"] for cell in book["cells"])
    assert "HIDDEN" in cell_named(book_at(course / "source" / "gpt" / "model.ipynb"), "attention-score")["source"]


def test_a_notebook_that_is_not_what_we_would_write_is_kept_where_nbgrader_does_not_hand_it_out(
    course: Path, tmp_path: Path
) -> None:
    mine = copy_of(course, tmp_path / "mine")
    file = mine / "source" / "gpt" / "model.ipynb"
    file.write_text("an essay question of my own", encoding="utf-8")
    assert build(mine, "--check").exit_code == 1 and file.read_text(encoding="utf-8").startswith("an essay")
    told = build(mine).stdout
    assert str(mine / "gpt-model.before-build-1.ipynb") in told
    assert (mine / "gpt-model.before-build-1.ipynb").read_text(encoding="utf-8") == "an essay question of my own"
    assert [path.name for path in file.parent.iterdir()] == ["model.ipynb"]
    file.write_text("another", encoding="utf-8")
    assert "before-build-2" in build(mine).stdout


def test_settings_of_ones_own_stay_and_what_they_lack_is_said(tmp_path: Path) -> None:
    (tmp_path / "nbgrader_config.py").write_text("c = get_config()\n", encoding="utf-8")
    told = build(tmp_path).stdout
    assert "c.GenerateFeedback.preprocessors = [" in told and "is yours" in told
    assert (tmp_path / "nbgrader_config.py").read_text(encoding="utf-8") == "c = get_config()\n"
    fresh = build(tmp_path / "fresh").stdout
    assert "is yours" not in fresh and "ClearHiddenTests" in (tmp_path / "fresh" / "nbgrader_config.py").read_text(
        "utf-8"
    )


@pytest.mark.parametrize("name", ["week+1", "../out", "a/b", "", ".hidden"])
def test_a_name_that_nbgrader_could_not_use_is_refused_and_nothing_is_written(tmp_path: Path, name: str) -> None:
    result = build(tmp_path / "course", "--assignment", name)
    assert result.exit_code == 2 and "is no name for an assignment" in result.stderr
    assert not list(tmp_path.iterdir())


def test_an_assignment_of_another_course_says_so_in_each_of_its_commands(tmp_path: Path) -> None:
    told = build(tmp_path, "--assignment", "heads", "--track", "foundations")
    assert told.exit_code == 0, told.output
    book = book_at(tmp_path / "source" / "heads" / "model.ipynb")
    assert cell_named(book, "head-score")["source"].endswith('score("head", track="foundations")')
    assert 'hint("head", track="foundations")' in cell_named(book, "intro")["source"]
    (tmp_path / "source" / "heads" / "model.ipynb").write_text("{}", encoding="utf-8")
    stale = build(tmp_path, "--assignment", "heads", "--track", "foundations", "--check")
    assert "--assignment heads --track foundations" in stale.stdout


def test_an_assignment_can_be_of_optional_parts(tmp_path: Path) -> None:
    told = build(tmp_path, "--assignment", "week4", "--parts", "generation,training")
    assert told.exit_code == 0, told.output
    book = book_at(tmp_path / "source" / "week4" / "model.ipynb")
    about = [cell["metadata"]["nbgrader"] for cell in book["cells"]]
    graded = {entry["grade_id"]: entry["points"] for entry in about if entry["grade"]}
    assert graded == {"training-score": 50.0, "generation-score": 30.0}
    assert "Write the two parts below" in cell_named(book, "intro")["source"]
    assert "def train_step" in cell_named(book, "training-answer")["source"]
    refused = build(tmp_path, "--assignment", "week5", "--parts", "trainig")
    assert refused.exit_code == 2 and "Did you mean training?" in refused.stderr
    assert CliRunner().invoke(app, ["build", "--parts", "training"]).exit_code == 2


def test_an_assignment_without_a_course_is_a_usage_error() -> None:
    result = CliRunner().invoke(app, ["build", "--assignment", "ps1"])
    assert result.exit_code == 2 and "--nbgrader COURSE_DIR" in result.stderr


# score


@pytest.fixture(autouse=True)
def here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("NBGRADER_EXECUTION", raising=False)
    return tmp_path


def run(monkeypatch: pytest.MonkeyPatch, *cells: str) -> None:
    monkeypatch.setattr(scoring, "history", lambda: list(cells))


@pytest.fixture
def warm(nursery: Nursery, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let `score` use the sandbox that is there; it starts one of its own in two seconds."""
    monkeypatch.setattr(scoring, "_kept_warm", lambda: nursery)


@pytest.mark.usefixtures("warm")
def test_a_part_scores_what_the_report_says_as_a_plain_float_and_stderr_stays_empty(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = changed("attention.py", " / math.sqrt(self.head_dim)", "")["attention.py"]
    run(monkeypatch, "raise ValueError", wrong, solutions()["mlp.py"])
    found = [score("attention"), score("MLP")]
    told = capsys.readouterr()
    assert found == [23.0, 10.0] and all(type(value) is float for value in found)
    assert "not divided by sqrt(head_dim)" in told.out and told.err == ""


@pytest.mark.usefixtures("warm")
def test_the_class_bodies_that_nbgrader_hands_out_are_unwritten_and_spoil_no_other_part(
    course: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    released = book_at(course / "release" / "gpt" / "model.ipynb")
    stub = cell_named(released, "config-answer")["source"]
    assert "    raise NotImplementedError()" in stub
    run(monkeypatch, stub, *(text for name, text in answers(course).items() if name != "config"))
    assert score("config") == 0.0 and "not attempted" in capsys.readouterr().out
    assert score("gpt") == 35.0, "one's own part keeps its points, whole model and all"


def test_the_sandbox_lasts_as_long_as_the_kernel_only_while_nbgrader_grades(monkeypatch: pytest.MonkeyPatch) -> None:
    assert scoring._kept_warm() is None
    monkeypatch.setenv("NBGRADER_EXECUTION", "autograde")
    try:
        first = scoring._kept_warm()
        assert first is not None and first is scoring._kept_warm()
    finally:
        scoring._warm.cache_clear()


def test_a_part_that_is_not_there_scores_nothing_and_a_word_that_is_none_is_an_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run(monkeypatch, "x = 1")
    assert score("mlp") == 0.0 and "There is no MLP here: 0 points." in capsys.readouterr().out
    with pytest.raises(ValueError, match="Did you mean attention"):
        score("attenton")


def test_points_never_leave_their_range(monkeypatch: pytest.MonkeyPatch) -> None:
    run(monkeypatch, solutions()["mlp.py"])
    given: list[Report] = []
    monkeypatch.setattr(scoring, "grade_gathered", lambda *_: given[-1])
    part = report().parts["mlp"]
    for points, expected in ((1e9, 10.0), (-3.0, 0.0), (float("inf"), 10.0), (3, 3.0)):
        changed_part = {**vars(part), "score": points}
        given.append(report(parts={**report().parts, "mlp": type(part)(**changed_part)}))
        assert score("mlp") == expected


def test_our_failure_is_no_zero_nbgrader_gets_no_number_at_all(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run(monkeypatch, solutions()["mlp.py"])
    monkeypatch.setattr(scoring, "grade_gathered", lambda *_: ungradable("ada"))
    assert score("mlp") == 0.0 and "no space left" in capsys.readouterr().out  # at a desk, a sentence will do
    ended: list[int] = []

    def leave(status: int) -> None:
        ended.append(status)
        raise SystemExit(status)

    monkeypatch.setenv("NBGRADER_EXECUTION", "autograde")
    monkeypatch.setattr(os, "_exit", leave)
    with pytest.raises(SystemExit):
        score("mlp")
    assert ended == [1]
    monkeypatch.setattr(scoring, "grade_gathered", interrupted)
    with pytest.raises(SystemExit):
        score("mlp")


def interrupted(*_: object) -> Report:
    raise KeyboardInterrupt


def test_nobody_is_there_to_press_a_button_while_nbgrader_grades(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NBGRADER_EXECUTION", "autograde")
    assert not can_press()


def test_a_wrong_answer_in_the_notebook_is_graded_by_its_folder_as_well(course: Path, tmp_path: Path) -> None:
    """The same notebook, given to `workshop grade` as a plain hand-in."""
    from autograder.submission import read_submission

    work = tmp_path / "ada"
    work.mkdir()
    (work / "model.ipynb").write_text(json.dumps(solved(course)), encoding="utf-8")
    submission = read_submission(work, TRACK)
    assert submission.verdict is None and set(submission.sources) == set(TRACK.classes)


def test_a_finding_is_shown_under_the_cell(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    run(monkeypatch, solutions()["attention.py"])
    monkeypatch.setattr(scoring, "grade_gathered", lambda *_: report("ada", NO_SCALE))
    assert score("attention") < 30 and "sqrt(head_dim)" in capsys.readouterr().out
