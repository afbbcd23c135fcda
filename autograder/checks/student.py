"""The student's classes as the grader sees them: requests go to the child, facts and plain tensors come back."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import Tensor

from autograder.checks.registry import Outcome, Stopped
from autograder.oracle.cases import Config
from autograder.probe.client import Probe, ProbeFailure, Reply
from autograder.sandbox import Limits, Nursery
from autograder.submission import Submission
from autograder.track import Part, Track
from autograder.verdict import Evidence, Verdict

#: Seed of torch's generator while a student's model is built or called. No secret: hidden numbers come from the grader.
CALL_SEED = 20_011


@dataclass(frozen=True)
class Parameter:
    """One row of a model's parameter table."""

    name: str
    shape: tuple[int, ...]
    trainable: bool
    group: int  # equal for names of one and the same Parameter
    storage: int
    std: float
    finite: bool


@dataclass
class Model:
    """A model that lives in the child."""

    handle: int
    parameters: tuple[Parameter, ...]
    keys: tuple[str, ...]
    stand_ins: int
    claimed: int | None
    config_origin: str

    @property
    def total(self) -> int:
        """Number of parameters, each shared one counted once."""
        sizes = {}
        for parameter in self.parameters:
            size = 1
            for side in parameter.shape:
                size *= side
            sizes[parameter.group] = size
        return sum(sizes.values())

    def find(self, name: str) -> Parameter | None:
        return next((p for p in self.parameters if p.name == name), None)


@dataclass
class Answer:
    """What a call gave: each output as a tensor, None, or a string that says what it was instead."""

    outputs: list[Tensor | str | None]
    sequence: bool
    shapes: list[tuple[int, ...] | None]
    dtypes: list[str]
    differentiable: bool
    gradients: dict[str, Tensor] = field(default_factory=dict)
    without_gradient: list[str] = field(default_factory=list)
    after: dict[str, Tensor] = field(default_factory=dict)
    random: bool = False
    changed: list[str] = field(default_factory=list)
    mode_changed: list[str] = field(default_factory=list)
    device_faults: list[str] = field(default_factory=list)


