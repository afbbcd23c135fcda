"""The pages of the classes say "you wrote this: it says that". Here it is written, and the checker says that."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from answers import SOLUTIONS, solutions
from conftest import HandIn

GUIDE = Path(__file__).resolve().parent.parent / "workshop_guide"
SCALE = "/ math.sqrt(self.head_dim)"
MASKED = "scores.masked_fill(future, -math.inf).softmax(dim=-1)"
SPLIT = "q, k, v = (part.view(heads).transpose(1, 2)"
SECOND = "x = x + self.mlp(self.ln_2(x))"
EMBED = "self.transformer.wte(idx) + self.transformer.wpe(position)"
LOOP = "x = block(x)"
LOSS = "F.cross_entropy(logits.flatten(0, 1), targets.flatten())"
TIE = "self.transformer.wte.weight = self.lm_head.weight"

#: part -> what the guide says that was written -> what is replaced in our solution by what.
WRITTEN: dict[str, dict[str, tuple[str, str]]] = {
    "config": {
        "a class without `@dataclass`": ("@dataclass\n", ""),
        "other defaults": ("n_head: int = 6", "n_head: int = 8"),
        "n_embd made to fit n_head in secret": (
            "n_embd: int = 384\n",
            "n_embd: int = 384\n\n    def __post_init__(self):\n        self.n_embd -= self.n_embd % self.n_head\n",
        ),
    },
    "attention": {
        "no division": (SCALE, ""),
        "`/ math.sqrt(C)`": (SCALE, "/ math.sqrt(C)"),
        "no mask": (MASKED, "scores.softmax(dim=-1)"),
        "`torch.tril(..., diagonal=1)`": ("position[None, :] > position[:, None]", "position > position[:, None] + 1"),
        "`softmax` and then `masked_fill`": (MASKED, "scores.softmax(dim=-1).masked_fill(future, 0.0)"),
        "`softmax(dim=-2)`": ("softmax(dim=-1)", "softmax(dim=-2)"),
        "`view(B, H, T, D)`": (
            "part.view(heads).transpose(1, 2)",
            "part.reshape(B, self.n_head, T, self.head_dim)",
        ),
        "`k, q, v = ...split(C, dim=2)`": (SPLIT, SPLIT.replace("q, k, v", "k, q, v")),
        "`return y` without `c_proj`": ("return self.c_proj(y)", "return y"),
    },
    "mlp": {
        "`nn.GELU()`": ('nn.GELU(approximate="tanh")', "nn.GELU()"),
        "`nn.ReLU()`": ('nn.GELU(approximate="tanh")', "nn.ReLU()"),
        "`c_proj(c_fc(x))`": ("self.gelu(self.c_fc(x))", "self.c_fc(x)"),
        "`x ** 2` in a GELU by hand": (
            "self.gelu(self.c_fc(x))",
            "(h := self.c_fc(x)) * 0.5 * (1 + torch.tanh((2 / torch.pi) ** 0.5 * (h + 0.044715 * h**2)))",
        ),
        "`gelu(c_proj(c_fc(x)))`": (
            "hidden = self.gelu(self.c_fc(x))  # (B, T, 4C)\n        return self.c_proj(hidden)",
            "return self.gelu(self.c_proj(self.c_fc(x)))",
        ),
        "`x + ...`": ("return self.c_proj(hidden)", "return x + self.c_proj(hidden)"),
    },
    "block": {
        "`x = ln_1(x + attn(x))`": (
            f"x = x + self.attn(self.ln_1(x))\n        {SECOND}",
            "x = self.ln_1(x + self.attn(x))\n        x = self.ln_2(x + self.mlp(x))",
        ),
        "`x = ln_1(x); x = x + attn(x)`": (
            f"x = x + self.attn(self.ln_1(x))\n        {SECOND}",
            "x = self.ln_1(x)\n        x = x + self.attn(x)\n        x = self.ln_2(x)\n        x = x + self.mlp(x)",
        ),
        "`return x + attn(ln_1(x)) + mlp(ln_2(x))`": (
            f"x = x + self.attn(self.ln_1(x))\n        {SECOND}\n",
            "x = x + self.attn(self.ln_1(x)) + self.mlp(self.ln_2(x))\n",
        ),
        "`x = mlp(ln_2(x))`": (SECOND, "x = self.mlp(self.ln_2(x))"),
        "`ln_1` twice": (SECOND, SECOND.replace("ln_2", "ln_1")),
        "the norms exchanged": (
            f"x = x + self.attn(self.ln_1(x))\n        {SECOND}",
            "x = x + self.attn(self.ln_2(x))\n        x = x + self.mlp(self.ln_1(x))",
        ),
    },
    "gpt": {
        "`x = wte(idx)`": (EMBED, "self.transformer.wte(idx)"),
        "`wpe(idx)`": (EMBED, EMBED.replace("position", "idx.clamp(max=self.config.block_size - 1)")),
        "no `ln_f` in `forward`": ("self.lm_head(self.transformer.ln_f(x))", "self.lm_head(x)"),
        "`ln_f` one indent too deep": (
            f"{LOOP}  # (B, T, C)\n        logits = self.lm_head(self.transformer.ln_f(x))",
            f"{LOOP}\n            x = self.transformer.ln_f(x)\n        logits = self.lm_head(x)",
        ),
        "`[Block(config)] * n_layer`": (
            "nn.ModuleList(Block(config) for _ in range(config.n_layer))",
            "nn.ModuleList([Block(config)] * config.n_layer)",
        ),
        "`softmax` at the end": (
            "self.lm_head(self.transformer.ln_f(x))",
            "self.lm_head(self.transformer.ln_f(x)).softmax(-1)",
        ),
        "`targets[:, 1:]` inside": (
            LOSS,
            "F.cross_entropy(logits[:, :-1].flatten(0, 1), targets[:, 1:].flatten())",
        ),
        '`reduction="sum"`': (LOSS, LOSS.replace("targets.flatten()", 'targets.flatten(), reduction="sum"')),
        "`lm_head.weight.data = wte.weight.data`": (TIE, "self.lm_head.weight.data = self.transformer.wte.weight.data"),
    },
    "tokenizer": {
        "`enumerate(characters, 1)`": ("in enumerate(characters)}", "in enumerate(characters, 1)}"),
        "the fixed 65, whatever characters are given": ("in enumerate(characters)}", "in enumerate(CHARACTERS)}"),
    },
    "training": {
        "`return data[places], data[places]`": ("data[places + 1]", "data[places]"),
        "`max_lr * it / warmup_iters`": (
            "return max_lr * (it + 1) / (warmup_iters + 1)",
            "return max_lr * it / warmup_iters",
        ),
        "weight decay for every group": ('"weight_decay": 0.0', '"weight_decay": weight_decay'),
        "the losses added up, not divided": ("share = loss / len(batches)", "share = loss"),
        "no clipping": ("nn.utils.clip_grad_norm_(model.parameters(), max_norm)", "pass"),
        "the rate set in the first group alone": ("in optimizer.param_groups:", "in optimizer.param_groups[:1]:"),
        "no `zero_grad`": ("optimizer.zero_grad()", "pass"),
        "`model.eval()`, and no way back": ("model.train(mode)", "pass"),
    },
    "generation": {
        "`idx[:, :block_size]`": ("idx[:, -block_size:]", "idx[:, :block_size]"),
        "`logits[:, 0]`": ("logits = logits[:, -1]", "logits = logits[:, 0]"),
        "`logits * temperature`": ("logits / temperature", "logits * temperature"),
        "the others get 0, not -inf": ("scaled >= least, -torch.inf", "scaled >= least, 0.0"),
        "no `model.eval()`": ("model.eval()", "pass"),
        "no `no_grad`": ("torch.no_grad()", "torch.enable_grad()"),
    },
}
PAGES = {"tokenizer": "part1-tokenization.md", "training": "part3-training.md", "generation": "part4-generation.md"}
CASES = [(part, what, *change) for part, changes in WRITTEN.items() for what, change in changes.items()]


def rows(part: str) -> dict[str, str]:
    """Return the table of a page: what was written -> what the checker says."""
    text = (GUIDE / PAGES.get(part, f"part2-{part}.md")).read_text(encoding="utf-8")
    return dict(re.findall(r'^\| (.+?) \| "([^"|]+)" \|$', text, re.MULTILINE))


@pytest.mark.slow
@pytest.mark.parametrize(("part", "what", "find", "replace"), CASES, ids=[f"{case[0]}-{case[1]}" for case in CASES])
def test_the_checker_says_what_the_guide_promises(
    hand_in: HandIn, part: str, what: str, find: str, replace: str
) -> None:
    files = {f"{part}.py": (SOLUTIONS / f"{part}.py").read_text(encoding="utf-8")} if part in PAGES else solutions()
    assert files[f"{part}.py"].count(find) == 1
    report = hand_in({**files, f"{part}.py": files[f"{part}.py"].replace(find, replace)}, parts=[part])
    told = [report.parts[part].diagnosis]
    told += [sentence for check in report.parts[part].checks for sentence in (check.message, check.look_at)]
    assert any(rows(part)[what] in sentence for sentence in told), told


@pytest.mark.parametrize("part", WRITTEN)
def test_every_row_of_a_page_is_tried(part: str) -> None:
    assert set(rows(part)) == set(WRITTEN[part])
