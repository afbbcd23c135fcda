"""Claims about what a student sees in JupyterLab, and whether everyone can read our pages: in a real browser."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from answers import changed, solutions
from browsing import PATIENCE, ROOT, SCREENSHOTS, chromium, jupyterlab, jupyterlab_of_course, missing
from capstone_samples import toy_corpus
from nbgrader_course import graded
from sample_reports import sample_class

from autograder.reports.html import ClassMeta, class_page, student_page

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator, Page

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(bool(missing()), reason=missing()),
    pytest.mark.xdist_group("browser"),  # one browser at a time
]
WRONG = changed("attention.py", " / math.sqrt(self.head_dim)", "")["attention.py"]
RIGHT = solutions()["attention.py"]
STARTS = ("import math", "check(", "picture(")  # of the cells with the class, the check and the picture


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    SCREENSHOTS.mkdir(exist_ok=True)
    with chromium() as opened:
        yield opened


# JupyterLab


class Notebook:
    """A notebook in JupyterLab, used as a student does: by mouse and keyboard."""

    def __init__(self, page: Page) -> None:
        self.page = page

    def cell(self, number: int) -> Locator:
        return self.page.locator(".jp-NotebookPanel:not(.lm-mod-hidden) .jp-Notebook .jp-Cell").nth(number)

    def output(self, number: int) -> Locator:
        return self.cell(number).locator(".jp-OutputArea-output")

    def write(self, number: int, text: str, line: str) -> None:
        """Put `text`, which has `line` in it, in place of what is in a cell. JupyterLab may take the focus once."""
        content = self.cell(number).locator(".cm-content")
        for _ in range(3):
            content.click()
            self.page.keyboard.press("ControlOrMeta+a")
            self.page.keyboard.insert_text(text)
            if line in content.inner_text():
                return
        raise AssertionError(f"cell {number} does not take what is typed")

    def run(self, number: int) -> None:
        self.cell(number).locator(".cm-content").click()
        self.page.keyboard.press("Shift+Enter")

    def see(self, number: int, text: str) -> None:
        """Wait until the output of a cell says `text`; if it does not, leave a photograph of what it says."""
        try:
            self.output(number).filter(has_text=text).first.wait_for(timeout=PATIENCE)
        except Exception:
            self.photograph("0-not-seen", number)
            raise

    def photograph(self, name: str, number: int) -> None:
        self.cell(number).scroll_into_view_if_needed()
        self.page.screenshot(path=SCREENSHOTS / f"lab-{name}.png")


def test_a_student_sees_the_mistake_the_picture_and_the_hint_mends_the_cell_and_passes(
    browser: Browser, tmp_path: Path
) -> None:
    ours = cells_of(ROOT / "exercises" / "notebooks" / "attention.ipynb")
    answer, checking, drawing = (ours.index(cell) for start in STARTS for cell in ours if cell.startswith(start))
    setup = next(number for number, cell in enumerate(ours) if "import check, hint, picture" in cell)
    with jupyterlab(tmp_path) as address:
        page = browser.new_page(viewport={"width": 1200, "height": 900})
        page.set_default_timeout(PATIENCE)
        page.goto(f"{address}/lab/tree/attention.ipynb?reset")
        page.locator('.jp-Notebook-ExecutionIndicator[data-status="idle"]').first.wait_for()
        book = Notebook(page)

        book.write(answer, WRONG, "k.transpose(-2, -1)  # (B, H, T, T)")
        for number in (setup, answer, checking, drawing):
            book.run(number)
        book.see(checking, "Your output equals attention whose scores are not divided by sqrt(head_dim).")
        book.see(checking, "23 / 30")
        assert book.output(checking).locator("table, svg").count(), "there is evidence to look at"
        book.photograph("1-failure", checking)

        book.see(drawing, "Who hears whom in CausalSelfAttention")
        assert book.output(drawing).locator("svg").count()
        book.photograph("2-picture", drawing)

        hint = book.cell(checking).get_by_role("button", name="Hint for attention")
        hint.scroll_into_view_if_needed()
        hint.click()
        book.see(checking, "hint 1 of 3")
        book.cell(checking).get_by_role("button", name="More about attention").click()
        book.see(checking, "hint 2 of 3")
        book.photograph("3-hint", checking + 1)

        book.write(answer, RIGHT, "/ math.sqrt(self.head_dim)")
        book.run(answer)
        book.run(checking)
        book.see(checking, "30 / 30")
        book.see(checking, "1 of 5 parts passed")
        book.photograph("4-passed", checking)

        page.keyboard.press("ControlOrMeta+s")
        saved = tmp_path / "my_gpt" / "attention.ipynb"
        page.wait_for_function("() => !document.title.startsWith('*')")
        page.locator(".jp-mod-dirty").wait_for(state="detached")
        assert cells_of(saved)[answer].strip() == RIGHT.strip()
        page.close()
    assert cells_of(ROOT / "exercises" / "notebooks" / "attention.ipynb") == ours, "the course's own is as it was"


def test_a_student_trains_the_gpt_of_the_notebook_watches_it_learn_and_reads_what_it_writes(
    browser: Browser, tmp_path: Path
) -> None:
    mine = tmp_path / "my_gpt"
    toy_corpus(mine / "data" / "corpus")
    with jupyterlab(tmp_path) as address:
        for part in ("config", "attention", "mlp", "block"):  # written before, each in its own notebook
            solve(mine / f"{part}.ipynb", solutions()[f"{part}.py"])
        ours = cells_of(mine / "gpt.ipynb")
        setup, answer, training, writing = (
            next(number for number, cell in enumerate(ours) if f"\n{words}" in f"\n{cell}")
            for words in ("import_parts(", "class GPT(", "picture(GPT)", "check()")
        )
        page = browser.new_page(viewport={"width": 1200, "height": 900})
        page.set_default_timeout(PATIENCE)
        page.goto(f"{address}/lab/tree/gpt.ipynb?reset")
        page.locator('.jp-Notebook-ExecutionIndicator[data-status="idle"]').first.wait_for()
        book = Notebook(page)

        book.write(answer, solutions()["gpt.py"], "class GPT(nn.Module):")
        size = "steps=60, batch_size=4, block_size=16, evaluate_every=20"
        book.write(training, f"from autograder.jupyter import generate, train\n\ntrain({size})", "train(steps")
        book.write(writing, 'generate("runs/cpu", "my lord", tokens=80)', "generate(")
        for number in (setup, answer, training, writing):
            book.run(number)

        book.see(training, "the model learns")
        book.see(training, "Finished. Best validation loss")
        assert book.output(training).locator("svg polyline").count(), "the loss is drawn"
        assert book.output(training).locator("pre").count(), "a sample is shown"
        book.photograph("5-trained", training)

        book.see(writing, "my lord")
        written = book.output(writing).first.inner_text().strip()
        assert len(written) > len("my lord") + 20, written
        book.photograph("6-written", writing)
        page.close()
    state = json.loads(max((mine / "runs" / "cpu" / "checkpoints").glob("step-*/state.json")).read_text())
    assert state["step"] == 60 and state["code"]["kind"] == "student"


def solve(notebook: Path, answer: str) -> None:
    """Put `answer` into the cell of a notebook that defines the class."""
    book = json.loads(notebook.read_text(encoding="utf-8"))
    (cell,) = (each for each in book["cells"] if "\nclass " in f"\n{''.join(each['source'])}")
    cell["source"] = answer
    notebook.write_text(json.dumps(book), encoding="utf-8")


def cells_of(notebook: Path) -> list[str]:
    """Return the source of each cell of a notebook."""
    return ["".join(cell["source"]) for cell in json.loads(notebook.read_text(encoding="utf-8"))["cells"]]


def test_an_instructor_sees_in_formgrader_the_scores_that_we_wrote(
    browser: Browser, course_of_three: Path, tmp_path: Path
) -> None:
    graded(course_of_three)
    with jupyterlab_of_course(course_of_three, tmp_path) as address:
        page = browser.new_page(viewport={"width": 1200, "height": 700})
        page.set_default_timeout(PATIENCE)
        page.goto(f"{address}/formgrader/gradebook/gpt/model")
        rows = page.locator("table tbody tr")
        rows.nth(1).wait_for()
        page.screenshot(path=SCREENSHOTS / "formgrader.png")
        told = [" ".join(text.split()) for text in rows.all_inner_texts()]
        page.close()
    assert len(told) == 2 and any("100 / 100" in row for row in told) and any("93 / 100" in row for row in told), told


# Pages


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_our_pages_have_no_fault_that_an_accessibility_checker_finds_and_fit_a_telephone(
    browser: Browser, tmp_path: Path, scheme: str
) -> None:
    from axe_playwright_python.sync_playwright import Axe

    # axe is put into the page by us: the page's own policy allows no script but its own
    context = browser.new_context(color_scheme=scheme, bypass_csp=True)  # type: ignore[arg-type]
    found: dict[str, list[str]] = {}
    for name, text in pages().items():
        (tmp_path / f"{name}.html").write_text(text, encoding="utf-8")
        page = context.new_page()
        errors: list[str] = []
        page.on("pageerror", lambda error, errors=errors: errors.append(str(error)))
        page.goto((tmp_path / f"{name}.html").as_uri())
        faults = Axe().run(page).response["violations"]
        found[name] = errors + [f"{each['id']}: {node['html'][:200]}" for each in faults for node in each["nodes"]]
        for width in (1280, 375):
            page.set_viewport_size({"width": width, "height": 800})
            wide = page.evaluate("document.documentElement.scrollWidth")
            assert wide <= width, f"{name} is {wide} pixels wide on a screen of {width}"
            page.screenshot(path=SCREENSHOTS / f"{name}-{scheme}-{width}.png", full_page=True)
        page.close()
    context.close()
    assert not {name: faults for name, faults in found.items() if faults}


def test_the_class_page_is_sorted_by_a_key_press_under_its_own_policy(browser: Browser, tmp_path: Path) -> None:
    (tmp_path / "class.html").write_text(pages()["class"], encoding="utf-8")
    page = browser.new_page()
    page.goto((tmp_path / "class.html").as_uri())
    head = page.get_by_role("columnheader", name="Score")
    head.get_by_role("button").press("Enter")
    rows = page.locator("table.class tbody tr td:nth-child(2)")
    scores = [float(row.get_attribute("data-key") or "nan") for row in rows.all()]
    assert head.get_attribute("aria-sort") != "none" and scores in (sorted(scores), sorted(scores, reverse=True))
    page.close()


def pages() -> dict[str, str]:
    """Return the page of a class, and those of students who between them have every verdict and kind of evidence."""
    everyone = sample_class()
    by_name = {each.student: each for each in everyone}
    chosen = {name: by_name[name] for name in ("renamed", "syntax", "unlucky")}
    chosen["leak"] = next(each for each in everyone if each.parts["attention"].diagnosis.startswith("Position 3"))
    chosen["repaired"] = replace(by_name["ada"], repairs=("Code cell 5 and code cell 6 are one piece of code.",))
    meta = ClassMeta("gpt", "0.1.0", 7)
    students = {f"student-{name}": student_page(each) for name, each in chosen.items()}
    return {"class": class_page(everyone, meta), **students}
