"""Claims about `workshop export`: each form is as published, no name breaks it, and our failure is no zero."""

from __future__ import annotations

import csv
import io
import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from published_formats import gradescope_problems, junit_problems
from sample_reports import HOSTILE, NO_SCALE, PORTABLE, SCALE, report, sample_class, ungradable
from typer.testing import CliRunner, Result

from autograder.classroom.late import Late
from autograder.cli import app
from autograder.reports.folder import GradesFolder
from autograder.reports.gradebooks import cell_text, text_cell
from autograder.reports.graded import read_class
from autograder.reports.html import ClassMeta
from autograder.track import load_track
from autograder.verdict import Report, Verdict

AWKWARD = [
    'Doe, "Jane"',
    "two\nlines",
    "=cmd()",
    "+1-555",
    "-2+3",
    "@SUM(A1)",
    "＝全角",
    "'=quoted",
    "''quoted",
    " =blank",
    "Ærøskøbing 김민준 🙂",
    "a;b|c",
]


def late(report: Report) -> Late:
    return Late(
        "2025-03-15T10:00:00+01:00", "a test", "2025-03-14T23:59:00+01:00", 10.02, 7.5, report.score - 7.5, "one day"
    )


def graded(folder: Path, reports: Sequence[Report], marks: dict[str, Late] | None = None) -> Path:
    """Write a class as `workshop grade` does."""
    grades = GradesFolder(folder, [one.student for one in reports])
    grades.prepare()
    for one in reports:
        grades.write_student(one, (marks or {}).get(one.student))
    grades.write_class(reports, ClassMeta("gpt", "0.1.0", 5, PORTABLE), marks)
    return folder


def workshop(*words: object) -> Result:
    return CliRunner().invoke(app, ["export", *map(str, words)])


def said(result: Result) -> str:
    """Return what was printed, as one line: a usage error is wrapped and framed."""
    return " ".join(result.output.replace("│", " ").split())


def table(path: Path) -> list[list[str]]:
    return list(csv.reader(io.StringIO(path.read_bytes().decode(), newline="")))


@pytest.fixture(scope="module")
def graded_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return graded(tmp_path_factory.mktemp("class") / "grades", sample_class())


@pytest.fixture
def class_folder(graded_once: Path, tmp_path: Path) -> Path:
    return shutil.copytree(graded_once, tmp_path / "grades")


@pytest.fixture
def awkward(tmp_path: Path) -> Path:
    return graded(tmp_path / "grades", [report(name, NO_SCALE) for name in AWKWARD])


# Gradebooks


@pytest.mark.parametrize(("form", "file", "column"), [("canvas", "canvas.csv", 3), ("moodle", "moodle.csv", 0)])
def test_every_awkward_name_comes_back_from_a_gradebook_file_and_none_is_a_formula(
    awkward: Path, form: str, file: str, column: int
) -> None:
    assert workshop(form, awkward).exit_code == 0
    rows = table(awkward / file)
    assert len({len(row) for row in rows}) == 1
    cells = [row[column] for row in rows[(2 if form == "canvas" else 1) :]]
    assert sorted(map(cell_text, cells)) == sorted(AWKWARD)
    for row in rows:
        for cell in row:
            assert not cell.lstrip().startswith(("=", "+", "-", "@", "＝"))


@given(st.text(st.characters(exclude_categories=["C", "Z", "M"]) | st.sampled_from("='+-@ \n"), max_size=20))
def test_a_cell_of_text_is_never_a_formula_and_can_be_undone(text: str) -> None:
    assert not text_cell(text).lstrip().startswith(("=", "+", "-", "@"))
    assert cell_text(text_cell(text)) == text


def test_canvas_gets_its_columns_the_points_possible_and_an_empty_cell_for_no_grade(class_folder: Path) -> None:
    result = workshop("canvas", class_folder, "--assignment", "GPT, part 1")
    assert result.exit_code == 3
    assert "No grade (our fault; not a zero): unlucky" in result.output
    rows = table(class_folder / "canvas.csv")
    assert rows[0] == ["Student", "ID", "SIS User ID", "SIS Login ID", "Section", "GPT, part 1"]
    assert rows[1] == ["    Points Possible", "", "", "", "", "100"]
    scores = {row[3]: row[5] for row in rows[2:]}
    assert (scores["ada"], scores["no_scale"], scores["unlucky"], scores["cheat"]) == ("100", "93", "", "0")
    assert len(scores) == len(sample_class())


