# %% convert: the same model under GPT-2's names [markdown]
# The closing exercise. Two models with the same choices compute the same numbers, whatever their tensors are called and
# however they are cut up. Carry the weights of your Transformer over to a model with GPT-2's tensors, and see that the
# logits are equal: `python convert.py`. It is not graded.

# %%
import torch
from torch import nn
from torch.nn import functional as F

from transformer import Transformer


class GPTStyle(nn.Module):
    """A model with GPT-2's tensors and the choices of this course: ReLU, a head of its own with a bias. It is given.

    Tensors: transformer.wte, transformer.wpe, transformer.h.N.{ln_1, attn.c_attn, attn.c_proj, ln_2, mlp.c_fc,
    mlp.c_proj}, transformer.ln_f and lm_head. c_attn (3C, C) holds the queries of all heads, then keys, then values.
    """

    def __init__(self, n_head: int, n_embed: int, context_length: int, vocab_size: int, N_BLOCKS: int) -> None:
        super().__init__()
        self.n_head, C = n_head, n_embed

        def block() -> nn.ModuleDict:
            attn = {"c_attn": nn.Linear(C, 3 * C), "c_proj": nn.Linear(C, C)}
            mlp = {"c_fc": nn.Linear(C, 4 * C), "c_proj": nn.Linear(4 * C, C)}
            norms = {"ln_1": nn.LayerNorm(C), "ln_2": nn.LayerNorm(C)}
            return nn.ModuleDict({**norms, "attn": nn.ModuleDict(attn), "mlp": nn.ModuleDict(mlp)})

        self.transformer = nn.ModuleDict(
            {
                "wte": nn.Embedding(vocab_size, C),
                "wpe": nn.Embedding(context_length, C),
                "h": nn.ModuleList([block() for _ in range(N_BLOCKS)]),
                "ln_f": nn.LayerNorm(C),
            }
        )
        self.lm_head = nn.Linear(C, vocab_size)

    def forward(self, idx: torch.Tensor) -> torch.Tensor:
        """Return logits (B, T, V) of ids (B, T)."""
        B, T = idx.shape
        x = self.transformer["wte"](idx) + self.transformer["wpe"](torch.arange(T, device=idx.device))
        for block in self.transformer["h"]:
            q, k, v = block["attn"]["c_attn"](block["ln_1"](x)).chunk(3, dim=-1)  # each (B, T, C)
            q, k, v = (t.view(B, T, self.n_head, -1).transpose(1, 2) for t in (q, k, v))  # each (B, H, T, D)
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + block["attn"]["c_proj"](y.transpose(1, 2).reshape(x.shape))
            x = x + block["mlp"]["c_proj"](F.relu(block["mlp"]["c_fc"](block["ln_2"](x))))
        return self.lm_head(self.transformer["ln_f"](x))


def to_gpt(state: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Return the weights of a Transformer (its state_dict) under the names of GPTStyle, ready for load_state_dict.

    Two things are not a matter of names: the heads' small matrices become the rows of one c_attn.weight, and
    c_attn.bias, which the heads do not have, is zero. What is no weight (tril) is left behind.
    """
    # rename the tables, the norms, proj, hidden and lm_head; join the heads of each block to its c_attn.
    ### BEGIN SOLUTION
    names = {
        "token_embed": "transformer.wte",
        "position_embed": "transformer.wpe",
        "attn_blocks": "transformer.h",
        "layer_norm": "transformer.ln_f",
        "ln1": "ln_1",
        "ln2": "ln_2",
        "hidden": "c_fc",
        "proj": "c_proj",
    }
    carried: dict[str, torch.Tensor] = {}
    fused: dict[str, dict[str, list[torch.Tensor]]] = {}
    for name, value in state.items():
        if ".heads." not in name:
            carried[".".join(names.get(word, word) for word in name.split("."))] = value
        elif name.endswith("weight"):
            block, _, rest = name.partition(".heads.")  # "attn_blocks.0.attn" and "5.query.weight"
            fused.setdefault(block, {}).setdefault(rest.split(".")[1], []).append(value)
    for block, parts in fused.items():
        place = block.replace("attn_blocks", "transformer.h")
        weight = torch.cat([torch.cat(parts[role]) for role in ("query", "key", "value")])  # (3C, C)
        carried[f"{place}.c_attn.weight"] = weight
        carried[f"{place}.c_attn.bias"] = weight.new_zeros(len(weight))
    return carried
    ### END SOLUTION


#: What weights alone cannot carry over to the GPT of the other course, and why.
CANNOT_BE_CARRIED = {
    "ReLU": "GELU is another function: no weights of the MLP make the one of the other.",
    "a head of its own": "there one matrix is table and head: it can hold only one of your two.",
    "the head's bias": "there is no tensor for it.",
}


def main() -> None:
    """Carry random weights over, and print by how much the logits differ."""
    sizes = {"n_head": 3, "n_embed": 24, "context_length": 16, "vocab_size": 65, "N_BLOCKS": 2}
    try:
        theirs, mine = GPTStyle(**sizes), Transformer(**sizes)
        theirs.load_state_dict(to_gpt(mine.state_dict()))
    except (NotImplementedError, RuntimeError) as error:
        print(f"Not yet: {error}")
        return
    idx = torch.randint(65, (4, 16))
    with torch.no_grad():
        apart = float((theirs(idx) - mine(idx)[0]).abs().max())
    print(f"The logits differ by at most {apart:.1e}: " + ("they are equal." if apart < 1e-5 else "not equal yet."))
    print("To the GPT of the other course weights alone cannot carry:")
    for option, reason in CANNOT_BE_CARRIED.items():
        print(f"  {option}: {reason}")


if __name__ == "__main__":
    main()
