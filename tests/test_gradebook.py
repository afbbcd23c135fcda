"""Claims about `workshop grade --nbgrader`: what arrives in the gradebook, what stays in it, and what is refused."""

from __future__ import annotations

import os
import signal
import sqlite3
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import fake_grader
import pytest
from nbgrader_course import ASSIGNMENT, TRACK, behave, comments, graded, grades, workshop
from sample_reports import SCALE, report, ungradable
from typer.testing import Result

from autograder.gradebook.book import Book
from autograder.gradebook.course import CourseError, open_course

FULL = {f"{part.name}-score": part.max_score for part in TRACK.parts}


@pytest.fixture
def course(course_of_three: Path) -> Path:
    return course_of_three


def in_book(course: Path, change: Callable[[Any], None]) -> None:
    """Do something to the gradebook by nbgrader's API, as an instructor in formgrader does."""
    from nbgrader.api import Gradebook

    with Gradebook(f"sqlite:///{course / 'gradebook.db'}") as book:
        change(book)
        book.db.commit()


def grade_of(book: Any, student: str, part: str) -> Any:
    return book.find_grade(f"{part}-score", "model", ASSIGNMENT, student)


# what arrives


def test_scores_comments_and_times_arrive_and_our_own_failure_is_no_zero(course: Path) -> None:
    result = graded(course)
    assert result.exit_code == 3 and "2 of 3 are in the gradebook" in result.stdout
    found = grades(course)
    assert found == {"ada": FULL, "bo": {**FULL, "attention-score": 23.0}}
    assert comments(course, "bo") == {f"{part.name}-answer": None for part in TRACK.parts} | {"attention-answer": SCALE}

    def look(book: Any) -> None:
        submission = book.find_submission(ASSIGNMENT, "ada")
        assert str(submission.timestamp) == "2025-03-14 22:10:05.123456" and submission.max_score == 100
        assert not submission.needs_manual_grade

    in_book(course, look)


def test_a_second_run_writes_the_same_and_a_new_hand_in_replaces_the_old(course: Path) -> None:
    behave(course, "chidi", "pass")
    assert graded(course).exit_code == 0
    before = (course / "gradebook.db").read_bytes()
    assert graded(course).exit_code == 0 and (course / "gradebook.db").read_bytes() == before
    behave(course, "bo", "pass")
    assert graded(course).exit_code == 0
    assert grades(course)["bo"] == FULL and comments(course, "bo")["attention-answer"] is None


def test_what_a_person_set_stays_points_comments_extra_credit_penalties_and_extensions(course: Path) -> None:
    graded(course)

    def by_hand(book: Any) -> None:
        grade = grade_of(book, "bo", "attention")
        grade.manual_score, grade.extra_credit = 28.0, 1.5
        book.find_comment("attention-answer", "model", ASSIGNMENT, "bo").manual_comment = "Nearly."
        book.find_submission_notebook("model", ASSIGNMENT, "bo").late_submission_penalty = 4.0
        book.update_or_create_assignment(ASSIGNMENT, duedate="2025-03-14")
        book.grant_extension(ASSIGNMENT, "bo", days=2)

    in_book(course, by_hand)
    result = graded(course, "--no-resume")
    assert "bo: points by hand stay for attention" in result.stdout

    def look(book: Any) -> None:
        grade = grade_of(book, "bo", "attention")
        assert (grade.auto_score, grade.manual_score, grade.extra_credit, grade.score) == (23.0, 28.0, 1.5, 29.5)
        assert not grade.needs_manual_grade, "nothing new was found"
        notebook = book.find_submission_notebook("model", ASSIGNMENT, "bo")
        assert notebook.late_submission_penalty == 4.0 and notebook.assignment.extension.days == 2

    in_book(course, look)
    assert comments(course, "bo")["attention-answer"] == "Nearly."
    behave(course, "bo", "pass")
    graded(course)
    in_book(course, lambda book: _needs_a_look(grade_of(book, "bo", "attention")))


def _needs_a_look(grade: Any) -> None:
    assert grade.manual_score == 28.0 and grade.auto_score == 30.0 and grade.needs_manual_grade


def test_our_failure_changes_nothing_that_is_there(course: Path) -> None:
    graded(course)
    behave(course, "bo", "ours")
    (course / "submitted" / "bo" / ASSIGNMENT / "timestamp.txt").write_text("2025-04-01 00:00:00 UTC", encoding="utf-8")
    before = (course / "gradebook.db").read_bytes()
    result = graded(course)
    assert result.exit_code == 3 and "An earlier grade stays: bo" in result.stdout
    assert (course / "gradebook.db").read_bytes() == before


def test_other_assignments_other_students_and_cells_of_ones_own_are_left_alone(course: Path) -> None:
    def more(book: Any) -> None:
        book.add_assignment("essay")
        book.add_student("zoe", last_name="Z")
        book.add_grade_cell("essay-question", "model", ASSIGNMENT, max_score=7, cell_type="markdown")

    in_book(course, more)
    graded(course)

    def look(book: Any) -> None:
        assert {assignment.name for assignment in book.assignments} == {"essay", ASSIGNMENT}
        assert book.find_student("zoe").last_name == "Z" and not book.student_submissions("zoe")
        grade = book.find_grade("essay-question", "model", ASSIGNMENT, "ada")
        assert grade.auto_score is None and grade.needs_manual_grade

    in_book(course, look)


