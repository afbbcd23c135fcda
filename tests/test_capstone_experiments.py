"""Claims about `workshop experiment`: one thing varies, numbers are recorded and repeat, each has its picture."""

from __future__ import annotations

import dataclasses
import json
import math
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from answers import solutions, write
from capstone_samples import toy_corpus, toy_learner, toy_text, toy_trainer
from torch import nn
from typer.testing import CliRunner, Result

from autograder.capstone.bpe import train_bpe
from autograder.capstone.corpus import Corpus
from autograder.capstone.dropout import add_dropout
from autograder.capstone.experiments import EXPERIMENTS, Variant, base_settings, draw_tied, run_variant
from autograder.capstone.heads import attention_maps
from autograder.capstone.pictures import draw_experiment
from autograder.capstone.presets import Settings
from autograder.capstone.trouble import CapstoneError
from autograder.cli import app

PNG = b"\x89PNG"
SIZE = EXPERIMENTS["size"].vary
SMALL = {"n_layer": 1, "n_head": 2, "n_embd": 16, "block_size": 8, "batch_size": 8}


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def corpus(tmp_path: Path) -> Corpus:
    return toy_corpus(tmp_path / "data" / "corpus")


def workshop(*words: object) -> Result:
    return CliRunner().invoke(app, ["experiment", *(str(word) for word in words)])


def varied(name: str, corpus: Corpus) -> list[Variant]:
    return EXPERIMENTS[name].vary(base_settings(steps=3, seed=5, threads=1), corpus)


def tiny(variant: Variant, **changes: Any) -> Variant:
    return dataclasses.replace(variant, settings=dataclasses.replace(variant.settings, **{**SMALL, **changes}))


@pytest.mark.parametrize("name", ["size", "learning-rate", "context", "tying", "dropout"])
def test_an_experiment_varies_one_thing_only(name: str, corpus: Corpus) -> None:
    first, *others = varied(name, corpus)
    allowed = {
        "size": {"n_embd"},
        "learning-rate": {"rate"},
        "context": {"block_size", "batch_size"},
        "tying": set(),
        "dropout": set(),
    }[name]
    base = first.settings.to_json()
    for other in others:
        assert {key for key, value in other.settings.to_json().items() if value != base[key]} == allowed
        assert other.settings.batch_size * other.settings.block_size == base["batch_size"] * base["block_size"]
    assert len({(one.value, one.name) for one in (first, *others)}) == 1 + len(others) >= 3
    if name == "dropout":
        assert first.dropout == 0 and all(len(one.training) <= 10_000 for one in others)
    if name == "tying":
        assert {one.draw for one in (first, *others)} == {"", "linear", "embedding"}


def two_widths(base: Settings, corpus: Corpus) -> list[Variant]:
    return SIZE(base, corpus)[:2]


def test_the_command_draws_a_picture_and_records_what_repeats(
    corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "mine", solutions())
    monkeypatch.setitem(EXPERIMENTS, "size", dataclasses.replace(EXPERIMENTS["size"], vary=two_widths))
    words = ("size", "--path", "mine", "--steps", 2, "--seed", 9, "--threads", 1)
    told = workshop(*words)
    assert told.exit_code == 0, told.output
    assert "width 16" in told.output and "experiments/size/size.png" in told.output
    assert Path("experiments/size/size.png").read_bytes().startswith(PNG)
    record = json.loads(Path("experiments/size/experiment.json").read_text())
    assert record["seed"] == 9 and record["code"]["kind"] == "student" and record["corpus"]["sha256"]
    assert [one["value"] for one in record["results"]] == [16, 32]
    assert record["settings"]["width 16"]["n_embd"] == 16

    assert workshop(*words, "--out", "again").exit_code == 0
    again = json.loads(Path("again/experiment.json").read_text())
    assert [one["loss"] for one in again["results"]] == [one["loss"] for one in record["results"]]


def test_the_tied_matrix_starts_as_asked_for_and_stays_tied(corpus: Corpus) -> None:
    firsts = []
    for variant in varied("tying", corpus):
        firsts.append(run_variant(toy_learner(), tiny(variant, n_embd=64, steps=1)).points[0].validation)
    assert abs(firsts[0] - math.log(65)) < 0.2
    assert firsts[2] > 2 * firsts[0] > firsts[1]  # N(0, 1) makes the first guesses wild
    model = toy_learner().build({"vocab_size": 65, "block_size": 8, "n_layer": 1, "n_head": 2, "n_embd": 16}, 0)
    draw_tied(model, "embedding", 3)
    table = model.get_parameter("transformer.wte.weight")
    assert table is model.get_parameter("lm_head.weight") and 0.9 < float(table.detach().std()) < 1.1


def test_losses_by_tokens_are_told_by_character(corpus: Corpus) -> None:
    text = toy_text(3_000)
    bpe = train_bpe(text, 30)
    ids = bpe.encode(text)
    share = len(ids) / len(text)
    assert share < 0.8
    variant = Variant("BPE", 30, base_settings(1, 1, 1), ids, ids, len(bpe), per_character=share)
    curve = run_variant(toy_learner(), tiny(variant, steps=1))
    assert curve.points[0].validation == pytest.approx(math.log(30) * share, rel=0.05)


def test_a_run_that_diverges_is_an_answer_too(corpus: Corpus, tmp_path: Path) -> None:
    (variant, *_) = varied("learning-rate", corpus)
    curve = run_variant(toy_learner(), tiny(variant, rate=1e30, steps=6))
    assert curve.loss is None
    draw_experiment(EXPERIMENTS["learning-rate"], [curve, curve], tmp_path / "a.png")
    draw_experiment(EXPERIMENTS["tying"], [curve], tmp_path / "b.png")
    assert (tmp_path / "b.png").read_bytes().startswith(PNG)


