"""Claims about the pages: self-contained, escaped, accessible, and showing what they are for."""

from __future__ import annotations

import base64
import hashlib
import re
from collections import Counter
from dataclasses import replace
from html.parser import HTMLParser
from importlib import resources
from urllib.parse import unquote

import pytest
from sample_reports import HOSTILE, NO_MASK, NO_SCALE, PORTABLE, SCALE, V, report, sample_class, ungradable

from autograder.reports.html import ClassMeta, class_page, student_page
from autograder.reports.summary import diagnoses, figures, grid
from autograder.reports.tables import file_names
from autograder.verdict import Evidence

META = ClassMeta("gpt", "0.1.0", 5, PORTABLE, "Write a GPT", ("config", "attention", "mlp", "block", "gpt"))
VOID = {"meta", "br", "img", "link", "input", "hr"}


class Page(HTMLParser):
    """The elements of a page, its visible text, and whether its tags are balanced."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.open: list[str] = []
        self.text = ""
        self.feed(text)
        assert self.open == [], "every element is closed"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        inside_picture = tag == "title" and "svg" in self.open  # the tip of a cell, not the title of the page
        self.elements.append(("tip" if inside_picture else tag, {name: value or "" for name, value in attrs}))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if not self.open or self.open[-1] not in ("style", "script"):
            self.text += data

    def all(self, tag: str) -> list[dict[str, str]]:
        return [attributes for name, attributes in self.elements if name == tag]


def pages() -> list[str]:
    return [student_page(made) for made in sample_class()] + [class_page(sample_class(), META)]


def test_nothing_is_fetched_and_only_our_script_may_run() -> None:
    for text in pages():
        page = Page(text)
        (policy,) = [m["content"] for m in page.all("meta") if m.get("http-equiv") == "Content-Security-Policy"]
        assert policy.startswith("default-src 'none'; ")
        for tag in ("link", "img", "iframe", "object", "form", "base"):
            assert page.all(tag) == []
        for _, attributes in page.elements:
            assert not any(name.startswith("on") or name == "src" for name in attributes)
            href = attributes.get("href", "#")
            assert href.startswith(("#", "students/"))
        for script in re.findall(r"<script>(.*?)</script>", text, re.DOTALL):
            digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
            assert f"'sha256-{digest}'" in policy


def test_only_the_class_page_has_a_script() -> None:
    assert Page(student_page(report("ada"))).all("script") == []
    assert len(Page(class_page(sample_class(), META)).all("script")) == 1


def test_hostile_text_is_text() -> None:
    for text in (student_page(sample_class()[-1]), class_page(sample_class(), META)):
        page = Page(text)
        assert "<script>alert(1)</script>" in page.text and "{{ 7*7 }}" in page.text
        for bad in ("\x1b", "\x9b", "\u202e", "\u2066", "\x00", "\x08", "\x07"):
            assert bad not in text
        text.encode("utf-8")


def test_pages_are_accessible() -> None:
    for text in pages():
        page = Page(text)
        tags = Counter(tag for tag, _ in page.elements)
        assert page.all("html")[0]["lang"] == "en" and tags["h1"] == 1 and tags["main"] == 1 and tags["title"] == 1
        assert tags["caption"] == tags["table"]
        assert all("scope" in head for head in page.all("th"))
        assert all(picture.get("aria-label") for picture in page.all("svg"))
        ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
        assert len(ids) == len(set(ids))
        for _, attributes in page.elements:
            assert attributes.get("aria-labelledby", ids[0]) in ids
            if attributes.get("href", "").startswith("#"):
                assert attributes["href"][1:] in ids


def test_pages_read_well_on_a_phone() -> None:
    for text in pages():
        page = Page(text)
        assert {"name": "viewport", "content": "width=device-width, initial-scale=1"} in page.all("meta")
        scrolling = [a for _, a in page.elements if "scroll" in a.get("class", "").split()]
        assert len(scrolling) >= len(page.all("table")), "wide tables scroll inside their own box"


def contrast(one: str, other: str) -> float:
    def luminance(colour: str) -> float:
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_colour_has_contrast_aa(scheme: str) -> None:
    css = (resources.files("autograder.reports") / "templates" / "style.css").read_text(encoding="utf-8")
    blocks = [
        dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6});", block)) for block in re.findall(r":root \{(.*?)\}", css, re.S)
    ]
    assert len(blocks) == 2 and blocks[0].keys() == blocks[1].keys()
    colours = blocks[scheme == "dark"]
    pairs = [(name, name.removesuffix("-ink")) for name in colours if name.endswith("-ink")]
    pairs += [(ink, page) for ink in ("ink", "muted", "link") for page in ("page", "panel")] + [("ink", "caution")]
    for ink, page in pairs:
        assert contrast(colours[ink], colours[page]) >= 4.5, (ink, page)


def test_a_student_sees_score_diagnosis_evidence_and_what_was_graded() -> None:
    text = Page(student_page(report("ada", NO_SCALE, warnings=("near 240",)))).text
    for words in (
        "93",
        SCALE,
        "0.8312",
        "att.softmax(dim=-2)",
        "model.py, line 41",
        "near 240",
        "20240611",
        "9f86d081",
    ):
        assert words in text
    assert "NOT ISOLATED" in text and "What next:" in text and "All five classes together" in text


def test_the_matrix_is_a_picture_with_a_text_alternative() -> None:
    page = Page(student_page(report("ada", NO_MASK)))
    (picture,) = page.all("svg")
    assert "7 of 28 cells that must be empty are not" in picture["aria-label"]
    assert sum(r.get("class") == "leak" for r in page.all("rect")) == 7
    assert sum(p.get("class") == "cross" for p in page.all("path")) == 7, "not by colour alone"
    assert sum(p.get("class") == "outline" for p in page.all("path")) == 1
    assert "The outlined triangle must be empty" in page.text


def test_bars_are_a_picture_with_a_text_alternative_and_not_told_apart_by_colour_alone() -> None:
    exhibit = Evidence("bars", "Loss before training", {"rows": [["yours", 8.34], ["<ln> 65", 4.17], ["nan", "x"]]})
    page = Page(student_page(report("ada", {"gpt.initial_loss": (V.PASSED, "", "", (exhibit,))})))
    (picture,) = page.all("svg")
    assert picture["aria-label"] == "Bars: yours 8.34, <ln> 65 4.17, nan nan."
    assert [(r["class"], r["width"]) for r in page.all("rect")] == [
        ("mine", "240.0"),
        ("other", "120.0"),
        ("other", "0.0"),
    ]


@pytest.mark.parametrize(("n", "m"), [(1, 1), (2, 5), (5, 2), (40, 40), (0, 0)])
def test_matrices_of_any_shape_are_drawn(n: int, m: int) -> None:
    exhibit = replace(NO_MASK["attention.causal"][3][0], data={
        "rows": [[1.0] * m for _ in range(n)], "row_label": "a", "column_label": "b", "empty_above_diagonal": True,
    })  # fmt: skip
    made = report("ada", {"attention.causal": (V.FAILED, "x", "", (exhibit,))})
    assert len(Page(student_page(made)).all("svg")) == 1


def test_our_failure_shows_no_score() -> None:
    text = Page(student_page(ungradable("ada"))).text
    assert "Not graded, and not your fault." in text and "no space left" in text and "0 / 100" not in text


def test_a_report_with_nothing_in_it_is_a_page() -> None:
    bare = replace(
        report("bare"), parts={}, files={}, modules={}, isolation={}, assembled={}, error="There is no model.py."
    )
    assert "No part was graded." in Page(student_page(bare)).text


def test_the_class_page_links_each_student_to_a_page_that_is_there() -> None:
    reports = sample_class()
    names = file_names(r.student for r in reports)
    links = {a["href"] for a in Page(class_page(reports, META, names)).all("a") if a["href"].startswith("students/")}
    assert {unquote(link) for link in links} == {f"students/{name}.html" for name in names.values()}


def test_the_class_table_sorts_by_real_buttons() -> None:
    page = Page(class_page(sample_class(), META))
    heads = [head for head in page.all("th") if "aria-sort" in head]
    assert len(heads) == len(page.all("button")) == 9
    assert Counter(head["aria-sort"] for head in heads) == {"ascending": 1, "none": 8}


def test_the_heat_map_shows_which_check_the_class_fails() -> None:
    reports = sample_class()
    text = class_page(reports, META)
    picture = grid(reports)
    assert len(picture.columns) == 45 and picture.groups[1] == ("attention", 11)
    values = next(c for c in picture.columns if c.id == "attention.values")
    assert (values.passed, values.ran) == (6, 8)
    assert "6 of 11 passed, 8 ran" in text
    assert f'title="values is as the contract says: failed. {SCALE}"' in text


def test_figures_leave_out_what_we_could_not_grade() -> None:
    numbers = figures([report("a"), report("b", NO_SCALE), ungradable("c")])
    assert (numbers.submissions, numbers.graded, numbers.passed_all) == (3, 2, 1)
    assert (numbers.mean, numbers.median) == (96.5, 96.5)
    assert figures([]).mean is None
    assert "–" in Page(class_page([ungradable("c")], META)).text


def test_common_diagnoses_are_counted_and_differ_not_by_numbers() -> None:
    def leaks(student: str, a: int, b: int) -> object:
        return report(student, {"attention.causal": (V.FAILED, f"Position {a} sees position {b}.", "", ())})

    found = diagnoses([leaks("a", 3, 4), leaks("b", 0, 1), report("c", NO_SCALE), report("d")])  # type: ignore[list-item]
    assert [(d.part, d.students) for d in found] == [("attention", ("a", "b")), ("attention", ("c",))]
    assert found[0].text == "Position 3 sees position 4."


def test_many_students_with_one_diagnosis_are_not_all_named() -> None:
    reports = [report(f"s{i:02}", NO_SCALE) for i in range(20)]
    assert "and 8 more" in Page(class_page(reports, META)).text


def test_an_interrupted_class_says_so_and_an_empty_one_is_a_page() -> None:
    assert "Interrupted: 1 of 9" in Page(class_page([report("a")], replace(META, expected=9))).text
    assert "Class report" in Page(class_page([], ClassMeta("gpt", "0.1.0", 5))).text


def test_the_same_reports_give_the_same_page() -> None:
    assert class_page(sample_class(), META) == class_page(sample_class()[::-1], META)
    assert HOSTILE not in class_page(sample_class(), META)
