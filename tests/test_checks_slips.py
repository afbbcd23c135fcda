"""Each slip is answered in its own words: what came back, which tensor, which loss; and no other part pays for it."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from answers import changed, checks, losing, rejecting
from conftest import HandIn

from autograder.verdict import Verdict

FAILED, CRASHED, FORBIDDEN = Verdict.FAILED, Verdict.CRASHED, Verdict.FORBIDDEN


class Slip(NamedTuple):
    """The check that tells, a passage of that part's file, what a student wrote instead, and the words of the check."""

    check: str
    find: str
    replace: str
    says: str
    verdict: Verdict = FAILED

    @property
    def part(self) -> str:
        return self.check.split(".")[0]


#: Passages of the solutions that many slips replace.
FIELD, Y, WEIGHTS, HIDDEN = "n_embd: int = 384", "return self.c_proj(y)", "y = weights @ v  #", "self.c_proj(hidden)  #"
LN_2, NO_LOSS = "self.ln_2 = nn.LayerNorm(config.n_embd)", "return logits, None"
LOSS = "F.cross_entropy(logits.flatten(0, 1), targets.flatten())"
TABLE = "self.transformer.wte.weight"
TIE = f"{TABLE} = self.lm_head.weight"
NO_HEAD = "w = self.lm_head.weight.data\n        del self.lm_head.weight\n        self.lm_head.weight = w"
BLOCKS = "nn.ModuleList(Block(config) for _ in range(config.n_layer))"
MLP = "class MLP(nn.Module):"
LIAR = "self.c_proj(hidden).as_subclass(type('Liar', (torch.Tensor,), {}))  #"
SPARE = "self.spare = nn.Linear(3, 3)\n        self.gelu = nn.GELU"
COUNTS = "self.seen = getattr(self, 'seen', 0) + 1\n        return self.c_proj(y) * self.seen"

