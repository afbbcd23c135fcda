"""Claims about `workshop train` and `workshop generate`: from the student's code to text, and what stops them."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from answers import SOLUTIONS, changed, single_file, solutions, write
from capstone_samples import toy_corpus
from typer.testing import CliRunner, Result

from autograder.capstone.checkpoint import load
from autograder.capstone.shelf import Shelf, find_checkpoint
from autograder.cli import app

TRAINING = (SOLUTIONS / "training.py").read_text(encoding="utf-8")
#: The cpu preset's model on little text: a second or two.
QUICK = ("--batch-size", 2, "--block-size", 8, "--steps", 6, "--evaluate-every", 3, "--threads", 1, "--device", "cpu")
SURE = ("--precision", "fp32", "--no-proof", "--no-samples")


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The student's code and a corpus where the commands look for them; nothing of it stays imported."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NO_COLOR", "1")
    write(tmp_path / "mine", solutions())
    toy_corpus(tmp_path / "data" / "corpus")
    modules, places, threads = dict(sys.modules), list(sys.path), torch.get_num_threads()
    yield
    torch.set_num_threads(threads)
    sys.path[:] = places
    for name in set(sys.modules) - set(modules):
        if name in ("attention", "block", "config", "gpt", "mlp", "model"):
            del sys.modules[name]


def workshop(*words: object) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words])


def train(*words: object) -> Result:
    return workshop("train", "--path", "mine", *QUICK, *words)


def shell(*command: object, **extra: str) -> subprocess.CompletedProcess[str]:
    root = str(Path(__file__).parents[1])
    environment = {**os.environ, "PYTHONPATH": root, "OMP_NUM_THREADS": "1", **extra}
    words = [sys.executable, "-m", *map(str, command)]
    return subprocess.run(words, capture_output=True, text=True, env=environment, timeout=240, check=False)


def weights(run: str) -> bytes:
    tensors = load(Shelf(Path(run)).last()).weights
    return b"".join(tensors[name].numpy().tobytes() for name in sorted(tensors))


# The whole way


def test_a_student_trains_and_writes(tmp_path: Path) -> None:
    told = train("--out", "run")
    assert told.exit_code == 0, told.output
    for said in ("Preset cpu", "Proof run: 802,", "Forward and backward: fp32", "step 6/6  validation", "Finished."):
        assert said in told.output, said
    names = {path.name for path in Path("run").iterdir()}
    assert names == {"checkpoints", "code", "loss.png", "metrics.jsonl"}
    records = [json.loads(line) for line in Path("run/metrics.jsonl").read_text().splitlines()]
    assert [record["step"] for record in records if "validation_loss" in record] == [3, 6]

    first = workshop("generate", "run", "--prompt", "my lord", "--tokens", 40, "--seed", 7)
    assert first.exit_code == 0, first.output
    assert first.stdout.startswith("my lord") and len(first.stdout) == len("my lord") + 40 + 1
    assert workshop("generate", "run", "--prompt", "my lord", "--tokens", 40, "--seed", 7).stdout == first.stdout
    unseeded = workshop("generate", "run", "--tokens", 5)
    assert re.search(r"again with --seed \d+", unseeded.stderr)
    elsewhere = find_checkpoint(Path("run")).rename(tmp_path / "moved")
    assert workshop("generate", elsewhere, "--path", "mine", "--tokens", 5, "--temperature", 0).exit_code == 0


def test_a_model_in_one_file_is_trained_too() -> None:
    write(Path("single"), {"model.py": single_file()})
    told = workshop("train", "--path", "single/model.py", *QUICK, *SURE, "--out", "run")
    assert told.exit_code == 0, told.output
    assert load(Shelf(Path("run")).last()).code["sources"]["GPT"] == "model.py"


def test_the_solutions_are_trained_only_when_asked_for_and_not_copied() -> None:
    told = workshop("train", "--reference", *QUICK, *SURE, "--out", "run")
    assert told.exit_code == 0, told.output
    assert not Path("run/code").exists()
    assert workshop("generate", "run", "--tokens", 5).exit_code == 0
    assert workshop("generate", "run", "--tokens", 5, "--reference").exit_code == 0


def test_a_missing_corpus_is_built_only_at_its_usual_place(monkeypatch: pytest.MonkeyPatch) -> None:
    told = train("--corpus", "elsewhere", "--out", "run")
    assert told.exit_code == 1 and "workshop data --out elsewhere" in told.output
    from autograder.capstone import corpus

    made = corpus.load(Path("data/corpus"))
    Path("data/corpus/provenance.json").unlink()
    monkeypatch.setattr(corpus, "from_plays", lambda _: made)
    told = train(*SURE, "--out", "run")
    assert told.exit_code == 0 and "building nine plays" in told.output


def test_the_default_gpt_trains_on_a_cpu() -> None:
    few = ("--steps", 1, "--batch-size", 1, "--block-size", 64, "--threads", 1, "--device", "cpu")
    told = workshop("train", "--reference", "--preset", "gpu", *few, *SURE, "--out", "run")
    assert told.exit_code == 0, told.output
    config = load(find_checkpoint(Path("run"))).config
    assert config == {"vocab_size": 65, "block_size": 64, "n_layer": 6, "n_head": 6, "n_embd": 384}


# Going on


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="this system has no kill -9")
def test_a_killed_run_goes_on_to_the_same_bits() -> None:
    """The model kills its own process in a forward pass, between two checkpoints."""
    hook = """        import os
        GPT.calls = getattr(GPT, "calls", 0) + 1
        if str(GPT.calls) == os.environ.get("DIE_AT_CALL"):
            os.kill(os.getpid(), 9)
        _, T = idx.shape
