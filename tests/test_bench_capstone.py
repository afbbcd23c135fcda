"""Claims about the capstone's benchmarks: they run anywhere, tell the promised figures, and time training alone."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch
from capstone_samples import toy_corpus, toy_settings

from autograder.capstone.hardware import Hardware

BENCHMARKS = Path(__file__).resolve().parent.parent / "benchmarks"
CPU = Hardware(torch.device("cpu"))


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> dict[str, ModuleType]:
    import importlib

    monkeypatch.syspath_prepend(str(BENCHMARKS))
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    names = ("capstone_loops", "bench_capstone", "capstone_gpu", "track_choices")
    yield {name: importlib.import_module(name) for name in names}
    torch.set_num_threads(threads)
    for name in (*names, "measure"):
        sys.modules.pop(name, None)


def test_the_baseline_and_the_kit_are_raced(
    bench: dict[str, ModuleType], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    toy_corpus(tmp_path)
    bench["bench_capstone"].main(
        ["--corpus", str(tmp_path), "--scale", "0.004", "--threads", "1", "--precision", "fp32"]
    )
    said = capsys.readouterr().out
    assert "The baseline does not reach 1.88 here" in said
    for word in ("baseline, fp32", "kit, muon, fp32", "GFLOP/s", "characters/s", "of peak"):
        assert word in said


def test_the_gpu_figures_can_be_tried_on_a_cpu(
    bench: dict[str, ModuleType], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    toy_corpus(tmp_path)
    words = [
        "--tiny",
        "--device",
        "cpu",
        "--corpus",
        str(tmp_path),
        "--target",
        "9",
        "--json",
        str(tmp_path / "f.json"),
    ]
    bench["capstone_gpu"].main(words)
    said = capsys.readouterr().out
    assert "of the baseline's time to 9." in said and "All of it" in said
    figures = json.loads((tmp_path / "f.json").read_text())
    assert set(figures["peak_flops"]) == {"fp32", "bf16"} and len(figures["speed"]) == 2
    assert [run["seconds_to_target"] is not None for run in figures["runs"]] == [True, True]


def test_where_the_baseline_misses_the_target_its_best_is_the_target(
    bench: dict[str, ModuleType], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    toy_corpus(tmp_path)
    bench["capstone_gpu"].main(
        ["--tiny", "--device", "cpu", "--corpus", str(tmp_path), "--target", "0.1", "--json", str(tmp_path / "f.json")]
    )
    assert "The baseline does not reach 0.1 here" in capsys.readouterr().out
    figures = json.loads((tmp_path / "f.json").read_text())
    assert figures["target"] == min(loss for _, _, loss in figures["runs"][0]["curve"])
    assert figures["runs"][0]["seconds_to_target"] is not None


def test_a_corpus_that_is_not_there_is_told(bench: dict[str, ModuleType], tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="There is no corpus"):
        bench["bench_capstone"].main(["--corpus", str(tmp_path)])


def test_the_baseline_is_the_published_recipe(bench: dict[str, ModuleType]) -> None:
    loops = bench["capstone_loops"]
    model = loops.BaselineGPT(loops.CPU, 65)
    wpe = model.wpe.weight.numel()
    assert sum(p.numel() for p in model.parameters()) - wpe == 795_904  # "0.80M", without positions, as it counts
    model = loops.BaselineGPT(loops.GPU, 65)
    assert sum(p.numel() for p in model.parameters()) - model.wpe.weight.numel() == 10_646_784  # its "10.65M"
    assert loops._cosine(0, loops.CPU) < loops._cosine(99, loops.CPU) <= 1e-3
    assert loops._cosine(loops.CPU.steps, loops.CPU) == pytest.approx(1e-4)
    logits, loss = loops.BaselineGPT(loops.CPU, 65)(torch.zeros(2, 64, dtype=torch.int64))
    assert logits.shape == (2, 64, 65) and loss is None


def test_validation_is_off_the_clock_and_a_limit_ends_a_run(bench: dict[str, ModuleType], tmp_path: Path) -> None:
    from autograder.capstone.validation import Validation

    loops, corpus = bench["capstone_loops"], toy_corpus(tmp_path)
    loop = loops.kit_loop(toy_settings(steps=6), corpus, CPU, dropout=0.1)
    validation = {8: Validation(corpus.split()[1], 8)}
    loops.race([(loop, 2, 4)], validation)
    assert [step for step, _, _ in loop.curve] == [4, 6]
    assert loop.curve[-1][1] == loop.seconds and loop.seconds_to(99.0) == loop.curve[0][1]
    assert loop.seconds_to(0.0) is None
    loop = loops.kit_loop(toy_settings(steps=6), corpus, CPU)
    loops.race([(loop, 2, 4)], validation, limit_s=0.0)
    assert loop.step == 2 and len(loop.curve) == 1


def test_each_choice_of_the_tracks_is_trained_and_written_down(
    bench: dict[str, ModuleType], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    toy_corpus(tmp_path)
    out = tmp_path / "choices.json"
    bench["track_choices"].main(["a laptop", "--steps", "2", "--corpus", str(tmp_path), "--out", str(out)])
    found = json.loads(out.read_text(encoding="utf-8"))
    sizes = {run["name"]: run["parameters"] for run in found["runs"]}
    first = sizes["gpt, as it is"]
    vocab, width, layers, context = 65, 128, 4, 64
    assert sizes["a head of its own"] - first == vocab * width + vocab
    assert first - sizes["no q, k, v biases"] == 3 * width * layers
    assert first - sizes["positions as waves"] == context * width
    assert sizes["ReLU"] == sizes["dropout 0.1"] == sizes["gpt, another seed"] == first
    assert sizes["foundations, as it is"] - first == vocab * width + vocab - 3 * width * layers
    losses = [run["loss"] for run in found["runs"]]
    assert len(set(losses)) == len(losses) == 8  # every change changes what is computed
    assert found["machine"] == "a laptop" and found["logits_apart"] < 1e-5
    assert "Heads apart or fused" in capsys.readouterr().out
