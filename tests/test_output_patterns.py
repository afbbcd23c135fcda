"""What is said of a wrong output that no known mistake gives: a fact about its numbers, and what it usually means."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from autograder.checks.loss_patterns import cross_entropy, known_losses
from autograder.checks.output_patterns import heads_of, pattern
from autograder.oracle.cases import Draws

DRAWS = Draws(5)
RIGHT = DRAWS.normal("right", (3, 7, 12)).double()
VALUES = DRAWS.normal("values", (3, 7, 12)).double()  # what three heads of width 4 gave
WEIGHTS = {
    "c_attn.weight": DRAWS.normal("c_attn", (36, 12)),
    "c_proj.weight": DRAWS.normal("c_proj", (12, 12)),
    "c_proj.bias": DRAWS.normal("bias", (12,)),
}


def projected(values: Tensor) -> Tensor:
    return values @ WEIGHTS["c_proj.weight"].double().T + WEIGHTS["c_proj.bias"].double()


def told(mine: Tensor, right: Tensor = RIGHT, **how: object) -> str:
    sentence, meaning = pattern(mine.float(), right, **how)  # type: ignore[arg-type]
    return f"{sentence} -> {meaning}"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda y: -y, "the right one with the wrong sign"),
        (lambda y: 1.25 * y, "it is 1.25 times the right one"),
        (lambda y: 0 * y, "0 everywhere"),
        (lambda y: y.relu(), "every wrong value is 0"),
        (lambda y: y.clamp(-1, 1), "every value beyond 1 is cut off"),
        (lambda y: y + y[0, 0], "off by the same vector at every position -> A bias"),
        (lambda y: y - y.mean(-1, keepdim=True), "off by one number, the same for all of its values"),
        (lambda y: y.flip(1), "the positions are in reverse order"),
        (lambda y: y.flip(0), "the batch rows are in reverse order"),
        (lambda y: y.roll(1, dims=1), "holds what belongs to the one earlier"),
        (lambda y: y.roll(-1, dims=1), "holds what belongs to the one later"),
        (lambda y: y[..., [2, 0, 1, *range(3, 12)]], "the channels of each position are right, in another order"),
        (lambda y: y.transpose(1, 2).reshape(3, 7, 12), "the right numbers stand at other places -> A view"),
        (lambda y: y + 1e-3 * VALUES, "it is nearly right"),
        (lambda y: torch.cat([y[:1], VALUES[1:]]), "keeps to some batch rows"),
        (lambda y: torch.cat([y[:, :3], VALUES[:, 3:]], dim=1), "keeps to some positions"),
    ],
)
def test_an_output_is_told_by_what_it_is_of_the_right_one(change: Callable[[Tensor], Tensor], words: str) -> None:
    assert words in told(change(RIGHT))


def test_nothing_is_said_where_nothing_shows() -> None:
    for mine in (VALUES, RIGHT, RIGHT[:, :3], RIGHT * torch.nan, 0.5 * RIGHT + 0.5 * VALUES):
        assert told(mine) == " -> "


def by_head(values: Tensor) -> Tensor:
    return values.reshape(3, 7, 3, 4)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda v: torch.cat([v[..., :4], RIGHT[..., 4:8], v[..., 8:]], -1), "before c_proj only head 1 of 3 is wrong"),
        (lambda v: torch.cat([RIGHT[..., :8], v[..., 8:]], -1), "before c_proj only heads 0 and 1 of 3 are wrong"),
        (lambda v: by_head(v).flip(2).flatten(2), "joined as 2, 1, 0"),
        (lambda v: by_head(v).roll(1, dims=2).flatten(2), "the heads are right, and joined as 2, 0, 1"),
        (lambda v: by_head(v).transpose(2, 3).flatten(2), "the channels are right, in another order"),
        (lambda v: (by_head(v) * RIGHT[..., :3, None].abs()).flatten(2), "right up to a factor of its own"),
        (lambda v: torch.cat([v[:, :1], RIGHT[:, 1:]], 1), "position 0, which sees itself alone, is right"),
        (lambda v: RIGHT, "position 0, which sees itself alone, is wrong too"),
        (
            lambda v: torch.cat([by_head(v)[:, :1].roll(1, dims=2).flatten(2), RIGHT[:, 1:]], 1),
            "at position 0, which sees itself alone, the heads are right, and joined as 2, 0, 1",
        ),
    ],
)
def test_behind_a_projection_the_heads_are_told_apart(change: Callable[[Tensor], Tensor], words: str) -> None:
    heads = heads_of(WEIGHTS, 3)
    assert words in told(projected(change(VALUES)), projected(VALUES), heads=heads)


def test_only_attention_has_heads_and_those_that_cannot_be_undone_are_left_alone() -> None:
    assert heads_of({"c_fc.weight": RIGHT, "c_proj.weight": RIGHT}, 3) is None
    flat = WEIGHTS | {"c_proj.weight": torch.ones(12, 12)}
    assert "before c_proj" not in told(RIGHT, VALUES, heads=heads_of(flat, 3))
    assert "before c_proj" not in told(RIGHT, VALUES, heads=heads_of(WEIGHTS, 5))


def test_the_known_ways_to_get_the_loss_wrong_all_give_other_numbers() -> None:
    logits = 3 * DRAWS.normal("logits", (3, 7, 12)).double()
    targets, idx = (DRAWS.tokens(name, (3, 7), 12) for name in ("targets", "idx"))
    known = known_losses(logits, targets, idx)
    numbers = [each.value for each in known] + [cross_entropy(logits, targets)]
    assert len({round(number, 6) for number in numbers}) == len(numbers) > 30
    assert len({each.sentence for each in known}) == len(known)
