"""An instructor's own track is data: two classes and a TOML file are checked with no Python added to the kit."""

from __future__ import annotations

from pathlib import Path

import pytest
from answers import checks, rejecting, write

from autograder.authoring.build import build, stale
from autograder.grading import grade
from autograder.sandbox import Nursery
from autograder.submission import read_submission
from autograder.track import load_track
from autograder.verdict import Report

TINY = Path(__file__).parent / "tiny_track"
FILES = ("gate.py", "tower.py")
SEED = 11


@pytest.fixture(autouse=True)
def solutions_of_the_course(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORKSHOP_SOLUTIONS", str(TINY))


def graded(nursery: Nursery, folder: Path, file: str = "gate.py", find: str = "", replace: str = "") -> Report:
    """Grade the track's own solutions with one passage replaced."""
    track = load_track(str(TINY / "tiny.toml"))
    texts = {name: (TINY / name).read_text(encoding="utf-8") for name in FILES}
    assert find in texts[file]
    texts[file] = texts[file].replace(find, replace) if find else texts[file]
    return grade(read_submission(write(folder / "work", texts), track, "ada"), track, nursery, seed=SEED)


def test_the_solutions_of_an_own_track_get_full_marks(nursery: Nursery, tmp_path: Path) -> None:
    report = graded(nursery, tmp_path)
    assert (rejecting(report), report.score, report.max_score) == ({}, 18, 18)
    assert report.assembled["right"] and report.assembled["parameters"] == 3 * (8 * 8 + 8)
    assert checks(report)["tower.layers"].title == "It builds as many different gates as it is high"


@pytest.mark.parametrize(
    ("file", "find", "replace", "check", "says"),
    [
        ("gate.py", "torch.sigmoid", "torch.tanh", "gate.values", "The output is not what Gate should give"),
        ("gate.py", "nn.Linear(width, width)", "nn.Linear(width, width, bias=False)", "gate.parameters", "door.bias"),
        ("tower.py", "x = x + floor(x)", "x = floor(x)", "tower.values", "The output is not what Tower should give"),
        (
            "tower.py",
            "[Gate(width) for _ in range(height)]",
            "[Gate(width)] * height",
            "tower.layers",
            "repeats one gate",
        ),
    ],
)
def test_a_fault_in_one_class_costs_points_in_that_class(
    file: str, find: str, replace: str, check: str, says: str, nursery: Nursery, tmp_path: Path
) -> None:
    report = graded(nursery, tmp_path, file, find, replace)
    assert says in checks(report)[check].message
    assert {name.split(".")[0] for name in rejecting(report)} == {check.split(".")[0]}


def test_another_constructor_is_told_as_a_different_interface(nursery: Nursery, tmp_path: Path) -> None:
    find = "def __init__(self, width: int) -> None:"
    report = graded(nursery, tmp_path, "gate.py", find, "def __init__(self, dim) -> None:\n        width = dim\n")
    assert report.parts["gate"].diagnosis.startswith("Interface differs: Gate takes (dim); it should take (width)")
    assert list(rejecting(report)) == ["gate.builds"]


def test_the_stubs_and_notebooks_of_an_own_track_are_built_from_its_solutions(tmp_path: Path) -> None:
    pytest.importorskip("jupytext", reason="the authoring extra is not installed")
    track = load_track(str(TINY / "tiny.toml"))
    write(tmp_path / "solutions", {path.name: path.read_bytes() for path in TINY.iterdir() if path.suffix != ".toml"})
    assert len(build(tmp_path, track)) == 4 and stale(tmp_path, track) == []
    assert "raise NotImplementedError" in (tmp_path / "exercises" / "gate.py").read_text(encoding="utf-8")
    book = (tmp_path / "exercises" / "notebooks" / "tower.ipynb").read_text(encoding="utf-8")
    assert 'check(Tower, track=\\"tiny\\")' in book and "All two together" in book


def test_a_check_that_no_part_can_have_is_named(nursery: Nursery, tmp_path: Path) -> None:
    text = (TINY / "tiny.toml").read_text(encoding="utf-8").replace('"gate.pure" = 1', '"gate.tying" = 1')
    path = tmp_path / "wrong.toml"
    path.write_text(text, encoding="utf-8")
    track = load_track(str(path))
    work = read_submission(write(tmp_path / "work", {n: (TINY / n).read_bytes() for n in FILES}), track, "ada")
    with pytest.raises(KeyError, match=r"track tiny: part gate \(layer\) has no check 'gate.tying'"):
        grade(work, track, nursery, seed=SEED)
