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
    # refuse data that are too short (ValueError); draw B starts; cut x there, and y one token later.
    ### BEGIN SOLUTION
    starts = len(data) - block_size
    if starts < 1:
        raise ValueError(f"{len(data)} tokens do not hold {block_size} and one more")
    first = torch.randint(starts, (batch_size, 1), generator=generator)  # (B, 1)
    places = (first + torch.arange(block_size)).to(data.device)  # (B, T)
    return data[places], data[places + 1]
    ### END SOLUTION


def learning_rate(it: int, max_lr: float, min_lr: float, warmup_iters: int, decay_iters: int) -> float:
    """Return the learning rate of step `it`, counted from 0; warmup_iters < decay_iters.

    it < warmup_iters                  a line: max_lr * (it + 1) / (warmup_iters + 1)
    warmup_iters <= it <= decay_iters  half a cosine from max_lr (at warmup_iters) down to min_lr (at decay_iters)
    it > decay_iters                   min_lr
    """
    # one answer for each of the three lines above.
    ### BEGIN SOLUTION
    if it < warmup_iters:
        return max_lr * (it + 1) / (warmup_iters + 1)
    if it > decay_iters:
        return min_lr
    progress = (it - warmup_iters) / (decay_iters - warmup_iters)  # 0 to 1
    height = (1 + math.cos(math.pi * progress)) / 2  # 1 to 0
    return min_lr + height * (max_lr - min_lr)
    ### END SOLUTION


def configure_optimizer(
    model: nn.Module, lr: float, weight_decay: float, betas: tuple[float, float] = (0.9, 0.95)
) -> torch.optim.Optimizer:
    """Return AdamW over the model's parameters that require a gradient, each of them once.

    Those of two dimensions or more (matrices, tables) decay by `weight_decay`; the others (biases, gains) do not.
    """
    # sort the parameters into two groups; give both to AdamW.
    ### BEGIN SOLUTION
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    matrices = [parameter for parameter in trained if parameter.dim() >= 2]
    vectors = [parameter for parameter in trained if parameter.dim() < 2]
    groups = [
        {"params": matrices, "weight_decay": weight_decay},
        {"params": vectors, "weight_decay": 0.0},  # a gain near 0 would switch its channel off
    ]
    return torch.optim.AdamW(groups, lr=lr, betas=betas)
    ### END SOLUTION


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
    # train mode; forget old gradients; add up those of loss / number of batches; clip; set lr; step.
    ### BEGIN SOLUTION
    model.train()
    optimizer.zero_grad()
    total = 0.0
    for x, y in batches:
        _, loss = model(x, y)
        share = loss / len(batches)
        share.backward()  # adds to the gradients that are there
        total += share.item()
    nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    for group in optimizer.param_groups:
        group["lr"] = lr
    optimizer.step()
    return total
    ### END SOLUTION


def estimate_loss(model: nn.Module, batches: list[tuple[torch.Tensor, torch.Tensor]]) -> float:
    """Return the mean loss over `batches`, pairs (x, y), as a float; each batch counts the same.

    In eval mode and without gradients. The model is left as it was: in train mode if it was in train mode, in eval mode
    if it was in that, with the gradients that it had.
    """
    # remember the mode; eval mode, no gradients; average; back to the mode that it was in.
    ### BEGIN SOLUTION
    mode = model.training
    model.eval()
    with torch.no_grad():
        losses = [model(x, y)[1].item() for x, y in batches]
    model.train(mode)
    return sum(losses) / len(losses)
    ### END SOLUTION
