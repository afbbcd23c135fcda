"""The same class for nbgrader (one notebook a student, checks in hidden cells) and for one pytest process a student."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from measure import SOLUTIONS, Cost, measure

HERE = Path(__file__).resolve().parent
#: The order in which the files build on each other; and those that each part needs.
FILES = ("config", "attention", "mlp", "block", "gpt")
POINTS = {"config": 5, "attention": 30, "mlp": 10, "block": 20, "gpt": 35}


def flat_solutions() -> str:
    """Return all solutions as one model.py."""
    own = tuple(f"from {name} import" for name in FILES)
    lines = [line for name in FILES for line in (SOLUTIONS / f"{name}.py").read_text(encoding="utf-8").splitlines()]
    kept = [line for line in lines if not line.lstrip().startswith((*own, "from __future__", "### BEGIN", "### END"))]
    return "from __future__ import annotations\n" + "\n".join(kept) + "\n"


def grade_with_pytest(folder: Path, students: int, parts: Sequence[str]) -> Cost:
    """Return the cost of one pytest process after another, one a student; each in its own copy of the files."""
    total = Cost(0.0, 0.0)
    tests = ["import model", "import pytest", "import rival_checks", "names = vars(model)"]
    tests += [f"def test_{part}():\n    rival_checks.check_{part}(names)" for part in parts]
    for number in range(students):
        place = folder / f"student-{number:04d}"
        place.mkdir(parents=True)
        _write_checks(place)
        (place / "model.py").write_text(flat_solutions(), encoding="utf-8")
        (place / "test_model.py").write_text("\n".join(tests) + "\n", encoding="utf-8")
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "test_model.py"]
        cost = measure(command, place, _environment(place))
        total = Cost(total.wall + cost.wall, total.cpu + cost.cpu)
    return total


def grade_with_nbgrader(folder: Path, students: int, parts: Sequence[str]) -> Cost:
    """Return the cost of `nbgrader autograde` over a class; making the assignment is not counted."""
    folder.mkdir(parents=True)
    _write_checks(folder)
    (folder / "nbgrader_config.py").write_text(
        "c = get_config()\nc.CourseDirectory.course_id = 'bench'\nc.ExecutePreprocessor.timeout = 120\n",
        encoding="utf-8",
    )
    source = folder / "source" / "ps1"
    source.mkdir(parents=True)
    _write_notebook(source / "ps1.ipynb", folder, parts)
    nbgrader = [sys.executable, "-m", "nbgrader"]
    measure([*nbgrader, "generate_assignment", "ps1"], folder, _environment(folder))
    for number in range(students):
        place = folder / "submitted" / f"student-{number:04d}" / "ps1"
        place.mkdir(parents=True)
        shutil.copy(source / "ps1.ipynb", place)  # the source holds the answer
    cost = measure([*nbgrader, "autograde", "ps1"], folder, _environment(folder))
    _refuse_wrong(folder, students, sum(POINTS[part] for part in parts))
    return cost


def _environment(place: Path) -> dict[str, str]:
    # One thread, as our own children have; no user's settings; nbgrader looks for alembic on the path.
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    own = {"PATH": path, "PYTHONPATH": str(place), "OMP_NUM_THREADS": "1"}
    own |= {"JUPYTER_CONFIG_DIR": str(place / "none"), "IPYTHONDIR": str(place / "ipython")}
    return {**os.environ, **own}


def _write_checks(place: Path) -> None:
    (place / "reference.py").write_text(flat_solutions(), encoding="utf-8")
    shutil.copy(HERE / "rival_checks.py", place)


def _write_notebook(path: Path, course: Path, parts: Sequence[str]) -> None:
    import nbformat
    from nbformat.v4 import new_code_cell, new_notebook

    def cell(name: str, code: str, points: int | None) -> nbformat.NotebookNode:
        about = {"grade_id": name, "schema_version": 3, "locked": points is not None, "task": False}
        about |= {"grade": points is not None, "solution": points is None}
        about |= {} if points is None else {"points": points}
        return new_code_cell(code, metadata={"nbgrader": about})

    answer = f"### BEGIN SOLUTION\n{flat_solutions()}### END SOLUTION"
    cells = [cell("answer", answer, None)]
    where = f"import sys; sys.path.insert(0, {str(course)!r}); import rival_checks"
    for part in parts:
        hidden = f"### BEGIN HIDDEN TESTS\n{where}\nrival_checks.check_{part}(globals())\n### END HIDDEN TESTS"
        cells.append(cell(part, hidden, POINTS[part]))
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    nbformat.write(new_notebook(cells=cells, metadata={"kernelspec": kernel}), path)


def _refuse_wrong(folder: Path, students: int, points: int) -> None:
    """A rival that did not do the work is not compared with."""
    from nbgrader.api import Gradebook

    with Gradebook(f"sqlite:///{folder / 'gradebook.db'}") as book:
        scores = [submission.score for submission in book.assignment_submissions("ps1")]
    if scores != [points] * students:
        raise SystemExit(f"nbgrader gave {scores}, where {students} times {points} was right: see {folder}")
