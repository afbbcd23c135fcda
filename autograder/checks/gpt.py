"""Checks of the whole model's own code: tables, layers, tying, logits, loss. Its blocks are stand-ins (see exam.py)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from autograder.checks.block import faint
from autograder.checks.evidence import compare, describe_difference, numbers, shape_text
from autograder.checks.exam import HEAD, TABLE, Exam, Specimen
from autograder.checks.layer import compare_gradients, extremes, first_output, no_tensor, value_sizes
from autograder.checks.registry import Outcome, Stopped, check, failed, passed
from autograder.checks.student import Answer, Model
from autograder.oracle.cases import Sizes
from autograder.probe.standins import WEIGHT_NAMES
from autograder.track import Part
from autograder.verdict import Verdict

AXES = ("batch row", "position", "vocabulary entry")
#: A tied table drawn from N(0, 1), as nn.Embedding does, starts the loss far above ln V: nothing is wrong, but it is told.
FAR_ABOVE = 10.0


@check("gpt.layers", needs=["builds"])
def it_has_n_layer_blocks(exam: Exam, part: Part) -> Outcome:
    """It builds n_layer different blocks, for every n_layer, each time anew."""
    for layers in (1, 3, 2):
        sizes = exam.draws.sizes(f"layers {layers}", n_layer=layers)
        model = exam.build(part, sizes)
        how = exam.approach(part)
        groups = _block_groups(model, how.stand_ins)
        if how.stand_ins and model.stand_ins > 0 and not groups:
            return failed(
                f"With n_layer = {layers} no parameter of a block is found in the model.",
                "A Python list hides the blocks from parameters(): keep them in nn.ModuleList, as transformer.h.",
                usable=False,
            )
        if len(groups) != layers:
            return failed(
                f"With n_layer = {layers} the model holds {len(groups)} blocks.",
                "Build one block for each of range(config.n_layer), in a list made inside __init__.",
            )
        if len(set(groups.values())) < layers:
            return failed(
                f"With n_layer = {layers} the model repeats one block: only {len(set(groups.values()))} are different.",
                "[Block(config)] * n puts the same block there n times: use a list comprehension.",
                usable=True,
            )
    return passed()


def _block_groups(model: Model, stand_ins: bool) -> dict[str, tuple[int, ...]]:
    """Return, for each block by its place in the model, the parameters that it holds."""
    found: dict[str, list[int]] = {}
    for parameter in model.parameters:
        place, _, leaf = parameter.name.rpartition(".")
        if stand_ins and leaf == WEIGHT_NAMES["block"]:
            found.setdefault(place, []).append(parameter.group)
        elif not stand_ins and parameter.name.startswith("transformer.h."):
            found.setdefault(".".join(parameter.name.split(".")[:3]), []).append(parameter.group)
    return {place: tuple(groups) for place, groups in found.items()}


@check("gpt.shapes", needs=["builds"])
def it_returns_logits_and_loss(exam: Exam, part: Part) -> Outcome:
    """It returns (logits, loss): logits (B, T, V) at all positions, with and without targets."""
    for trial in range(2):
        sizes = exam.draws.sizes(f"gpt shapes {trial}")
        model = exam.build(part, sizes)
        inputs = exam.inputs(part, sizes, f"gpt shapes {trial}")
        for with_targets in (False, True):
            problem = _wrong_reply(exam, part, model, sizes, inputs, with_targets)
            if problem is not None:
                return problem
    return passed()


def _targets(exam: Exam, sizes: Sizes, purpose: str) -> Tensor:
    return exam.draws.tokens(f"targets {purpose}", (sizes.batch, sizes.length), sizes.config["vocab_size"])


def _wrong_reply(
    exam: Exam, part: Part, model: Model, sizes: Sizes, inputs: dict[str, Tensor], with_targets: bool
) -> Outcome | None:
    given = dict(inputs)
    keywords: list[str] = []
    if with_targets:
        given["targets"] = _targets(exam, sizes, "shapes")
        keywords = ["targets"]
    try:
        answer = exam.student.call(part, model, given, keywords=keywords)
    except Stopped:
        if not with_targets:
            raise
        return None  # a loss that raises is told, and paid for, in the check of the loss
    when = "With targets" if with_targets else "Without targets"
    if not answer.sequence or len(answer.outputs) != 2:
        if answer.outputs and answer.outputs[0] is None:
            return no_tensor(exam, part, None)
        return failed(
            f"{when} forward does not return the pair (logits, loss).", "End with: return logits, loss", usable=False
        )
    logits = first_output(exam, part, answer)
    wanted = (sizes.batch, sizes.length, sizes.config["vocab_size"])
    if tuple(logits.shape) != wanted:
        last_only = tuple(logits.shape) == (sizes.batch, 1, wanted[2])
        flat = tuple(logits.shape) == (sizes.batch * sizes.length, wanted[2])
        hint = (
            "Return logits for all T positions, also when there are no targets."
            if last_only
            else "Flatten for the loss only; return the logits as (B, T, V)."
            if flat
            else "lm_head turns (B, T, C) into (B, T, vocab_size)."
        )
        return failed(
            f"{when} the logits have shape {shape_text(logits.shape)}; expected (B, T, V) = {shape_text(wanted)}.",
            hint,
            usable=with_targets,
        )
    return None


@check("gpt.lengths", needs=["shapes"])
def it_takes_every_length(exam: Exam, part: Part) -> Outcome:
    """It takes every batch size and every length from 1 to block_size."""
    for label, sizes in extremes(exam, part):
        try:
            model = exam.build(part, sizes)
            inputs = exam.inputs(part, sizes, f"gpt {label}")
            problem = _wrong_reply(exam, part, model, sizes, inputs, False)
        except Stopped as stopped:
            problem = stopped.outcome
        if problem is not None:
            return Outcome(
                problem.verdict, f"With {label}: {problem.message}", problem.look_at, problem.evidence, usable=True
            )
    return passed()


@check("gpt.values", needs=["shapes", "parameters", "layers"])
def logits_are_right(exam: Exam, part: Part) -> Outcome:
    """Its logits equal the reference's under hidden weights: tables, positions, every block, final norm, head."""
    worst = 0.0
    for trial, sizes in enumerate(value_sizes(exam, part)):
        specimen = exam.specimen(part, sizes, f"gpt values {trial}")
        inputs = exam.inputs(part, sizes, f"gpt values {trial}")
        expected = exam.expect(specimen, inputs).outputs[0]
        assert expected is not None
        output = first_output(exam, part, exam.ask(specimen, inputs))
        difference = compare(output, expected)
        worst = max(worst, difference.ratio)
        if not difference.ok:
            sentence, exhibit = describe_difference(difference, AXES)
            known = exam.diagnose(specimen, inputs, output)
            message = known.sentence if known else f"The logits are not what they should be: {sentence}."
            return failed(
                message,
                known.look_at if known else "Token table plus position table, each block in turn, ln_f, lm_head.",
                [exhibit],
            )
    return passed(evidence=[numbers("Largest difference from the reference, relative", ratio=worst)])


