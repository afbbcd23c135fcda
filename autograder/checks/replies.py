"""What the child answers, read into typed facts. A reply that makes no sense did not come from our code there."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from autograder.probe.client import ProbeFailure, Reply
from autograder.probe.faults import Fault
from autograder.verdict import Verdict

#: Kind of an output that is a Tensor, but not a plain one.
SUBCLASS = "tensor subclass"


@contextlib.contextmanager
def sensible() -> Iterator[None]:
    """Mark a region that reads a reply: what cannot be read is a forgery, not an error of ours."""
    try:
        yield
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError, IndexError):
        raise ProbeFailure(
            Verdict.FORBIDDEN, "The code answers in the grader's place: a reply makes no sense."
        ) from None


@dataclass(frozen=True)
class Facts:
    """What the import of a file showed about one class."""

    file: str = ""
    found: bool = False
    fault: Fault | None = None  # the file did not load
    is_class: bool = False
    is_module: bool = False
    is_dataclass: bool = False
    lies: bool = False  # it overrides __class__
    empty: bool = False  # its body defines nothing
    unwritten: frozenset[str] = frozenset()  # methods that are still stubs, of __init__ and forward


@dataclass(frozen=True)
class Parameter:
    """One row of a model's parameter table."""

    name: str
    shape: tuple[int, ...]
    trainable: bool
    group: int  # equal for names of one and the same Parameter
    storage: int  # equal for those that share memory
    std: float  # NaN, like no zero and all finite, unless the values were looked at
    zero: bool  # all its numbers are 0
    finite: bool


@dataclass(frozen=True)
class Model:
    """A model that lives in the child."""

    handle: int
    parameters: tuple[Parameter, ...]
    stand_ins: int  # how many stand-ins its constructor built
    claimed: int | None  # what its own parameters() adds up to
    config_origin: str  # "student", "substitute", or "refused" when GPTConfig itself refused the values
    config_changed: tuple[str, ...] = ()  # fields of the config that the constructor changed
    reseeded: bool = False  # the constructor set the global random seed
    misled: tuple[str, ...] = ()  # how a sub-part was built with another config
    odd: tuple[str, ...] = ()  # parameters that do not start in float32
    shared: bool = False  # another model holds one of its parameters
    replaced: tuple[str, ...] = ()  # methods of nn.Module for which it has its own
    hidden: tuple[str, ...] = ()  # those of them that cannot be called
    signature: tuple[str, ...] = ()  # the names of its constructor's arguments, where it takes plain numbers
    config: Mapping[str, int] = field(default_factory=dict)  # that it was built with

    @property
    def total(self) -> int:
        """Number of parameters, each shared one counted once."""
        return sum({p.group: math.prod(p.shape) for p in self.parameters}.values())

    def find(self, name: str) -> Parameter | None:
        return next((p for p in self.parameters if p.name == name), None)


@dataclass
class Answer:
    """What a call gave: each output as a tensor, None, or a string that says what it was instead."""

    outputs: list[Tensor | str | None]
    sequence: bool  # it returned a tuple or a list
    dtypes: list[str]
    gradients: dict[str, Tensor] = field(default_factory=dict)
    after: dict[str, Tensor] = field(default_factory=dict)  # the inputs as the call left them
    random: bool = False  # the global random state moved
    changed: list[str] = field(default_factory=list)  # saved tensors that the call changed
    mode_changed: bool = False
    grad_mode_changed: bool = False
    kept: Tensor | None = None  # what the call before returned, as it is now
    device_faults: list[str] = field(default_factory=list)
    switches: list[str] = field(default_factory=list)  # what was switched on for the call
    wanted: tuple[int, ...] = ()  # the shape that the first output should have for these inputs

    @property
    def second(self) -> Tensor | str | None:
        return self.outputs[1] if len(self.outputs) > 1 else "nothing"

    @property
    def first(self) -> Tensor | str | None:
        return self.outputs[0] if self.outputs else None


@dataclass(frozen=True)
class Field:
    """A configuration field as the student's object holds it."""

    type: str
    value: int | float | str | bool | None


def read_facts(classes: Any) -> dict[str, Facts]:
    with sensible():
        return {str(name): _facts(dict(data)) for name, data in classes.items()}
    raise AssertionError("unreachable")


def _facts(data: dict[str, Any]) -> Facts:
    stub = dict(data.get("stub", {}))
    return Facts(
        file=str(data["file"]),
        found=bool(data["found"]),
        fault=_fault(data["error"]) if data.get("error") else None,
        is_class=bool(data.get("is_class")),
        is_module=bool(data.get("is_module")),
        is_dataclass=bool(data.get("is_dataclass")),
        lies=bool(data.get("lies")),
        empty=bool(data.get("empty")),
        unwritten=frozenset(method for method in ("__init__", "forward") if stub.get(method)),
    )


def read_fault(data: dict[str, Any]) -> Fault | None:
    """Return the student's exception in a reply, if there is one."""
    if "error" not in data:
        return None
    with sensible():
        return _fault(data["error"])
    raise AssertionError("unreachable")


