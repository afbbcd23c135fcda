"""Asking a student's functions: requests as data, what came back as values, and the sentences for what is no answer."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from autograder.checks.exam import Exam
from autograder.checks.faults import fault_outcome
from autograder.checks.registry import Outcome, Stopped, failed
from autograder.checks.replies import read_fault, sensible
from autograder.probe.client import Reply
from autograder.track import Part

#: Relative error of a float32 sum over a few thousand terms stays far below; the smallest planted mistake is at 1e-2.
CLOSE = 1e-4


@dataclass(frozen=True)
class Ask:
    """One call of a function, or with `init` of a method of a class: see probe/functions.py for the specs."""

    args: Sequence[Any] = ()  # plain values, or specs such as {"tensor": "x"}
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    init: Sequence[Any] | None = None  # the constructor's arguments
    method: str = ""
    attribute: str = ""
    tensors: Mapping[str, Tensor] = field(default_factory=dict)
    more: Mapping[str, Any] = field(default_factory=dict)  # model, optimizer, after, seed

    def request(self, name: str) -> dict[str, Any]:
        """Return the call as data; `name` is the function or the class."""
        place = self.method or self.attribute
        data: dict[str, Any] = {"stage": f"{name}.{place}" if place else name, **self.more}
        data["args"] = [_spec(value) for value in self.args]
        data["kwargs"] = {key: _spec(value) for key, value in self.kwargs.items()}
        if self.init is not None:
            data["init"] = [_spec(value) for value in self.init]
        if place:
            data["method" if self.method else "attribute"] = place
        return data


@dataclass(frozen=True)
class Got:
    """What a call gave: a value, or the student's exception."""

    place: str  # "get_batch", "CharTokenizer.encode"
    data: dict[str, Any]
    tensors: dict[str, Tensor]

    @property
    def fault(self) -> Outcome | None:
        """Return the outcome of an exception, if there was one."""
        fault = read_fault(self.data)
        if fault is not None and fault.type == "TypeError" and not fault.line:  # raised by the call itself
            return failed(
                f"The interface differs: {fault.message}.",
                "Take the arguments of the stub, in its order and by its names.",
            )
        return None if fault is None else fault_outcome(fault)

    @property
    def raised(self) -> tuple[str, ...]:
        """The built-in classes of the exception, its own first; empty when there was none."""
        with sensible():
            return tuple(str(name) for name in self.data.get("raised", ()))
        raise AssertionError("unreachable")

    @property
    def said(self) -> str:
        """The exception's message."""
        fault = read_fault(self.data)
        return "" if fault is None else fault.message

    def value(self) -> Any:
        """Return a number, text, None, Tensor, or a list of these. Raises Stopped with the student's error.

        A list of integers, a tensor and an array all come as a Tensor; what is none of these as an `Other`.
        """
        if self.fault is not None:
            raise Stopped(self.fault)
        with sensible():
            return _value(self.data["result"], self.tensors, "result")
        raise AssertionError("unreachable")

    def ran(self) -> Got:
        """Return this, whatever it gave; raises Stopped with the student's error."""
        if self.fault is not None:
            raise Stopped(self.fault)
        return self

    def pair(self) -> tuple[Any, Any]:
        """Return the two values of a tuple. Raises Stopped when it is none."""
        value = self.value()
        if not isinstance(value, list) or len(value) != 2:
            raise Stopped(failed(f"{self.place} returns {kind_of(value)}, not a pair.", "Return both, with a comma."))
        return value[0], value[1]

    def number(self) -> float:
        """Return a number: float, integer, or a tensor of one element without a graph. Raises Stopped otherwise."""
        value = self.value()
        if isinstance(value, Tensor) and value.numel() == 1 and value.dim() == 0:
            if self.data["result"].get("grad"):
                advice = "Take the number out with .item(): a tensor with its graph keeps the whole step in memory."
                raise Stopped(failed(f"{self.place} returns a tensor that still holds its graph, not a float.", advice))
            return float(value)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return float(value)
        raise Stopped(failed(f"{self.place} returns {kind_of(value)}, not a float.", "Return the number itself."))

    def modes(self) -> list[tuple[bool, bool, bool, bool]]:
        """Return of each call of our model: train mode of it and of its sub-module, gradients on, with targets."""
        with sensible():
            return [tuple(bool(mode) for mode in call["modes"]) for call in self.data["model"]["calls"]]  # type: ignore[misc]
        raise AssertionError("unreachable")

    def seen(self) -> list[list[int]]:
        """Return row 0 of what our model was given at each call."""
        with sensible():
            return [[int(token) for token in call["row"]] for call in self.data["model"]["calls"]]
        raise AssertionError("unreachable")

    def mode_after(self) -> tuple[bool, bool]:
        """Return whether our model and its sub-module are in train mode after the call."""
        with sensible():
            own, inner = self.data["model"]["modes"]
            return bool(own), bool(inner)
        raise AssertionError("unreachable")

    def under(self, prefix: str) -> dict[str, Tensor]:
        """Return the tensors whose names begin with `prefix`, without it."""
        return {name.removeprefix(prefix): value for name, value in self.tensors.items() if name.startswith(prefix)}


