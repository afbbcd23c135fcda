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
        # TODO: refuse an n_embd that n_head does not divide (ValueError); keep H and D for forward;
        # make c_attn (C -> 3C) and c_proj (C -> C).
        # Ours takes 6 lines.
        raise NotImplementedError("CausalSelfAttention.__init__ is still to be written")

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the attended x: (B, T, C) -> (B, T, C), same dtype, same device; x itself stays as it is."""
        # TODO: split c_attn(x) into q, k, v and each into heads; scaled scores; mask the future with -inf;
        # softmax; weighted sum of v; heads side by side again; c_proj.
        # Ours takes 10 lines.
        raise NotImplementedError("CausalSelfAttention.forward is still to be written")
