"""The student's classes as the grader sees them: requests go to the child, facts and plain tensors come back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from torch import Tensor

from autograder.checks.faults import fault_outcome
from autograder.checks.registry import Outcome, Stopped
from autograder.checks.replies import (
    Answer,
    Facts,
    Field,
    Model,
    read_answer,
    read_arguments,
    read_facts,
    read_fault,
    read_fields,
    read_model,
    read_parameters,
    sensible,
    split_answers,
    split_trials,
)
from autograder.oracle.cases import Config, places
from autograder.probe.client import Probe, ProbeFailure, Reply
from autograder.sandbox import Limits, Nursery
from autograder.submission import Submission
from autograder.track import Part, Track, fields_of
from autograder.verdict import Verdict

#: How a part's sub-parts are replaced: see `Student.try_build`.
StandIns = Literal["classes", "modules", "none"]
#: Seed of torch's generator while a student's model is built or called. No secret: hidden numbers come from the grader.
CALL_SEED = 20_011


@dataclass(frozen=True)
class Call:
    """One call of a model (or of its sub-module at `path`), and what to see of it.

    Gradients are taken of the first output with `cotangent`, or of the second output with `loss`.
    """

    inputs: Mapping[str, Tensor]
    keywords: Sequence[str] = ()
    path: str = ""
    train: bool = False
    cotangent: Tensor | None = None
    loss: bool = False
    observe: bool = False
    moved: bool = False
    grad: bool = False
    seed: int = CALL_SEED
    method: str = ""  # other than forward
    numbers: Sequence[int] = ()  # plain arguments after the inputs
    strided: bool = False  # inputs that are not contiguous in memory
    switched: str = ""  # switch on what has one of these words in its name

    @property
    def request(self) -> dict[str, Any]:
        return {
            "path": self.path,
            "inputs": [name for name in self.inputs if name not in self.keywords],
            "keywords": {name: name for name in self.keywords},
            "train": self.train,
            "backward": "loss" if self.loss else 0 if self.cotangent is not None else None,
            "observe": self.observe,
            "moved": self.moved,
            "grad": self.grad,
            "seed": self.seed,
        } | self._rarely

    @property
    def _rarely(self) -> dict[str, Any]:
        """What few calls ask for is left out of the others."""
        asked = {"method": self.method, "numbers": self.numbers, "strided": self.strided, "switched": self.switched}
        return {name: value for name, value in asked.items() if value}

    @property
    def tensors(self) -> dict[str, Tensor]:
        return dict(self.inputs) | ({} if self.cotangent is None else {"cotangent": self.cotangent})


@dataclass(frozen=True)
class Trial:
    """A model to build, the weights to load into it by the student's names, and the calls to make of it."""

    config: Config
    weights: Mapping[str, Tensor]
    calls: Sequence[Call]
    dtype: str = "float32"
    keep: bool = False  # whether the model stays, for more calls


