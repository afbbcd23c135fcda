# %% GPT: from token ids to a guess about every next token [markdown]
# Look up each token and each position, run the blocks, normalise once more, and compare the result with every row of
# the token table: the better the fit, the higher the logit. Table and output layer are one matrix, read both ways.

# %%
import torch
from torch import nn
from torch.nn import functional as F

from block import Block


class GPT(nn.Module):
    """The whole language model: token ids (B, T) in, logits (B, T, V) and perhaps a loss out.

    Parameters: transformer.wte (V, C), transformer.wpe (block_size, C), transformer.h.0 to h.{n_layer - 1} (Blocks),
    transformer.ln_f (C), and lm_head.weight (V, C, no bias), which *is* transformer.wte.weight.
    """

    def __init__(self, config) -> None:
        """Make both tables, the blocks, the final norm, and the tied output layer."""
        super().__init__()
        # TODO: put wte, wpe, h and ln_f into self.transformer (nn.ModuleDict), make lm_head, and tie:
        # one matrix under two names, lm_head.weight and transformer.wte.weight.
        # Ours takes 11 lines.
        raise NotImplementedError("GPT.__init__ is still to be written")

    def forward(
        self, idx: torch.Tensor, targets: torch.Tensor | None = None
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Return (logits, loss) for the ids `idx` (B, T), int64, each below vocab_size.

        logits: (B, T, V), at *every* position: logits[:, t] are about token t + 1.
        loss:   None without targets; else the mean cross-entropy in nats over all B * T positions, where
                targets (B, T), int64, are the right next tokens (already shifted by whoever made the batch).
        Raises ValueError when T is larger than block_size.
        """
        # TODO: refuse T > block_size (ValueError); add token and position vectors; blocks; ln_f; lm_head;
        # with targets, the loss.
        # Ours takes 12 lines.
        raise NotImplementedError("GPT.forward is still to be written")
