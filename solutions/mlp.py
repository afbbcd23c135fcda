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
        # make c_fc (C -> 4C), the tanh-approximated GELU, and c_proj (4C -> C).
        ### BEGIN SOLUTION
        self.c_fc = nn.Linear(config.n_embd, 4 * config.n_embd)
        self.gelu = nn.GELU(approximate="tanh")
        self.c_proj = nn.Linear(4 * config.n_embd, config.n_embd)
        ### END SOLUTION

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the transformed x: (B, T, C) -> (B, T, C)."""
        # widen, activate, come back.
        ### BEGIN SOLUTION
        hidden = self.gelu(self.c_fc(x))  # (B, T, 4C)
        return self.c_proj(hidden)  # (B, T, C)
        ### END SOLUTION
