"""One exam: a student's class under hidden weights and inputs, next to what a right one answers.

A part that uses others (Block, GPT) is judged on its own wiring: its sub-parts are stand-ins that both sides know. They
take the place of the student's classes before the part is built or, where that does not work (the class is reached in
a way that we cannot replace, or the constructor looks into it), of its sub-modules afterwards. A part that reaches into
its sub-parts runs with neither; it is then compared as a whole, and depends on them. The student's own sub-parts are
never asked what is right.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from autograder.checks.diagnosis import Diagnosis, named
from autograder.checks.evidence import compare
from autograder.checks.names import Names, candidates, exact
from autograder.checks.registry import Outcome, Stopped, failed
from autograder.checks.replies import Answer, Model
from autograder.checks.series import Case, batches
from autograder.checks.student import Call, StandIns, Student, Trial, must
from autograder.oracle.cases import Config, Draws, Sizes, full_shapes, own_and_standin_shapes
from autograder.oracle.misconceptions import recognise, recognise_gradients
from autograder.oracle.reference import Expected, Reference
from autograder.track import Part, Shape
from autograder.verdict import Verdict

#: The ways to put stand-ins into a part, the better one first.
WAYS: tuple[StandIns, ...] = ("classes", "modules", "none")
#: The ways to call a constructor, by the one that the contract asks for, which comes first.
INTERFACES = {
    "config": ("config", "keywords", "positional", "indexed"),
    "arguments": ("arguments", "ordered", "keywords", "positional", "config"),
}


@dataclass(frozen=True)
class Approach:
    """How a part is examined: found once, used by all its checks."""

    stand_ins: StandIns
    interface: str  # the part's own, or another one that the constructor asks for
    renamed: bool


@dataclass
class Specimen:
    """A student's model with hidden weights in it, and what is needed to ask the oracle about the same case."""

    part: Part
    sizes: Sizes
    model: Model
    names: Names
    shapes: dict[str, Shape]
    weights: dict[str, Tensor]  # under the contract's names; a tensor that the student lacks is left out


#: Gives a model that was built and what its calls came to, or raises Stopped when it could not be built.
Started = Callable[[], tuple[Model, list[Answer | Outcome]]]


