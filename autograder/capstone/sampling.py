"""Samples: characters drawn one after the other from what the model says about the next one."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn


def sample(
    model: nn.Module,
    prompt: Tensor,
    tokens: int,
    block_size: int,
    *,
    temperature: float = 0.8,
    top_k: int | None = None,
    seed: int = 0,
) -> Iterator[int]:
    """Yield `tokens` ids that go on from `prompt` (T,), int64, at least one id.

    Temperature 0 takes the likeliest each time (greedy); `top_k` draws only among the k likeliest. They are drawn from
    a generator of their own, on the CPU: training, which draws from torch's, is not disturbed.
    """
    generator = torch.Generator().manual_seed(seed)
    device = next(model.parameters()).device
    context = prompt[None, -block_size:].to(device)  # (1, T)
    was_training = model.training
    model.eval()
    try:
        for _ in range(tokens):
            with torch.no_grad():
                logits = model(context)[0][0, -1].float().cpu()  # (V)
            chosen = _choose(logits, temperature, top_k, generator)
            yield int(chosen)
            context = torch.cat([context, chosen.view(1, 1).to(device)], dim=1)[:, -block_size:]
    finally:
        model.train(was_training)


def _choose(logits: Tensor, temperature: float, top_k: int | None, generator: torch.Generator) -> Tensor:
    if temperature == 0:
        return logits.argmax()
    logits = logits / temperature
    if top_k is not None and top_k < len(logits):
        least = logits.topk(top_k).values[-1]
        logits = logits.masked_fill(logits < least, float("-inf"))
    return torch.multinomial(logits.softmax(dim=-1), 1, generator=generator)[0]