def test_moodle_gets_a_grade_and_one_sentence_and_no_row_without_a_grade(class_folder: Path) -> None:
    assert workshop("moodle", class_folder).exit_code == 3
    rows = table(class_folder / "moodle.csv")
    assert rows[0] == ["Username", "Write a GPT", "Write a GPT (feedback)"]
    found = {row[0]: row[1:] for row in rows[1:]}
    assert found["ada"] == ["100", "All checks passed."]
    assert found["no_scale"] == ["93", f"CausalSelfAttention: {SCALE}"]
    assert "unlucky" not in found


def test_otter_gets_the_parts_as_questions_with_their_points_first(class_folder: Path) -> None:
    assert workshop("otter", class_folder).exit_code == 3
    rows = table(class_folder / "final_grades.csv")
    parts = ["config", "attention", "mlp", "block", "gpt"]
    assert rows[0] == ["file", *parts, "total_points_earned", "percent_correct", "grading_status"]
    assert rows[1] == ["points-per-question", "5", "30", "10", "20", "35", "100", "1", "--"]
    found = {row[0]: row[1:] for row in rows[2:]}
    assert found["no_scale"] == ["5", "23", "10", "20", "35", "93", "0.93", "Completed"]
    assert found["unlucky"][:-1] == [""] * 7
    assert found["unlucky"][-1].startswith("Not graded: The sandbox could not start")


def test_scores_after_the_penalty_are_given_only_when_asked_for(tmp_path: Path) -> None:
    ada = report("ada")
    folder = graded(tmp_path / "grades", [ada], {"ada": late(ada)})
    for options, score in ((), "100"), (("--after-penalty",), "92.5"):
        assert workshop("canvas", folder, *options).exit_code == 0
        assert table(folder / "canvas.csv")[2][5] == score
        assert workshop("otter", folder, *options).exit_code == 0
        assert table(folder / "final_grades.csv")[2][6] == score
        assert workshop("gradescope", folder, *options).exit_code == 0
        results = json.loads((folder / "gradescope" / "ada" / "results.json").read_text())
        assert results["score"] == float(score)
        assert ("(not taken off here)" in results["output"]) is (not options)


def test_a_penalty_is_refused_where_there_are_no_late_marks(class_folder: Path) -> None:
    result = workshop("canvas", class_folder, "--after-penalty")
    assert result.exit_code == 2
    assert "grade with --policy first" in said(result)


# Gradescope


def test_results_json_is_as_published_for_every_verdict_and_hostile_text(class_folder: Path) -> None:
    assert workshop("gradescope", class_folder, "--leaderboard").exit_code == 3
    found = {path.parent.name: json.loads(path.read_text()) for path in class_folder.glob("gradescope/*/results.json")}
    assert len(found) == len(sample_class()) - 1  # one has no grade
    assert "unlucky" not in found
    for results in found.values():
        assert gradescope_problems(results) == []
        assert results["leaderboard"] == [{"name": "points", "value": results["score"]}]
        text = json.dumps(results)
        for control in ("\\u001b", "\\u009b", "\\u202e", "\\u0000", "\\ud800"):
            assert control not in text


def test_students_see_what_is_wrong_and_only_instructors_the_seed_the_digests_and_the_isolation(tmp_path: Path) -> None:
    folder = graded(tmp_path / "grades", [report("ada", NO_SCALE, seed=987_654_321)])
    workshop("gradescope", folder)
    results = json.loads((folder / "gradescope" / "ada" / "results.json").read_text())
    assert (results["score"], results["stdout_visibility"]) == (93.0, "hidden")
    (wrong,) = (test for test in results["tests"] if test["status"] == "failed")
    assert wrong["output"].startswith(f"failed: {SCALE}\nLook at: ")
    hidden = results.pop("extra_data")
    assert hidden["seed"] == 987_654_321
    for secret in ("987654321", *hidden["files"].values(), "rlimits"):
        assert secret not in json.dumps(results)
    assert "leaderboard" not in results


def test_visibility_is_passed_on_to_each_test_and_an_unknown_one_is_refused(class_folder: Path) -> None:
    workshop("gradescope", class_folder, "--visibility", "after_published")
    results = json.loads((class_folder / "gradescope" / "ada" / "results.json").read_text())
    assert {results["visibility"], *(test["visibility"] for test in results["tests"])} == {"after_published"}
    refused = workshop("gradescope", class_folder, "--visibility", "sometimes")
    assert refused.exit_code == 2
    assert "after_due_date" in said(refused)


