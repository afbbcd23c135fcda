"""Shared by the tests of the grading core: a warm sandbox a session, and the way from texts to a report."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

import pytest
from answers import write
from workbench_child import Child, write_measured_workbench

from autograder.grading import grade
from autograder.sandbox import Nursery
from autograder.submission import read_submission
from autograder.track import Track, load_track
from autograder.verdict import Report

#: What a submission's files are called when they are imported.
STEMS = ("config", "attention", "mlp", "block", "gpt", "model", "tokenizer", "training", "generation")
STEMS += ("head", "transformer", "convert")


@pytest.fixture(autouse=True)
def no_class_of_a_test_stays_importable() -> Iterator[None]:
    """Take back what loading classes in this process (to train them, to show them) leaves to import."""
    places, before = list(sys.path), {name for name in STEMS if name in sys.modules}
    yield
    sys.path[:] = places
    for name in STEMS:
        if name not in before:
            sys.modules.pop(name, None)


#: Any seed will do: what is claimed here holds for each. One of them keeps a failure repeatable.
SEED = 7


OpenChild = Callable[[Mapping[str, str | bytes]], Child]


class HandIn(Protocol):
    """Grades texts as a student's folder; keyword arguments go to `grade`."""

    def __call__(self, files: Mapping[str, str | bytes], student: str = "ada", **how: Any) -> Report: ...


@pytest.fixture(scope="session")
def nursery() -> Iterator[Nursery]:
    with Nursery() as warm:
        yield warm


@pytest.fixture(scope="session")
def measured_nursery(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nursery]:
    """A sandbox whose children measure their own branch coverage."""
    with Nursery(workbench=write_measured_workbench(tmp_path_factory.mktemp("workbench")), layers=()) as warm:
        yield warm


@pytest.fixture
def open_child(measured_nursery: Nursery, tmp_path: Path) -> OpenChild:
    return lambda files: Child(measured_nursery, tmp_path / "tree", files)


@pytest.fixture(scope="session")
def track() -> Track:
    return load_track("gpt")


@pytest.fixture(scope="session")
def released_course(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An nbgrader course with the assignment ready to hand out. Tests change copies of it."""
    from nbgrader_course import generate, make_course

    course = make_course(tmp_path_factory.mktemp("nbgrader") / "course")
    generate(course)
    return course


@pytest.fixture
def course_of_three(released_course: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A course where ada is right, bo has a wrong part, and at chidi the grader fails. Nothing is really graded."""
    import fake_grader
    from nbgrader_course import behave, copy_of

    for name, module in fake_grader.install({}).items():
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.chdir(tmp_path)
    course = copy_of(released_course, tmp_path / "course")
    for student, behaviour in {"ada": "pass", "bo": "fail", "chidi": "ours"}.items():
        behave(course, student, behaviour)
    return course


@pytest.fixture
def hand_in(nursery: Nursery, track: Track, tmp_path: Path) -> HandIn:
    count = 0

    def hand_in(files: Mapping[str, str | bytes], student: str = "ada", **how: Any) -> Report:
        nonlocal count
        count += 1
        submission = read_submission(write(tmp_path / f"{count}" / "work", files), track, student)
        return grade(submission, track, nursery, **{"seed": SEED, **how})

    return hand_in
