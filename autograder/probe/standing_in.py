"""Where stand-ins go: in place of a submission's classes while a model is built, or of a model's sub-modules."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from torch import nn

from autograder.probe.constructing import argument_names
from autograder.probe.loading import Loaded


@contextlib.contextmanager
def standing_in(
    loaded: Loaded, kinds: dict[str, str], make: Callable[[str, str, list[str]], type[nn.Module]]
) -> Iterator[None]:
    """Put stand-ins in place of the student's classes, wherever the submission's modules refer to them.

    `make` makes one, out of its kind, the name of the class, and the names of that class's arguments in order.
    """
    undo: list[tuple[Any, str, Any]] = []
    for name, kind in kinds.items():
        original = loaded.classes.get(name)
        fake = make(kind, name, argument_names(original))
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