def test_one_report_becomes_one_results_json_on_stdout_or_in_a_file(class_folder: Path, tmp_path: Path) -> None:
    one = class_folder / "students" / "no_scale.json"
    printed = workshop("gradescope", one, "--out", "-")
    assert printed.exit_code == 0
    assert gradescope_problems(json.loads(printed.stdout)) == []
    assert workshop("gradescope", one, "--out", tmp_path / "new" / "results.json").exit_code == 0
    assert (tmp_path / "new" / "results.json").read_text() == printed.stdout


def test_a_report_of_our_failure_becomes_no_results_json(class_folder: Path, tmp_path: Path) -> None:
    result = workshop("gradescope", class_folder / "students" / "unlucky.json", "--out", tmp_path / "results.json")
    assert result.exit_code == 3
    assert not (tmp_path / "results.json").exists()


# JUnit


def test_junit_is_as_published_for_every_verdict_and_hostile_text(class_folder: Path) -> None:
    assert workshop("junit", class_folder).exit_code == 3
    root = ElementTree.parse(class_folder / "junit.xml").getroot()
    assert junit_problems(root) == []
    suites = {suite.attrib["name"]: suite for suite in root}
    assert len(suites) == len(sample_class())
    assert suites["ada"].attrib["failures"] == suites["ada"].attrib["errors"] == "0"
    (failure,) = suites["no_scale"].iter("failure")
    assert (failure.attrib["message"], failure.attrib["type"]) == (SCALE, "failed")
    assert [error.attrib["type"] for error in suites["loops"].iter("error")] == ["timed_out"]
    assert int(suites["stub"].attrib["skipped"]) > 20
    assert {error.attrib["type"] for error in suites["unlucky"].iter("error")} == {"ungradable"}


def test_junit_keeps_every_awkward_name_and_what_xml_cannot_write_is_replaced(tmp_path: Path) -> None:
    folder = graded(tmp_path / "grades", [report(name) for name in [*AWKWARD, HOSTILE, "noncharacters \ufffe\uffff"]])
    assert workshop("junit", folder).exit_code == 0
    root = ElementTree.parse(folder / "junit.xml").getroot()
    assert junit_problems(root) == []
    names = [suite.attrib["name"] for suite in root]
    assert set(AWKWARD) <= set(names)
    assert "noncharacters \ufffd\ufffd" in names


# GitHub Classroom


def test_the_workflow_has_a_step_for_each_part_and_reports_them_all(tmp_path: Path) -> None:
    out = tmp_path / "classroom.yml"
    kit = "git+https://example.org/o'brien/kit.git@v1 ; rm -rf ~"
    assert workshop("github", "--out", out, "--kit", kit).exit_code == 0
    data = yaml.safe_load(out.read_text())
    assert data["permissions"] == {"checks": "write", "actions": "read", "contents": "read"}
    job = data["jobs"]["run-autograding-tests"]
    assert job["if"] == "github.actor != 'github-classroom[bot]'"
    track = load_track("gpt")
    steps = {step["id"]: step for step in job["steps"] if "id" in step}
    assert list(steps) == [part.name for part in track.parts]
    for part in track.parts:
        asked = steps[part.name]["with"]
        assert asked["max-score"] == part.max_score
        assert asked["command"].split()[:3] == ["workshop", "check", part.name]
        assert steps[part.name]["uses"] == "classroom-resources/autograding-command-grader@v1"
    reporter = job["steps"][-1]
    assert reporter["with"]["runners"] == ",".join(steps)
    assert reporter["env"] == {f"{name.upper()}_RESULTS": f"${{{{steps.{name}.outputs.result}}}}" for name in steps}
    (install,) = (step["run"] for step in job["steps"] if step["name"] == "Install the kit")
    assert shlex.split(install) == ["pip", "install", kit]


# What goes wrong


