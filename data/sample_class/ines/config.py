# %% GPTConfig: the five numbers that fix the size of a GPT [markdown]
# Everything else in the model is computed from these. With the defaults a head is `n_embd / n_head = 64` wide and the
# whole model has 10,770,816 parameters.

# %%
from dataclasses import dataclass


@dataclass
class GPTConfig:
    """The size of a model. Every field has a default and can be set by keyword: `GPTConfig(n_layer=2)`.

    vocab_size: number of different tokens, V      65
    block_size: longest context, in tokens         256
    n_layer:    number of blocks                   6
    n_head:     attention heads in a block, H      6
    n_embd:     width of a token's vector, C       384
    """

    vocab_size: int = 65
    block_size: int = 256
    n_layer: int = 6
    n_head: int = 6
    n_embd: int = 384
