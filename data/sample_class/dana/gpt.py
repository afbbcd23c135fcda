import torch
from torch import nn
from torch.nn import functional as F

from block import Block


class GPT(nn.Module):
    def __init__(self, config) -> None:
        super().__init__()
        self.block_size = config.block_size
        self.transformer = nn.ModuleDict({
            "wte": nn.Embedding(config.vocab_size, config.n_embd),
            "wpe": nn.Embedding(config.block_size, config.n_embd),
            "h": nn.ModuleList([Block(config) for _ in range(config.n_layer)]),
            "ln_f": nn.LayerNorm(config.n_embd),
        })
        self.lm_head = nn.Linear(config.n_embd, config.vocab_size, bias=False)
        # weight tying: start the head from the token embedding
        self.lm_head.weight = nn.Parameter(self.transformer["wte"].weight.clone())

    def forward(self, idx, targets=None):
        T = idx.size(1)
        assert T <= self.block_size, "sequence too long"
        pos = torch.arange(T, device=idx.device)
        x = self.transformer["wte"](idx) + self.transformer["wpe"](pos)
        for block in self.transformer["h"]:
            x = block(x)
        x = self.transformer["ln_f"](x)
        logits = self.lm_head(x)
        if targets is None:
            return logits, None
        return logits, F.cross_entropy(logits.reshape(-1, logits.shape[-1]), targets.reshape(-1))
