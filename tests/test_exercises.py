"""The exercises are the solutions with the answers taken out, and the solutions keep the contract of the track."""

from __future__ import annotations

import ast
import importlib
import math
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from autograder.track import Part, Track, load_track

ROOT = Path(__file__).resolve().parent.parent
TRACK: Track = load_track("gpt")
FILES = [part.file for part in TRACK.every]
BEGIN, END = "### BEGIN SOLUTION", "### END SOLUTION"

#: Design figure: 24,960 table + 98,304 positions + 6 x 1,774,464 blocks + 768 final norm.
DEFAULT_PARAMETERS = 10_770_816


def text(folder: str, file: str) -> str:
    return (ROOT / folder / file).read_text(encoding="utf-8")


def is_code(line: str) -> bool:
    return bool(line.strip()) and not line.strip().startswith("#")


def stub_of(solution: str) -> str:
    """Return the stub that a solution stands for: each region becomes a TODO, its length, and a line to replace."""
    stub: list[str] = []
    region: list[str] | None = None
    task = 0  # index in `stub` of the first comment line above the region
    class_name = method = ""
    for line in solution.splitlines():
        indent = line[: len(line) - len(line.lstrip())]
        if found := re.match(r"class (\w+)", line):
            class_name, method = found[1], ""
        elif found := re.match(r"def (\w+)", line):
            class_name, method = "", found[1]
        elif found := re.match(r" {4}def (\w+)", line):
            method = found[1]
        if line.strip() == BEGIN:
            region, task = [], len(stub)
            while stub[task - 1].strip().startswith("#"):
                task -= 1
            assert task < len(stub), f"no task is written above the region in {class_name}.{method}"
            stub[task] = stub[task].replace("# ", "# TODO: ", 1)
        elif line.strip() == END:
            assert region is not None
            stub.append(f"{indent}# Ours takes {sum(map(is_code, region))} lines.")
            owner = f"{class_name}." if class_name else ""
            unwritten = f'raise NotImplementedError("{owner}{method} is still to be written")'
            stub.append(indent + (unwritten if method else "pass"))
            region = None
        elif region is None:
            stub.append(line)
        else:
            region.append(line)
    assert region is None, "a solution region is not closed"
    return "\n".join(stub) + "\n"


def signatures(source: str) -> dict[str, dict[str, str]]:
    """Return class name ("" for functions) -> method name -> its parameters and return type, as written."""
    body = ast.parse(source).body
    functions = {
        node.name: f"({ast.unparse(node.args)}) -> {ast.unparse(node.returns) if node.returns else ''}"
        for node in body
        if isinstance(node, ast.FunctionDef)
    }
    return {"": functions} | {
        node.name: {
            method.name: f"({ast.unparse(method.args)}) -> {ast.unparse(method.returns) if method.returns else ''}"
            for method in node.body
            if isinstance(method, ast.FunctionDef)
        }
        for node in body
        if isinstance(node, ast.ClassDef)
    }


def answer_lines(source: str) -> list[str]:
    """Return the code lines between the markers, without indentation and trailing comments."""
    inside, lines = False, []
    for line in source.splitlines():
        if line.strip() in (BEGIN, END):
            inside = line.strip() == BEGIN
        elif inside and is_code(line):
            lines.append(line.split("  #")[0].strip())
    return lines


@pytest.fixture
def answers() -> Iterator[SimpleNamespace]:
    """Import the five classes as a student's program would: with the folder on `sys.path`."""
    yield from import_folder(ROOT / "solutions")


@pytest.fixture
def stubs() -> Iterator[SimpleNamespace]:
    yield from import_folder(ROOT / "exercises")


def import_folder(folder: Path) -> Iterator[SimpleNamespace]:
    names = [part.file.removesuffix(".py") for part in TRACK.parts]
    kept = {name: sys.modules.pop(name) for name in names if name in sys.modules}
    sys.path.insert(0, str(folder))
    try:
        modules = {
            part.class_name: importlib.import_module(name) for part, name in zip(TRACK.parts, names, strict=True)
        }
        yield SimpleNamespace(**{name: getattr(module, name) for name, module in modules.items()})
    finally:
        sys.path.remove(str(folder))
        for name in names:
            sys.modules.pop(name, None)
        sys.modules.update(kept)


