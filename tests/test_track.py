"""A track is read from TOML, and what is wrong with one is said in a sentence."""

from __future__ import annotations

from pathlib import Path

import pytest

from autograder.checks import find_check
from autograder.oracle.cases import full_shapes, own_and_standin_shapes, places
from autograder.oracle.reference import count
from autograder.track import load_track, parse_shape, track_names

SMALL = {"vocab_size": 11, "block_size": 9, "n_layer": 2, "n_head": 2, "n_embd": 8}


def test_the_gpt_track_is_worth_a_hundred_points_over_five_classes() -> None:
    track = load_track("gpt")
    assert track.classes == ("GPTConfig", "CausalSelfAttention", "MLP", "Block", "GPT") and "gpt" in track_names()
    assert {part.name: part.max_score for part in track.parts} == {
        "config": 5,
        "attention": 30,
        "mlp": 10,
        "block": 20,
        "gpt": 35,
    }
    assert track.max_score == 100 and track.single_file == "model.py"
    assert track.config == {"vocab_size": 65, "block_size": 256, "n_layer": 6, "n_head": 6, "n_embd": 384}


def test_every_check_of_the_track_exists_and_is_worth_something_and_needs_what_is_graded_before() -> None:
    track = load_track("gpt")
    for part in track.parts:
        assert all(points > 0 for points in part.points.values())
        order = list(part.points)
        for id in order:
            assert all(order.index(need) < order.index(id) for need in find_check(track, part, id).needs), id


def test_the_parameters_of_the_default_model_follow_from_the_shapes() -> None:
    track = load_track("gpt")
    shapes = full_shapes(track.part("gpt"), track, track.config)
    table, positions, block, norm = 65 * 384, 256 * 384, 12 * 384**2 + 13 * 384, 2 * 384
    assert block == 1_774_464
    assert count(shapes, ("transformer.wte.weight",)) == table + positions + 6 * block + norm == 10_770_816
    assert count(shapes) == 10_770_816 + table == 10_795_776
    assert len(shapes) == 5 + 6 * 12 and shapes["transformer.h.5.attn.c_attn.weight"] == (3 * 384, 384)


def test_with_stand_ins_a_sub_part_is_one_square_matrix() -> None:
    track = load_track("gpt")
    shapes = own_and_standin_shapes(track.part("gpt"), track, SMALL)
    assert {name: shape for name, shape in shapes.items() if ".h." in name} == {
        "transformer.h.0.standin_block": (8, 8),
        "transformer.h.1.standin_block": (8, 8),
    }
    assert places("attn", SMALL) == ["attn"] and places("h.{i}", SMALL) == ["h.0", "h.1"]


@pytest.mark.parametrize(
    ("expression", "shape"),
    [("n_embd", (8,)), ("3*n_embd, n_embd", (24, 8)), (" 4 * n_embd , 2 ", (32, 2)), ("n_head*n_layer*3", (12,))],
)
def test_a_shape_is_a_product_of_fields(expression: str, shape: tuple[int, ...]) -> None:
    assert parse_shape(expression, SMALL) == shape


def test_a_shape_with_an_unknown_field_is_refused() -> None:
    with pytest.raises(KeyError, match="n_emb"):
        parse_shape("n_emb", SMALL)


def test_an_unknown_part_is_answered_with_the_known_ones() -> None:
    with pytest.raises(KeyError, match="no part 'atention' in track gpt; parts: config, attention, mlp, block, gpt"):
        load_track().part("atention")


def test_an_unknown_track_is_answered_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"no track called 'rnn'; known: .*gpt"):
        load_track("rnn")


GOOD = """
schema = 1
name = "tiny"
title = "Tiny"
single_file = "model.py"
[config]
n_embd = 8
[[parts]]
name = "mlp"
class = "MLP"
file = "mlp.py"
[parts.points]
"mlp.builds" = 2
"""


def test_a_track_of_ones_own_is_read_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "tiny.toml"
    path.write_text(GOOD, encoding="utf-8")
    track = load_track(str(path))
    part = track.part("mlp")
    assert (track.name, part.max_score, part.uses, part.shapes(track.config)) == ("tiny", 2.0, {}, {})


@pytest.mark.parametrize(
    ("find", "replace", "says"),
    [
        ("schema = 1", "schema = 2", "unknown track schema 2"),
        ("schema = 1", "", "schema"),
        ('class = "MLP"', "", "class"),
        ("[config]", "[config", "line"),
        ("[[parts]]", "[parts]", "tiny.toml"),
    ],
)
def test_what_is_wrong_with_a_track_file_is_said(find: str, replace: str, says: str, tmp_path: Path) -> None:
    path = tmp_path / "tiny.toml"
    path.write_text(GOOD.replace(find, replace), encoding="utf-8")
    with pytest.raises(ValueError, match=says):
        load_track(str(path))
