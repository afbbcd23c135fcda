"""Each check rejects a small mistake in an otherwise right answer, says what it is, and no other part pays for it."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from answers import changed, losing, rejecting
from conftest import HandIn

from autograder.track import load_track


class Mutation(NamedTuple):
    """A passage of one solution file, what a student might write instead, and the words that the check then says."""

    check: str
    file: str
    find: str
    replace: str
    says: str


NO_SUPER = ("super().__init__()", "pass")
DROPOUT = "torch.nn.functional.dropout({}, 0.5, self.training)"
ATTENTION, MLP, BLOCK, GPT = "attention.py", "mlp.py", "block.py", "gpt.py"

MUTATIONS = [
    Mutation("config.defaults", "config.py", "n_layer: int = 6", "n_layer: int = 8", "n_layer is 8, not 6"),
    Mutation(
        "config.keywords",
        "config.py",
        "n_embd: int = 384",
        "n_embd: int = 384\n\n    def __post_init__(self):\n        self.block_size = 256",
        ".block_size is 256, not",
    ),
    Mutation(
        "config.types", "config.py", "n_embd: int = 384", "n_embd: float = 384.0", "n_embd is of type float, not int"
    ),
    # -- attention
    Mutation("attention.builds", ATTENTION, *NO_SUPER, "CausalSelfAttention.__init__ raises AttributeError (line "),
    Mutation(
        "attention.parameters",
        ATTENTION,
        "3 * config.n_embd)  #",
        "3 * config.n_embd, bias=False)  #",
        "Missing: c_attn.bias",
    ),
    Mutation(
        "attention.shapes",
        ATTENTION,
        "return self.c_proj(y)",
        "return self.c_proj(y)[:, -1]",
        "forward turns (B, T, C) = (",
    ),
    Mutation("attention.sizes", ATTENTION, ".reshape(B, T, C)", ".reshape(B, T, C).squeeze()", "With T = 1:"),
    Mutation("attention.causal", ATTENTION, "> position[:, None]", "> position[:, None] + 1", "the mask is off by one"),
    Mutation("attention.mask_is_hard", ATTENTION, "-math.inf", "-1e4", "The mask is too weak"),
    Mutation("attention.values", ATTENTION, "/ math.sqrt(self.head_dim)", "* 0.777", "of the values differ"),
    Mutation("attention.gradients", ATTENTION, "weights @ v  #", "weights @ v.detach()  #", "gets a wrong gradient"),
    Mutation(
        "attention.train_mode",
        ATTENTION,
        "y = weights @ v",
        f"y = {DROPOUT.format('weights')} @ v",
        "In train mode the output is random",
    ),
    Mutation(
        "attention.pure",
        ATTENTION,
        "return self.c_proj(y)",
        "x.zero_()\n        return self.c_proj(y)",
        "changes its input x in place",
    ),
    Mutation("attention.follows", ATTENTION, "(T, device=x.device)", "(T)", "stays on the CPU"),
    Mutation("attention.divisibility", ATTENTION, "if config.n_embd % config.n_head != 0:", "if False:", "is accepted"),
    # -- mlp
    Mutation("mlp.builds", MLP, *NO_SUPER, "MLP.__init__ raises AttributeError (line "),
    Mutation("mlp.parameters", MLP, "nn.Linear(4 * config.n_embd, config.n_embd)", "nn.Identity()", "Missing: c_proj"),
    Mutation("mlp.shapes", MLP, "return self.c_proj(hidden)", "return hidden", "forward turns (B, T, C) = ("),
    Mutation("mlp.sizes", MLP, "self.gelu(self.c_fc(x))", "self.gelu(self.c_fc(x)).squeeze()", "With T = 1:"),
    Mutation("mlp.values", MLP, 'nn.GELU(approximate="tanh")', "nn.GELU()", "exact"),
    Mutation("mlp.gradients", MLP, "self.c_proj(hidden)", "self.c_proj(hidden.detach())", "the input has no gradient"),
    Mutation(
        "mlp.train_mode", MLP, "self.c_proj(hidden)", f"self.c_proj({DROPOUT.format('hidden')})", "the output is random"
    ),
    Mutation(
        "mlp.pure",
        MLP,
        "return self.c_proj(hidden)",
        "x.zero_()\n        return self.c_proj(hidden)",
        "MLP.forward changes its input x in place",
    ),
    Mutation(
        "mlp.follows",
        MLP,
        "return self.c_proj(hidden)",
        "return self.c_proj(hidden).float()",
        "Given float64, it returns float32",
    ),
    # -- block
    Mutation("block.builds", BLOCK, *NO_SUPER, "Block.__init__ raises AttributeError (line "),
    Mutation(
        "block.parameters",
        BLOCK,
        "self.ln_2 = nn.LayerNorm(config.n_embd)",
        "self.ln_2 = nn.LayerNorm(config.n_embd, bias=False)",
        "Missing: ln_2.bias",
    ),
    Mutation("block.shapes", BLOCK, "return x\n", "return x[:, :-1]\n", "forward turns (B, T, C) = ("),
    Mutation("block.sizes", BLOCK, "return x\n", "return x.squeeze()\n", "With T = 1:"),
    Mutation("block.values", BLOCK, "x = x + self.attn(", "x = self.attn(", "residual"),
    Mutation(
        "block.norm_epsilon",
        BLOCK,
        "self.ln_1 = nn.LayerNorm(config.n_embd)",
        "self.ln_1 = nn.LayerNorm(config.n_embd, eps=1e-6)",
        "LayerNorm's epsilon is not 1e-5",
    ),
    Mutation("block.gradients", BLOCK, "self.ln_2(x)", "self.ln_2(x.detach())", "the input gets a wrong gradient"),
    Mutation("block.train_mode", BLOCK, "return x\n", f"return {DROPOUT.format('x')}\n", "the output is random"),
    Mutation(
        "block.pure", BLOCK, "x = x + self.attn(", "x += self.attn(", "Block.forward changes its input x in place"
    ),
    Mutation("block.follows", BLOCK, "return x\n", "return x + torch.zeros(x.shape[-1])\n", "stays on the CPU"),
    # -- gpt
    Mutation("gpt.builds", GPT, *NO_SUPER, "GPT.__init__ raises AttributeError (line "),
    Mutation("gpt.parameters", GPT, ", bias=False)", ")", "Extra: lm_head.bias"),
    Mutation(
        "gpt.layers",
        GPT,
        "Block(config) for _ in range(config.n_layer)",
        "[Block(config)] * config.n_layer",
        "repeats one block: only 1",
    ),
    Mutation(
        "gpt.tying",
        GPT,
        "self.transformer.wte.weight = self.lm_head.weight",
        "pass",
        "not tied: at the course's size that is 24,960 parameters too many",
    ),
    Mutation("gpt.shapes", GPT, "return logits, None", "return logits[:, -1:], None", "expected (B, T, V)"),
    Mutation("gpt.lengths", GPT, "block_size < T", "block_size <= T", "With T = block_size:"),
    Mutation("gpt.values", GPT, " + self.transformer.wpe(position)", "", "position"),
    Mutation(
        "gpt.norm_epsilon",
        GPT,
        '"ln_f": nn.LayerNorm(config.n_embd)',
        '"ln_f": nn.LayerNorm(config.n_embd, eps=1e-6)',
        "LayerNorm's epsilon is not 1e-5",
    ),
    Mutation("gpt.loss", GPT, "targets.flatten())", "targets.flatten(), ignore_index=0)", "drops a real character"),
    Mutation("gpt.gradients", GPT, "wpe(position)", "wpe(position).detach()", "transformer.wpe.weight has no gradient"),
    Mutation("gpt.train_mode", GPT, "x = block(x)", f"x = {DROPOUT.format('block(x)')}", "the output is random"),
    Mutation(
        "gpt.pure",
        GPT,
        "return logits, None",
        "idx.zero_()\n            return logits, None",
        "GPT.forward changes its input idx in place",
    ),
    Mutation(
        "gpt.initial_loss",
        GPT,
        "self.transformer.wte.weight = self.lm_head.weight",
        "self.transformer.wte.weight = nn.init.zeros_(self.lm_head.weight)",
        "The token table starts at zero",
    ),
    Mutation("gpt.follows", GPT, "(T, device=idx.device)", "(T)", "A tensor stays on the CPU"),
    Mutation(
        "gpt.whole",
        GPT,
        "    def forward(",
        "    def state_dict(self, *args, **kwargs):\n"
        "        state = super().state_dict(*args, **kwargs)\n"
        "        state.pop('lm_head.weight')\n"
        "        return state\n\n"
        "    def forward(",
        "lm_head.weight",
    ),
    Mutation(
        "gpt.imports_cleanly",
        GPT,
        "from block import Block\n",
        "from block import Block\n\ntorch.set_default_dtype(torch.float64)\n",
        "leaves the default dtype changed to torch.float64",
    ),
]


def test_the_table_has_a_mutation_for_every_check_of_the_track() -> None:
    assert {mutation.check for mutation in MUTATIONS} == {id for part in load_track("gpt").parts for id in part.points}


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.check)
def test_this_check_rejects_its_mutation_and_no_other_part_pays(mutation: Mutation, hand_in: HandIn) -> None:
    report = hand_in(changed(mutation.file, mutation.find, mutation.replace))
    assert mutation.says in rejecting(report).get(mutation.check, "passed"), rejecting(report)
    assert losing(report) == [mutation.check.split(".")[0]], rejecting(report)
