# %% Block: gather, then think, and add both to what was there [markdown]
# The vector of a position runs straight through the network; each layer reads a normalised copy and *adds* what it
# found. Gradients take the same straight way back, which is why many blocks can be stacked.

# %%
import torch
from torch import nn

from attention import CausalSelfAttention
from mlp import MLP


class Block(nn.Module):
    """One transformer block, pre-norm, with two residual additions: (B, T, C) -> (B, T, C).

    Parameters: ln_1 (C), attn.*, ln_2 (C), mlp.*; both norms are nn.LayerNorm with its default epsilon, 1e-5.
    """

    def __init__(self, config) -> None:
        """Make the two norms and the two layers that they feed."""
        super().__init__()
        # make ln_1, attn, ln_2 and mlp, each once.
        ### BEGIN SOLUTION
        self.ln_1 = nn.LayerNorm(config.n_embd)
        self.attn = CausalSelfAttention(config)
        self.ln_2 = nn.LayerNorm(config.n_embd)
        self.mlp = MLP(config)
        ### END SOLUTION

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the updated stream: (B, T, C) -> (B, T, C)."""
        # add to x what attention finds in ln_1(x); then add to *that* what the MLP makes of ln_2 of it.
        ### BEGIN SOLUTION
        x = x + self.attn(self.ln_1(x))
        x = x + self.mlp(self.ln_2(x))
        return x
        ### END SOLUTION
