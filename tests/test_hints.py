"""Hints: three rungs for every part and every common mistake, chosen by what went wrong, and never the answer."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from autograder.hints import GENERAL, RUNGS, Hints, load_hints
from autograder.oracle import misconceptions
from autograder.oracle.reference import find_solutions
from autograder.track import load_track, track_names

TRACK, HINTS = load_track("gpt"), load_hints("gpt")
BANK = tomllib.loads(Path(misconceptions.__file__).with_suffix(".toml").read_text(encoding="utf-8"))
MISTAKES = [(part.name, entry["says"]) for part in TRACK.parts for entry in BANK.get(part.name, [])]


def words(text: str) -> str:
    return " ".join(text.split())


def test_every_part_has_an_idea_shapes_and_steps_and_every_mistake_too() -> None:
    assert RUNGS == ("idea", "shapes", "steps")
    for part in TRACK.every:
        ladders = HINTS.of(part.name)
        assert ladders[0].topic == GENERAL and len(ladders) > 1
        assert len({ladder.topic for ladder in ladders}) == len(ladders)
        for ladder in ladders:
            assert len(ladder.rungs) == 3 and all(len(rung) > 60 for rung in ladder.rungs), ladder.topic


def test_hints_name_only_parts_and_checks_that_there_are() -> None:
    checks = {part.name: set(part.points) for part in TRACK.every}
    for ladder in HINTS.ladders:
        assert set(ladder.checks) <= checks[ladder.part], ladder.topic


def test_hints_hold_no_line_of_the_solutions() -> None:
    code = {
        words(line.split("  #")[0])
        for path in find_solutions().glob("*.py")
        for region in re.findall(
            r"### BEGIN SOLUTION\n(.*?)### END SOLUTION", path.read_text(encoding="utf-8"), re.DOTALL
        )
        for line in region.splitlines()
    }
    code = {line for line in code if len(line) > 8 and not line.startswith("#")}
    assert len(code) > 30
    told = [words(rung) for ladder in HINTS.ladders for rung in ladder.rungs]
    assert not [(line, text) for line in code for text in told if line in text]
    assert not [
        text for text in told if re.search(r"self\.\w|nn\.Linear\(|\w\(x\)|\.transpose|\.view|\.softmax| @ ", text)
    ]


@pytest.mark.parametrize(("part", "says"), MISTAKES)
def test_every_known_mistake_has_a_hint_of_its_own(part: str, says: str) -> None:
    ladder = HINTS.about(part, {f"{part}.values": says})
    assert ladder is not None and ladder.part == part and ladder.topic != GENERAL


@pytest.mark.parametrize(
    ("part", "check", "says", "topic"),
    [
        ("attention", "attention.causal", "Position 3 sees position 4.", "mask"),
        ("attention", "attention.values", "Your output equals attention whose scores are not divided by x.", "scale"),
        ("attention", "attention.values", "c_attn's output is read as k, q, v.", "split"),
        ("attention", "attention.mask_is_hard", "anything", "mask-strength"),
        ("attention", "attention.divisibility", "anything", "parameters"),
        ("mlp", "mlp.values", "The activation is ReLU, not GELU.", "gelu"),
        ("block", "block.values", "Both residual connections are missing.", "residual"),
        ("gpt", "gpt.tying", "anything", "tying"),
        ("gpt", "gpt.values", "wte and wpe are swapped.", "positions"),
        ("gpt", "gpt.values", "The blocks run in reverse order.", "blocks"),
    ],
)
def test_the_hint_fits_the_mistake(part: str, check: str, says: str, topic: str) -> None:
    ladder = HINTS.about(part, {check: says})
    assert ladder is not None and ladder.topic == topic


def test_rungs_come_one_after_the_other_first_of_the_mistake_then_of_the_part() -> None:
    wrong = {"attention.values": "The scores are divided by 8."}
    used: dict[str, tuple[int, ...]] = {}
    seen = []
    for _ in range(7):
        found = HINTS.next_rung("attention", wrong, used)
        assert found is not None
        ladder, rung = found
        seen.append((ladder.topic, rung))
        used[ladder.topic] = (*used.get(ladder.topic, ()), rung)
    assert seen == [("scale", 1), ("scale", 2), ("scale", 3), (GENERAL, 1), (GENERAL, 2), (GENERAL, 3), ("scale", 3)]


def test_without_a_mistake_the_hints_are_about_the_part() -> None:
    found = HINTS.next_rung("mlp", {}, {})
    assert found is not None and (found[0].topic, found[1]) == (GENERAL, 1)
    assert HINTS.about("mlp", {"mlp.values": "Far off."}) is None


def test_a_track_without_hints_has_none_and_hints_are_no_track(tmp_path: Path) -> None:
    assert "gpt_hints" not in track_names()
    assert load_hints("nothing-there") == load_hints(str(tmp_path / "mine.toml")) == Hints()
    assert Hints().next_rung("mlp", {}, {}) is None


def test_hints_of_a_track_of_ones_own_lie_beside_it_and_are_refused_when_ill_formed(tmp_path: Path) -> None:
    good = 'schema = 1\n[parts.mlp]\nidea = "a"\nshapes = "b"\nsteps = "c"\n'
    (tmp_path / "mine_hints.toml").write_text(good, encoding="utf-8")
    ladder = load_hints(str(tmp_path / "mine.toml")).ladder("mlp", GENERAL)
    assert ladder is not None and ladder.rungs == ("a", "b", "c")
    for bad in (good.replace("steps", "step"), good.replace("schema = 1", "schema = 2"), "parts = 3", "["):
        (tmp_path / "mine_hints.toml").write_text(bad, encoding="utf-8")
        with pytest.raises(ValueError, match="hints"):
            load_hints(str(tmp_path / "mine.toml"))
