"""A trained model in a locked-in process of its own: token ids go in, logits come back; nothing else is believed."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Self

import torch
from torch import Tensor

from autograder.capstone.handed_over import HandedOver
from autograder.capstone.trouble import CapstoneError
from autograder.checks.registry import Outcome, Stopped
from autograder.checks.replies import Model
from autograder.checks.student import Call, Student
from autograder.probe.client import ProbeFailure
from autograder.sandbox import Limits, Nursery
from autograder.sandbox.scratch import let_pass
from autograder.submission import write_tree
from autograder.track import Track
from autograder.verdict import Verdict

#: The 10.8M model reads 110,000 characters in a minute or two on one core; a pass of 8,192 of them in some seconds.
LIMITS = Limits(wall_s=120.0, cpu_s=1800, memory_mb=6144)
#: Bytes of logits in one reply; the protocol carries 64 MiB in one tensor.
_REPLY = 32 * 1024**2
#: Ids in one request: activations of this many fit into the memory limit for every model of the presets.
_AT_ONCE = 8_192


class OurFault(CapstoneError):
    """The grader failed, not the model: nothing is known about it."""


class SandboxedModel:
    """The model of a run, with its weights. A context manager; the process ends with it.

    Raises CapstoneError, with a sentence, for whatever the model's code does wrong; OurFault where it cannot be run.
    """

    def __init__(self, handed: HandedOver, track: Track, nursery: Nursery, *, dtype: str = "float32") -> None:
        self._handed, self._track, self._dtype = handed, track, dtype
        self._part = track.parts[-1]
        self._folder = tempfile.TemporaryDirectory(prefix="workshop-")
        self._tree = Path(self._folder.name).resolve() / "submission"
        self._student = Student(handed.submission, track, nursery, LIMITS, self._tree)
        self._model: Model | None = None

    def __enter__(self) -> Self:
        try:
            self._load()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the process and remove its files. May be called twice."""
        self._student.close()
        self._folder.cleanup()

    @property
    def at_once(self) -> int:
        """How many ids one request may hold."""
        return max(1, min(_AT_ONCE, _REPLY // (8 * self._handed.checkpoint.config["vocab_size"])))

    @property
    def tampering(self) -> str:
        """What the code did that cannot be a mistake; empty if nothing was seen."""
        return self._student.tampering[0] if self._student.tampering else ""

    def log_probabilities(self, idx: Tensor) -> Tensor:
        """Return the logarithms of the probabilities of each next token: (B, T) int64 -> (B, T, V) float64.

        Normalised here, from the logits: whatever the code returns becomes a distribution.
        """
        return self.logits(idx).double().log_softmax(dim=-1)

    def logits(self, idx: Tensor) -> Tensor:
        """Return the logits, (B, T) int64 -> (B, T, V); `idx` in as many requests as its size asks for."""
        rows = max(1, self.at_once // idx.shape[1])
        return torch.cat([self._call(part) for part in torch.split(idx, rows)])

    def _call(self, idx: Tensor) -> Tensor:
        assert self._model is not None, "enter the context first"
        try:
            answer = self._student.attempt(self._part, self._model, Call({"idx": idx.contiguous()}))
        except ProbeFailure as failure:
            raise _said("When it is called", failure) from None
        if isinstance(answer, Outcome):
            raise CapstoneError(f"The model cannot be evaluated: {answer.message}")
        self._refuse_tampering()
        logits, wanted = answer.first, (*idx.shape, self._handed.checkpoint.config["vocab_size"])
        if not isinstance(logits, Tensor) or tuple(logits.shape) != wanted or not logits.is_floating_point():
            found = f"of shape {tuple(logits.shape)}" if isinstance(logits, Tensor) else "no tensor"
            raise CapstoneError(f"Its logits should have the shape {wanted}, and are {found}.")
        if not bool(logits.isfinite().all()):
            raise CapstoneError("Its logits are not all finite numbers.")
        return logits

    def _load(self) -> None:
        self._tree.mkdir()
        self._tree.chmod(0o755)  # whatever the umask: the child may run as another user
        let_pass(self._tree.parent)
        write_tree(self._handed.submission, self._tree)
        config, weights = self._handed.checkpoint.config, self._handed.checkpoint.weights
        try:
            self._student.load()
            self._refuse_unloaded()
            self._model = self._student.build(self._part, config, stand_ins="none", dtype=self._dtype)
            self._refuse_other_parameters(self._model)
            self._student.load_weights(self._model, weights)
        except ProbeFailure as failure:
            raise _said("When it is loaded", failure) from None
        except Stopped as stopped:
            raise CapstoneError(f"The model cannot be built: {stopped.outcome.message}") from None
        self._refuse_tampering()

    def _refuse_unloaded(self) -> None:
        for part in self._track.parts:
            facts = self._student.facts_of(part)
            if facts.fault is not None:
                fault = facts.fault
                raise CapstoneError(
                    f"{facts.file} cannot be imported: {fault.type}: {fault.message} (line {fault.line})."
                )
            if not facts.found:
                raise CapstoneError(f"There is no class {part.class_name} in the code of this run.")

    def _refuse_other_parameters(self, model: Model) -> None:
        """Every parameter must come from the checkpoint: one that stays as it was drawn was never trained."""
        weights = self._handed.checkpoint.weights
        for parameter in model.parameters:
            given = weights.get(parameter.name)
            if given is None or tuple(given.shape) != parameter.shape:
                raise CapstoneError(
                    f"The model has a parameter {parameter.name!a} {parameter.shape}, which the checkpoint does not "
                    "hold: this is not the code that it was trained with."
                )

    def _refuse_tampering(self) -> None:
        if self.tampering:
            raise CapstoneError(f"Not evaluated: {self.tampering}")


def _said(when: str, failure: ProbeFailure) -> CapstoneError:
    if failure.verdict is Verdict.UNGRADABLE:
        return OurFault(failure.message)
    return CapstoneError(f"{when}: {failure.message}")
