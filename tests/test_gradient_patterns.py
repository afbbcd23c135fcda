"""What is said of a wrong gradient that no known mistake gives."""

from __future__ import annotations

import torch
from torch import Tensor

from autograder.checks.gradient_patterns import pattern
from autograder.oracle.cases import Draws

DRAWS = Draws(3)
WIDTH = 4


def right() -> dict[str, Tensor]:
    shapes = {"input.x": (2, 5, WIDTH), "c_attn.weight": (3 * WIDTH, WIDTH), "c_proj.bias": (WIDTH,)}
    return {name: DRAWS.normal(name, shape).double() for name, shape in shapes.items()}


def said(mine: dict[str, Tensor], *wrong: str) -> str:
    return pattern(mine, right(), wrong, WIDTH)[0]


def test_one_factor_for_all_is_told_and_a_wrong_sign_by_its_name() -> None:
    tenth = {name: value.float() / 10 for name, value in right().items()}
    assert said(tenth, *tenth) == "every gradient is 0.1 times the right one"
    turned = {**right(), "c_proj.bias": -right()["c_proj.bias"]}
    assert said(turned, "c_proj.bias") == "it is the right one with the wrong sign"


def test_q_k_and_v_are_told_apart_inside_c_attn() -> None:
    weight = right()["c_attn.weight"]
    for middle, words in (
        (2 * weight[4:8], "that of k is 2 times the right one"),
        (weight[4:8] * 0, "that of k is zero"),
    ):
        mine = {**right(), "c_attn.weight": torch.cat([weight[:4], middle, weight[8:]])}
        assert said(mine, "c_attn.weight") == f"in c_attn.weight, {words}"
    mine["c_attn.weight"] = torch.cat([weight[:4], weight[4:8].flip(0), weight[8:] * 3])
    assert said(mine, "c_attn.weight") == "in c_attn.weight, that of k is wrong, that of v is 3 times the right one"


def test_positions_that_alone_are_wrong_are_named() -> None:
    moved = right()["input.x"].clone()
    moved[:, 1:3] += DRAWS.normal("move", (2, 2, WIDTH))
    assert "only positions 1 to 2" in said({**right(), "input.x": moved}, "input.x")


def test_the_block_after_which_the_graph_is_cut_is_named() -> None:
    wanted = {f"transformer.h.{n}.weight": torch.ones(2, 2) for n in range(4)} | {"lm_head.weight": torch.ones(2, 2)}
    mine = {name: value for name, value in wanted.items() if ".h.0" not in name}
    mine["transformer.h.1.weight"] = torch.zeros(2, 2)
    wrong = ["transformer.h.0.weight", "transformer.h.1.weight"]
    assert pattern(mine, wanted, wrong, 2)[0] == "the graph is cut after block 1, so no block up to it learns"
    mine["transformer.h.0.weight"] = torch.ones(2, 2)  # the first learns: it is no cut of the stream
    assert "cut" not in pattern(mine, wanted, wrong[1:], 2)[0]


def test_nothing_is_said_where_nothing_came_or_of_another_shape() -> None:
    assert pattern({}, right(), ["input.x"], WIDTH) == ("", "")
    assert pattern({"input.x": torch.zeros(3)}, right(), ["input.x"], WIDTH) == ("", "")
    assert "NaN" in said({**right(), "c_proj.bias": torch.full((WIDTH,), torch.nan)}, "c_proj.bias")
