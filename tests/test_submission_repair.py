"""Claims about damaged notebooks: what the student wrote is found, repairs are told, the file stays as it was."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from answers import single_file
from conftest import HandIn
from notebook_damage import SOURCES, STUBS, as_json, healthy
from repaired_notebooks import graded, read_book
from submission_samples import CLASSES, TRACK, fill, notebook, read

from autograder.jupyter.gathering import gather
from autograder.reports.html import student_page
from autograder.submission.notebook import to_python
from autograder.verdict import Report, Verdict

MLP = SOURCES["MLP"]
OTHERS = [SOURCES[name] for name in CLASSES if name != "MLP"]
HEAD = MLP.index("    def forward")
BROKEN = "class MLP(nn.Module):\n    def forward(self, x:\n"
BARE = MLP[MLP.index("class MLP") :]  # its imports were in a cell that is gone
RIVAL = MLP.replace("c_fc", "other")


def as_text(text: str, kind: str = "markdown") -> str:
    book = json.loads(notebook(*OTHERS))
    book["cells"].append({"cell_type": kind, "metadata": {}, "source": text})
    return json.dumps(book)


def test_a_healthy_notebook_is_read_cell_for_cell_without_a_word() -> None:
    work = read_book(as_json(healthy(), "ids"))
    cells = [text for group in healthy() for kind, text in group.cells if kind == "code"]
    expected = to_python(cells, {part.file.removesuffix(".py") for part in TRACK.parts})
    assert work.repairs == () and work.tree["model.py"].decode() == expected and graded(work) == set(CLASSES)


@pytest.mark.parametrize(
    ("book", "receipt"),
    [
        (
            notebook(*OTHERS, MLP, MLP),
            "MLP is there 2 times, word for word (code cell 5, code cell 6): it counts once.",
        ),
        (
            notebook(*OTHERS, RIVAL, MLP),
            "MLP is there 2 times (code cell 5, code cell 6): the last complete one, in code cell 6, is graded.",
        ),
        (
            notebook(*OTHERS, MLP, STUBS["MLP"]),
            "MLP is there 2 times (code cell 5, code cell 6): the last complete one, in code cell 5, is graded.",
        ),
        (
            notebook(*OTHERS, MLP, BROKEN),
            "MLP is there 2 times (code cell 5, code cell 6): the last complete one, in code cell 5, is graded.",
        ),
        (notebook(*OTHERS, MLP[:HEAD], MLP[HEAD:]), "Code cell 5 and code cell 6 are one piece of code: put together."),
        (
            notebook(MLP[HEAD:], *OTHERS, MLP[:HEAD]),
            "Code cell 6 and code cell 1 are one piece of code: put together.",
        ),
        (notebook(*OTHERS, MLP, "x ==="), "Code cell 6 is no Python: it was left out."),
        (notebook(BARE), "Used, but imported in no cell that is left: added `"),
        (as_text(MLP), "Text cell 2 holds code (MLP"),
        (as_text(MLP, "raw"), "Text cell 2 holds code (MLP"),
        (as_text(f"Mine:\n~~~python\n{MLP}\n~~~\nDone."), "Text cell 2 holds code (MLP"),
        (notebook(*OTHERS, f"```\n{MLP}\n```"), "Code cell 5 holds a Markdown fence (```): it was left out."),
        (
            notebook(*OTHERS, MLP.replace("class", "<<<<<<< HEAD\nx = (\n||||||| b\n=======\n>>>>>>> c\nclass", 1)),
            "Code cell 5 holds an unresolved merge (<<<<<<<): its lower side is graded.",
        ),
        (
            notebook(*OTHERS, MLP.replace("class", "<<<<<<< HEAD\n=======\nx = (\n>>>>>>> c\nclass", 1)),
            "Code cell 5 holds an unresolved merge (<<<<<<<): its upper side is graded.",
        ),
        (single_file(), "hw.ipynb is not a notebook but a Python file by that name: it was read as one."),
        (
            json.dumps({"worksheets": [{"cells": [{"cell_type": "code", "input": single_file()}]}], "nbformat": 3}),
            "hw.ipynb is in an old format (nbformat 3): Jupyter saves it anew as 4.",
        ),
        (notebook(*OTHERS, MLP).encode("utf-16"), "hw.ipynb is saved as UTF-16: it was read as that."),
        (notebook(*OTHERS, MLP, MLP)[:-400], "hw.ipynb is damaged (its JSON is cut short or broken): 6 cells could be"),
    ],
)
def test_each_damage_is_mended_and_has_its_receipt(book: str | bytes, receipt: str) -> None:
    work = read_book(book)
    assert any(each.startswith(receipt) for each in work.repairs), work.repairs
    assert graded(work) >= ({"MLP"} if "Used" in receipt else set(CLASSES)) and not work.problem


def test_cells_in_another_order_are_read_in_the_order_in_which_they_run() -> None:
    cells = ["class A(Base):\n    pass\n", "x = 1", "class Base(nn.Module):\n    pass\n", "from torch import nn"]
    work = read_book(notebook(*cells))
    source = work.tree["model.py"].decode()
    assert source.index("import nn") < source.index("class Base") < source.index("class A") < source.index("x = 1")
    assert work.repairs == (
        "Code cell 3 stands below code cell 1, where it is needed: it was read first.",
        "Code cell 4 stands below code cell 3, where it is needed: it was read first.",
    )


def test_two_sides_of_a_merged_file_are_read_and_the_lower_one_is_graded() -> None:
    lines = json.dumps(json.loads(notebook(*OTHERS, MLP)), indent=1).split("\n")
    place = next(number for number, line in enumerate(lines) if "class MLP" in line)
    mine = lines[place].replace("nn.Module", "object")
    lines[place : place + 1] = ["<<<<<<< HEAD", mine, "=======", lines[place], ">>>>>>> theirs"]
    work = read_book("\n".join(lines))
    assert graded(work) == set(CLASSES) and work.repairs == (
        "hw.ipynb holds an unresolved merge (<<<<<<<): both sides were read, the upper one first.",
        "MLP is there 2 times (code cell 5, code cell 6): the last complete one, in code cell 6, is graded.",
    )


def test_a_class_that_goes_on_from_an_earlier_one_of_its_name_keeps_it() -> None:
    work = read_book(notebook(*OTHERS, MLP, "class GPT(GPT):\n    def generate(self, idx):\n        return idx\n"))
    source = work.tree["model.py"].decode()
    assert "\nclass GPT(nn.Module)" in source and "\nclass GPT(GPT)" in source
    assert graded(work) == set(CLASSES) - {"GPT"}, "it loads, and has no forward of its own"


def test_outputs_of_fifty_megabytes_are_passed_over() -> None:
    book = json.loads(notebook(*OTHERS, MLP))
    book["cells"][1]["outputs"] = [{"output_type": "stream", "name": "stdout", "text": "0.1, [" * 8_500_000}]
    work = read_book(json.dumps(book))
    assert work.repairs == ("hw.ipynb takes 51 MB, nearly all of it outputs: they were left out.",)
    assert graded(work) == set(CLASSES)


def test_of_several_notebooks_the_class_of_a_part_is_that_of_its_own(tmp_path: Path) -> None:
    work = read(fill(tmp_path, {"mlp.ipynb": notebook(MLP), "other.ipynb": notebook(*OTHERS, RIVAL)}))
    assert work.repairs == (
        "MLP is there 2 times (code cell 1 of mlp.ipynb, code cell 5 of other.ipynb): the last complete one, in code "
        "cell 1 of mlp.ipynb, is graded.",
    )
    assert graded(work) == set(CLASSES)


@pytest.mark.parametrize(
    "cell",
    [
        "x = (",
        "    x = (",
        "class MLP: x = [",
        '"""',
        "@a\n",
        "<<<<<<< a",
        "```",
        "if x:",
        "[" * 5000,
        "-" * 90_000 + "1",
    ],
)
def test_thousands_of_broken_cells_cost_little_and_lose_nothing(cell: str) -> None:
    count = min(2_000, 900_000 // (len(cell) + 20))
    work = read_book(notebook(*[cell] * count))
    assert not work.problem and work.tree["model.py"].decode().count(cell.strip()) >= count
    assert len(work.repairs) <= 20


@pytest.mark.parametrize("deep", ["a" + ".b" * 1_500, "+".join("1" * 1_500), "(" * 55 + ")" * 55, "not " * 900 + "a"])
def test_code_nested_beyond_reason_is_left_to_the_child(deep: str) -> None:
    cell = f"class MLP(nn.Module):\n    x = {deep}\n    def forward(self, x={deep}):\n        return {deep}\n"
    work = read_book(notebook(cell, cell + "\n", "y = 1"))
    assert work.tree["model.py"].decode().count("class MLP") == 2 and not any("no Python" in r for r in work.repairs)


# What the student sees


def test_the_receipts_are_in_every_report_and_the_grade_is_that_of_what_was_found(hand_in: HandIn) -> None:
    report = hand_in({"hw.ipynb": notebook(*OTHERS, MLP[:HEAD], MLP[HEAD:], "1 +")})
    receipt = "Code cell 5 and code cell 6 are one piece of code: put together."
    assert report.verdict is Verdict.PASSED and receipt in report.repairs
    assert Report.from_json(json.loads(json.dumps(report.to_json()))) == report
    page = student_page(report)
    assert receipt in page and "your file is as you left it" in page


def test_a_broken_cell_costs_its_own_class_only_and_is_told_by_its_place_in_the_notebook(hand_in: HandIn) -> None:
    report = hand_in({"hw.ipynb": notebook(*OTHERS, BROKEN)}, parts=["config", "mlp"])
    assert report.parts["config"].verdict is Verdict.PASSED and report.parts["mlp"].verdict is Verdict.CRASHED
    said = "hw.ipynb does not load: it raises SyntaxError (line 2 of code cell 5): '(' was never closed"
    assert report.parts["mlp"].diagnosis == said
    (exhibit,) = report.parts["mlp"].checks[0].evidence
    assert exhibit.data == {"file": "code cell 5", "line": 2, "text": "def forward(self, x:"}
    assert report.modules["GPTConfig"] == "hw.ipynb" and set(report.files) == {"hw.ipynb"}


def test_a_class_that_raises_when_it_is_defined_does_not_take_the_others_down(hand_in: HandIn) -> None:
    report = hand_in({"hw.ipynb": notebook(*OTHERS, "class MLP:\n    x = 1 / 0\n")}, parts=["config", "mlp"])
    assert report.parts["config"].verdict is Verdict.PASSED
    assert report.parts["mlp"].verdict is Verdict.CRASHED and "ZeroDivisionError" in report.parts["mlp"].diagnosis


def test_those_that_name_a_class_whose_cell_was_deleted_still_load(hand_in: HandIn) -> None:
    typed = MLP.replace("def __init__(self, config)", "def __init__(self, config: GPTConfig)")
    report = hand_in({"hw.ipynb": notebook(typed)}, parts=["config", "mlp"])
    assert report.parts["mlp"].verdict is Verdict.PASSED and "no class GPTConfig" in report.parts["config"].diagnosis


def test_places_in_files_that_are_no_notebooks_stay_as_they_are(hand_in: HandIn) -> None:
    report = hand_in({"model.py": single_file().replace("super().__init__()", "1 / 0", 1)}, parts=["attention"])
    assert "of model.py): division by zero" in report.parts["attention"].diagnosis
    assert report.repairs == () and report.modules["MLP"] == "model.py"


def test_a_damaged_notebook_beside_the_running_one_is_repaired_and_told(tmp_path: Path) -> None:
    fill(tmp_path, {"mlp.ipynb": notebook(MLP[:HEAD], MLP[HEAD:])})
    found = gather(TRACK, [SOURCES["Block"]], tmp_path)
    assert found.places["MLP"] == "mlp.ipynb" and b"def forward" in found.submission.tree["mlp.py"]
    assert found.notices == ("Code cell 1 and code cell 2 are one piece of code: put together.",)