def _fault(data: dict[str, Any]) -> Fault:
    return Fault(
        type=str(data["type"])[:100],
        message=str(data["message"])[:1000],
        stage=str(data["stage"]),
        file=str(data["file"])[:300],
        line=int(data["line"]),
        source=str(data["source"])[:300],
        not_implemented=bool(data["not_implemented"]),
        memory=bool(data["memory"]),
    )


def read_model(data: dict[str, Any]) -> Model:
    with sensible():
        return Model(
            handle=int(data["handle"]),
            parameters=_parameters(data),
            stand_ins=int(data["stand_ins"]),
            claimed=None if data["claimed"] is None else int(data["claimed"]),
            config_origin=str(data["config_origin"]),
            config_changed=tuple(str(name) for name in data["config_changed"]),
            reseeded=bool(data["reseeded"]),
            misled=tuple(str(line)[:200] for line in data["misled"]),
            odd=tuple(str(line)[:200] for line in data["odd"]),
            shared=bool(data["shared"]),
            replaced=tuple(str(name)[:40] for name in data["replaced"]),
            hidden=tuple(str(name)[:40] for name in data["hidden"]),
            signature=tuple(str(name)[:40] for name in data["signature"]),
        )
    raise AssertionError("unreachable")


def read_parameters(data: dict[str, Any]) -> tuple[Parameter, ...]:
    with sensible():
        return _parameters(data)
    raise AssertionError("unreachable")


def _parameters(data: dict[str, Any]) -> tuple[Parameter, ...]:
    return tuple(
        Parameter(
            name=str(row["name"]),
            shape=tuple(int(side) for side in row["shape"]),
            trainable=bool(row["trainable"]),
            group=int(row["group"]),
            storage=int(row["storage"]),
            std=float(row.get("std", math.nan)),
            zero=bool(row.get("zero", False)),
            finite=bool(row.get("finite", True)),
        )
        for row in data["parameters"]
    )


def read_fields(data: dict[str, Any]) -> dict[str, Field]:
    with sensible():
        return {str(name): Field(str(f["type"]), _plain(f["value"])) for name, f in data["fields"].items()}
    raise AssertionError("unreachable")


def _plain(value: Any) -> int | float | str | bool | None:
    if value is None or isinstance(value, int | float | str | bool):
        return value
    raise TypeError


def read_arguments(data: dict[str, Any]) -> list[str] | None:
    """Return the names of a constructor's arguments, when the reply tells them (building with a config failed)."""
    if "arguments" not in data:
        return None
    with sensible():
        return [str(name)[:100] for name in data["arguments"]][:20]
    raise AssertionError("unreachable")


def split_answers(reply: Reply, count: int) -> list[Reply]:
    """Return the replies to the `count` calls of a model, each with its own tensors."""
    return _split(reply, "answers", count)


def split_trials(reply: Reply, count: int) -> list[Reply]:
    """Return the replies to `count` trials, each with its own tensors."""
    return _split(reply, "trials", count)


def _split(reply: Reply, kind: str, count: int) -> list[Reply]:
    with sensible():
        answers = [dict(answer) for answer in reply.data[kind]]
        if len(answers) != count:
            raise ValueError
        prefixes = [f"{number}/" for number in range(count)]
        return [
            Reply(answer, {n.removeprefix(prefix): t for n, t in reply.tensors.items() if n.startswith(prefix)})
            for prefix, answer in zip(prefixes, answers, strict=True)
        ]
    raise AssertionError("unreachable")


def read_answer(reply: Reply) -> Answer:
    with sensible():
        return _answer(reply)
    raise AssertionError("unreachable")


def _answer(reply: Reply) -> Answer:
    described = reply.data["outputs"]
    outputs: list[Tensor | str | None] = []
    dtypes: list[str] = []
    for index, item in enumerate(described["items"]):
        dtypes.append(str(item.get("dtype", "")))
        if item["kind"] == "tensor":
            outputs.append(reply.tensors.get(f"out.{index}", "a tensor too large to send"))
        else:
            article = "a subclass of Tensor called" if item["kind"] == SUBCLASS else "an object of type"
            outputs.append(None if item["kind"] == "none" else f"{article} {item['type']}")
    return Answer(
        outputs=outputs,
        sequence=bool(described["sequence"]),
        dtypes=dtypes,
        gradients={n.removeprefix("grad."): value for n, value in reply.tensors.items() if n.startswith("grad.")},
        after={n.removeprefix("after."): value for n, value in reply.tensors.items() if n.startswith("after.")},
        random=bool(reply.data.get("random")),
        changed=[str(name) for name in reply.data.get("changed", [])],
        mode_changed=bool(reply.data.get("mode_changed")),
        grad_mode_changed=bool(reply.data.get("grad_mode_changed")),
        kept=reply.tensors.get("kept"),
        device_faults=[str(fault) for fault in reply.data.get("device_faults", [])],
        switches=[str(name) for name in reply.data.get("switches", [])],
    )
