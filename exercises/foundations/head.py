# %% Head: one head of attention, with its own key, query and value [markdown]
# Each position asks (query), offers a label (key) and holds a content (value). Where a query fits a key, the content
# flows. The lower triangle of ones says who may listen to whom: a position hears itself and what came before.

# %%
import math

import torch
from torch import nn


class Head(nn.Module):
    """One head of causal self-attention: (B, T, C) -> (B, T, D), with C = n_embed and D = head_size.

    Parameters: key.weight, query.weight, value.weight, each (D, C), without biases.
    Buffer: tril (context_length, context_length), ones on and below the diagonal.
    """

    def __init__(self, head_size: int, n_embed: int, context_length: int) -> None:
        """Make the three projections and the triangle."""
        super().__init__()
        # TODO: make key, query and value (C -> D, no bias), and register the buffer tril.
        # Ours takes 4 lines.
        raise NotImplementedError("Head.__init__ is still to be written")

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return what this head gathers: (B, T, C) -> (B, T, D), for every T up to context_length."""
        # TODO: queries against keys, divided by sqrt(D); -inf where tril is 0; softmax; weighted sum of values.
        # Ours takes 5 lines.
        raise NotImplementedError("Head.forward is still to be written")