class Exam:
    """Everything that a check may use."""

    def __init__(self, student: Student, reference: Reference, draws: Draws) -> None:
        self.student, self.reference, self.draws = student, reference, draws
        self.track = student.track
        self._approaches: dict[str, Approach] = {}
        self._slow: set[str] = set()  # parts whose weights have to be fitted to the model before they go in
        self.verdicts: dict[str, Verdict] = {}  # of the checks that were run before
        self.default_model: Model | None = None  # the whole model at the course's size, once it was built
        self.warnings: list[str] = []  # what costs nothing, but should be told
        self.others: Callable[[], Exam] | None = None  # waits for the exam of the other parts, where that runs beside

    def join(self) -> None:
        """Wait for the checks that run beside these, and take over what they saw. To be called before that is used."""
        if self.others is not None:
            wait, self.others = self.others, None
            other = wait()
            other.student.close()
            self.verdicts = other.verdicts | self.verdicts
            self.warnings = [*other.warnings, *self.warnings]
            self.student.take_over(other.student)

    # -- building -----------------------------------------------------------------------------------------------------

    def approach(self, part: Part) -> Approach:
        """Find out how `part` can be examined; raises Stopped when it cannot be built at all."""
        if part.name not in self._approaches:
            self._approaches[part.name] = self._find_approach(part)
        return self._approaches[part.name]

    def build(self, part: Part, sizes: Sizes, *, dtype: str = "float32", look: bool = False) -> Model:
        """Build a student's model in the way that was found for the part; `look` at the values of its parameters."""
        how = self.approach(part)
        return self.student.build(
            part, sizes.config, stand_ins=how.stand_ins, interface=how.interface, dtype=dtype, look=look
        )

    def specimen(
        self, part: Part, sizes: Sizes, purpose: str, *, scale: float = 1.0, dtype: str = "float32"
    ) -> Specimen:
        """Build a model and put hidden weights in it."""
        model = self.build(part, sizes, dtype=dtype)
        return self._fill(part, sizes, model, purpose, scale)

    def trial(self, part: Part, case: Case) -> tuple[Specimen, list[Answer | Outcome]]:
        """Build a model, put hidden weights in it and call it. Raises Stopped when it does not build."""
        return next(self.series(part, [case]))

    def series(self, part: Part, cases: Sequence[Case]) -> Iterator[tuple[Specimen, list[Answer | Outcome]]]:
        """Make a trial of each case in turn, many in one request where the part's names allow that.

        Raises Stopped where a model does not build.
        """
        how = self.approach(part)
        for batch in batches(cases):
            if part.name in self._slow or how.renamed:
                yield from (self._one_by_one(part, case) for case in batch)
                continue
            shapes = [self.shapes(part, case.sizes.config) for case in batch]
            weights = [self._drawn(s, case.purpose, case.scale) for s, case in zip(shapes, batch, strict=True)]
            trials = [
                Trial(case.sizes.config, drawn, case.calls, keep=case.keep)
                for case, drawn in zip(batch, weights, strict=True)
            ]
            tried = self.student.trials(part, trials, stand_ins=how.stand_ins, interface=how.interface)
            for case, shape, drawn, result in zip(batch, shapes, weights, tried, strict=True):
                if isinstance(result, Outcome):
                    raise Stopped(result)
                model, answers = result
                specimen = Specimen(part, case.sizes, model, exact(model, shape), shape, drawn)
                if part.name not in self._slow and self._as_contracted(specimen):
                    yield specimen, answers
                else:
                    self._slow.add(part.name)
                    yield self._one_by_one(part, case)

    def _one_by_one(self, part: Part, case: Case) -> tuple[Specimen, list[Answer | Outcome]]:
        specimen = self.specimen(part, case.sizes, case.purpose, scale=case.scale)
        answers = [self.student.attempt(part, specimen.model, call) for call in case.calls]
        return specimen, [_in_contract_names(specimen, answer) for answer in answers]

    def fresh(
        self, part: Part, sizes: Sizes, calls: Sequence[Call], *, dtype: str = "float32", keep: bool = False
    ) -> tuple[Model, list[Answer | Outcome]]:
        """Build a model and call it with the weights that it starts from. Raises Stopped when it does not build."""
        return self._started(part, [Trial(sizes.config, {}, calls, dtype, keep)])[0]()

    def fresh_series(self, part: Part, cases: Sequence[tuple[Sizes, Sequence[Call]]]) -> list[Started]:
        """Do as `fresh` for several cases in one request; return functions that give, or raise, what each came to."""
        return self._started(part, [Trial(sizes.config, {}, calls) for sizes, calls in cases])

    def _started(self, part: Part, trials: Sequence[Trial]) -> list[Started]:
        how = self.approach(part)
        tried = self.student.trials(part, trials, stand_ins=how.stand_ins, interface=how.interface)
        return [partial(_built, result) for result in tried]

    def refill(self, specimen: Specimen, weights: Mapping[str, Tensor]) -> Specimen:
        """Put other weights (contract names) into a specimen's model."""
        kept = {name: value for name, value in weights.items() if name in specimen.names.covered}
        self.student.load_weights(
            specimen.model, specimen.names.to_student(kept) | self._neutral(specimen.model, specimen.names)
        )
        return replace(specimen, weights=kept)

    def shapes(self, part: Part, config: Config) -> dict[str, Shape]:
        """Return the contract's tensors of a model as it is examined, with those of its stand-ins or real parts."""
        if self._whole(part):
            return full_shapes(part, self.track, config)
        return own_and_standin_shapes(part, self.track, config)

    def _whole(self, part: Part) -> bool:
        found = self._approaches.get(part.name)
        return found is not None and found.stand_ins == "none"

    def inputs(self, part: Part, sizes: Sizes, purpose: str, scale: float = 1.0) -> dict[str, Tensor]:
        """Draw what goes into the forward of `part`: x (B, T, C), or idx (B, T) for the whole model."""
        if part.takes_tokens:
            return {"idx": self.draws.tokens(f"idx {purpose}", (sizes.batch, sizes.length), sizes.config["vocab_size"])}
        return {"x": self.draws.normal(f"x {purpose}", (sizes.batch, sizes.length, sizes.config["n_embd"]), scale)}

    # -- asking both sides --------------------------------------------------------------------------------------------

    def ask(self, specimen: Specimen, inputs: Mapping[str, Tensor], **how: Any) -> Answer:
        """Call the student's model; gradients come back under the contract's names (inputs as `input.x`)."""
        answer = self.student.call(specimen.part, specimen.model, inputs, **how)
        _in_contract_names(specimen, answer)
        return answer

    def train_call(self, part: Part, model: Model, inputs: Mapping[str, Tensor], **how: Any) -> Answer:
        """Call the model with idx and targets, by the name `targets` or, where that is unknown, by position."""
        call = Call(inputs, keywords=["targets"], **how)
        return self.by_position(part, model, call, self.student.attempt(part, model, call))

    def by_position(self, part: Part, model: Model, call: Call, answer: Answer | Outcome) -> Answer:
        """Return the answer to a call with targets; ask by position where the name was not known."""
        if not isinstance(answer, Outcome) or "unexpected keyword argument 'targets'" not in answer.message:
            return must(answer)
        again = must(self.student.attempt(part, model, replace(call, keywords=())))
        self.warnings.append("forward's second argument should be called targets.")
        return again

    def expect(
        self, specimen: Specimen, inputs: Mapping[str, Tensor], *, cotangent: Tensor | None = None, loss: bool = False
    ) -> Expected:
        """Ask the reference about the same case."""
        config = specimen.sizes.config
        return self.reference.evaluate(
            specimen.part,
            config,
            specimen.weights,
            inputs,
            stand_ins=not self._whole(specimen.part),
            cotangent=cotangent,
            loss=loss,
        )

    def repeated(self, part: Part) -> tuple[str, Part] | None:
        """Return the path of the sub-parts of which there is a number ("transformer.h.{i}"), and what they are."""
        return next(((path, self.track.part(used)) for path, used in part.uses.items() if "{i}" in path), None)

    def tied_names(self, part: Part, model: Model, sizes: Sizes) -> tuple[str, str] | None:
        """Return the student's names of the token table and of the head, or None when there is no such pair."""
        shapes, tables = self.shapes(part, sizes.config), self.track.tables
        if not self.approach(part).renamed:
            there = model.find(tables.tokens) or model.find(tables.head)
            return (tables.tokens, tables.head) if there else None
        shape = shapes[tables.head]
        found = [p.name for p in model.parameters if p.shape == shape]
        return (found[0], found[-1]) if found else None

    def diagnose(self, specimen: Specimen, inputs: Mapping[str, Tensor], output: Tensor) -> Diagnosis | None:
        """Name the known mistake (or the two) that gives exactly this output, if there is one."""
        part, config = specimen.part, specimen.sizes.config
        return named(recognise(part.mistakes, inputs, part.in_bank_names(specimen.weights), config, output))

    def diagnose_gradients(
        self,
        specimen: Specimen,
        inputs: Mapping[str, Tensor],
        mine: Mapping[str, Tensor],
        right: Mapping[str, Tensor],
        cotangent: Tensor | None,
    ) -> Diagnosis | None:
        """Name the known mistake (or the two) that leaves the output right and gives exactly these gradients."""
        part, config = specimen.part, specimen.sizes.config
        if self._whole(part) or not self.track.bank_knows_gradients(part):
            return None  # sub-parts are the student's own here: the bank knows their stand-ins alone
        weights, own, wanted = (part.in_bank_names(tensors) for tensors in (specimen.weights, mine, right))
        return named(recognise_gradients(part.mistakes, inputs, weights, config, own, wanted, cotangent))

    # -- how to examine -----------------------------------------------------------------------------------------------

    def _find_approach(self, part: Part) -> Approach:
        """Try stand-ins for the classes, then for the sub-modules; then other interfaces of the constructor."""
        sizes = self.draws.sizes(f"approach {part.name}", n_head=3, head_dim=10, length=7, n_layer=2)
        problem: Outcome | None = None
        for interface in INTERFACES[part.interface]:
            built: list[Approach] = []
            for stand_ins in WAYS if part.uses else WAYS[:1]:
                model = self.student.try_build(part, sizes.config, stand_ins=stand_ins, interface=interface)
                if isinstance(model, Outcome):
                    problem = problem or model
                    continue
                if part.uses and stand_ins != "none" and model.stand_ins == 0:
                    continue
                approach, ran = self._try(part, sizes, model, stand_ins, interface)
                if ran:
                    return approach
                built.append(approach)
            if built:
                return built[0]
            if interface == part.interface and not self._other_interface(part, sizes):
                break
        raise Stopped(problem or failed(*_unreachable(part)))

    def _other_interface(self, part: Part, sizes: Sizes) -> bool:
        """Whether the constructor asks for something else: plain numbers (n_embd, n_head) instead of a config, say."""
        return bool(self.student.constructor_arguments(part, sizes.config))

    def _try(
        self, part: Part, sizes: Sizes, model: Model, stand_ins: StandIns, interface: str
    ) -> tuple[Approach, bool]:
        """Return the approach, and whether a call came through at all.

        Other names than the contract's are only believed when the numbers then agree with the reference.
        """
        approach = Approach(stand_ins, interface, renamed=False)
        try:
            self.student.call(part, model, self.inputs(part, sizes, f"approach {part.name}"))
        except Stopped:
            return approach, False
        if not exact(model, self.shapes(part, sizes.config)).identical:
            names = self._agreeing(part, sizes, model)
            if names is not None:
                return Approach(stand_ins, interface, renamed=True), True
        return approach, True

    def _agreeing(self, part: Part, sizes: Sizes, model: Model) -> Names | None:
        """Return the first correspondence of other names under which the model's numbers are right."""
        shapes = self.shapes(part, sizes.config)
        return next((names for names in candidates(model, shapes) if self._agrees(part, sizes, model, names)), None)

    def _agrees(self, part: Part, sizes: Sizes, model: Model, names: Names) -> bool:
        inputs = self.inputs(part, sizes, f"approach {part.name}")
        specimen = self._loaded(part, sizes, model, names, f"approach {part.name}", 1.0)
        try:
            answer = self.student.call(part, model, inputs)
            expected = self.expect(specimen, inputs)
        except Stopped:
            return False
        output, target = answer.first, expected.outputs[0]
        return isinstance(output, Tensor) and target is not None and compare(output, target).ok

    def _fill(self, part: Part, sizes: Sizes, model: Model, purpose: str, scale: float) -> Specimen:
        how = self.approach(part)
        names = exact(model, self.shapes(part, sizes.config))
        if how.renamed:
            names = self._agreeing(part, Sizes(sizes.config, 2, min(5, sizes.length)), model) or names
        return self._loaded(part, sizes, model, names, purpose, scale)

    def _loaded(self, part: Part, sizes: Sizes, model: Model, names: Names, purpose: str, scale: float) -> Specimen:
        shapes = self.shapes(part, sizes.config)
        drawn = self._drawn(shapes, purpose, scale)
        weights = {
            name: value for name, value in drawn.items() if name in names.covered or self._tied_elsewhere(name, names)
        }
        weights = self._shared(model, names, weights)
        self.student.load_weights(model, names.to_student(weights) | self._neutral(model, names))
        return Specimen(part, sizes, model, names, shapes, weights)

    def _drawn(self, shapes: Mapping[str, Shape], purpose: str, scale: float) -> dict[str, Tensor]:
        tables = self.track.tables
        drawn = self.draws.weights(purpose, shapes, scale, tables=tables.names)
        if tables.tied and tables.head in drawn and tables.tokens in drawn:
            drawn[tables.tokens] = drawn[tables.head]  # one matrix read both ways
        return drawn

    def _as_contracted(self, specimen: Specimen) -> bool:
        """Whether the model's tensors are the contract's, so that hidden weights go in as they were drawn."""
        model, names, weights = specimen.model, specimen.names, specimen.weights
        shared = self._shared(model, names, dict(weights))
        return (
            names.identical
            and not self._neutral(model, names)
            and all(value is weights[name] for name, value in shared.items())
        )

    @staticmethod
    def _shared(model: Model, names: Names, weights: dict[str, Tensor]) -> dict[str, Tensor]:
        """Give names of one and the same parameter one value: that they are one costs its points elsewhere."""
        groups = {p.name: p.group for p in model.parameters}
        whole = {take.source: groups[take.student] for take in names.takes if take.student in groups}
        first: dict[int, Tensor] = {}
        for name, value in weights.items():
            kept = first.setdefault(whole[name], value) if name in whole and names.whole(name) else value
            weights[name] = kept if kept.shape == value.shape else value
        return weights

    def _tied_elsewhere(self, name: str, names: Names) -> bool:
        tables = self.track.tables
        return tables.tied and name == tables.tokens and tables.head in names.covered

    def _neutral(self, model: Model, names: Names) -> dict[str, Tensor]:
        """Zero the extra biases that the contract does not have: they cost their points once, in `parameters`."""
        known = {take.student for take in names.takes}
        return {
            p.name: torch.zeros(p.shape)
            for p in model.parameters
            if p.name not in known and p.name.rsplit(".", 1)[-1] == "bias" and len(p.shape) == 1
        }


def _built(result: tuple[Model, list[Answer | Outcome]] | Outcome) -> tuple[Model, list[Answer | Outcome]]:
    if isinstance(result, Outcome):
        raise Stopped(result)
    return result


def _in_contract_names(specimen: Specimen, answer: Answer | Outcome) -> Answer | Outcome:
    """Put the gradients of an answer under the contract's names."""
    if isinstance(answer, Answer) and answer.gradients:
        mine = {name: value for name, value in answer.gradients.items() if name.startswith("input.")}
        answer.gradients = mine | specimen.names.to_contract(answer.gradients, specimen.shapes)
    return answer


def _unreachable(part: Part) -> tuple[str, str]:
    """Return what to say of a part that holds no sub-part where the contract has one."""
    where = " and ".join(path.replace("{i}", "0") for path in part.uses)
    return (
        f"{part.class_name} builds none of the classes it is made of, and has no sub-module {where}.",
        "Build them in __init__, under the names that the stub gives.",
    )
