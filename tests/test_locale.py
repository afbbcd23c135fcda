"""Claims about terminals and languages: nothing depends on them. In the plainest of locales no command crashes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from answers import changed, write

ROOT = Path(__file__).resolve().parent.parent
#: A terminal that knows ASCII only, and a Python that is not told to know better.
PLAIN = {"LC_ALL": "C", "LANG": "C", "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
NAME = "Zoë Müller 李"


def workshop(folder: Path, *words: str) -> subprocess.CompletedProcess[bytes]:
    environment = {**os.environ, **PLAIN, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "autograder", *words]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, timeout=240, check=False)


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """A student's folder with a mistake, and with names and comments that no ASCII terminal can show."""
    files = changed("mlp.py", 'nn.GELU(approximate="tanh")', "nn.ReLU()  # é 李 🙂")
    return write(tmp_path / "class" / NAME, files)


def said(done: subprocess.CompletedProcess[bytes], status: int) -> str:
    text = (done.stdout + done.stderr).decode("ascii")  # and nothing else
    assert done.returncode == status, text
    assert "Traceback" not in text and "Error" not in text
    return text


def test_check_status_and_hint_work_on_an_ascii_terminal(work: Path) -> None:
    assert "The activation is ReLU, not GELU." in said(workshop(work, "check", "mlp"), 1)
    said(workshop(work, "status"), 0)
    said(workshop(work, "hint", "mlp"), 0)
    assert (work / ".workshop-progress.json").is_file()


@pytest.mark.slow
def test_grade_and_export_work_on_an_ascii_terminal_and_keep_every_name(work: Path, tmp_path: Path) -> None:
    said(workshop(tmp_path, "grade", "class", "--out", "grades", "--trust-students"), 0)
    said(workshop(tmp_path, "export", "canvas", "grades"), 0)
    said(workshop(tmp_path, "export", "gradescope", "grades"), 0)
    assert (tmp_path / "grades" / "students" / f"{NAME}.html").is_file()
    assert (tmp_path / "grades" / "gradescope" / NAME / "results.json").is_file()
    data = json.loads((tmp_path / "grades" / "class.json").read_text(encoding="utf-8"))
    assert [row["student"] for row in data["submissions"]] == [NAME]
    for file in ("class.html", "class.csv", "canvas.csv"):
        assert NAME in (tmp_path / "grades" / file).read_text(encoding="utf-8"), file


def test_help_and_wrong_words_work_on_an_ascii_terminal(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "exercises", tmp_path / "é", ignore=shutil.ignore_patterns("notebooks", "__pycache__"))
    said(workshop(tmp_path, "--help"), 0)
    for words in (("check", "ättention"), ("check", "--path", "nö"), ("export", "canvas", "nö")):
        done = workshop(tmp_path, *words)
        assert done.returncode == 2 and b"Traceback" not in done.stderr and (done.stdout + done.stderr).isascii()