def test_parts_that_were_not_asked_for_keep_what_they_have(course: Path) -> None:
    graded(course)
    whole = report("bo")
    with Book(open_course(course, ASSIGNMENT), TRACK) as book:
        book.write(replace(whole, parts={"config": whole.parts["config"]}), None)
    assert grades(course)["bo"] == {**FULL, "attention-score": 23.0}
    assert comments(course, "bo")["attention-answer"] == SCALE


def test_an_assignment_that_the_gradebook_does_not_know_is_made_from_its_source(course: Path) -> None:
    in_book(course, lambda book: book.remove_assignment(ASSIGNMENT))
    released = (course / "release" / ASSIGNMENT / "model.ipynb").read_bytes()
    assert graded(course).exit_code == 3
    assert grades(course)["ada"] == FULL
    assert (course / "release" / ASSIGNMENT / "model.ipynb").read_bytes() == released
    in_book(course, lambda book: book.remove_assignment(ASSIGNMENT))
    (course / "source" / ASSIGNMENT / "model.ipynb").unlink()
    result = graded(course)
    assert result.exit_code == 2 and "knows no assignment 'gpt'" in result.stderr.replace("\n", " ").replace("│", "")


# what is refused


def told(result: Result) -> str:
    assert result.exit_code == 2, result.output
    return " ".join(result.stderr.split())


def test_what_is_no_course_or_no_assignment_is_refused_with_what_to_do(course: Path, tmp_path: Path) -> None:
    before = (course / "gradebook.db").read_bytes()
    assert "is not there" in told(workshop("grade", "--nbgrader", tmp_path / "none", "gpt"))
    assert "is not a folder" in told(workshop("grade", "--nbgrader", course / "gradebook.db", "gpt"))
    assert "Did you mean gpt?" in told(workshop("grade", "--nbgrader", course, "gtp"))
    for name in ("a+b", "../gpt", ".."):
        assert "cannot be an assignment" in told(workshop("grade", "--nbgrader", course, name))
    (tmp_path / "bare").mkdir()
    assert "collect with nbgrader first" in told(workshop("grade", "--nbgrader", tmp_path / "bare", "gpt"))
    assert "lies in the submissions folder" in told(
        workshop("grade", "--nbgrader", course, "gpt", "--out", course / "submitted" / "out")
    )
    assert (course / "gradebook.db").read_bytes() == before and not (tmp_path / "grades").exists()


def test_a_gradebook_that_is_missing_or_none_or_of_another_version_is_refused_and_left_alone(course: Path) -> None:
    file = course / "gradebook.db"
    good = file.read_bytes()
    with sqlite3.connect(file) as book:
        book.execute("UPDATE alembic_version SET version_num = 'b6d005d67074'")
    assert "nbgrader db upgrade" in told(graded(course))
    file.write_bytes(b"not a database, but somebody's only copy of something")
    assert "is not a gradebook" in told(graded(course))
    assert file.read_bytes().startswith(b"not a database")
    file.unlink()
    assert "There is no gradebook" in told(graded(course)) and not file.exists()
    file.write_bytes(good)
    assert graded(course).exit_code == 3


def test_points_or_cells_that_differ_from_the_course_are_refused_before_anything_is_graded(course: Path) -> None:
    def change(book: Any) -> None:
        book.find_grade_cell("mlp-score", "model", ASSIGNMENT).max_score = 12.0

    in_book(course, change)
    fake_grader.log.clear()
    assert "mlp is worth 10 points in this course, and 12 in the gradebook" in told(graded(course))
    assert not fake_grader.log

    def take(book: Any) -> None:
        book.update_or_create_assignment("other")
        book.add_notebook("model", "other")

    in_book(course, take)
    for student in ("ada", "bo"):
        (course / "submitted" / student / ASSIGNMENT).rename(course / "submitted" / student / "other")
    assert "no cell 'config-score'" in told(workshop("grade", "--nbgrader", course, "other"))


def test_other_parts_than_the_assignment_holds_are_refused_with_those_that_it_holds(course: Path) -> None:
    refused = told(workshop("grade", "--nbgrader", course, ASSIGNMENT, "--parts", "training"))
    assert "no cell 'training-score'" in refused and "--parts config,attention,mlp,block,gpt" in refused


def test_settings_that_do_not_run_or_move_the_folders_are_refused(course: Path) -> None:
    settings = course / "nbgrader_config.py"
    own = settings.read_text(encoding="utf-8")
    settings.write_text(
        own + "c.CourseDirectory.directory_structure = '{student_id}/{nbgrader_step}/{assignment_id}'\n"
    )
    assert "directory_structure" in told(graded(course))
    settings.write_text("1 / 0\n", encoding="utf-8")
    assert "does not run (ZeroDivisionError" in told(graded(course))
    moved = course / "book" / "grades.db"
    moved.parent.mkdir()
    (course / "gradebook.db").rename(moved)
    settings.write_text(own + f"c.CourseDirectory.db_url = 'sqlite:///{moved}'\n", encoding="utf-8")
    assert graded(course).exit_code == 3 and not (course / "gradebook.db").exists()


