"""The model's formulas once more, with a switch for each known mistake: what a mistaken submission would compute.

Float64, functional, under the contract's tensor names, sub-parts as stand-ins. With no switch set each function equals
the reference (a test holds them together); misconceptions.py says in words what each switch means.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from autograder.oracle.cases import Config
from autograder.oracle.variants_heads import head, heads
from autograder.probe.standins import WEIGHT_NAMES, apply_standin

Weights = Mapping[str, Tensor]
Switches = Mapping[str, Any]


def run(part: str, inputs: Mapping[str, Tensor], weights: Weights, config: Config, switches: Switches) -> Tensor:
    """Return the output of `part` with the mistakes in `switches`. Raises RuntimeError where shapes do not fit."""
    w = {name: value.double() for name, value in weights.items()}
    if part == "attention":
        return attention(inputs["x"].double(), w, config, switches)
    if part == "mlp":
        return mlp(inputs["x"].double(), w, switches)
    if part == "relu":
        return mlp(inputs["x"].double(), w, {"act": "relu", **switches})
    if part == "head":
        return head(inputs["x"].double(), w, config, switches)
    if part == "heads":
        return heads(inputs["x"].double(), w, switches)
    if part == "block":
        return block(inputs["x"].double(), w, switches)
    if part == "gpt":
        return gpt(inputs["idx"], w, config, switches)
    raise KeyError(part)


def linear(x: Tensor, w: Weights, name: str) -> Tensor:
    """Apply a layer; one that lacks a bias has none."""
    return functional.linear(x, w[f"{name}.weight"], w.get(f"{name}.bias"))


def attention(x: Tensor, w: Weights, config: Config, s: Switches) -> Tensor:
    """Causal self-attention: x (B, T, C) -> (B, T, C)."""
    batch, length, width = x.shape
    heads = 1 if s.get("heads") == "one" else config["n_head"]
    size = width // heads
    per_head = size
    if s.get("heads") in ("swapped", "swapped in the view"):
        heads, size = size, heads
        per_head = size if s.get("heads") == "swapped" else heads
    q, k, v = _split(linear(x, w, "c_attn"), s.get("order", "qkv"), heads, size)
    if s.get("scores") == "k from q":
        k = q
    if s.get("values") == "inputs":
        v = x
    if s.get("values") == "keys":
        v = k

    def spread(t: Tensor) -> Tensor:
        if s.get("spread") == "view":  # reshaped without the transpose
            return t.reshape(batch, heads, length, size)
        return t.reshape(batch, length, heads, size).transpose(1, 2)  # (B, H, T, D)

    q, k, v = spread(q), spread(k), spread(v)
    if s.get("spread") == "over heads":  # attention between the heads of one token
        q, k, v = (t.transpose(1, 2) for t in (q, k, v))
    if s.get("norm") == "unit q and k":
        q, k = functional.normalize(q, dim=-1), functional.normalize(k, dim=-1)
    keys = k.reshape(*k.shape[:2], k.shape[3], k.shape[2]) if s.get("transpose") == "view" else k.transpose(-2, -1)
    scores = q @ keys * _scale(s.get("scale", "head_dim"), config, per_head, length)
    # A softmax over heads meets rows that are masked in every head: -inf would make them NaN, -1e9 does not.
    scores = _masked(scores, s.get("mask", "causal"), -1e9 if s.get("softmax") == "heads" else -math.inf)
    weights = torch.softmax(scores, dim={"keys": -1, "queries": -2, "heads": 1}[s.get("softmax", "keys")])
    if s.get("mask") == "only the future":
        weights = weights.nan_to_num(0.0)  # as scaled_dot_product_attention leaves a row that is masked whole
    if s.get("mask") == "after softmax":
        weights = weights * torch.tril(torch.ones_like(weights))
    if s.get("scale") == "after softmax":
        weights = weights * size**-0.5
    y = weights @ v  # (B, H, T, D)
    if s.get("spread") == "over heads":
        y = y.transpose(1, 2)
    if s.get("merge") == "interleaved":
        y = y.permute(0, 2, 3, 1).reshape(batch, length, width)
    elif s.get("merge") == "no transpose":
        y = y.reshape(batch, length, width)
    else:
        y = y.transpose(1, 2).reshape(batch, length, width)
    out = y if s.get("project") == "left out" else linear(y, w, "c_proj")
    return out + x if s.get("residual") == "inside" else out


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
    }
    return scales[kind]


def _masked(scores: Tensor, kind: str, hidden: float) -> Tensor:
    if kind in ("none", "after softmax"):
        return scores
    rows, columns = scores.shape[-2:]
    keep = torch.ones(rows, columns, dtype=torch.bool).tril({"sees the next": 1, "not itself": -1}.get(kind, 0))
    if kind == "upside down":
        keep = keep.T
    if kind == "only the future":
        keep = ~keep
    if kind == "zeros":
        return scores.masked_fill(~keep, 0.0)
    if kind == "minus one":
        return scores.masked_fill(~keep, -1.0)
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
        "cube 0.44715": lambda: 0.5 * x * (1 + torch.tanh(c * (x + 0.44715 * x**3))),
        "cube 0.0044715": lambda: 0.5 * x * (1 + torch.tanh(c * (x + 0.0044715 * x**3))),
    }
    return functions[kind]()


def mlp(x: Tensor, w: Weights, s: Switches) -> Tensor:
    """Feed-forward layer: x (B, T, C) -> (B, T, C)."""
    act = s.get("act", "gelu")
    place = s.get("place", "between")
    h = x - x.mean(-1, keepdim=True) if s.get("input") == "centred" else x
    if s.get("input") == "normalised":
        h = functional.layer_norm(h, h.shape[-1:])
    h = activation(h, act) if place == "before" else h
    h = linear(h, w, "c_fc")
    h = activation(h, act) if place in ("between", "both") else h
    h = linear(h, w, "c_proj")
    h = activation(h, act) if place in ("after", "both") else h
    return h + x if s.get("residual") == "inside" else h


def _unbiased_over_time(x: Tensor) -> Tensor:
    return x.var(1, unbiased=False, keepdim=True) * (x.shape[1] / max(x.shape[1] - 1, 1))


def norm(x: Tensor, w: Weights, name: str, kind: str = "layer") -> Tensor:
    """Return LayerNorm over channels with the tensors of `name`, or a mistaken kind of norm."""
    gain, shift = w[f"{name}.weight"], w.get(f"{name}.bias")
    norms: dict[str, Callable[[], Tensor]] = {
        "layer": lambda: functional.layer_norm(x, x.shape[-1:]),
        "rms": lambda: x * (x.pow(2).mean(-1, keepdim=True) + 1e-5) ** -0.5,
        "rms 1e-6": lambda: x * (x.pow(2).mean(-1, keepdim=True) + 1e-6) ** -0.5,
        "over time": lambda: (x - x.mean(1, keepdim=True)) / torch.sqrt(x.var(1, unbiased=False, keepdim=True) + 1e-5),
        "batch": lambda: (x - x.mean((0, 1))) / torch.sqrt(x.var((0, 1), unbiased=False) + 1e-5),
        "over time, unbiased": lambda: (x - x.mean(1, keepdim=True)) / torch.sqrt(_unbiased_over_time(x) + 1e-5),
        "affine": lambda: x,
        "unbiased": lambda: (x - x.mean(-1, keepdim=True)) / torch.sqrt(x.var(-1, keepdim=True) + 1e-5),
        "not centred": lambda: x / torch.sqrt(x.var(-1, unbiased=False, keepdim=True) + 1e-5),
        "only centred": lambda: x - x.mean(-1, keepdim=True),
        "no root": lambda: (x - x.mean(-1, keepdim=True)) / (x.var(-1, unbiased=False, keepdim=True) + 1e-5),
        "left out": lambda: x,
    }
    plain = norms[kind]()
    if kind == "left out":
        return plain
    scaled: Tensor = plain * gain
    if shift is not None:
        scaled = scaled + shift
    return scaled


def block(x: Tensor, w: Weights, s: Switches) -> Tensor:
    """Pre-norm block around stand-ins: x (B, T, C) -> (B, T, C)."""

    def attn(h: Tensor) -> Tensor:
        return apply_standin("attention", h, w[f"attn.{WEIGHT_NAMES['attention']}"])

    def feed(h: Tensor) -> Tensor:
        return apply_standin("mlp", h, w[f"mlp.{WEIGHT_NAMES['mlp']}"])

    first, second = {
        "swapped": ("ln_2", "ln_1"),
        "first twice": ("ln_1", "ln_1"),
        "second twice": ("ln_2", "ln_2"),
    }.get(s.get("norms", ""), ("ln_1", "ln_2"))
    kind = s.get("norm", "layer")

    def one(h: Tensor) -> Tensor:
        return h if s.get("unnormed") in ("attention", "both") else norm(h, w, first, kind)

    def two(h: Tensor) -> Tensor:
        return h if s.get("unnormed") in ("mlp", "both") else norm(h, w, second, kind)

    factor = float(s.get("factor", 1.0))
    order = s.get("order", "pre-norm")
    if order == "post-norm":
        y = norm(x + attn(x), w, first, kind)
        return norm(y + feed(y), w, second, kind)
    if order == "norm after branch":
        y = x + norm(attn(x), w, first, kind)
        return y + norm(feed(y), w, second, kind)
    if order == "norm of stream":
        h = one(x)
        y = h + attn(h)
        h = two(y)
        return h + feed(h)
    if order == "parallel":
        return x + attn(one(x)) + feed(two(x))
    if order == "parallel, one norm":
        return x + attn(one(x)) + feed(one(x))
    if order == "mlp first":
        y = x + feed(two(x))
        return y + attn(one(y))
    if order == "mlp first, norms in turn":
        y = x + feed(one(x))
        return y + attn(two(y))
    if order == "no residuals":
        return feed(two(attn(one(x))))
    if order == "residual of first norm":
        y = one(x) + attn(one(x))
        return y + feed(two(y))
    if order == "attention lost":
        return x + feed(two(x))
    if order == "mlp lost":
        return x + attn(one(x))
    if order == "attention twice":
        y = x + attn(one(x))
        return y + attn(two(y))
    if order == "norm twice":
        y = x + attn(norm(one(x), w, first, kind))
        return y + feed(two(y))
    if order == "second norm twice":
        y = x + attn(one(x))
        return y + feed(norm(two(y), w, second, kind))
    a = attn(one(x))
    y = a if order == "no attention residual" else x + factor * a
    m = feed(two(y))
    if order == "no mlp residual":
        return m
    if order == "second residual from input":
        return x + m
    if order == "input added twice":
        return x + y + m
    return y + factor * m


def gpt(idx: Tensor, w: Weights, config: Config, s: Switches) -> Tensor:
    """The whole model around stand-in blocks: idx (B, T) -> logits (B, T, V)."""
    length, width = idx.shape[1], config["n_embd"]
    table, positions = w["transformer.wte.weight"], w["transformer.wpe.weight"]
    x = _embed(idx, table, positions, length, width, s)
    kind = s.get("final", "ln_f")
    if kind == "before blocks":
        x = norm(x, w, "transformer.ln_f")
    layers = list(range(config["n_layer"]))
    layers = {"no first": layers[1:], "no last": layers[:-1], "reversed": layers[::-1], "none": []}.get(
        s.get("blocks", ""), layers
    )
    if s.get("blocks") == "not chained":
        layers = layers[-1:]
    if s.get("blocks") == "first only":
        layers = [0] * config["n_layer"]
    for layer in layers:
        y = apply_standin("block", x, w[f"transformer.h.{layer}.{WEIGHT_NAMES['block']}"])
        x = x + y if s.get("blocks") == "residual around" else y
        if kind == "in the loop":
            x = norm(x, w, "transformer.ln_f")
    if kind == "ln_f":
        x = norm(x, w, "transformer.ln_f")
    if kind == "twice":
        x = norm(norm(x, w, "transformer.ln_f"), w, "transformer.ln_f")
    logits = linear(x, w, "lm_head")
    out = s.get("logits", "plain")
    changed: dict[str, Callable[[], Tensor]] = {
        "softmax": lambda: logits.softmax(-1),
        "log softmax": lambda: logits.log_softmax(-1),
        "scaled": lambda: logits * width**-0.5,
        "sigmoid": lambda: logits.sigmoid(),
        "softmax over time": lambda: logits.softmax(1),
        "capped at 30": lambda: 30 * torch.tanh(logits / 30),
        "capped at 15": lambda: 15 * torch.tanh(logits / 15),
    }
    return changed[out]() if out in changed else logits


def _embed(idx: Tensor, table: Tensor, positions: Tensor, length: int, width: int, s: Switches) -> Tensor:
    kind = s.get("positions", "plain")
    tokens = functional.embedding(idx, table) * (width**0.5 if s.get("tokens") == "scaled" else 1.0)
    if kind == "of tokens":
        return tokens + functional.embedding(idx, positions)
    if kind == "swapped":
        return functional.embedding(idx, positions) + table[torch.arange(length)]
    places = {
        "from one": torch.arange(1, length + 1),
        "reversed": torch.arange(length - 1, -1, -1),
        "the last": torch.arange(len(positions) - length, len(positions)),
        "all the first": torch.zeros(length, dtype=torch.long),
        "all the last": torch.full((length,), length - 1),
    }.get(kind, torch.arange(length))
    added = positions[places]
    if kind == "left out":
        return tokens
    if kind == "multiplied":
        return tokens * added
    if kind == "twice":
        return tokens + 2 * added
    if kind == "subtracted":
        return tokens - added
    if kind == "alone":
        return added.expand_as(tokens)
    return tokens + added