SLIPS = [
    Slip("config.defaults", FIELD, "n_embed: int = 384", "GPTConfig lacks n_embd"),
    Slip("config.defaults", FIELD, "n_embd: int = 384; extra: int", "non-default argument", CRASHED),
    Slip("config.keywords", "@dataclass\n", "", "is refused"),
    Slip("config.types", FIELD, "n_embd: str = '384'", "n_embd is of type str, not int"),
    # -- attention
    Slip("attention.causal", "(future, -math.inf)", "(future.T, -math.inf)", "sees position"),
    Slip("attention.causal", "> position[:, None]", ">= position[:, None]", "NaN or infinity"),
    Slip("attention.divisibility", "raise ValueError(", "raise KeyError(", "Expected AssertionError"),
    Slip("attention.train_mode", WEIGHTS, "y = torch.dropout(weights, 0.5, True) @ v  #", "In eval mode"),
    Slip("attention.train_mode", Y, f"{Y} * (1 + self.training)", "different numbers"),
    Slip("attention.pure", WEIGHTS, f"torch.manual_seed(0), torch.rand(1)\n        {WEIGHTS}", "random state"),
    Slip("attention.pure", Y, COUNTS, "remember"),
    Slip("attention.pure", Y, f"self.c_proj.weight.data.mul_(1.1)\n        {Y}", "the saved tensor c_proj.weight"),
    Slip("attention.pure", Y, f"self.train()\n        {Y}", "switches train/eval mode"),
    # -- mlp
    Slip("mlp.shapes", f"return {HIDDEN}", HIDDEN, "MLP.forward returns None."),
    Slip("mlp.shapes", HIDDEN, "(self.c_proj(hidden), 1)  #", "returns a tuple"),
    Slip("mlp.shapes", HIDDEN, "self.c_proj(hidden).tolist  #", "returns an object of type builtin_function_or_method"),
    Slip("mlp.shapes", "self.c_fc(x)", "self.c_fcc(x)", "has no attribute 'c_fcc'", CRASHED),
    Slip("mlp.builds", HIDDEN, LIAR, "not a plain tensor", FORBIDDEN),
    Slip("mlp.builds", MLP, "class MLP:", "MLP must inherit from nn.Module"),
    Slip("mlp.builds", MLP, f"def MLP(config): pass\n\n\n{MLP.replace('MLP', 'Other')}", "must be a class"),
    Slip(
        "mlp.parameters", "c_fc = nn.Linear(config.n_embd, 4", "c_fc = nn.Linear(config.n_embd, 2", "has shape (60, 30)"
    ),
    Slip("mlp.parameters", "self.gelu = nn.GELU", SPARE, "Extra: spare.weight, spare.bias"),
    # -- block
    Slip("block.parameters", LN_2, "self.ln_2 = self.ln_1", "one and the same parameter"),
    Slip("block.parameters", LN_2, f"{LN_2}.requires_grad_(False)", "ln_2.weight is frozen"),
    # -- gpt: what came back
    Slip("gpt.shapes", NO_LOSS, "return logits", "does not return the pair (logits, loss)"),
    Slip("gpt.shapes", NO_LOSS, "return None", "GPT.forward returns None"),
    Slip("gpt.shapes", "logits = self.lm_head(", "logits = (", "expected (B, T, V)"),
    Slip("gpt.shapes", "return logits, loss", "return logits.flatten(0, 1), loss", "With targets the logits"),
    # -- gpt: what it is made of
    Slip("gpt.layers", BLOCKS, BLOCKS.replace("config.n_layer", "6"), "the model holds 6 blocks"),
    Slip("gpt.tying", TIE, "self.transformer.wte.weight.data = self.lm_head.weight.data", "share memory"),
    Slip("gpt.tying", TIE, f"{TABLE} = nn.Parameter(self.lm_head.weight.clone())", "24,960 parameters too many"),
    Slip("gpt.tying", TIE, "self.lm_head = nn.Linear(config.n_embd, 9 * config.vocab_size)", "cannot be tied"),
    Slip("gpt.tying", TIE, NO_HEAD, "Only transformer.wte.weight is a parameter of the model"),
    Slip("gpt.parameters", TIE, f"{TIE}\n        nn.init.constant_({TABLE}, torch.inf)", "NaN or infinity"),
    Slip("gpt.initial_loss", TIE, f"{TIE}\n        nn.init.constant_({TABLE}, 0.5)", "constant"),
    Slip(
        "gpt.initial_loss", TIE, f"{TIE}\n        for p in self.transformer.h.parameters(): p.data.zero_()", "constant"
    ),
    Slip("gpt.initial_loss", TIE, f"{TIE}\n        for p in self.parameters(): p.data.mul_(500)", "far too large"),
    # -- gpt: the loss
    Slip("gpt.loss", LOSS, "cross_entropy(logits, targets)", "name 'cross_entropy' is not defined", CRASHED),
    Slip("gpt.loss", NO_LOSS, "return logits, torch.zeros(())", "forward does not return (logits, None)"),
    Slip("gpt.loss", LOSS, f"{LOSS}.item()", "not a tensor"),
    Slip("gpt.loss", LOSS, f"None if True else {LOSS}", "With targets the loss is None"),
    Slip("gpt.loss", LOSS, f"{LOSS}.unsqueeze(0)", "without dimensions"),
    Slip("gpt.loss", LOSS, f"{LOSS}.expand(4)", "should be one number"),
    Slip("gpt.loss", LOSS, f"2.5 * {LOSS}", "the mean cross-entropy of your logits is"),
    Slip("gpt.loss", LOSS, f"{LOSS} / 0.0", "The loss is inf"),
    Slip("gpt.loss", LOSS, f"-{LOSS}", "wrong sign"),
    Slip("gpt.loss", LOSS, "F.cross_entropy(logits[:, -1], targets[:, -1])", "last position only"),
    Slip("gpt.loss", LOSS, f"{LOSS} * targets.numel()", "sum over all tokens"),
    Slip("gpt.loss", LOSS, f"{LOSS}\n        targets.zero_()", "changes targets in place"),
    Slip("gpt.gradients", LOSS, f"{LOSS}.detach()", "The loss is cut off from the graph"),
]


@pytest.mark.parametrize("slip", SLIPS, ids=lambda slip: f"{slip.check}: {slip.says}")
def test_the_check_says_what_went_wrong_and_no_other_part_pays(slip: Slip, hand_in: HandIn) -> None:
    report = hand_in(changed(f"{slip.part}.py", slip.find, slip.replace))
    found = checks(report)[slip.check]
    assert found.verdict is slip.verdict and slip.says in found.message, (found, rejecting(report))
    if slip.verdict is not FORBIDDEN:  # which voids what torch measured in the other parts, too
        assert losing(report) == [slip.part], rejecting(report)


def test_blocks_in_a_plain_list_are_hidden_from_the_optimizer_and_that_is_said(hand_in: HandIn) -> None:
    hidden = f"self.layers = [{BLOCKS[14:-1]}]\n        self.transformer['h'] = nn.Identity()\n        {TIE}"
    files = changed("gpt.py", TIE, hidden)
    files["gpt.py"] = (
        files["gpt.py"]
        .replace(f'                "h": {BLOCKS},\n', "")
        .replace("in self.transformer.h:", "in self.layers:")
    )
    report = hand_in(files)
    assert "a Python list hides them" in checks(report)["gpt.layers"].look_at
    assert losing(report) == ["gpt"]
