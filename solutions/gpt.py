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
        # put wte, wpe, h and ln_f into self.transformer (nn.ModuleDict), make lm_head, and tie:
        # one matrix under two names, lm_head.weight and transformer.wte.weight.
        ### BEGIN SOLUTION
        self.config = config
        self.transformer = nn.ModuleDict(
            {
                "wte": nn.Embedding(config.vocab_size, config.n_embd),  # what a token is
                "wpe": nn.Embedding(config.block_size, config.n_embd),  # where it stands
                "h": nn.ModuleList(Block(config) for _ in range(config.n_layer)),
                "ln_f": nn.LayerNorm(config.n_embd),
            }
        )
        self.lm_head = nn.Linear(config.n_embd, config.vocab_size, bias=False)
        # This way round the table takes the small numbers of nn.Linear and the first loss is near ln V. The other way
        # round the head would take nn.Embedding's N(0, 1) and start in the hundreds.
        self.transformer.wte.weight = self.lm_head.weight
        ### END SOLUTION

    def forward(
        self, idx: torch.Tensor, targets: torch.Tensor | None = None
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Return (logits, loss) for the ids `idx` (B, T), int64, each below vocab_size.

        logits: (B, T, V), at *every* position: logits[:, t] are about token t + 1.
        loss:   None without targets; else the mean cross-entropy in nats over all B * T positions, where
                targets (B, T), int64, are the right next tokens (already shifted by whoever made the batch).
        Raises ValueError when T is larger than block_size.
        """
        # refuse T > block_size (ValueError); add token and position vectors; blocks; ln_f; lm_head;
        # with targets, the loss.
        ### BEGIN SOLUTION
        _, T = idx.shape
        if self.config.block_size < T:
            raise ValueError(f"a sequence of {T} tokens does not fit: block_size is {self.config.block_size}")
        position = torch.arange(T, device=idx.device)  # (T)
        x = self.transformer.wte(idx) + self.transformer.wpe(position)  # (B, T, C) + (T, C) -> (B, T, C)
        for block in self.transformer.h:
            x = block(x)  # (B, T, C)
        logits = self.lm_head(self.transformer.ln_f(x))  # (B, T, V)
        if targets is None:
            return logits, None
        loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten())  # (B*T, V) against (B*T)
        return logits, loss
        ### END SOLUTION
