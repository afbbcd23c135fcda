"""Claims about the autograder archive: what is in it, and that it grades where nothing else of the kit is."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from answers import changed, solutions, write
from published_formats import gradescope_problems
from typer.testing import CliRunner

from autograder.cli import app
from autograder.reports import gradescope_zip
from autograder.reports.gradescope_zip import ZipError, autograder_zip


def unpacked(folder: Path, *options: str) -> Path:
    """Make the archive by the command, and lay it out as Gradescope does: source/, submission/, results/."""
    archive = folder / "autograder.zip"
    assert CliRunner().invoke(app, ["export", "gradescope-zip", "--out", str(archive), *options]).exit_code == 0
    with zipfile.ZipFile(archive) as contents:
        contents.extractall(folder / "source")
        for info in contents.infolist():  # as unzip does, and extractall does not
            (folder / "source" / info.filename).chmod(info.external_attr >> 16 & 0o777)
    (folder / "results").mkdir()
    return folder


def test_the_scripts_lie_at_the_root_can_be_executed_and_are_sound_bash(tmp_path: Path) -> None:
    root = unpacked(tmp_path, "--index-url", "https://example.org/it's?a=1&b=2")
    with zipfile.ZipFile(root / "autograder.zip") as contents:
        for name in ("setup.sh", "run_autograder"):
            assert contents.getinfo(name).external_attr >> 16 & 0o777 == 0o755
            assert contents.read(name).startswith(b"#!/usr/bin/env bash\n")
            assert subprocess.run(["bash", "-n", root / "source" / name], check=False).returncode == 0
        assert b"https://example.org/it'\"'\"'s?a=1&b=2" in contents.read("setup.sh")


def test_the_archive_holds_the_kit_the_answers_and_a_pin_for_each_requirement_and_nothing_compiled(
    tmp_path: Path,
) -> None:
    source = unpacked(tmp_path) / "source"
    for name in ("__init__.py", "tracks/gpt.toml", "reports/templates/base.html", "_solutions/gpt.py"):
        assert (source / "kit" / "autograder" / name).is_file()
    assert not list(source.rglob("*.pyc"))
    pins = (source / "requirements.txt").read_text().splitlines()
    assert {pin.split("==")[0] for pin in pins} >= {"torch", "numpy", "typer", "rich", "jinja2", "safetensors"}
    for pin in pins:
        assert re.fullmatch(r"[a-z0-9-]+==[0-9][0-9a-z.]*", pin)


def test_the_same_kit_gives_the_same_bytes() -> None:
    assert autograder_zip("gpt") == autograder_zip("gpt")


def test_it_grades_a_submission_with_nothing_but_what_is_in_the_archive(tmp_path: Path) -> None:
    root = unpacked(tmp_path, "--visibility", "after_due_date", "--leaderboard")
    python = root / "venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(f'#!/bin/sh\nPYTHONPATH="{root}/source/kit" exec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    work = changed("mlp.py", 'nn.GELU(approximate="tanh")', "nn.GELU()")
    write(root / "submission", {**work, "notes/README.md": "my notes"})
    assert set(work) == set(solutions())
    run = subprocess.run(
        [root / "source" / "run_autograder"],
        env={**os.environ, "AUTOGRADER_ROOT": str(root)},
        cwd=root,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    results = json.loads((root / "results" / "results.json").read_text())
    assert gradescope_problems(results) == []
    assert results["leaderboard"] == [{"name": "points", "value": results["score"]}]
    assert 90 <= results["score"] < 100
    wrong = [test for test in results["tests"] if test["status"] == "failed"]
    assert wrong
    assert all(test["name"].startswith("MLP: ") for test in wrong)
    assert "tanh" in "".join(test["output"] for test in wrong)
    assert results["visibility"] == "after_due_date"


def test_no_results_json_is_left_where_grading_itself_fails(tmp_path: Path) -> None:
    root = unpacked(tmp_path)
    python = root / "venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text("#!/bin/sh\necho '{}'\nexit 3\n")
    python.chmod(0o755)
    run = subprocess.run(
        [root / "source" / "run_autograder"], env={**os.environ, "AUTOGRADER_ROOT": str(root)}, capture_output=True
    )
    assert run.returncode == 3
    assert b"could not be graded" in run.stderr
    assert list((root / "results").iterdir()) == []


@pytest.mark.parametrize(
    "options", [["--visibility", "x"], ["--index-url", "ftp://example.org"], ["--track", "no such"], ["--out", "."]]
)
def test_wrong_options_are_refused_and_nothing_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(app, ["export", "gradescope-zip", *options])
    assert result.exit_code == 2
    assert list(tmp_path.iterdir()) == []


def test_a_kit_that_is_not_whole_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    package = tmp_path / "site" / "autograder"
    write(package, {"__init__.py": ""})
    monkeypatch.setattr(gradescope_zip.autograder, "__file__", str(package / "__init__.py"))
    with pytest.raises(ZipError, match="solutions are not here"):
        autograder_zip("gpt")
    write(package, {"_solutions/gpt.py": "", "_exercises/gpt.py": ""})
    assert autograder_zip("gpt")
    monkeypatch.setattr(gradescope_zip, "_DISTRIBUTION", "no-such-distribution")
    monkeypatch.chdir(tmp_path)
    assert CliRunner().invoke(app, ["export", "gradescope-zip"]).exit_code == 3
    assert not (tmp_path / "autograder.zip").exists()
