"""The walk: a newcomer types what the guide's pages say, in their order, and gets where they promise."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from answers import SOLUTIONS
from capstone_samples import toy_text
from test_guide_commands import commands

ROOT = Path(__file__).resolve().parent.parent
GUIDE = ROOT / "workshop_guide"
#: What makes a training run a matter of seconds; the pages say what it does.
SHORT = "--batch-size 2 --block-size 8 --steps 6 --evaluate-every 3 --no-samples"


class Walker:
    """Somebody in a folder of their own, with the kit in their path, and nothing else."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        script = folder / "bin" / "workshop"
        script.parent.mkdir()
        script.write_text(
            f'#!/bin/sh\nPYTHONPATH="{ROOT}" exec "{sys.executable}" -m autograder "$@"\n', encoding="utf-8"
        )
        script.chmod(0o755)

    def type(self, page: str, command: str, more: str = "", inside: str = "") -> str:
        """Type a command that stands on `page`, word for word, with `more` after it; return what it says."""
        file = ROOT / page if page == "README.md" else GUIDE / page
        assert command in commands(file, command.split()[0]), f"{page} does not say: {command}"
        path = f"{self.folder / 'bin'}{os.pathsep}{os.environ['PATH']}"
        environment = {
            **os.environ,
            "PATH": path,
            "NO_COLOR": "1",
            "PYTHONDONTWRITEBYTECODE": "1",
            "OMP_NUM_THREADS": "1",
        }
        done = subprocess.run(
            [*shlex.split(command), *shlex.split(more)],
            cwd=self.folder / inside,
            env=environment,
            capture_output=True,
            text=True,
            timeout=280,
            check=False,
        )
        assert "Traceback" not in done.stderr, done.stderr
        return f"{done.stdout}\n{done.stderr}\nexit status {done.returncode}"

    def writes(self, *files: str) -> None:
        """Fill in stubs, as somebody does who understood the page."""
        for file in files:
            shutil.copy(SOLUTIONS / file, self.folder / "my_gpt" / file)


@pytest.fixture
def walker(tmp_path: Path) -> Walker:
    return Walker(tmp_path)


def test_from_the_first_page_to_a_passing_mlp(walker: Walker) -> None:
    assert re.search(r"workshop \d+\.\d+", walker.type("part0-setup.md", "workshop --version"))
    walker.type("part0-setup.md", "workshop start my_gpt")
    assert "0 of 5 parts passed" in walker.type("part0-setup.md", "workshop status --path my_gpt")
    walker.writes("config.py", "mlp.py")
    said = walker.type("part2-mlp.md", "workshop check mlp", inside="my_gpt")
    assert "10 / 10" in said and "exit status 0" in said


@pytest.mark.slow
def test_from_five_classes_to_a_trained_model_that_writes(walker: Walker) -> None:
    walker.type("part0-setup.md", "workshop start my_gpt")
    walker.writes("config.py", "attention.py", "mlp.py", "block.py", "gpt.py")
    said = walker.type("part5-capstone.md", "workshop check --path my_gpt")
    assert "100 / 100" in said and "exit status 0" in said
    (walker.folder / "poems.txt").write_text(toy_text() * 4, encoding="utf-8")  # the plays would need a network
    said = walker.type("README.md", "workshop data --file poems.txt")
    assert "exit status 0" in said
    said = walker.type("part5-capstone.md", "workshop train --path my_gpt", more=SHORT)
    assert "Finished" in said and "exit status 0" in said
    said = walker.type("part5-capstone.md", 'workshop generate runs/cpu --prompt "ROMEO:"', more="--tokens 20")
    assert "ROMEO:" in said and "exit status 0" in said


def test_the_commands_that_only_an_installation_can_type_are_the_readmes_own() -> None:
    """venv and pip need a package index: `make demo` and the CI type them. Here they must agree with each other."""
    for command in ("pip install -c constraints.txt .", "python3 -m venv .venv"):
        for page in (GUIDE / "part0-setup.md", ROOT / "README.md", GUIDE / "handbook" / "workshop.md"):
            assert command in page.read_text(encoding="utf-8"), f"{page.name} does not say: {command}"
