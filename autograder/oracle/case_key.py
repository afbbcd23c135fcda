"""The name of a case: the same for the live oracle that wrote an answer down and for the kit that looks it up.

Numbers are told apart by samples of a few digits, not by their bytes: another processor or numpy may draw another last
bit, and must still find its answer.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import torch
from torch import Tensor

from autograder.oracle.cases import Config

#: Numbers of a tensor that are looked at, evenly spread over it; draws differ in all of them.
SAMPLES = 24


def expected_key(
    part: str,
    config: Config,
    weights: Mapping[str, Tensor],
    inputs: Mapping[str, Tensor],
    *,
    stand_ins: bool,
    cotangent: Tensor | None,
    loss: bool,
) -> str:
    """Return the name of a question to `Reference.evaluate`: which tensors there are is part of it."""
    asked = {"cotangent": cotangent} if cotangent is not None else {}
    words = f"{stand_ins} {loss} {_told(asked)}"
    return _digest("expected", part, _sizes(config), _told(weights), _told(inputs), words)


def mistake_key(part: str, config: Config, weights: Mapping[str, Tensor], inputs: Mapping[str, Tensor]) -> str:
    """Return the name of a question to `recognise`."""
    return _digest("mistake", part, _sizes(config), _told(weights), _told(inputs))


def gradient_mistake_key(
    part: str, config: Config, weights: Mapping[str, Tensor], inputs: Mapping[str, Tensor], cotangent: Tensor | None
) -> str:
    """Return the name of a question to `recognise_gradients`."""
    asked = {"cotangent": cotangent} if cotangent is not None else {}
    return _digest("gradient mistake", part, _sizes(config), _told(weights), _told(inputs), _told(asked))


def _digest(*words: str) -> str:
    return hashlib.sha256("\n".join(words).encode()).hexdigest()[:24]


def _sizes(config: Config) -> str:
    return " ".join(f"{name}={config[name]}" for name in sorted(config))


def _told(tensors: Mapping[str, Tensor]) -> str:
    return "\n".join(f"{name} {tuple(tensors[name].shape)} {_sample(tensors[name])}" for name in sorted(tensors))


def _sample(tensor: Tensor) -> str:
    flat = tensor.detach().reshape(-1)
    if not tensor.is_floating_point():
        return hashlib.sha256(" ".join(map(str, flat.tolist())).encode()).hexdigest()
    count = flat.numel()
    spots = torch.arange(min(count, SAMPLES)) * count // max(min(count, SAMPLES), 1)
    return " ".join(f"{value:.4g}" for value in flat[spots].double().tolist())
