"""The attention pattern is read off from outside, and only where there is one."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from autograder.checks.attention_pattern import CONFIG, LENGTH, pattern_evidence, patterns, question
from autograder.oracle.cases import Draws
from autograder.oracle.variants import run

WEIGHTS, X = question(Draws(4))


def output(**switches: str) -> Tensor:
    return run("attention", {"x": X}, WEIGHTS, CONFIG, switches).float()


def test_the_pattern_is_that_of_the_formula() -> None:
    found = patterns(output())
    assert found is not None
    size = CONFIG["n_embd"] // CONFIG["n_head"]
    q, k, _ = (X[0] @ WEIGHTS["c_attn.weight"].T).split(CONFIG["n_embd"], dim=-1)
    for head in range(CONFIG["n_head"]):
        span = slice(head * size, (head + 1) * size)
        scores = (q[:, span] @ k[:, span].T) / size**0.5
        scores = scores.masked_fill(~torch.ones(LENGTH, LENGTH, dtype=torch.bool).tril(), -torch.inf)
        assert torch.allclose(found[head].float(), scores.softmax(-1), atol=1e-5)
    exhibit = pattern_evidence(found, 1)
    assert exhibit.title == "Attention weights of head 1: each row adds up to 1"
    assert all(value == 0.0 for i, row in enumerate(exhibit.data["rows"]) for value in row[i + 1 :])


@pytest.mark.parametrize(
    ("switches", "words"),
    [
        ({"mask": "after softmax"}, "not to 1"),
        ({"mask": "none"}, "each row adds up to 1"),
        ({"softmax": "heads"}, "not"),
    ],
)
def test_a_wrong_attention_shows_its_own_pattern(switches: dict[str, str], words: str) -> None:
    found = patterns(output(**switches))
    assert found is not None and words in pattern_evidence(found, 0).title
    leaks = any(
        row[i + 1 :] != [0.0] * (LENGTH - i - 1) for i, row in enumerate(pattern_evidence(found, 0).data["rows"])
    )
    assert leaks == (switches != {"mask": "after softmax"})


def test_where_the_output_is_no_pattern_there_is_none() -> None:
    for other in (output(order="vkq"), output(residual="inside"), X, X[:, :3], X * torch.nan, X * 0):
        assert patterns(other) is None
