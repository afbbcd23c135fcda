"""Claims about what formgrader and nbgrader's feedback show after `workshop grade --nbgrader`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from nbgrader_course import ASSIGNMENT, book_at, cell_named, generate_feedback, graded, grades, hand_in, solved
from sample_reports import HOSTILE, SCALE

from autograder.gradebook.book import as_comment
from autograder.track import load_track

FULL = {f"{part.name}-score": part.max_score for part in load_track("gpt").parts}


@pytest.fixture
def course(course_of_three: Path) -> Path:
    return course_of_three


# pages


def test_formgrader_and_feedback_show_the_students_answers_our_points_and_nothing_hidden(course: Path) -> None:
    work = hand_in(course, "bo", solved(course, lambda texts: {**texts, "mlp": "# my own\n" + texts["mlp"]}))
    (work / "submission_secret.txt").write_text("secret", encoding="utf-8")
    graded(course)
    place = course / "autograded" / "bo" / ASSIGNMENT
    book = book_at(place / "model.ipynb")
    assert cell_named(book, "mlp-answer")["source"].startswith("# my own\n")
    (output,) = cell_named(book, "attention-score")["outputs"]
    assert "23 / 30" in output["text"] and SCALE in output["text"]
    assert (place / "timestamp.txt").read_text(encoding="utf-8").startswith("2025-03-14")
    generate_feedback(course)
    shown = (course / "feedback" / "bo" / ASSIGNMENT / "model.html").read_text(encoding="utf-8")
    assert "HIDDEN" not in shown and "93.0" in shown and "sqrt(head_dim) scale" in shown
    names = {path.name for path in (course / "feedback" / "bo" / ASSIGNMENT).iterdir()}
    assert names == {"model.html", "workshop.html", "timestamp.txt", "submission_secret.txt"}
    page = (course / "feedback" / "bo" / ASSIGNMENT / "workshop.html").read_text(encoding="utf-8")
    assert page == (Path("grades") / "students" / "bo.html").read_text(encoding="utf-8")


def test_our_answer_is_never_shown_in_the_place_of_one_that_is_not_there(course: Path) -> None:
    work = course / "submitted" / "bo" / ASSIGNMENT
    book = book_at(work / "model.ipynb")
    kept = [cell for cell in book["cells"] if cell["metadata"]["nbgrader"]["grade_id"] != "attention-answer"]
    for cell in kept:
        if cell["metadata"]["nbgrader"]["grade_id"] == "mlp-answer":
            cell["metadata"] = {}  # typed anew: known by its class alone
    (work / "model.ipynb").write_text(json.dumps({**book, "cells": kept}), encoding="utf-8")
    graded(course)
    text = (course / "autograded" / "bo" / ASSIGNMENT / "model.ipynb").read_text(encoding="utf-8")
    shown = book_at(course / "autograded" / "bo" / ASSIGNMENT / "model.ipynb")
    assert "masked_fill" not in text and "SOLUTION" not in text
    assert cell_named(shown, "attention-answer")["source"] == "# Nothing of this was found in what was handed in."
    assert cell_named(shown, "mlp-answer")["source"].startswith("class MLP(nn.Module):")


@pytest.mark.parametrize("data", [b"", b"[]", b'{"cells": 3}', b'{"cells": [1, {"metadata": []}]}', b"\xff" * 99])
def test_a_notebook_that_is_none_harms_nobody(course: Path, data: bytes) -> None:
    (course / "submitted" / "ada" / ASSIGNMENT / "model.ipynb").write_bytes(data)
    assert graded(course).exit_code == 3
    assert cell_named(book_at(course / "autograded" / "ada" / ASSIGNMENT / "model.ipynb"), "mlp-answer")["source"]


def test_a_notebook_that_nbgrader_or_a_person_put_there_stays_until_there_is_another_hand_in(course: Path) -> None:
    place = course / "autograded" / "ada" / ASSIGNMENT
    place.mkdir(parents=True)
    (place / "model.ipynb").write_text('{"metadata": {}, "cells": [], "note": "run by nbgrader"}', encoding="utf-8")
    (place / "timestamp.txt").write_bytes((course / "submitted" / "ada" / ASSIGNMENT / "timestamp.txt").read_bytes())
    graded(course)
    assert "run by nbgrader" in (place / "model.ipynb").read_text(encoding="utf-8")
    (course / "submitted" / "ada" / ASSIGNMENT / "timestamp.txt").write_text(
        "2025-03-20 00:00:00 UTC", encoding="utf-8"
    )
    graded(course)
    assert "run by nbgrader" not in (place / "model.ipynb").read_text(encoding="utf-8")


def test_nothing_is_written_behind_a_link(course: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (course / "feedback").mkdir()
    (course / "feedback" / "ada").symlink_to(elsewhere, target_is_directory=True)
    result = graded(course)
    assert "ada: " in result.stdout and "is a link" in result.stdout and not list(elsewhere.rglob("workshop.html"))
    assert set(grades(course)) == {"ada", "bo"}, "the points are there all the same"


def test_without_a_source_notebook_the_points_and_our_page_arrive_all_the_same(course: Path) -> None:
    (course / "source" / ASSIGNMENT / "model.ipynb").write_text("[]", encoding="utf-8")
    assert graded(course).exit_code == 3 and grades(course)["ada"] == FULL
    assert not (course / "autograded" / "ada" / ASSIGNMENT / "model.ipynb").exists()
    assert (course / "feedback" / "ada" / ASSIGNMENT / "workshop.html").exists()


# comments


def test_a_comment_shows_the_very_characters_and_is_no_markup() -> None:
    from nbconvert.filters import markdown2html

    text = "GPT.__init__ raises <script>alert(1)</script> [x](javascript:y) `b` $x$ head_dim *c* &amp; ![i](j)"
    page = markdown2html(as_comment(text))
    assert (
        "<script" not in page and "<a" not in page and "<em" not in page and "<img" not in page and "<code" not in page
    )
    assert "GPT.__init__" in page and "head_dim" in page and "&amp;amp;" in page
    for character in as_comment(HOSTILE):
        assert character.isprintable()
