"""What a wrong gradient looks like where no known mistake gives it: a factor, a third of c_attn, rows, positions."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from autograder.checks.evidence import GRADIENT_TOLERANCE, compare, describe_difference

BLOCK = re.compile(r"transformer\.h\.(\d{1,6})\.")
#: Below this, relative to the largest right number, two gradients are one and the same multiple of a third.
PROPORTIONAL = 1e-3
INPUT_AXES = ("batch row", "position", "channel")
#: Factors that tell what was done, and how to say so.
NAMED = {-1.0: "the right one with the wrong sign"}


def pattern(
    mine: Mapping[str, Tensor], right: Mapping[str, Tensor], wrong: Sequence[str], width: int
) -> tuple[str, str]:
    """Return what the gradients called `wrong` have in common, and what that usually means; empty when nothing shows.

    `width` is n_embd: the rows of a fused c_attn are q, k and v, that many each.
    """
    cut = _cut_after(mine, right)
    if cut:
        return cut, "See what is done to the stream there: nothing between two blocks may be detached."
    present = [name for name in wrong if name in mine and mine[name].shape == right[name].shape]
    if not present:
        return "", ""
    factors = [_factor(mine[name], right[name]) for name in present]
    first = factors[0]
    if first is not None and all(other is not None and abs(other - first) < 0.01 for other in factors):
        return _scaled(first, len(present) == len(right)), (
            "A factor is at work in the backward pass alone: a hook, a mean taken twice, x * a + x.detach() * (1 - a)."
        )
    thirds = next(((name, said) for name in present if (said := _thirds(name, mine[name], right[name], width))), None)
    name = present[0]
    axes = INPUT_AXES if name.startswith("input.") else ("row", "channel")
    sentence, _ = describe_difference(compare(mine[name], right[name], GRADIENT_TOLERANCE), axes)
    local = "only" in sentence or "every" in sentence
    if thirds and (not local or "times" in thirds[1] or "zero" in thirds[1]):
        return f"in {thirds[0]}, {thirds[1]}", "q, k and v share c_attn; only some of them are cut or bent."
    where = f"in {name}, " if name != wrong[0] else ""
    meaning = "What keeps to some places was done to those alone: see what the code does there."
    return where + sentence, meaning if local else ""


def _cut_after(mine: Mapping[str, Tensor], right: Mapping[str, Tensor]) -> str:
    """Say after which block the graph is cut, where no block up to it gets a gradient and all later ones do."""
    reached: dict[int, bool] = {}
    for name in right:
        found = BLOCK.match(name)
        if found:
            here = name in mine and bool(mine[name].any())
            reached[int(found[1])] = reached.get(int(found[1]), False) or here
    numbers = sorted(reached)
    last = max((number for number in numbers if not reached[number]), default=-1)
    if last < 0 or last == numbers[-1] or any(reached[number] for number in numbers if number <= last):
        return ""
    return f"the graph is cut after block {last}, so no block up to it learns"


def _factor(mine: Tensor, right: Tensor) -> float | None:
    """Return the one number that `mine` is of `right`, or None."""
    a, e = mine.double().reshape(-1), right.double().reshape(-1)
    square = float(e @ e)
    if square == 0.0 or not bool(torch.isfinite(a).all()):
        return None
    factor = float(a @ e) / square
    close = float((a - factor * e).abs().max()) <= PROPORTIONAL * max(abs(factor), 1e-6) * float(e.abs().max())
    return factor if close and abs(factor) > 1e-6 else None


def _scaled(factor: float, everywhere: bool) -> str:
    which = "every gradient" if everywhere else "it"
    named = next((words for known, words in NAMED.items() if abs(factor - known) < 0.01), "")
    return f"{which} is {named or f'{factor:.4g} times the right one'}"


def _thirds(name: str, mine: Tensor, right: Tensor, width: int) -> str:
    """Say which of q, k and v are wrong in a tensor that holds all three."""
    if not name.startswith("c_attn.") or len(right) != 3 * width:
        return ""
    size = float(right.abs().max())
    said = []
    for third, own, wanted in zip("qkv", torch.split(mine, width), torch.split(right, width), strict=True):
        if float((own.double() - wanted.double()).abs().max()) <= GRADIENT_TOLERANCE * size:
            continue
        factor = _factor(own, wanted)
        none = float(own.abs().max()) == 0.0
        said.append(
            f"that of {third} is " + ("zero" if none else f"{factor:.4g} times the right one" if factor else "wrong")
        )
    return ", ".join(said) if 0 < len(said) < 3 else ""
