# %% MLP: each position thinks alone [markdown]
# Attention has gathered; now every position works on what it got. Four times the width gives room for many features;
# the bend (ReLU: negative numbers become 0) is what makes two linear layers more than one.

# %%
import torch
from torch import nn
from torch.nn import functional as F


class MLP(nn.Module):
    """Feed-forward layer on each position: (B, T, C) -> (B, T, C), with C = n_embed.

    Parameters: hidden.weight (4C, C), hidden.bias (4C), proj.weight (C, 4C), proj.bias (C).
    """

    def __init__(self, n_embed: int) -> None:
        """Make both layers."""
        super().__init__()
        # TODO: make hidden (C -> 4C) and proj (4C -> C).
        # Ours takes 2 lines.
        raise NotImplementedError("MLP.__init__ is still to be written")

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return proj(relu(hidden(x))): (B, T, C) -> (B, T, C)."""
        # TODO: widen, ReLU, come back.
        # Ours takes 2 lines.
        raise NotImplementedError("MLP.forward is still to be written")
