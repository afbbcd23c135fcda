"""Stand-ins: simple layers in place of a student's sub-classes, so that a Block or a GPT is judged on its own wiring.

They are no reference: nothing here is a part of a transformer. Each is nonlinear, mixes positions where the real layer
does, and has one weight, so that leaving one out, calling it twice or in the wrong order changes the numbers. The child
builds them into the student's model; the grader evaluates the same functions on its own side.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

#: Kind of stand-in -> name of its one parameter (C, C). The names are unlike any that a student would choose.
WEIGHT_NAMES = {"attention": "standin_attention", "mlp": "standin_mlp", "block": "standin_block"}


def running_mean(x: Tensor) -> Tensor:
    """Return the mean over positions 0..t at each position t: (B, T, C) -> (B, T, C)."""
    counts = torch.arange(1, x.shape[1] + 1, device=x.device, dtype=x.dtype)
    return torch.cumsum(x, dim=1) / counts[:, None]


def apply_standin(kind: str, x: Tensor, weight: Tensor) -> Tensor:
    """Return what the stand-in `kind` makes of x (B, T, C) with its weight (C, C): (B, T, C).

    As with a Linear's output, the backward pass needs none of the results: a block may add to them in place.
    """
    if kind == "attention":
        return torch.tanh(running_mean(x) @ weight) * 1.5
    if kind == "mlp":
        return torch.sin(x @ weight)
    return x + torch.tanh((x + running_mean(x)) @ weight)


def find_width(args: tuple[Any, ...], kwargs: dict[str, Any], default: int) -> int:
    """Return n_embd from whatever a student's code passes to the constructor: a config, a dict, or plain numbers."""
    values = [*args, *kwargs.values()]
    for value in values:
        width = value.get("n_embd") if isinstance(value, dict) else getattr(value, "n_embd", None)
        if isinstance(width, int):
            return width
    if isinstance(kwargs.get("n_embd"), int):
        return int(kwargs["n_embd"])
    numbers = [value for value in values if isinstance(value, int) and not isinstance(value, bool)]
    return max(numbers, default=default)  # Block(n_embd, n_head): the width is the larger


class StandIn(nn.Module):
    """Base of the stand-in layers: one (C, C) weight."""

    kind = ""
    width = 1  # when the constructor is told nothing

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()
        width = find_width(args, kwargs, self.width)
        weight = torch.empty(width, width).uniform_(-1, 1) / width**0.5
        self.register_parameter(WEIGHT_NAMES[self.kind], nn.Parameter(weight))

    def forward(self, x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        return apply_standin(self.kind, x, getattr(self, WEIGHT_NAMES[self.kind]))


def _misled(name: str, values: tuple[Any, ...], expected: dict[str, int]) -> str:
    """Return how a config among `values` differs from the one that the whole model was built with."""
    for value in values:
        if isinstance(getattr(value, "n_embd", None), int):
            for field, wanted in expected.items():
                given = getattr(value, field, wanted)
                if given != wanted:
                    return f"{name} is built with {field} = {str(given)[:20]} where the config says {wanted}"
    return ""


def standin_class(
    kind: str,
    name: str,
    built: list[str] | None = None,
    width: int = 1,
    expected: dict[str, int] | None = None,
) -> type[StandIn]:
    """Return a fresh stand-in class that goes by the name of the class it replaces; `width` is the n_embd to expect.

    Each instance adds a line to `built`, so that one which the model hides from its parameters is counted too: empty,
    or how the config that it was given differs from `expected`.
    """

    def __init__(self: StandIn, *args: Any, **kwargs: Any) -> None:
        StandIn.__init__(self, *args, **kwargs)
        if built is not None:
            built.append(_misled(name, (*args, *kwargs.values()), expected or {}))

    return type(name, (StandIn,), {"kind": kind, "width": width, "__module__": "standin", "__init__": __init__})
