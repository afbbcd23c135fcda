# %% Transformer: from token ids to a guess about every next token, and to new text [markdown]
# Look up what each token is and where it stands, run the blocks, normalise once more: these are the hidden states. The
# head turns them into logits. Here it is a layer of its own, with a bias, and shares nothing with the token table.

# %%
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from block import Block


class Transformer(nn.Module):
    """The whole language model: token ids (B, T) in, logits (B, T, V) and perhaps a loss out.

    Parameters: token_embed (V, C), position_embed (context_length, C), attn_blocks.0 to attn_blocks.{N_BLOCKS - 1}
    (Blocks), layer_norm (C), lm_head.weight (V, C) and lm_head.bias (V), with V = vocab_size and C = n_embed.
    """

    def __init__(self, n_head: int, n_embed: int, context_length: int, vocab_size: int, N_BLOCKS: int) -> None:
        """Make both tables, the blocks, the final norm and the head."""
        super().__init__()
        # TODO: make token_embed, position_embed, attn_blocks (nn.ModuleList), layer_norm, lm_head; keep context_length.
        # Optional: a switch called checkpointing, off at first (see forward_hidden).
        # Ours takes 7 lines.
        raise NotImplementedError("Transformer.__init__ is still to be written")

    def forward_hidden(self, idx: torch.Tensor) -> torch.Tensor:
        """Return the hidden states after the final norm: (B, T) -> (B, T, C). Another head can be put on them.

        Raises an error when T is larger than context_length. With checkpointing, blocks are computed once more in the
        backward pass instead of being kept: the same numbers, less memory, more time.
        """
        # TODO: add token and position vectors; every block in turn; layer_norm.
        # Ours takes 9 lines.
        raise NotImplementedError("Transformer.forward_hidden is still to be written")

    def forward(
        self, idx: torch.Tensor, targets: torch.Tensor | None = None
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Return (logits, loss) for the ids `idx` (B, T), int64, each below vocab_size.

        logits: (B, T, V), at *every* position: logits[:, t] are about token t + 1.
        loss:   None without targets; else the mean cross-entropy in nats over all B * T positions. targets (B, T)
                may be a slice of a longer tensor, which is not contiguous in memory.
        """
        # TODO: lm_head of the hidden states; with targets, the loss (reshape, not view).
        # Ours takes 5 lines.
        raise NotImplementedError("Transformer.forward is still to be written")

    @torch.no_grad()
    def generate(self, idx: torch.Tensor, max_new_tokens: int) -> torch.Tensor:
        """Return idx (B, T) with max_new_tokens ids after it: (B, T + max_new_tokens). T may be of any length.

        Each new id is drawn from the softmax of the logits at the last position of the last context_length ids.
        """
        # TODO: as often as asked: crop to the context, forward, last position, softmax, draw one, append.
        # Ours takes 5 lines.
        raise NotImplementedError("Transformer.generate is still to be written")
