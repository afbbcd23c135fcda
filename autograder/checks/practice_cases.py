"""Cases with our practice model: hidden weights, batches, and what a step or a forward pass gives, in float64."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from autograder.checks.calls import Ask
from autograder.oracle.cases import Draws
from autograder.probe.practice import PracticeModel

VOCABULARY = 11


@dataclass(frozen=True)
class Case:
    """A practice model and batches for it."""

    weights: dict[str, Tensor]
    block_size: int
    batches: tuple[tuple[Tensor, Tensor], ...] = ()
    gain: float = 1.0
    training: bool = True
    stale: tuple[tuple[str, Tensor], ...] = ()  # gradients that are there before

    def model(self, training: bool) -> PracticeModel:
        """Return the model in float64, for the grader's own use."""
        weights = {name: value.double() for name, value in self.weights.items()}
        model = PracticeModel(weights, self.block_size, self.gain)
        model.train(training)
        return model

    def losses(self, training: bool) -> list[float]:
        """Return the loss of each batch."""
        model = self.model(training)
        with torch.no_grad():
            return [float(loss) for x, y in self.batches if (loss := model(x, y)[1]) is not None]

    def gradients(self) -> list[dict[str, Tensor]]:
        """Return the gradients of each batch's loss, in train mode."""
        found = []
        for x, y in self.batches:
            model = self.model(True)
            loss = model(x, y)[1]
            assert loss is not None
            loss.backward()
            found.append(
                {name: torch.zeros_like(p) if p.grad is None else p.grad for name, p in model.named_parameters()}
            )
        return found

    def ask(self, args: Sequence[object], kwargs: Mapping[str, object] | None = None, **more: object) -> Ask:
        """Return the call with this model, and these batches as x0, y0, x1, ..."""
        tensors = {f"model.{name}": value for name, value in self.weights.items()}
        tensors |= {f"stale.{name}": value for name, value in self.stale}
        for number, (x, y) in enumerate(self.batches):
            tensors |= {f"x{number}": x, f"y{number}": y}
        model = {"kind": "language", "block_size": self.block_size, "gain": self.gain, "training": self.training}
        extra = more.pop("tensors", {})
        assert isinstance(extra, dict)
        return Ask(args=args, kwargs=kwargs or {}, tensors=tensors | extra, more={"model": model, **more})


def draw_case(
    draws: Draws,
    purpose: str,
    *,
    batches: int = 0,
    rows: int = 3,
    length: int = 5,
    block_size: int = 8,
    scale: float = 1.0,
) -> Case:
    """Draw weights, and `batches` pairs (x, y) of `rows` rows and `length` tokens."""
    shapes = {
        "table": (VOCABULARY, VOCABULARY),
        "context": (VOCABULARY, VOCABULARY),
        "places": (block_size, VOCABULARY),
        "bias": (VOCABULARY,),
    }
    weights = {name: draws.normal(f"{purpose} {name}", shape, scale) for name, shape in shapes.items()}
    pairs = tuple(
        (
            draws.tokens(f"{purpose} x{number}", (rows, length), VOCABULARY),
            draws.tokens(f"{purpose} y{number}", (rows, length), VOCABULARY),
        )
        for number in range(batches)
    )
    return Case(weights, block_size, pairs)
