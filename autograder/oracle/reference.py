"""The live reference: our own solutions, evaluated in float64 under the weights and inputs of a case.

Never imported by a process that runs student code. Expected values are computed on the grader's own copies, before a
student's code sees the inputs.
"""

from __future__ import annotations

import os
import sys
import threading
import types
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor, nn

import autograder
from autograder.oracle.cases import Config
from autograder.oracle.expected import Expected as Expected
from autograder.oracle.expected import SolutionsNotFound as SolutionsNotFound
from autograder.oracle.expected import count as count
from autograder.probe.standins import standin_class
from autograder.track import Part, Track

#: Loading swaps entries of sys.modules for a moment; two graders in one process must not do it at once.
_LOADING = threading.Lock()


def find_solutions(track: Track | None = None) -> Path:
    """Return the folder of a track's reference: $WORKSHOP_SOLUTIONS, the checkout's, or the one packed with the kit.

    Raises SolutionsNotFound. Without a track: that of the gpt track.
    """
    inside, last = (track.folder, track.parts[-1].file) if track is not None else ("", "gpt.py")
    package = Path(autograder.__file__).parent
    candidates = [package.parent / "solutions", package / "_solutions"]
    if os.environ.get("WORKSHOP_SOLUTIONS"):
        candidates.insert(0, Path(os.environ["WORKSHOP_SOLUTIONS"]))
    for folder in candidates:
        if (folder / inside / last).is_file():
            return folder / inside
    raise SolutionsNotFound(
        "the reference solutions were not found: run from the course's checkout, or set WORKSHOP_SOLUTIONS"
    )


class Reference:
    """Evaluates the solutions of one track."""

    def __init__(self, track: Track, folder: Path | None = None) -> None:
        self.track = track
        self._folder = folder or find_solutions(track)
        self._real = self._load()
        self._wiring = self._load()
        self._kept = threading.local()
        for part in track.parts:
            for name in part.uses.values():
                used = track.part(name)
                fake = standin_class(used.role, used.class_name, takes=used.constructor, out=used.width)
                setattr(self._wiring[part.name], used.class_name, fake)

    def build(self, part: Part, config: Config, *, stand_ins: bool) -> nn.Module:
        """Build the reference of `part` in float64, with its real sub-parts or with stand-ins."""
        modules = self._wiring if stand_ins else self._real
        cls, config_part = getattr(modules[part.name], part.class_name), self.track.config_part
        if part.constructor or config_part is None:
            model = cls(**part.arguments(config))
        else:
            model = cls(getattr(modules[config_part.name], config_part.class_name)(**config))
        assert isinstance(model, nn.Module)
        return model.double()

    def evaluate(
        self,
        part: Part,
        config: Config,
        weights: Mapping[str, Tensor],
        inputs: Mapping[str, Tensor],
        *,
        stand_ins: bool = True,
        cotangent: Tensor | None = None,
        loss: bool = False,
    ) -> Expected:
        """Return outputs, and with `cotangent` (on the first output) or `loss` also gradients, in float64.

        A tensor of the contract that `weights` lacks counts as zero.
        """
        model = self._built(part, config, stand_ins)
        with torch.no_grad():
            for name, parameter in model.named_parameters(remove_duplicate=False):
                parameter.grad = None
                if name in weights:
                    parameter.copy_(weights[name])
                else:
                    parameter.zero_()
        given = {name: _leaf(value) for name, value in inputs.items()}
        output = model(*given.values())
        outputs = tuple(output) if isinstance(output, tuple) else (output,)
        gradients: dict[str, Tensor] = {}
        if loss:
            outputs[1].backward()
        elif cotangent is not None:
            (outputs[0] * cotangent.double()).sum().backward()  # backward(cotangent) would import sympy
        if loss or cotangent is not None:
            gradients = {f"input.{name}": value.grad for name, value in given.items() if value.grad is not None}
            for name, parameter in model.named_parameters(remove_duplicate=False):
                gradients[name] = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
        return Expected(tuple(None if o is None else o.detach() for o in outputs), gradients)

    def _built(self, part: Part, config: Config, stand_ins: bool) -> nn.Module:
        """Return a model to be given weights: the same one again for the same sizes, in the same thread."""
        models: dict[tuple[object, ...], nn.Module] = vars(self._kept).setdefault("models", {})
        key = (part.name, *config.values(), stand_ins)
        if key not in models:
            models[key] = self.build(part, config, stand_ins=stand_ins)
        return models[key]

    def _load(self) -> dict[str, types.ModuleType]:
        """Execute the solution files in order, as modules of their own that nobody else can import."""
        names = [Path(part.file).stem for part in self.track.parts]
        loaded: dict[str, types.ModuleType] = {}
        with _LOADING:
            hidden = {name: sys.modules.pop(name) for name in names if name in sys.modules}
            try:
                for part in self.track.parts:
                    path = self._folder / part.file
                    module = types.ModuleType(Path(part.file).stem)
                    module.__file__ = str(path)
                    sys.modules[module.__name__] = module
                    exec(compile(path.read_bytes(), str(path), "exec"), vars(module))
                    loaded[part.name] = module
            finally:
                for name in names:
                    sys.modules.pop(name, None)
                sys.modules.update(hidden)
        return loaded


def _leaf(value: Tensor) -> Tensor:
    """Return the grader's own copy: float64 and differentiable when it is of floating point, else the ids."""
    return value.detach().double().clone().requires_grad_(True) if value.is_floating_point() else value.clone()