@check("gpt.norm_epsilon", needs=["values"])
def final_norm_has_the_right_epsilon(exam: Exam, part: Part) -> Outcome:
    """ln_f normalises nearly constant rows with epsilon 1e-5."""
    return faint(exam, part, exam.draws.sizes("gpt faint", length=7, n_layer=1), "gpt faint")


@check("gpt.loss", needs=["shapes"])
def loss_is_mean_cross_entropy(exam: Exam, part: Part) -> Outcome:
    """Its loss is the mean cross-entropy over all positions, and None without targets."""
    for trial in range(3):
        sizes = exam.draws.sizes(f"loss {trial}", **({"length": 1} if trial == 2 else {}))
        specimen = exam.specimen(part, sizes, f"loss {trial}")
        inputs = exam.inputs(part, sizes, f"loss {trial}")
        alone = exam.student.call(part, specimen.model, inputs)
        if alone.outputs[1] is not None:
            return failed(
                "Without targets the loss is not None.", "loss = None, unless targets is not None.", usable=True
            )
        targets = _targets(exam, sizes, f"loss {trial}")
        with_targets = {**inputs, "targets": targets}
        answer = exam.student.call(part, specimen.model, with_targets, keywords=["targets"], observe=True)
        logits, loss = first_output(exam, part, answer).double(), answer.outputs[1]
        if "targets" in answer.after and not bool((answer.after["targets"] == targets).all()):
            return failed("forward changes targets in place.", "Work on a copy.", usable=True)
        if not isinstance(loss, Tensor):
            return failed(
                f"With targets the loss is {'None' if loss is None else loss}, not a tensor.",
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
    return passed()


@dataclass(frozen=True)
class _Loss:
    """A way to get the loss wrong, and how to say so."""

    value: float
    sentence: str
    look_at: str


def _wrong_loss(
    exam: Exam, specimen: Specimen, inputs: dict[str, Tensor], logits: Tensor, loss: float, targets: Tensor
) -> Outcome | None:
    """Compare with the cross-entropy of the student's own logits; of the reference's when those are no logits."""
    expected = exam.expect(specimen, inputs).outputs[0]
    right = {_cross_entropy(logits, targets)}
    if expected is not None and expected.shape == logits.shape:
        right.add(_cross_entropy(expected, targets))
    if any(math.isfinite(value) and abs(loss - value) <= 1e-4 * max(1.0, abs(value)) for value in right):
        return None
    own = _cross_entropy(logits, targets)
    exhibit = numbers("Loss", yours=loss, expected=own, ln_of_vocab_size=math.log(logits.shape[-1]))
    for known in _known_losses(logits, targets):
        if math.isfinite(known.value) and abs(loss - known.value) <= 1e-4 * max(1.0, abs(known.value)):
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
        "F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1)): over all positions, with nothing left out.",
        [exhibit],
        usable=True,
    )


