# %% Block: gather, then think, and keep what was there [markdown]
# Twice the same step: normalise a copy, work on it, add what was found to the stream. The stream itself is never
# replaced, so the gradient has a straight way back through any number of blocks.

# %%
import torch
from torch import nn

from attention import MultiHeadAttention
from mlp import MLP


class Block(nn.Module):
    """One block, pre-norm: (B, T, C) -> (B, T, C), with C = n_embed.

    Parts: ln1 and ln2 (LayerNorm), attn (MultiHeadAttention), mlp (MLP).
    """

    def __init__(self, n_head: int, n_embed: int, context_length: int) -> None:
        """Make two norms, the attention and the MLP."""
        super().__init__()
        # make ln1, attn, ln2 and mlp.
        ### BEGIN SOLUTION
        self.ln1 = nn.LayerNorm(n_embed)
        self.attn = MultiHeadAttention(n_head, n_embed, context_length)
        self.ln2 = nn.LayerNorm(n_embed)
        self.mlp = MLP(n_embed)
        ### END SOLUTION

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the stream after both steps: (B, T, C) -> (B, T, C); x itself stays as it is."""
        # x plus attention of its norm; then plus MLP of the norm of that.
        ### BEGIN SOLUTION
        x = x + self.attn(self.ln1(x))
        return x + self.mlp(self.ln2(x))
        ### END SOLUTION
