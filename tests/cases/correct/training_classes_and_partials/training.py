import torch
from math import cos, pi


class _Batches:
    def __call__(self, data, block_size, batch_size, generator=None):
        if len(data) <= block_size:
            raise ValueError("no window fits")
        at = torch.rand(0)
        starts = torch.randint(high=len(data) - block_size, size=(batch_size,), generator=generator).tolist()
        pairs = [(data[s : s + block_size], data[s + 1 : s + block_size + 1]) for s in starts]
        x, y = zip(*pairs)
        return torch.vstack(x), torch.vstack(y)


get_batch = _Batches()


def learning_rate(it, max_lr, min_lr, warmup_iters, decay_iters):
    up = (it + 1) / (warmup_iters + 1)
    if up < 1:
        return up * max_lr
    t = min(it, decay_iters) - warmup_iters
    return (max_lr + min_lr) / 2 + (max_lr - min_lr) / 2 * cos(pi * t / (decay_iters - warmup_iters))


def configure_optimizer(model, lr, weight_decay, betas=(0.9, 0.95)):
    opt = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad and p.dim() > 1], lr=lr, betas=betas, weight_decay=weight_decay)
    opt.add_param_group({"params": [p for p in model.parameters() if p.requires_grad and p.dim() < 2], "weight_decay": 0})
    return opt


def train_step(model, optimizer, batches, lr, max_norm=1.0):
    model.train(True)
    model.zero_grad()
    x, y = torch.cat([b[0] for b in batches]), torch.cat([b[1] for b in batches])
    loss = model(x, y)[1]
    loss.backward()
    torch.nn.utils.clip_grad_norm_([p for p in model.parameters()], max_norm=max_norm, norm_type=2.0)
    for i in range(len(optimizer.param_groups)):
        optimizer.param_groups[i]["lr"] = lr
    optimizer.step()
    return loss.detach()


def estimate_loss(model, batches):
    before = model.training
    try:
        model.eval()
        with torch.set_grad_enabled(False):
            return sum(model(*batch)[1] for batch in batches).item() / len(batches)
    finally:
        model.train(before)
