"""Which library functions are still the original ones: snapshot, comparison by identity, repair."""

from __future__ import annotations

import builtins
import json
import operator
import os
import socket
import struct
import sys
import time
import unittest
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import FunctionType, ModuleType
from typing import Any, cast

import numpy as np
import numpy.testing
import torch
import torch.nn.functional
import torch.testing

from autograder.probe.watch_log import Log, listing
from autograder.probe.watch_paths import SECRET_MODULES

#: Held from before student code runs: what is looked for may be that one of these was replaced.
_all, _is, _map, _zip = all, operator.is_, map, zip
#: Whole modules that a grader, or a test, calls to compare tensors or to talk. builtins first: all the rest needs it.
MODULES: tuple[ModuleType, ...] = (
    builtins,
    torch,
    torch.nn.functional,
    torch.nn.modules.module,
    torch.testing,
    torch.autograd,
    np,
    np.testing,
    json,
    struct,
    socket,
    time,
)
CLASSES: tuple[type, ...] = (torch.Tensor, torch.nn.Module, unittest.TestCase)
#: Layers that models are made of. To change one for everybody (its initialisation, say) is a mistake as `F.gelu = ...`.
LAYERS: tuple[type, ...] = (
    torch.nn.Linear,
    torch.nn.Embedding,
    torch.nn.LayerNorm,
    torch.nn.GELU,
    torch.nn.Dropout,
    torch.nn.ModuleList,
    torch.nn.ModuleDict,
    torch.nn.Sequential,
)
#: Of these modules only a few functions matter, and others (sys.stdout, sys.excepthook) are changed by honest code.
FUNCTIONS: Mapping[ModuleType, tuple[str, ...]] = {
    os: ("read", "write", "open", "close", "kill", "getpid"),  # not _exit: coverage tools wrap it in each fork
    sys: ("_getframe", "addaudithook", "audit", "exit", "getprofile", "gettrace", "setprofile", "settrace"),
}
#: Replacing these is a known habit of honest code, and no grade rests on them.
HABITS = frozenset(
    {
        ("torch.Tensor", "__repr__"),  # lovely_tensors and many notebooks: show the shape
        ("torch.Tensor", "__str__"),
        ("torch.Tensor", "__format__"),
        ("builtins", "print"),  # print with flush=True, rich.print
        ("torch", "compile"),  # switched off where no compiler is installed
        ("torch", "load"),  # weights_only=False for older checkpoints
        ("numpy", "bool"),  # names that numpy 1.24 dropped, put back for older code
        ("numpy", "long"),
    }
)


#: No grade rests on these, and a clumsy `F.gelu = ...` is a mistake: it is told, costs its point, and stays as it is,
#: because the submission's own layers count on it.
FUNCTIONAL = "torch.nn.functional"
LAYER_LABEL = "torch.nn.modules"


@dataclass(frozen=True)
class _Namespace:
    """The original members of one module or class."""

    label: str  # "torch.Tensor"
    current: Mapping[str, Any]  # live view of the namespace
    names: tuple[str, ...]
    originals: tuple[Any, ...]  # what each name was
    inherited: frozenset[str]  # names that a class takes from its bases: defining one there replaces it
    home: str  # folder of the library: it may wrap its own functions ("" for the standard library, which does not)
    put: Callable[[str, Any], None]
    drop: Callable[[str], None]

    def intact(self) -> bool:
        """Return whether every name is still what it was, at the speed of C."""
        get, current = self.current.get, self.current
        same = _all(_map(_is, _map(get, self.names), self.originals))
        return same and (not self.inherited or self.inherited.isdisjoint(current))

    def replaced(self) -> list[str]:
        """Return the names that are no longer what they were, and put the originals back.

        The loop uses no built-in function by its name, since those may be what was replaced.
        """
        current, names = self.current, []
        for name, original in _zip(self.names, self.originals):
            if current.get(name) is not original:
                if self.home and _is_from(self.home, name, current.get(name)):
                    continue
                names += [name]
                self.put(name, original)
        for name in sorted(self.inherited.intersection(current)):
            names += [name]
            self.drop(name)
        return names


