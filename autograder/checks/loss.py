"""Checks of the loss: mean cross-entropy over all positions, and where it starts before training."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from autograder.checks.evidence import bars, compare, describe_difference, same, shape_text
from autograder.checks.exam import Exam, Specimen
from autograder.checks.loss_patterns import cross_entropy, known_losses
from autograder.checks.outputs import draw_targets, first_output, unchanged
from autograder.checks.registry import Outcome, check, failed, passed
from autograder.checks.replies import Answer, Model
from autograder.checks.series import Case
from autograder.checks.student import Call, must
from autograder.oracle.cases import Sizes
from autograder.track import Part

#: A tied table drawn from N(0, 1), as nn.Embedding does, starts the loss far above ln V: no mistake, but it is told.
FAR_ABOVE = 10.0
#: Makes logits of several hundreds out of the table's weights: exp() of them overflows, a log-softmax does not.
LOUD = 60.0
#: The same code on the same inputs: another order of additions at most.
SAME_LOGITS = 1e-5
#: Two ways to get a loss wrong differ by more than this, relative to the loss; rounding by less.
SAME_LOSS = 2e-5


@check("gpt.loss", needs=["shapes"])
def loss_is_mean_cross_entropy(exam: Exam, part: Part) -> Outcome:
    """Its loss is the mean cross-entropy over all positions, and None without targets."""
    cases = []
    for trial, (sizes, spoken) in enumerate(_loss_sizes(exam)):
        purpose = f"loss {trial}"
        inputs = exam.inputs(part, sizes, purpose)
        targets = draw_targets(exam, sizes, purpose)
        if spoken:
            targets = torch.tensor(spoken).expand_as(targets).contiguous()
        cases.append(Case(sizes, purpose, [Call(inputs), *_with_targets(inputs, targets)], keep=True))
    specimens = []
    for case, (specimen, (first, *others)) in zip(cases, exam.series(part, cases), strict=True):
        specimens.append(specimen)
        if must(first).second is not None:
            return failed(
                "Without targets forward does not return (logits, None).",
                "loss = None, unless targets is not None.",
                usable=True,
            )
        problem = _wrong_with_targets(exam, specimen, case.calls[1:], others)
        if problem is not None:
            return problem
    return _wrong_when_loud(exam, specimens[0], cases[0]) or passed()


def _wrong_when_loud(exam: Exam, specimen: Specimen, case: Case) -> Outcome | None:
    if exam.track.tables.head not in specimen.weights:
        return None
    loud = {name: specimen.weights[name] * LOUD for name in exam.track.tables.ends if name in specimen.weights}
    specimen = exam.refill(specimen, specimen.weights | loud)
    calls = case.calls[1:]
    answers = exam.student.attempts(specimen.part, specimen.model, calls)
    problem = _wrong_with_targets(exam, specimen, calls, answers)
    return problem and replace(problem, message=f"With logits in the hundreds: {problem.message}")


def _loss_sizes(exam: Exam) -> list[tuple[Sizes, list[int]]]:
    """Return sizes, and the tokens that all targets are (none: drawn): ends of the vocabulary, one row, one position,
    more tokens than any chunk, GPT-2's end-of-text token in its vocabulary padded to 50,304."""
    draw = exam.draws.sizes
    first, last = draw("loss 3"), draw("loss 4")
    return [
        (draw("loss 0"), []),
        (draw("loss 1"), []),
        (draw("loss 2", length=1), []),
        (first, [0]),
        (last, [last.config["vocab_size"] - 1]),
        (draw("loss 5", batch=11, length=107, block_size=110, vocab_size=101, n_layer=1), []),
        (draw("loss 6", vocab_size=50304, n_head=1, head_dim=4, n_layer=1, batch=1, length=2), [50256, 50303]),
        (draw("loss 7", batch=1, length=1), []),
    ]


def _with_targets(inputs: dict[str, Tensor], targets: Tensor) -> list[Call]:
    """Return calls without and with targets, in both modes; the first, with other numbers, may not show in the rest."""
    given = {**inputs, "targets": targets}
    calls = [Call({**inputs, "targets": targets.flip(0)}, keywords=["targets"], train=True)]
    for train in (False, True):
        calls += [Call(inputs, train=train), Call(given, keywords=["targets"], observe=True, train=train)]
    return calls


def _wrong_with_targets(
    exam: Exam, specimen: Specimen, calls: Sequence[Call], answers: Sequence[Answer | Outcome]
) -> Outcome | None:
    """Compare what the model gives with targets, in both modes, with what it gives without, and with the true loss."""
    part, model = specimen.part, specimen.model
    inputs, targets = calls[1].inputs, calls[2].inputs["targets"]
    for train in (False, True):
        mode = "train" if train else "eval"
        plain, at = must(answers[2 * train + 1]), 2 * train + 2
        both = exam.by_position(part, model, calls[at], answers[at])
        own = first_output(exam, part, plain).double()
        logits, loss = first_output(exam, part, both, any_shape=True).double(), both.second
        if logits.shape != own.shape:
            logits = own  # what goes wrong with their shape is told, and paid for, elsewhere
        if "targets" in both.after and not unchanged(both.after["targets"], targets):
            return failed("forward changes targets in place.", "Work on a copy.", usable=True)
        if not plain.random and not same(logits.float(), own.float(), SAME_LOGITS):
            return failed(
                f"With targets, in {mode} mode, the logits are not those that come without: "
                f"{describe_difference(compare(logits, own), ('batch row', 'position', 'vocabulary entry'))[0]}.",
                "Targets serve for the loss alone: the logits come first, and are the same.",
                usable=True,
            )
        if not isinstance(loss, Tensor):
            return failed(
                f"With targets the loss is {loss}, not a tensor that can be differentiated.",
                "F.cross_entropy over all positions.",
                usable=True,
            )
        if loss.numel() != 1:
            return failed(
                f"The loss has shape {shape_text(loss.shape)}; it should be one number.",
                "Take the mean over all B*T positions.",
                usable=True,
            )
        problem = _wrong_loss(exam, specimen, inputs, logits, float(loss), targets)
        if problem is not None:
            return problem
        if loss.dim() != 0:
            return failed(
                f"The loss has shape {shape_text(loss.shape)}; it should be a number without dimensions.",
                "Use F.cross_entropy's own mean.",
                usable=True,
            )
    return None


