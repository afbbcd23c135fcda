"""What an instructor would check by hand in a notebook or a test file, against a reference beside it.

One function a part, each of which takes the student's names and raises AssertionError. Fewer checks than ours, on fewer
sizes, without a diagnosis: where ours costs less all the same, it is not for doing less. `reference.py` is made by
rivals.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import reference
import torch
from torch import nn

SIZES = ({"n_head": 3, "n_embd": 24}, {"n_head": 5, "n_embd": 40}, {"n_head": 1, "n_embd": 16})
LENGTHS = (1, 7, 16)
_SMALL = {"vocab_size": 17, "block_size": 16, "n_layer": 2}


def check_config(student: Mapping[str, Any]) -> None:
    """The five defaults, and that each can be given."""
    fields = ("vocab_size", "block_size", "n_layer", "n_head", "n_embd")
    config = student["GPTConfig"]()
    assert [getattr(config, name) for name in fields] == [65, 256, 6, 6, 384]
    for number, name in enumerate(fields, 2):
        assert getattr(student["GPTConfig"](**{name: number}), name) == number


def check_attention(student: Mapping[str, Any]) -> None:
    """Values, gradients, causality and parameters; and that a head count that does not divide is refused."""
    for size in SIZES:
        mine, theirs = _pair(student, "CausalSelfAttention", size)
        _same_values(mine, theirs, size["n_embd"])
        _causal(theirs, size["n_embd"])
    try:
        student["CausalSelfAttention"](student["GPTConfig"](n_head=5, n_embd=24))
    except (AssertionError, ValueError):
        return
    raise AssertionError("24 channels do not divide into 5 heads")


def check_mlp(student: Mapping[str, Any]) -> None:
    """Values, gradients and parameters."""
    for size in SIZES:
        _same_values(*_pair(student, "MLP", size), size["n_embd"])


def check_block(student: Mapping[str, Any]) -> None:
    """Values, gradients, causality and parameters."""
    for size in SIZES:
        mine, theirs = _pair(student, "Block", size)
        _same_values(mine, theirs, size["n_embd"])
        _causal(theirs, size["n_embd"])


def check_gpt(student: Mapping[str, Any]) -> None:
    """Logits, loss, gradients, tying; and the default model: its parameters, its shapes and its first loss."""
    for size in SIZES:
        mine, theirs = _pair(student, "GPT", size)
        for length in LENGTHS:
            idx, targets = torch.randint(17, (2, length)), torch.randint(17, (2, length))
            (logits, loss), (expected, right) = theirs(idx, targets), mine(idx, targets)
            assert torch.allclose(logits, expected, atol=1e-5) and torch.allclose(loss, right, atol=1e-5)
            assert theirs(idx)[1] is None
            theirs.zero_grad()
            mine.zero_grad()
            loss.backward()
            right.backward()
            _same_gradients(mine, theirs)
        assert theirs.lm_head.weight is theirs.transformer.wte.weight
    whole = student["GPT"](student["GPTConfig"]())
    assert sum(parameter.numel() for parameter in whole.parameters()) == 10_770_816
    idx = torch.randint(65, (2, 256))
    logits, loss = whole(idx, idx.roll(-1))
    assert logits.shape == (2, 256, 65) and 3.5 < loss.item() < 5.5


def _pair(student: Mapping[str, Any], name: str, size: dict[str, int]) -> tuple[nn.Module, nn.Module]:
    """Return the reference's module and the student's, with the same weights."""
    mine = getattr(reference, name)(reference.GPTConfig(**_SMALL, **size))
    theirs = student[name](student["GPTConfig"](**_SMALL, **size))
    with torch.no_grad():
        for parameter in mine.parameters():
            parameter.normal_(0, 0.3)
    assert {key: value.shape for key, value in mine.state_dict().items()} == {
        key: value.shape for key, value in theirs.state_dict().items()
    }
    theirs.load_state_dict(mine.state_dict())
    return mine.eval(), theirs.eval()


def _same_values(mine: nn.Module, theirs: nn.Module, channels: int) -> None:
    for length in LENGTHS:
        x = torch.randn(2, length, channels, requires_grad=True)
        y = x.detach().clone().requires_grad_()
        expected, found = mine(x), theirs(y)
        assert torch.allclose(found, expected, atol=1e-5)
        mine.zero_grad()
        theirs.zero_grad()
        expected.square().sum().backward()
        found.square().sum().backward()
        assert torch.allclose(x.grad, y.grad, rtol=1e-3, atol=1e-3)
        _same_gradients(mine, theirs)


def _same_gradients(mine: nn.Module, theirs: nn.Module) -> None:
    for (_, one), (_, other) in zip(mine.named_parameters(), theirs.named_parameters(), strict=True):
        assert torch.allclose(one.grad, other.grad, rtol=1e-3, atol=1e-3)


def _causal(module: nn.Module, channels: int) -> None:
    x = torch.randn(1, 8, channels)
    with torch.no_grad():
        before = module(x)
        for position in range(8):
            moved = x.clone()
            moved[0, position] += 1.0
            assert torch.allclose(module(moved)[0, :position], before[0, :position], atol=1e-6)
