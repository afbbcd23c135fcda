"""Block and GPT once more, with a switch for each known mistake (variants.py says how they are used)."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional

from autograder.oracle.cases import Config
from autograder.oracle.variants_layers import Switches, Weights, cut
from autograder.probe.standins import WEIGHT_NAMES, apply_standin


def _unbiased_over_time(x: Tensor) -> Tensor:
    return x.var(1, unbiased=False, keepdim=True) * (x.shape[1] / max(x.shape[1] - 1, 1))


def _with_still_statistics(x: Tensor, still: str) -> Tensor:
    """Return LayerNorm without gain and shift whose "mean", "deviation" or "statistics" no gradient passes through."""
    mean, deviation = x.mean(-1, keepdim=True), torch.sqrt(x.var(-1, unbiased=False, keepdim=True) + 1e-5)
    mean = mean.detach() if still in ("mean", "statistics") else mean
    return (x - mean) / (deviation.detach() if still in ("deviation", "statistics") else deviation)


def norm(x: Tensor, w: Weights, name: str, kind: str = "layer", still: str = "") -> Tensor:
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
        "over time and channels": lambda: functional.layer_norm(x, x.shape[-2:]),
        "bare": lambda: functional.layer_norm(x, x.shape[-1:]),
        "shifted first": lambda: functional.layer_norm(x, x.shape[-1:]),
        "one more gain": lambda: functional.layer_norm(x, x.shape[-1:]),
    }
    plain = _with_still_statistics(x, still) if still else norms[kind]()
    if kind in ("left out", "bare"):
        return plain
    if kind == "shifted first" and shift is not None:
        return torch.mul(plain + shift, gain)
    if kind == "one more gain":
        gain = gain + 1
    scaled: Tensor = plain * gain
    if shift is not None:
        scaled = scaled + shift
    return scaled


def block(x: Tensor, w: Weights, config: Config, s: Switches) -> Tensor:
    """Pre-norm block around stand-ins: x (B, T, C) -> (B, T, C)."""

    def attn(h: Tensor) -> Tensor:
        return cut(apply_standin("attention", h, w[f"attn.{WEIGHT_NAMES['attention']}"]), "attention", s)

    def feed(h: Tensor) -> Tensor:
        return cut(apply_standin("mlp", h, w[f"mlp.{WEIGHT_NAMES['mlp']}"]), "mlp", s)

    first, second = {
        "swapped": ("ln_2", "ln_1"),
        "first twice": ("ln_1", "ln_1"),
        "second twice": ("ln_2", "ln_2"),
    }.get(s.get("norms", ""), ("ln_1", "ln_2"))
    kind = s.get("norm", "layer")

    places = {"ln_1": ("ln_1",), "ln_2": ("ln_2",)}.get(s.get("still at", ""), ("ln_1", "ln_2"))
    still_one, still_two = (s.get("still", "") if place in places else "" for place in ("ln_1", "ln_2"))

    def one(h: Tensor) -> Tensor:
        h = cut(h, "into ln_1", s)
        return cut(h if s.get("unnormed") in ("attention", "both") else norm(h, w, first, kind, still_one), "ln_1", s)

    def two(h: Tensor) -> Tensor:
        h = cut(h, "into ln_2", s)
        return cut(h if s.get("unnormed") in ("mlp", "both") else norm(h, w, second, kind, still_two), "ln_2", s)

    x = cut(x, "input", s)
    depth = (2 * config["n_layer"]) ** -0.5
    factor = depth if s.get("factor") == "by depth" else float(s.get("factor", 1.0))
    factor_a, factor_m = (factor * float(s.get(f"{name} factor", 1.0)) for name in ("attention", "mlp"))
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
    if order == "residual of second norm":
        y = x + attn(one(x))
        h = two(y)
        return h + feed(h)
    if order == "mlp of attention alone":
        a = attn(one(x))
        return x + a + feed(two(a))
    if order == "mlp of the first norm's result":
        h = one(x)
        y = x + attn(h)
        return y + feed(two(h))
    if order == "mlp twice":
        y = x + feed(one(x))
        return y + feed(two(y))
    if order in ("ln_2 at the end", "ln_1 at the end"):
        y = x + attn(one(x))
        y = y + feed(two(y))
        return norm(y, w, second if order == "ln_2 at the end" else first, kind)
    if order == "attention lost":
        return x + feed(two(x))
    if order == "mlp lost":
        return x + attn(one(x))
    if order == "attention twice":
        y = x + attn(one(x))
        return y + attn(two(y))
    if order == "attention again":
        y = x + attn(one(x))
        y = y + attn(one(y))
        return y + feed(two(y))
    if order == "sums divided":
        y = (x + attn(one(x))) * 0.5**0.5
        return torch.mul(y + feed(two(y)), 0.5**0.5)
    if order == "norm twice":
        y = x + attn(norm(one(x), w, first, kind))
        return y + feed(two(y))
    if order == "second norm twice":
        y = x + attn(one(x))
        return y + feed(norm(two(y), w, second, kind))
    a = attn(one(x))
    y = a if order == "no attention residual" else cut(x, "first residual", s) + factor_a * a
    m = feed(two(y))
    if order == "no mlp residual":
        return m
    if order == "second residual from input":
        return x + m
    if order == "input added twice":
        return x + y + m
    return cut(y, "second residual", s) + factor_m * m


def gpt(idx: Tensor, w: Weights, config: Config, s: Switches) -> Tensor:
    """The whole model around stand-in blocks: idx (B, T) -> logits (B, T, V)."""
    length, width = idx.shape[1], config["n_embd"]
    table, positions = w["transformer.wte.weight"], w["transformer.wpe.weight"]
    x = cut(_embed(idx, table, positions, length, width, s), "embeddings", s)
    start = x
    still = s.get("still", "")
    kind = s.get("final", "ln_f")
    if kind in ("before blocks", "before and after"):
        x = norm(x, w, "transformer.ln_f")
    layers = list(range(config["n_layer"]))
    layers = {
        "no first": layers[1:],
        "no last": layers[:-1],
        "reversed": layers[::-1],
        "none": [],
        "first half": layers[: len(layers) // 2],
        "every other": layers[::2],
        "each twice": [layer for layer in layers for _ in range(2)],
        "last twice": [*layers, *layers[-1:]],
    }.get(s.get("blocks", ""), layers)
    if s.get("blocks") == "not chained":
        layers = layers[-1:]
    if s.get("blocks") == "first only":
        layers = [0] * config["n_layer"]
    for place, layer in enumerate(layers):
        if s.get("positions") in ("in every block", "in every block too"):
            x = x + positions[:length]
        y = apply_standin("block", x, w[f"transformer.h.{layer}.{WEIGHT_NAMES['block']}"])
        x = x + y if s.get("blocks") == "residual around" else y
        if place == 0:
            x = cut(x, "first block", s)
        if place == len(layers) - 1:
            x = cut(x, "last block", s)
        if kind == "in the loop":
            x = norm(x, w, "transformer.ln_f")
    if s.get("blocks") == "embeddings added":
        x = x + start
    if kind in ("ln_f", "before and after"):
        x = norm(x, w, "transformer.ln_f", still=still)
    if kind == "twice":
        x = norm(norm(x, w, "transformer.ln_f"), w, "transformer.ln_f")
    logits = functional.linear(cut(x, "ln_f", s), cut(w["lm_head.weight"], "head", s), w.get("lm_head.bias"))
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
    padding_idx, by_count = (0 if s.get("padded") else None), bool(s.get("token gradient by count"))
    tokens = functional.embedding(idx, table, padding_idx, scale_grad_by_freq=by_count)
    tokens = cut(tokens * (width**0.5 if s.get("tokens") == "scaled" else 1.0), "tokens", s)
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
    added = cut(positions[places], "positions", s)
    if s.get("position gradient by count"):
        added = functional.embedding(places.expand(idx.shape), positions, scale_grad_by_freq=True)
    if kind in ("left out", "in every block"):
        return tokens
    if s.get("tokens") == "scaled with positions":
        return torch.mul(tokens + added, width**0.5)
    if kind == "multiplied":
        return tokens * added
    if kind == "twice":
        return tokens + 2 * added
    if kind == "subtracted":
        return tokens - added
    if kind == "alone":
        return added.expand_as(tokens)
    return tokens + added
