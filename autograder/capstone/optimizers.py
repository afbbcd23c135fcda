"""The kit's optimizers: Muon for the blocks' matrices with AdamW for the rest, or AdamW alone; and their schedule."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from autograder.capstone.muon import Muon
from autograder.capstone.presets import Settings

#: AdamW's second beta is below its default 0.999: runs of some thousand steps forget old gradients sooner.
BETAS = (0.9, 0.95)
MUON_MOMENTUM = 0.9


class Optimizers:
    """One or two optimizers as one, with the learning rate of a step. `settings.optimizer` says which."""

    def __init__(self, model: nn.Module, settings: Settings) -> None:
        self._settings = settings
        in_blocks = {id(p): name for name, p in model.named_parameters() if ".h." in name and p.dim() == 2}
        parameters = list(model.parameters())  # a tied matrix comes once
        matrices = [p for p in parameters if id(p) in in_blocks]
        self._all: list[torch.optim.Optimizer] = []
        if settings.optimizer == "muon":
            rest = [p for p in parameters if id(p) not in in_blocks]
            self._all.append(_adamw(rest, settings.rate, 0.0))
            if matrices:
                maps = {id(p): 3 if in_blocks[id(p)].endswith("c_attn.weight") else 1 for p in matrices}
                groups = [
                    {"params": [p for p in matrices if maps[id(p)] == number], "maps": number}
                    for number in sorted(set(maps.values()))
                ]
                self._all.append(
                    Muon(groups, settings.matrix_rate, momentum=MUON_MOMENTUM, weight_decay=settings.weight_decay)
                )
        else:
            # Decay pulls matrices towards zero; gains, biases have a meaning of their own and are left alone.
            flat = [p for p in parameters if p.dim() < 2]
            square = [p for p in parameters if p.dim() >= 2]
            self._all.append(_adamw(square, settings.rate, settings.weight_decay))
            if flat:
                self._all.append(_adamw(flat, settings.rate, 0.0))
        self._rates = [[group["lr"] for group in one.param_groups] for one in self._all]

    def set_step(self, step: int) -> float:
        """Set the learning rates for `step`, counted from 0; return their factor, 0 to 1."""
        factor = rate_factor(step, self._settings)
        for one, rates in zip(self._all, self._rates, strict=True):
            for group, rate in zip(one.param_groups, rates, strict=True):
                group["lr"] = rate * factor
        return factor

    def zero_grad(self) -> None:
        for one in self._all:
            one.zero_grad()

    def step(self) -> None:
        for one in self._all:
            one.step()

    def state(self) -> list[dict[str, Any]]:
        return [one.state_dict() for one in self._all]

    def restore(self, states: Sequence[dict[str, Any]]) -> None:
        """Load what `state` gave. Raises ValueError or KeyError when it is of another optimizer."""
        for one, state in zip(self._all, states, strict=True):
            one.load_state_dict(state)


def rate_factor(step: int, settings: Settings) -> float:
    """Return the learning rate of `step` as a share of the highest: a linear warmup, then down to `final_share`."""
    if step < settings.warmup:
        return (step + 1) / settings.warmup
    done = (step - settings.warmup) / max(1, settings.steps - settings.warmup)  # 0 to 1
    share = 1 - done if settings.decay == "linear" else (1 + math.cos(math.pi * done)) / 2
    return settings.final_share + (1 - settings.final_share) * share


def _adamw(parameters: list[nn.Parameter], rate: float, weight_decay: float) -> torch.optim.Optimizer:
    fused = bool(parameters) and parameters[0].device.type in ("cpu", "cuda")
    return torch.optim.AdamW(parameters, lr=rate, betas=BETAS, weight_decay=weight_decay, fused=fused)
