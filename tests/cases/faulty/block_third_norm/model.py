"""homework"""
import math
from dataclasses import dataclass
import torch
import torch.nn.functional as F
from torch import einsum, nn


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
        self.n_head = config.n_head
        self.head_dim, rest = divmod(config.n_embd, config.n_head)
        if rest:
            raise ValueError("bad head count")
        self.c_attn = nn.Linear(config.n_embd, 3 * config.n_embd, bias=True)
        self.c_proj = nn.Linear(config.n_embd, config.n_embd, bias=True)

    def forward(self, x):
        B, T, C = x.size()
        q, k, v = self.c_attn(x).reshape(B, T, 3, self.n_head, self.head_dim).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        y = y.permute(0, 2, 1, 3).reshape(B, T, C)
        return self.c_proj(y)


class MLP(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.c_fc = nn.Linear(cfg.n_embd, 4 * cfg.n_embd)
        self.c_proj = nn.Linear(4 * cfg.n_embd, cfg.n_embd)

    def forward(self, x):
        return self.c_proj(F.gelu(self.c_fc(x), approximate="tanh"))


class Block(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.ln_1 = nn.LayerNorm(cfg.n_embd)
        self.attn = CausalSelfAttention(cfg)
        self.ln_2 = nn.LayerNorm(cfg.n_embd)
        self.mlp = MLP(cfg)

    def forward(self, x):
        a = self.attn(self.ln_1(x))
        h = x + a
        m = self.mlp(self.ln_2(h))
        return self.ln_2(h + m)


class GPT(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.cfg = cfg
        self.transformer = nn.ModuleDict()
        self.transformer["wte"] = nn.Embedding(cfg.vocab_size, cfg.n_embd)
        self.transformer["wpe"] = nn.Embedding(cfg.block_size, cfg.n_embd)
        self.transformer["h"] = nn.ModuleList([Block(cfg) for _ in range(cfg.n_layer)])
        self.transformer["ln_f"] = nn.LayerNorm(cfg.n_embd)
        self.lm_head = nn.Linear(cfg.n_embd, cfg.vocab_size, bias=False)
        self.lm_head.weight = self.transformer["wte"].weight
        nn.init.normal_(self.lm_head.weight, std=0.02)

    def forward(self, idx, targets=None):
        t = idx.shape[-1]
        if t > self.cfg.block_size:
            raise ValueError("too long")
        tok = self.transformer["wte"](idx)
        pos = self.transformer["wpe"].weight[:t]
        h = tok + pos
        for blk in self.transformer["h"]:
            h = blk(h)
        h = self.transformer["ln_f"](h)
        logits = self.lm_head(h)
        loss = None
        if targets is not None:
            loss = F.cross_entropy(logits.transpose(1, 2), targets)
        return logits, loss
