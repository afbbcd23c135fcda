"""The oracle: a seed means the same numbers everywhere, sizes tell mistakes apart, and the reference is exact."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
import torch
from answers import SOLUTIONS, solutions, write
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F

from autograder.oracle.cases import Draws, full_shapes, own_and_standin_shapes
from autograder.oracle.reference import Reference, SolutionsNotFound, count, find_solutions
from autograder.probe.standins import apply_standin
from autograder.track import Track

SEEDS = st.integers(0, 2**63 - 1)


# -- draws ------------------------------------------------------------------------------------------------------------


def test_a_seed_and_a_purpose_mean_these_very_numbers() -> None:
    draws = Draws(1)
    assert draws.tokens("a", (2, 4), 9).tolist() == Draws(1).tokens("a", (2, 4), 9).tolist()
    first = draws.normal("a", (3,))
    assert torch.equal(first, Draws(1).normal("a", (3,))) and first.dtype == torch.float32
    assert not torch.equal(first, draws.normal("b", (3,))) and not torch.equal(first, Draws(2).normal("a", (3,)))


def test_torchs_own_generator_neither_matters_nor_moves() -> None:
    torch.manual_seed(0)
    state = torch.get_rng_state()
    first = Draws(3).weights("w", {"a.weight": (4, 4)})["a.weight"]
    assert torch.equal(torch.get_rng_state(), state)
    torch.manual_seed(1)
    assert torch.equal(Draws(3).weights("w", {"a.weight": (4, 4)})["a.weight"], first)


@given(SEEDS)
def test_drawn_sizes_differ_from_each_other_and_from_the_courses(seed: int) -> None:
    sizes = Draws(seed).sizes("any")
    config = sizes.config
    head_dim = config["n_embd"] // config["n_head"]
    assert config["n_head"] * head_dim == config["n_embd"] and head_dim != config["n_head"]
    assert sizes.length < config["block_size"] and config["vocab_size"] < config["block_size"]
    assert len({sizes.length, head_dim, config["n_head"], config["block_size"], config["vocab_size"]}) == 5
    assert not {65, 256, 6 * 64} & set(config.values()) and head_dim != 64


def test_a_size_that_is_fixed_stays_so() -> None:
    sizes = Draws(1).sizes("x", n_head=3, head_dim=10, length=1, batch=1, block_size=50, vocab_size=3, n_layer=2)
    assert (sizes.batch, sizes.length) == (1, 1)
    assert sizes.config == {"vocab_size": 3, "block_size": 50, "n_layer": 2, "n_head": 3, "n_embd": 30}


@settings(max_examples=30)
@given(SEEDS, st.integers(1, 4), st.integers(1, 9), st.integers(2, 30))
def test_tokens_are_ids_and_hold_the_first_and_the_last(seed: int, batch: int, length: int, vocab: int) -> None:
    ids = Draws(seed).tokens("ids", (batch, length), vocab)
    assert ids.shape == (batch, length) and ids.dtype == torch.int64
    assert int(ids.min()) == 0 and int(ids.max()) < vocab
    assert batch * length == 1 or int(ids.max()) == vocab - 1


def test_hidden_weights_show_a_swapped_or_unused_gain() -> None:
    shapes = {
        "ln_1.weight": (16,),
        "ln_2.weight": (16,),
        "c.bias": (16,),
        "c.weight": (16, 4),
        "transformer.wte.weight": (9, 4),
    }
    weights = Draws(5).weights("w", shapes)
    assert {name: tuple(value.shape) for name, value in weights.items()} == shapes
    assert abs(float(weights["ln_1.weight"].mean()) - 1) < 0.5 and float(weights["ln_1.weight"].std()) > 0.1
    assert not torch.equal(weights["ln_1.weight"], weights["ln_2.weight"]) and float(weights["c.bias"].std()) > 0.1


# -- the reference ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def reference() -> Reference:
    from autograder.track import load_track

    return Reference(load_track("gpt"))


def test_the_reference_is_the_formula_of_an_mlp_in_float64(reference: Reference) -> None:
    track, draws = reference.track, Draws(1)
    part, sizes = track.part("mlp"), draws.sizes("mlp")
    w = draws.weights("w", part.shapes(sizes.config))
    x = draws.normal("x", (sizes.batch, sizes.length, sizes.config["n_embd"]))
    answer = reference.evaluate(part, sizes.config, w, {"x": x}, cotangent=torch.ones_like(x))
    d = {name: value.double() for name, value in w.items()}
    hidden = F.gelu(x.double() @ d["c_fc.weight"].T + d["c_fc.bias"], approximate="tanh")
    (output,) = answer.outputs
    assert output is not None and output.dtype == torch.float64 and not output.requires_grad
    assert torch.allclose(output, hidden @ d["c_proj.weight"].T + d["c_proj.bias"], rtol=1e-12)
    assert set(answer.gradients) == {"input.x", *w} and float(answer.gradients["c_proj.bias"].std()) == 0.0


def test_a_block_around_stand_ins_adds_what_they_say(reference: Reference) -> None:
    track, draws = reference.track, Draws(2)
    part, sizes = track.part("block"), draws.sizes("block")
    width = sizes.config["n_embd"]
    w = draws.weights("w", own_and_standin_shapes(part, track, sizes.config))
    x = draws.normal("x", (2, 5, width))
    (output,) = reference.evaluate(part, sizes.config, w, {"x": x}).outputs
    d = {name: value.double() for name, value in w.items()}
    y = x.double()
    for norm, kind in (("ln_1", "attention"), ("ln_2", "mlp")):
        stand_in = next(value for name, value in d.items() if name.endswith(f"standin_{kind}"))
        normed = F.layer_norm(y, (width,), d[f"{norm}.weight"], d[f"{norm}.bias"])
        y = y + apply_standin(kind, normed, stand_in)
    assert output is not None and torch.allclose(output, y, rtol=1e-12)


def test_inputs_are_not_touched_and_a_missing_tensor_counts_as_zero(reference: Reference) -> None:
    track, draws = reference.track, Draws(3)
    part, sizes = track.part("gpt"), draws.sizes("gpt", n_layer=1)
    idx = draws.tokens("idx", (2, 5), sizes.config["vocab_size"])
    before = idx.clone()
    shapes = full_shapes(part, track, sizes.config)
    w = draws.weights("w", shapes)
    w["transformer.wte.weight"] = w["lm_head.weight"]
    logits, loss = reference.evaluate(
        part, sizes.config, w, {"idx": idx, "targets": idx}, stand_ins=False, loss=True
    ).outputs
    assert torch.equal(idx, before) and logits is not None and loss is not None
    assert torch.allclose(loss, F.cross_entropy(logits.flatten(0, 1), idx.flatten()))
    without = reference.evaluate(part, sizes.config, {}, {"idx": idx}, stand_ins=False)
    assert without.outputs[1] is None and without.outputs[0] is not None and not bool(without.outputs[0].any())
    assert without.gradients == {}


def test_loading_the_solutions_leaves_nothing_to_import(reference: Reference, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = type(sys)("mlp")
    monkeypatch.setitem(sys.modules, "mlp", mine)
    Reference(reference.track)
    assert sys.modules["mlp"] is mine and "attention" not in sys.modules and str(SOLUTIONS) not in sys.path


def test_the_solutions_are_found_in_the_folder_that_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("WORKSHOP_SOLUTIONS", raising=False)
    assert find_solutions() == SOLUTIONS
    monkeypatch.setenv("WORKSHOP_SOLUTIONS", str(write(tmp_path / "mine", solutions())))
    assert find_solutions() == tmp_path / "mine"
    monkeypatch.setenv("WORKSHOP_SOLUTIONS", str(tmp_path / "nowhere"))
    assert find_solutions() == SOLUTIONS


def test_a_kit_without_solutions_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("WORKSHOP_SOLUTIONS", raising=False)
    monkeypatch.setattr("autograder.__file__", os.path.join(tmp_path, "autograder", "__init__.py"))  # noqa: PTH118
    with pytest.raises(SolutionsNotFound, match="set WORKSHOP_SOLUTIONS"):
        find_solutions()


def test_shared_tensors_are_counted_once(track: Track) -> None:
    assert count({"a": (2, 3), "b": (4,), "c": ()}) == 11 and count({"a": (2, 3), "b": (4,)}, ("a",)) == 4
