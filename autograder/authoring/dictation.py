"""Dictation: grade witnesses with the live oracle under a seed, and write down every answer that a kit may need."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from torch import Tensor

from autograder.authoring.witnesses import witnesses
from autograder.checks.diagnosis import Diagnosis
from autograder.checks.exam import Exam, Specimen
from autograder.checks.registry import Outcome
from autograder.checks.replies import Answer, Model
from autograder.checks.series import Case
from autograder.checks.student import Student
from autograder.grading import grade
from autograder.oracle.case_key import expected_key, gradient_mistake_key, mistake_key
from autograder.oracle.cases import Config, Draws, Sizes
from autograder.oracle.expected import Expected
from autograder.oracle.fingerprints import pack
from autograder.oracle.misconceptions import BANK, PAIR_LIMIT, gradient_rows, of_part, pairs
from autograder.oracle.reference import Reference
from autograder.oracle.sealed import output_layer
from autograder.oracle.sealed_file import Writer
from autograder.oracle.variants import run
from autograder.sandbox import Limits, Nursery
from autograder.submission import read_submission
from autograder.track import Part, Track
from autograder.verdict import Report

#: Our own code hangs nowhere: on a busy machine it gets the time that it takes, or answers would be missing.
PATIENT = Limits(wall_s=300.0, cpu_s=3600)
#: Two mistakes at once are told by the first cases that show them; there are hundreds of pairs.
PAIR_CASES = 4


class Notes(Reference):
    """The live reference, which writes down what it answers, and what it would answer if usual tensors were missing."""

    def __init__(self, track: Track, folder: Path) -> None:
        super().__init__(track, folder)
        self.writer = Writer()
        self.lacking = True  # whether answers for models that lack a tensor are wanted too
        self._pair_cases: Counter[tuple[str, bool]] = Counter()

    def evaluate(
        self,
        part: Part,
        config: Config,
        weights: Mapping[str, Tensor],
        inputs: Mapping[str, Tensor],
        *,
        stand_ins: bool = True,
        cotangent: Tensor | None = None,
        loss: bool = False,
    ) -> Expected:
        """Answer as the live reference does."""
        how: dict[str, Any] = {"stand_ins": stand_ins, "cotangent": cotangent, "loss": loss}
        answer = super().evaluate(part, config, weights, inputs, **how)
        known: dict[str, Expected] = {}
        for kept in (weights, *(_lacking(part, weights) if self.lacking and (stand_ins or not part.uses) else ())):
            key = expected_key(part.name, config, kept, inputs, **how)
            if key in self.writer.index:
                continue
            given = answer if kept is weights else super().evaluate(part, config, kept, inputs, **how)
            gradients = {
                name: value for name, value in given.gradients.items() if name in kept or name.startswith("input.")
            }
            given = Expected(given.outputs, gradients)
            self.writer.add(key, given, output_layer(kept), known)
            known[key] = given
            if (loss or cotangent is not None) and (stand_ins or not part.uses):
                self._gradient_mistakes(part, config, kept, inputs, given, cotangent, two=kept is weights)
        return answer

    def _gradient_mistakes(
        self,
        part: Part,
        config: Config,
        weights: Mapping[str, Tensor],
        inputs: Mapping[str, Tensor],
        right: Expected,
        cotangent: Tensor | None,
        *,
        two: bool,
    ) -> None:
        """Write down the prints of the gradients that the bank's mistakes give in this case."""
        if not self.track.bank_knows_gradients(part):
            return
        place = {id(entry): number for number, entry in enumerate(BANK)}
        weights, wanted = part.in_bank_names(weights), part.in_bank_names(right.gradients)
        given = gradient_rows(part.mistakes, inputs, weights, config, wanted, cotangent)
        found = [
            (tuple(place[id(entry)] for entry in candidate), row)
            for candidate, row in given
            if two or len(candidate) == 1
        ]
        if found:
            key = gradient_mistake_key(part.mistakes, config, weights, inputs, cotangent)
            self.writer.add_prints(key, pack(found))

    def mistakes(
        self,
        part: Part,
        config: Config,
        weights: Mapping[str, Tensor],
        inputs: Mapping[str, Tensor],
        *,
        leaks: bool = False,
    ) -> None:
        """Write down the prints of what the bank's mistakes give in this case; of two at once in the first few cases
        where values are compared, and in the first few where what `leaks` is diagnosed."""
        length = next(iter(inputs.values())).shape[1]
        for own in (weights, *(_lacking(part, weights) if length <= PAIR_LIMIT else ())):
            kept = part.in_bank_names(own)
            key = mistake_key(part.mistakes, config, kept, inputs)
            if self.writer.has_prints(key):
                continue
            given = [(numbers, _given(part, config, kept, inputs, numbers)) for numbers in _singles(part)]
            if given[0][1] is None:
                continue  # sub-parts are the student's own here: the bank knows their stand-ins alone
            if own is weights and length <= PAIR_LIMIT and self._pair_cases[part.name, leaks] < PAIR_CASES:
                self._pair_cases[part.name, leaks] += 1
                given += [(numbers, _given(part, config, kept, inputs, numbers)) for numbers in _pairs(part)]
            self.writer.add_prints(key, pack([(numbers, output) for numbers, output in given if output is not None]))


