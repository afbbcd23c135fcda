"""Fair to the unusual: other names, other constructors, hidden sub-classes; and what a student is shown."""

from __future__ import annotations

import pytest
from answers import changed, checks, line_of, losing, rejecting, single_file, solutions
from conftest import HandIn

from autograder.verdict import Verdict

ATTENTION, MLP, BLOCK, GPT = "attention.py", "mlp.py", "block.py", "gpt.py"


def rewritten(file: str, *pairs: tuple[str, str]) -> dict[str, str]:
    """Return the solutions with passages of one file replaced wherever they occur."""
    files = solutions()
    for find, replace in pairs:
        assert find in files[file], find
        files[file] = files[file].replace(find, replace)
    return files


# -- right in mathematics, by other names -----------------------------------------------------------------------------

SEPARATE = (
    "self.c_attn = nn.Linear(config.n_embd, 3 * config.n_embd)  # queries, keys and values in one go",
    "self.query, self.key, self.value = (nn.Linear(config.n_embd, config.n_embd) for _ in range(3))",
)
USE_SEPARATE = ("self.c_attn(x).split(C, dim=2)", "(self.query(x), self.key(x), self.value(x))")
RENAMED = {
    "separate query, key and value": (ATTENTION, (SEPARATE, USE_SEPARATE), "found query.weight (30, 30)"),
    "an output layer of another name": (ATTENTION, (("c_proj", "out"),), "expected c_proj.weight (30, 30)"),
    "layers of an MLP": (MLP, (("c_fc", "fc1"), ("c_proj", "fc2")), "found fc1.weight (120, 30)"),
    "norms of a block": (BLOCK, (("ln_1", "norm_a"), ("ln_2", "norm_b")), "found norm_a.weight (30,)"),
    "sub-layers of a block": (BLOCK, (("self.attn", "self.sa"), ("self.mlp", "self.ffwd")), "found sa."),
    "tables of a model": (GPT, (('"wte"', '"tok"'), (".wte", ".tok")), "found transformer.tok.weight"),
}


@pytest.mark.parametrize("name", RENAMED)
def test_other_names_cost_the_points_for_names_and_no_others(name: str, hand_in: HandIn) -> None:
    file, pairs, says = RENAMED[name]
    report = hand_in(rewritten(file, *pairs))
    part = file.removesuffix(".py")
    rejected = rejecting(report)
    assert set(rejected) <= {f"{part}.parameters", f"{part}.tying"}, rejected
    assert (
        rejected[f"{part}.parameters"].startswith("Names differ: expected ") and says in rejected[f"{part}.parameters"]
    )
    assert report.parts[part].diagnosis.endswith("the maths is right.") and losing(report) == [part]


def test_other_names_do_not_hide_a_mistake(hand_in: HandIn) -> None:
    report = hand_in(rewritten(MLP, ("c_fc", "fc1"), ("c_proj", "fc2"), ('approximate="tanh"', 'approximate="none"')))
    assert "Missing: c_fc.weight" in rejecting(report)["mlp.parameters"] and losing(report) == ["mlp"]


# -- another constructor ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("arguments", ["n_embd, n_head", "d_model, num_heads, dropout=0.0"])
def test_a_constructor_that_takes_sizes_is_told_the_interface_and_judged_on_its_numbers(
    arguments: str, hand_in: HandIn
) -> None:
    width, heads = arguments.split(", ")[:2]
    pairs = (("(self, config) ->", f"(self, {arguments}) ->"), ("config.n_embd", width), ("config.n_head", heads))
    report = hand_in({**rewritten(ATTENTION, *pairs), **_block_that_passes_sizes()})
    rejected = rejecting(report)
    assert list(rejected) == ["attention.builds"], rejected
    assert rejected["attention.builds"].startswith(f"Interface differs: CausalSelfAttention takes ({width}, {heads}")
    assert losing(report) == ["attention"] and report.assembled["right"] is True


def _block_that_passes_sizes() -> dict[str, str]:
    text = solutions()[BLOCK]
    return {BLOCK: text.replace("CausalSelfAttention(config)", "CausalSelfAttention(config.n_embd, config.n_head)")}


# -- sub-classes that cannot be replaced ------------------------------------------------------------------------------

HIDDEN_BLOCK = (
    ("class Block(", "LAYERS = {1: CausalSelfAttention, 2: MLP}\n\n\nclass Block("),
    ("= CausalSelfAttention(", "= LAYERS[1]("),
    ("= MLP(", "= LAYERS[2]("),
)
HIDDEN_GPT = (("(self, config) ->", "(self, config, block=Block) ->"), ("Block(config) for", "block(config) for"))


def test_a_block_around_hidden_wrong_layers_is_judged_by_its_own_wiring(hand_in: HandIn) -> None:
    files = rewritten(BLOCK, *HIDDEN_BLOCK)
    files[ATTENTION] = files[ATTENTION].replace("/ math.sqrt(self.head_dim)", "")
    files[MLP] = files[MLP].replace('approximate="tanh"', 'approximate="none"')
    report = hand_in(files)
    assert losing(report) == ["attention", "mlp"], rejecting(report)


