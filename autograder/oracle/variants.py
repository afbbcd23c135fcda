"""The model's formulas once more, with a switch for each known mistake: what a mistaken submission would compute.

Float64, functional, under the contract's tensor names, sub-parts as stand-ins. With no switch set each function equals
the reference (a test holds them together); misconceptions.py says in words what each switch means. Some switches leave
the output right and change its gradients alone.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor
from torch.nn import functional

from autograder.oracle.cases import Config
from autograder.oracle.fingerprints import HEAD, TABLE, one_matrix
from autograder.oracle.variants_heads import head, heads
from autograder.oracle.variants_layers import Switches, Weights, attention, mlp
from autograder.oracle.variants_model import block, gpt


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
        return block(inputs["x"].double(), w, config, switches)
    if part == "gpt":
        return gpt(inputs["idx"], w, config, switches)
    raise KeyError(part)


def gradients(
    part: str,
    inputs: Mapping[str, Tensor],
    weights: Weights,
    config: Config,
    switches: Switches,
    cotangent: Tensor | None,
) -> dict[str, Tensor]:
    """Return the gradients of `part` with the mistakes in `switches`, zero where none comes, as `input.x` and by name.

    They are of the output along `cotangent`, or without one of the mean cross-entropy of the logits with
    `inputs["targets"]`. Raises RuntimeError where shapes do not fit.
    """
    leaves = {name: value.detach().double().requires_grad_(True) for name, value in weights.items()}
    given = {
        name: value.detach().double().requires_grad_(True) if value.is_floating_point() else value
        for name, value in inputs.items()
    }
    output = run(part, given, leaves, config, switches)
    if cotangent is None:
        cotangent = _of_the_loss(output.detach(), inputs["targets"], switches)
    wanted = {f"input.{name}": value for name, value in given.items() if value.requires_grad} | leaves
    found: tuple[Tensor | None, ...] = (None,) * len(wanted)
    if output.requires_grad:
        total = (output * cotangent.double()).sum()
        found = torch.autograd.grad(total, list(wanted.values()), allow_unused=True)
    result = {
        name: torch.zeros_like(value) if gradient is None else gradient.detach()
        for (name, value), gradient in zip(wanted.items(), found, strict=True)
    }
    if one_matrix(weights):  # its gradient is the sum of both
        result[HEAD] = result[HEAD] + result.pop(TABLE)
    return result


def _of_the_loss(logits: Tensor, targets: Tensor, s: Switches) -> Tensor:
    """Return the gradient (B, T, V) of the mean cross-entropy, with respect to the logits (B, T, V)."""
    right = logits.softmax(-1) - functional.one_hot(targets, logits.shape[-1])
    length = logits.shape[1]
    kept = {
        "last position": slice(length - 1, None),
        "all but the last position": slice(0, length - 1),
        "second half": slice(length // 2, None),
        "first half": slice(0, length // 2),
    }.get(s.get("learns", ""), slice(None))
    gradient = torch.zeros_like(right)
    gradient[:, kept] = right[:, kept] / targets.numel()
    return gradient