@dataclass(frozen=True)
class Other:
    """A value of a type that cannot be compared."""

    type: str


def ask(exam: Exam, part: Part, name: str, asks: Sequence[Ask]) -> list[Got]:
    """Make calls of the function or class `name`, in one request. Raises Stopped when it is not there."""
    facts = exam.student.facts.get(name)
    if facts is None or not facts.found:
        raise Stopped(_missing(exam, part, name, facts.file if facts is not None else part.file))
    tensors = {f"{number}/{key}": value for number, each in enumerate(asks) for key, value in each.tensors.items()}
    requests = [each.request(name) for each in asks]
    replies = exam.student.functions(name, requests, tensors)
    return [_got(request["stage"], reply) for request, reply in zip(requests, replies, strict=True)]


def _missing(exam: Exam, part: Part, name: str, file: str) -> Outcome:
    """Say that a name is not there, and which one was probably meant."""
    kind = "class" if name == part.class_name else "function"
    text = exam.student.submission.tree.get(file, b"").decode("utf-8", "replace")
    others = [found for found in re.findall(r"^(?:class|def)\s+(\w+)", text, re.MULTILINE) if found not in part.names]
    near_by = {other.replace("_", "").casefold(): other for other in others}
    meant = difflib.get_close_matches(name.replace("_", "").casefold(), near_by, n=1, cutoff=0.6)
    advice = f"Define {name} there, spelled like this."
    if meant:
        return failed(f"The name differs: {file} has {near_by[meant[0]][:60]}, and no {kind} {name}.", advice)
    return failed(f"There is no {kind} {name} in {file}.", advice)


def close(actual: float, expected: float, tolerance: float = CLOSE) -> bool:
    """Whether two numbers agree, relative to the expected one; NaN agrees with nothing."""
    return abs(actual - expected) <= tolerance * max(abs(expected), 1e-12)


def near(actual: Mapping[str, Tensor], expected: Mapping[str, Tensor], tolerance: float = CLOSE) -> bool:
    """Whether named tensors agree, relative to the largest expected number of all."""
    scale = max(float(value.abs().max()) for value in expected.values())
    return all(
        name in actual
        and actual[name].shape == value.shape
        and bool(((actual[name].double() - value.double()).abs() <= tolerance * scale).all())
        for name, value in expected.items()
    )


def kind_of(value: Any) -> str:
    """Say in words what a value is."""
    if value is None:
        return "None"
    if isinstance(value, Other):
        return f"a value of type {value.type}"
    if isinstance(value, Tensor):
        return f"integers or a tensor of shape {tuple(value.shape)}"
    if isinstance(value, list):
        return f"{len(value)} values"
    return f"{value!r}"[:60]


def _spec(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {"value": value}


def _got(place: str, reply: Reply) -> Got:
    return Got(place, dict(reply.data), dict(reply.tensors))


def _value(item: dict[str, Any], tensors: Mapping[str, Tensor], name: str) -> Any:
    kind = item["kind"]
    if kind == "none":
        return None
    if kind in ("tensor", "array", "list"):
        return tensors.get(name, Other("a tensor that is too large"))
    if kind == "sequence":
        return [_value(inner, tensors, f"{name}.{number}") for number, inner in enumerate(item["items"])]
    text = str(item.get("text", ""))
    if kind == "str":
        return text
    if kind in ("int", "float", "bool"):
        return text == "True" if kind == "bool" else int(text) if kind == "int" else float(text)
    return Other(str(item["type"])[:60])


def integers(value: Any) -> Tensor | None:
    """Return a value as a row of integers (N), or None when it is none."""
    if isinstance(value, Tensor) and value.dim() == 1 and not value.is_floating_point():
        return value.to(torch.int64)
    if isinstance(value, list) and all(isinstance(each, Tensor) and each.dim() == 0 for each in value):
        return torch.stack(value).to(torch.int64) if value else torch.zeros(0, dtype=torch.int64)
    return None


def untouched(got: Got, name: str, before: Tensor) -> bool:
    """Whether the tensor that was given as `name` is as it was."""
    after = got.tensors.get(f"after.{name}")
    return after is not None and after.shape == before.shape and torch.equal(after, before)


def odds_off(counts: Sequence[int], odds: Sequence[float]) -> float:
    """Return how far counts are from what `odds` promise, in standard deviations of the worst; infinite for a miracle.

    What has probability 0 must not occur; what is expected fewer than five times is too rare to be judged.
    """
    total, worst = sum(counts), 0.0
    for count, chance in zip(counts, odds, strict=True):
        if chance < 1e-12:
            worst = max(worst, float("inf") if count else 0.0)
        elif total * chance >= 5:
            spread = max((total * chance * (1 - chance)) ** 0.5, 0.5)
            worst = max(worst, abs(count - total * chance) / spread)
    return worst


#: Standard deviations that chance is given: right code passes this in all but one of some 1e9 gradings.
LUCK = 6.5
