"""Nested state (an optimizer's, the random generators') taken apart into JSON and named tensors, and put together.

What comes out are only numbers, texts, lists, tuples, dicts and tensors: nothing that is read can run.
"""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor

from autograder.capstone.trouble import CapstoneError

_TENSOR, _TUPLE, _ENTRIES = "$tensor", "$tuple", "$entries"
_PLAIN = (str, int, float, bool, type(None))


def take_apart(tree: Any, prefix: str, tensors: dict[str, Tensor]) -> Any:
    """Return `tree` as JSON; its tensors go into `tensors`, under names that begin with `prefix`."""
    if isinstance(tree, Tensor):
        tensors[prefix] = tree.detach().to("cpu", copy=True).contiguous()
        return {_TENSOR: prefix}
    if isinstance(tree, dict):  # as pairs: JSON would make texts of an optimizer's integer keys
        return {_ENTRIES: [[key, take_apart(value, f"{prefix}.{key}", tensors)] for key, value in tree.items()]}
    if isinstance(tree, list | tuple):
        parts = [take_apart(value, f"{prefix}.{index}", tensors) for index, value in enumerate(tree)]
        return {_TUPLE: parts} if isinstance(tree, tuple) else parts
    if isinstance(tree, _PLAIN):
        return tree
    raise TypeError(f"{prefix} holds a {type(tree).__name__}, which a checkpoint cannot")


def put_together(tree: Any, tensors: dict[str, Tensor]) -> Any:
    """Return what `take_apart` was given. Raises CapstoneError when `tree` is not what it makes."""
    if isinstance(tree, list):
        return [put_together(value, tensors) for value in tree]
    if not isinstance(tree, dict):
        return tree
    if len(tree) == 1:
        (kind, value), *_ = tree.items()
        if kind == _TENSOR and isinstance(value, str) and value in tensors:
            return tensors[value]
        if kind == _TUPLE and isinstance(value, list):
            return tuple(put_together(part, tensors) for part in value)
        if kind == _ENTRIES and isinstance(value, list) and all(_is_pair(pair) for pair in value):
            return {key: put_together(part, tensors) for key, part in value}
    raise CapstoneError("The checkpoint's state is damaged: something in it is no part of a checkpoint.")


def _is_pair(pair: Any) -> bool:
    return isinstance(pair, list) and len(pair) == 2 and isinstance(pair[0], str | int)


def random_state() -> dict[str, Any]:
    """Return the state of every random generator that a model may draw from: torch's (CPU, CUDA), numpy's, Python's."""
    import random

    import numpy as np

    kind, keys, position, has_gauss, gauss = cast("tuple[Any, ...]", np.random.get_state(legacy=True))
    version, words, next_gauss = random.getstate()
    state: dict[str, Any] = {
        "torch": torch.get_rng_state(),
        "numpy": [str(kind), torch.from_numpy(keys.astype(np.int64)), int(position), int(has_gauss), float(gauss)],
        "python": [version, torch.tensor(words, dtype=torch.int64), next_gauss],
    }
    if torch.cuda.is_available():
        state["cuda"] = torch.cuda.get_rng_state_all()
    return state


def restore_random_state(state: dict[str, Any]) -> None:
    """Put every random generator back into `state`. Raises CapstoneError when it is none."""
    import random

    import numpy as np

    try:
        torch.set_rng_state(state["torch"])
        kind, keys, *rest = state["numpy"]
        np.random.set_state((kind, keys.numpy().astype(np.uint32), *rest))
        version, words, next_gauss = state["python"]
        random.setstate((version, tuple(words.tolist()), next_gauss))
        if torch.cuda.is_available() and len(state.get("cuda", ())) == torch.cuda.device_count():
            torch.cuda.set_rng_state_all(state["cuda"])
    except (KeyError, TypeError, ValueError, RuntimeError, AttributeError) as error:
        raise CapstoneError("The checkpoint's random state is damaged.") from error
