"""Work tells in which version of the kit it began, and grading tells when that is another one; it costs nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from answers import solutions, write

import autograder
from autograder.kit_mark import is_other, marked, marked_notebook, version_in
from autograder.stubs import start, start_notebooks
from autograder.submission import read_submission
from autograder.track import load_track

TRACK = load_track("gpt")
MINE = autograder.__version__


def test_stubs_and_notebooks_carry_the_version_once(tmp_path: Path) -> None:
    start(TRACK, tmp_path / "stubs")
    start_notebooks(TRACK, tmp_path / "books")
    for path in [*(tmp_path / "stubs").iterdir(), *(tmp_path / "books").iterdir()]:
        data = path.read_bytes()
        assert data.count(f"# gpt-workshop-kit {MINE} ".encode()) == 1, path
        again = marked_notebook(data) if path.suffix == ".ipynb" else marked(data)
        assert again == data
    book = json.loads((tmp_path / "books" / "mlp.ipynb").read_text())
    assert book["nbformat"] == 4 and "class MLP" in json.dumps(book)


def test_work_of_this_kit_is_taken_without_a_word(tmp_path: Path) -> None:
    folder = write(tmp_path / "mine", {name: marked(text.encode()).decode() for name, text in solutions().items()})
    assert read_submission(folder, TRACK).warnings == ()
    assert read_submission(write(tmp_path / "own", solutions()), TRACK).warnings == ()


@pytest.mark.parametrize("form", ["files", "notebooks"])
def test_work_of_another_kit_is_told_with_both_versions(tmp_path: Path, form: str) -> None:
    folder = tmp_path / "theirs"
    start(TRACK, folder) if form == "files" else start_notebooks(TRACK, folder)
    for path in folder.iterdir():
        text = path.read_text(encoding="utf-8").replace(f"gpt-workshop-kit {MINE} ", "gpt-workshop-kit 0.0.9+kit.12 ")
        path.write_text(text, encoding="utf-8")
    (warning,) = read_submission(folder, TRACK).warnings
    assert "began in version 0.0.9+kit.12 of this kit" in warning and f"this is {MINE}" in warning
    assert ("attention.py" if form == "files" else "attention.ipynb") in warning


def test_a_line_of_anybodys_text_is_no_version() -> None:
    for line in (b"# gpt-workshop-kit \x1b[31m9", b"# gpt-workshop-kit " + b"9" * 99, b"x # gpt-workshop-kit 9", b""):
        assert version_in(line) is None
    assert version_in(b"a = 1\n# gpt-workshop-kit 9.1\n") == "9.1"
    for data in (b"", b"{}", b"[1]", b'{"cells": []}', b'{"cells": [{"cell_type": "code"}]}'):
        assert marked_notebook(data) == data


def test_the_digest_of_a_kit_counts_where_both_have_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(autograder, "__version__", "0.3.0")
    assert not is_other("0.3.0+kit.1") and is_other("0.2.0+kit.1") and is_other("0.2.0")
    monkeypatch.setattr(autograder, "__version__", "0.3.0+kit.2")
    assert is_other("0.3.0+kit.1") and not is_other("0.3.0+kit.2") and not is_other("0.3.0")
