"""Claims about training: it learns, it resumes bit for bit, several processes and parts agree, and trouble is told."""

from __future__ import annotations

import dataclasses
import errno
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from capstone_samples import toy_corpus, toy_learner, toy_settings, toy_trainer
from matplotlib.figure import Figure
from torch import nn
from torch.nn import functional as F

from autograder.capstone import journal as journals
from autograder.capstone.batches import Batches
from autograder.capstone.corpus import Corpus, save
from autograder.capstone.hardware import Hardware, choose_device, faster_precision, faster_threads
from autograder.capstone.journal import Journal, draw_curve, read_metrics
from autograder.capstone.mishaps import in_words
from autograder.capstone.muon import Muon
from autograder.capstone.optimizers import Optimizers, rate_factor
from autograder.capstone.presets import Settings, load_preset, preset_names
from autograder.capstone.processes import Processes, joined, unsynchronised
from autograder.capstone.proof import prove
from autograder.capstone.sampling import sample
from autograder.capstone.shelf import Shelf
from autograder.capstone.trainer import Progress, Trainer
from autograder.capstone.trouble import CapstoneError
from autograder.capstone.validation import Validation

CPU = Hardware(torch.device("cpu"))
CONFIG = {"vocab_size": 65, "block_size": 8, "n_layer": 1, "n_head": 2, "n_embd": 16}


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Models this small gain nothing from more, and wait for each other on a busy machine."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def corpus(tmp_path: Path) -> Corpus:
    return toy_corpus(tmp_path / "corpus")


def weights(trainer: Trainer) -> bytes:
    """Return all weights of a trainer's model as bytes: equal only when they are equal bit for bit."""
    return b"".join(tensor.numpy().tobytes() for tensor in trainer.model.state_dict().values())


class Notes:
    """A watcher that writes down what it is told."""

    def __init__(self) -> None:
        self.steps: list[Progress] = []
        self.losses: list[tuple[int, float, bool]] = []

    def stepped(self, progress: Progress) -> None:
        self.steps.append(progress)

    def validated(self, step: int, loss: float, is_best: bool, model: nn.Module) -> None:
        list(sample(model, torch.zeros(1, dtype=torch.int64), 5, 8))
        torch.rand(3)  # whatever a watcher draws...
        self.losses.append((step, loss, is_best))


# A run


def test_training_learns_and_keeps_the_best(corpus: Corpus, tmp_path: Path) -> None:
    trainer = toy_trainer(corpus, tmp_path / "run", steps=60, evaluate_every=20)
    notes = Notes()
    outcome = trainer.run(notes)
    losses = [loss for _, loss, _ in notes.losses]
    assert [step for step, _, _ in notes.losses] == [20, 40, 60]
    assert outcome.reason == "finished" and outcome.best_loss == min(losses) < 2.9
    assert notes.steps[-1].step == 60 and notes.steps[-1].tokens_per_second > 0
    assert Shelf(tmp_path / "run").best() == Shelf(tmp_path / "run").place(outcome.best_step)


@pytest.mark.parametrize("optimizer", ["muon", "adamw"])
def test_a_run_that_was_stopped_at_any_step_ends_with_the_same_bits(
    corpus: Corpus, tmp_path: Path, optimizer: str
) -> None:
    whole = toy_trainer(corpus, tmp_path / "whole", optimizer=optimizer)
    whole.run()
    for step in random.Random(optimizer).sample(range(1, 24), 10):
        run = tmp_path / f"run-{step}"
        stopped = toy_trainer(corpus, run, optimizer=optimizer)
        assert stopped.run(should_stop=lambda at=step, of=stopped: of._step == at).reason == "interrupted"
        random.seed(step), np.random.seed(step), torch.manual_seed(step)  # another process has drawn other numbers
        resumed = toy_trainer(corpus, run, optimizer=optimizer)
        assert resumed.resume() == step
        outcome = resumed.run()
        assert weights(resumed) == weights(whole), f"stopped at step {step}"
        assert outcome.step == 24


