"""Names: how a student's tensors correspond to the contract's when they go by other names or are cut up otherwise.

A submission with separate q, k, v layers, one layer a head, or HF's names is right in mathematics; it is told that its
names differ, and is judged on its numbers all the same. A correspondence is only believed when the numbers then agree.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from autograder.checks.replies import Model, Parameter
from autograder.track import Shape

#: Words in a tensor's name that tell its role in attention. Fused names such as "qkv" match none of them.
ROLES = {
    "q": re.compile(r"(^|[._])(q|query|queries|wq|w_q|to_q|q_proj|q_lin|w_query|q_attn)([._]|$)", re.IGNORECASE),
    "k": re.compile(r"(^|[._])(k|key|keys|wk|w_k|to_k|k_proj|k_lin|w_key)([._]|$)", re.IGNORECASE),
    "v": re.compile(r"(^|[._])(v|value|values|wv|w_v|to_v|v_proj|v_lin|w_value)([._]|$)", re.IGNORECASE),
}
#: No honest naming needs more tries; each costs one call of a tiny model.
MAX_CANDIDATES = 60


@dataclass(frozen=True)
class Take:
    """One student tensor, cut out of the contract's tensor `source`: rows start..stop, transposed or not."""

    student: str
    source: str
    start: int
    stop: int
    transposed: bool = False
    shape: Shape | None = None  # the student's, where it has axes of length 1 besides


