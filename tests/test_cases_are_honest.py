"""The cases that judge the grader are complete and are what they say: structure only, no student code is imported."""

from __future__ import annotations

import ast
import re
import stat
import tomllib
import warnings
from pathlib import Path
from typing import Any

import pytest

from autograder.track import load_track

CASES = Path(__file__).parent / "cases"
KINDS = ("faulty", "correct", "renamed", "broken", "hostile")
PARTS = ("config", "attention", "mlp", "block", "gpt")
CLASSES = {"GPTConfig": "config", "CausalSelfAttention": "attention", "MLP": "mlp", "Block": "block", "GPT": "gpt"}
#: The names that the optional parts define; a case of such a part holds nothing else.
OPTIONAL = {name: part.name for part in load_track("gpt").optional for name in part.names}
WORDS = {
    "pass",
    "pass, with a warning",
    "pass (as a whole)",
    "pass (with a reference Block) or not gradable",
    "fail",
    "not done",
    "names differ",
    "interface differs",
    "contained or refused",
}
#: A case is read by people too, and is stored in git: nothing that a student would not write by hand.
LARGEST_FILE = 64_000
#: Where cases were made is nobody's business: no absolute paths of somebody's machine.
PRIVATE = re.compile(rb"/root/|/home/")

FOLDERS = [folder for kind in KINDS for folder in sorted((CASES / kind).iterdir())]


def meta(folder: Path) -> dict[str, Any]:
    return tomllib.loads((folder / "meta.toml").read_text(encoding="utf-8"))


def parts(folder: Path) -> tuple[str, ...]:
    """The parts that a case is about: the five, or the optional ones that it names."""
    found = tuple(part for part in dict.fromkeys(OPTIONAL.values()) if part in meta(folder)["verdict"])
    return found or PARTS


def sources(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*.py") if path.is_file())


def defined(folder: Path) -> set[str]:
    """The names that the files of a case bind at the top level."""
    names: set[str] = set()
    for path in sources(folder):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)
            tree = ast.parse(path.read_bytes())
        for node in tree.body:
            if isinstance(node, (ast.ClassDef, ast.FunctionDef)):
                names.add(node.name)
            elif isinstance(node, (ast.Import, ast.ImportFrom)):
                names.update(alias.asname or alias.name for alias in node.names)
            elif isinstance(node, ast.Assign):
                names.update(target.id for target in node.targets if isinstance(target, ast.Name))
    return names


def named(folders: list[Path]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("folder", folders, ids=lambda folder: f"{folder.parent.name}/{folder.name}")


def of(*kinds: str) -> list[Path]:
    return [folder for folder in FOLDERS if folder.parent.name in kinds]


def test_there_are_cases_of_every_kind_and_faults_in_every_class() -> None:
    assert all(len(of(kind)) >= 20 for kind in KINDS)
    blamed = [meta(folder)["wrong_class"] for folder in of("faulty")]
    assert all(blamed.count(name) >= 5 for name in CLASSES)
    about = [OPTIONAL[name] for name in blamed if name in OPTIONAL]
    assert len(about) >= 40 and all(about.count(part) >= 10 for part in OPTIONAL.values())


def test_names_are_unique_and_differ_on_a_disk_that_ignores_case() -> None:
    for kind in KINDS:
        names = [folder.name.lower() for folder in of(kind)]
        assert len(names) == len(set(names))


@named(FOLDERS)
def test_a_case_says_what_is_planted_and_what_a_perfect_grader_says(folder: Path) -> None:
    data = meta(folder)
    assert data["name"] == folder.name
    assert data["kind"] == folder.parent.name
    assert all(data[field].strip() for field in ("planted", "source", "wrong_class"))
    assert {data["verdict"][part] for part in parts(folder)} <= WORDS
    assert data["verdict"]["diagnosis"].strip()


@named(FOLDERS)
def test_a_case_holds_small_plain_files_without_private_paths(folder: Path) -> None:
    paths = [path for path in folder.rglob("*") if "__pycache__" not in path.parts]
    for path in paths:
        mode = path.lstat().st_mode
        assert stat.S_ISREG(mode) or stat.S_ISDIR(mode), f"{path} is a link, a pipe or a device"
        if stat.S_ISREG(mode):
            data = path.read_bytes()
            limit = LARGEST_FILE if "bomb" not in folder.name else 2 * LARGEST_FILE
            assert len(data) <= limit, f"{path} has {len(data)} bytes"
            assert not PRIVATE.search(data), f"{path} names a private place"


@named(of("faulty"))
def test_a_faulty_case_blames_exactly_one_class(folder: Path) -> None:
    data = meta(folder)
    failing = [part for part in parts(folder) if data["verdict"][part] != "pass"]
    if data["wrong_class"] == "module":
        assert failing == []
    else:
        assert failing == [(CLASSES | OPTIONAL)[data["wrong_class"]]]
    if data.get("debatable"):
        assert data.get("note") or data.get("severity") == "minor", "a debatable case says why"


@named(of("faulty", "correct", "renamed", "hostile"))
def test_a_loadable_case_parses_and_binds_the_five_classes(folder: Path) -> None:
    names = defined(folder)
    if parts(folder) != PARTS:
        assert names & {name for name, part in OPTIONAL.items() if part in parts(folder)}
    elif "__getattr__" not in names:  # such a module answers every name
        assert set(CLASSES) <= names


@named(of("correct"))
def test_a_correct_case_expects_full_marks(folder: Path) -> None:
    assert {meta(folder)["verdict"][part] for part in parts(folder)} == {"pass"}


@named(of("renamed"))
def test_a_renamed_case_says_which_part_differs_and_how_names_map(folder: Path) -> None:
    data = meta(folder)
    words = [data["verdict"][part] for part in parts(folder)]
    assert {"names differ", "interface differs"} & set(words)
    assert "fail" not in words
    assert data["map"] or "names differ" not in words


@named(of("broken"))
def test_a_broken_case_earns_something_less_than_everything(folder: Path) -> None:
    data = meta(folder)
    assert data["expect"]
    assert any(data["verdict"][part] != "pass" for part in parts(folder))


@named(of("hostile"))
def test_a_hostile_case_says_what_is_expected_of_the_grader(folder: Path) -> None:
    assert meta(folder)["expected"].strip()