def test_a_resumed_run_has_the_same_journal_and_the_same_best(corpus: Corpus, tmp_path: Path) -> None:
    def losses(run: str) -> list[tuple[int, float]]:
        records = read_metrics(tmp_path / run / "metrics.jsonl")
        return [(r["step"], r.get("loss", r.get("validation_loss"))) for r in records]

    whole = toy_trainer(corpus, tmp_path / "whole").run()
    stopped = toy_trainer(corpus, tmp_path / "run")
    stopped.run(should_stop=lambda: stopped._step == 17)
    with (tmp_path / "run" / "metrics.jsonl").open("a") as stream:  # a process that was killed later than it saved
        stream.write('{"step": 18, "loss": 9.9}\n{"step": 1')
    resumed = toy_trainer(corpus, tmp_path / "run")
    resumed.resume()
    outcome = resumed.run()
    assert losses("run") == losses("whole")
    assert (outcome.best_step, outcome.best_loss) == (whole.best_step, whole.best_loss)


def test_a_finished_run_that_is_resumed_does_nothing(corpus: Corpus, tmp_path: Path) -> None:
    first = toy_trainer(corpus, tmp_path / "run").run()
    again = toy_trainer(corpus, tmp_path / "run")
    assert again.resume() == 24
    outcome = again.run()
    assert (outcome.reason, outcome.best_loss) == ("finished", first.best_loss)


def test_another_corpus_or_optimizer_cannot_be_resumed_with(corpus: Corpus, tmp_path: Path) -> None:
    toy_trainer(corpus, tmp_path / "run").run()
    with pytest.raises(CapstoneError, match="not of this run"):
        toy_trainer(corpus, tmp_path / "run", optimizer="adamw").resume()
    other = dataclasses.replace(corpus, provenance=dataclasses.replace(corpus.provenance, sha256="00"))
    with pytest.raises(CapstoneError, match="another corpus"):
        toy_trainer(other, tmp_path / "run").resume()


def test_parts_of_a_batch_add_up_to_the_whole_batch(corpus: Corpus, tmp_path: Path) -> None:
    whole = toy_trainer(corpus, tmp_path / "a", optimizer="adamw", steps=4)
    parts = toy_trainer(corpus, tmp_path / "b", optimizer="adamw", steps=4, accumulate=4)
    whole.run(), parts.run()
    for name, tensor in whole.model.state_dict().items():
        assert torch.allclose(tensor, parts.model.state_dict()[name], atol=1e-5), name


def test_training_stops_early_when_validation_gets_no_better(corpus: Corpus, tmp_path: Path) -> None:
    trainer = toy_trainer(corpus, tmp_path / "run", steps=2_000, evaluate_every=5, patience=10)
    measured = iter([3.0, 2.0, 2.5, 2.6, 2.7])
    trainer._validation.loss = lambda *_: next(measured)  # type: ignore[method-assign]
    outcome = trainer.run()
    assert (outcome.reason, outcome.step, outcome.best_step, outcome.best_loss) == ("stopped early", 20, 10, 2.0)
    assert Shelf(tmp_path / "run").steps() == [10, 20]


def test_bf16_trains_too(corpus: Corpus, tmp_path: Path) -> None:
    outcome = toy_trainer(corpus, tmp_path / "run", precision="bf16", steps=40).run()
    assert outcome.best_loss < 3.2


# Trouble


def test_a_loss_that_is_no_number_ends_with_advice_and_keeps_the_checkpoint(corpus: Corpus, tmp_path: Path) -> None:
    trainer = toy_trainer(corpus, tmp_path / "run", steps=40)

    def spoil(step: int, loss: float, is_best: bool, model: nn.Module) -> None:
        with torch.no_grad():
            next(model.parameters()).fill_(float("nan"))

    notes = Notes()
    notes.validated = spoil  # type: ignore[method-assign]
    with pytest.raises(CapstoneError, match=r"became nan .* checkpoint of step 8 stays .* --learning-rate 0.0027"):
        trainer.run(notes)
    assert Shelf(tmp_path / "run").steps() == [8]