@dataclass(frozen=True)
class Names:
    """A correspondence between a student's tensor names and the contract's."""

    takes: tuple[Take, ...]
    identical: bool  # every contract name is there, with its shape

    def to_student(self, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return the weights under the student's names; a contract tensor that is absent from `weights` is left out."""
        out = {}
        for take in self.takes:
            if take.source in weights:
                piece = weights[take.source][take.start : take.stop]
                piece = piece.t().contiguous() if take.transposed else piece
                out[take.student] = piece if take.shape is None else piece.reshape(take.shape)
        return out

    def to_contract(self, tensors: Mapping[str, Tensor], shapes: Mapping[str, Shape]) -> dict[str, Tensor]:
        """Return the student's tensors (gradients, say) put together under the contract's names."""
        out: dict[str, Tensor] = {}
        for take in self.takes:
            if take.student in tensors:
                value = tensors[take.student] if take.shape is None else _squeezed(tensors[take.student])
                value = value.t() if take.transposed else value
                whole = out.setdefault(take.source, torch.zeros(shapes[take.source], dtype=value.dtype))
                if whole[take.start : take.stop].shape == value.shape:
                    whole[take.start : take.stop] = value
        return out

    def whole(self, source: str) -> bool:
        """Whether one student tensor alone stands for the contract's `source`."""
        return sum(take.source == source for take in self.takes) == 1

    @property
    def covered(self) -> set[str]:
        return {take.source for take in self.takes}


def exact(model: Model, shapes: Mapping[str, Shape]) -> Names:
    """Return the correspondence of equal names and shapes, whole or partial."""
    own = {parameter.name: parameter.shape for parameter in model.parameters}
    takes = tuple(Take(name, name, 0, shape[0]) for name, shape in shapes.items() if own.get(name) == shape)
    return Names(takes, len(takes) == len(shapes))


def candidates(model: Model, shapes: Mapping[str, Shape]) -> Iterator[Names]:
    """Yield correspondences worth trying, the likeliest first, at most MAX_CANDIDATES."""
    yield from itertools.islice(_distinct(_all(model, shapes)), MAX_CANDIDATES)


def _distinct(options: Iterator[Names]) -> Iterator[Names]:
    """Leave out what came before, and what renames nothing (a model that merely lacks a tensor)."""
    seen = set()
    for option in options:
        key = frozenset(option.takes)
        renames = any(t.student != t.source or t.transposed or t.shape is not None for t in option.takes)
        if renames and key not in seen:
            seen.add(key)
            yield option


def _all(model: Model, shapes: Mapping[str, Shape]) -> Iterator[Names]:
    own = _distinct_parameters(model)
    for fitting in (
        _transposed(own, shapes),
        _by_shape(own, shapes),
        _by_shape(own, shapes, True),
        _by_pieces(own, shapes),
    ):
        for takes in fitting:
            yield Names(tuple(takes), False)


def _transposed(own: Sequence[Parameter], shapes: Mapping[str, Shape]) -> Iterator[list[Take]]:
    """The contract's names, but every matrix is (in, out): GPT-2's Conv1D keeps them so."""
    held = {p.name: p.shape for p in own}
    if all(held.get(name) == shape[::-1] for name, shape in shapes.items()):
        yield [Take(name, name, 0, shape[0], len(shape) == 2) for name, shape in shapes.items()]


def _distinct_parameters(model: Model) -> list[Parameter]:
    seen: set[int] = set()
    rows = []
    for parameter in model.parameters:
        if parameter.group not in seen:
            seen.add(parameter.group)
            rows.append(parameter)
    return rows


def _by_shape(own: Sequence[Parameter], shapes: Mapping[str, Shape], transposed: bool = False) -> Iterator[list[Take]]:
    """Match tensors one to one by shape (with `transposed`, of matrices turned round), the likeliest orders first."""
    tied = _without_tied(own, shapes)
    groups: dict[Shape, list[str]] = {}
    for name, shape in tied.items():
        groups.setdefault(shape, []).append(name)
    choices: list[list[list[Take]]] = []
    for shape, names in groups.items():
        flipped = transposed and len(shape) == 2
        fitting = [p for p in own if _bare(p.shape) == (shape[::-1] if flipped else shape)]
        if len(fitting) != len(names):
            return
        orders = _orders(names, fitting)
        choices.append([[_take(p, name, shape, flipped) for name, p in pairs] for pairs in orders])
    for combination in itertools.product(*choices):
        yield [take for takes in combination for take in takes]


def _take(parameter: Parameter, name: str, shape: Shape, flipped: bool) -> Take:
    plain = _bare(parameter.shape) == parameter.shape
    return Take(parameter.name, name, 0, shape[0], flipped, None if plain else parameter.shape)


def _bare(shape: Shape) -> Shape:
    """Return a shape without its axes of length 1: a table (1, T, C) is a table (T, C), a 1-wide kernel a matrix."""
    return tuple(side for side in shape if side != 1)


def _squeezed(tensor: Tensor) -> Tensor:
    return tensor.reshape(_bare(tuple(tensor.shape)))


def _without_tied(own: Sequence[Parameter], shapes: Mapping[str, Shape]) -> dict[str, Shape]:
    """Leave out the input table when the model holds one tensor fewer of that shape: the head stands for both."""
    result = dict(shapes)
    for name, shape in shapes.items():
        twins = [other for other, s in result.items() if s == shape]
        if name.endswith("wte.weight") and len(twins) > sum(p.shape == shape for p in own):
            del result[name]
    return result


def _orders(names: Sequence[str], fitting: Sequence[Parameter]) -> Iterator[list[tuple[str, Parameter]]]:
    """Yield pairings of names and parameters: same last words first, then in order of registration, then all."""
    leaves = [name.rsplit(".", 1)[-1] for name in names]
    likely: list[list[Parameter]] = []
    by_ending = _match_endings(names, fitting)
    if by_ending is not None:
        likely.append(by_ending)
    likely.append(list(fitting))
    limit = 24 if len(fitting) <= 4 else 1
    likely += [list(order) for order in itertools.islice(itertools.permutations(fitting), limit)]
    for order in likely:
        if all(_leaf_fits(leaf, p) for leaf, p in zip(leaves, order, strict=True)):
            yield list(zip(names, order, strict=True))


def _leaf_fits(leaf: str, parameter: Parameter) -> bool:
    """A bias is no gain: `weight` and `bias` keep their kind when the student's names say so."""
    own = parameter.name.rsplit(".", 1)[-1]
    return own == leaf or own not in ("weight", "bias") or leaf not in ("weight", "bias")


def _match_endings(names: Sequence[str], fitting: Sequence[Parameter]) -> list[Parameter] | None:
    """Pair each name with the parameter whose last words are the same, in order; None when that is not clear."""
    rest = list(fitting)
    chosen = []
    for name in names:
        ending = name.split(".")[-1]
        longer = ".".join(name.split(".")[-2:])
        match = next((p for p in rest if p.name.endswith(longer)), None) or next(
            (p for p in rest if p.name.split(".")[-1] == ending), None
        )
        if match is None:
            return None
        rest.remove(match)
        chosen.append(match)
    return chosen


def _by_pieces(own: Sequence[Parameter], shapes: Mapping[str, Shape]) -> Iterator[list[Take]]:
    """Match a fused (3C, C) layer with separate q, k, v layers or one layer a head; the other tensors by shape."""
    fused = next((name for name, shape in shapes.items() if len(shape) == 2 and shape[0] == 3 * shape[1]), None)
    if fused is None:
        return
    width = shapes[fused][1]
    bias = fused.removesuffix("weight") + "bias"
    others = {name: shape for name, shape in shapes.items() if name not in (fused, bias)}
    matrices = [p for p in own if len(p.shape) == 2 and p.shape[1] == width]
    outputs = [p for p in matrices if p.shape == (width, width)]
    for output in sorted(outputs, key=_looks_like_input):
        pieces = [p for p in matrices if p is not output]
        if sum(p.shape[0] for p in pieces) != shapes[fused][0]:
            continue
        used = {p.name for p in pieces} | {_bias_of(p) for p in pieces}
        rest = [p for p in own if p.name not in used]
        for remainder in itertools.islice(_by_shape(rest, others), 4):
            for order in _piece_orders(pieces):
                yield [*remainder, *_stack(order, fused, bias, own)]


def _looks_like_input(parameter: Parameter) -> int:
    return any(role.search(parameter.name) for role in ROLES.values())


def _piece_orders(pieces: Sequence[Parameter]) -> Iterator[list[Parameter]]:
    roles = {name: [p for p in pieces if pattern.search(p.name)] for name, pattern in ROLES.items()}
    found = [p for name in "qkv" for p in roles[name]]
    if len(found) == len(pieces) == len({p.name for p in found}):
        yield found
    yield list(pieces)
    if len(pieces) == 3:
        yield from (list(order) for order in itertools.permutations(pieces))
    if len(pieces) % 3 == 0:  # one head after another, q, k and v in each: in any order of the three
        heads = [pieces[i : i + 3] for i in range(0, len(pieces), 3)]
        for order in itertools.permutations(range(3)):
            yield [head[place] for place in order for head in heads]


def _stack(order: Sequence[Parameter], fused: str, bias: str, own: Sequence[Parameter]) -> list[Take]:
    takes, row = [], 0
    known = {p.name for p in own}
    for piece in order:
        takes.append(Take(piece.name, fused, row, row + piece.shape[0]))
        if _bias_of(piece) in known:
            takes.append(Take(_bias_of(piece), bias, row, row + piece.shape[0]))
        row += piece.shape[0]
    return takes


def _bias_of(parameter: Parameter) -> str:
    return parameter.name.removesuffix("weight") + "bias"
