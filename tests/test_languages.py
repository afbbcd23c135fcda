"""Claims about languages: all that a reader sees is translated, nothing that is kept, and no terminal decides."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from contextvars import ContextVar
from html.parser import HTMLParser
from pathlib import Path

import pytest
from answers import changed, write
from conftest import SEED
from pseudo_language import plain_english, pseudo
from rich.console import Console
from sample_reports import HOSTILE, report

from autograder.catalogue import ENGLISH, load
from autograder.cli.screen import Screen
from autograder.grading import grade
from autograder.hints import load_hints
from autograder.progress import Progress
from autograder.reports.html import ClassMeta, class_page, student_page
from autograder.reports.notebook import hint_html, note_html, report_html, report_text
from autograder.reports.progress import progress_table, progress_total
from autograder.reports.terminal import class_table, result_line, student_report
from autograder.reports.translated import in_language
from autograder.sandbox import Nursery
from autograder.submission import read_submission
from autograder.track import load_track
from autograder.verdict import Report, Verdict

CASES = Path(__file__).parent / "cases"
#: Faults of every part, of the loading, of the names; each graded on what it is about.
FAULTY = (
    *(
        "faulty/attn_mask_offbyone_future",
        "faulty/attn_scale_n_embd",
        "faulty/block_eps_1e_3",
        "faulty/gpt_loss_last_token",
    ),
    *("faulty/mlp_hidden_multiple_of_64", "faulty/config_numpy_default", "faulty/gen_prepends", "faulty/tok_strips"),
    *("faulty/step_no_clipping", "broken/syntax_unclosed_paren", "broken/stub_loss_left", "renamed/mlp_fc1_fc2"),
)
PSEUDO = pseudo()


@pytest.fixture(scope="module")
def graded(nursery: Nursery) -> list[Report]:
    track = load_track("gpt")
    reports = []
    for name in FAULTY:
        meta = tomllib.loads((CASES / name / "meta.toml").read_text(encoding="utf-8"))
        wrong = [part for part, verdict in meta["verdict"].items() if verdict != "pass"]
        submission = read_submission(CASES / name, track, name.rpartition("/")[2])
        reports.append(grade(submission, track, nursery, seed=SEED, parts=wrong or None))
    return reports


class _Shown(HTMLParser):
    """The text of a page, and what is read aloud of it; code and styles are no text."""

    def __init__(self) -> None:
        super().__init__()
        self.said: list[str] = []
        self._silent = 0

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self._silent += tag in ("style", "script", "pre", "code")
        self.said += [value for name, value in attributes if name in ("title", "aria-label") and value]

    def handle_endtag(self, tag: str) -> None:
        self._silent -= tag in ("style", "script", "pre", "code")

    def handle_data(self, data: str) -> None:
        if not self._silent and data.strip():
            self.said.append(data.strip())


def on_page(page: str) -> list[str]:
    reader = _Shown()
    reader.feed(page)
    return reader.said


def on_terminal(reports: list[Report]) -> Iterator[str]:
    for one in reports:
        console = Console(file=io.StringIO(), width=2000, color_system=None)
        student_report(one, console, verbose=True, catalogue=PSEUDO)
        lines = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
        yield from (line.strip() for line in lines if not line.strip().startswith(("graded", ">")))


def test_at_least_97_of_100_sentences_of_reports_and_pages_are_translated(
    graded: list[Report], capsys: pytest.CaptureFixture[str]
) -> None:
    pages = [text for one in graded for text in on_page(student_page(one, catalogue=PSEUDO))]
    pages += on_page(class_page(graded, ClassMeta("gpt", "0.1.0", SEED, graded[0].isolation), catalogue=PSEUDO))
    said = [text for text in (*on_terminal(graded), *pages) if any(letter.isalpha() for letter in text)]
    missing = [(text, plain_english(text)) for text in said if plain_english(text)]
    with capsys.disabled():
        for text, words in dict.fromkeys(missing):
            print(f"\nnot translated ({words}): {text[:200]}")
    assert len(said) > 1500
    assert 1 - len(missing) / len(said) >= 0.97, f"{len(missing)} of {len(said)}"


def test_a_translated_report_keeps_its_facts_and_english_is_the_report_itself(graded: list[Report]) -> None:
    one = graded[0]
    assert in_language(one, ENGLISH) is one
    told = in_language(one, PSEUDO)
    assert (told.score, told.seed, told.files, told.student) == (one.score, one.seed, one.files, one.student)
    for name, part in one.parts.items():
        assert [check.id for check in told.parts[name].checks] == [check.id for check in part.checks]
        for before, after in zip(part.checks, told.parts[name].checks, strict=True):
            assert after.title.startswith("⟦") and after.points == before.points
            assert [item.kind for item in after.evidence] == [item.kind for item in before.evidence]


def test_pages_say_which_language_they_are_in(graded: list[Report]) -> None:
    german = load("de")
    assert '<html lang="en">' in student_page(graded[0])
    page = student_page(graded[0], catalogue=german)
    assert '<html lang="de">' in page and "Was bewertet wurde" in page and "What was graded" not in page
    assert '<html lang="de">' in class_page(graded, ClassMeta("gpt", "0.1.0", SEED), catalogue=german)


def test_hostile_text_is_as_harmless_in_any_language() -> None:
    wrong = {"attention.values": (Verdict.FAILED, f"Position {HOSTILE} sees position {HOSTILE}.", HOSTILE, ())}
    one = report(student=HOSTILE, wrong=wrong, error=HOSTILE, warnings=(HOSTILE,))
    for language in (PSEUDO, load("de")):
        page = student_page(one, catalogue=language)
        assert "<script>alert" not in page and "<img" not in page and "49" not in on_page(page)
        assert "\x1b" not in page and "\u202e" not in page
        console = Console(file=io.StringIO(), width=80, color_system=None)
        student_report(one, console, catalogue=language)
        assert "\x1b" not in console.file.getvalue()  # type: ignore[attr-defined]


def test_a_notebook_speaks_the_language_of_its_reader(graded: list[Report]) -> None:
    track, german = load_track("gpt"), load("de")
    one = graded[0]
    html = report_html(one, list(one.parts.values()), track, Progress().with_report(one), catalogue=german)
    assert 'lang="de"' in html and "Punkten" in html and "falsch" in html
    assert "Summe" not in html and "falsch" in report_text(one, list(one.parts.values()), track, Progress(), german)
    assert "Hinweis 1 von 3: Idee" in hint_html(load_hints("gpt").ladders[0], 1, german)
    assert "Nichts wurde geändert." in note_html("Nothing was changed.", german)


def test_class_table_progress_and_lines_speak_it_too(graded: list[Report]) -> None:
    german, track = load("de"), load_track("gpt")
    console = Console(file=io.StringIO(), width=160, color_system=None)
    class_table(graded, console, german)
    console.print(progress_table(track, Progress(), ascii=False, catalogue=german))
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert "bewertet: Mittel" in text and "Ergebnis" in text and "zuerst bestanden" in text and "nicht geprüft" in text
    assert "falsch" in result_line(graded[0], german)
    assert progress_total(track, Progress(), german) == "0 von 100 Punkten, 0 von 5 Teilen bestanden"


def test_a_screen_translates_sentences_and_leaves_text_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    from rich.text import Text

    monkeypatch.setenv("WORKSHOP_LANG", "de")
    monkeypatch.setattr("autograder.cli.screen._language", ContextVar("language", default=None))  # of no command before
    stream = io.StringIO()
    screen = Screen(stream)
    screen.print("Nothing was changed.", soft_wrap=True)
    screen.print(Text("Nothing was changed."))
    assert stream.getvalue().splitlines() == ["Nichts wurde geändert.", "Nothing was changed."]


# -- the command ------------------------------------------------------------------------------------------------------


def workshop(folder: Path, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("LC_", "LANG", "WORKSHOP_"))}
    root = str(Path(__file__).resolve().parent.parent)
    given = {**plain, "PYTHONPATH": root, "PYTHONUTF8": "1", "PYTHONDONTWRITEBYTECODE": "1", **environment}
    command = [sys.executable, "-m", "autograder", *words]
    return subprocess.run(
        command, cwd=folder, env=given, capture_output=True, encoding="utf-8", timeout=240, check=False
    )


@pytest.fixture
def work(tmp_path: Path) -> Path:
    return write(tmp_path / "work", changed("mlp.py", 'nn.GELU(approximate="tanh")', "nn.ReLU()"))


def test_check_speaks_the_language_that_is_named_and_never_the_terminals(work: Path) -> None:
    english = workshop(work, "check", "mlp", "--seed", "7", LANG="de_DE.UTF-8", LC_ALL="de_DE.UTF-8", LANGUAGE="de")
    assert english.returncode == 1 and "The activation is ReLU, not GELU." in english.stdout
    german = workshop(work, "check", "mlp", "--seed", "7", LANG="C", WORKSHOP_LANG="de")
    assert german.returncode == 1 and "Die Aktivierung ist ReLU, nicht GELU." in german.stdout
    assert "Look at" not in german.stdout and "sieh nach" in german.stdout


def test_what_is_kept_is_in_english_whoever_reads_it(work: Path) -> None:
    kept = [
        json.loads(workshop(work, "check", "mlp", "--seed", "7", "--json", "--no-progress", **language).stdout)
        for language in ({}, {"WORKSHOP_LANG": "de"})
    ]
    assert kept[0] == kept[1] and "The activation is ReLU" in json.dumps(kept[0])


def test_help_errors_and_status_are_translated_and_a_wrong_language_is_told(work: Path) -> None:
    told = workshop(work, "--language", "de", "check", "--help").stdout
    assert "Die eigene Arbeit prüfen" in told and "Der Kurs, gegen den geprüft wird." in told and "Beispiele:" in told
    assert "Schreibe ein GPT" in workshop(work, "--help", WORKSHOP_LANG="de").stdout
    wrong = workshop(work, "--language", "de", "check", "mlpp")
    assert wrong.returncode == 2 and "es gibt keinen Teil 'mlpp'. Meintest du mlp?" in wrong.stderr
    assert "Punkten" in workshop(work, "status", WORKSHOP_LANG="de").stdout
    none = workshop(work, "check", WORKSHOP_LANG="xx")
    assert none.returncode == 2 and "there is no language 'xx'. There are: en, de" in none.stderr


def test_a_new_language_is_begun_and_read_from_the_folder_of_whoever_writes_it(work: Path) -> None:
    begun = workshop(work, "translate", "fr", "--into", "mine")
    assert begun.returncode == 0 and "0 of " in begun.stdout
    path = work / "mine" / "fr.po"
    text = path.read_text(encoding="utf-8")
    asked = 'msgid "Nothing was changed."\nmsgstr ""'
    assert asked in text
    path.write_text(text.replace(asked, asked[:-2] + '"Rien n\'a changé."'), encoding="utf-8")
    again = workshop(work, "translate", "fr", "--into", "mine")
    assert "1 of " in again.stdout and "Rien n'a changé." in path.read_text(encoding="utf-8")
    assert workshop(work, "translate", "../x").returncode == 2
    path.write_text("nonsense", encoding="utf-8")
    refused = workshop(work, "translate", "fr", "--into", "mine")
    assert refused.returncode == 2 and "line 1" in refused.stderr and path.read_text(encoding="utf-8") == "nonsense"


def test_the_command_lists_the_languages_with_their_coverage_and_checks_them(work: Path) -> None:
    listed = workshop(work, "translate").stdout
    assert "de: " in listed and " messages; of what students read " in listed and "%" in listed
    assert workshop(work, "translate", "--check").stdout == "The catalogue is current.\n"
    assert workshop(work, "translate", "fr", "--check").returncode == 2
