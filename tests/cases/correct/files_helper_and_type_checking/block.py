from torch import nn

import attention
import mlp
from layers import norm


class Block(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.ln_1 = norm(config.n_embd)
        self.attn = attention.CausalSelfAttention(config)
        self.ln_2 = norm(config.n_embd)
        self.mlp = mlp.MLP(config)

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        x = x + self.mlp(self.ln_2(x))
        return x
