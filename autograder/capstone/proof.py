"""The proof run: before a long run, a model must not see the future, and must learn one small batch by heart."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from autograder.capstone.hardware import Hardware
from autograder.capstone.trouble import CapstoneError

ROWS, LONGEST = 4, 32
#: nats. A right model is there after some 60 steps; one that does not learn is nowhere near after all of them.
LEARNT = 0.5
STEPS = 200
RATE = 3e-3
#: Seconds. On a slow machine the run is judged by how far it has come.
PATIENCE = 15.0
#: A loss that fell to this share of its start shows that the gradients point the right way.
FELL = 0.7
#: Where a busy or slow machine allows only a few steps, this much is asked of each of them, in nats.
FELL_A_STEP = 0.01
#: Float32 sums in another order differ by less; a future that leaks moves logits by more.
UNMOVED = 1e-3


@dataclass(frozen=True)
class Proof:
    """What the proof run found."""

    first_loss: float
    last_loss: float
    steps: int
    seconds: float
    parameters: int


def prove(model: nn.Module, batch: tuple[Tensor, Tensor], vocab_size: int, hardware: Hardware) -> Proof:
    """Overfit `model` (thrown away afterwards) on the beginning of `batch`.

    Raises CapstoneError when the model returns something else than the contract's (logits, loss), sees the
    future, or does not learn.
    """
    idx, targets = (part[:ROWS, :LONGEST].contiguous() for part in batch)
    started = time.perf_counter()
    parameters = sum(parameter.numel() for parameter in model.parameters())
    if not parameters:
        raise CapstoneError("The model has no parameters: there is nothing to train. Find out more: workshop check gpt")
    _refuse_other_outputs(model, idx, targets, vocab_size)
    _refuse_sight_of_the_future(model, idx)
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=0.0)
    losses: list[float] = []
    for _ in range(STEPS):
        loss = _loss(model, idx, targets, hardware)
        losses.append(float(loss.detach()))
        if not math.isfinite(losses[-1]):
            raise CapstoneError(
                f"The loss is {losses[-1]} after {len(losses) - 1} steps on one batch: a number has no bound. "
                "A row of the mask that is all -inf does this. Find out more: workshop check"
            )
        if losses[-1] < LEARNT or time.perf_counter() - started > PATIENCE:
            break
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    wanted = FELL * min(losses[0], math.log(vocab_size))
    if len(losses) < STEPS:  # out of time, or learnt
        wanted = max(wanted, losses[0] - FELL_A_STEP * (len(losses) - 1))
    if losses[-1] > wanted:
        raise CapstoneError(
            f"The model does not learn: after {len(losses)} steps on one batch of {idx.numel()} characters its loss is "
            f"{losses[-1]:.2f}, and it was {losses[0]:.2f}. A right model knows them by heart ({LEARNT}). No long run "
            "was started. Find out more: workshop check"
        )
    return Proof(losses[0], losses[-1], len(losses), time.perf_counter() - started, parameters)


def _refuse_other_outputs(model: nn.Module, idx: Tensor, targets: Tensor, vocab_size: int) -> None:
    output = model(idx, targets)
    if not isinstance(output, tuple) or len(output) != 2:
        raise CapstoneError(_contract(f"it returned a {type(output).__name__}"))
    logits, loss = output
    if not isinstance(logits, Tensor) or tuple(logits.shape) != (*idx.shape, vocab_size):
        shape = tuple(logits.shape) if isinstance(logits, Tensor) else type(logits).__name__
        raise CapstoneError(_contract(f"its logits are {shape} for idx {tuple(idx.shape)}"))
    if not isinstance(loss, Tensor) or loss.dim() != 0:
        raise CapstoneError(_contract("its loss is not one number"))
    if not loss.requires_grad:
        raise CapstoneError(_contract("its loss has no gradient"))


def _refuse_sight_of_the_future(model: nn.Module, idx: Tensor) -> None:
    other = idx.clone()
    other[:, -1] = (other[:, -1] + 1) % (int(idx.max()) + 1)
    was_training = model.training
    model.eval()
    with torch.no_grad():
        moved = (model(other)[0] - model(idx)[0])[:, :-1].abs().max() if idx.shape[1] > 1 else torch.zeros(())
    model.train(was_training)
    if float(moved) > UNMOVED:
        raise CapstoneError(
            "The model sees the future: changing the last character changed what it says about earlier ones. "
            "Its training loss would fall to nothing, and its samples would be noise. No long run was started. Find "
            "out more: workshop check attention"
        )


def _loss(model: nn.Module, idx: Tensor, targets: Tensor, hardware: Hardware) -> Tensor:
    with hardware.autocast():
        loss: Tensor = model(idx, targets)[1]
    return loss


def _contract(what: str) -> str:
    return f"GPT.forward(idx, targets) must return (logits (B, T, V), loss); {what}. Find out more: workshop check gpt"