@pytest.mark.parametrize("name", ["dropout", "context"])
def test_each_kind_of_picture_is_drawn(name: str, corpus: Corpus, tmp_path: Path) -> None:
    variants = [one for one in varied(name, corpus) if one.settings.block_size < 128]
    curves = [run_variant(toy_learner(), tiny(one, steps=2)) for one in variants[:2]]
    draw_experiment(EXPERIMENTS[name], curves, tmp_path / "picture.png")
    assert (tmp_path / "picture.png").read_bytes().startswith(PNG)


def test_the_heads_of_a_run_are_drawn(corpus: Corpus, tmp_path: Path) -> None:
    toy_trainer(corpus, tmp_path / "run", steps=4, evaluate_every=4).run()
    told = workshop("heads", "--run", "run", "--out", "heads")
    assert told.exit_code == 0, told.output
    assert Path("heads/heads.png").read_bytes().startswith(PNG)
    record = json.loads(Path("heads/experiment.json").read_text())
    assert [len(layer) for layer in record["looks_back"]] == [2, 2] and len(record["text"]) == 8


def test_heads_are_trained_where_no_run_is_named(corpus: Corpus) -> None:
    told = workshop("heads", "--reference", "--steps", 2)
    assert told.exit_code == 0, told.output
    record = json.loads(Path("experiments/heads/experiment.json").read_text())
    assert [len(layer) for layer in record["looks_back"]] == [4, 4] and record["seed"] == 1337


def test_characters_are_compared_with_bpe(corpus: Corpus, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("autograder.capstone.experiments.BPE_SIZES", (30,))
    characters, bpe = varied("tokens", corpus)
    assert len(bpe.training) < len(characters.training) and bpe.per_character < 1
    told = workshop("tokens", "--reference", "--steps", 1)
    assert told.exit_code == 0 and "BPE, 30 tokens" in told.output, told.output


def test_heads_are_those_of_the_attention() -> None:
    model = toy_learner().build({"vocab_size": 65, "block_size": 8, "n_layer": 2, "n_head": 2, "n_embd": 16}, 1)
    with torch.no_grad():
        for parameter in model.parameters():
            nn.init.normal_(parameter, 0.0, 0.5)
    idx = torch.randint(65, (1, 8))
    captured: list[Any] = []
    attention = model.get_submodule("transformer.h.0.attn")
    attention.register_forward_hook(lambda module, inputs, output: captured.extend((inputs[0], output)))
    maps = attention_maps(model, idx, 2)
    assert len(maps) == 2 and maps[0].shape == (2, 8, 8)
    x, y = captured
    values = attention.c_attn(x).split(16, dim=2)[2].view(1, 8, 2, 8).transpose(1, 2)
    mixed = (maps[0][None] @ values).transpose(1, 2).reshape(1, 8, 16)
    assert torch.allclose(attention.c_proj(mixed), y, atol=1e-4)
    with pytest.raises(CapstoneError, match="cannot be drawn"):
        attention_maps(nn.Sequential(nn.Identity()), idx, 2)


def test_dropout_acts_in_training_alone_and_leaves_the_weights_names() -> None:
    config = {"vocab_size": 65, "block_size": 8, "n_layer": 1, "n_head": 2, "n_embd": 16}
    model, plain = toy_learner().build(config, 1), toy_learner().build(config, 1)
    add_dropout(model, 0.5)
    idx = torch.zeros(2, 8, dtype=torch.int64)
    model.eval(), plain.eval()
    assert torch.equal(model(idx)[0], plain(idx)[0]) and list(model.state_dict()) == list(plain.state_dict())
    model.train()
    assert not torch.equal(model(idx)[0], model(idx)[0])
    add_dropout(plain, 0.0)
    plain.train()
    assert torch.equal(plain(idx)[0], plain(idx)[0])
    with pytest.raises(CapstoneError, match="a share from 0"):
        add_dropout(plain, 1.0)
    with pytest.raises(CapstoneError, match="contract's modules"):
        add_dropout(nn.Linear(1, 1), 0.5)


def test_bpe_joins_the_most_frequent_pairs_and_loses_nothing() -> None:
    bpe = train_bpe("low lower lowest slow\n" * 50, 16)
    pieces = [bpe.decode(np.array([number])) for number in range(len(bpe))]
    assert len(bpe) == 16 and "low" in pieces
    text = "slow lowest\nwerest"
    assert bpe.decode(bpe.encode(text)) == text
    assert len(bpe.encode("low")) == 1
    with pytest.raises(CapstoneError, match="too short"):
        train_bpe("ab", 99)
    with pytest.raises(KeyError):
        bpe.encode("Z")


def test_what_cannot_be_done_is_told(corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert workshop("moon").exit_code == 2
    assert workshop("size", "--run", "x").exit_code == 2
    told = workshop("size", "--corpus", "nowhere")
    assert told.exit_code == 1 and "There is no corpus" in told.output
    (tmp_path / "file").write_text("")
    assert "could not be written" in workshop("size", "--reference", "--out", "file/x").output
    write(tmp_path / "broken", {**solutions(), "mlp.py": "raise OSError('no')"})
    told = workshop("size", "--path", "broken")
    assert told.exit_code == 1 and "OSError" in told.output
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    told = workshop("size", "--reference", "--steps", 1)
    assert told.exit_code == 1 and "gpt-workshop-kit[capstone]" in told.output
