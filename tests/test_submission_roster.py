"""One submission is told from a class, and no student of a class is lost."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from submission_samples import MODEL, STUBS, TRACK, fill, notebook, read, tarred, zipped

from autograder.submission import IntakeError, find_submissions
from autograder.verdict import Verdict


def found(path: Path) -> dict[str, str]:
    """Return student -> path below `path`, in the order in which they were found."""
    return {name: place.relative_to(path.resolve()).as_posix() for name, place in find_submissions(path, TRACK)}


@pytest.mark.parametrize(
    "files",
    [
        {"model.py": MODEL, "sub/model.py": MODEL, "other.py": ""},
        {"gpt.py": MODEL},
        {"Model.py": MODEL},
        {"model (1).py": MODEL},
        {"hw.ipynb": notebook(MODEL)},
        {"hw.ipynb": notebook(MODEL), "helper.py": "x = 1", "data/input.txt": "", ".ipynb_checkpoints/hw.ipynb": ""},
        {"README.md": "x", "meta.toml": ""},
        {"model.py/x": ""},
    ],
)
def test_a_folder_with_the_work_in_it_is_one_submission(tmp_path: Path, files: dict[str, str]) -> None:
    assert found(fill(tmp_path / "ada l.", files)) == {"ada l.": "."}


def test_a_folder_of_students_is_a_class_whatever_they_handed_in(tmp_path: Path) -> None:
    files: dict[str, str | bytes] = {
        "zoe/model.py": MODEL,
        "bob.py": MODEL,
        "cleo.ipynb": notebook(MODEL),
        "dan.zip": zipped({"model.py": MODEL}),
        "eve.v2.tar.gz": tarred(STUBS),
        "fay.rar": b"Rar!",
        "gus/README.md": "sorry",
        "hal/Model.py": MODEL,
        "ian/scratchpad/model.py": MODEL,
        "README.md": "the class",
        "roster.csv": "a,b",
        ".DS_Store": "x",
        "__MACOSX/._x.py": "x",
        "__pycache__/bob.pyc": "x",
    }
    (fill(tmp_path, files) / "jo").mkdir()
    students = found(tmp_path)
    assert list(students) == ["bob", "cleo", "dan", "eve.v2", "fay", "gus", "hal", "ian", "jo", "zoe"]
    verdicts = {name: read(tmp_path / place).verdict for name, place in students.items()}
    assert {name: verdict for name, verdict in verdicts.items() if verdict} == {
        "fay": Verdict.FAILED,
        "gus": Verdict.NOT_ATTEMPTED,
        "hal": Verdict.FAILED,
        "ian": Verdict.FAILED,
        "jo": Verdict.NOT_ATTEMPTED,
    }


@pytest.mark.parametrize(
    "other",
    [{"bob/model.py": MODEL}, {"bob/hw.ipynb": notebook(MODEL)}, {"bob.zip": b""}, {"bob.py": MODEL}],
    ids=["folder", "folder with a notebook", "archive", "source"],
)
def test_one_notebook_beside_another_students_work_is_a_class(tmp_path: Path, other: dict[str, str]) -> None:
    assert set(found(fill(tmp_path, {"ada.ipynb": notebook(MODEL), **other}))) == {"ada", "bob"}


def test_several_notebooks_are_a_class(tmp_path: Path) -> None:
    assert list(found(fill(tmp_path, {"b.ipynb": "{}", "a.ipynb": "{}"}))) == ["a", "b"]


def test_a_single_file_is_one_submission(tmp_path: Path) -> None:
    fill(tmp_path, {"ada.tar.gz": tarred(STUBS), "-o'n \"+é.py": MODEL})
    assert find_submissions(tmp_path / "ada.tar.gz", TRACK) == [("ada", (tmp_path / "ada.tar.gz").resolve())]
    assert [name for name, _ in find_submissions(tmp_path / "-o'n \"+é.py", TRACK)] == ["-o'n \"+é"]


def test_one_name_for_several_hand_ins_is_numbered(tmp_path: Path) -> None:
    names = ["ada/model.py", "ada.py", "ada.zip", "ada (2).py", "bob.py"]
    students = found(fill(tmp_path, dict.fromkeys(names, MODEL)))
    assert students == {
        "ada": "ada",
        "ada (2)": "ada (2).py",
        "ada (3)": "ada.py",
        "ada (4)": "ada.zip",
        "bob": "bob.py",
    }


@pytest.mark.parametrize("top", ["", "submitted"])
def test_nbgraders_tree_is_unwrapped(tmp_path: Path, top: str) -> None:
    work = "submitted/{}/ps1/"
    files = {
        work.format("ada") + "model.py": MODEL,
        work.format("ada") + "timestamp.txt": "2026-01-01",
        work.format("bob") + "hw.ipynb": notebook(MODEL),
        "submitted/dan/model.py": MODEL,
        "source/ps1/hw.ipynb": "{}",
        "gradebook.db": "x",
    }
    (fill(tmp_path / "course", files) / "submitted" / "cleo").mkdir()
    (tmp_path / "course" / "submitted" / "eve" / "ps1").mkdir(parents=True)
    students = {name: place.name for name, place in find_submissions(tmp_path / "course" / top, TRACK)}
    assert students == {"ada": "ps1", "bob": "ps1", "cleo": "cleo", "dan": "dan", "eve": "ps1"}


def test_nbgraders_tree_is_known_by_its_stamps_under_any_name(tmp_path: Path) -> None:
    files = {"ada/ps1/model.py": MODEL, "ada/ps1/timestamp.txt": "", "bob/ps1/model.py": MODEL}
    assert found(fill(tmp_path, files)) == {"ada": "ada/ps1", "bob": "bob/ps1"}


def test_several_assignments_are_named(tmp_path: Path) -> None:
    fill(tmp_path / "submitted", {"ada/ps1/model.py": MODEL, "bob/ps2/model.py": MODEL})
    with pytest.raises(IntakeError, match=r"several assignments \(ps1, ps2\)"):
        find_submissions(tmp_path, TRACK)


def test_nothing_to_grade_is_an_error_for_the_instructor(tmp_path: Path) -> None:
    with pytest.raises(IntakeError, match=r"There is no file or folder .*nowhere"):
        find_submissions(tmp_path / "nowhere", TRACK)
    with pytest.raises(IntakeError, match="is empty"):
        find_submissions(fill(tmp_path / "empty", {".DS_Store": ""}), TRACK)
    fill(tmp_path / "course", {"submitted/README.md": ""})
    with pytest.raises(IntakeError, match="no students"):
        find_submissions(tmp_path / "course", TRACK)


def test_a_folder_that_cannot_be_read_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(path: object) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(os, "scandir", broken)
    with pytest.raises(IntakeError, match=r"cannot be read \(Permission denied\)"):
        find_submissions(tmp_path, TRACK)


def test_a_student_whose_folder_cannot_be_read_is_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(tmp_path, {"ada/model.py": MODEL, "bob/model.py": MODEL, "cleo.ipynb": "{}"})
    scandir = os.scandir

    def guarded(path: Path) -> object:
        if Path(path).name == "bob":
            raise PermissionError(13, "Permission denied", str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", guarded)
    assert list(found(tmp_path)) == ["ada", "bob", "cleo"]


@pytest.mark.skipif(sys.platform == "win32", reason="needs links and pipes as POSIX has them")
def test_links_in_a_class_are_listed_and_refused_but_the_instructors_own_is_followed(tmp_path: Path) -> None:
    room = fill(tmp_path / "class", {"ada/model.py": MODEL})
    (room / "bob").symlink_to("ada")
    (room / "cleo.py").symlink_to("ada/model.py")
    (room / "README").symlink_to("ada/model.py")
    os.mkfifo(room / "dan.py")
    (tmp_path / "link").symlink_to("class")
    for path in (room, tmp_path / "link"):
        students = find_submissions(path, TRACK)
        assert [name for name, _ in students] == ["ada", "bob", "cleo", "dan"]
        assert {name for name, place in students if read(place).verdict is Verdict.FORBIDDEN} == {"bob", "cleo", "dan"}
    (tmp_path / "mine").symlink_to("class/ada")
    ((name, place),) = find_submissions(tmp_path / "mine", TRACK)
    assert name == "ada" and not read(place).problem