@pytest.mark.parametrize(
    ("find", "replace", "check"),
    [
        ("x = x + self.attn(", "x = self.attn(", "block.values"),
        ("self.ln_2(x)", "self.ln_2(x.detach())", "block.gradients"),
        (
            "self.ln_1 = nn.LayerNorm(config.n_embd)",
            "self.ln_1 = nn.LayerNorm(config.n_embd, eps=1e-3)",
            "block.values",
        ),
    ],
)
def test_a_wrong_block_around_hidden_layers_is_seen(find: str, replace: str, check: str, hand_in: HandIn) -> None:
    report = hand_in(rewritten(BLOCK, *HIDDEN_BLOCK, (find, replace)))
    assert check in rejecting(report) and losing(report) == ["block"], rejecting(report)


@pytest.mark.parametrize(
    ("find", "replace", "check"),
    [
        (" + self.transformer.wpe(position)", "", "gpt.values"),
        ("range(config.n_layer)", "range(3)", "gpt.layers"),
        ("self.lm_head(self.transformer.ln_f(x))", "self.lm_head(x)", "gpt.values"),
    ],
)
def test_a_wrong_model_around_hidden_blocks_is_seen(find: str, replace: str, check: str, hand_in: HandIn) -> None:
    report = hand_in(rewritten(GPT, *HIDDEN_GPT, (find, replace)))
    assert check in rejecting(report) and losing(report) == ["gpt"], rejecting(report)


# -- what is shown ----------------------------------------------------------------------------------------------------


def test_the_influence_matrix_of_a_leak_is_shown(hand_in: HandIn) -> None:
    report = hand_in(changed(ATTENTION, ".masked_fill(future, -math.inf)", ""), parts=["attention"])
    found = checks(report)["attention.causal"]
    assert (
        found.message.startswith("Future tokens leak: position ")
        and "28 of 28 such pairs, in eval mode" in found.message
    )
    (exhibit,) = found.evidence
    assert exhibit.kind == "matrix" and len(exhibit.data["rows"]) == 8
    assert all(value > 0 for row in exhibit.data["rows"] for value in row)


def test_an_exception_is_shown_with_the_line_that_raised_it(hand_in: HandIn) -> None:
    files = changed(ATTENTION, "y = weights @ v  #", "y = weights @ v.mT.mT.mT  #")
    found = checks(hand_in(files, parts=["attention"]))["attention.builds"]
    found = (
        found if found.verdict is Verdict.CRASHED else checks(hand_in(files, parts=["attention"]))["attention.shapes"]
    )
    number = line_of(files[ATTENTION], "v.mT.mT.mT")
    assert f"CausalSelfAttention.forward raises RuntimeError (line {number} of attention.py)" in found.message
    (exhibit,) = found.evidence
    assert (
        exhibit.data == {**exhibit.data, "file": "attention.py", "line": number}
        and "v.mT.mT.mT" in exhibit.data["text"]
    )


def test_what_a_student_reads_says_nothing_of_where_the_grader_put_the_files(hand_in: HandIn) -> None:
    line = "        raise ValueError(__file__)\n        super().__init__()\n"
    files = changed(MLP, "        super().__init__()\n", line)
    reports = [hand_in(files, parts=["mlp"]) for _ in range(2)]
    assert reports[0] == reports[1] and "mlp.py" in reports[0].parts["mlp"].diagnosis
    assert "workshop-" not in str(reports[0].to_json())


def test_the_table_of_tensors_shows_what_is_missing_and_what_is_extra(hand_in: HandIn) -> None:
    found = checks(
        hand_in(
            changed(MLP, "self.gelu = ", "self.more = nn.Linear(2, 2, bias=False)\n        self.gelu = "), parts=["mlp"]
        )
    )
    rows = {row[0]: row[1:] for row in found["mlp.parameters"].evidence[0].data["rows"]}
    assert rows["more.weight"] == ["-", "(2, 2)", "extra"] and rows["c_fc.bias"] == ["(120,)", "(120,)", "ok"]


def test_one_file_that_repeats_a_class_is_judged_by_the_last(hand_in: HandIn) -> None:
    first = "import torch\nfrom torch import nn\n\n\nclass MLP(nn.Module):\n    pass\n\n\n"
    report = hand_in({"model.py": first + single_file()})
    assert report.score == 100, rejecting(report)


def test_a_gpt_that_is_checked_alone_does_not_pay_for_a_wrong_attention(hand_in: HandIn) -> None:
    report = hand_in(changed(ATTENTION, ".masked_fill(future, -math.inf)", ""), parts=["gpt"])
    assert losing(report) == [] and report.score == report.max_score == 35
