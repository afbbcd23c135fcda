"""The attention pattern, read off from outside: with these weights and inputs the output of attention *is* the pattern.

The last T channels of x say which position a token has, one channel each. v copies them into the first T channels of
every head, and c_proj hands on what comes. Row i of head h then holds the weights with which position i looks at each
position. No name inside the student's forward need be known.
"""

from __future__ import annotations

import torch
from torch import Tensor

from autograder.oracle.cases import Config, Draws
from autograder.verdict import Evidence

#: Positions in the picture; few enough for a terminal, and no more than a head has channels.
LENGTH = 8
#: Numbers further than this outside of 0 to 1 are no weights of a softmax.
SLACK = 1e-3
CONFIG: Config = {"vocab_size": 19, "block_size": 12, "n_layer": 1, "n_head": 2, "n_embd": 20}


def question(draws: Draws) -> tuple[dict[str, Tensor], Tensor]:
    """Return the contract's weights for CONFIG, and x (1, T, C)."""
    width, heads = CONFIG["n_embd"], CONFIG["n_head"]
    size, content = width // heads, width - LENGTH
    fused = torch.zeros(3 * width, width)
    fused[: 2 * width, :content] = draws.normal("pattern q and k", (2 * width, content), 0.35)
    for head in range(heads):
        fused[2 * width + head * size :][:LENGTH, content:] = torch.eye(LENGTH)
    x = torch.zeros(1, LENGTH, width)
    x[0, :, :content] = draws.normal("pattern x", (LENGTH, content))
    x[0, :, content:] = torch.eye(LENGTH)
    weights = {
        "c_attn.weight": fused,
        "c_attn.bias": torch.zeros(3 * width),
        "c_proj.weight": torch.eye(width),
        "c_proj.bias": torch.zeros(width),
    }
    return weights, x


def patterns(output: Tensor) -> Tensor | None:
    """Return the weights (n_head, T, T) that the output (1, T, C) holds, or None when it holds no weights."""
    heads = CONFIG["n_head"]
    if tuple(output.shape) != (1, LENGTH, CONFIG["n_embd"]) or not bool(torch.isfinite(output).all()):
        return None
    by_head = output[0].double().reshape(LENGTH, heads, -1).transpose(0, 1)  # (H, T, D)
    weights, rest = by_head[..., :LENGTH], by_head[..., LENGTH:]
    inside = bool((weights > -SLACK).all()) and bool((weights < 1 + SLACK).all()) and bool((rest.abs() < SLACK).all())
    return weights if inside and bool((weights > SLACK).any()) else None


def pattern_evidence(weights: Tensor, head: int) -> Evidence:
    """Return the pattern of one head as an exhibit."""
    rows = weights[head].clamp(min=0.0)
    sums = rows.sum(-1)
    low, high = float(sums.min()), float(sums.max())
    told = "each row adds up to 1"
    if max(abs(low - 1), abs(high - 1)) >= SLACK:
        told = f"rows add up to {low:.2f}, not to 1"
        if high - low >= SLACK:
            told = f"rows add up to {low:.2f} to {high:.2f}, not to 1"
    return Evidence(
        "matrix",
        f"Attention weights of head {head}: {told}",
        {
            # What rounding leaves of a masked weight is no leak.
            "rows": [[round(float(value), 6) if value > SLACK / 100 else 0.0 for value in row] for row in rows],
            "row_label": "position that looks",
            "column_label": "position looked at",
            "empty_above_diagonal": True,
            "linear": True,
        },
    )
