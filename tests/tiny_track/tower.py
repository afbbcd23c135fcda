# %% Tower: gates on gates [markdown]
# Each floor adds what it lets through to what came up to it.

# %%
import torch
from gate import Gate
from torch import nn


class Tower(nn.Module):
    """`height` gates, each added to what came: (B, T, C) -> (B, T, C). Parts: floors.0 to floors.{height - 1}."""

    def __init__(self, width: int, height: int) -> None:
        """Make the floors."""
        super().__init__()
        # put `height` Gates into self.floors (nn.ModuleList).
        ### BEGIN SOLUTION
        self.floors = nn.ModuleList([Gate(width) for _ in range(height)])
        ### END SOLUTION

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return what the last floor adds up to."""
        # each floor in turn, added to the stream.
        ### BEGIN SOLUTION
        for floor in self.floors:
            x = x + floor(x)
        return x
        ### END SOLUTION
