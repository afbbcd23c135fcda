"""Claim: official grading runs no student code where it cannot be isolated, and believes no result found so."""

from __future__ import annotations

import functools
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

import autograder.sandbox
from autograder.cli import app
from autograder.sandbox import Nursery


def workshop(*words: str | Path) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words])


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """A class of one, whose code leaves a mark beside it when it is run without isolation."""
    folder = tmp_path / "work" / "ada"
    folder.mkdir(parents=True)
    mark = f"open({str(tmp_path / 'ran')!r}, 'w').close()\n"
    (folder / "model.py").write_text(f"try:\n    {mark}except OSError:\n    pass\n", encoding="utf-8")
    return folder.parent


@pytest.mark.parametrize("command", ["grade", "regrade"])
def test_without_the_layers_nothing_is_graded_and_the_status_is_2(
    command: str, work: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(autograder.sandbox, "Nursery", functools.partial(Nursery, layers=()))
    result = workshop(command, work, "--out", tmp_path / "out")
    assert result.exit_code == 2 and "Nothing was graded" in result.output, result.output
    assert not (tmp_path / "ran").exists() and not (tmp_path / "out" / "class.json").exists()


def test_a_result_found_without_isolation_is_not_recalled_by_a_run_that_asks_for_it(
    work: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("grade", work, "--out", tmp_path / "out")
    with monkeypatch.context() as patch:
        patch.setattr(autograder.sandbox, "Nursery", functools.partial(Nursery, layers=()))
        assert workshop(*words, "--trust-students").exit_code == 0
        trusting = workshop(*words, "--trust-students")
        assert "1 of 1 from an earlier run" in trusting.output
    result = workshop(*words)
    if result.exit_code == 2:
        pytest.skip("student code cannot be isolated on this machine")
    assert result.exit_code == 0 and "from an earlier run" not in result.output
    found = json.loads((tmp_path / "out" / "class.json").read_text(encoding="utf-8"))
    assert found["isolation"]["isolated"] is True
