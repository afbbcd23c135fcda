# %% MultiHeadAttention: heads side by side [markdown]
# One head can look for one thing. Several look at the same time, each in a smaller room, and their findings are put
# side by side. The projection afterwards lets them mix.

# %%
import torch
from torch import nn

from head import Head


class MultiHeadAttention(nn.Module):
    """n_head heads on the same input: (B, T, C) -> (B, T, C), with C = n_embed.

    Parameters: heads.0 to heads.{n_head - 1} (Heads of size C / n_head), proj.weight (C, C), proj.bias (C).
    """

    def __init__(self, n_head: int, n_embed: int, context_length: int) -> None:
        """Make the heads and the projection."""
        super().__init__()
        # put n_head Heads of size n_embed // n_head into self.heads (nn.ModuleList); make proj (C -> C).
        ### BEGIN SOLUTION
        head_size = n_embed // n_head
        self.heads = nn.ModuleList([Head(head_size, n_embed, context_length) for _ in range(n_head)])
        self.proj = nn.Linear(n_embed, n_embed)
        ### END SOLUTION

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the projected findings of all heads: (B, T, C) -> (B, T, C)."""
        # every head on x; their outputs side by side, in the order of the heads; proj.
        ### BEGIN SOLUTION
        found = torch.cat([head(x) for head in self.heads], dim=-1)  # n_head times (B, T, D) -> (B, T, C)
        return self.proj(found)
        ### END SOLUTION
