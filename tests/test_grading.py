"""A grade is fair: right answers keep every point, a mistake costs its own points, the same seed says the same."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping

import pytest
from answers import SOLUTIONS, changed, checks, losing, rejecting, single_file, solutions
from conftest import SEED, HandIn

import autograder
from autograder.track import Track
from autograder.verdict import Report, Verdict

EXERCISES = SOLUTIONS.parent / "exercises"


def stubs() -> dict[str, str]:
    return {path.name: path.read_text(encoding="utf-8") for path in EXERCISES.glob("*.py")}


def text(report: Report) -> str:
    return json.dumps(report.to_json(), sort_keys=True)


# -- right answers ----------------------------------------------------------------------------------------------------


def test_the_solutions_pass_every_check_and_the_report_says_what_was_graded(hand_in: HandIn, track: Track) -> None:
    report = hand_in(solutions())
    assert rejecting(report) == {} and (report.verdict, report.score, report.max_score) == (Verdict.PASSED, 100, 100)
    assert report.checks_run == len(checks(report)) == sum(len(part.points) for part in track.parts)
    assert report.assembled["right"] is True
    assert report.assembled["parameters"] == report.assembled["expected_parameters"] == 10_770_816
    assert report.files == {name: hashlib.sha256(text.encode()).hexdigest() for name, text in solutions().items()}
    assert report.modules["Block"] == "block.py" and report.warnings == () and report.error == ""
    assert (report.student, report.track, report.seed) == ("ada", "gpt", SEED)
    assert report.kit_version == autograder.__version__ and report.isolation["level"] in ("linux", "portable")


#: Answers that look unlike ours and are right: name -> files.
UNUSUAL: dict[str, Mapping[str, str | bytes]] = {
    "one file": {"model.py": single_file()},
    "one file with a byte order mark, CRLF and a future import": {
        "model.py": b"\xef\xbb\xbf"
        + ("from __future__ import annotations\n" + single_file()).replace("\n", "\r\n").encode()
    },
    "fused attention": changed(
        "attention.py",
        "y = weights @ v  # (B, H, T, D)\n",
        "y = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)\n",
    ),
    "a mask in a buffer that is saved": changed(
        "attention.py",
        "self.n_head = config.n_head\n",
        "self.n_head = config.n_head\n"
        "        self.register_buffer('mask', torch.ones(config.block_size, config.block_size).tril())\n",
    ),
    "a mask of finfo.min": changed("attention.py", "(future, -math.inf)", "(future, torch.finfo(scores.dtype).min)"),
    "an assert for the divisibility": changed(
        "attention.py",
        "if config.n_embd % config.n_head != 0:",
        "assert config.n_embd % config.n_head == 0\n        if False:",
    ),
    "the tanh formula by hand": changed(
        "mlp.py",
        "self.gelu(self.c_fc(x))",
        "(lambda h: 0.5 * h * (1 + torch.tanh((2 / torch.pi) ** 0.5 * (h + 0.044715 * h**3))))(self.c_fc(x))",
    ),
    "a dropout of zero": changed("mlp.py", "self.c_proj(hidden)", "nn.Dropout(0.0)(self.c_proj(hidden))"),
    "a checkpoint around the layers": changed(
        "block.py",
        "x = x + self.mlp(self.ln_2(x))",
        "from torch.utils.checkpoint import checkpoint\n"
        "        x = x + checkpoint(lambda y: self.mlp(self.ln_2(y)), x, use_reentrant=False)",
    ),
    "layers reached through their module": {
        **solutions(),
        "block.py": solutions()["block.py"]
        .replace("from attention import CausalSelfAttention", "import attention")
        .replace("= CausalSelfAttention(", "= attention.CausalSelfAttention("),
    },
    "layers in a dictionary that was filled at import": {
        **solutions(),
        "block.py": solutions()["block.py"]
        .replace("class Block(", 'LAYERS = {"attn": CausalSelfAttention, "mlp": MLP}\n\n\nclass Block(')
        .replace("= CausalSelfAttention(", '= LAYERS["attn"](')
        .replace("= MLP(", '= LAYERS["mlp"]('),
    },
    "layers as default arguments": {
        **solutions(),
        "block.py": solutions()["block.py"]
        .replace("(self, config) ->", "(self, config, attn=CausalSelfAttention, mlp=MLP) ->")
        .replace("= CausalSelfAttention(", "= attn(")
        .replace("= MLP(", "= mlp("),
        "gpt.py": solutions()["gpt.py"]
        .replace("(self, config) ->", "(self, config, block=Block) ->")
        .replace("Block(config) for", "block(config) for"),
    },
    "the loss from log_softmax": changed(
        "gpt.py",
        "F.cross_entropy(logits.flatten(0, 1), targets.flatten())",
        "-logits.log_softmax(-1).gather(-1, targets.unsqueeze(-1)).mean()",
    ),
    "more options on the config": changed(
        "config.py", "n_embd: int = 384", "n_embd: int = 384\n    dropout: float = 0.0\n    bias: bool = True"
    ),
    "a frozen config that checks itself": changed(
        "config.py",
        "n_embd: int = 384",
        "n_embd: int = 384\n\n    def __post_init__(self):\n"
        "        if self.n_embd % self.n_head: raise ValueError('uneven')",
    ),
    "a helper module beside": {
        **changed("mlp.py", "from torch import nn\n", "from torch import nn\nfrom parts.helper import widen\n"),
        "parts/helper.py": "def widen(n):\n    return 4 * n\n",
    },
}


@pytest.mark.parametrize("name", UNUSUAL)
def test_an_unusual_right_answer_keeps_every_point(name: str, hand_in: HandIn) -> None:
    report = hand_in(UNUSUAL[name])
    assert rejecting(report) == {} and report.score == report.max_score == 100
    assert report.verdict is Verdict.PASSED and report.warnings == ()
    assert report.assembled["right"] is True, report.assembled


def test_tying_the_other_way_round_keeps_its_points_and_is_told_the_first_loss(hand_in: HandIn) -> None:
    direction = "self.transformer.wte.weight = self.lm_head.weight"
    report = hand_in(changed("gpt.py", direction, "self.lm_head.weight = self.transformer.wte.weight"))
    assert rejecting(report) == {} and report.score == 100
    (warning,) = report.warnings
    assert "ln 65 = 4.17 is possible" in warning and "nn.Embedding draws N(0, 1)" in warning


def test_a_notebook_is_graded_by_its_definitions_alone(hand_in: HandIn) -> None:
    cells = ["model = undefined_until_trained.fit()", "for i in range(3): raise RuntimeError", single_file(), "1 / 0"]
    book = {
        "nbformat": 4,
        "nbformat_minor": 5,
        "metadata": {},
        "cells": [
            {"cell_type": "code", "id": str(i), "metadata": {}, "outputs": [], "execution_count": None, "source": cell}
            for i, cell in enumerate(cells)
        ],
    }
    report = hand_in({"work.ipynb": json.dumps(book)})
    assert rejecting(report) == {} and report.score == 100


# -- the same seed, the same report -----------------------------------------------------------------------------------


def test_one_seed_gives_the_same_report_whatever_was_graded_in_between(hand_in: HandIn) -> None:
    work = changed("attention.py", "-math.inf", "-1e4")
    before = text(hand_in(work))
    hostile = (
        "import torch, os, sys\ntorch.set_default_dtype(torch.float64)\ntorch.allclose = None\ntorch.manual_seed(1)\n"
    )
    hand_in({"model.py": hostile + single_file() + "\nsys.modules['json'] = None\nos.chdir('/')\n"})
    assert text(hand_in(work)) == before


def test_another_seed_draws_other_numbers_and_comes_to_the_same_verdicts(hand_in: HandIn) -> None:
    work = changed("block.py", "self.ln_1(x)", "self.ln_2(x)")
    reports = [hand_in(work, seed=seed) for seed in (1, 2, 2**40)]
    assert len({json.dumps({id: c.verdict for id, c in checks(report).items()}) for report in reports}) == 1
    assert len({report.score for report in reports}) == 1
    evidence = [[exhibit.data for exhibit in checks(report)["attention.values"].evidence] for report in reports]
    assert evidence[0] != evidence[1] != evidence[2]


# -- partial credit ---------------------------------------------------------------------------------------------------


def test_a_check_whose_need_failed_is_blocked_and_names_the_need(hand_in: HandIn) -> None:
    report = hand_in(changed("mlp.py", "return self.c_proj(hidden)", "return hidden"))
    found = checks(report)
    assert found["mlp.shapes"].verdict is Verdict.FAILED
    assert found["mlp.values"].verdict is Verdict.BLOCKED and found["mlp.values"].points == 0
    assert "(B, T, C) in, (B, T, C) out" in found["mlp.values"].message
    assert found["mlp.parameters"].points == 2  # needs the class to build, not the shapes to be right
    assert report.parts["mlp"].score == 2.5 and report.score == 92.5
    assert report.parts["mlp"].diagnosis == found["mlp.shapes"].message
    assert report.checks_run == sum(check.verdict is not Verdict.BLOCKED for check in found.values())


def test_untouched_stubs_are_not_attempted_and_earn_nothing(hand_in: HandIn) -> None:
    report = hand_in(stubs())
    assert (report.score, report.verdict) == (0, Verdict.NOT_ATTEMPTED)
    assert {part.verdict for part in report.parts.values()} == {Verdict.NOT_ATTEMPTED}
    assert {c.verdict for c in checks(report).values()} <= {Verdict.NOT_ATTEMPTED, Verdict.BLOCKED}


def test_what_was_graded_is_the_hand_in_and_never_the_answer_key(
    hand_in: HandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(SOLUTIONS))
    monkeypatch.chdir(SOLUTIONS)  # the right answers lie wherever a careless import looks first
    keys = {hashlib.sha256(path.read_bytes()).hexdigest() for path in SOLUTIONS.glob("*.py")}
    mine = {name: text.replace("# %%", "# mine %%", 1) for name, text in solutions().items()}
    mine["mlp.py"] = mine["mlp.py"].replace('approximate="tanh"', 'approximate="none"')
    report = hand_in(mine, parts=["config", "mlp"])
    assert report.files == {name: hashlib.sha256(text.encode()).hexdigest() for name, text in mine.items()}
    assert not keys & set(report.files.values())
    assert set(report.modules.values()) <= set(mine) and report.modules["MLP"] == "mlp.py"
    assert "exact one (erf)" in checks(report)["mlp.values"].message
    assert report.checks_run == len(checks(report))
    alone = hand_in({"gpt.py": "from block import Block\n"}, parts=["block"])
    assert alone.score == 0, "a class that only the answer key has is not found"


def test_a_stub_among_finished_files_takes_no_point_from_the_others(hand_in: HandIn) -> None:
    report = hand_in({**solutions(), "attention.py": stubs()["attention.py"]})
    assert losing(report) == ["attention"] and report.parts["attention"].verdict is Verdict.NOT_ATTEMPTED
    assert report.parts["attention"].score == 0 and report.score == 70
    assert report.assembled["right"] is None and "see the parts first" in report.assembled["message"]


def test_a_forward_that_is_not_written_keeps_the_points_of_its_layers(hand_in: HandIn) -> None:
    text = solutions()["mlp.py"]
    body = text[text.index("hidden = self.gelu") : text.index("        ### END SOLUTION", text.index("hidden ="))]
    report = hand_in({**solutions(), "mlp.py": text.replace(body, "raise NotImplementedError\n")})
    assert report.parts["mlp"].verdict is Verdict.NOT_ATTEMPTED and report.parts["mlp"].score == 2.5
    assert "MLP.forward is not written yet" in checks(report)["mlp.shapes"].message
    assert losing(report) == ["mlp"]


def test_a_file_that_does_not_load_takes_only_its_own_part_down(hand_in: HandIn) -> None:
    report = hand_in({**solutions(), "mlp.py": "class MLP(:\n    pass\n"})
    assert losing(report) == ["mlp"] and report.parts["mlp"].score == 0
    first = report.parts["mlp"].checks[0]
    assert first.verdict is Verdict.CRASHED and "line 1" in first.message and "SyntaxError" in first.message
    assert "Python cannot read the file" in first.look_at
    assert report.assembled["right"] is not True


@pytest.mark.parametrize(
    ("line", "says", "advice"),
    [
        ("import no_such_package", "ModuleNotFoundError", "the files you hand in are all there is"),
        ("input('size? ')", "EOFError", "Remove input()"),
        ("raise SystemExit", "SystemExit", "Remove sys.exit()"),
        ("open('input.txt').read()", "FileNotFoundError", "Reading data belongs in the training script"),
        ("from block import MLP as Other", "ImportError", "Two files import each other"),
        ("raise NotImplementedError", "when it is imported", "Only the bodies of methods may be left open"),
        ("1 / 0", "ZeroDivisionError (line 1 of mlp.py)", "the last lines of the traceback"),
    ],
)
def test_what_keeps_a_file_from_loading_is_explained(line: str, says: str, advice: str, hand_in: HandIn) -> None:
    text = solutions()["mlp.py"]
    report = hand_in({**solutions(), "mlp.py": f"{line}\n{text}"}, parts=["mlp"])
    first = report.parts["mlp"].checks[0]
    assert (first.verdict, report.score) == (Verdict.CRASHED, 0)
    assert says in first.message and advice in first.look_at, first


def test_a_missing_class_and_a_missing_file_are_told_apart(hand_in: HandIn) -> None:
    files = changed("mlp.py", "class MLP(", "class Mlp(")
    del files["block.py"]
    report = hand_in({**files, "gpt.py": files["gpt.py"].replace("from block import Block", "Block = None")})
    mlp, block = report.parts["mlp"], report.parts["block"]
    assert mlp.verdict is Verdict.FAILED and "MLP" in mlp.diagnosis and "mlp.py" in mlp.diagnosis
    assert block.verdict is Verdict.NOT_ATTEMPTED and "no block.py" in block.diagnosis
    assert mlp.score == block.score == 0 and report.parts["attention"].score == 30


def test_only_the_parts_asked_for_are_graded_and_counted(hand_in: HandIn) -> None:
    report = hand_in(changed("mlp.py", "return self.c_proj(hidden)", "return hidden"), parts=["config", "block"])
    assert list(report.parts) == ["config", "block"] and report.score == report.max_score == 25
    assert report.verdict is Verdict.PASSED and report.assembled == {}
