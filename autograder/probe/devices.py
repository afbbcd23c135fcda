"""Seeing whether a forward follows its device, without a GPU: a pretended one.

Everything stays on the CPU, but the inputs, and what `model.to(device)` would move (parameters and buffers), are marked
as on another device; what the code makes without naming a device, and tensors that it keeps as plain attributes or
globals, are marked as strays. Marks are handed on to results, and `x.device` says what is pretended. An operation that
mixes the two is what fails on a GPU with "Expected all tensors to be on the same device". A tensor of unknown origin
(from a scripted function, say) accuses nobody. (torch's own meta device would do, but using it imports torch._dynamo,
which takes seconds.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

#: The name that `x.device` gives while pretending. Making such a device object needs no GPU.
PRETENDED = torch.device("cuda", 0)
#: Operations that may mix devices on a GPU too: they copy, or take indices from the CPU.
MIXING = frozenset(
    {"to", "copy_", "type_as", "__getitem__", "__setitem__", "set_", "expand_as", "view_as", "reshape_as"}
)
#: Operations that leave the pretended device.
LEAVING = frozenset({"cpu", "numpy", "tolist", "item", "__array__"})
MARK = "_pretended_place"
MOVED, STRAY = "moved", "stray"


class DeviceWatch(TorchFunctionMode):
    """Records each operation that mixes tensors of the pretended device with strays of one or more dimensions.

    Numbers (0-dim CPU tensors) may mix, as they may with CUDA.
    """

    def __init__(self, model: nn.Module, inputs: Sequence[Tensor], globals_: Sequence[Any] = ()) -> None:
        super().__init__()
        self.faults: list[str] = []
        kept = [place for module in nn.Module.modules(model) for place in (vars(module), dict(vars(type(module))))]
        for tensor in _tensors([*kept, *globals_]):
            _mark(tensor, STRAY)
        for tensor in [*nn.Module.parameters(model), *nn.Module.buffers(model), *inputs]:
            _mark(tensor, MOVED)

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        keywords = dict(kwargs or {})
        name = str(getattr(func, "__name__", "an operation"))
        if func == Tensor.device.__get__:  # made anew at each access: no identity
            return PRETENDED if _place(args[0]) == MOVED else func(*args, **keywords)
        if func == Tensor.is_cuda.__get__:  # type: ignore[attr-defined]  # a property, whatever the stubs say
            return _place(args[0]) == MOVED
        given = list(_tensors((args, keywords)))
        places = {_place(tensor) for tensor in given}
        asked = _asked_device(args, keywords)
        if MOVED in places and asked is None and name not in MIXING:
            self._look_for_strays(name, given)
        if name == "numpy" and MOVED in places:
            self._record("numpy() cannot read a tensor of another device")
        result = func(*_here(args), **_here(keywords))
        place = _place_of_result(name, places, asked)
        if isinstance(result, Tensor) and result in _Identity(given) and (asked is not None or name in LEAVING):
            result = result.clone()  # `.to()` hands back the tensor itself when it is there already
        for tensor in _tensors(result):
            if place and tensor not in _Identity(given):
                _mark(tensor, place)
        return result

    def _look_for_strays(self, name: str, given: Sequence[Tensor]) -> None:
        stray = next((t for t in given if t.dim() > 0 and _place(t) == STRAY), None)
        if stray is not None:
            self._record(f"{name} gets a CPU tensor of shape {tuple(stray.shape)}")

    def _record(self, fault: str) -> None:
        if len(self.faults) < 5:
            self.faults.append(fault)


class _Identity:
    """`in` by identity: == on tensors is an operation of its own."""

    def __init__(self, tensors: Sequence[Tensor]) -> None:
        self._ids = {id(tensor) for tensor in tensors}

    def __contains__(self, tensor: object) -> bool:
        return id(tensor) in self._ids


def _place_of_result(name: str, places: set[str], asked: torch.device | None) -> str:
    """Return where a result is: as asked for, else with what it was made from; what is made from nothing is a stray."""
    if asked is not None:
        return MOVED if asked.type == PRETENDED.type else STRAY
    if name in LEAVING:
        return STRAY
    if MOVED in places:
        return MOVED
    return STRAY if places <= {STRAY} else ""


def _mark(tensor: Tensor, place: str) -> None:
    setattr(tensor, MARK, place)


def _place(tensor: Any) -> str:
    return str(getattr(tensor, "__dict__", {}).get(MARK, ""))


def _asked_device(args: tuple[Any, ...], keywords: dict[str, Any]) -> torch.device | None:
    """Return the device that a call names (`device=...`, or as an argument of `.to`), if it names one."""
    for value in (keywords.get("device"), *args[1:]):
        if isinstance(value, torch.device):
            return value
        if isinstance(value, str) and value.split(":")[0] in ("cpu", "cuda", "mps", "meta"):
            return torch.device(value)
    return None


def _here(tree: Any) -> Any:
    """Return arguments with the pretended device replaced by the CPU, where everything really is."""
    if isinstance(tree, torch.device):
        return torch.device("cpu") if tree.type == PRETENDED.type else tree
    if isinstance(tree, str) and tree in (PRETENDED.type, str(PRETENDED)):
        return "cpu"
    if isinstance(tree, dict):
        return {key: _here(value) for key, value in tree.items()}
    if type(tree) in (list, tuple):
        return type(tree)(_here(value) for value in tree)
    return tree


def _tensors(tree: Any) -> Iterator[Tensor]:
    if isinstance(tree, Tensor):
        yield tree
    elif isinstance(tree, dict):
        for value in tree.values():
            yield from _tensors(value)
    elif isinstance(tree, list | tuple):
        for value in tree:
            yield from _tensors(value)
