# %% CausalSelfAttention: each position gathers from itself and from what came before [markdown]
# Every position asks a question (query), every position offers a label (key) and a content (value). How well a query
# fits a key decides how much of that value flows. The future is masked *before* the softmax, so it gets weight zero.

# %%
import math

import torch
from torch import nn


class CausalSelfAttention(nn.Module):
    """Multi-head self-attention that never looks ahead: (B, T, C) -> (B, T, C).

    Parameters: c_attn.weight (3C, C), c_attn.bias (3C), c_proj.weight (C, C), c_proj.bias (C).
    Letters: B batch, T time (1 to block_size), C = n_embd, H = n_head, D = C / H the width of one head.
    """

    def __init__(self, config) -> None:
        """Make both projections. Raises ValueError when n_embd is not a multiple of n_head."""
        super().__init__()
        # refuse an n_embd that n_head does not divide (ValueError); keep H and D for forward;
        # make c_attn (C -> 3C) and c_proj (C -> C).
        ### BEGIN SOLUTION
        if config.n_embd % config.n_head != 0:
            raise ValueError(f"n_embd = {config.n_embd} does not split into n_head = {config.n_head} equal heads")
        self.n_head = config.n_head
        self.head_dim = config.n_embd // config.n_head
        self.c_attn = nn.Linear(config.n_embd, 3 * config.n_embd)  # queries, keys and values in one go
        self.c_proj = nn.Linear(config.n_embd, config.n_embd)  # mixes what the heads found
        ### END SOLUTION

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the attended x: (B, T, C) -> (B, T, C), same dtype, same device; x itself stays as it is."""
        # split c_attn(x) into q, k, v and each into heads; scaled scores; mask the future with -inf;
        # softmax; weighted sum of v; heads side by side again; c_proj.
        ### BEGIN SOLUTION
        B, T, C = x.shape
        heads = (B, T, self.n_head, self.head_dim)
        q, k, v = (part.view(heads).transpose(1, 2) for part in self.c_attn(x).split(C, dim=2))  # each (B, H, T, D)

        # A dot product of D random terms has variance D: dividing by sqrt(D) keeps the softmax soft enough to learn.
        scores = q @ k.transpose(-2, -1) / math.sqrt(self.head_dim)  # (B, H, T, T): row asks, column answers
        position = torch.arange(T, device=x.device)  # (T)
        future = position[None, :] > position[:, None]  # (T, T): True where the column lies after the row
        weights = scores.masked_fill(future, -math.inf).softmax(dim=-1)  # (B, H, T, T): each row sums to 1

        y = weights @ v  # (B, H, T, D)
        y = y.transpose(1, 2).reshape(B, T, C)  # heads side by side again
        return self.c_proj(y)
        ### END SOLUTION