# What the two folders owe each other


def test_both_folders_hold_the_files_of_the_track_and_no_others() -> None:
    for folder in ("solutions", "exercises"):
        assert sorted(path.name for path in (ROOT / folder).glob("*.py")) == sorted(FILES)


@pytest.mark.parametrize("file", FILES)
def test_stub_and_solution_agree_in_classes_methods_and_signatures(file: str) -> None:
    assert signatures(text("exercises", file)) == signatures(text("solutions", file))


@pytest.mark.parametrize("part", TRACK.every, ids=lambda part: part.name)
def test_each_file_defines_the_names_that_the_track_names(part: Part) -> None:
    found = signatures(text("solutions", part.file))
    assert (*(name for name in found if name), *found[""]) == part.names


@pytest.mark.parametrize("file", FILES)
def test_a_stub_is_its_solution_with_the_regions_taken_out(file: str) -> None:
    assert text("exercises", file) == stub_of(text("solutions", file))


@pytest.mark.parametrize("file", FILES)
def test_a_stub_tells_the_true_length_of_our_answer(file: str) -> None:
    told = sum(int(count) for count in re.findall(r"# Ours takes (\d+) lines\.", text("exercises", file)))
    assert told == len(answer_lines(text("solutions", file))) > 0


@pytest.mark.parametrize("file", FILES)
def test_a_stub_holds_no_line_of_the_answer(file: str) -> None:
    stub = {line.split("  #")[0].strip() for line in text("exercises", file).splitlines()}
    assert not stub & set(answer_lines(text("solutions", file)))


@pytest.mark.parametrize("file", FILES)
def test_no_solution_marker_and_no_wall_of_text_reach_the_student(file: str) -> None:
    stub = text("exercises", file)
    assert "SOLUTION" not in stub
    assert len(stub.splitlines()) <= 80


# What an untouched stub does


def test_untouched_stubs_import_and_say_what_is_to_be_written(stubs: SimpleNamespace) -> None:
    config = SimpleNamespace(vocab_size=65, block_size=8, n_layer=1, n_head=2, n_embd=8)
    assert stubs.GPTConfig() is not None
    for part in TRACK.parts[1:]:
        stub = getattr(stubs, part.class_name)
        with pytest.raises(NotImplementedError, match=rf"{part.class_name}\.__init__ is still to be written"):
            stub(config)
        blank = stub.__new__(stub)
        nn.Module.__init__(blank)
        with pytest.raises(NotImplementedError, match=rf"{part.class_name}\.forward is still to be written"):
            blank.forward(torch.zeros(1, 1, 8))


# What the solutions promise


def test_the_default_model_has_10_770_816_parameters_under_the_contract_names(answers: SimpleNamespace) -> None:
    config = answers.GPTConfig()
    assert vars(config) == TRACK.config
    with torch.device("meta"):
        model = answers.GPT(config)
    assert sum(p.numel() for p in model.parameters()) == DEFAULT_PARAMETERS
    assert {name: tuple(value.shape) for name, value in model.state_dict().items()} == contract(TRACK.config)


def contract(config: dict[str, int]) -> dict[str, tuple[int, ...]]:
    """Return the whole state dict that the track describes: each part's own tensors under each place of use."""

    def below(name: str, prefix: str) -> dict[str, tuple[int, ...]]:
        part = TRACK.part(name)
        found = {prefix + tensor: shape for tensor, shape in part.shapes(config).items()}
        for place, used in part.uses.items():
            copies = range(config["n_layer"]) if "{i}" in place else range(1)
            for i in copies:
                found |= below(used, f"{prefix}{place.replace('{i}', str(i))}.")
        return found

    return below("gpt", "")


