"""Stand-ins: simple layers in place of a student's sub-classes, so that a Block or a GPT is judged on its own wiring.

They are no reference: nothing here is a part of a transformer. Each is nonlinear, mixes positions where the real layer
does, and has one weight, so that leaving one out, calling it twice or in the wrong order changes the numbers. The child
builds them into the student's model; the grader evaluates the same functions on its own side.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

#: How the names of their parameters begin: unlike any that a student would choose.
STAND_IN = "standin_"
#: Kind of stand-in -> name of its one parameter (C, C); that of one head is (C, head_dim).
WEIGHT_NAMES = {kind: f"{STAND_IN}{kind}" for kind in ("attention", "head", "mlp", "block", "layer")}


def running_mean(x: Tensor) -> Tensor:
    """Return the mean over positions 0..t at each position t: (B, T, C) -> (B, T, C)."""
    counts = torch.arange(1, x.shape[1] + 1, device=x.device, dtype=x.dtype)
    return torch.cumsum(x, dim=1) / counts[:, None]


def apply_standin(kind: str, x: Tensor, weight: Tensor) -> Tensor:
    """Return what the stand-in `kind` makes of x (B, T, C) with its weight (C, width): (B, T, width).

    As with a Linear's output, the backward pass needs none of the results: a block may add to them in place.
    """
    if kind in ("attention", "head"):
        return torch.tanh(running_mean(x) @ weight) * 1.5
    if kind in ("mlp", "layer"):
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


def named_arguments(
    takes: Mapping[str, str], order: Sequence[str], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the arguments of a call under the contract's names `takes`, as far as they can be told.

    `order` is how the student's own class orders them: what comes by position is meant for that class.
    """
    contract = list(takes)
    given: dict[str, Any] = {}
    for place, value in enumerate(args):
        if place < len(order) and order[place] in takes:
            given[order[place]] = value
        elif place < len(contract):
            given[contract[place]] = value
    return given | {name: value for name, value in kwargs.items() if name in takes}


class StandIn(nn.Module):
    """Base of the stand-in layers: one (C, width) weight."""

    kind = ""
    width = 1  # when the constructor is told nothing
    takes: ClassVar[Mapping[str, str]] = {}  # argument -> field; empty where the constructor takes a config
    order: ClassVar[Sequence[str]] = ()  # of the arguments in the student's own class
    fields: ClassVar[Mapping[str, int]] = {}  # what the grader built the whole with, where it knows
    out = "n_embd"  # the field that says how wide the output is

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()
        wide, out = self._sides(args, kwargs)
        weight = torch.empty(wide, out).uniform_(-1, 1) / wide**0.5
        self.register_parameter(WEIGHT_NAMES[self.kind], nn.Parameter(weight))

    def _sides(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[int, int]:
        """Return C and the width of the output; a wrong argument is told by `_misled`, and does no other harm."""
        if not self.takes and self.out == "n_embd":
            width = find_width(args, kwargs, self.width)
            return width, width
        said = named_arguments(self.takes, self.order, args, kwargs)
        known = {self.takes[name]: value for name, value in said.items() if type(value) is int} | dict(self.fields)
        wide = known.get("n_embd", self.width)
        return wide, known.get(self.out, wide)

    def forward(self, x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        return apply_standin(self.kind, x, getattr(self, WEIGHT_NAMES[self.kind]))


def _misled(cls: type[StandIn], name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    """Return how the arguments, or a config among them, differ from what the whole model was built with."""
    expected = cls.fields
    for argument, value in named_arguments(cls.takes, cls.order, args, kwargs).items():
        wanted = expected.get(cls.takes[argument], value)
        if type(value) is int and value != wanted:
            return f"{name} is built with {argument} = {str(value)[:20]} where {wanted} is right"
    if cls.takes:
        return ""
    for value in (*args, *kwargs.values()):
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
    fields: Mapping[str, int] | None = None,
    *,
    takes: Mapping[str, str] | None = None,
    order: Sequence[str] = (),
    out: str = "n_embd",
) -> type[StandIn]:
    """Return a fresh stand-in class that goes by the name of the class it replaces; `width` is the n_embd to expect.

    Each instance adds a line to `built`, so that one which the model hides from its parameters is counted too: empty,
    or how what it was given differs from `fields`, those of the whole model. `takes` says which of them its arguments
    are, and `out` which of them is the width of its output.
    """

    def __init__(self: StandIn, *args: Any, **kwargs: Any) -> None:
        StandIn.__init__(self, *args, **kwargs)
        if built is not None:
            built.append(_misled(type(self), name, args, kwargs))

    body = {"kind": kind, "width": width, "takes": takes or {}, "order": order, "fields": fields or {}, "out": out}
    return type(name, (StandIn,), {**body, "__module__": "standin", "__init__": __init__})
