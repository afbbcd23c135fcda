"""Attention and MLP once more, with a switch for each known mistake (variants.py says how they are used)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from autograder.oracle.cases import Config

Weights = Mapping[str, Tensor]
Switches = Mapping[str, Any]


def cut(value: Tensor, place: str, s: Switches) -> Tensor:
    """Return `value`, cut off from the graph where the switch "cut PLACE" is set: no gradient passes there."""
    return value.detach() if s.get(f"cut {place}") else value


def linear(x: Tensor, w: Weights, name: str, s: Switches) -> Tensor:
    """Apply a layer; one that lacks a bias has none, and so has the one that the switch "no bias" names."""
    bias = w.get(f"{name}.bias")
    if bias is not None and name in (s.get("no bias"), s.get("bias twice")):
        bias = 2 * bias if name == s.get("bias twice") else None
    return functional.linear(x, w[f"{name}.weight"], bias)


def attention(x: Tensor, w: Weights, config: Config, s: Switches) -> Tensor:
    """Causal self-attention: x (B, T, C) -> (B, T, C)."""
    batch, length, width = x.shape
    heads = 1 if s.get("heads") == "one" else config["n_head"]
    size = width // heads
    per_head = size
    if s.get("heads") in ("swapped", "swapped in the view"):
        heads, size = size, heads
        per_head = size if s.get("heads") == "swapped" else heads
    x = cut(x, "input", s)
    if s.get("input") == "normalised":
        x = functional.layer_norm(x, x.shape[-1:])
    q, k, v = _split(linear(x, w, "c_attn", s), s.get("order", "qkv"), heads, size)
    if any(s.get(f"cut input of {name}") for name in "qkv"):
        still = _split(linear(x.detach(), w, "c_attn", s), s.get("order", "qkv"), heads, size)
        mixed = zip("qkv", (q, k, v), still, strict=True)
        q, k, v = (apart if s.get(f"cut input of {name}") else whole for name, whole, apart in mixed)
    q, k, v = cut(q, "q", s), cut(k, "k", s), cut(v, "v", s)
    if s.get("scores") == "k from q":
        k = q
    if s.get("values") == "inputs":
        v = x
    if s.get("values") == "keys":
        v = k

    def spread(t: Tensor) -> Tensor:
        if s.get("spread") == "view":  # reshaped without the transpose
            return t.reshape(batch, heads, length, size)
        if s.get("spread") == "head_dim first":
            return t.reshape(batch, length, size, heads).permute(0, 3, 1, 2)
        return t.reshape(batch, length, heads, size).transpose(1, 2)  # (B, H, T, D)

    q, k, v = spread(q), spread(k), spread(v)
    if s.get("spread") == "over heads":  # attention between the heads of one token
        q, k, v = (t.transpose(1, 2) for t in (q, k, v))
    if s.get("norm") == "unit q and k":
        q, k = functional.normalize(q, dim=-1), functional.normalize(k, dim=-1)
    if s.get("values") in ("of the first head", "and keys of the first head"):
        v = v[:, :1].expand_as(v)
        k = k if s["values"] == "of the first head" else k[:, :1].expand_as(k)
    keys = k.reshape(*k.shape[:2], k.shape[3], k.shape[2]) if s.get("transpose") == "view" else k.transpose(-2, -1)
    scores = q @ keys * _scale(s.get("scale", "head_dim"), config, per_head, length)
    if s.get("scores") == "uniform":
        scores = torch.zeros_like(scores)
    # A softmax over heads meets rows that are masked in every head: -inf would make them NaN, -1e9 does not.
    scores = _masked(scores, s.get("mask", "causal"), -1e9 if s.get("softmax") == "heads" else -math.inf)
    weights = _weigh(scores, s.get("softmax", "keys"))
    if s.get("mask") in ("only the future", "not itself, and no NaN"):
        weights = weights.nan_to_num(0.0)  # as scaled_dot_product_attention leaves a row that is masked whole
    if s.get("mask") == "after softmax":
        weights = weights * torch.tril(torch.ones_like(weights))
    if s.get("scale") == "after softmax":
        weights = weights * size**-0.5
    y = cut(weights, "weights", s) @ v  # (B, H, T, D)
    if s.get("spread") == "over heads":
        y = y.transpose(1, 2)
    if s.get("merge") == "interleaved":
        y = y.permute(0, 2, 3, 1).reshape(batch, length, width)  # (B, T, D, H)
    elif s.get("merge") == "no transpose":
        y = y.reshape(batch, length, width)
    elif s.get("merge") == "backwards":
        y = y.flip(1).transpose(1, 2).reshape(batch, length, width)
    else:
        y = y.transpose(1, 2).reshape(batch, length, width)
    y = cut(y, "heads", s)
    out = y if s.get("project") == "left out" else linear(y, w, "c_proj", s)
    if s.get("project") == "twice":
        out = linear(out, w, "c_proj", s)
    if s.get("end") == "relu":
        out = out.relu()
    return out + x if s.get("residual") == "inside" else out


def _weigh(scores: Tensor, kind: str) -> Tensor:
    """Return what weighs the values: a softmax of the scores, or what stands in its place."""
    if kind == "none":
        return scores
    if kind == "sigmoid":
        return scores.sigmoid()
    return torch.softmax(scores, dim={"keys": -1, "queries": -2, "heads": 1}[kind])


def _split(fused: Tensor, order: str, heads: int, size: int) -> tuple[Tensor, Tensor, Tensor]:
    if order in ("interleaved by head", "interleaved by channel"):
        shape = (heads, 3, size) if order.endswith("head") else (heads, size, 3)
        parts = fused.reshape(*fused.shape[:2], *shape).unbind(-2 if order.endswith("head") else -1)
        q, k, v = (part.reshape(*fused.shape[:2], heads * size) for part in parts)
        return q, k, v
    pieces = dict(zip(order, fused.chunk(3, dim=-1), strict=True))
    return pieces["q"], pieces["k"], pieces["v"]


def _scale(kind: str, config: Config, size: int, length: int) -> float:
    scales: dict[str, float] = {
        "head_dim": size**-0.5,
        "none": 1.0,
        "after softmax": 1.0,
        "n_embd": config["n_embd"] ** -0.5,
        "n_head": config["n_head"] ** -0.5,
        "length": length**-0.5,
        "twice": 1.0 / size,
        "multiplied": size**0.5,
        "n_layer": config["n_layer"] ** -0.5,
        "block_size": config["block_size"] ** -0.5,
        "64": 0.125,
        "half of head_dim": 2.0 / size,
        "rounded root": 1.0 / int(math.sqrt(size)),
    }
    return scales[kind]


#: The last diagonal that a mistaken mask keeps.
_DIAGONALS = {"sees the next": 1, "not itself": -1, "not itself, and no NaN": -1}


def _masked(scores: Tensor, kind: str, hidden: float) -> Tensor:
    if kind in ("none", "after softmax"):
        return scores
    rows, columns = scores.shape[-2:]
    keep = torch.ones(rows, columns, dtype=torch.bool).tril(_DIAGONALS.get(kind, 0))
    if kind == "upside down":
        keep = keep.T
    if kind == "only the future":
        keep = ~keep
    if kind == "zeros":
        return scores.masked_fill(~keep, 0.0)
    small = {"minus one": -1.0, "minus five": -5.0, "minus ten": -10.0}
    if kind in small:
        return scores.masked_fill(~keep, small[kind])
    return scores.masked_fill(~keep, hidden)


def activation(x: Tensor, kind: str) -> Tensor:
    """Return the MLP's nonlinearity, right ("gelu") or mistaken."""
    c, cube = math.sqrt(2 / math.pi), 0.044715
    functions: dict[str, Callable[[], Tensor]] = {
        "gelu": lambda: functional.gelu(x, approximate="tanh"),
        "exact": lambda: functional.gelu(x),
        "relu": lambda: functional.relu(x),
        "relu squared": lambda: functional.relu(x) ** 2,
        "silu": lambda: functional.silu(x),
        "sigmoid gelu": lambda: x * torch.sigmoid(1.702 * x),
        "tanh": lambda: torch.tanh(x),
        "sigmoid": lambda: torch.sigmoid(x),
        "leaky": lambda: functional.leaky_relu(x),
        "elu": lambda: functional.elu(x),
        "softplus": lambda: functional.softplus(x),
        "none": lambda: x,
        "power": lambda: 0.5 * x * (1 + torch.tanh(c * (x + cube * x**2))),
        "root": lambda: 0.5 * x * (1 + torch.tanh(math.sqrt(2 * math.pi) * (x + cube * x**3))),
        "no cube": lambda: 0.5 * x * (1 + torch.tanh(c * x)),
        "no half": lambda: x * (1 + torch.tanh(c * (x + cube * x**3))),
        "root of pi/2": lambda: 0.5 * x * (1 + torch.tanh(math.sqrt(math.pi / 2) * (x + cube * x**3))),
        "no root": lambda: 0.5 * x * (1 + torch.tanh(x + cube * x**3)),
        "minus": lambda: 0.5 * x * (1 - torch.tanh(c * (x + cube * x**3))),
        "no one": lambda: 0.5 * x * torch.tanh(c * (x + cube * x**3)),
        "mish": lambda: functional.mish(x),
        "selu": lambda: functional.selu(x),
        "hardswish": lambda: functional.hardswish(x),
        "softmax": lambda: x.softmax(-1),
        "gelu twice": lambda: functional.gelu(functional.gelu(x, approximate="tanh"), approximate="tanh"),
        "cube 0.44715": lambda: 0.5 * x * (1 + torch.tanh(c * (x + 0.44715 * x**3))),
        "cube 0.0044715": lambda: 0.5 * x * (1 + torch.tanh(c * (x + 0.0044715 * x**3))),
    }
    return functions[kind]()