def test_without_nbgrader_the_extra_is_named(course: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import importlib.util

    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert 'pip install "gpt-workshop-kit[notebook]"' in told(graded(course)).replace("│ ", "").replace(" │", "")


# whole or not at all


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks, to be killed in the middle of a transaction")
def test_a_run_that_is_killed_while_it_writes_leaves_whole_students_only_and_the_next_one_completes(
    course: Path,
) -> None:
    """Killed right before bo's commit: ada is there, of bo there is nothing."""
    real = Book._write

    def write(self: Book, result: Any, when: Any) -> Any:
        found = real(self, result, when)
        if result.student == "bo":
            self._book.db.flush()
            os.kill(os.getpid(), signal.SIGKILL)
        return found

    child = os.fork()
    if child == 0:
        Book._write = write  # type: ignore[method-assign]  # in the child alone
        try:
            graded(course)
        finally:
            os._exit(1)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
    assert grades(course) == {"ada": FULL}
    assert graded(course).exit_code == 3
    assert grades(course)["bo"]["attention-score"] == 23.0


def test_a_gradebook_that_refuses_a_student_loses_nobody_else(course: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from sqlalchemy.exc import OperationalError

    real = Book._write

    def locked(self: Book, result: Any, when: Any) -> Any:
        found = real(self, result, when)
        if result.student == "ada":
            raise OperationalError("UPDATE secret", {}, Exception("database is locked"))
        return found

    monkeypatch.setattr(Book, "_write", locked)
    told_all = graded(course)
    assert (
        told_all.exit_code == 3 and "Not written: ada: the gradebook refused it: database is locked" in told_all.stdout
    )
    assert set(grades(course)) == {"bo"}


def test_ids_that_nbgrader_has_trouble_with_are_told(course: Path) -> None:
    behave(course, "emeka+obi", "pass")
    folder = course / "submitted" / os.fsdecode(b"fa\xffrah")
    try:
        (course / "submitted" / "bo").rename(folder)
    except OSError:
        pytest.skip("this file system takes no names that are no text")
    told_all = graded(course).stdout
    assert "emeka+obi: nbgrader's exchange cannot bring feedback to an id with +" in told_all
    assert told_all.count("cannot stand for an id in the gradebook") == 1
    assert set(grades(course)) == {"ada", "emeka+obi"}


def test_a_link_in_the_place_of_a_student_is_not_followed(course: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (course / "submitted" / "zoe").symlink_to(course / "submitted" / "ada", target_is_directory=True)
    (course / "submitted" / "ada" / "behave.txt").write_text("pass", encoding="utf-8")  # the stand-in follows anything
    assert "Not written: zoe: the folder is a link" in graded(course).stdout
    assert set(grades(course)) == {"ada", "bo"}
    assert dict(open_course(course, ASSIGNMENT).entries)["zoe"] == course / "submitted" / "zoe"


def test_ctrl_c_while_the_gradebook_is_written_leaves_whole_students_and_says_how_to_go_on(
    course: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Book._write

    def stopped(self: Book, result: Any, when: Any) -> Any:
        found = real(self, result, when)
        if result.student == "bo":
            raise KeyboardInterrupt
        return found

    with monkeypatch.context() as patch:
        patch.setattr(Book, "_write", stopped)
        result = graded(course)
    assert result.exit_code == 130 and "Interrupted: 1 are in the gradebook" in result.stdout
    assert set(grades(course)) == {"ada"}
    graded(course)
    assert set(grades(course)) == {"ada", "bo"}


def test_formgrader_finds_the_class_graded(course: Path) -> None:
    from nbgrader.apps.api import NbGraderAPI
    from nbgrader.coursedir import CourseDirectory

    graded(course)
    api = NbGraderAPI(coursedir=CourseDirectory(root=str(course)))
    found = {row["student"]: (row["autograded"], row["score"]) for row in api.get_submissions(ASSIGNMENT)}
    assert found == {"ada": (True, 100.0), "bo": (True, 93.0), "chidi": (False, 0.0)}


def test_a_report_of_ours_must_hold_a_grade(course: Path) -> None:
    with Book(open_course(course, ASSIGNMENT), TRACK) as book, pytest.raises(AssertionError):
        book.write(ungradable("ada"), None)
    with pytest.raises(CourseError):
        open_course(course / "none", ASSIGNMENT)


def test_a_time_that_cannot_be_read_is_not_written(course: Path) -> None:
    (course / "submitted" / "ada" / ASSIGNMENT / "timestamp.txt").write_text("yesterday", encoding="utf-8")
    graded(course)
    in_book(course, lambda book: _has_no_time(book.find_submission(ASSIGNMENT, "ada")))


def _has_no_time(submission: Any) -> None:
    assert submission.timestamp is None and submission.score == 100
