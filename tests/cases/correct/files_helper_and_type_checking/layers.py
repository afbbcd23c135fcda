import torch
from torch import nn


def gelu() -> nn.Module:
    return nn.GELU(approximate='tanh')


def norm(n: int) -> nn.LayerNorm:
    return nn.LayerNorm(n)


def causal(T: int, device: torch.device) -> torch.Tensor:
    return torch.ones(T, T, dtype=torch.bool, device=device).tril()
