import math
import torch
import torch.nn.functional as F


def get_batch(data, block_size, batch_size, generator=None):
    n = data.size(0)
    if n <= block_size:
        raise ValueError("data too short")
    ix = torch.randint(0, n - block_size, (batch_size,), generator=generator)
    x = torch.stack([data[i : i + block_size] for i in ix.tolist()])
    y = torch.stack([data[i + 1 : i + 1 + block_size] for i in ix.tolist()])
    return x, y


def learning_rate(it, max_lr, min_lr, warmup_iters, decay_iters):
    if it < warmup_iters:
        frac = (it + 1) / (warmup_iters + 1)
        return frac * max_lr
    if it > decay_iters:
        return min_lr
    ratio = (it - warmup_iters) / (decay_iters - warmup_iters)
    coeff = 0.5 + 0.5 * math.cos(ratio * math.pi)
    return coeff * max_lr + (1 - coeff) * min_lr


def configure_optimizer(model, lr, weight_decay, betas=(0.9, 0.95)):
    decay, plain = [], []
    for p in model.parameters():
        if p.requires_grad:
            (decay if p.ndim > 1 else plain).append(p)
    return torch.optim.SGD([dict(params=decay, weight_decay=weight_decay), dict(params=plain, weight_decay=0.0)], lr=lr)


def train_step(model, optimizer, batches, lr, max_norm=1.0):
    model.train()
    for group in optimizer.param_groups:
        group["lr"] = lr
    optimizer.zero_grad(set_to_none=True)
    losses = []
    for xb, yb in batches:
        loss = model(xb, yb)[1]
        (loss / len(batches)).backward()
        losses.append(loss.item())
    torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    optimizer.step()
    return math.fsum(losses) / len(losses)


@torch.no_grad()
def estimate_loss(model, batches):
    was = model.training
    model.eval()
    out = torch.tensor([model(x, y)[1].item() for x, y in batches], dtype=torch.float64)
    model.train(was)
    return out.mean().item()
