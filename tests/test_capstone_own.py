"""`workshop train --optimizer own`: the student's training functions where they pass, the kit's where not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from answers import SOLUTIONS, solutions, write
from capstone_samples import toy_corpus, toy_settings
from typer.testing import CliRunner

from autograder.capstone.batches import Batches
from autograder.capstone.corpus import Corpus
from autograder.capstone.hardware import Hardware
from autograder.capstone.learner import Learner, keep_code, own_learner
from autograder.capstone.optimizers import rate_factor
from autograder.capstone.own import CHECKS, OwnTrainer, choose
from autograder.capstone.processes import Processes
from autograder.capstone.trouble import CapstoneError
from autograder.cli import app
from autograder.track import load_track

CPU = Hardware(torch.device("cpu"), "fp32")
TRAINING = (SOLUTIONS / "training.py").read_text(encoding="utf-8")


@pytest.fixture
def corpus(tmp_path: Path) -> Corpus:
    return toy_corpus(tmp_path / "corpus")


def learner(folder: Path, training: str = TRAINING) -> Learner:
    return own_learner(write(folder, {**solutions(), "training.py": training}), load_track())


def trainer(corpus: Corpus, run: Path, who: Learner, own: str = ",".join(CHECKS), **changes: Any) -> OwnTrainer:
    settings = toy_settings(optimizer="own", own=own, **changes)
    return OwnTrainer(who, corpus, settings, run, Hardware(torch.device("cpu"), "fp32"), Processes())


def test_own_functions_train_the_model_and_a_stopped_run_ends_with_the_same_bits(
    corpus: Corpus, tmp_path: Path
) -> None:
    who = learner(tmp_path / "me")
    whole = trainer(corpus, tmp_path / "whole", who)
    first = whole._validation.loss(whole.model, whole._hardware, whole._processes)
    outcome = whole.run()
    assert outcome.reason == "finished" and outcome.best_loss < first - 0.05
    stopped = trainer(corpus, tmp_path / "stopped", who)
    steps = iter(range(100))
    assert stopped.run(should_stop=lambda: next(steps) == 11).reason == "interrupted"
    again = trainer(corpus, tmp_path / "stopped", who)
    assert again.resume() == 11
    again.run()
    for name, value in whole.model.state_dict().items():
        assert torch.equal(value, again.model.state_dict()[name]), name


def test_each_own_function_is_what_is_called(corpus: Corpus, tmp_path: Path) -> None:
    noted = TRAINING + (
        "\n\nCALLS = []\n\n\ndef _noting(function):\n    def call(*args, **kwargs):\n"
        "        CALLS.append(function.__name__)\n        return function(*args, **kwargs)\n\n    return call\n\n\n"
        + "".join(f"{name} = _noting({name})\n" for name in CHECKS)
    )
    who = learner(tmp_path / "me", noted)
    one = trainer(corpus, tmp_path / "run", who, steps=5, accumulate=2)
    one.run()
    calls = one._step_function.__globals__["CALLS"]  # type: ignore[union-attr]
    assert {name: calls.count(name) for name in CHECKS} == {
        "get_batch": 5,
        "learning_rate": 5,
        "configure_optimizer": 1,
        "train_step": 5,
    }


def test_what_is_not_named_is_the_kits(corpus: Corpus, tmp_path: Path) -> None:
    who = learner(tmp_path / "me")
    one = trainer(corpus, tmp_path / "run", who, own="configure_optimizer")
    assert type(one._batches) is Batches and one._step_function is None
    assert one._own.set_step(2) == pytest.approx(rate_factor(2, one.settings))
    kits = trainer(corpus, tmp_path / "other", who, own="train_step")
    decays = [group["weight_decay"] for group in kits._own.single.param_groups]
    assert decays == [kits.settings.weight_decay, 0.0]


def test_functions_that_fail_are_left_out_with_the_reason(tmp_path: Path) -> None:
    wrong = TRAINING.replace("data[places + 1]", "data[places]").replace("optimizer.zero_grad()", "pass")
    folder = write(tmp_path / "me", {**solutions(), "training.py": wrong})
    said: list[str] = []
    assert choose(folder, load_track(), said.append) == "learning_rate,configure_optimizer"
    text = "\n".join(said)
    assert "your own learning_rate, configure_optimizer" in text
    assert "The kit's get_batch stands in for yours: y is x itself" in text
    assert "The kit's train_step stands in for yours: Gradients that were there before" in text


def test_a_run_keeps_the_training_code_that_it_was_begun_with(corpus: Corpus, tmp_path: Path) -> None:
    who = learner(tmp_path / "me")
    keep_code(who, tmp_path / "run" / "code")
    assert (tmp_path / "run" / "code" / "training.py").read_text(encoding="utf-8") == TRAINING
    lost = own_learner(write(tmp_path / "other", solutions()), load_track())
    with pytest.raises(CapstoneError, match=r"defines no get_batch"):
        trainer(corpus, tmp_path / "again", lost)


def test_own_code_that_raises_is_told_with_its_line(corpus: Corpus, tmp_path: Path) -> None:
    who = learner(tmp_path / "me", TRAINING.replace("    model.train()\n    optimizer", "    1 / 0\n    optimizer"))
    with pytest.raises(CapstoneError, match=r"ZeroDivisionError.*training\.py"):
        trainer(corpus, tmp_path / "run", who).run()


def test_a_train_step_that_several_processes_cannot_share_is_refused(
    corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sum that a second process would give stands in for it: the same weights, then others."""
    monkeypatch.setattr(Processes, "wrap", lambda self, model: model)
    monkeypatch.setattr(Processes, "wait", lambda self: None)
    monkeypatch.setattr(Processes, "agree", lambda self, flag: flag)
    two = Processes(0, 2, 0)
    for apart in (0.0, 0.001):
        monkeypatch.setattr(Processes, "sum", lambda self, value, apart=apart: 2 * value + apart)
        one = OwnTrainer(
            learner(tmp_path / "me"),
            corpus,
            toy_settings(optimizer="own", own="train_step"),
            tmp_path / str(apart),
            CPU,
            two,
        )
        if apart:
            with pytest.raises(CapstoneError, match=r"without loss.backward.*--optimizer adamw"):
                one.run()
        else:
            assert one.run().reason == "finished"


def test_without_a_training_py_the_command_says_so(corpus: Corpus, tmp_path: Path) -> None:
    folder = write(tmp_path / "me", solutions())
    words = ["train", "--path", str(folder), "--corpus", str(tmp_path / "corpus"), "--out", str(tmp_path / "run")]
    result = CliRunner().invoke(app, [*words, "--optimizer", "own"])
    assert result.exit_code == 1 and "--optimizer own needs a training.py" in " ".join(result.output.split())