@pytest.mark.parametrize("error", [MemoryError(), RuntimeError("DefaultCPUAllocator: can't allocate memory: 1 TB")])
def test_no_memory_is_told_with_a_way_out(corpus: Corpus, tmp_path: Path, error: Exception) -> None:
    trainer = toy_trainer(corpus, tmp_path / "run")

    def fail(*_: Any) -> None:
        raise error

    trainer._forward = fail
    with pytest.raises(CapstoneError, match=r"memory ran out on cpu.*--accumulate 2"):
        trainer.run()


def test_code_that_raises_or_cannot_be_compiled_is_told(tmp_path: Path) -> None:
    compiler_error = type("InductorError", (RuntimeError,), {"__module__": "torch._inductor.exc"})
    with pytest.raises(CapstoneError, match="Leave out --compile"), in_words(toy_settings(compile=True), tmp_path, "T"):
        raise compiler_error("g++ not found")
    with (
        pytest.raises(CapstoneError, match=r"T raised KeyError: 'x'.*please report"),
        in_words(toy_settings(), tmp_path, "T"),
    ):
        raise KeyError("x")


def test_a_full_disk_is_told(corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    toy_trainer(corpus, tmp_path / "run").run()
    tasks = [
        lambda: Journal(tmp_path).cut(0),
        lambda: Journal(tmp_path).add({"step": 1}),
        lambda: draw_curve(tmp_path / "run", "toy"),
        lambda: save(corpus, tmp_path / "corpus"),
    ]
    draw_curve(tmp_path / "run", "toy")  # matplotlib has read its own files
    really = Path.open
    monkeypatch.setattr(
        Path, "open", lambda path, mode="r", *a, **k: full() if mode != "r" else really(path, mode, *a, **k)
    )
    monkeypatch.setattr(Figure, "savefig", full)
    for task in tasks:
        with pytest.raises(CapstoneError, match="The disk is full"):
            task()


# Settings, schedule, optimizers


def test_every_preset_is_complete_and_names_its_expectation() -> None:
    assert preset_names() == ["cpu", "laptop", "gpu"]
    for name in preset_names():
        for optimizer in ("muon", "adamw"):
            preset = load_preset(name, optimizer)
            assert preset.settings.preset == name and 1.3 < preset.expected_loss < 2 and preset.basis
            assert Settings.from_json(preset.settings.to_json()) == preset.settings
    config = load_preset("gpu").settings.config(65)
    assert sum(p.numel() for p in toy_learner().build(config, 1).parameters()) == 10_770_816


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"steps": 0}, "steps must be at least 1"),
        ({"n_head": 3}, "does not split into n_head = 3"),
        ({"accumulate": 3}, "does not split into 3 equal parts"),
        ({"rate": 0.0}, "Learning rate"),
        ({"decay": "none"}, "settings are wrong"),
    ],
)
def test_settings_that_cannot_be_trained_with_are_refused(change: dict[str, Any], said: str) -> None:
    with pytest.raises(CapstoneError, match=said):
        toy_settings(**change)


def test_unknown_presets_optimizers_and_damaged_settings_are_refused() -> None:
    with pytest.raises(CapstoneError, match="there are: cpu, laptop, gpu"):
        load_preset("tpu")
    with pytest.raises(CapstoneError, match="there are: muon, adamw"):
        load_preset("cpu", "sgd")
    good = toy_settings().to_json()
    for damage in ({}, {**good, "extra": 1}, {**good, "steps": "many"}):
        with pytest.raises(CapstoneError, match="damaged"):
            Settings.from_json(damage)


def test_the_rate_rises_and_falls_as_the_settings_say() -> None:
    linear = toy_settings(warmup=4, steps=24, final_share=0.1, decay="linear")
    cosine = dataclasses.replace(linear, decay="cosine")
    assert [rate_factor(step, linear) for step in (0, 1, 3, 4, 14, 24)] == pytest.approx([0.25, 0.5, 1, 1, 0.55, 0.1])
    assert [rate_factor(step, cosine) for step in (4, 9, 14, 24)] == pytest.approx([1, 0.868198, 0.55, 0.1])