@dataclass(frozen=True)
class Snapshot:
    """The original functions of everything that is watched, and the modules that they are found through."""

    namespaces: tuple[_Namespace, ...]
    modules: tuple[tuple[str, ModuleType], ...]

    def inspect(self, log: Log) -> None:
        """Report what was replaced or deleted, and put it back. Names that were added are nobody's business."""
        for namespace in self.namespaces:
            if namespace.intact():
                continue
            if namespace.label == FUNCTIONAL or namespace.label.startswith(LAYER_LABEL):
                changed = [
                    name
                    for name, original in _zip(namespace.names, namespace.originals)
                    if namespace.current.get(name) is not original
                ]
                changed += sorted(namespace.inherited.intersection(namespace.current))
                if changed:
                    where = namespace.label.replace(LAYER_LABEL, "torch.nn")
                    log.side_effect(f"The code replaces functions of {where} for everybody: {listing(changed)}.")
                continue
            names = namespace.replaced()
            forbidden = [name for name in names if (namespace.label, name) not in HABITS]
            habits = [name for name in names if (namespace.label, name) in HABITS]
            if forbidden:
                log.tamper(f"The code replaces functions of {namespace.label}: {listing(forbidden)}.")
            if habits:
                log.notice(f"The code replaces functions of {namespace.label}: {listing(habits)}.")
        swapped = [name for name, module in self.modules if sys.modules.get(name) is not module]
        sys.modules.update((name, module) for name, module in self.modules if name in swapped)
        if swapped:
            log.tamper(f"The code replaces whole modules: {listing(swapped)}.")


def snapshot() -> Snapshot:
    """Return the originals, to be taken before any student code runs. Costs a few ms: take it once, before forking."""
    ours = [module for name, module in sorted(sys.modules.items()) if name.partition(".")[0] == "autograder"]
    namespaces = [
        *(
            _module(module, [name for name, value in vars(module).items() if _counts(name, value)])
            for module in MODULES
        ),
        *(_class(cls) for cls in (*CLASSES, *LAYERS)),
        *(_module(module, [name for name in names if hasattr(module, name)]) for module, names in FUNCTIONS.items()),
    ]
    for module in ours:
        # Our own modules keep no state, so that any change at all is a change by somebody else.
        namespaces.append(_module(module, [name for name, value in vars(module).items() if _is_ours(name, value)]))
        namespaces += [_class(cls) for cls in vars(module).values() if _defined_in(module, cls)]
    watched = [*MODULES, *FUNCTIONS, unittest, *ours]
    return Snapshot(tuple(namespaces), tuple((module.__name__, module) for module in watched))


def planted_modules() -> list[str]:
    """Return the grader's modules that are loaded here, where they never belong: somebody put them there."""
    return [name for name in SECRET_MODULES if name in sys.modules]


def _is_from(home: str, name: str, value: Any) -> bool:
    # The first optimizer imports torch._dynamo, which puts a decorated manual_seed in place of the original.
    return type(value) is FunctionType and value.__name__ == name and str.startswith(value.__code__.co_filename, home)


def _home(module_name: str) -> str:
    package = sys.modules[module_name.partition(".")[0]]
    return os.path.dirname(package.__file__ or "") + os.sep if package in (torch, np) else ""  # noqa: PTH120 -- text


def _counts(name: str, value: Any) -> bool:
    if name == "Storage":  # torch sets it anew with the default dtype
        return False
    # Constants and caches are left out: torch, numpy and time change their own (time.tzset(), lazy imports).
    return callable(value) or isinstance(value, ModuleType | torch.dtype)


def _is_ours(name: str, value: Any) -> bool:
    # Submodules appear and dunders (__warningregistry__, __annotations__) change by themselves.
    return not (name.startswith("__") or isinstance(value, ModuleType))


def _defined_in(module: ModuleType, value: Any) -> bool:
    return isinstance(value, type) and value.__module__ == module.__name__


def _module(module: ModuleType, names: list[str]) -> _Namespace:
    current = vars(module)
    originals = tuple(current[name] for name in names)
    home = _home(module.__name__)
    put, drop = current.__setitem__, current.__delitem__
    return _Namespace(module.__name__, current, tuple(names), originals, frozenset(), home, put, drop)


def _class(cls: type) -> _Namespace:
    members = {name: value for name, value in vars(cls).items() if callable(value) or hasattr(type(value), "__get__")}
    inherited = frozenset(name for base in cls.__mro__[1:] for name in vars(base)) - frozenset(vars(cls))

    def put(name: str, value: Any) -> None:
        type.__setattr__(cls, name, value)

    def drop(name: str) -> None:
        type.__delattr__(cls, name)

    label = "torch.Tensor" if cls is torch.Tensor else f"{cls.__module__}.{cls.__qualname__}"
    label = {"torch.nn.modules.module.Module": "torch.nn.Module", "unittest.case.TestCase": "unittest.TestCase"}.get(
        label, label
    )
    current = cast(Mapping[str, Any], vars(cls))
    names, originals, home = tuple(members), tuple(members.values()), _home(cls.__module__)
    return _Namespace(label, current, names, originals, inherited, home, put, drop)
