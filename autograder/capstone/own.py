"""Training with the student's own training.py: which of its functions pass, and a trainer that uses those."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from autograder.capstone.batches import Batches
from autograder.capstone.hardware import Hardware
from autograder.capstone.learner import Learner, broken
from autograder.capstone.optimizers import BETAS, Optimizers
from autograder.capstone.presets import Settings
from autograder.capstone.processes import Processes
from autograder.capstone.trainer import Trainer
from autograder.capstone.trouble import CapstoneError
from autograder.probe.faults import Fault, describe_exception
from autograder.probe.loading import Substitutes, load_tree
from autograder.track import Track, load_track
from autograder.verdict import Verdict

#: What a run can use of training.py, and how the ids of its checks begin. The validation loss is always the kit's: over
#: all of the text, so that runs can be compared.
CHECKS = {
    "get_batch": "training.batch_",
    "learning_rate": "training.rate_",
    "configure_optimizer": "training.optimizer_",
    "train_step": "training.step_",
}
#: Any seed will do; with one of its own a run does not depend on luck.
SEED = 1337
#: Sums of the same weights differ by less, relative to their size; those of models trained apart by more.
SAME = 1e-12

Functions = Mapping[str, Callable[..., Any]]


def passing(path: Path, track: Track) -> tuple[list[str], dict[str, str]]:
    """Check training.py at `path` in the sandbox; return the functions that pass, and of the others why they do not."""
    from autograder.grading import grade
    from autograder.sandbox import Nursery
    from autograder.submission import read_submission

    with Nursery() as nursery:
        report = grade(read_submission(path.resolve(), track), track, nursery, seed=SEED, parts=["training"])
    if report.verdict is Verdict.UNGRADABLE:
        return [], dict.fromkeys(CHECKS, f"it could not be checked here ({report.error})")
    found: list[str] = []
    wrong: dict[str, str] = {}
    for name, prefix in CHECKS.items():
        checks = [check for check in report.parts["training"].checks if check.id.startswith(prefix)]
        lost = [check.message for check in checks if check.verdict is not Verdict.PASSED]
        if lost:
            wrong[name] = next((message for message in lost if not message.startswith("Not run")), lost[0])
        else:
            found.append(name)
    return found, wrong


def choose(path: Path, track: Track, say: Callable[[str], object], processes: Processes = Processes()) -> str:  # noqa: B008
    """Return the names of the functions that a run uses, joined by commas, and tell which, and why not the others.

    Of several processes the first one checks, and all use what it found.
    """
    passed, wrong = passing(path, track) if processes.first else ([], {})
    found = [name for name in CHECKS if processes.agree(name in passed)]
    if found:
        say(f"Training with your own {', '.join(found)}.")
    for name, why in wrong.items():
        say(f"The kit's {name} stands in for yours: {why}")
    return ",".join(found)


def own_functions(learner: Learner, names: Sequence[str], track: Track) -> Functions:
    """Load functions from the learner's copy of the code. Raises CapstoneError when they are not there."""
    part = track.part("training")
    sources = {name: learner.code.sources[name] for name in names if name in learner.code.sources}
    files = dict.fromkeys(part.names, part.file)
    loaded = load_tree(
        str(learner.folder), sources, files, frozenset(learner.code.lenient), Substitutes({}, "", track.config)
    )
    for name in names:
        error = loaded.report.get(name, {}).get("error")
        if error:
            raise broken(Fault(**error), f"Importing {part.file}")
        if name not in loaded.classes:
            raise CapstoneError(f"{part.file} defines no {name}, with which this run was begun.")
    return {name: loaded.classes[name] for name in names}


class OwnBatches(Batches):
    """Windows that the student's get_batch draws, from a generator that (seed, step) decides."""

    get_batch: Callable[..., Any]

    def __call__(self, step: int) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield the micro-batches of `step` for this process, as the kit's do."""
        generator = torch.Generator().manual_seed((self._seed * 1_000_003 + step) % 2**63)
        block = len(self._offsets) - 1
        x, y = self.get_batch(self._ids, block, self._batch_size, generator=generator)
        parts = self._accumulate * self._processes.count
        shares = list(zip(x.chunk(parts), y.chunk(parts), strict=True))
        first = self._processes.rank * self._accumulate
        yield from shares[first : first + self._accumulate]


