"""What a wrong output looks like where no known mistake gives it: a factor, an order, one vector, some heads.

Each pattern is a fact about the numbers, and what it usually means.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from autograder.checks.evidence import TOLERANCE

#: Two numbers that agree to this, in units of the largest expected one, are the same: rounding of float32 is far below.
SAME = 1e-4
#: What may be left of an error, as a share of it, where a pattern explains it.
LEFT = 0.02
#: Undoing a projection multiplies rounding by its condition: heads agree to this, and are told up to this condition.
SAME_HEADS = 2e-3
CONDITION = 1e4
#: Below this, again relative, something small is off: a constant or an approximation, hardly a step left out.
NEARLY = 2e-2

Pattern = tuple[str, str]


@dataclass(frozen=True)
class Heads:
    """What joins the heads of attention: the projection's matrix (C, C) and bias (C), and how many heads there are."""

    weight: Tensor
    bias: Tensor | None
    number: int


def heads_of(weights: Mapping[str, Tensor], n_head: int) -> Heads | None:
    """Return what joins the heads, where the layer is attention: it alone has c_attn beside c_proj."""
    if "c_attn.weight" not in weights or "c_proj.weight" not in weights:
        return None
    return Heads(weights["c_proj.weight"], weights.get("c_proj.bias"), n_head)


def pattern(mine: Tensor, right: Tensor, *, heads: Heads | None = None) -> Pattern:
    """Return what the output `mine` (B, T, C) is of the `right` one, and what that usually means; empty when nothing
    shows."""
    if mine.shape != right.shape or mine.dim() != 3 or not bool(torch.isfinite(mine).all()):
        return "", ""
    a, e = mine.double(), right.double()
    return next(_patterns(a, e, heads), ("", ""))


def _patterns(a: Tensor, e: Tensor, heads: Heads | None) -> Iterator[Pattern]:
    size = float(e.abs().max()) or 1.0
    if not bool(a.any()):
        yield (
            "it is 0 everywhere",
            "Something multiplies by 0, or the result is lost: follow one value through forward.",
        )
        return
    wrong = (a - e).abs() > TOLERANCE * size
    if not bool(wrong.any()):
        return
    # A pattern is one where hardly anything of the error is left once it is taken into account.
    tight = min(SAME * size, LEFT * float((a - e).abs().max()))
    yield from _a_factor(a, e, tight)
    if bool((a[wrong] == 0).all()):
        yield "every wrong value is 0", "Something sets values to 0: a ReLU, a mask, or a dropout at the end."
    limit = float(a.abs().max())
    if bool((a[wrong].abs() >= limit - tight).all()) and bool((e[wrong].abs() > limit).all()):
        yield f"every value beyond {limit:.4g} is cut off there", "Nothing is clipped or clamped: look for clamp()."
    yield from _an_offset(a, e, tight)
    yield from _an_order(a, e, tight)
    if heads is not None:
        yield from _of_heads(a, e, heads)
    if heads is not None and len(wrong[0]) > 1 and not bool(wrong[:, 0].any()):
        yield (
            "position 0, which sees itself alone, is right",
            "So values and c_proj are right: look at the scores, their scale, the mask and the softmax.",
        )
    ratio = float((a - e).abs().max()) / size
    if ratio < NEARLY:
        yield (
            f"it is nearly right (off by {ratio:.0e} of the largest value at most)",
            "No step is missing: look for a constant, an epsilon, an approximation, or numbers that are rounded.",
        )
    yield from _of_positions(wrong, heads is not None)


def _a_factor(a: Tensor, e: Tensor, tight: float) -> Iterator[Pattern]:
    square = float((e * e).sum())
    factor = float((a * e).sum()) / square if square else 0.0
    if abs(factor) < 1e-6 or abs(factor - 1) < 1e-3:
        return
    if float((a - factor * e).abs().max()) <= tight * max(abs(factor), 1.0):
        if abs(factor + 1) < 1e-3:
            yield "it is the right one with the wrong sign", "Something is subtracted, or negated, that should not be."
        else:
            yield (
                f"it is {factor:.4g} times the right one",
                "A factor at the end is missing or one too many: a scale, a mean, a temperature.",
            )


def _an_offset(a: Tensor, e: Tensor, tight: float) -> Iterator[Pattern]:
    off = a - e
    if len(off) * off.shape[1] > 1 and float((off - off[:1, :1]).abs().max()) <= tight:
        yield (
            "it is off by the same vector at every position",
            "A bias is left out, or something is added that does not depend on the input.",
        )
    if off.shape[2] > 1 and float((off - off[:, :, :1]).abs().max()) <= tight:
        yield (
            "at each position it is off by one number, the same for all of its values",
            "Something is added to, or taken from, a whole row: a mean, a maximum, a log of a sum.",
        )