def _wrong_loss(
    exam: Exam, specimen: Specimen, inputs: Mapping[str, Tensor], logits: Tensor, loss: float, targets: Tensor
) -> Outcome | None:
    """Compare with the cross-entropy of the student's own logits; of the reference's when those are no logits."""
    if _equal(loss, cross_entropy(logits, targets)):
        return None
    expected = exam.expect(specimen, inputs).outputs[0]
    if expected is not None and expected.shape == logits.shape and _equal(loss, cross_entropy(expected, targets)):
        return None
    own = cross_entropy(logits, targets)
    vocab = logits.shape[-1]
    exhibit = bars("Loss", [("yours", loss), ("expected", own), (f"ln {vocab}", math.log(vocab))])
    for known in known_losses(logits, targets, inputs["idx"]):
        if _equal(loss, known.value):
            return failed(known.sentence, known.look_at, [exhibit], usable=True)
    if not math.isfinite(loss):
        return failed(
            f"The loss is {loss} for T = {targets.shape[1]}.",
            "Average over B*T: check every division.",
            [exhibit],
            usable=True,
        )
    return failed(
        f"The loss is {loss:.5g}; the mean cross-entropy of your logits is {own:.5g}.",
        "Use F.cross_entropy on (B*T, V) logits and (B*T) targets: all positions, with nothing left out.",
        [exhibit],
        usable=True,
    )


def _equal(loss: float, right: float) -> bool:
    return math.isfinite(right) and abs(loss - right) <= SAME_LOSS * max(1.0, abs(right))


@check("gpt.initial_loss", needs=["shapes"])
def training_starts_near_ln_v(exam: Exam, part: Part) -> Outcome:
    """The untrained model starts with a loss near ln V, from weights that can learn."""
    config = {**exam.track.config, "n_layer": 2, "block_size": 64}
    sizes = Sizes(config, 2, 32)
    how = exam.approach(part)
    model = exam.student.build(part, config, stand_ins=how.stand_ins, interface=how.interface, look=True)
    names = exam.tied_names(part, model, sizes)
    table_row = model.find(names[0]) or model.find(names[1]) if names else None
    if table_row is not None and table_row.std == 0.0:
        return failed(
            "The token table starts at zero (or constant): nothing can be learned from there.",
            "In _init_weights only the biases are zeroed.",
        )
    narrow = {**config, "n_embd": 16 * config["n_head"]}
    real = exam.student.try_build(part, narrow, stand_ins="none", interface=how.interface, look=True)
    if not isinstance(real, Outcome):
        problem = _bad_start(exam, part, real)
        if problem is not None:
            return problem
    inputs = {**exam.inputs(part, sizes, "initial"), "targets": draw_targets(exam, sizes, "initial")}
    answer = exam.train_call(part, model, inputs)
    logits = first_output(exam, part, answer).double()
    start, base = cross_entropy(logits, inputs["targets"]), math.log(config["vocab_size"])
    exhibit = bars("Loss before training", [("yours", start), (f"ln {config['vocab_size']}", base)])
    if not math.isfinite(start):
        return failed(
            f"The first loss is {start}.",
            "Leave the weights to PyTorch's own initialisation, or draw them with std 0.02.",
            [exhibit],
        )
    if start > base + FAR_ABOVE:
        tie = (
            "nn.Embedding draws N(0, 1), and your head takes that: tie the other way round, or draw with std 0.02."
            if table_row is not None and table_row.std > 0.5
            else "The head's weights start too large: std 0.02 is usual."
        )
        exam.warnings.append(
            f"The first loss is {start:.0f} where ln {config['vocab_size']} = {base:.2f} is possible. {tie}"
        )
    return passed(evidence=[exhibit])


def _bad_start(exam: Exam, part: Part, model: Model) -> Outcome | None:
    """Look at how the model initialises what its blocks hold: constant or enormous matrices cannot be trained."""
    blocks = tuple(path.partition("{i}")[0] for path in part.uses)
    inner = [p for p in model.parameters if len(p.shape) == 2 and p.name.startswith(blocks)]
    if inner and all(p.std == 0.0 for p in inner):
        return failed(
            "Every weight matrix of the blocks starts constant: nothing can be learned from there.",
            "In _init_weights only the biases are zeroed.",
        )
    large = [p for p in inner if p.std > 10 / p.shape[1] ** 0.5]
    if inner and len(large) > len(inner) / 2:
        return failed(
            f"The weights start far too large ({large[0].name} with std {large[0].std:.2g}).",
            "Leave them to PyTorch's own initialisation, or draw them with std 0.02.",
        )
    return None
