"""Muon (Jordan and others, 2024) for matrices of a few shapes: those of one shape are orthogonalised in one product.

torch.optim.Muon, in torch 2.9 and later, takes one matrix after the other. At the sizes of this course most of its time
goes into starting some hundred small products a step: on two cores, 12 ms of the 41 ms of a whole step.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

#: Of the Newton-Schulz polynomial aX + b(XX')X + c(XX')^2 X, steep at zero: from its author's page.
COEFFICIENTS = (3.4445, -4.7750, 2.0315)
#: After three steps the small singular values are still small: the validation loss after 300 steps of a width of 128
#: was 2.08, and 2.00 with five.
NEWTON_SCHULZ_STEPS = 5


class Muon(torch.optim.Optimizer):
    """Steps in the direction of the gradient's momentum with all its singular values made equal.

    A group's `maps` says how many maps a matrix holds one above the other (three in c_attn: queries, keys, values);
    each is made orthogonal for itself. With one, a step is torch.optim.Muon's, but for the rounding of bfloat16.
    """

    def __init__(
        self, params: Any, lr: float, *, momentum: float = 0.95, weight_decay: float = 0.0, maps: int = 1
    ) -> None:
        super().__init__(params, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay, "maps": maps})
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.dim() != 2 or parameter.shape[0] % group["maps"]:
                    shape = tuple(parameter.shape)
                    raise ValueError(f"Muon takes matrices of {group['maps']} equal maps, not the shape {shape}")

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """Take one step with the gradients that are there."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        alike: dict[tuple[int, int], list[tuple[Tensor, Tensor, float]]] = {}  # (map, its direction, its rate)
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is None:
                    continue
                if group["weight_decay"]:
                    parameter.mul_(1 - group["lr"] * group["weight_decay"])
                for weight, direction in zip(
                    parameter.chunk(group["maps"]), self._direction(parameter, group).chunk(group["maps"]), strict=True
                ):
                    rows, columns = weight.shape
                    rate = group["lr"] * math.sqrt(max(1.0, rows / columns))
                    if rows > columns:  # the product of the short side with itself is the cheaper one
                        weight, direction = weight.T, direction.T
                    alike.setdefault((weight.shape[0], weight.shape[1]), []).append((weight, direction, rate))
        for those in alike.values():
            whole = orthogonal(torch.stack([direction for _, direction, _ in those]))
            for (weight, _, rate), update in zip(those, whole, strict=True):
                weight.add_(update, alpha=-rate)
        return loss

    def _direction(self, parameter: Tensor, group: dict[str, Any]) -> Tensor:
        """Return the gradient with Nesterov's momentum, and remember it."""
        state = self.state[parameter]
        if "momentum_buffer" not in state:
            state["momentum_buffer"] = torch.zeros_like(parameter)
        state["momentum_buffer"].lerp_(parameter.grad, 1 - group["momentum"])
        direction: Tensor = torch.lerp(parameter.grad, state["momentum_buffer"], group["momentum"])  # type: ignore[arg-type]
        return direction


def orthogonal(matrices: Tensor, steps: int = NEWTON_SCHULZ_STEPS) -> Tensor:
    """Return `matrices` (N, R, C), R at most C, with all singular values near 1 (0.7 to 1.2), in bfloat16."""
    a, b, c = COEFFICIENTS
    x = matrices.bfloat16()
    x = x / x.norm(dim=(1, 2), keepdim=True).clamp(min=1e-7)  # no singular value is above 1
    for _ in range(steps):
        gram = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x
