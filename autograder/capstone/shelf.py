"""The checkpoints of one run: the last, to go on from, and the best, to keep."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from autograder.capstone import checkpoint as files
from autograder.capstone.checkpoint import Checkpoint
from autograder.capstone.trouble import CapstoneError

#: The folder in a run that holds its checkpoints.
FOLDER = "checkpoints"
_STEP = re.compile(r"step-(\d{6,9})")


class Shelf:
    """Keeps the last and the best checkpoint of the run in `run`. Which is the best is told by their losses."""

    def __init__(self, run: Path) -> None:
        self.folder = run / FOLDER

    def steps(self) -> list[int]:
        """Return the steps of the whole checkpoints, in order."""
        if not self.folder.is_dir():
            return []
        found = [_STEP.fullmatch(entry.name) for entry in self.folder.iterdir()]
        return sorted(int(match[1]) for match in found if match)

    def place(self, step: int) -> Path:
        return self.folder / f"step-{step:06}"

    def put(self, made: Checkpoint, best_step: int) -> None:
        """Save `made`, then remove all others but that of `best_step`, and what killed processes left."""
        files.save(made, self.place(made.step))
        for step in self.steps():
            if step not in (made.step, best_step):
                files.remove(self.place(step))
        for entry in self.folder.iterdir():
            if entry.name.startswith("."):
                shutil.rmtree(entry, ignore_errors=True)

    def last(self) -> Path:
        """Return where the last checkpoint is. Raises CapstoneError when there is none."""
        steps = self.steps()
        if not steps:
            raise CapstoneError(f"There is no checkpoint in {self.folder}.")
        return self.place(steps[-1])

    def best(self) -> Path:
        """Return where the checkpoint with the least validation loss is, the earliest of equals."""
        loaded = {step: files.validation_loss_of(self.place(step)) for step in self.steps()}
        if not loaded:
            raise CapstoneError(f"There is no checkpoint in {self.folder}.")
        return self.place(min(loaded, key=lambda step: (loaded[step], step)))


def find_checkpoint(path: Path) -> Path:
    """Return the checkpoint that `path` names: itself, one that a file of it lies in, or the best of a run."""
    if path.is_dir() and (path / FOLDER).is_dir():
        return Shelf(path).best()
    if path.name in (files.MODEL, files.STATE) and path.is_file():
        return path.parent
    return path
