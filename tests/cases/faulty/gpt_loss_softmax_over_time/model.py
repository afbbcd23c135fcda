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
    def __init__(self, config):
        super().__init__()
        self.attn, self.mlp = CausalSelfAttention(config), MLP(config)
        self.ln_1, self.ln_2 = nn.LayerNorm(config.n_embd), nn.LayerNorm(config.n_embd)

    def forward(self, stream):
        for norm, layer in ((self.ln_1, self.attn), (self.ln_2, self.mlp)):
            stream = torch.add(stream, layer(norm(stream)))
        return stream


class GPT(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        body = {"wte": nn.Embedding(config.vocab_size, config.n_embd)}
        body["wpe"] = nn.Embedding(config.block_size, config.n_embd)
        body["h"] = nn.Sequential(*(Block(config) for _ in range(config.n_layer)))
        body["ln_f"] = nn.LayerNorm(config.n_embd)
        self.transformer = nn.ModuleDict(body)
        self.lm_head = nn.Linear(config.n_embd, config.vocab_size, bias=False)
        self.transformer.wte.weight = self.lm_head.weight

    def features(self, idx):
        B, T = idx.shape
        places = torch.arange(T, device=idx.device).expand(B, T)
        x = self.transformer.wte(idx) + self.transformer.wpe(places)
        x = self.transformer.h(x)
        return self.transformer.ln_f(x)

    def forward(self, idx, targets=None):
        assert idx.size(1) <= self.config.block_size, "sequence longer than block_size"
        logits = self.lm_head(self.features(idx))
        if targets is None:
            return logits, None
        log_probs = F.log_softmax(logits, dim=1)
        picked = log_probs.gather(2, targets.unsqueeze(2))
        return logits, -picked.mean()
