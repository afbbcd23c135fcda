"""Claims about `workshop build`: one source, outputs that are current, and clear words about an ill-formed source."""

from __future__ import annotations

import importlib.util
import json
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from autograder.authoring.build import solved_notebooks, stale
from autograder.cli import app
from autograder.track import load_track

ROOT = Path(__file__).resolve().parent.parent
TRACK = load_track("gpt")


@pytest.fixture
def course(tmp_path: Path) -> Path:
    """A copy of the course that tests may change."""
    for name in ("solutions", "exercises"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


def build(root: Path, *words: str) -> Result:
    return CliRunner().invoke(app, ["build", "--root", str(root), *words])


def change(file: Path, find: str, replace: str) -> None:
    text = file.read_text(encoding="utf-8")
    assert text.count(find) >= 1
    file.write_text(text.replace(find, replace, 1), encoding="utf-8")


def snapshot(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def test_what_is_in_exercises_is_what_the_solutions_stand_for() -> None:
    assert stale(ROOT, TRACK) == [], "run: workshop build"


def test_a_current_course_is_left_as_it_is(course: Path) -> None:
    before = snapshot(course)
    assert build(course, "--check").exit_code == 0
    result = build(course)
    assert result.exit_code == 0 and "current" in result.stdout and snapshot(course) == before


@pytest.mark.parametrize(
    ("file", "find", "replace"),
    [
        ("attention.py", "# refuse an n_embd", "# reject an n_embd"),
        ("attention.py", "        y = weights @ v", "        y = weights @ v\n        y = y + 0"),
    ],
)
def test_a_changed_task_or_answer_makes_exactly_its_own_outputs_stale(
    course: Path, file: str, find: str, replace: str
) -> None:
    change(course / "solutions" / file, find, replace)
    before = snapshot(course)
    result = build(course, "--check")
    told = {line for line in result.stdout.splitlines() if line.startswith("stale")}
    assert result.exit_code == 1 and "Run: workshop build" in result.stdout
    assert told == {"stale: exercises/attention.py", "stale: exercises/notebooks/attention.ipynb"}
    assert snapshot(course) == before, "--check wrote something"
    assert build(course).exit_code == 0
    after = snapshot(course)
    assert {name for name in after if after[name] != before.get(name)} == {line[7:] for line in told}
    assert build(course, "--check").exit_code == 0


def test_changed_prose_makes_only_the_notebook_stale(course: Path) -> None:
    change(course / "solutions" / "mlp.md", "Only the diagonal", "The diagonal only")
    assert build(course, "--check").stdout.splitlines()[0] == "stale: exercises/notebooks/mlp.ipynb"


def test_a_missing_output_is_written_and_one_without_a_source_is_named(course: Path) -> None:
    (course / "exercises" / "gpt.py").unlink()
    (course / "exercises" / "notebooks" / "old.ipynb").write_text("{}", encoding="utf-8")
    result = build(course, "--check")
    assert result.exit_code == 1
    assert "missing: exercises/gpt.py" in result.stdout and "no source: exercises/notebooks/old.ipynb" in result.stdout
    assert "written: exercises/gpt.py" in build(course).stdout
    assert (course / "exercises" / "gpt.py").read_bytes() == (ROOT / "exercises" / "gpt.py").read_bytes()
    assert (course / "exercises" / "notebooks" / "old.ipynb").exists()


def test_work_that_somebody_did_in_a_stub_or_a_notebook_is_kept(course: Path) -> None:
    stub, book = course / "exercises" / "mlp.py", course / "exercises" / "notebooks" / "mlp.ipynb"
    stub.write_bytes((ROOT / "solutions" / "mlp.py").read_bytes())
    data = json.loads(book.read_text(encoding="utf-8"))
    data["cells"][2]["outputs"] = [{"output_type": "stream", "name": "stdout", "text": "mine"}]
    book.write_text(json.dumps(data), encoding="utf-8")
    change(course / "exercises" / "block.py", "still to be written", "broken (")  # no stub of ours, no Python either
    old = {path: path.read_bytes() for path in (stub, book, course / "exercises" / "block.py")}
    result = build(course)
    assert "kept in mlp.before-build-1.txt" in result.stdout
    for path, data_before in old.items():
        assert path.with_name(f"{path.stem}.before-build-1.txt").read_bytes() == data_before
    stub.write_bytes(old[stub])
    assert "kept in mlp.before-build-2.txt" in build(course).stdout


@pytest.mark.parametrize(
    ("find", "replace", "line", "message"),
    [
        ("        ### END SOLUTION\n\n", "\n", 29, "### BEGIN SOLUTION inside the region that began in line 21."),
        ("        ### BEGIN SOLUTION\n", "", 24, "### END SOLUTION without ### BEGIN SOLUTION above it."),
        ("### BEGIN SOLUTION", "## begin solution", 21, "'## begin solution' is no marker; write exactly"),
        ("### BEGIN SOLUTION", "###BEGIN SOLUTION", 21, "'###BEGIN SOLUTION' is no marker; write exactly"),
        (
            "        ### END",
            "    ### END",
            25,
            "### END SOLUTION is not indented like its ### BEGIN SOLUTION in line 21.",
        ),
        (
            "        # make c_fc (C -> 4C), the tanh",
            "        #the tanh",
            21,
            "no comment right above ### BEGIN SOLUTION",
        ),
        ("import torch\n", "# x\n### BEGIN SOLUTION\nimport torch\n", 7, "a region outside of any class"),
        ("class MLP(nn.Module):", "class MLP(nn.Module:", 10, "not Python"),
        ("# %%\nimport", "import", 1, "not `# %% TITLE [markdown]`"),
    ],
)
def test_an_ill_formed_source_is_refused_with_file_and_line_and_nothing_is_written(
    course: Path, find: str, replace: str, line: int, message: str
) -> None:
    change(course / "solutions" / "mlp.py", find, replace)
    before = snapshot(course)
    result = build(course)
    assert result.exit_code == 2 and f"Error: solutions/mlp.py, line {line}: {message}" in result.stderr
    assert snapshot(course) == before


def test_a_region_that_is_never_closed_or_empty_or_not_there_is_refused(course: Path) -> None:
    file = course / "solutions" / "config.py"
    text = file.read_text(encoding="utf-8")
    file.write_text(text.replace("    ### END SOLUTION\n", ""), encoding="utf-8")
    assert "is never closed by ### END SOLUTION" in build(course).stderr
    inside = text[text.index("### BEGIN SOLUTION\n") + 19 : text.index("    ### END SOLUTION")]
    file.write_text(text.replace(inside, ""), encoding="utf-8")
    assert "holds no code" in build(course).stderr
    kept = [line for line in text.splitlines(keepends=True) if "### " not in line]
    file.write_text("".join(kept), encoding="utf-8")
    assert "no ### BEGIN SOLUTION in the whole file" in build(course).stderr


def test_a_source_that_is_not_there_or_has_no_sections_is_named(course: Path) -> None:
    (course / "solutions" / "gpt.md").write_text("## One section\n", encoding="utf-8")
    assert "solutions/gpt.md, line 1: write two sections" in build(course).stderr
    (course / "solutions" / "gpt.md").unlink()
    result = build(course)
    assert result.exit_code == 2 and "gpt.md is not there" in result.stderr


def test_solved_notebooks_hold_the_answers_and_overwrite_nothing(course: Path, tmp_path: Path) -> None:
    answers = tmp_path / "answers"
    assert build(course, "--solved", str(answers)).exit_code == 0
    assert {path.name for path in answers.iterdir()} == set(solved_notebooks(course, TRACK))
    assert not any("still to be written" in path.read_text(encoding="utf-8") for path in answers.iterdir())
    result = build(course, "--solved", str(answers))
    assert result.exit_code == 2 and "holds config.ipynb already" in result.stderr


def test_without_jupytext_the_extra_is_named(course: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    result = build(course)
    assert result.exit_code == 2 and "gpt-workshop-kit[authoring]" in result.stderr


@pytest.mark.parametrize("part", TRACK.parts, ids=lambda part: part.name)
def test_a_notebook_holds_the_stub_a_check_a_picture_and_questions(part: object) -> None:
    file = part.file  # type: ignore[attr-defined]
    book = json.loads((ROOT / "exercises" / "notebooks" / file.replace(".py", ".ipynb")).read_text(encoding="utf-8"))
    texts = ["".join(cell["source"]) for cell in book["cells"]]
    stub = (ROOT / "exercises" / file).read_text(encoding="utf-8")
    name = part.class_name  # type: ignore[attr-defined]
    assert any(text in stub and f"class {name}" in text for text in texts)
    assert f"check({name})" in texts and f"picture({name})" in texts and any("## To go on" in text for text in texts)
    assert all(not cell.get("outputs") for cell in book["cells"]) and "SOLUTION" not in "".join(texts)
    assert book["metadata"]["kernelspec"]["name"] == "python3"
