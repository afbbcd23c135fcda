# %% Training: batches, a learning rate, a step, and an honest estimate [markdown]
# Training repeats one step: take a random batch, see how wrong the model is, move each weight a little. Five functions,
# each with a contract of its own. `model(x, y)` stands for your GPT: it returns (logits, loss).

# %%
import math

import torch
from torch import nn


def get_batch(
    data: torch.Tensor, block_size: int, batch_size: int, generator: torch.Generator | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return (x, y), each (B, T) int64: B = batch_size random windows of T = block_size tokens of `data` (N), int64.

    y is one token later: y[b, t] follows x[b, t] in `data`. Each of the N - T starts (0 to N - T - 1) is as likely.
    Starts come from `generator` alone (None: torch's own), so that a run can be replayed. Both on the device of `data`.
    Raises ValueError when N is not larger than T.
    """
    # TODO: refuse data that are too short (ValueError); draw B starts; cut x there, and y one token later.
    # Ours takes 6 lines.
    raise NotImplementedError("get_batch is still to be written")


def learning_rate(it: int, max_lr: float, min_lr: float, warmup_iters: int, decay_iters: int) -> float:
    """Return the learning rate of step `it`, counted from 0; warmup_iters < decay_iters.

    it < warmup_iters                  a line: max_lr * (it + 1) / (warmup_iters + 1)
    warmup_iters <= it <= decay_iters  half a cosine from max_lr (at warmup_iters) down to min_lr (at decay_iters)
    it > decay_iters                   min_lr
    """
    # TODO: one answer for each of the three lines above.
    # Ours takes 7 lines.
    raise NotImplementedError("learning_rate is still to be written")


def configure_optimizer(
    model: nn.Module, lr: float, weight_decay: float, betas: tuple[float, float] = (0.9, 0.95)
) -> torch.optim.Optimizer:
    """Return AdamW over the model's parameters that require a gradient, each of them once.

    Those of two dimensions or more (matrices, tables) decay by `weight_decay`; the others (biases, gains) do not.
    """
    # TODO: sort the parameters into two groups; give both to AdamW.
    # Ours takes 8 lines.
    raise NotImplementedError("configure_optimizer is still to be written")


def train_step(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    batches: list[tuple[torch.Tensor, torch.Tensor]],
    lr: float,
    max_norm: float = 1.0,
) -> float:
    """Take one step on `batches`, pairs (x, y) of one size, as if they were one large batch. Return the mean loss.

    The model is in train mode. Gradients that were there before do not count. The gradient is that of the mean loss
    over all batches. If the norm of all gradients together is above `max_norm`, all are scaled down to it. Every group
    of `optimizer.param_groups` gets the learning rate `lr`. Then the optimizer steps, once. The mean loss, from before
    the step, is a float.
    """
    # TODO: train mode; forget old gradients; add up those of loss / number of batches; clip; set lr; step.
    # Ours takes 13 lines.
    raise NotImplementedError("train_step is still to be written")


def estimate_loss(model: nn.Module, batches: list[tuple[torch.Tensor, torch.Tensor]]) -> float:
    """Return the mean loss over `batches`, pairs (x, y), as a float; each batch counts the same.

    In eval mode and without gradients. The model is left as it was: in train mode if it was in train mode, in eval mode
    if it was in that, with the gradients that it had.
    """
    # TODO: remember the mode; eval mode, no gradients; average; back to the mode that it was in.
    # Ours takes 6 lines.
    raise NotImplementedError("estimate_loss is still to be written")
