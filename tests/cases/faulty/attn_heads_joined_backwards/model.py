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
        if config.n_embd % config.n_head:
            raise ValueError("n_embd must be a multiple of n_head")
        self.config = config
        self.c_attn = nn.Linear(config.n_embd, 3 * config.n_embd)
        self.c_proj = nn.Linear(config.n_embd, config.n_embd)

    def one_head(self, queries, keys, values):
        size = queries.shape[-1]
        scores = torch.bmm(queries, keys.mT) / math.sqrt(size)
        future = torch.full(scores.shape[-2:], -torch.inf, dtype=scores.dtype, device=scores.device).triu(diagonal=1)
        probabilities = F.softmax(scores + future, dim=2)
        return torch.bmm(probabilities, values)

    def forward(self, x):
        width = x.shape[2] // self.config.n_head
        q, k, v = torch.tensor_split(self.c_attn(x), 3, dim=2)
        found = []
        for number in range(self.config.n_head):
            own = slice(number * width, (number + 1) * width)
            found.append(self.one_head(q[..., own], k[..., own], v[..., own]))
        return self.c_proj(torch.cat(found[::-1], dim=2))


class MLP(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.c_fc = nn.Linear(cfg.n_embd, 4 * cfg.n_embd)
        self.c_proj = nn.Linear(4 * cfg.n_embd, cfg.n_embd)

    def forward(self, x):
        return self.c_proj(F.gelu(self.c_fc(x), approximate="tanh"))


class Block(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.attn, self.mlp = CausalSelfAttention(config), MLP(config)
        self.ln_1, self.ln_2 = nn.LayerNorm(config.n_embd), nn.LayerNorm(config.n_embd)

    def forward(self, stream):
        for norm, layer in ((self.ln_1, self.attn), (self.ln_2, self.mlp)):
            stream = torch.add(stream, layer(norm(stream)))
        return stream


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
