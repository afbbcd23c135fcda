import math
from dataclasses import dataclass

import torch
import torch.nn as nn
from torch.nn import functional as F


@dataclass
class GPTConfig:
    vocab_size: int = 65
    block_size: int = 256
    n_layer: int = 6
    n_head: int = 6
    n_embd: int = 384


class CausalSelfAttention(nn.Module):
    def __init__(self, config):
        super().__init__()
        # TODO: layers
        raise NotImplementedError

    def forward(self, x):
        # TODO: the forward pass
        raise NotImplementedError


class MLP(nn.Module):
    def __init__(self, config):
        super().__init__()
        # TODO: layers
        raise NotImplementedError

    def forward(self, x):
        # TODO: the forward pass
        raise NotImplementedError


class Block(nn.Module):
    def __init__(self, config):
        super().__init__()
        # TODO: layers
        raise NotImplementedError

    def forward(self, x):
        # TODO: the forward pass
        raise NotImplementedError


class GPT(nn.Module):
    def __init__(self, config):
        super().__init__()
        # TODO: layers
        raise NotImplementedError

    def forward(self, idx, targets=None):
        # TODO: the forward pass
        raise NotImplementedError