class Student:
    """Starts the child, loads the submission in it, and starts it anew when it dies."""

    def __init__(self, submission: Submission, track: Track, nursery: Nursery, limits: Limits, tree: Path) -> None:
        self.submission, self.track = submission, track
        self._nursery, self._limits, self._tree = nursery, limits, tree
        self._probe: Probe[Limits] | None = None
        self.facts: dict[str, dict[str, Any]] = {}
        self.tampering: list[str] = []
        self.side_effects: list[str] = []
        self.notices: list[str] = []
        self.output_bytes = 0
        self.generation = 0  # counts the children: handles of an earlier one are gone
        self.config_part = next(part for part in track.parts if not part.parameters)

    def close(self) -> None:
        if self._probe is not None:
            self._collect(self._probe)
            self._probe.close()
            self._probe = None

    def load(self) -> dict[str, dict[str, Any]]:
        """Import the submission in a fresh child. Returns facts by class name; raises ProbeFailure when the child dies."""
        self.close()
        self._probe = Probe(self._nursery, self._tree, self._limits)
        self.generation += 1
        used = {name for part in self.track.parts for name in part.uses.values()}
        reply = self._ask(
            "load",
            {
                "sources": {c: self.submission.sources[c] for c in self.track.classes if c in self.submission.sources},
                "lenient": sorted(self.submission.lenient),
                "kinds": {part.class_name: part.name for part in self.track.parts if part.name in used},
                "config_class": self.config_part.class_name,
                "defaults": self.track.config,
            },
        )
        classes = reply.data.get("classes")
        self.facts = classes if isinstance(classes, dict) else {}
        return self.facts

    def ensure_alive(self) -> None:
        """Start a new child when the last one died."""
        if self._probe is None or not self._probe.alive:
            self.load()

    def build(
        self,
        part: Part,
        config: Config,
        *,
        stand_ins: bool = True,
        dtype: str = "float32",
        interface: str = "config",
    ) -> Model:
        """Build the class of `part`. Raises Stopped with the student's error, or when what was built is no module."""
        reply = self.try_build(part, config, stand_ins=stand_ins, dtype=dtype, interface=interface)
        if isinstance(reply, Outcome):
            raise Stopped(reply)
        return reply

    def try_build(
        self,
        part: Part,
        config: Config,
        *,
        stand_ins: bool = True,
        dtype: str = "float32",
        interface: str = "config",
    ) -> Model | Outcome:
        kinds = {self.track.part(used).class_name: used for used in part.uses.values()} if stand_ins else {}
        reply = self._ask(
            "build",
            {
                "cls": part.class_name,
                "config": config,
                "stand_ins": kinds,
                "dtype": dtype,
                "seed": CALL_SEED,
                "interface": interface,
            },
        )
        data = reply.data
        if data.get("not_module"):
            return Outcome(
                Verdict.FAILED,
                f"{part.class_name} must inherit from nn.Module.",
                f"class {part.class_name}(nn.Module): and super().__init__() first in __init__.",
            )
        if data.get("no_super_init"):
            return Outcome(
                Verdict.CRASHED,
                f"{part.class_name}.__init__ does not call super().__init__().",
                "Call super().__init__() first in __init__: nn.Module keeps its parameters there.",
            )
        if "error" in data:
            return self.fault(part, data["error"])
        with sensible():
            return _model(data)
        raise AssertionError("unreachable")

    def signature(self, part: Part, config: Config) -> dict[str, list[str]] | None:
        """Return the constructor's argument names when calling it with a config raised TypeError, else None."""
        reply = self._ask("build", {"cls": part.class_name, "config": config, "seed": CALL_SEED, "stand_ins": {}})
        signature = reply.data.get("signature")
        return signature if isinstance(signature, dict) else None

    def build_config(self, values: Mapping[str, int]) -> tuple[dict[str, dict[str, Any]], Outcome | None]:
        """Build the student's GPTConfig with keywords; return its fields (type and value), and the fault if it raised."""
        reply = self._ask("config", {"values": dict(values)})
        if "error" in reply.data:
            return {}, self.fault(self.config_part, reply.data["error"])
        return dict(reply.data["fields"]), None

    def load_weights(self, model: Model, weights: Mapping[str, Tensor]) -> list[str]:
        """Load tensors by the student's own names; return the names that found no place."""
        reply = self._ask("weights", {"handle": model.handle}, weights)
        if "error" in reply.data:
            raise Stopped(self.fault(None, reply.data["error"]))
        return list(reply.data["unexpected"])

    def call(
        self,
        part: Part,
        model: Model,
        inputs: Mapping[str, Tensor],
        *,
        keywords: Sequence[str] = (),
        path: str = "",
        train: bool = False,
        cotangent: Tensor | None = None,
        loss: bool = False,
        observe: bool = False,
        moved: bool = False,
        seed: int | None = CALL_SEED,
    ) -> Answer:
        """Call the model. Raises Stopped with the student's error."""
        tensors = dict(inputs)
        if cotangent is not None:
            tensors["cotangent"] = cotangent
        reply = self._ask(
            "call",
            {
                "handle": model.handle,
                "path": path,
                "inputs": [name for name in inputs if name not in keywords],
                "keywords": {name: name for name in keywords},
                "train": train,
                "backward": "loss" if loss else 0 if cotangent is not None else None,
                "observe": observe,
                "moved": moved,
                "seed": seed,
            },
            tensors,
        )
        if "error" in reply.data:
            raise Stopped(self.fault(part, reply.data["error"]))
        with sensible():
            return _answer(reply)
        raise AssertionError("unreachable")

    def step(self, model: Model, names: Sequence[str], lr: float) -> dict[str, Tensor]:
        """Take one SGD step in the child; return the named tensors of the state dict."""
        return dict(self._ask("step", {"handle": model.handle, "names": list(names), "lr": lr}).tensors)

    def forget(self, model: Model) -> None:
        """Free a model in the child."""
        self._ask("forget", {"handle": model.handle})

    def fault(self, part: Part | None, error: dict[str, Any]) -> Outcome:
        """Turn the facts of a student's exception into an outcome."""
        kind, stage = str(error.get("type")), str(error.get("stage"))
        place = {"build": "__init__", "forward": "forward", "backward": "backward"}.get(stage, stage)
        owner = f"{part.class_name}.{place}" if part is not None else place
        if error.get("not_implemented"):
            return Outcome(
                Verdict.NOT_ATTEMPTED,
                f"{owner} is not written yet.",
                "Fill in the stub; its docstring gives the shapes.",
            )
        if error.get("memory"):
            return Outcome(
                Verdict.OUT_OF_MEMORY, f"{owner} runs out of memory.", "Look for a tensor that is far too large."
            )
        where = f" (line {error['line']} of {error['file']})" if error.get("line") else ""
        exhibits: tuple[Evidence, ...] = ()
        if error.get("line"):
            exhibits = (
                Evidence(
                    "code", "Where it happens", {"file": error["file"], "line": error["line"], "text": error["source"]}
                ),
            )
        said = str(error.get("message", "")).strip()
        if stage == "backward":
            message = f"The backward pass raises {kind}{where}: {said}"
        else:
            message = f"{owner} raises {kind}{where}: {said}" if said else f"{owner} raises {kind}{where}."
        return Outcome(Verdict.CRASHED, message, advice(kind, said), exhibits)

    def _ask(self, op: str, args: dict[str, Any], tensors: Mapping[str, Tensor] | None = None) -> Reply:
        probe = self._probe
        if probe is None or not probe.alive:
            raise ProbeFailure(Verdict.CRASHED, "The process that ran the code is gone.")
        try:
            reply = probe.call(op, args, tensors)
            self._check_reply(reply)
        finally:
            self._collect(probe)
        return reply

    def _check_reply(self, reply: Reply) -> None:
        watch = reply.data.get("watch", {})
        for name, kept in (
            ("tampering", self.tampering),
            ("side_effects", self.side_effects),
            ("notices", self.notices),
        ):
            for sentence in watch.get(name, [])[:20]:
                if sentence not in kept:
                    kept.append(str(sentence)[:300])
        if "error" in reply.data and "stage" not in reply.data["error"]:
            raise ProbeFailure(
                Verdict.CRASHED, f"The code broke the process that ran it: {reply.data['error'].get('type')}"
            )

    def _collect(self, probe: Probe[Limits]) -> None:
        self.output_bytes = max(self.output_bytes, probe.output_bytes)
        for sentence in probe.events:
            if sentence not in self.tampering:
                self.tampering.append(sentence)