@pytest.mark.parametrize("form", ["canvas", "moodle", "otter", "junit", "gradescope"])
@pytest.mark.parametrize(
    ("damage", "sentence"),
    [
        (lambda folder: shutil.rmtree(folder), "is not there"),
        (lambda folder: (folder / "class.json").unlink(), "is not there"),
        (lambda folder: (folder / "class.json").write_text("{"), "is damaged"),
        (lambda folder: (folder / "class.json").write_text("[]"), "is damaged"),
        (lambda folder: (folder / "class.json").write_text('{"submissions": [3]}'), "is damaged"),
        (lambda folder: (folder / "students" / "ada.json").write_bytes(b"\xff\xfe"), "is damaged"),
        (lambda folder: (folder / "students" / "ada.json").write_text('{"schema": 99}'), "is damaged"),
        (lambda folder: (folder / "students" / "ada.json").unlink(), "holds no file of theirs"),
    ],
)
def test_a_folder_that_cannot_be_read_is_explained_and_nothing_is_written(
    class_folder: Path, form: str, damage: object, sentence: str
) -> None:
    damage(class_folder)  # type: ignore[operator]
    before = sorted(class_folder.rglob("*"))
    result = workshop(form, class_folder)
    assert result.exit_code == 2
    assert sentence in said(result)
    assert "Traceback" not in result.output
    assert sorted(class_folder.rglob("*")) == before


def test_infinite_points_are_no_grade(class_folder: Path) -> None:
    file = class_folder / "students" / "ada.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "score": float("inf")}))
    assert workshop("canvas", class_folder).exit_code == 2


@pytest.mark.parametrize("name", ["class.json", "class.csv", "ledger.sqlite3", "students/ada.json", "students"])
def test_an_export_is_never_written_over_the_results(class_folder: Path, name: str) -> None:
    before = (class_folder / "students" / "ada.json").read_bytes(), (class_folder / "class.json").read_bytes()
    result = workshop("canvas", class_folder, "--out", class_folder / name)
    assert result.exit_code == 2
    assert before == ((class_folder / "students" / "ada.json").read_bytes(), (class_folder / "class.json").read_bytes())


def test_stdout_gets_utf_8_in_any_locale_and_a_reader_who_leaves_is_no_error(class_folder: Path) -> None:
    command = [sys.executable, "-m", "autograder", "export", "canvas", str(class_folder), "--out", "-"]
    plain = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONIOENCODING": "ascii"}
    run = subprocess.run(command, env=plain, capture_output=True, check=False)
    assert "Zoë Müller" in run.stdout.decode()
    reader, writer = os.pipe()
    os.close(reader)
    run = subprocess.run(command, env=plain, stdout=writer, stderr=subprocess.PIPE, check=False)
    os.close(writer)
    assert b"Traceback" not in run.stderr
    assert b"BrokenPipe" not in run.stderr


def test_a_place_that_cannot_be_written_is_explained(class_folder: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    result = workshop("canvas", class_folder, "--out", tmp_path / "file" / "canvas.csv")
    assert result.exit_code == 1
    assert "cannot be written" in result.output
    assert workshop("gradescope", class_folder, "--out", "-").exit_code == 2


def test_those_of_an_earlier_run_are_left_out_and_told(tmp_path: Path) -> None:
    graded(tmp_path / "grades", [report("ada"), report("bo")])
    folder = graded(tmp_path / "grades", [report("ada")])
    result = workshop("canvas", folder)
    assert result.exit_code == 0
    assert "not in the latest run: bo" in result.output
    assert [row[3] for row in table(folder / "canvas.csv")[2:]] == ["ada"]


def test_an_export_changes_nothing_of_the_results_and_gives_the_same_bytes_twice(class_folder: Path) -> None:
    before = {path: path.read_bytes() for path in class_folder.rglob("*") if path.is_file()}
    first: dict[Path, bytes] = {}
    for _ in range(2):
        for form in ("canvas", "moodle", "otter", "junit", "gradescope"):
            workshop(form, class_folder)
        now = {path: path.read_bytes() for path in class_folder.rglob("*") if path.is_file()}
        assert {path: now[path] for path in before} == before
        assert not first or first == now
        first = now


def test_a_submission_that_was_not_graded_at_all_still_has_its_columns(tmp_path: Path) -> None:
    bare = replace(ungradable("bo"), parts={}, verdict=Verdict.UNGRADABLE)
    folder = graded(tmp_path / "grades", [bare, report("ada")])
    assert read_class(folder).missing == ["bo"]
    assert workshop("otter", folder).exit_code == 3
    assert workshop("junit", folder).exit_code == 3
    assert junit_problems(ElementTree.parse(folder / "junit.xml").getroot()) == []
    assert len({len(row) for row in table(folder / "final_grades.csv")}) == 1