def _cross_entropy(logits: Tensor, targets: Tensor) -> float:
    return float(torch.nn.functional.cross_entropy(logits.reshape(-1, logits.shape[-1]), targets.reshape(-1)))


def _known_losses(logits: Tensor, targets: Tensor) -> list[_Loss]:
    functional = torch.nn.functional
    batch, length, vocab = logits.shape
    flat, ids = logits.reshape(-1, vocab), targets.reshape(-1)
    each = functional.cross_entropy(flat, ids, reduction="none").reshape(batch, length)
    scrambled = logits.reshape(batch, vocab, length)
    known = [
        _Loss(
            float(each.sum()),
            "The loss is the sum over all tokens, not their mean.",
            "Leave cross_entropy's reduction at 'mean'.",
        ),
        _Loss(
            float(each.sum() / batch),
            "The loss is summed over time and averaged over the batch only.",
            "Average over all B*T tokens.",
        ),
        _Loss(
            float(each.sum() / length),
            "The loss is summed over the batch and averaged over time only.",
            "Average over all B*T tokens.",
        ),
        _Loss(
            float(each[:, -1].mean()),
            "The loss looks at the last position only.",
            "Train on every position: all T of them have a target.",
        ),
        _Loss(
            float(each[:, :-1].mean()),
            "The loss leaves out the last position.",
            "All T positions have a target: targets are shifted by the caller.",
        ),
        _Loss(float(each[:, 1:].mean()), "The loss leaves out the first position.", "All T positions have a target."),
        _Loss(
            float(each.sum() / max(batch * (length - 1), 1)),
            "The loss is divided by B*(T-1).",
            "All T positions have a target: average over B*T.",
        ),
        _Loss(
            float(functional.cross_entropy(flat, ids, ignore_index=0)),
            "ignore_index=0 drops a real character (id 0) from the loss.",
            "Remove ignore_index.",
        ),
        _Loss(
            float(functional.cross_entropy(scrambled, targets)),
            "view(B, V, T) scrambles the logits.",
            "Use transpose(1, 2), or flatten to (B*T, V).",
        ),
        _Loss(
            float(each.mean()) / math.log(2),
            "The loss is in bits, not nats.",
            "Use the natural logarithm, as F.cross_entropy does.",
        ),
        _Loss(-float(each.mean()), "The loss has the wrong sign.", "Cross-entropy is the mean of -log p."),
        _Loss(
            float(functional.cross_entropy(flat.softmax(-1), ids)),
            "The loss takes the softmax twice: cross_entropy wants logits.",
            "Drop your softmax.",
        ),
    ]
    known += [
        _Loss(
            float(functional.cross_entropy(flat, ids, label_smoothing=amount)),
            f"The loss uses label smoothing ({amount}).",
            "Drop label_smoothing.",
        )
        for amount in (0.05, 0.1, 0.2)
    ]
    if length > 1:
        shifted = functional.cross_entropy(logits[:, :-1].reshape(-1, vocab), targets[:, 1:].reshape(-1))
        known.append(
            _Loss(
                float(shifted),
                "The loss shifts the targets once more.",
                "The caller has shifted them: compare position t with targets[:, t].",
            )
        )
    return known