def _bent(h: Tensor, value: Tensor, s: Switches) -> Tensor:
    """Return `value`, the activation of `h`, with the slope of another function where a switch says so."""
    slope = s.get("slope")
    if slope is None:
        return value
    if slope == "gate cut":  # x times a gate that nothing flows through
        gate = torch.where(h == 0, torch.full_like(h, 0.5), value / torch.where(h == 0, torch.ones_like(h), h))
        return h * gate.detach()
    other = activation(h, slope)
    return other + (value - other).detach()


def mlp(x: Tensor, w: Weights, s: Switches) -> Tensor:
    """Feed-forward layer: x (B, T, C) -> (B, T, C)."""
    act = s.get("act", "gelu")
    place = s.get("place", "between")
    x = cut(x, "input", s)
    h = x - x.mean(-1, keepdim=True) if s.get("input") == "centred" else x
    if s.get("input") == "normalised":
        h = functional.layer_norm(h, h.shape[-1:])
    h = activation(h, act) if place == "before" else h
    h = linear(h, w, "c_fc", s)
    if place in ("between", "both"):
        h = _bent(h, activation(h, act), s)
    h = linear(cut(h, "hidden", s), w, "c_proj", s)
    h = activation(h, act) if place in ("after", "both") else h
    h = h.relu() if s.get("end") == "relu" else h
    return h + x if s.get("residual") == "inside" else h
