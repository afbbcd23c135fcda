# %% Gate: lets part of each number through [markdown]
# How much goes through is learned, and depends on the whole vector.

# %%
import torch
from torch import nn


class Gate(nn.Module):
    """x times sigmoid(door(x)): (B, T, C) -> (B, T, C), C = width. Parameters: door.weight (C, C), door.bias (C)."""

    def __init__(self, width: int) -> None:
        """Make the door."""
        super().__init__()
        # make door (C -> C).
        ### BEGIN SOLUTION
        self.door = nn.Linear(width, width)
        ### END SOLUTION

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return what comes through."""
        # x, element by element, times the sigmoid of the door.
        ### BEGIN SOLUTION
        return x * torch.sigmoid(self.door(x))
        ### END SOLUTION
