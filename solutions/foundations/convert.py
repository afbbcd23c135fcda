# %% convert: the same model under GPT-2's names [markdown]
# The closing exercise. Two models with the same choices compute the same numbers, whatever their tensors are called and
# however they are cut up. Carry the weights of your Transformer over to a model with GPT-2's tensors, and see that the
# logits are equal: `python convert.py` tries three sizes and says what does not fit yet. It earns no points.

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


#: Sizes to try: an odd number of heads, one head, as many blocks as heads; none is the course's own.
TRIALS = (
    {"n_head": 3, "n_embed": 24, "context_length": 16, "vocab_size": 65, "N_BLOCKS": 2},
    {"n_head": 1, "n_embed": 10, "context_length": 7, "vocab_size": 11, "N_BLOCKS": 1},
    {"n_head": 4, "n_embed": 8, "context_length": 5, "vocab_size": 19, "N_BLOCKS": 4},
)
#: In float64 equal models differ by 1e-15, unequal ones by far more.
EQUAL = 1e-5


def misfit(carried: dict[str, torch.Tensor], wanted: dict[str, torch.Tensor]) -> str:
    """Return in a sentence which names or shapes do not fit the tensors of GPTStyle; nothing where all do."""
    missing = [name for name in wanted if name not in carried]
    extra = [name for name in carried if name not in wanted]
    if missing or extra:
        said = [f"{word} {names[0]} (of {len(names)})" for word, names in (("no", missing), ("extra", extra)) if names]
        return "Names differ: " + ", ".join(said) + "."
    for name, value in wanted.items():
        if carried[name].shape != value.shape:
            return f"{name} has shape {tuple(carried[name].shape)}; expected {tuple(value.shape)}."
    return ""


def trial(sizes: dict[str, int]) -> str:
    """Carry random weights over at these sizes; return in a sentence what is wrong, or nothing."""
    mine, theirs = Transformer(**sizes).double(), GPTStyle(**sizes).double()
    with torch.no_grad():
        for parameter in mine.parameters():  # gains and biases too: at their first values an exchange would not show
            parameter.normal_()
    before = {name: value.clone() for name, value in mine.state_dict().items()}
    carried = to_gpt(mine.state_dict())
    if any(not torch.equal(value, before[name]) for name, value in mine.state_dict().items()):
        return "to_gpt changes the weights that it was given: make new tensors."
    if not isinstance(carried, dict) or not all(isinstance(value, torch.Tensor) for value in carried.values()):
        return "to_gpt does not return a dict of tensors by name."
    if wrong := misfit(carried, theirs.state_dict()):
        return wrong
    theirs.load_state_dict(carried)
    idx = torch.randint(sizes["vocab_size"], (4, sizes["context_length"]))
    with torch.no_grad():
        right, found = mine(idx)[0], theirs(idx)
    apart = float((found - right).abs().max() / right.abs().max())
    if apart < EQUAL:
        return ""
    return f"The logits differ by {apart:.1e} of the largest: a tensor has the right shape and other numbers."


def main() -> int:
    """Try some sizes; print what is wrong, or what cannot be carried. Return 0 where all logits are equal, else 1."""
    for sizes in TRIALS:
        try:
            wrong = trial(sizes)
        except NotImplementedError as error:
            wrong = f"Not yet: {error}"
        if wrong:
            print(wrong)
            print("Tried with " + ", ".join(f"{name} = {size}" for name, size in sizes.items()) + ".")
            return 1
    print(f"The logits agree to {EQUAL:.0e} at {len(TRIALS)} sizes: they are equal.")
    print("To the GPT of the other course weights alone cannot carry:")
    for option, reason in CANNOT_BE_CARRIED.items():
        print(f"  {option}: {reason}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
