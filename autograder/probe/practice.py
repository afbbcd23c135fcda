"""Models and an optimizer of ours for a student's functions to work on: small, known; they note how they are used."""

from __future__ import annotations

import importlib
import sys
import types
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

#: What is noted of single calls; a function that calls a model more often than this is seen well enough.
MAX_NOTED = 200
#: Tokens of row 0 that are noted of a call: more than any block_size here.
MAX_SHOWN = 40


class DynamoLater(types.ModuleType):
    """Stands for torch._dynamo until something of it is needed.

    Every optimizer imports it to mark where a compiler has to stop: 800 modules, 2 to 9 seconds, for nothing here.
    """

    def graph_break(self, *_: Any) -> None: ...

    def disable(self, function: Any = None, *_: Any, **__: Any) -> Any:
        return function

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name != "__path__":
            raise AttributeError(name)
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]
        return getattr(importlib.import_module(self.__name__), name)


def defer_dynamo() -> None:
    """Put the stand-in in the place of torch._dynamo, unless that is loaded already."""
    if "torch._dynamo" not in sys.modules:
        sys.modules["torch._dynamo"] = torch._dynamo = DynamoLater("torch._dynamo")


class Inner(nn.Module):
    """A sub-module without weights: shows whether a change of mode reached it."""


class PracticeModel(nn.Module):
    """A language model whose answers can be said in a line; it does not learn to write.

    logits[b, t] = table[x_t] + places[t] + mean over s <= t of context[x_s] + bias, times `gain` in train mode:
    (B, T) int64 -> (B, T, V). Each term shows something else: which token, which position, what was cut off.
    """

    def __init__(self, weights: dict[str, Tensor], block_size: int, gain: float) -> None:
        super().__init__()
        for name, value in weights.items():
            self.register_parameter(name, nn.Parameter(value.clone()))
        self.inner = Inner()
        self.block_size, self.gain = block_size, gain
        self.config = SimpleNamespace(block_size=block_size, vocab_size=len(weights["bias"]))
        self.noted: list[dict[str, Any]] = []
        self.count = 0

    def forward(self, idx: Tensor, targets: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        """Return (logits, loss) as the course's GPT does. Raises ValueError for T > block_size."""
        self.count += 1
        if self.count <= MAX_NOTED:
            modes = [self.training, self.inner.training, torch.is_grad_enabled(), targets is not None]
            self.noted.append({"modes": modes, "row": idx[0, :MAX_SHOWN].tolist()})
        length = idx.shape[1]
        if length > self.block_size:
            raise ValueError(f"a sequence of {length} tokens does not fit: block_size is {self.block_size}")
        heard = self.get_parameter("context")[idx].cumsum(dim=1)  # (B, T, V)
        heard = heard / torch.arange(1, length + 1, dtype=heard.dtype)[:, None]
        logits = self.get_parameter("table")[idx] + self.get_parameter("places")[:length] + heard
        logits = (logits + self.get_parameter("bias")) * (self.gain if self.training else 1.0)
        if targets is None:
            return logits, None
        return logits, F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def practice_optimizer(model: nn.Module, lr: float) -> tuple[torch.optim.Optimizer, list[list[float]]]:
    """Return plain gradient descent in two groups, and the learning rates of each of its steps, by group.

    Its steps show the size of a gradient; AdamW's do not. Not a class of our own: torch changes those of optimizers
    when the first is made, and the watch over our classes would see that.
    """
    parameters = list(nn.Module.parameters(model))
    groups = [[p for p in parameters if p.dim() >= 2], [p for p in parameters if p.dim() < 2]]
    optimizer = torch.optim.SGD([{"params": group} for group in groups], lr=lr, foreach=False)
    rates: list[list[float]] = []
    optimizer.register_step_pre_hook(lambda one, *_: rates.append([float(group["lr"]) for group in one.param_groups]))
    return optimizer, rates


def parameter_holder(weights: dict[str, Tensor], tied: dict[str, str], frozen: list[str]) -> nn.Module:
    """Return a module with these parameters under dotted names; `tied`: a name -> the one whose parameter it shares."""
    root = nn.Module()
    made: dict[str, nn.Parameter] = {}
    for name in [*weights, *tied]:
        *path, leaf = name.split(".")
        place = root
        for step in path:
            if step not in place._modules:
                place.add_module(step, nn.Module())
            place = place.get_submodule(step)
        if name in tied:
            made[name] = made[tied[name]]
        else:
            made[name] = nn.Parameter(weights[name].clone(), requires_grad=name not in frozen)
        place.register_parameter(leaf, made[name])
    return root
