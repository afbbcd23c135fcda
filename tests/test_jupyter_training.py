"""Claims about `train` and `generate` in a notebook: what was run there is trained, under a curve that grows."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from answers import solutions
from capstone_samples import toy_corpus

from autograder.jupyter import generate, showing, train, training
from autograder.jupyter.curve import loss_svg

QUICK: dict[str, Any] = {"steps": 4, "batch_size": 2, "block_size": 8, "evaluate_every": 2, "device": "cpu"}


@pytest.fixture(autouse=True)
def here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """GPT in the notebook, the other parts beside it, and a corpus."""
    monkeypatch.chdir(tmp_path)
    toy_corpus(tmp_path / "data" / "corpus")
    files = solutions()
    for name in ("config.py", "attention.py", "mlp.py", "block.py"):
        (tmp_path / name).write_text(files[name])
    monkeypatch.setattr(training, "history", lambda: [files["gpt.py"], "train()"])
    monkeypatch.setattr("autograder.capstone.run.faster_threads", lambda *_: 1)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield tmp_path
    torch.set_num_threads(threads)


def test_the_notebooks_own_classes_are_trained_and_write(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    train(**QUICK)
    said = capsys.readouterr().out
    for words in (
        "Preset cpu",
        "Proof run",
        "step 4/4, validation",
        "Finished. Best validation loss",
        'generate("runs/cpu")',
    ):
        assert words in said, said
    assert {path.name for path in (here / "runs" / "cpu").iterdir()} >= {"checkpoints", "code", "metrics.jsonl"}
    generate(prompt="my lord", tokens=20, seed=3)
    first = capsys.readouterr().out
    assert first.startswith("my lord") and len(first) == len("my lord") + 21
    generate(prompt="my lord", tokens=20, seed=3)
    assert capsys.readouterr().out == first

    train(**QUICK, proof=False)
    assert "holds a run (step 4)" in capsys.readouterr().out


def test_an_interrupted_run_goes_on(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(training.LivePlot, "validated", interrupt)
        train(**QUICK, proof=False, out="run")
    assert "train(resume=True)" in capsys.readouterr().out
    train(resume=True, proof=False, out="run")
    assert "Going on from step 2 of 4" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("call", "said"),
    [
        ({"moon": 3}, "no setting 'moon'"),
        ({"steps": "many"}, "steps is a number"),
        ({"steps": True}, "steps is a number"),
        ({"preset": "moon"}, "There is no preset 'moon'"),
        ({"device": "moon"}, "--device is one of"),
        ({"corpus": "nowhere"}, "There is no corpus"),
    ],
)
def test_what_cannot_be_trained_is_told_under_the_cell(
    call: dict[str, Any], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    train(**call)
    assert said in capsys.readouterr().out


def test_a_class_that_is_missing_is_named(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training, "history", lambda: [])
    train()
    assert "has no GPT:" in capsys.readouterr().out
    generate("nowhere")
    assert "There is no checkpoint" in capsys.readouterr().out


def test_the_place_under_the_cell_is_one_that_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[Any] = []
    handle = SimpleNamespace(update=lambda data, raw: shown.append(("update", data)))

    def display(data: dict[str, str], raw: bool, display_id: bool) -> Any:
        shown.append(("display", data))
        return handle

    monkeypatch.setattr(showing, "_in_kernel", lambda: True)
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(display=SimpleNamespace(display=display)))
    monkeypatch.setitem(sys.modules, "IPython.display", SimpleNamespace(display=display))
    place = showing.Place()
    live = training.LivePlot(place, ["<b>told</b>"], 10, _vocabulary(), 8, 0)
    progress = SimpleNamespace(step=5, steps=10, loss=2.5, tokens_per_second=100.0)
    live.stepped(progress)  # type: ignore[arg-type]
    live.stepped(progress)  # type: ignore[arg-type]  # too soon to be drawn again
    live.draw("last")
    assert [kind for kind, _ in shown] == ["display", "update"]
    html = shown[-1][1]["text/html"]
    assert "<svg" in html and "&lt;b&gt;told" in html and "<b>" not in html and shown[-1][1]["text/plain"] == "last"


def _vocabulary() -> Any:
    from autograder.capstone.vocabulary import SHAKESPEARE, Vocabulary

    return Vocabulary(SHAKESPEARE)


def test_the_curve_holds_both_losses_and_stays_small() -> None:
    many = [(step, 4.0 - step / 1000) for step in range(2000)]
    picture = loss_svg(many, [(500, 3.9), (1999, 2.5)], 2000)
    assert picture.count("<circle") == 2 and len(picture) < 10_000 and "2000 steps" in picture
    assert loss_svg([], [], 10) == ""
    assert loss_svg([(1, 2.0)], [], 10).count("<polyline") == 2


def test_the_record_says_whose_code_it_was(here: Path) -> None:
    train(**QUICK, proof=False, out="run")
    (state,) = sorted(here.glob("run/checkpoints/step-*/state.json"))[-1:]
    code = json.loads(state.read_text())["code"]
    assert code["kind"] == "student" and set(code["sources"]) == {
        "GPTConfig",
        "CausalSelfAttention",
        "MLP",
        "Block",
        "GPT",
    }