class Student:
    """Starts the child, loads the submission in it, and starts it anew when it dies."""

    def __init__(self, submission: Submission, track: Track, nursery: Nursery, limits: Limits, tree: Path) -> None:
        self.submission, self.track = submission, track
        self._nursery, self._limits, self._tree = nursery, limits, tree
        self._probe: Probe[Limits] | None = None
        self.facts: dict[str, Facts] = {}
        self.tampering: list[str] = list(submission.suspicious)  # what cannot be a mistake
        self.side_effects: list[str] = []  # global settings that the submission changes
        self.notices: list[str] = []  # harmless, but worth telling
        self.output_bytes = 0

    def close(self) -> None:
        """End the child, if there is one."""
        if self._probe is not None:
            self._probe.close()
            self._collect(self._probe)
            self._probe = None

    def load(self) -> None:
        """Import the submission in a fresh child. Raises ProbeFailure when the child dies of it."""
        self.close()
        self._probe = Probe(self._nursery, self._tree, self._limits)
        used = {name for part in self.track.parts for name in part.uses.values()}
        reply = self._ask(
            "load",
            {
                "sources": {c: self.submission.sources[c] for c in self.track.classes if c in self.submission.sources},
                "files": {name: part.file for part in self.track.parts for name in part.names},
                "lenient": sorted(self.submission.lenient),
                "kinds": {part.class_name: part.role for part in self.track.parts if part.name in used},
                "takes": {part.class_name: part.constructor for part in self.track.parts if part.name in used},
                "widths": {part.class_name: part.width for part in self.track.parts if part.name in used},
                "config_class": self.track.config_part.class_name if self.track.config_part else "",
                "defaults": self.track.config,
            },
        )
        self.facts = read_facts(reply.data.get("classes"))
        for name, facts in self.facts.items():
            if facts.lies:
                self.accuse(f"{name} lies about its class: it overrides __class__.")

    def ensure_alive(self) -> None:
        """Start a new child when the last one died."""
        if self._probe is None or not self._probe.alive:
            self.load()

    def facts_of(self, part: Part) -> Facts:
        """Return what the import showed of a part's class."""
        return self.facts.get(part.class_name, Facts())

    def take_over(self, other: Student) -> None:
        """Add what was seen of the same submission in another child; what that saw comes first."""
        for mine, theirs in (
            (self.tampering, other.tampering),
            (self.side_effects, other.side_effects),
            (self.notices, other.notices),
        ):
            mine[:] = dict.fromkeys([*theirs, *mine])
        self.output_bytes = max(self.output_bytes, other.output_bytes)

    def accuse(self, sentence: str) -> None:
        """Note something that cannot be a mistake."""
        _keep(self.tampering, sentence)

    def build(self, part: Part, config: Config, **how: Any) -> Model:
        """As `try_build`, but raises Stopped with the student's error, or when what was built is no module."""
        model = self.try_build(part, config, **how)
        if isinstance(model, Outcome):
            raise Stopped(model)
        return model

    def try_build(
        self,
        part: Part,
        config: Config,
        *,
        stand_ins: StandIns = "classes",
        dtype: str = "float32",
        interface: str | None = None,
        look: bool = False,
        counted: bool = False,
    ) -> Model | Outcome:
        """Build the class of `part`, or return why that does not work.

        Its sub-parts are stand-ins, put in place of the student's classes before it is built ("classes") or of its
        sub-modules afterwards ("modules"), or the student's own ("none"). With `look` the table says what the values
        are; with `counted` they are left undrawn, and the model serves for its table alone.
        """
        request = self._build_request(part, config, stand_ins, dtype, interface) | {"look": look, "counted": counted}
        data = self._ask("build", request).data
        return self._built(part, config, data)

    def _built(self, part: Part, config: Config, data: dict[str, Any]) -> Model | Outcome:
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
        fault = read_fault(data)
        if fault is not None:
            return fault_outcome(fault, part.class_name)
        if data.get("too_many"):
            return Outcome(
                Verdict.FAILED,
                f"{part.class_name} holds thousands of parameters where a few are expected.",
                "Build layers, not lists of numbers.",
            )
        model = replace(read_model(data), config=config)
        if model.replaced:
            names = ", ".join(model.replaced)
            _keep(
                self.notices, f"{part.class_name} has its own {names}: training scripts call nn.Module's by that name."
            )
        if model.claimed is not None and model.claimed != model.total:
            self.accuse(f"{part.class_name}.parameters() claims tensors that the model does not have.")
        return model

    def constructor_arguments(self, part: Part, config: Config) -> list[str] | None:
        """Return the constructor's argument names when calling it as the contract says raised TypeError, else None."""
        request = self._build_request(part, config, "none", "float32", part.interface)
        return read_arguments(self._ask("build", request).data)

    def build_config(
        self, values: Mapping[str, int], then: Mapping[str, int] | None = None
    ) -> tuple[dict[str, Field], Outcome | None]:
        """Build the student's GPTConfig with keywords; return its fields, and the fault if it raised.

        With `then` another one is built before the fields of the first are read.
        """
        data = self._ask("config", {"values": dict(values), "then": None if then is None else dict(then)}).data
        fault = read_fault(data)
        if fault is not None:
            return {}, fault_outcome(fault, self.track.config_part.class_name if self.track.config_part else "")
        return read_fields(data), None

    def load_weights(self, model: Model, weights: Mapping[str, Tensor]) -> None:
        """Load tensors by the student's own names; those that find no place are left out."""
        fault = read_fault(self._ask("weights", {"handle": model.handle}, weights).data)
        if fault is not None:
            raise Stopped(fault_outcome(fault))

    def load_own_way(self, part: Part, model: Model, weights: Mapping[str, Tensor]) -> Model:
        """Load through the model's own load_state_dict; return the model with its parameter table as it is then."""
        data = self._ask("weights", {"handle": model.handle, "own": True}, weights).data
        fault = read_fault(data)
        if fault is not None:
            raise Stopped(fault_outcome(fault, part.class_name))
        return replace(model, parameters=read_parameters(data))

    def call(self, part: Part, model: Model, inputs: Mapping[str, Tensor], **how: Any) -> Answer:
        """Call the model; `how` are the fields of a Call. Raises Stopped with the student's error."""
        return must(self.attempt(part, model, Call(inputs, **how)))

    def attempt(self, part: Part, model: Model, call: Call) -> Answer | Outcome:
        """Call the model; return what that gave, or the student's error."""
        return self._answered(
            part, model, call, self._ask("call", {**call.request, "handle": model.handle}, call.tensors)
        )

    def attempts(self, part: Part, model: Model, calls: Sequence[Call]) -> list[Answer | Outcome]:
        """Make several calls in one request; return what each gave."""
        reply = self._ask("calls", {"handle": model.handle, **_requests(calls)}, _tensors(calls))
        answers = zip(calls, split_answers(reply, len(calls)), strict=True)
        return [self._answered(part, model, call, one) for call, one in answers]

    def trials(
        self,
        part: Part,
        trials: Sequence[Trial],
        *,
        stand_ins: StandIns = "classes",
        interface: str | None = None,
    ) -> list[tuple[Model, list[Answer | Outcome]] | Outcome]:
        """Make several trials in one request.

        Returns of each its model and what each call gave, or why it cannot be built.
        """
        requests: list[dict[str, Any]] = []
        tensors: dict[str, Tensor] = {}
        for number, trial in enumerate(trials):
            build = self._build_request(part, trial.config, stand_ins, trial.dtype, interface)
            requests.append({"build": build, "keep": trial.keep, **_requests(trial.calls)})
            tensors |= {f"{number}/w/{name}": value for name, value in trial.weights.items()}
            tensors |= {f"{number}/{name}": value for name, value in _tensors(trial.calls).items()}
        replies = split_trials(self._ask("trials", {"trials": requests}, tensors), len(trials))
        return [self._tried(part, trial, reply) for trial, reply in zip(trials, replies, strict=True)]

    def _tried(self, part: Part, trial: Trial, reply: Reply) -> tuple[Model, list[Answer | Outcome]] | Outcome:
        model = self._built(part, trial.config, reply.data)
        if isinstance(model, Outcome):
            return model
        replies = split_answers(reply, len(trial.calls))
        return model, [self._answered(part, model, call, one) for call, one in zip(trial.calls, replies, strict=True)]

    @staticmethod
    def _answered(part: Part, model: Model, call: Call, reply: Reply) -> Answer | Outcome:
        fault = read_fault(reply.data)
        first = next(iter(call.inputs.values()))
        if fault is not None:
            config, head_dim = model.config, model.config["n_embd"] // model.config["n_head"]
            sizes = {"B": first.shape[0], "T": first.shape[1], "C": config["n_embd"], "head_dim": head_dim}
            sizes |= {name: config[name] for name in ("n_head", "block_size", "vocab_size")}
            return fault_outcome(fault, part.class_name, sizes)
        answer = read_answer(reply)
        answer.wanted = (*first.shape[:2], part.output_width(model.config))
        return answer

    def carry_over(self, part: Part, source: Model, target: Model) -> None:
        """Load one model's weights into another by the student's own state_dict and strict load_state_dict."""
        fault = read_fault(self._ask("copy", {"source": source.handle, "target": target.handle}).data)
        if fault is not None:
            raise Stopped(fault_outcome(fault, part.class_name))

    def step(self, model: Model, names: Sequence[str], lr: float) -> dict[str, Tensor]:
        """Take one SGD step in the child; return the named tensors of the state dict."""
        return dict(self._ask("step", {"handle": model.handle, "names": list(names), "lr": lr}).tensors)

    def functions(
        self, name: str, calls: Sequence[dict[str, Any]], tensors: Mapping[str, Tensor] | None = None
    ) -> list[Reply]:
        """Make several calls of a function, or of methods of a class, in one request: see probe/functions.py."""
        reply = self._ask("functions", {"name": name, "calls": list(calls)}, tensors)
        return split_answers(reply, len(calls))

    def forget(self, model: Model) -> None:
        """Free a model in the child."""
        self._ask("forget", {"handle": model.handle})

    def _build_request(
        self, part: Part, config: Config, stand_ins: StandIns, dtype: str, interface: str | None
    ) -> dict[str, Any]:
        used = {path: self.track.part(name) for path, name in part.uses.items()}
        kinds = {each.class_name: each.role for each in used.values()}
        paths = {place: each.class_name for path, each in used.items() for place in places(path, config, part.repeat)}
        return {
            "cls": part.class_name,
            "config": config,
            "fields": fields_of(config),
            "arguments": part.arguments(config),
            "stand_ins": kinds if stand_ins == "classes" else {},
            "placed": paths if stand_ins == "modules" else {},
            "dtype": dtype,
            "seed": CALL_SEED,
            "interface": interface or part.interface,
        }

    def _ask(self, op: str, args: dict[str, Any], tensors: Mapping[str, Tensor] | None = None) -> Reply:
        probe = self._probe
        if probe is None or not probe.alive:
            raise ProbeFailure(Verdict.CRASHED, "The process that ran the code is gone.")
        try:
            reply = probe.call(op, args, tensors)
        finally:
            self._collect(probe)
        with sensible():
            watch = dict(reply.data["watch"])
            for kept, name in (
                (self.tampering, "tampering"),
                (self.side_effects, "side_effects"),
                (self.notices, "notices"),
            ):
                for sentence in list(watch[name])[:20]:
                    _keep(kept, str(sentence))
        return reply

    def _collect(self, probe: Probe[Limits]) -> None:
        self.output_bytes = max(self.output_bytes, probe.output_bytes)
        for sentence in probe.events:
            self.accuse(sentence)


def must(answer: Answer | Outcome) -> Answer:
    """Return what a call gave; raises Stopped with the student's error when it gave none."""
    if isinstance(answer, Outcome):
        raise Stopped(answer)
    return answer


def _requests(calls: Sequence[Call]) -> dict[str, Any]:
    return {"calls": [call.request for call in calls]}


def _tensors(calls: Sequence[Call]) -> dict[str, Tensor]:
    return {f"{number}/{name}": value for number, call in enumerate(calls) for name, value in call.tensors.items()}


def _keep(kept: list[str], sentence: str) -> None:
    """Add a sentence from the child once, within bounds."""
    sentence = sentence[:300]
    if sentence not in kept and len(kept) < 40:
        kept.append(sentence)