@check("gpt.gradients", needs=["shapes", "parameters", "layers"])
def loss_gradients_are_right(exam: Exam, part: Part) -> Outcome:
    """The gradient of the logits reaches every parameter, and is right."""
    sizes = exam.draws.sizes("gpt gradients", n_layer=2, batch=4)
    specimen = exam.specimen(part, sizes, "gpt gradients")
    inputs = exam.inputs(part, sizes, "gpt gradients")
    cotangent = exam.draws.normal("gpt cotangent", (sizes.batch, sizes.length, sizes.config["vocab_size"]))
    answer = exam.ask(specimen, inputs, cotangent=cotangent, train=True)
    expected = exam.expect(specimen, inputs, cotangent=cotangent)
    outcome = compare_gradients(exam, specimen, _joined(specimen, answer), expected.gradients, inputs, cotangent)
    if outcome.verdict is not Verdict.PASSED:
        return outcome
    targets = _targets(exam, sizes, "gpt gradients")
    given = {**inputs, "targets": targets}
    try:
        trained = exam.student.call(part, specimen.model, given, keywords=["targets"], loss=True, train=True)
    except Stopped as stopped:
        if "does not require grad" in stopped.outcome.message:
            return failed(
                "The loss is cut off from the graph: loss.backward() has nothing to do.",
                "No detach(), .item() or .data on the way to the loss.",
                usable=True,
            )
        return passed("The loss itself is another check's business.")
    if trained.outputs[1] is None or not isinstance(trained.outputs[1], Tensor):
        return passed()
    if all(float(g.abs().max()) == 0.0 for name, g in trained.gradients.items()) or not trained.gradients:
        return failed(
            "loss.backward() leaves every gradient at zero.",
            "No detach(), .item() or .data on the way to the loss.",
            usable=True,
        )
    return outcome


def _joined(specimen: Specimen, answer: Answer) -> Answer:
    """Add up the gradients of input table and head when they are two parameters: not tying them costs points elsewhere."""
    table_row, head_row = specimen.model.find(TABLE), specimen.model.find(HEAD)
    if table_row is not None and head_row is not None and table_row.group != head_row.group:
        table_grad, head_grad = answer.gradients.get(TABLE), answer.gradients.get(HEAD)
        if table_grad is not None and head_grad is not None and table_grad.shape == head_grad.shape:
            answer.gradients[HEAD] = table_grad + head_grad
    return answer


@check("gpt.tying", needs=["builds"])
def head_and_table_are_tied(exam: Exam, part: Part) -> Outcome:
    """lm_head and wte share one parameter: by identity, after load_state_dict, and after a step of the optimizer."""
    sizes = exam.draws.sizes("tying", n_layer=1, batch=3)
    model = exam.build(part, sizes)
    names = exam.tied_names(part, model, sizes)
    if names is None:
        return failed(
            "There is no token table or no lm_head to tie.",
            "transformer.wte = nn.Embedding(V, C), lm_head = nn.Linear(C, V, bias=False).",
        )
    table_row, head_row = (model.find(name) for name in names)
    if table_row is None or head_row is None:
        present = names[0] if head_row is None else names[1]
        if exam.approach(part).renamed:
            return passed("One matrix serves both as table and as head.")
        return failed(
            f"Only {present} is a parameter of the model.",
            "Both names should be there, for one and the same Parameter.",
        )
    exhibit = numbers(
        "Tying", same_parameter=table_row.group == head_row.group, same_memory=table_row.storage == head_row.storage
    )
    if table_row.shape != head_row.shape:
        return failed(
            f"wte {shape_text(table_row.shape)} and lm_head {shape_text(head_row.shape)} cannot be tied.",
            "nn.Linear(n_embd, vocab_size): its weight is (V, C).",
            [exhibit],
        )
    if table_row.group != head_row.group:
        if table_row.storage == head_row.storage:
            return failed(
                "wte and lm_head share memory, but they are two Parameters: counted twice, with separate gradients and optimizer state.",
                "Assign the Parameter itself, not its .data: self.transformer.wte.weight = self.lm_head.weight",
                [exhibit],
            )
        return failed(
            f"wte and lm_head are not tied: at the course's size that is {_table_size(exam):,} parameters too many.",
            "Make them one Parameter (no clone(), no copy), and tie after any code that replaces weights: self.transformer.wte.weight = self.lm_head.weight",
            [exhibit],
        )
    fresh = exam.draws.normal("tying weights", head_row.shape)
    exam.student.load_weights(model, dict.fromkeys(names, fresh))
    inputs = {**exam.inputs(part, sizes, "tying"), "targets": _targets(exam, sizes, "tying")}
    try:
        exam.student.call(part, model, inputs, keywords=["targets"], loss=True, train=True)
    except Stopped:
        return passed(
            "Tied by identity; the step of the optimizer could not be taken, because there is no loss to go down.",
            [exhibit],
        )
    after = exam.student.step(model, names, 0.5)
    if any(name not in after for name in names) or not bool((after[names[0]] == after[names[1]]).all()):
        return failed(
            "After load_state_dict and one step of the optimizer wte and lm_head differ.",
            "Tie the Parameter itself.",
            [exhibit],
        )
    return passed(evidence=[exhibit])


