# %% Generation: a loop over the next token [markdown]
# The model only ever answers one question: which token comes next? Ask, draw one of its answers, append it, ask again.
# The temperature says how daring the draw is; top-k leaves out what is absurd.

# %%
import torch
from torch import nn


def generate(
    model: nn.Module,
    idx: torch.Tensor,
    max_new_tokens: int,
    block_size: int,
    temperature: float = 1.0,
    top_k: int | None = None,
    generator: torch.Generator | None = None,
) -> torch.Tensor:
    """Return `idx` (B, T), int64, with max_new_tokens more in each row: (B, T + max_new_tokens). `idx` stays as it is.

    model(context) returns (logits, None), logits (B, t, V). It sees the last block_size tokens, or all while there are
    fewer. What it says at the *last* position is divided by `temperature`; with `top_k` only the k largest stay (all,
    where k > V); softmax gives the probabilities, and each row draws its own next token with `generator` (None: torch's
    own) and from nothing else. Temperature 0 takes the likeliest token instead.
    In eval mode and without gradients; afterwards the model is in the mode in which it was.
    """
    # remember the mode; for each new token: crop, ask, temperature, top-k, softmax, draw, append.
    ### BEGIN SOLUTION
    mode = model.training
    model.eval()
    with torch.no_grad():
        for _ in range(max_new_tokens):
            logits, _ = model(idx[:, -block_size:])  # (B, t, V)
            logits = logits[:, -1]  # (B, V)
            if temperature == 0:
                new = logits.argmax(dim=-1, keepdim=True)  # (B, 1)
            else:
                scaled = logits / temperature  # (B, V)
                if top_k is not None:
                    least = scaled.topk(min(top_k, scaled.shape[-1])).values[:, -1:]  # (B, 1): the smallest that stays
                    scaled = scaled.where(scaled >= least, -torch.inf)
                new = torch.multinomial(scaled.softmax(dim=-1), 1, generator=generator)  # (B, 1)
            idx = torch.cat([idx, new], dim=1)
    model.train(mode)
    return idx
    ### END SOLUTION
