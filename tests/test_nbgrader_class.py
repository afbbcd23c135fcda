"""Claims about nbgrader itself on our assignment, and about the two ways to the same gradebook, side by side."""

from __future__ import annotations

import csv
import getpass
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from nbgrader_class import people
from nbgrader_course import ASSIGNMENT, TRACK, copy_of, grades, hand_in, make_course, solved

#: Short, so that a loop does not cost two minutes; long enough for an honest cell on a busy machine.
_SETTINGS = """\
c.ExecutePreprocessor.timeout = 90
c.CourseDirectory.course_id = "gpt101"
c.Exchange.root = {exchange!r}
"""

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Run a module of this Python as a command, without this user's own settings of Jupyter."""
    scripts = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    own = {"PATH": scripts, "JUPYTER_CONFIG_DIR": str(tmp_path / "none"), "IPYTHONDIR": str(tmp_path / "ipython")}
    own |= {"JUPYTER_DATA_DIR": str(tmp_path / "data"), "OMP_NUM_THREADS": "1", "NO_COLOR": "1", "COLUMNS": "200"}

    def run(*words: str | Path, at: Path, ok: bool = True) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", *map(str, words)]
        done = subprocess.run(command, cwd=at, env={**os.environ, **own}, capture_output=True, text=True, check=False)
        assert not ok or done.returncode == 0, done.stdout + done.stderr
        return done

    return run


@pytest.mark.slow  # six commands of nbgrader's, at five seconds each
def test_the_assignment_goes_all_the_way_through_nbgrader_unmodified(run: Run, tmp_path: Path) -> None:
    """Generated, released, fetched, submitted, collected, autograded, fed back, fetched again, exported."""
    course, home, exchange = make_course(tmp_path / "course"), tmp_path / "home", tmp_path / "exchange"
    settings = _SETTINGS.format(exchange=str(exchange))
    for folder in (home, exchange):
        folder.mkdir()
    exchange.chmod(0o777)
    with (course / "nbgrader_config.py").open("a", encoding="utf-8") as file:
        file.write(settings)
    (home / "nbgrader_config.py").write_text("c = get_config()\n" + settings, encoding="utf-8")
    run("nbgrader", "generate_assignment", ASSIGNMENT, at=course)
    run("nbgrader", "release_assignment", ASSIGNMENT, at=course)
    run("nbgrader", "fetch_assignment", ASSIGNMENT, at=home)
    student = getpass.getuser()
    hand_in(course, "scratch", solved(course))
    work = course / "submitted" / "scratch"
    (home / ASSIGNMENT / "model.ipynb").write_bytes((work / ASSIGNMENT / "model.ipynb").read_bytes())
    for path in (*(work / ASSIGNMENT).iterdir(), work / ASSIGNMENT, work):
        path.unlink() if path.is_file() else path.rmdir()
    assert "Success" in run("nbgrader", "validate", str(Path(ASSIGNMENT) / "model.ipynb"), at=home).stdout
    run("nbgrader", "submit", ASSIGNMENT, at=home)
    run("nbgrader", "collect", ASSIGNMENT, at=course)
    run("nbgrader", "autograde", ASSIGNMENT, at=course)
    assert grades(course) == {student: {f"{part.name}-score": part.max_score for part in TRACK.parts}}
    run("nbgrader", "generate_feedback", ASSIGNMENT, at=course)
    assert "HIDDEN" not in (course / "feedback" / student / ASSIGNMENT / "model.html").read_text(encoding="utf-8")
    # and our way on top of it: nbgrader's own commands still find all that they need
    run("autograder", "grade", "--nbgrader", course, ASSIGNMENT, "--out", tmp_path / "grades", at=tmp_path)
    run("nbgrader", "generate_feedback", "--force", ASSIGNMENT, at=course)
    assert (course / "feedback" / student / ASSIGNMENT / "workshop.html").exists()
    run("nbgrader", "release_feedback", ASSIGNMENT, at=course)
    run("nbgrader", "fetch_feedback", ASSIGNMENT, at=home)
    fetched = list((home / ASSIGNMENT / "feedback").rglob("model.html"))
    assert len(fetched) == 1 and "100.0" in fetched[0].read_text(encoding="utf-8")
    run("nbgrader", "export", at=course)
    with (course / "grades.csv").open(encoding="utf-8", newline="") as file:
        (row,) = csv.DictReader(file)
    assert (row["student_id"], float(row["score"]), float(row["max_score"])) == (student, 100.0, 100.0)


@pytest.mark.slow  # nbgrader grades twelve, some of them until its time-out
def test_both_ways_agree_on_the_honest_and_ours_is_right_where_nbgrader_alone_is_not(
    released_course: Path, run: Run, tmp_path: Path
) -> None:
    course = copy_of(released_course, tmp_path / "a")
    with (course / "nbgrader_config.py").open("a", encoding="utf-8") as file:
        file.write(_SETTINGS.format(exchange=str(tmp_path / "exchange")))
    for person in people():
        hand_in(course, person.id, person.book(course))
    ours = copy_of(course, tmp_path / "b")
    run("autograder", "grade", "--nbgrader", ours, ASSIGNMENT, "--out", tmp_path / "grades", at=tmp_path)
    run("nbgrader", "autograde", ASSIGNMENT, at=course, ok=False)
    alone, locked_in = grades(course), grades(ours)
    print(f"\n{'student':9} {'handed in':42} {'deserves':>8} {'nbgrader':>9} {'--nbgrader':>11}")
    for person in people():
        given = _total(alone.get(person.id, {}))
        mine = _total(locked_in[person.id])
        print(f"{person.id:9} {person.what:42} {person.points:8g} {given:>9} {mine:>11}")
        assert mine == f"{person.points:g}", person
        if person.honest:
            assert alone[person.id] == locked_in[person.id], person
    wrong = [person.id for person in people() if _total(alone.get(person.id, {})) != f"{person.points:g}"]
    assert set(wrong) >= {"hye-jin", "ines", "kofi", "lena"}, "nbgrader alone got better: say so in the handbook"


def _total(found: dict[str, float | None]) -> str:
    if not found or any(value is None for value in found.values()):
        return "no grade"
    return f"{sum(value for value in found.values() if value is not None):g}"
