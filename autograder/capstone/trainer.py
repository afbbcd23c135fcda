"""The trainer: one run, step by step, from the first or from a checkpoint, to the best weights that it saw."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from autograder.capstone.batches import Batches
from autograder.capstone.checkpoint import Checkpoint, load, load_weights
from autograder.capstone.corpus import Corpus
from autograder.capstone.hardware import Hardware
from autograder.capstone.journal import Journal
from autograder.capstone.learner import Learner
from autograder.capstone.mishaps import in_words
from autograder.capstone.nested import random_state, restore_random_state
from autograder.capstone.optimizers import Optimizers
from autograder.capstone.presets import Settings
from autograder.capstone.processes import Processes, unsynchronised
from autograder.capstone.shelf import Shelf
from autograder.capstone.trouble import CapstoneError
from autograder.capstone.validation import Validation

#: Steps between two records of the training loss.
RECORD_EVERY = 10


@dataclass(frozen=True)
class Progress:
    """Where a run is, for those who watch it."""

    step: int  # steps done
    steps: int
    loss: float  # of the last batch, nats per character
    tokens_per_second: float


@dataclass(frozen=True)
class Outcome:
    """How a run ended."""

    reason: str  # "finished", "stopped early", "interrupted"
    step: int
    best_step: int
    best_loss: float
    seconds: float  # of this process: a resumed run counts anew


class Watcher(Protocol):
    """Is told what happens; only in the first process."""

    def stepped(self, progress: Progress) -> None: ...

    def validated(self, step: int, loss: float, is_best: bool, model: nn.Module) -> None: ...


class Trainer:
    """Trains one model in one folder. Make it, `resume` or not, then `run`."""

    def __init__(
        self, learner: Learner, corpus: Corpus, settings: Settings, run: Path, hardware: Hardware, processes: Processes
    ) -> None:
        self.settings = settings
        self._corpus, self._run, self._hardware, self._processes = corpus, run, hardware, processes
        self._code, self._folder = learner.code.to_json(), learner.folder
        self._config = settings.config(len(corpus.vocabulary))
        training, validation = corpus.split()
        self._batches = Batches(
            training,
            settings.block_size,
            settings.batch_size,
            settings.seed,
            hardware.device,
            accumulate=settings.accumulate,
            processes=processes,
        )
        self._validation = Validation(validation, settings.block_size)
        self.model = learner.build(self._config, settings.seed).to(hardware.device)
        self._wrapped = processes.wrap(self.model)
        self._forward: Callable[..., Any] = torch.compile(self._wrapped) if settings.compile else self._wrapped
        self._optimizers = Optimizers(self.model, settings)
        self._shelf, self._journal = Shelf(run), Journal(run)
        self._step = 0
        self._best = (math.inf, 0)  # validation loss, step

    def resume(self) -> int:
        """Go back to the last checkpoint of the run; return its step. Raises CapstoneError when it does not fit."""
        checkpoint = load(self._shelf.last(), to_resume=True)
        if checkpoint.corpus["sha256"] != self._corpus.provenance.sha256:
            raise CapstoneError(f"The run in {self._run} was trained on another corpus: give it back, or start anew.")
        load_weights(self.model, checkpoint)
        try:
            self._optimizers.restore(checkpoint.progress["optimizers"])
            best_loss, best_step = checkpoint.progress["best"]
            restore_random_state(checkpoint.progress["random"])
        except (KeyError, ValueError, TypeError) as error:
            raise CapstoneError(f"The optimizer's state in {self._shelf.last()} is not of this run.") from error
        self._best = (math.inf if best_loss is None else float(best_loss), int(best_step))
        self._step = checkpoint.step
        return self._step

    def run(self, watcher: Watcher | None = None, should_stop: Callable[[], bool] = lambda: False) -> Outcome:
        """Train until the last step, until validation stops getting better, or until `should_stop`.

        The state is kept at each validation and when stopped. Raises CapstoneError for a loss that is no number, no
        memory or a full disk: the last checkpoint stays.
        """
        started = time.perf_counter()
        if self._processes.first:
            self._journal.cut(self._step)
        self.model.train()
        with in_words(self.settings, self._folder, "Training"):
            reason = self._steps(watcher, should_stop)
        best_loss, best_step = self._best
        return Outcome(reason, self._step, best_step, best_loss, time.perf_counter() - started)

    def _steps(self, watcher: Watcher | None, should_stop: Callable[[], bool]) -> str:
        settings, first = self.settings, self._processes.first
        clock, since = time.perf_counter(), self._step
        while self._step < settings.steps:
            asked = self._processes.count == 1 or self._step % RECORD_EVERY == 0  # agreeing takes time
            if asked and self._processes.agree(should_stop()):
                self._keep(None)
                return "interrupted"
            loss = self._train_step()
            self._step += 1
            due = self._step % RECORD_EVERY == 0 or self._step == settings.steps
            validating = self._step % settings.evaluate_every == 0 or self._step == settings.steps
            if not (due or validating):
                continue
            number = self._processes.sum(float(loss)) / self._processes.count  # waits for the device, so not each step
            self._refuse_no_number(number)
            now = time.perf_counter()
            speed = (self._step - since) * settings.batch_size * settings.block_size / max(now - clock, 1e-9)
            if first:
                record = {"step": self._step, "loss": number, "tokens_per_second": round(speed, 1)}
                self._journal.add({**record, "rate": self._factor * settings.rate})
                if watcher:
                    watcher.stepped(Progress(self._step, settings.steps, number, speed))
            if validating and self._validate(watcher):
                return "stopped early"
            clock, since = time.perf_counter(), self._step
        return "finished"

    def _train_step(self) -> Tensor:
        """Do one step; return this process's share of the loss, on the device."""
        self._factor = self._optimizers.set_step(self._step)
        self._optimizers.zero_grad()
        parts = self.settings.accumulate
        total = torch.zeros((), device=self._hardware.device)
        for part, (idx, targets) in enumerate(self._batches(self._step)):
            with unsynchronised(self._wrapped, last=part == parts - 1):
                with self._hardware.autocast():
                    loss = self._forward(idx, targets)[1] / parts
                loss.backward()
            total += loss.detach()
        nn.utils.clip_grad_norm_(self.model.parameters(), self.settings.clip)
        self._optimizers.step()
        return total

    def _validate(self, watcher: Watcher | None) -> bool:
        """Measure, keep, and tell whether to stop early."""
        loss = self._validation.loss(self.model, self._hardware, self._processes)
        self._refuse_no_number(loss)
        is_best = loss < self._best[0]
        if is_best:
            self._best = (loss, self._step)
        if self._processes.first:
            self._journal.add({"step": self._step, "validation_loss": loss})
        self._keep(loss)
        if watcher and self._processes.first:
            watcher.validated(self._step, loss, is_best, self.model)
        return self._step - self._best[1] >= self.settings.patience and self._step < self.settings.steps

    def _keep(self, validation_loss: float | None) -> None:
        if self._processes.first and (not self._shelf.steps() or self._shelf.steps()[-1] != self._step):
            best_loss, best_step = self._best
            self._shelf.put(
                Checkpoint(
                    config=self._config,
                    vocabulary=self._corpus.provenance.vocabulary,
                    corpus=dataclasses.asdict(self._corpus.provenance),
                    step=self._step,
                    validation_loss=validation_loss,
                    settings=self.settings.to_json(),
                    code=self._code,
                    weights=self.model.state_dict(),
                    progress={
                        "optimizers": self._optimizers.state(),
                        "random": random_state(),
                        "best": [best_loss if math.isfinite(best_loss) else None, best_step],
                    },
                ),
                best_step,
            )
        self._processes.wait()

    def _refuse_no_number(self, loss: float) -> None:
        if math.isfinite(loss):
            return
        kept = self._shelf.steps()
        saved = f"The checkpoint of step {kept[-1]} stays as it is." if kept else "No checkpoint was written yet."
        raise CapstoneError(
            f"The loss became {loss} within the {RECORD_EVERY} steps before step {self._step}. {saved} "
            f"Mostly the learning rate is too high: start anew with --learning-rate {self.settings.rate / 3:.2g}; or "
            "attention makes a row that is all -inf: workshop check attention."
        )
