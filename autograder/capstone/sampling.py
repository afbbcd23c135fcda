"""Samples: characters drawn one after the other from what the model says about the next one."""

from __future__ import annotations

from collections.abc import Callable, Iterator

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
    device = next(model.parameters()).device
    was_training = model.training

    def ask(context: Tensor) -> Tensor:
        with torch.no_grad():
            return model(context.to(device))[0][0, -1].cpu()  # type: ignore[no-any-return]

    model.eval()
    try:
        yield from sample_by(ask, prompt, tokens, block_size, temperature=temperature, top_k=top_k, seed=seed)
    finally:
        model.train(was_training)


def sample_by(
    ask: Callable[[Tensor], Tensor],
    prompt: Tensor,
    tokens: int,
    block_size: int,
    *,
    temperature: float = 0.8,
    top_k: int | None = None,
    seed: int = 0,
) -> Iterator[int]:
    """As `sample`, from whatever answers: `ask` gives the logits (V) of what comes after a context (1, T)."""
    generator = torch.Generator().manual_seed(seed)
    context = prompt[None, -block_size:]  # (1, T)
    for _ in range(tokens):
        chosen = _choose(ask(context).float(), temperature, top_k, generator)
        yield int(chosen)
        context = torch.cat([context, chosen.view(1, 1)], dim=1)[:, -block_size:]


def _choose(logits: Tensor, temperature: float, top_k: int | None, generator: torch.Generator) -> Tensor:
    if temperature == 0:
        return logits.argmax()
    logits = logits / temperature
    if top_k is not None and top_k < len(logits):
        least = logits.topk(top_k).values[-1]
        logits = logits.masked_fill(logits < least, float("-inf"))
    return torch.multinomial(logits.softmax(dim=-1), 1, generator=generator)[0]
