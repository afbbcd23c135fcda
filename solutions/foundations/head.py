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
        # make key, query and value (C -> D, no bias), and register the buffer tril.
        ### BEGIN SOLUTION
        self.key = nn.Linear(n_embed, head_size, bias=False)
        self.query = nn.Linear(n_embed, head_size, bias=False)
        self.value = nn.Linear(n_embed, head_size, bias=False)
        # A buffer moves to another device with the model, and is no parameter: nothing in it is learned.
        self.register_buffer("tril", torch.tril(torch.ones(context_length, context_length)))
        ### END SOLUTION

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return what this head gathers: (B, T, C) -> (B, T, D), for every T up to context_length."""
        # queries against keys, divided by sqrt(D); -inf where tril is 0; softmax; weighted sum of values.
        ### BEGIN SOLUTION
        T = x.shape[1]
        q, k, v = self.query(x), self.key(x), self.value(x)  # each (B, T, D)
        scores = q @ k.transpose(-2, -1) / math.sqrt(k.shape[-1])  # (B, T, T): row asks, column answers
        scores = scores.masked_fill(self.tril[:T, :T] == 0, -math.inf)  # before the softmax: the future gets 0
        return scores.softmax(dim=-1) @ v  # (B, T, T) @ (B, T, D) -> (B, T, D)
        ### END SOLUTION
