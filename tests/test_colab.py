"""Claims about notebooks on Colab: each installs the kit there, does nothing elsewhere, and links only where it can."""

from __future__ import annotations

import ast
import json
import shutil
from pathlib import Path

import nbformat
import pytest
from typer.testing import CliRunner, Result

from autograder.authoring.colab import repository
from autograder.cli import app
from autograder.submission.notebook import plain

ROOT = Path(__file__).resolve().parent.parent
BOOKS = sorted((ROOT / "exercises" / "notebooks").glob("*.ipynb"))
URLS = '[project]\nname = "kit"\n[project.urls]\nRepository = '


def cells(book: Path) -> list[str]:
    return ["".join(cell["source"]) for cell in json.loads(book.read_text(encoding="utf-8"))["cells"]]


def build(root: Path, *words: str) -> Result:
    return CliRunner().invoke(app, ["build", "--root", str(root), *words])


@pytest.mark.parametrize("book", BOOKS, ids=lambda book: book.name)
def test_each_notebook_installs_the_kit_where_it_is_missing_and_nothing_heavy(book: Path) -> None:
    (cell,) = [text for text in cells(book) if "%pip" in text]
    assert cell.index("import autograder") < cell.index("%pip install --quiet")
    assert "gpt-workshop-kit*.zip" in cell and "torch" not in cell and "[" not in cell
    tree = ast.parse(plain(cell))  # as it is graded: no line of the notebook's own language is left
    assert isinstance(tree.body[-1], ast.Try) and isinstance(tree.body[-1].handlers[0].body[0], ast.Pass)


def test_where_the_kit_is_installed_the_cell_does_nothing() -> None:
    (cell,) = [text for text in cells(BOOKS[0]) if "%pip" in text]
    names: dict[str, object] = {}
    exec(cell.replace("%pip install", "raise AssertionError #"), names)
    assert "autograder" in names


@pytest.mark.parametrize("address", ["https://github.com/ada/kit", "https://github.com/ada/kit.git"])
def test_a_course_that_names_its_repository_gets_a_link_and_installs_from_there(tmp_path: Path, address: str) -> None:
    for name in ("solutions", "exercises"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "pyproject.toml").write_text(f'{URLS}"{address}"\n', encoding="utf-8")
    assert build(tmp_path).exit_code == 0
    for book in (tmp_path / "exercises" / "notebooks").glob("*.ipynb"):
        text = "\n".join(cells(book))
        assert f"https://colab.research.google.com/github/ada/kit/blob/HEAD/exercises/notebooks/{book.name})" in text
        assert '%pip install --quiet "gpt-workshop-kit @ git+https://github.com/ada/kit"' in text
        nbformat.validate(nbformat.read(book, as_version=4))
    assert build(tmp_path, "--check").exit_code == 0


@pytest.mark.parametrize(
    "text", ["", "not [ TOML", URLS + "7", URLS + '"https://github.com/a/b?x=%22"', URLS + '"https://example.org/a/b"']
)
def test_no_link_is_made_from_what_is_not_a_repository_on_github(tmp_path: Path, text: str) -> None:
    (tmp_path / "pyproject.toml").write_text(text, encoding="utf-8")
    assert repository(tmp_path) == ""
    assert repository(tmp_path / "nowhere") == ""
