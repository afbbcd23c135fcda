"""Claims about the guide: each command in it can be typed, each sentence of the checker is real, each link leads on."""

from __future__ import annotations

import ast
import json
import math
import re
import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from autograder.capstone.presets import load_preset, preset_names
from autograder.capstone.vocabulary import SHAKESPEARE
from autograder.cli import app

#: Typer's own copy of click's, in whatever version.
USAGE_ERROR: Any = typer.BadParameter.__mro__[1]
ROOT = Path(__file__).resolve().parent.parent
GUIDE = sorted((ROOT / "workshop_guide").rglob("*.md"))
PAGES = [*GUIDE, *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md"))]
PARTS = [*sorted((ROOT / "workshop_guide").glob("part*-*.md")), ROOT / "workshop_guide" / "foundations.md"]


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def code_lines(text: str) -> Iterator[str]:
    """Yield the lines of fenced and indented code; Python and TOML are no commands."""
    language: str | None = None
    for line in text.splitlines():
        fence = re.match(r"\s*```(\w*)", line)
        if fence:
            language = (fence[1] or "text") if language is None else None
        elif language in ("text", "bash", "console", "sh") or (language is None and line.startswith("    ")):
            yield line.strip().removeprefix("$ ")


def commands(path: Path, program: str) -> list[str]:
    """Return the commands of a page that call `program`: in code, and in code words of the prose (`workshop ...`)."""
    text = path.read_text(encoding="utf-8")
    prose = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    lines = [part for line in code_lines(text) for part in line.split(" && ")]
    lines += [" ".join(word.split()) for word in re.findall(r"`([^`]+)`", prose)]
    return [line for line in lines if line.split(" ")[0] == program and "..." not in line]


def unknown(line: str) -> str:
    """Return what the command line does not know of a command; empty when it could be typed."""
    words = [word for word in shlex.split(line, comments=True)[1:] if word not in ("&", "|")]
    words = words[: words.index(">")] if ">" in words else words
    words = words[2:] if words[:1] == ["--language"] else words  # the one option that stands before a command
    command: Any = typer.main.get_command(app)
    try:
        while hasattr(command, "get_command") and words and not words[0].startswith("-"):
            found = command.get_command(command.context_class(command), words[0])
            if found is None:
                return f"no command {words[0]!r}"
            command, words = found, words[1:]
        context = command.context_class(command)
        _, left, _ = command.make_parser(context).parse_args(list(words))
    except USAGE_ERROR as error:
        return error.format_message()
    return f"left over: {left}" if left else ""


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_workshop_command_of_a_page_can_be_typed(page: Path) -> None:
    assert {line: unknown(line) for line in commands(page, "workshop") if unknown(line)} == {}


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_make_target_of_a_page_exists(page: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    assert {line.split()[1] for line in commands(page, "make") if len(line.split()) > 1} <= targets


def test_the_test_itself_sees_wrong_commands() -> None:
    for line in ("workshop chek", "workshop check --pat x", "workshop export canva", "workshop history a b"):
        assert unknown(line)
    assert sum(len(commands(page, "workshop")) for page in PAGES) > 90


@pytest.mark.parametrize("page", GUIDE, ids=name)
def test_every_link_of_the_guide_leads_to_a_file_and_to_a_heading_in_it(page: Path) -> None:
    for target, anchor in re.findall(r"\]\(([^)#]*)(?:#([^)]*))?\)", page.read_text(encoding="utf-8")):
        if target.startswith("https://"):
            continue
        file = page.parent / target if target else page
        assert file.exists(), f"{name(page)} links to {target}"
        if anchor:
            headings = re.findall(r"^#+ (.*)$", file.read_text(encoding="utf-8"), re.MULTILINE)
            assert anchor in {re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", [page for page in PARTS if page.name[:5] not in ("part0", "part5", "part6")], ids=name)
def test_every_sentence_that_the_guide_quotes_is_one_that_the_checker_says(page: Path) -> None:
    bank = (ROOT / "autograder" / "oracle" / "misconceptions.toml").read_text(encoding="utf-8")
    said = {entry["says"] for entries in tomllib.loads(bank).values() if isinstance(entries, list) for entry in entries}
    source = " ".join(
        path.read_text(encoding="utf-8").replace('"\n', "") for path in (ROOT / "autograder" / "checks").glob("*.py")
    )
    quoted = re.findall(r'\| "([^"|]+)" \|', page.read_text(encoding="utf-8"))
    assert quoted
    assert [sentence for sentence in quoted if sentence not in said and sentence not in source] == []


@pytest.mark.parametrize("page", PARTS, ids=name)
def test_every_page_of_a_part_has_its_sections_a_picture_and_three_folded_answers(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for heading in (
        "**Idea.**",
        "**In a picture**",
        "**How to check it.**",
        "**Common mistakes**",
        "**Test yourself**",
        "**Further reading.**",
    ):
        assert heading in text, f"{name(page)} lacks {heading}"
    assert text.count("<details>") == text.count("</details>") == text.count("<summary>") == 3


def test_the_code_of_the_tokenization_page_does_what_it_says() -> None:
    text = (ROOT / "workshop_guide" / "part1-tokenization.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    names: dict[str, object] = {}
    exec(code, names)
    assert names["characters"] == SHAKESPEARE
    assert "assert" in code


def test_every_sentence_that_the_capstone_quotes_is_one_that_the_trainer_says() -> None:
    folder = ROOT / "autograder" / "capstone"
    source = " ".join(re.sub(r'"\n\s*f?"', "", path.read_text(encoding="utf-8")) for path in folder.glob("*.py"))
    quoted = re.findall(
        r'\| "([^"|]+)" \|', (ROOT / "workshop_guide" / "part5-capstone.md").read_text(encoding="utf-8")
    )
    assert len(quoted) >= 5
    assert [sentence for sentence in quoted if sentence not in source] == []


def test_every_fence_of_a_page_is_of_a_known_kind_and_parses() -> None:
    """Text and commands are for people; Python, TOML and JSON must be whole."""
    parsers = {"python": ast.parse, "toml": tomllib.loads, "json": json.loads}
    for page in PAGES:
        for language, code in re.findall(
            r"^```(\w*)\n(.*?)^```", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE
        ):
            assert language in {*parsers, "text", "bash"}, f"{name(page)} has a fence of {language!r}"
            code = "{" + code + "}" if language == "json" and not code.startswith("{") else code
            parsers.get(language, str)(code)


def test_the_presets_that_the_capstone_lists_are_those_of_the_trainer() -> None:
    text = (ROOT / "workshop_guide" / "part5-capstone.md").read_text(encoding="utf-8")
    for preset, *numbers in re.findall(
        r"^\| `(\w+)` \| (\d+) \| (\d+) \| (\d+) \| (\d+) \| (\d+) \|", text, re.MULTILINE
    ):
        settings = load_preset(preset).settings
        fields = ("n_layer", "n_head", "n_embd", "block_size", "batch_size")
        assert [getattr(settings, field) for field in fields] == [int(number) for number in numbers]
    assert text.count("\n| `") >= len(preset_names()) == 3


def test_the_rates_that_the_training_page_lists_are_those_of_its_formula() -> None:
    text = (ROOT / "workshop_guide" / "part3-training.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| ([\d,]+)(?: and later)? \| ([\d.]+) \|$", text, re.MULTILINE))
    highest, lowest, warmup, last = 1e-3, 1e-4, 100, 2000
    middle = lowest + (highest - lowest) * (1 + math.cos(math.pi * (1050 - warmup) / (last - warmup))) / 2
    wanted = {"0": highest / (warmup + 1), "100": highest, "1,050": middle, "2,000": lowest}
    assert {step: float(rows[step]) for step in wanted} == pytest.approx(wanted, rel=1e-2)


def test_the_agenda_fills_four_hours_without_a_gap() -> None:
    text = (ROOT / "workshop_guide" / "handbook" / "workshop.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\d):(\d\d) \| (\d+) \|", text, re.MULTILINE)
    now = 0
    for hours, minutes, length in rows:
        assert int(hours) * 60 + int(minutes) == now
        now += int(length)
    assert now == 240


def test_the_parameters_that_the_guide_counts_are_those_of_the_model() -> None:
    text = " ".join(path.read_text(encoding="utf-8") for path in PARTS)
    width, rows, positions, layers = 384, 65, 256, 6
    attention = 4 * width * width + 4 * width
    mlp = 8 * width * width + 5 * width
    block = attention + mlp + 4 * width
    counted = (rows * width, positions * width, attention, mlp, block, layers * block)
    for number in (*counted, rows * width + positions * width + layers * block + 2 * width, 50_257 * width):
        assert f"{number:,}" in text