def test_the_head_and_the_table_are_one_tensor_and_the_first_loss_is_near_ln_v(answers: SimpleNamespace) -> None:
    torch.manual_seed(0)
    model = answers.GPT(answers.GPTConfig(n_layer=2))
    assert model.lm_head.weight is model.transformer.wte.weight
    idx = torch.randint(65, (4, 64))
    _, loss = model(idx, torch.randint(65, (4, 64)))
    assert abs(loss.item() - math.log(65)) < 0.5


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("length", [1, 2, 7, 16])
def test_attention_equals_torchs_own_causal_attention(
    answers: SimpleNamespace, dtype: torch.dtype, length: int
) -> None:
    torch.manual_seed(length)
    config = answers.GPTConfig(block_size=16, n_head=3, n_embd=15)
    layer = answers.CausalSelfAttention(config).to(dtype)
    x = torch.randn(2, length, 15, dtype=dtype)
    q, k, v = (part.unflatten(2, (3, 5)).transpose(1, 2) for part in layer.c_attn(x).chunk(3, dim=2))
    expected = layer.c_proj(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))
    assert layer(x).dtype == dtype
    torch.testing.assert_close(layer(x), expected)


def test_the_mask_holds_against_scores_far_below_any_finite_stand_in(answers: SimpleNamespace) -> None:
    torch.manual_seed(0)
    layer = answers.CausalSelfAttention(answers.GPTConfig(block_size=6, n_head=2, n_embd=8))
    x, changed = 1e6 * torch.randn(2, 4, 6, 8)  # scores of 1e11: some are lower than any -1e9
    changed = torch.cat([x[:, :3], changed[:, 3:]], dim=1)
    assert torch.equal(layer(x)[:, :3], layer(changed)[:, :3])


def test_mlp_and_block_compute_what_their_formulas_say(answers: SimpleNamespace) -> None:
    torch.manual_seed(0)
    block = answers.Block(answers.GPTConfig(block_size=8, n_head=2, n_embd=12)).double()
    x = torch.randn(3, 8, 12, dtype=torch.float64)
    hidden = block.mlp.c_fc(x)
    gelu = 0.5 * hidden * (1 + torch.tanh(math.sqrt(2 / math.pi) * (hidden + 0.044715 * hidden**3)))
    torch.testing.assert_close(block.mlp(x), block.mlp.c_proj(gelu))
    middle = x + block.attn(block.ln_1(x))
    torch.testing.assert_close(block(x), middle + block.mlp(block.ln_2(middle)))


def test_the_future_cannot_be_seen_through_the_whole_model(answers: SimpleNamespace) -> None:
    torch.manual_seed(0)
    model = answers.GPT(answers.GPTConfig(vocab_size=11, block_size=12, n_layer=2, n_head=2, n_embd=8))
    idx = torch.randint(11, (1, 12))
    changed = idx.clone()
    changed[0, 7] = (idx[0, 7] + 1) % 11
    before, after = model(idx)[0], model(changed)[0]
    assert torch.equal(before[:, :7], after[:, :7])
    assert not torch.equal(before[:, 7:], after[:, 7:])


def test_the_loss_is_the_mean_over_all_positions_and_absent_without_targets(answers: SimpleNamespace) -> None:
    torch.manual_seed(0)
    model = answers.GPT(answers.GPTConfig(vocab_size=7, block_size=5, n_layer=1, n_head=1, n_embd=4))
    idx, targets = torch.randint(7, (3, 5)), torch.randint(7, (3, 5))
    logits, nothing = model(idx)
    assert nothing is None
    assert logits.shape == (3, 5, 7)
    probability = logits.softmax(-1).gather(2, targets[..., None])
    torch.testing.assert_close(model(idx, targets)[1], -probability.log().mean())


def test_what_cannot_work_is_refused_in_words(answers: SimpleNamespace) -> None:
    with pytest.raises(ValueError, match="n_embd = 10 does not split into n_head = 3 equal heads"):
        answers.CausalSelfAttention(answers.GPTConfig(n_head=3, n_embd=10))
    model = answers.GPT(answers.GPTConfig(block_size=4, n_layer=1, n_head=1, n_embd=4))
    assert model(torch.zeros(1, 4, dtype=torch.int64))[0].shape == (1, 4, 65)
    with pytest.raises(ValueError, match="5 tokens does not fit: block_size is 4"):
        model(torch.zeros(1, 5, dtype=torch.int64))


def test_every_class_follows_its_parameters_to_another_device(answers: SimpleNamespace) -> None:
    model = answers.GPT(answers.GPTConfig(block_size=4, n_layer=1, n_head=1, n_embd=4)).to("meta")
    logits, loss = model(*(torch.zeros(1, 3, dtype=torch.int64, device="meta") for _ in range(2)))
    assert logits.device.type == loss.device.type == "meta"