def test_muon_takes_the_blocks_matrices_and_adamw_the_rest() -> None:
    model = toy_learner().build(CONFIG, 1)
    adamw, muon = Optimizers(model, toy_settings())._all
    named = {id(p): name for name, p in model.named_parameters()}
    muons = {named[id(p)] for group in muon.param_groups for p in group["params"]}
    assert muons == {
        f"transformer.h.0.{name}.weight" for name in ("attn.c_attn", "attn.c_proj", "mlp.c_fc", "mlp.c_proj")
    }
    others = {named[id(p)] for group in adamw.param_groups for p in group["params"]}
    assert muons | others == set(named.values()) and not muons & others


@pytest.mark.skipif(not hasattr(torch.optim, "Muon"), reason="this torch has no Muon to compare with")
def test_a_step_is_that_of_torchs_muon_for_matrices_of_any_shapes() -> None:
    draw = torch.Generator().manual_seed(1)
    ours = [nn.Parameter(torch.randn(shape, generator=draw)) for shape in ((8, 8), (24, 8), (8, 24), (8, 8), (8, 24))]
    theirs = [nn.Parameter(p.detach().clone()) for p in ours]
    one = Muon(ours, 0.1, momentum=0.9, weight_decay=0.2)
    other = torch.optim.Muon(theirs, lr=0.1, momentum=0.9, weight_decay=0.2)
    for _ in range(3):
        for mine, torchs in zip(ours, theirs, strict=True):
            mine.grad = torch.randn(mine.shape, generator=draw)
            torchs.grad = mine.grad.clone()
        one.step()
        other.step()
    for mine, torchs in zip(ours, theirs, strict=True):
        assert torch.allclose(mine, torchs, atol=0.02), (mine - torchs).abs().max()  # bfloat16 has three digits


def test_each_of_several_maps_in_a_matrix_is_made_orthogonal_for_itself() -> None:
    draw = torch.Generator().manual_seed(2)
    whole = nn.Parameter(torch.zeros(24, 8))
    apart = [nn.Parameter(torch.zeros(8, 8)) for _ in range(3)]
    whole.grad = torch.randn(24, 8, generator=draw) * torch.tensor([1.0, 10.0, 100.0]).repeat_interleave(8)[:, None]
    for part, gradient in zip(apart, whole.grad.chunk(3), strict=True):
        part.grad = gradient.clone()
    Muon([whole], 1.0, maps=3).step()
    Muon(apart, 1.0).step()
    assert torch.allclose(whole, torch.cat([p.detach() for p in apart]), atol=1e-3)
    for part in apart:  # the smallest gradient moved as far as the largest
        values = torch.linalg.svdvals(part.detach())
        assert float(values.min()) > 0.5 and float(values.max()) < 1.3
    with pytest.raises(ValueError, match="3 equal maps"):
        Muon([nn.Parameter(torch.zeros(8, 8))], 1.0, maps=3)


# Batches and validation


def test_batches_are_windows_and_the_same_windows_shifted_by_one() -> None:
    ids = np.arange(100)
    make = Batches(ids, 8, 6, 5, CPU.device)
    ((idx, targets),) = make(3)
    assert idx.shape == (6, 8) and torch.equal(targets, idx + 1)
    ((again, _),) = make(3)
    ((other, _),) = make(4)
    assert torch.equal(idx, again) and not torch.equal(idx, other)


def test_every_window_of_the_text_can_be_drawn_and_none_beyond_it() -> None:
    make = Batches(np.arange(11), 8, 200, 5, CPU.device)
    ((idx, targets),) = make(0)
    assert set(idx[:, 0].tolist()) == {0, 1, 2} and int(targets.max()) == 10


def test_processes_share_a_batch_without_overlap() -> None:
    def rows(rank: int, processes: int, accumulate: int) -> list[list[int]]:
        make = Batches(
            np.arange(1000), 4, 8, 5, CPU.device, accumulate=accumulate, processes=Processes(rank, processes)
        )
        return [row for idx, _ in make(7) for row in idx.tolist()]

    assert rows(0, 2, 2) + rows(1, 2, 2) == rows(0, 1, 1)


