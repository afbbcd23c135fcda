"""What `workshop train` shows: a bar with loss, speed and remaining time; validation losses; samples as it learns."""

from __future__ import annotations

import time
from types import TracebackType
from typing import TYPE_CHECKING

from rich.text import Text

from autograder.cli.screen import Screen

if TYPE_CHECKING:
    from torch import nn

    from autograder.capstone.trainer import Progress
    from autograder.capstone.vocabulary import Vocabulary

#: Characters of a sample: a speech, and not so many that drawing them takes long beside the training.
SAMPLE = 120


class TrainingScreen:
    """A watcher of the trainer that draws on a screen; without a terminal it prints a line at each validation."""

    def __init__(self, screen: Screen, vocabulary: Vocabulary, block_size: int, seed: int, *, samples: bool) -> None:
        from rich import progress as rich_progress

        self._screen, self._vocabulary, self._block_size, self._seed = screen, vocabulary, block_size, seed
        self._samples = samples
        columns = (
            rich_progress.BarColumn(bar_width=24),
            rich_progress.TextColumn("{task.description}", markup=False),
            rich_progress.TimeRemainingColumn(compact=True),
        )
        self._bar = rich_progress.Progress(*columns, console=screen, transient=True, disable=not screen.animated)
        self._task = self._bar.add_task("starting", total=None)
        self._started = time.perf_counter()
        self._last: Progress | None = None

    def __enter__(self) -> TrainingScreen:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._bar.stop()

    def stepped(self, progress: Progress) -> None:
        self._last = progress
        said = f"step {progress.step}/{progress.steps}  loss {progress.loss:.3f}  {thousands(progress)} characters/s"
        self._bar.update(self._task, total=progress.steps, completed=progress.step, description=said)

    def validated(self, step: int, loss: float, is_best: bool, model: nn.Module) -> None:
        last = self._last
        training = f"  training {last.loss:.3f}  {thousands(last)} characters/s" if last else ""
        of = f"/{last.steps}" if last else ""
        seconds = time.perf_counter() - self._started
        better = "  best so far" if is_best else ""
        self._screen.print(f"step {step}{of}  validation {loss:.4f}{training}  {seconds:.0f} s{better}", soft_wrap=True)
        if self._samples:
            for line in self._sample(model).split("\n"):
                self._screen.print(Text(f"    {line}"), soft_wrap=True)

    def _sample(self, model: nn.Module) -> str:
        import torch

        from autograder.capstone.sampling import sample
        from autograder.reports.plain import clean

        first = torch.zeros(1, dtype=torch.int64)  # the first character of every vocabulary: mostly a newline
        ids = sample(model, first, SAMPLE, self._block_size, seed=self._seed)
        return clean(self._vocabulary.decode(ids).strip("\n"), multiline=True)


def thousands(progress: Progress) -> str:
    """Return the speed as it is read at a glance: 21,400."""
    return f"{round(progress.tokens_per_second, -2):,.0f}"