def _an_order(a: Tensor, e: Tensor, tight: float) -> Iterator[Pattern]:
    """Look for the right numbers at other places."""
    for axis, name in enumerate(("batch rows", "positions", "channels")):
        if e.shape[axis] > 1 and _close(a, e.flip(axis), tight):
            yield f"the {name} are in reverse order", "Look for flip(), [::-1] or a loop that counts down."
            return
    for step, words in ((1, "earlier"), (-1, "later")):
        rolled = e.roll(step, dims=1)
        inner = slice(1, None) if step > 0 else slice(0, -1)
        if e.shape[1] > 2 and _close(a[:, inner], rolled[:, inner], tight):
            yield (
                f"each position holds what belongs to the one {words}",
                "Shift nothing inside the model: whoever makes the batch shifts the targets.",
            )
            return
    where = ("the channels of each position", 2), ("the positions of each channel", 1), ("the batch rows", 0)
    for words, axis in where:
        if e.shape[axis] > 1 and _close(a.sort(axis).values, e.sort(axis).values, tight):
            yield f"{words} are right, in another order", "Look for a sort, or for a wrong index, along that axis."
            return
    if _close(a.reshape(-1).sort().values, e.reshape(-1).sort().values, tight):
        yield (
            "the right numbers stand at other places",
            "A view or a reshape stands where axes should be exchanged: use transpose() or permute().",
        )


def _of_heads(a: Tensor, e: Tensor, heads: Heads) -> Iterator[Pattern]:
    """Undo the projection, and look at what each head gave."""
    weight = heads.weight.double()
    number, width = heads.number, len(weight)
    if number < 2 or width % number or weight.shape != (width, width) or a.shape[2] != width:
        return
    if float(torch.linalg.cond(weight)) > CONDITION:
        return
    shift = 0.0 if heads.bias is None else heads.bias.double()
    shape = (*a.shape[:2], number, width // number)
    mine, right = (torch.linalg.solve(weight, (y - shift).transpose(1, 2)).transpose(1, 2) for y in (a, e))
    size = float(right.abs().max()) or 1.0
    tight = SAME_HEADS * size
    by_head, right_heads = mine.reshape(shape), right.reshape(shape)
    off = (by_head - right_heads).abs().amax(dim=(0, 1, 3)) > tight  # (n_head)
    found = off.nonzero().flatten().tolist()
    places = [
        [j for j in range(number) if _close(by_head[:, :, i], right_heads[:, :, j], tight)] for i in range(number)
    ]
    if found and all(places):
        order = ", ".join(str(each[0]) for each in places)
        yield f"the heads are right, and joined as {order}", "Join the heads in their own order, 0 to n_head - 1."
        return
    if 0 < len(found) < number:
        which = f"head {found[0]} of {number}" if len(found) == 1 else f"heads {_listed(found)} of {number}"
        meaning = "What keeps to some heads was done to those alone: a slice, a mask, an index that is off."
        yield f"before c_proj only {which} {'is' if len(found) == 1 else 'are'} wrong", meaning
        return
    # With one position to see, scores do not matter: a mistake in them besides hides nothing there.
    order = _order_of_the_first(by_head[:, 0], right_heads[:, 0], tight)
    if order:
        yield (
            f"at position 0, which sees itself alone, the heads are right, and joined as {order}",
            "Join the heads in their own order, 0 to n_head - 1; look at the scores after that.",
        )
        return
    if _close(mine.sort(-1).values, right.sort(-1).values, tight):
        yield (
            "before c_proj the channels are right, in another order",
            "Look at how the heads are joined: n_head, then head_dim, one head after the other.",
        )
        return
    square = (right_heads * right_heads).sum(-1, keepdim=True).clamp_min(1e-12)
    share = (by_head * right_heads).sum(-1, keepdim=True) / square  # (B, T, n_head, 1)
    if _close(by_head, share * right_heads, tight):
        yield (
            "what each head gives is right up to a factor of its own at each position",
            "The weights of a row do not add up to 1: something divides or multiplies after the softmax.",
        )


def _order_of_the_first(mine: Tensor, right: Tensor, tight: float) -> str:
    """Return the order in which heads (B, n_head, head_dim) are joined at position 0; empty where it is the right one,
    or none."""
    number = mine.shape[1]
    places = [[j for j in range(number) if _close(mine[:, i], right[:, j], tight)] for i in range(number)]
    if all(places) and any(i not in each for i, each in enumerate(places)):
        return ", ".join(str(each[0]) for each in places)
    return ""


def _of_positions(wrong: Tensor, attention: bool) -> Iterator[Pattern]:
    at = wrong.any(dim=2).any(dim=0)  # (T)
    rows = wrong.any(dim=2).any(dim=1)  # (B)
    if not bool(rows.all()):
        yield "", "What keeps to some batch rows was done to those alone: a number written in, or something remembered."
        return
    if attention and len(at) > 1:
        yield (
            "position 0, which sees itself alone, is wrong too",
            "It sees one position, so its scores do not matter: look at how q, k, v and heads are cut, at c_proj.",
        )
    elif not bool(at.all()):
        yield "", "What keeps to some positions was done to those alone: an index, a length written in, a mask."


def _close(first: Tensor, second: Tensor, tight: float) -> bool:
    return float((first - second).abs().max()) <= tight


def _listed(numbers: list[int]) -> str:
    return f"{', '.join(str(number) for number in numbers[:-1])} and {numbers[-1]}"