def _lacking(part: Part, weights: Mapping[str, Tensor]) -> Iterator[dict[str, Tensor]]:
    """Yield the weights of models that lack biases of their own, and of those that share what should be two."""
    biases = [name for name in part.parameters if name.endswith("bias") and name in weights]
    dropped = [biases] if part.uses else [[name] for name in biases] + [biases]
    for names in dropped:
        yield {name: value for name, value in weights.items() if name not in names}
    for shared in (_same_norms(part, weights), _same_blocks(part, weights)):
        if shared is not None:
            yield shared


def _same_norms(part: Part, weights: Mapping[str, Tensor]) -> dict[str, Tensor] | None:
    """Return the weights of a model that has one LayerNorm under two names."""
    gains = (name for name, shape in part.parameters.items() if name.endswith("weight") and "," not in shape)
    norms = [name.rpartition(".")[0] for name in gains]
    if len(norms) < 2 or any(f"{norm}.weight" not in weights for norm in norms):
        return None
    same = dict(weights)
    for norm in norms[1:]:
        same |= {f"{norm}.{leaf}": weights[f"{norms[0]}.{leaf}"] for leaf in ("weight", "bias")}
    return same


def _same_blocks(part: Part, weights: Mapping[str, Tensor]) -> dict[str, Tensor] | None:
    """Return the weights of a model that repeats its first block."""
    same = dict(weights)
    for path in part.uses:
        first, found, last = path.partition("{i}")
        if not found:
            continue
        for name in weights:
            number, _, leaf = name.removeprefix(first).partition(".")
            if name.startswith(first) and number.isdigit():
                same[name] = weights[f"{first}0{last}.{leaf}"]
    return same if any(same[name] is not weights[name] for name in weights) else None


def _given(
    part: Part, config: Config, weights: Mapping[str, Tensor], inputs: Mapping[str, Tensor], numbers: Sequence[int]
) -> Tensor | None:
    """Return what the mistakes called `numbers` give, or None where they do not run."""
    switches = {key: value for number in numbers for key, value in BANK[number].switches}
    try:
        return run(part.mistakes, inputs, weights, config, switches)
    except (RuntimeError, KeyError, IndexError):
        return None


def _singles(part: Part) -> list[tuple[int, ...]]:
    """Return the right answer, then each mistake, by their places in the bank."""
    wanted = {id(entry) for entry in of_part(part.mistakes)}
    return [(), *((number,) for number, entry in enumerate(BANK) if id(entry) in wanted)]


def _pairs(part: Part) -> list[tuple[int, ...]]:
    place = {id(entry): number for number, entry in enumerate(BANK)}
    return [tuple(place[id(entry)] for entry in pair) for pair in pairs(part.mistakes)]


class Dictating(Exam):
    """An exam that also asks the oracle what only wrong answers make it ask."""

    def __init__(self, student: Student, reference: Reference, draws: Draws) -> None:
        assert isinstance(reference, Notes)
        super().__init__(student, reference, draws)
        self.notes = reference
        self._losses: list[tuple[Sizes, Mapping[str, Tensor]]] = []  # where a loss is compared

    def series(self, part: Part, cases: Sequence[Case]) -> Iterator[tuple[Specimen, list[Answer | Outcome]]]:
        """Build, fill and call as the exam does; a wrong output would be diagnosed, a wrong loss compared."""
        for case, (specimen, answers) in zip(cases, super().series(part, cases), strict=True):
            if case.purpose.startswith(f"{part.name} values"):
                self.notes.mistakes(part, case.sizes.config, specimen.weights, case.calls[0].inputs)
            if case.purpose.startswith("loss"):
                self._losses.append((case.sizes, case.calls[0].inputs))
                self.expect(specimen, case.calls[0].inputs)
            yield specimen, answers

    def refill(self, specimen: Specimen, weights: Mapping[str, Tensor]) -> Specimen:
        """Put other weights in; the loss is compared under them too."""
        filled = super().refill(specimen, weights)
        if set(self.track.tables.ends) & filled.weights.keys():
            for inputs in (inputs for sizes, inputs in self._losses if sizes is specimen.sizes):
                self.expect(filled, inputs)
        return filled

    def _fill(self, part: Part, sizes: Sizes, model: Model, purpose: str, scale: float) -> Specimen:
        """Fill as the exam does. Other names are looked for there, at each size; never with a tensor missing too."""
        self.notes.lacking = False
        try:
            return super()._fill(part, sizes, model, purpose, scale)
        finally:
            self.notes.lacking = True

    def diagnose(self, specimen: Specimen, inputs: Mapping[str, Tensor], output: Tensor) -> Diagnosis | None:
        """Name the mistake, and write down all that it could have been."""
        self.notes.mistakes(specimen.part, specimen.sizes.config, specimen.weights, inputs, leaks=True)
        return super().diagnose(specimen, inputs, output)


def dictate(track: Track, solutions: Path, seed: int, nursery: Nursery) -> tuple[bytes, dict[str, Report]]:
    """Return the file of sealed answers for `seed`, and the reports of the witnesses."""
    texts = {part.file: (solutions / part.file).read_text(encoding="utf-8") for part in track.parts}
    notes = Notes(track, solutions)
    reports = {}
    for name, files in witnesses(track, texts):
        with tempfile.TemporaryDirectory(prefix="workshop-") as folder:
            for file, text in files.items():
                (Path(folder) / file).write_text(text, encoding="utf-8")
            submission = read_submission(Path(folder).resolve(), track, name)
            reports[name] = grade(
                submission,
                track,
                nursery,
                seed=seed,
                limits=PATIENT,
                examiner=lambda student, _, draws: Dictating(student, notes, draws),
            )
    return notes.writer.data(), reports
