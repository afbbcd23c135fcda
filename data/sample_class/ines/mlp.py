# %% MLP: each position thinks alone about what it has gathered [markdown]
# Attention moves information between positions; this layer works on each of them by itself. It widens the vector four
# times, bends it with a GELU, and comes back. About two thirds of a block's parameters live here.

# %%
import torch
from torch import nn


class MLP(nn.Module):
    """Two linear layers with a GELU between: (B, T, C) -> (B, T, C).

    Parameters: c_fc.weight (4C, C), c_fc.bias (4C), c_proj.weight (C, 4C), c_proj.bias (C).
    The GELU is GPT-2's: the tanh approximation, which is about 1e-3 away from the exact one.
    """

    def __init__(self, config) -> None:
        """Make both layers and the activation."""
        super().__init__()
        self.c_fc = nn.Linear(config.n_embd, 4 * config.n_embd)
        self.act = nn.GELU("tanh")
        self.c_proj = nn.Linear(4 * config.n_embd, config.n_embd)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the transformed x: (B, T, C) -> (B, T, C)."""
        x = self.c_fc(x)
        x = self.act(x)
        x = self.c_proj(x)
        return x