def advice(kind: str, message: str) -> str:
    """Return what to look at for the errors that students meet most."""
    known = (
        ("shape", "Print the shapes on that line and compare them with the contract in the stub."),
        ("size of tensor", "Print the shapes on that line and compare them with the contract in the stub."),
        ("mat1 and mat2", "The layer's input width does not fit: check the sizes given to nn.Linear."),
        ("truth value", "A tensor of many numbers has no single truth value: write `is not None`."),
        (
            "views and is being modified inplace",
            "Write q = q * scale instead of q *= scale: autograd forbids changing a view of a split.",
        ),
        ("modified by an inplace", "Do not change a tensor in place that the backward pass needs."),
        ("does not require grad", "Something cut the graph: look for detach(), .data, .item(), NumPy or no_grad()."),
        ("index out of range", "An index is larger than its table: check positions and token ids."),
        ("dtype", "Make new tensors with dtype=x.dtype, or convert with .to(x.dtype)."),
        ("not enough values to unpack", "The number of names on the left does not fit the number of dimensions."),
        ("too many values to unpack", "The number of names on the left does not fit the number of dimensions."),
    )
    for fragment, sentence in known:
        if fragment in message.lower():
            return sentence
    if kind == "AttributeError":
        return "Check the spelling, and that __init__ sets this attribute."
    return "Run the class by hand on a small input and read the traceback."


@contextlib.contextmanager
def sensible() -> Iterator[None]:
    """Mark a region that reads a reply's facts: a reply that makes no sense did not come from our code in the child."""
    try:
        yield
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
        raise ProbeFailure(
            Verdict.FORBIDDEN, "The code answers in the grader's place: a reply makes no sense."
        ) from None


def _model(data: dict[str, Any]) -> Model:
    rows = [
        Parameter(
            str(row["name"]),
            tuple(int(side) for side in row["shape"]),
            bool(row["trainable"]),
            int(row["group"]),
            int(row["storage"]),
            float(row["std"]),
            bool(row["finite"]),
        )
        for row in data["parameters"]
    ]
    claimed = None if data["claimed"] is None else int(data["claimed"])
    keys = tuple(str(key) for key in data["keys"])
    return Model(int(data["handle"]), tuple(rows), keys, int(data["stand_ins"]), claimed, str(data["config_origin"]))


def _answer(reply: Reply) -> Answer:
    described = reply.data["outputs"]
    outputs: list[Tensor | str | None] = []
    shapes: list[tuple[int, ...] | None] = []
    dtypes: list[str] = []
    differentiable = False
    for index, item in enumerate(described["items"]):
        if item["kind"] == "tensor":
            outputs.append(reply.tensors.get(f"out.{index}", "a tensor too large to send"))
            tensor = reply.tensors.get(f"out.{index}")
            shapes.append(tuple(int(side) for side in item["shape"]) if tensor is None else tuple(tensor.shape))
            dtypes.append(str(item["dtype"]))
            differentiable = differentiable or bool(item["grad"])
        else:
            outputs.append(None if item["kind"] == "none" else f"{item['kind']} {item['type']}")
            shapes.append(None)
            dtypes.append("")
    prefix, after = "grad.", "after."
    return Answer(
        outputs,
        bool(described["sequence"]),
        shapes,
        dtypes,
        differentiable,
        {name.removeprefix(prefix): value for name, value in reply.tensors.items() if name.startswith(prefix)},
        list(reply.data.get("gradients", [])),
        {name.removeprefix(after): value for name, value in reply.tensors.items() if name.startswith(after)},
        bool(reply.data.get("random")),
        list(reply.data.get("changed", [])),
        list(reply.data.get("mode_changed", [])),
        list(reply.data.get("device_faults", [])),
    )
