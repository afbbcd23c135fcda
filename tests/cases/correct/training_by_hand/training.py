import math
from functools import partial

import numpy as np
import torch
import torch.optim as optim


def get_batch(data, block_size, batch_size, generator=None):
    n = data.numel()
    if n < block_size + 1:
        raise ValueError("data is too short: %d" % n)
    windows = data.unfold(0, block_size + 1, 1)  # every window with its answer
    rows = windows[torch.randint(0, windows.shape[0], (batch_size,), generator=generator)]
    return rows[:, :-1].contiguous(), rows[:, 1:].clone()


def learning_rate(it, max_lr, min_lr, warmup_iters, decay_iters):
    at = np.array([0 if it < warmup_iters else 1 if it <= decay_iters else 2])
    wave = math.sin(math.pi / 2 * (it - warmup_iters) / (decay_iters - warmup_iters)) ** 2
    choices = [[max_lr * (it + 1) / (warmup_iters + 1)], [max_lr - (max_lr - min_lr) * wave], [min_lr]]
    return np.choose(at, choices)[0]


def configure_optimizer(model, lr, weight_decay, betas=(0.9, 0.95)):
    group = lambda p: dict(params=[p], weight_decay=weight_decay * (p.ndim > 1))
    return optim.AdamW([group(p) for p in filter(lambda p: p.requires_grad, model.parameters())], lr, betas=betas, foreach=False)


def train_step(model, optimizer, batches, lr, max_norm=1.0):
    for p in model.parameters():
        p.grad = None
    losses = [model.train()(x, y)[1] for x, y in batches]
    mean = torch.stack(losses).mean()
    mean.backward()
    grads = [p.grad for p in model.parameters() if p.grad is not None]
    norm = torch.sqrt(sum((g.double() ** 2).sum() for g in grads))
    if norm > max_norm:
        for g in grads:
            g *= (max_norm / norm).to(g.dtype)
    [g.update(lr=lr) for g in optimizer.param_groups]
    optimizer.step()
    return mean.detach().item()


def estimate_loss(model, batches):
    modes = {module: module.training for module in model.modules()}
    total = 0
    with torch.inference_mode():
        model.train(False)
        for i, (x, y) in enumerate(batches, 1):
            total += (float(model(x, y)[1]) - total) / i  # a running mean
    for module, mode in modes.items():
        module.training = mode
    return total
