"""Facts about a model and about what a call gave, as JSON-ready data and raw tensors. No judgement."""

from __future__ import annotations

import ctypes
import functools
import random
from collections.abc import Sequence
from typing import Any

import numpy
import torch
from torch import Tensor, nn

#: torch.manual_seed would also prepare for GPUs that are not there, a millisecond each time.
GENERATOR = torch.default_generator
#: The default model has 78 named tensors.
MAX_PARAMETERS = 600
#: Larger outputs are not sent back: the largest honest one is a few MB.
MAX_OUTPUT_BYTES = 64 * 2**20
#: numpy's global generator, and the words and the position of its MT19937 in memory: numpy takes seventy microseconds
#: to hand them out.
_NUMPY = numpy.random.mtrand._rand._bit_generator
_NUMPY_STATE = (ctypes.c_char * (4 * 624 + 4)).from_address(_NUMPY.ctypes.state_address)


Named = Sequence[tuple[str, nn.Parameter]]


def named(model: nn.Module) -> Named:
    """Return the parameters of a model under all their names."""
    return list(nn.Module.named_parameters(model, remove_duplicate=False))


def describe(model: nn.Module, parameters: Named, look: bool) -> dict[str, Any]:
    """Return the parameter table of a model: each name, shape, identity group and, with `look`, what its values are."""
    groups: dict[int, int] = {}
    storages: dict[int, int] = {}
    rows: list[dict[str, Any]] = []
    for name, parameter in parameters:
        if len(rows) >= MAX_PARAMETERS:
            return {"parameters": [], "claimed": None, "too_many": True}
        values = _look(parameter.detach()) if look else {}
        rows.append(
            {
                "name": name[:120],
                "shape": list(parameter.shape),
                "trainable": bool(parameter.requires_grad),
                "group": groups.setdefault(id(parameter), len(groups)),
                "storage": storages.setdefault(parameter.data_ptr(), len(storages)),
                "plain": type(parameter) is nn.Parameter,
                **values,
            }
        )
    return {"parameters": rows, "claimed": _claimed_count(model)}


def _look(values: Tensor) -> dict[str, Any]:
    return {
        "std": 0.0 if values.numel() == 0 else float(values.double().std(unbiased=False)),
        "zero": not bool(values.any()),
        "finite": bool(torch.isfinite(values).all()),
    }


def _claimed_count(model: nn.Module) -> int | None:
    """Return what the model's own parameters() adds up to: it differs from the truth only when it was overridden."""
    try:
        return sum(int(parameter.numel()) for parameter in model.parameters())
    except BaseException:
        return None


def outputs(output: Any, out: dict[str, Tensor]) -> dict[str, Any]:
    """Put the plain tensors of a reply into `out`; say what the rest is without asking it."""
    sequence = isinstance(output, tuple | list)  # named tuples too; iterated without asking a method of the student's
    items = list((tuple if isinstance(output, tuple) else list).__iter__(output))[:8] if sequence else [output]
    kinds: list[dict[str, Any]] = []
    for index, item in enumerate(items):
        cls = type(item)
        if cls is Tensor or cls is nn.Parameter:
            fact = {
                "kind": "tensor",
                "shape": list(item.shape),
                "dtype": str(item.dtype).removeprefix("torch."),
                "grad": bool(item.requires_grad),
            }
            if item.numel() * item.element_size() <= MAX_OUTPUT_BYTES:
                out[f"out.{index}"] = item.detach()
            kinds.append(fact)
        elif item is None:
            kinds.append({"kind": "none"})
        else:
            is_tensor = Tensor in type.__getattribute__(cls, "__mro__")
            name = str(type.__getattribute__(cls, "__name__"))[:60]
            kinds.append({"kind": "tensor subclass" if is_tensor else "other", "type": name})
    return {"sequence": sequence, "items": kinds}


def gradients(model: nn.Module, given: dict[str, Tensor], out: dict[str, Tensor]) -> list[str]:
    """Put the gradients of inputs and parameters into `out`; return the names that have none."""
    missing = []
    for name, tensor in given.items():
        if tensor.requires_grad and tensor.grad is not None:
            out[f"grad.input.{name}"] = tensor.grad
        elif tensor.requires_grad:
            missing.append(f"input.{name}")
    for name, parameter in nn.Module.named_parameters(model, remove_duplicate=False):
        if parameter.grad is None:
            missing.append(name[:200])
        else:
            out[f"grad.{name}"] = parameter.grad
    return missing


def random_state() -> tuple[object, ...]:
    """Return the state of every global generator that a forward might draw from."""
    return random.getstate(), _NUMPY_STATE.raw, torch.get_rng_state().numpy().tobytes()


def seeded(seed: int) -> tuple[object, ...]:
    """Seed every global generator; return the state in which that leaves them."""
    GENERATOR.manual_seed(seed)
    random.seed(seed)
    numpy.random.seed(seed % 2**32)
    return _state_after(seed)


@functools.lru_cache(maxsize=32)
def _state_after(seed: int) -> tuple[object, ...]:  # the same for the same seed, and slow to read
    return random_state()


def fingerprint(model: nn.Module) -> dict[str, Tensor]:
    return {name: value.clone() for name, value in nn.Module.state_dict(model).items()}


def changed(before: dict[str, Tensor], after: dict[str, Tensor]) -> list[str]:
    """Return the saved tensors whose values a forward changed; a buffer that grew or is new is no change of value."""
    return [
        name
        for name, value in before.items()
        if name in after
        and after[name].shape == value.shape
        and not torch.equal(torch.nan_to_num(after[name]), torch.nan_to_num(value))
    ][:10]