"""
    write(Path("mine"), changed("gpt.py", "        _, T = idx.shape\n", hook))
    order = ("autograder", "train", "--path", "mine", *QUICK, *SURE, "--out", "killed")
    measuring, validation = 4, 2  # 399 characters are validated: 49 whole windows of 8 at once, and one of 7
    killed = shell(*order, DIE_AT_CALL=str(measuring + 3 + validation + 2))  # in the fifth step
    assert killed.returncode in (-signal.SIGKILL, 137), killed.stdout + killed.stderr
    assert Shelf(Path("killed")).steps() == [3]
    gone_on = workshop("train", "--path", "mine", *QUICK, *SURE, "--out", "killed", "--resume")
    assert gone_on.exit_code == 0 and "Going on from step 3 of 6" in gone_on.output, gone_on.output
    assert train(*SURE, "--out", "whole").exit_code == 0
    assert weights("killed") == weights("whole")


def test_a_run_is_not_overwritten_by_accident() -> None:
    assert train(*SURE, "--out", "run").exit_code == 0
    before = weights("run")
    refused = train(*SURE, "--out", "run")
    assert refused.exit_code == 1 and "--resume" in refused.output and "--overwrite" in refused.output
    write(Path("mine"), changed("mlp.py", "return self.c_proj(hidden)", "raise KeyError"))
    assert train("--out", "run", "--overwrite").exit_code == 1
    assert weights("run") == before  # a model that cannot be trained does not cost the earlier run
    write(Path("mine"), solutions())
    assert train(*SURE, "--out", "run", "--overwrite", "--seed", 5).exit_code == 0
    assert weights("run") != before


def test_resuming_keeps_the_settings_and_the_code_of_the_run() -> None:
    nothing_yet = train(*SURE, "--out", "run", "--resume")
    assert nothing_yet.exit_code == 0 and "training starts from the beginning" in nothing_yet.output
    other = train("--out", "run", "--resume", "--steps", 99)
    assert other.exit_code == 1 and "steps = 6, not 99" in other.output
    Path("run/code/gpt.py").write_text("print('other')", encoding="utf-8")
    changed_since = workshop("train", "--resume", "--out", "run")
    assert (
        changed_since.exit_code == 1 and "gpt.py is not the file that this run was trained with" in changed_since.output
    )
    assert workshop("generate", "run").exit_code == 1


def test_interrupting_keeps_the_step(monkeypatch: pytest.MonkeyPatch) -> None:
    hook = "        import os, signal\n        os.kill(os.getpid(), signal.SIGINT)\n        _, T = idx.shape\n"
    assert train(*SURE, "--steps", 1, "--out", "run").exit_code == 0
    write(Path("mine"), changed("gpt.py", "        _, T = idx.shape\n", hook))
    twice = train(*SURE, "--out", "twice")
    assert twice.exit_code == 130 and "--resume" in twice.output  # the second Ctrl-C does not wait for the step
    once = hook.replace("os.kill", "getattr(GPT, 'done', None) or setattr(GPT, 'done', 1) or os.kill")
    write(Path("mine"), changed("gpt.py", "        _, T = idx.shape\n", once))
    stopped = train(*SURE, "--out", "once")
    assert stopped.exit_code == 130 and "it is kept" in stopped.output
    assert Shelf(Path("once")).steps() == [0]


# Several processes


def test_two_processes_agree_with_one() -> None:
    words = ("train", "--path", "mine", *QUICK, *SURE, "--optimizer", "adamw")
    two = shell(
        "torch.distributed.run", "--standalone", "--nproc-per-node", 2, "-m", "autograder", *words, "--out", "two"
    )
    assert two.returncode == 0, two.stdout + two.stderr
    assert two.stdout.count("Finished.") == 1
    assert train(*SURE, "--optimizer", "adamw", "--accumulate", 2, "--out", "one").exit_code == 0
    one_run, two_run = (load(Shelf(Path(name)).last()) for name in ("one", "two"))
    for name, tensor in one_run.weights.items():
        assert torch.allclose(tensor, two_run.weights[name], atol=1e-5), name
    assert one_run.validation_loss == pytest.approx(two_run.validation_loss, abs=1e-4)


def test_two_processes_with_an_own_train_step_and_parts_of_a_batch_agree_with_one() -> None:
    write(Path("mine"), {"training.py": TRAINING})
    words = ("train", "--path", "mine", *QUICK, *SURE, "--batch-size", 4, "--optimizer", "own")
    launch = ("torch.distributed.run", "--standalone", "--nproc-per-node", 2, "-m", "autograder")
    two = shell(*launch, *words, "--accumulate", 2, "--out", "two")
    assert two.returncode == 0, two.stdout + two.stderr
    assert two.stdout.count("Training with your own get_batch, learning_rate, configure_optimizer, train_step") == 1
    one = workshop(*words, "--accumulate", 4, "--out", "one")
    assert one.exit_code == 0, one.output
    one_run, two_run = (load(Shelf(Path(name)).last()) for name in ("one", "two"))
    assert (
        one_run.settings["own"] == two_run.settings["own"] == "get_batch,learning_rate,configure_optimizer,train_step"
    )
    for name, tensor in one_run.weights.items():
        assert torch.allclose(tensor, two_run.weights[name], atol=1e-5), name
    assert one_run.validation_loss == pytest.approx(two_run.validation_loss, abs=1e-4)


# What stops them


@pytest.mark.parametrize(
    ("file", "find", "replace", "said"),
    [
        (
            "attention.py",
            "future = position[None, :] > position[:, None]",
            "future = position[None, :] > 99",
            "the future",
        ),
        ("mlp.py", "return self.c_proj(hidden)", "raise NotImplementedError", "unfinished part (mlp.py, line"),
        ("mlp.py", "return self.c_proj(hidden)", "return hidden", "raised RuntimeError"),
        ("gpt.py", "return logits, loss", "return loss", "it returned a Tensor"),
        ("gpt.py", "super().__init__()", "pass", "Building GPT raised"),
        ("block.py", "from mlp import MLP", "from mlp import MPL", "Importing block.py raised ImportError"),
        ("config.py", "class GPTConfig:", "class Config:", "config.py defines no GPTConfig"),
        (
            "gpt.py",
            "class GPT(nn.Module):",
            "def GPT(config):\n    return 1\nclass Other(nn.Module):",
            "does not make an nn.Module",
        ),
    ],
)
def test_code_that_cannot_be_trained_is_told_before_the_run(file: str, find: str, replace: str, said: str) -> None:
    write(Path("mine"), changed(file, find, replace))
    told = train("--out", "run")
    assert told.exit_code == 1 and said in told.output, told.output
    assert "Traceback" not in told.output and not Path("run/checkpoints").exists()


def test_the_stubs_are_told_to_be_unfinished() -> None:
    exercises = Path(__file__).parents[1] / "exercises"
    told = workshop("train", "--path", exercises, *QUICK, "--out", "run")
    assert told.exit_code == 1 and "finish GPTConfig first: workshop check config" in told.output


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--preset", "tpu"), "there are: cpu, laptop, gpu"),
        (("--optimizer", "sgd"), "there are: muon, adamw"),
        (("--device", "tpu"), "--device is one of"),
        (("--precision", "fp8"), "--precision one of"),
        (("--block-size", 100_000), "smaller --block-size"),
        (("--accumulate", 3), "equal parts"),
        (("--learning-rate", 0), "above 0"),
        (("--path", "nowhere"), "nowhere is not there"),
        (("--path", "data"), "data:"),
    ],
)
def test_orders_that_cannot_be_carried_out_are_refused(words: tuple[object, ...], said: str) -> None:
    told = train("--out", "run", *words)
    assert told.exit_code == 1 and said in told.output, told.output
    assert "Traceback" not in told.output


def test_generate_refuses_what_is_no_checkpoint_of_its_own() -> None:
    assert "There is no checkpoint" in workshop("generate", "nowhere").output
    assert train(*SURE, "--out", "run").exit_code == 0
    unknown = workshop("generate", "run", "--prompt", "caf\xe9", "--tokens", 5)
    assert unknown.exit_code == 1 and "lacks '\\xe9'" in unknown.output
    place = find_checkpoint(Path("run"))
    state = json.loads((place / "state.json").read_text())
    for code in ({}, {"kind": "student", "files": {"../../mine/gpt.py": "0"}, "sources": {}, "lenient": []}):
        (place / "state.json").write_text(json.dumps({**state, "code": code}))
        assert workshop("generate", "run", "--tokens", 5).exit_code == 1
    write(Path("mine"), changed("mlp.py", "4 * config.n_embd, config.n_embd", "4 * config.n_embd, 2 * config.n_embd"))
    misfit = workshop("generate", place, "--path", "mine")
    assert misfit.exit_code == 1 and "has the shape" in misfit.output


def test_the_commands_are_found_in_the_help() -> None:
    shown = workshop("--help").output
    for command in ("data", "train", "generate"):
        assert re.search(rf"^  {command} ", shown, re.MULTILINE)
        assert "Examples:" in workshop(command, "--help").output
