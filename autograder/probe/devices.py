"""Seeing whether a forward follows its device, without a GPU: a pretended one.

Everything stays on the CPU, but the inputs and what `model.to(device)` would move (parameters and buffers) are marked
as being on another device, results of marked tensors are marked, and `x.device` says so. An operation that mixes a
marked with an unmarked tensor is what fails on a GPU with "Expected all tensors to be on the same device". (torch's own
meta device would do, but using it imports torch._dynamo, which takes seconds.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

#: The name that `x.device` gives while pretending: a device that torch knows and that no student asks for by name.
PRETENDED = torch.device("meta")
#: Operations that may mix devices on a GPU too: they copy, or take indices from the CPU.
MIXING = frozenset(
    {"to", "copy_", "type_as", "__getitem__", "__setitem__", "set_", "expand_as", "view_as", "reshape_as"}
)
#: Operations that leave the pretended device.
LEAVING = frozenset({"cpu", "numpy", "tolist", "item", "__array__"})
MARK = "_on_pretended_device"


class DeviceWatch(TorchFunctionMode):
    """Records each operation that mixes tensors of the pretended device with CPU tensors of one or more dimensions.

    Numbers (0-dim CPU tensors) may mix, as they may with CUDA.
    """

    def __init__(self, model: nn.Module, inputs: Sequence[Tensor]) -> None:
        super().__init__()
        self.faults: list[str] = []
        for tensor in [*nn.Module.parameters(model), *nn.Module.buffers(model), *inputs]:
            setattr(tensor, MARK, True)

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
            return PRETENDED if _marked(args[0]) else func(*args, **keywords)
        marked = any(_marked(tensor) for tensor in _tensors((args, keywords)))
        asked = _asked_device(args, keywords)
        if marked and asked is None and name not in MIXING:
            self._look_for_strays(name, args, keywords)
        if name == "numpy" and marked:
            self._record("numpy() cannot read a tensor of another device")
        result = func(*_here(args), **_here(keywords))
        if asked == PRETENDED or (marked and asked is None and name not in LEAVING):
            for tensor in _tensors(result):
                setattr(tensor, MARK, True)
        elif asked is not None or name in LEAVING:
            result = _unmarked(result, args)
        return result

    def _look_for_strays(self, name: str, args: tuple[Any, ...], keywords: dict[str, Any]) -> None:
        stray = next((t for t in _tensors((args, keywords)) if t.dim() > 0 and not _marked(t)), None)
        if stray is not None:
            self._record(f"{name} gets a CPU tensor of shape {tuple(stray.shape)}")

    def _record(self, fault: str) -> None:
        if len(self.faults) < 5:
            self.faults.append(fault)


def _marked(tensor: Any) -> bool:
    return MARK in getattr(tensor, "__dict__", {})


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
        return torch.device("cpu") if tree == PRETENDED else tree
    if tree == str(PRETENDED) and isinstance(tree, str):
        return "cpu"
    if isinstance(tree, dict):
        return {key: _here(value) for key, value in tree.items()}
    if type(tree) in (list, tuple):
        return type(tree)(_here(value) for value in tree)
    return tree


def _unmarked(result: Any, args: tuple[Any, ...]) -> Any:
    """Return a copy without the mark when `.to("cpu")` handed back the marked tensor itself."""
    if isinstance(result, Tensor) and _marked(result) and any(result is arg for arg in args):
        return result.clone()
    return result


def _tensors(tree: Any) -> Iterator[Tensor]:
    if isinstance(tree, Tensor):
        yield tree
    elif isinstance(tree, dict):
        for value in tree.values():
            yield from _tensors(value)
    elif isinstance(tree, list | tuple):
        for value in tree:
            yield from _tensors(value)