def test_texts_and_batches_that_do_not_fit_are_refused() -> None:
    with pytest.raises(CapstoneError, match="smaller --block-size"):
        Batches(np.arange(8), 8, 1, 1, CPU.device)
    with pytest.raises(CapstoneError, match="does not split into 1 parts for each of 2"):
        Batches(np.arange(80), 8, 3, 1, CPU.device, processes=Processes(0, 2))
    with pytest.raises(CapstoneError, match="take a longer text"):
        Validation(np.arange(1), 8)


@pytest.mark.parametrize("length", [5, 9, 17, 30])
def test_the_validation_loss_counts_every_character_once(length: int) -> None:
    model = toy_learner().build(CONFIG, 1)
    ids = np.random.default_rng(1).integers(0, 65, length)
    text = torch.from_numpy(ids)
    losses = []
    with torch.no_grad():
        for start in range(0, length - 1, 8):
            window = text[start : start + 9]
            losses += F.cross_entropy(model(window[None, :-1])[0][0], window[1:], reduction="none").tolist()
    assert len(losses) == length - 1
    model.train()
    assert Validation(ids, 8).loss(model, CPU, Processes()) == pytest.approx(sum(losses) / len(losses))
    assert model.training and all(p.grad is None for p in model.parameters())


# Hardware and processes


def test_processes_that_torchrun_started_share_sums_gradients_and_decisions(monkeypatch: pytest.MonkeyPatch) -> None:
    started = {"WORLD_SIZE": "1", "RANK": "0", "LOCAL_RANK": "0", "MASTER_ADDR": "localhost", "MASTER_PORT": "0"}
    for name, value in started.items():
        monkeypatch.setenv(name, value)
    with joined() as alone:
        assert alone == Processes(0, 1, 0) and alone.first
        shared = dataclasses.replace(alone, count=2)  # goes through the group, of which this is all
        assert shared.sum(0.1) == 0.1 and shared.agree(True) and not shared.agree(False)
        shared.wait()
        model = shared.wrap(toy_learner().build(CONFIG, 1))
        loss = model(*batch())[1]
        with unsynchronised(model, last=False):
            loss.backward()
        assert unsynchronised(model, last=True) is not None
        assert next(model.parameters()).grad is not None
    assert not torch.distributed.is_initialized()


def test_the_faster_precision_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    model = toy_learner().build(CONFIG, 1)
    batch = (torch.zeros(2, 8, dtype=torch.int64), torch.zeros(2, 8, dtype=torch.int64))
    chosen, times = faster_precision(model, batch, torch.device("cpu"))
    assert set(times) == {"fp32", "bf16"}
    assert chosen == ("bf16" if times["bf16"] * 1.1 < times["fp32"] else "fp32")
    assert set(faster_precision(model, batch, torch.device("cpu"), "bf16")[1]) == {"bf16"}
    assert all(p.grad is None for p in model.parameters())
    torch.set_num_threads(2)
    assert faster_threads(model, batch, torch.device("cpu")) in (1, 2)
    assert torch.get_num_threads() == 2


def test_a_device_that_is_not_there_is_refused() -> None:
    assert choose_device("cpu") == torch.device("cpu")
    with pytest.raises(CapstoneError, match="there are: auto, cpu, cuda, mps"):
        choose_device("tpu")
    if not torch.backends.mps.is_available():
        with pytest.raises(CapstoneError, match="torch finds no mps device"):
            choose_device("mps")


# Samples


def test_samples_repeat_with_their_seed_and_leave_training_alone() -> None:
    model = toy_learner().build(CONFIG, 1)
    model.train()
    prompt = torch.arange(20)  # longer than the context
    torch.manual_seed(5)
    expected = float(torch.rand(()))
    torch.manual_seed(5)
    first = list(sample(model, prompt, 30, 8, seed=1))
    assert float(torch.rand(())) == expected
    assert first == list(sample(model, prompt, 30, 8, seed=1)) != list(sample(model, prompt, 30, 8, seed=2))
    assert model.training and len(first) == 30 and all(0 <= number < 65 for number in first)


