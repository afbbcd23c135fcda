"""Checks of causal self-attention: what may not be seen, and when it must be refused."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from autograder.checks.evidence import (
    future_leaks,
    influence_by_gradient,
    influence_by_touch,
    influence_evidence,
    numbers,
    same,
)
from autograder.checks.exam import Exam, Specimen
from autograder.checks.outputs import first_output
from autograder.checks.registry import Outcome, Stopped, check, failed, passed
from autograder.checks.student import CALL_SEED
from autograder.oracle.cases import Config, Sizes
from autograder.track import Part
from autograder.verdict import Evidence, Verdict

#: Score that every allowed pair gets in the test of the mask. A mask that only subtracts 1e4, or 1e6, lies above it and
#: lets the future through; -1e9, finfo.min and -inf lie below.
DEEP_SCORE = 3e7
#: Widths that their number of heads does not divide, with and without a common factor.
UNEVEN = ((16, 3), (20, 8), (20, 6))


@check("*.causal", needs=["shapes"])
def future_tokens_do_not_leak(exam: Exam, part: Part) -> Outcome:
    """No position sees a later one, in train and eval mode, by touch and by gradient."""
    problems: dict[str, Outcome] = {}
    for trial, train in enumerate((False, True)):
        mode = "train" if train else "eval"
        sizes = exam.draws.sizes(f"causal {trial}", length=8, block_size=11 + trial)
        specimen = exam.specimen(part, sizes, f"causal {trial}")
        touched = _touch(exam, specimen, sizes, train)
        if touched is None:
            continue  # random outputs move by themselves; the gradient tells
        matrix = influence_by_touch(touched.output)
        problem = _leak(matrix, f"Influence of each input position on each output position ({mode} mode)", mode)
        if problem is not None:
            known = exam.diagnose(specimen, {"x": touched.x}, touched.output)
            if known and "off by one" not in problem.message:
                problem = replace(problem, message=f"{problem.message} {known.sentence}", look_at=known.look_at)
            problems[mode] = problem
    if len(problems) == 1:
        ((mode, problem),) = problems.items()
        other = "train" if mode == "eval" else "eval"
        return replace(problem, look_at=f"In {other} mode all is well: masking must not depend on self.training.")
    if problems:
        return problems["eval"]
    try:
        matrix = _gradient(exam, specimen, sizes)
    except Stopped:
        return passed("By touch alone: the backward pass does not run.")
    if not bool(matrix.any()):
        return passed("By touch alone: no gradient comes back to the input.")
    return _leak(matrix, "Gradient of each output position with respect to each input position", "eval") or passed(
        evidence=[influence_evidence(matrix, "Influence of each input position on each output position")]
    )


@dataclass(frozen=True)
class _Touched:
    """Inputs of which row i + 1 differs from row 0 at position i alone, and what came out."""

    x: Tensor
    output: Tensor


def _touch(
    exam: Exam, specimen: Specimen, sizes: Sizes, train: bool, *, steady: bool = False, rising: bool = False
) -> _Touched | None:
    """Change one position at a time (row 0 is untouched); None when the outputs are random.

    With `steady` the first channel is 1 and does not change; with `rising` the second counts positions.
    """
    length, width = sizes.length, sizes.config["n_embd"]
    x = exam.draws.normal("causal x", (1, length, width)).repeat(length + 1, 1, 1)
    change = exam.draws.normal("causal change", (length, width))
    for position in range(length):
        x[position + 1, position] += change[position]
    if steady:
        x[:, :, 0] = 1.0
    if rising:
        x[:, :, 1] = torch.arange(length, dtype=x.dtype)
    answer = exam.student.call(specimen.part, specimen.model, {"x": x}, train=train)
    output = first_output(exam, specimen.part, answer)
    if answer.random:
        again = exam.student.call(specimen.part, specimen.model, {"x": x}, train=train, seed=CALL_SEED + 1)
        if not same(first_output(exam, specimen.part, again), output):
            return None
    return _Touched(x, output)


def _gradient(exam: Exam, specimen: Specimen, sizes: Sizes) -> Tensor:
    """Ask for the gradient of one output position at a time: batch row i carries the cotangent of position i."""
    length, width = sizes.length, sizes.config["n_embd"]
    x = exam.draws.normal("causal x", (1, length, width)).repeat(length, 1, 1)
    out = specimen.part.output_width(sizes.config)
    cotangent = torch.zeros(length, length, out)
    direction = exam.draws.normal("causal cotangent", (out,))
    for position in range(length):
        cotangent[position, position] = direction
    answer = exam.student.call(specimen.part, specimen.model, {"x": x}, cotangent=cotangent)
    gradient = answer.gradients.get("input.x", torch.zeros_like(x))
    return influence_by_gradient(gradient if gradient.shape == x.shape else torch.zeros_like(x))


def _leak(matrix: Tensor, title: str, mode: str) -> Outcome | None:
    exhibit = influence_evidence(matrix, title)
    if not bool(torch.isfinite(matrix).all()):
        return failed(
            "The output holds NaN or infinity, so nothing can be said of what it sees.",
            "A row in which everything is masked gives NaN: keep the diagonal. And 0 * -inf is NaN: use masked_fill.",
            [exhibit],
        )
    leaks = future_leaks(matrix)
    if not leaks:
        return _blind(matrix, exhibit)
    i, j = leaks[0]
    pairs = len(matrix) * (len(matrix) - 1) // 2
    near = all(later == earlier + 1 for earlier, later in leaks)
    if near:
        sentence = f"Position {i} sees position {j}, the token it should predict: the mask is off by one."
        look_at = "Keep what is on and below the diagonal: torch.tril(..., diagonal=0)."
    else:
        sentence = (
            f"Future tokens leak: position {i} sees position {j} ({len(leaks)} of {pairs} such pairs, in {mode} mode)."
        )
        look_at = "Set the scores of later positions to -inf before the softmax, always (or pass is_causal=True)."
    return failed(sentence, look_at, [exhibit])


def _blind(matrix: Tensor, exhibit: Evidence) -> Outcome | None:
    """Where no position sees any earlier one there is nothing to mask, and no attention either."""
    earlier = torch.tril(matrix, diagonal=-1)
    if len(matrix) < 2 or bool((earlier > 1e-9 * float(matrix.max())).any()):
        return None
    return failed(
        "No position sees an earlier one: each output depends on its own token alone.",
        "Attention runs over T: move n_head in front of T (transpose(1, 2)) before the scores are made.",
        [exhibit],
    )


@check("*.mask_is_hard", needs=["shapes", "parameters", "causal"])
def masked_scores_are_gone(exam: Exam, part: Part) -> Outcome:
    """Masked positions get no weight at all, however low the other scores are."""
    sizes = exam.draws.sizes("hard mask", length=8, block_size=12, n_head=2, head_dim=4)
    specimen = exam.specimen(part, sizes, "hard mask")
    width = sizes.config["n_embd"]
    size = (DEEP_SCORE / (width // sizes.config["n_head"]) ** 0.5) ** 0.5
    deep = _one_head_deep(part, specimen.weights, size) or _fused_deep(specimen.weights, width, size)
    if deep is None:
        return passed("Not measured: there is no bias in c_attn.")
    lowered = exam.refill(specimen, deep)
    touched = _touch(exam, lowered, sizes, False, steady="c_attn.bias" not in deep)
    matrix = influence_by_touch(touched.output) if touched is not None else None
    if matrix is not None and not bool(torch.isfinite(matrix).all()):
        return failed(
            f"When all scores are near {-DEEP_SCORE:.0e} the output is NaN or infinite.",
            "The softmax must stay finite for every score: subtract each row's own maximum over what it may see.",
        )
    leaks = future_leaks(matrix, 1e-5) if matrix is not None else []
    if matrix is not None and leaks:
        i, j = leaks[0]
        return failed(
            f"The mask is too weak: when all scores are near {-DEEP_SCORE:.0e}, position {i} sees position {j}.",
            "Mask with float('-inf'), not with a finite number such as -1e4: a model can learn scores below it.",
            [
                influence_evidence(matrix, "Influence under very low scores"),
                numbers("Scores", every_allowed_score=-DEEP_SCORE),
            ],
        )
    return _outweighed(exam, lowered, deep) or passed()


def _outweighed(exam: Exam, specimen: Specimen, deep: dict[str, Tensor]) -> Outcome | None:
    """Let each score lie far above that of the position before: a mask that only takes 1e4 away is outweighed."""
    sizes = specimen.sizes
    rising = _rising(specimen.part, deep, sizes.config["n_embd"], 1 / sizes.length)
    touched = _touch(exam, exam.refill(specimen, rising), sizes, False, steady=True, rising=True)
    matrix = influence_by_touch(touched.output) if touched is not None else None
    if matrix is None or not bool(torch.isfinite(matrix).all()):
        return None  # a softmax that divides 0 by 0 there lets nothing through
    leaks = future_leaks(matrix, 1e-5)
    if not leaks:
        return None
    i, j = leaks[0]
    step = DEEP_SCORE / sizes.length
    return failed(
        f"The mask is too weak: when each score lies {step:.0e} above that of the position before, "
        f"position {i} sees position {j}.",
        "Replace the scores of later positions by float('-inf'): from what is only made smaller by 1e4, a model can "
        "learn to recover.",
        [influence_evidence(matrix, "Influence under scores that rise"), numbers("Scores", step=step)],
    )


def _rising(part: Part, deep: dict[str, Tensor], width: int, share: float) -> dict[str, Tensor]:
    """Return weights that make score (i, j) rise with j: channel 1 of the input counts positions, channel 0 is 1."""
    names = {theirs: f"{own}.weight" for own, theirs in part.alike.items()}
    rising = {name: value.clone() for name, value in deep.items()}
    if names.get("key") in rising:
        key = rising[names["key"]]
        size = float(key[0, 0])
        key[:, 0] = 0.0
    else:
        key = rising["c_attn.weight"][width : 2 * width]
        size = float(rising["c_attn.bias"][width])
        rising["c_attn.bias"][width : 2 * width] = 0.0
    key[:, 1] = -size * share
    return rising


def _fused_deep(weights: dict[str, Tensor], width: int, size: float) -> dict[str, Tensor] | None:
    """Return weights whose biases make every score -size^2 * head_dim; None without biases."""
    bias = weights.get("c_attn.bias")
    if bias is None:
        return None
    deep = {**weights, "c_attn.weight": weights["c_attn.weight"].clone()}
    deep["c_attn.weight"][: 2 * width] *= 0.01
    deep["c_attn.bias"] = torch.cat([torch.full((width,), size), torch.full((width,), -size), bias[2 * width :]])
    return deep


def _one_head_deep(part: Part, weights: dict[str, Tensor], size: float) -> dict[str, Tensor] | None:
    """Do the same for a head with query and key of its own and no biases: channel 0 of the input, held at 1, is one."""
    names = {theirs: f"{own}.weight" for own, theirs in part.alike.items()}
    if not all(names.get(layer) in weights for layer in ("query", "key")):
        return None
    deep = dict(weights)
    for layer, value in (("query", size), ("key", -size)):
        deep[names[layer]] = weights[names[layer]] * 0.01
        deep[names[layer]][:, 0] = value
    return deep


@check("attention.divisibility", needs=["builds"])
def uneven_heads_are_refused(exam: Exam, part: Part) -> Outcome:
    """n_embd that n_head does not divide is refused with AssertionError or ValueError."""
    if "__init__" in exam.student.facts_of(part).unwritten:
        return Outcome(Verdict.NOT_ATTEMPTED, f"{part.class_name}.__init__ is not written yet.")
    base = exam.draws.sizes("uneven", n_head=3, head_dim=4, length=7).config
    for width, heads in UNEVEN:
        problem = _accepted(exam, part, {**base, "n_embd": width, "n_head": heads})
        if problem is not None:
            return problem
    return passed()


def _accepted(exam: Exam, part: Part, uneven: Config) -> Outcome | None:
    width, heads = uneven["n_embd"], uneven["n_head"]
    result = exam.student.try_build(part, uneven, interface=exam.approach(part).interface)
    hint = "In __init__: assert config.n_embd % config.n_head == 0, so that a bad config fails early."
    if not isinstance(result, Outcome):
        if result.config_origin == "refused":
            return None  # the config itself refuses it
        return failed(
            f"n_embd = {width} with n_head = {heads} is accepted, though {width} is not divisible by {heads}.", hint
        )
    if any(f"raises {kind}" in result.message for kind in ("AssertionError", "ValueError")):
        return None
    return failed(
        f"n_embd = {width} with n_head = {heads}: {result.message} Expected AssertionError or ValueError.",
        hint,
        result.evidence,
    )
