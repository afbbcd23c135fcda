"""The checkout is complete and says the truth about itself: files, pins, targets, links, sample class, version."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from autograder import __version__
from autograder.track import load_track

ROOT = Path(__file__).resolve().parent.parent
SAMPLES = ROOT / "data" / "sample_class"
TRACK = load_track("gpt")
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "workshop_guide").glob("*.md"), *(ROOT / "data").glob("*.md")])


def project() -> dict[str, Any]:
    data: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return data


def requirement_names(requirements: list[str]) -> set[str]:
    return {re.split(r"[<>=!~\[; ]", requirement)[0].lower() for requirement in requirements}


def make(*arguments: str, folder: Path = ROOT) -> subprocess.CompletedProcess[str]:
    environment = {key: value for key, value in os.environ.items() if key not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")}
    return subprocess.run(["make", *arguments], cwd=folder, env=environment, capture_output=True, text=True)


TOP_LEVEL = """pyproject.toml README.md Makefile constraints.txt LICENSE CHANGELOG.md CONTRIBUTING.md exercises
    solutions autograder data workshop_guide tests benchmarks .ci/run"""


@pytest.mark.parametrize("name", TOP_LEVEL.split())
def test_the_top_level_is_complete(name: str) -> None:
    assert (ROOT / name).exists()


def test_what_ci_runs_can_be_run() -> None:
    assert os.access(ROOT / ".ci" / "run", os.X_OK)


# Pins


def test_every_requirement_and_development_tool_has_one_exact_version_in_constraints() -> None:
    pins: dict[str, str] = {}
    for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            found = re.fullmatch(r"([a-z0-9-]+)==([0-9][0-9.]*)", line)
            assert found, f"not an exact version that any index serves: {line}"
            assert found[1] not in pins
            pins[found[1]] = found[2]
    data = project()
    needed = requirement_names(data["dependencies"])
    needed |= requirement_names(data["optional-dependencies"]["dev"])
    assert needed <= set(pins)


def test_a_student_install_brings_no_notebook_cluster_or_development_tool() -> None:
    data = project()
    required = requirement_names(data["dependencies"])
    for extra in ("dev", "notebook", "cluster"):
        assert not required & requirement_names(data["optional-dependencies"][extra])


# Makefile


def test_make_alone_lists_the_targets() -> None:
    shown = make().stdout
    for target in ("demo", "test", "lint", "mutants", "bench", "clean", "help"):
        assert re.search(rf"^  make {target} +\S", shown, re.MULTILINE)


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    """A folder with a space in its name that holds what `make` reads, and no virtual environment."""
    folder = tmp_path / "a course"
    folder.mkdir()
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        (folder / name).write_bytes((ROOT / name).read_bytes())
    return folder


def test_make_says_so_when_there_is_no_python(bare: Path) -> None:
    tried = make("demo", "PYTHON=no-such-python", folder=bare)
    assert tried.returncode != 0
    assert "There is no 'no-such-python' here. Install Python 3.11" in tried.stdout
    assert not (bare / ".venv").exists()


def test_make_says_so_when_python_is_too_old(bare: Path) -> None:
    old = bare / "python3.9"
    old.write_text('#!/bin/sh\n[ "$1" = --version ] && echo Python 3.9.2 && exit 0\nexit 1\n')
    old.chmod(0o755)
    tried = make("demo", f"PYTHON={old}", folder=bare)
    assert tried.returncode != 0
    assert "Python 3.9.2 is too old: the kit needs 3.11 or newer" in tried.stdout
    assert not (bare / ".venv").exists()


def test_make_says_so_when_python_has_no_venv_and_leaves_nothing_half_made(bare: Path) -> None:
    crippled = bare / "python3"
    crippled.write_text('#!/bin/sh\n[ "$1" = -m ] && mkdir -p .venv/bin && exit 1\nexit 0\n')
    crippled.chmod(0o755)
    tried = make("test", f"PYTHON={crippled}", folder=bare)
    assert tried.returncode != 0
    assert "install its venv module" in tried.stdout
    assert not (bare / ".venv").exists()


def test_what_is_installed_is_not_installed_again(bare: Path) -> None:
    (bare / ".venv" / "bin").mkdir(parents=True)
    (bare / ".venv" / "bin" / "python").symlink_to(sys.executable)
    (bare / ".venv" / ".installed").touch()
    assert make("--question", ".venv/.installed", folder=bare).returncode == 0
    (bare / "constraints.txt").write_text("# other pins\n")
    stamp = (bare / ".venv" / ".installed").stat().st_mtime
    os.utime(bare / "constraints.txt", (stamp + 10, stamp + 10))
    assert make("--question", ".venv/.installed", folder=bare).returncode == 1


# Documents


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_link_in_the_documents_leads_somewhere(document: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", document.read_text(encoding="utf-8")):
        if not target.startswith("https://"):
            assert (document.parent / target).exists(), f"{document.name} links to {target}"


def test_every_check_that_the_guide_names_is_in_the_track() -> None:
    known = {check for part in TRACK.parts for check in part.points}
    for part in TRACK.parts:
        page = (ROOT / "workshop_guide" / f"part2-{part.name}.md").read_text(encoding="utf-8")
        named = set(re.findall(rf"`({part.name}\.\w+)`", page)) - {part.file}
        assert named
        assert named <= known


def test_the_readme_shows_both_commands_and_the_points_of_the_track() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert "make demo" in readme
    assert "make test" in readme
    for part in TRACK.parts:
        assert f"| `{part.name}` | `{part.file}` | `{part.class_name}` | {part.max_score:g} |" in readme


def test_the_changelog_knows_the_version() -> None:
    assert f"## [{__version__}]" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


# The sample class


def sample_names() -> list[str]:
    return sorted(
        unicodedata.normalize("NFC", path.name) for path in SAMPLES.iterdir() if not path.name.startswith(".")
    )


def test_the_sample_class_is_the_one_in_its_table() -> None:
    table = (ROOT / "data" / "README.md").read_text(encoding="utf-8")
    told = re.findall(r"^\| `([^`/]+)` \| (?:five|one|notebook|`model)", table, re.MULTILINE)
    assert sorted(told) == sorted(name.removesuffix(".py").removesuffix(".ipynb") for name in sample_names())
    assert len(told) >= 10


def test_the_untouched_submission_is_todays_stubs() -> None:
    for part in TRACK.parts:
        assert (SAMPLES / "goran" / part.file).read_bytes() == (ROOT / "exercises" / part.file).read_bytes()


def python_sources() -> Iterator[tuple[str, str]]:
    for path in sorted(SAMPLES.rglob("*.py")):
        yield str(path.relative_to(SAMPLES)), path.read_text(encoding="utf-8")
    notebook = json.loads((SAMPLES / "chidi.ipynb").read_text(encoding="utf-8"))
    cells = ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]
    yield "chidi.ipynb", "\n".join(re.sub(r"(?m)^[%!].*$", "", cell) for cell in cells)


def test_only_farah_does_not_compile() -> None:
    broken = []
    for name, source in python_sources():
        try:
            compile(source, name, "exec")
        except SyntaxError:
            broken.append(name)
    assert broken == ["farah/model.py"]


def test_every_sample_brings_all_five_classes() -> None:
    found: dict[str, set[str]] = {}
    for name, source in python_sources():
        found.setdefault(name.split("/")[0], set()).update(re.findall(r"^class (\w+)", source, re.MULTILINE))
    assert all(set(TRACK.classes) <= classes for classes in found.values())
