  1 import math
  2 from dataclasses import dataclass
  3 
  4 import torch
  5 import torch.nn as nn
  6 from torch.nn import functional as F
  7 
  8 
  9 @dataclass
 10 class GPTConfig:
 11     vocab_size: int = 65
 12     block_size: int = 256
 13     n_layer: int = 6
 14     n_head: int = 6
 15     n_embd: int = 384
 16 
 17 
 18 class CausalSelfAttention(nn.Module):
 19     def __init__(self, config):
 20         super().__init__()
 21         assert config.n_embd % config.n_head == 0
 22         self.c_attn = nn.Linear(config.n_embd, 3 * config.n_embd)
 23         self.c_proj = nn.Linear(config.n_embd, config.n_embd)
 24         self.n_head = config.n_head
 25         self.n_embd = config.n_embd
 26 
 27     def forward(self, x):
 28         B, T, C = x.size()
 29         q, k, v = self.c_attn(x).split(self.n_embd, dim=2)
 30         k = k.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)  # (B, nh, T, hs)
 31         q = q.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
 32         v = v.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
 33         att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
 34         mask = torch.ones(T, T, dtype=torch.bool, device=x.device).tril()
 35         att = att.masked_fill(~mask, float("-inf"))
 36         att = F.softmax(att, dim=-1)
 37         y = att @ v  # (B, nh, T, hs)
 38         y = y.transpose(1, 2).contiguous().view(B, T, C)
 39         return self.c_proj(y)
 40 
 41 
 42 class MLP(nn.Module):
 43     def __init__(self, config):
 44         super().__init__()
 45         self.c_fc = nn.Linear(config.n_embd, 4 * config.n_embd)
 46         self.gelu = nn.GELU(approximate="tanh")
 47         self.c_proj = nn.Linear(4 * config.n_embd, config.n_embd)
 48 
 49     def forward(self, x):
 50         x = self.c_fc(x)
 51         x = self.gelu(x)
 52         x = self.c_proj(x)
 53         return x
 54 
 55 
 56 class Block(nn.Module):
 57     def __init__(self, config):
 58         super().__init__()
 59         self.ln_1 = nn.LayerNorm(config.n_embd)
 60         self.attn = CausalSelfAttention(config)
 61         self.ln_2 = nn.LayerNorm(config.n_embd)
 62         self.mlp = MLP(config)
 63 
 64     def forward(self, x):
 65         x = x + self.attn(self.ln_1(x))
 66         x = x + self.mlp(self.ln_2(x))
 67         return x
 68 
 69 
 70 class GPT(nn.Module):
 71     def __init__(self, config):
 72         super().__init__()
 73         self.config = config
 74         self.transformer = nn.ModuleDict(dict(
 75             wte=nn.Embedding(config.vocab_size, config.n_embd),
 76             wpe=nn.Embedding(config.block_size, config.n_embd),
 77             h=nn.ModuleList([Block(config) for _ in range(config.n_layer)]),
 78             ln_f=nn.LayerNorm(config.n_embd),
 79         ))
 80         self.lm_head = nn.Linear(config.n_embd, config.vocab_size, bias=False)
 81         self.transformer.wte.weight = self.lm_head.weight
 82 
 83     def forward(self, idx, targets=None):
 84         B, T = idx.size()
 85         assert T <= self.config.block_size, f"cannot forward {T} tokens, block_size is {self.config.block_size}"
 86         pos = torch.arange(0, T, dtype=torch.long, device=idx.device)
 87         tok_emb = self.transformer.wte(idx)  # (B, T, C)
 88         pos_emb = self.transformer.wpe(pos)  # (T, C)
 89         x = tok_emb + pos_emb
 90         for block in self.transformer.h:
 91             x = block(x)
 92         x = self.transformer.ln_f(x)
 93         logits = self.lm_head(x)
 94         loss = None
 95         if targets is not None:
 96             loss = F.cross_entropy(logits.view(-1, logits.size(-1)), targets.reshape(-1))
 97         return logits, loss