def _table_size(exam: Exam) -> int:
    return exam.track.config["vocab_size"] * exam.track.config["n_embd"]


@check("gpt.initial_loss", needs=["shapes"])
def training_starts_near_ln_v(exam: Exam, part: Part) -> Outcome:
    """The untrained model starts with a loss near ln V, from weights that can learn."""
    config = {**exam.track.config, "n_layer": 2, "block_size": 64}
    sizes = Sizes(config, 2, 32)
    how = exam.approach(part)
    model = exam.student.build(part, config, stand_ins=how.stand_ins, interface=how.interface)
    names = exam.tied_names(part, model, sizes)
    table_row = model.find(names[0]) or model.find(names[1]) if names else None
    if table_row is not None and table_row.std == 0.0:
        return failed(
            "The token table starts at zero (or constant): nothing can be learned from there.",
            "In _init_weights only the biases are zeroed.",
        )
    real = exam.student.try_build(part, config, stand_ins=False, interface=how.interface)
    if not isinstance(real, Outcome):
        problem = _bad_start(exam, real)
        if problem is not None:
            return problem
    inputs = {**exam.inputs(part, sizes, "initial"), "targets": _targets(exam, sizes, "initial")}
    answer = exam.student.call(part, model, inputs, keywords=["targets"])
    logits = first_output(exam, part, answer).double()
    start, base = _cross_entropy(logits, inputs["targets"]), math.log(config["vocab_size"])
    exhibit = numbers("Loss before training", yours=start, ln_of_vocab_size=base)
    if not math.isfinite(start):
        return failed(
            f"The first loss is {start}.",
            "Leave the weights to PyTorch's own initialisation, or draw them with std 0.02.",
            [exhibit],
        )
    if start > base + FAR_ABOVE:
        tie = (
            "nn.Embedding draws N(0, 1), and your head takes its weight: assign the other way round, wte.weight = lm_head.weight, or draw with std 0.02."
            if table_row is not None and table_row.std > 0.5
            else "The head's weights start too large: std 0.02 is usual."
        )
        exam.warnings.append(
            f"The first loss is {start:.0f} where ln {config['vocab_size']} = {base:.2f} is possible. {tie}"
        )
    return passed(evidence=[exhibit])


def _bad_start(exam: Exam, model: Model) -> Outcome | None:
    """Look at how GPT initialises what its blocks hold: constant or enormous matrices cannot be trained."""
    inner = [p for p in model.parameters if len(p.shape) == 2 and ".h." in p.name and "ln_" not in p.name]
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


@check("gpt.imports_cleanly", needs=["builds"])
def importing_changes_nothing_else(exam: Exam, part: Part) -> Outcome:
    """Importing the file leaves torch's global settings alone."""
    if exam.student.side_effects:
        return failed(
            exam.student.side_effects[0],
            "A module defines things; leave global settings to the training script.",
            usable=True,
        )
    return passed()
