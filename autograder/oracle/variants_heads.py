"""Attention head by head once more, with a switch for each known mistake (see variants.py): one head, heads joined."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional

from autograder.oracle.cases import Config
from autograder.oracle.variants_layers import Switches, Weights, cut
from autograder.probe.standins import WEIGHT_NAMES, apply_standin


def head(x: Tensor, w: Weights, config: Config, s: Switches) -> Tensor:
    """One causal head: x (B, T, C) -> (B, T, D)."""
    length, width = x.shape[1], x.shape[2]
    x = cut(x, "input", s)
    q, k, v = (
        cut(functional.linear(cut(x, f"input of {name[0]}", s), w[f"{name}.weight"]), name[0], s)
        for name in ("query", "key", "value")
    )
    if s.get("exchanged") == "q and k":
        q, k = k, q
    if s.get("exchanged") == "k and v":
        k, v = v, k
    if s.get("exchanged") == "q and v":
        q, v = v, q
    if s.get("exchanged") == "k is q":
        k = q
    size = k.shape[-1]
    scales: dict[str, float] = {
        "head_dim": size**-0.5,
        "none": 1.0,
        "n_embd": width**-0.5,
        "block_size": config["block_size"] ** -0.5,
        "length": length**-0.5,
        "n_head": config["n_head"] ** -0.5,
        "twice": 1.0 / size,
        "multiplied": size**0.5,
        "after softmax": 1.0,
    }
    scale = s.get("scale", "head_dim")
    scores = q @ k.transpose(-2, -1) * scales[scale]
    rows = torch.ones(length, length, dtype=torch.bool)
    kept = {
        "causal": rows.tril(),
        "none": rows,
        "after softmax": rows,
        "sees the next": rows.tril(1),
        "not itself": rows.tril(-1),
        "upside down": rows.triu(),
        "zeros": rows.tril(),
    }
    mask = s.get("mask", "causal")
    scores = scores.masked_fill(~kept[mask], 0.0 if mask == "zeros" else -math.inf)
    weights = scores.softmax(dim=-2 if s.get("softmax") == "queries" else -1)
    if mask == "after softmax":
        weights = weights * rows.tril()
    if scale == "after softmax":
        weights = weights * size**-0.5
    return cut(weights, "weights", s) @ v


def heads(x: Tensor, w: Weights, s: Switches) -> Tensor:
    """Heads (stand-ins) joined and projected: x (B, T, C) -> (B, T, C). Raises KeyError where they are none."""
    leaf = WEIGHT_NAMES["head"]
    number = sum(name.endswith(leaf) for name in w)
    if not number:
        raise KeyError(f"heads.0.{leaf}")
    x_in = cut(x, "input", s)
    found = [apply_standin("head", x_in, w[f"heads.{i}.{leaf}"]) for i in range(number)]
    found[0] = cut(found[0], "first head", s)
    found[-1] = cut(found[-1], "last head", s)
    joined: dict[str, Callable[[], Tensor]] = {
        "side by side": lambda: torch.cat(found, dim=-1),
        "backwards": lambda: torch.cat(found[::-1], dim=-1),
        "interleaved": lambda: torch.stack(found, dim=-1).flatten(-2),
        "first only": lambda: torch.cat([found[0]] * number, dim=-1),
        "first two exchanged": lambda: torch.cat([*found[:2][::-1], *found[2:]], dim=-1),
        "last first": lambda: torch.cat([found[-1], *found[:-1]], dim=-1),
        "stacked over batch": lambda: torch.stack(found).reshape(*x.shape),
    }
    y = cut(joined[s.get("join", "side by side")](), "heads", s)
    out = y if s.get("project") == "left out" else functional.linear(y, w["proj.weight"], w.get("proj.bias"))
    if s.get("project") == "twice":
        out = functional.linear(out, w["proj.weight"], w.get("proj.bias"))
    if s.get("act") == "relu":
        out = out.relu()
    return out + x if s.get("residual") == "inside" else out
