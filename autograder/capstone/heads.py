"""Attention heads made visible: the weights of each, worked out from what goes into a layer's `c_attn`."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from autograder.capstone.trouble import CapstoneError


def attention_maps(model: nn.Module, idx: Tensor, n_head: int) -> list[Tensor]:
    """Return for each layer the weights of its heads on `idx` (1, T): (H, T, T), each row sums to 1.

    They are worked out as the contract says (queries, keys and values in this order, the heads side by side), from the
    layer's own `c_attn`: an attention that does something else is shown as if it did not. Raises CapstoneError where
    the model has no such layers.
    """
    found: list[Tensor] = []

    def keep(module: nn.Module, _: Any, output: Tensor) -> None:
        rows, length, three = output.shape
        q, k, _v = output.detach().double().split(three // 3, dim=2)  # type: ignore[no-untyped-call]  # each (1, T, C)
        q, k = (part.view(rows, length, n_head, -1).transpose(1, 2) for part in (q, k))  # (1, H, T, D)
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])  # (1, H, T, T)
        future = torch.ones(length, length, dtype=torch.bool).triu(1)
        found.append(scores.masked_fill(future, -math.inf).softmax(dim=-1)[0].float())

    layers = [module for name, module in model.named_modules() if name.endswith(".attn.c_attn")]
    if not layers:
        raise CapstoneError("The model has no transformer.h.N.attn.c_attn: its heads cannot be drawn.")
    hooks = [layer.register_forward_hook(keep) for layer in layers]
    was_training = model.training
    model.eval()
    try:
        with torch.no_grad():
            model(idx)
    finally:
        model.train(was_training)
        for hook in hooks:
            hook.remove()
    return found