def test_greedy_is_the_likeliest_and_top_k_draws_among_few() -> None:
    model = toy_learner().build(CONFIG, 1)
    prompt = torch.tensor([3])
    greedy = list(sample(model, prompt, 10, 8, temperature=0))
    assert greedy == list(sample(model, prompt, 10, 8, top_k=1, seed=3))
    with torch.no_grad():
        logits = model(prompt[None])[0][0, -1]
    best = set(logits.topk(5).indices.tolist())
    drawn = {next(sample(model, prompt, 1, 8, top_k=5, temperature=5.0, seed=seed)) for seed in range(60)}
    assert drawn == best


# The proof run


def batch() -> tuple[torch.Tensor, torch.Tensor]:
    ids = torch.from_numpy(np.random.default_rng(1).integers(0, 65, (8, 9)))
    return ids[:, :-1], ids[:, 1:]


def test_a_right_model_passes_the_proof_run() -> None:
    model = toy_learner().build({**CONFIG, "n_embd": 64}, 1)
    proof = prove(model, batch(), 65, CPU)
    assert 3.9 < proof.first_loss < 4.5 and proof.last_loss < 0.5 and proof.seconds < 15


class Broken(nn.Module):
    """A model with one fault in what it returns."""

    def __init__(self, fault: str) -> None:
        super().__init__()
        self.table = nn.Embedding(65, 65)
        self.fault = fault

    def forward(self, idx: torch.Tensor, targets: torch.Tensor | None = None) -> Any:
        logits = self.table(idx)
        if self.fault == "future":
            logits = logits + logits.mean(dim=1, keepdim=True)
        if self.fault == "last position":
            logits = logits[:, -1:]
        if self.fault == "frozen":
            logits = logits.detach() + 0 * logits
        if self.fault == "nan":
            logits = logits / 0 * 0
        if self.fault == "logits only":
            return logits
        if targets is None:
            return logits, None
        if self.fault == "loss per position":
            return logits, F.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="none")
        if self.fault == "no gradient":
            return logits, F.cross_entropy(logits.flatten(0, 1), targets.flatten()).detach()
        size = logits.shape[1]
        return logits, F.cross_entropy(logits.flatten(0, 1), targets[:, :size].flatten())


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("logits only", "it returned a Tensor"),
        ("last position", r"its logits are \(4, 1, 65\) for idx \(4, 8\)"),
        ("loss per position", "its loss is not one number"),
        ("no gradient", "its loss has no gradient"),
        ("future", "sees the future"),
        ("frozen", "does not learn"),
        ("nan", "The loss is nan"),
    ],
)
def test_a_broken_model_is_caught_before_the_long_run(fault: str, said: str) -> None:
    with pytest.raises(CapstoneError, match=said):
        prove(Broken(fault), batch(), 65, CPU)


def test_a_model_without_parameters_is_caught() -> None:
    with pytest.raises(CapstoneError, match="no parameters"):
        prove(nn.Identity(), batch(), 65, CPU)


# The journal


def test_the_loss_curve_is_a_picture(corpus: Corpus, tmp_path: Path) -> None:
    toy_trainer(corpus, tmp_path / "run").run()
    assert draw_curve(tmp_path / "run", "toy").read_bytes().startswith(b"\x89PNG")
    (tmp_path / "empty").mkdir()
    assert draw_curve(tmp_path / "empty", "nothing yet").exists()


def test_without_matplotlib_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(CapstoneError, match=r"gpt-workshop-kit\[capstone\]"):
        draw_curve(tmp_path, "toy")


def test_lines_that_are_no_records_are_left_out(tmp_path: Path) -> None:
    (tmp_path / journals.METRICS).write_text('{"step": 1}\n[1]\n{"step": "x"}\n\n{"st', encoding="utf-8")
    assert read_metrics(tmp_path / journals.METRICS) == [{"step": 1}]
    Journal(tmp_path).cut(1)
    assert (tmp_path / journals.METRICS).read_text() == json.dumps({"step": 1}) + "\n"
