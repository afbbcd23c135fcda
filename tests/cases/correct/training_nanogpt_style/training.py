import math

import torch


def get_batch(data, block_size, batch_size, generator=None):
    assert len(data) > block_size, "too short"
    ix = torch.randint(len(data) - block_size, (batch_size,), generator=generator)
    x = torch.stack([data[i : i + block_size] for i in ix])
    y = torch.stack([data[i + 1 : i + 1 + block_size] for i in ix])
    return x, y


def learning_rate(it, max_lr, min_lr, warmup_iters, decay_iters):
    # 1) linear warmup for warmup_iters steps
    if it < warmup_iters:
        return max_lr * (it + 1) / (warmup_iters + 1)
    # 2) if it > lr_decay_iters, return min learning rate
    if it > decay_iters:
        return min_lr
    # 3) in between, use cosine decay down to min learning rate
    decay_ratio = (it - warmup_iters) / (decay_iters - warmup_iters)
    assert 0 <= decay_ratio <= 1
    coeff = 0.5 * (1.0 + math.cos(math.pi * decay_ratio))
    return min_lr + coeff * (max_lr - min_lr)


def configure_optimizer(model, lr, weight_decay, betas=(0.9, 0.95)):
    param_dict = {pn: p for pn, p in model.named_parameters()}
    param_dict = {pn: p for pn, p in param_dict.items() if p.requires_grad}
    decay_params = [p for n, p in param_dict.items() if p.dim() >= 2]
    nodecay_params = [p for n, p in param_dict.items() if p.dim() < 2]
    optim_groups = [
        {"params": decay_params, "weight_decay": weight_decay},
        {"params": nodecay_params, "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(optim_groups, lr=lr, betas=betas)


def train_step(model, optimizer, batches, lr, max_norm=1.0):
    model.train()
    for param_group in optimizer.param_groups:
        param_group["lr"] = lr
    optimizer.zero_grad(set_to_none=True)
    lossf = 0.0
    for X, Y in batches:
        logits, loss = model(X, Y)
        loss = loss / len(batches)
        lossf += loss.item()
        loss.backward()
    if max_norm != 0.0:
        torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return lossf


@torch.no_grad()
def estimate_loss(model, batches):
    was = model.training
    model.eval()
    losses = torch.zeros(len(batches))
    for k, (X, Y) in enumerate(batches):
        logits, loss = model(X, Y)
        losses[k] = loss.item()
    out = losses.mean()
    if was:
        model.train()
    return out
