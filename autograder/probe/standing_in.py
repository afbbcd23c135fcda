"""Where stand-ins go: in place of a submission's classes while a model is built, or of a model's sub-modules."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from torch import nn

from autograder.probe.loading import Loaded
from autograder.probe.standins import standin_class


@contextlib.contextmanager
def standing_in(
    loaded: Loaded, kinds: dict[str, str], built: list[str], width: int, expected: dict[str, int]
) -> Iterator[None]:
    """Put stand-ins in place of the student's classes, wherever the submission's modules refer to them."""
    undo: list[tuple[Any, str, Any]] = []
    for name, kind in kinds.items():
        original = loaded.classes.get(name)
        fake = standin_class(kind, name, built, width, expected)
        for module in loaded.modules:
            for key, value in list(vars(module).items()):
                # By name as well: a class may be there twice, once in its own file and once in model.py.
                if key == name or (original is not None and value is original):
                    undo.append((module, key, value))
                    setattr(module, key, fake)
    try:
        yield
    finally:
        for module, key, value in undo:
            setattr(module, key, value)


def place(model: nn.Module, path: str, module: nn.Module) -> None:
    """Put `module` where the model has a sub-module now. Raises AttributeError when there is none."""
    nn.Module.get_submodule(model, path)
    parent, _, name = path.rpartition(".")
    nn.Module.__setattr__(nn.Module.get_submodule(model, parent), name, module)