class OwnOptimizers(Optimizers):
    """One optimizer, made by the student where that passes, and the rate of the student's schedule where that does."""

    def __init__(self, model: nn.Module, settings: Settings, functions: Functions) -> None:
        self._settings, self._schedule = settings, functions.get("learning_rate")
        make = functions.get("configure_optimizer", _adamw)
        self.single: torch.optim.Optimizer = make(model, settings.rate, settings.weight_decay, betas=BETAS)
        self._all = [self.single]
        self._rates = [[settings.rate for _ in self.single.param_groups]]

    def set_step(self, step: int) -> float:
        """Set the learning rate for `step`; return it as a share of the highest."""
        if self._schedule is None:
            return super().set_step(step)
        top, settings = self._settings.rate, self._settings
        end = max(settings.steps, settings.warmup + 1)
        rate = float(self._schedule(step, top, top * settings.final_share, settings.warmup, end))
        for group in self.single.param_groups:
            group["lr"] = rate
        return rate / top


class OwnTrainer(Trainer):
    """Trains with the functions that `settings.own` names; in all else it is the kit's trainer."""

    def __init__(
        self, learner: Learner, corpus: Any, settings: Settings, run: Path, hardware: Hardware, processes: Any
    ):
        super().__init__(learner, corpus, settings, run, hardware, processes)
        functions = own_functions(learner, settings.own.split(","), load_track())
        try:
            self._optimizers = self._own = OwnOptimizers(self.model, settings, functions)
        except Exception as error:  # the student's own code, for the student
            raise broken(describe_exception(error, str(learner.folder), "build"), "configure_optimizer") from error
        if "get_batch" in functions:
            own_batches = OwnBatches.__new__(OwnBatches)
            vars(own_batches).update(vars(self._batches))
            own_batches.get_batch = functions["get_batch"]
            self._batches = own_batches
        self._step_function, self._compared = functions.get("train_step"), False
        self._stepped = _Forward(self._wrapped, self._forward, hardware)

    def _train_step(self) -> Tensor:
        if self._step_function is None:
            return super()._train_step()
        self._factor = self._optimizers.set_step(self._step)
        settings = self.settings
        batches = list(self._batches(self._step))
        loss = self._step_function(
            self._stepped, self._own.single, batches, settings.rate * self._factor, settings.clip
        )
        if self._processes.count > 1 and not self._compared:
            self._compare()
        return torch.tensor(float(loss), device=self._hardware.device)

    def _compare(self) -> None:
        """Refuse a train_step that trains another model in each process: once, after the first step.

        Gradients are averaged over the processes by `backward`; one that gets them in another way has its own alone.
        """
        self._compared = True
        own = float(sum(parameter.detach().double().sum() for parameter in self.model.parameters()))
        mean = self._processes.sum(own) / self._processes.count
        if self._processes.agree(abs(mean - own) > SAME * max(1.0, abs(own))):
            raise CapstoneError(
                "Your train_step gets its gradients without loss.backward(), and several processes share theirs there: "
                "each would train another model. Train in one process, or with --optimizer adamw."
            )


class _Forward(nn.Module):
    """The model as train_step sees it: with autocast, compiled where that was asked for."""

    def __init__(self, model: nn.Module, forward: Callable[..., Any], hardware: Hardware) -> None:
        super().__init__()
        self.model = model
        self._call, self._autocast = (forward,), hardware.autocast  # in a tuple: not once more as a sub-module

    def forward(self, idx: Tensor, targets: Tensor) -> Any:
        """Return (logits, loss)."""
        with contextlib.ExitStack() as stack:
            stack.enter_context(self._autocast())
            return self._call[0](idx, targets)


def _adamw(model: nn.Module, lr: float, weight_decay: float, betas: tuple[float, float]) -> torch.optim.Optimizer:
    """The kit's own, as one optimizer."""
    kept = [p for p in model.parameters() if p.requires_grad]
    decaying = {"params": [p for p in kept if p.dim() > 1], "weight_decay": weight_decay}
    others = {"params": [p for p in kept if p.dim() <= 1], "weight_decay": 0.0}
    return torch.optim.AdamW([decaying, others], lr=lr, betas=betas)
