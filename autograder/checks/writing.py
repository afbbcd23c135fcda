"""The check of a model's own `generate`: how much it adds, to what, and which ids it draws."""

from __future__ import annotations

import torch
from torch import Tensor

from autograder.checks.backbone import without
from autograder.checks.evidence import numbers, shape_text
from autograder.checks.exam import Exam, Specimen
from autograder.checks.loss import LOUD
from autograder.checks.outputs import unchanged
from autograder.checks.registry import Outcome, check, failed, passed
from autograder.checks.replies import Answer
from autograder.checks.student import Call, must
from autograder.oracle.cases import Sizes
from autograder.track import Part

#: A logit this far above all others is drawn with certainty: e^-30 is 1e-13.
CERTAIN = 30.0
#: Standard deviation of the logits from which is drawn many times: the likeliest id then has a share of some 20 %.
SPREAD = 1.5
#: Rows that draw their next id at once, to see how often each comes.
ROWS = 1500


@check("gpt.generates", needs=["shapes"])
def it_continues_a_text(exam: Exam, part: Part) -> Outcome:
    """generate adds max_new_tokens ids to idx, each drawn from the last logits of the last block_size tokens."""
    sizes = exam.draws.sizes("generate", block_size=9, length=4, n_layer=1, batch=3)
    specimen = exam.specimen(part, sizes, "generate")
    problem = _wrong_chances(exam, specimen) or _stops_early(exam, specimen)
    # Positions as loud as tokens: what is cut too short, or counted from elsewhere, then changes which id is certain.
    weights = {name: specimen.weights[name] * LOUD for name in exam.track.tables.names if name in specimen.weights}
    specimen = exam.refill(specimen, specimen.weights | weights)
    for length, new, train in ((4, 3, False), (4, 13, True), (14, 4, False)):
        start = exam.inputs(part, Sizes(sizes.config, sizes.batch, length), f"generate {length}")["idx"]
        call = Call({"idx": start}, method="generate", numbers=[new], observe=True, train=train)
        answer = exam.student.attempt(part, specimen.model, call)
        if isinstance(answer, Outcome):
            return without(answer, "generate", part)
        wrong = _wrong_ids(answer, start, new, sizes) or _wrong_choice(exam, specimen, answer, length)
        if wrong is not None:
            return wrong
    return problem or passed()


def _wrong_chances(exam: Exam, specimen: Specimen) -> Outcome | None:
    """Compare how often each id is drawn, by many equal rows at once, with the softmax of the student's own logits.

    The head is made quiet, so that many ids have a fair chance: else one that is never drawn would not be missed.
    """
    head, width = exam.track.tables.head, specimen.sizes.config["n_embd"]
    if head in specimen.weights:
        quiet = specimen.weights[head] * (SPREAD / (specimen.weights[head].std() * width**0.5))
        specimen = exam.refill(specimen, specimen.weights | {head: quiet})
    start = torch.full((ROWS, 1), 1)
    calls = [Call({"idx": start[:1]}), Call({"idx": start}, method="generate", numbers=[1])]
    plain, drawn = exam.student.attempts(specimen.part, specimen.model, calls)
    logits = plain.first if isinstance(plain, Answer) else None
    ids = drawn.first if isinstance(drawn, Answer) else None
    whole = isinstance(logits, Tensor) and logits.dim() == 3
    if not whole or not isinstance(ids, Tensor) or tuple(ids.shape) != (ROWS, 2) or ids.is_floating_point():
        return None  # what goes wrong there is told where it is looked at
    assert isinstance(logits, Tensor)
    expected = logits[0, -1].double().softmax(dim=-1) * ROWS
    found = torch.bincount(ids[:, 1].clamp(0, len(expected) - 1), minlength=len(expected)).double()
    if int(found.argmax()) == int(expected.argmax()) and int(found.max()) == ROWS:
        exam.warnings.append("generate always takes the likeliest id: to draw from the softmax reads better.")
        return None
    often = expected >= 5
    apart = float(((found - expected) ** 2 / expected)[often].sum())
    freedom = int(often.sum())
    if apart <= freedom + 8 * (2 * freedom) ** 0.5 + 10:  # of right code one in 10^8 lies beyond
        return None
    return failed(
        "generate draws from other chances than the softmax of the last logits.",
        "No temperature, no top-k, and the softmax over the vocabulary, once.",
        [numbers("Chances of the likeliest id", yours=float(found.max()) / ROWS, softmax=float(expected.max()) / ROWS)],
        usable=True,
    )


def _stops_early(exam: Exam, specimen: Specimen) -> Outcome | None:
    """Make one id certain for every row, the first or the last: none of them ends a text."""
    bias = exam.track.tables.head.removesuffix("weight") + "bias"
    if bias not in specimen.weights:
        return None
    start = exam.inputs(specimen.part, specimen.sizes, "generate ends")["idx"]
    for token in (0, specimen.sizes.config["vocab_size"] - 1):
        certain = torch.zeros_like(specimen.weights[bias])
        certain[token] = 100 * CERTAIN
        specimen = exam.refill(specimen, specimen.weights | {bias: certain})
        call = Call({"idx": start}, method="generate", numbers=[3])
        answer = exam.student.attempt(specimen.part, specimen.model, call)
        ids = answer.first if isinstance(answer, Answer) else None
        if isinstance(ids, Tensor) and ids.dim() == 2 and ids.shape[1] < start.shape[1] + 3:
            return failed(
                f"generate stops early when it has drawn id {token}: {ids.shape[1] - start.shape[1]} of 3 new ids.",
                "Every id is a character like any other: draw as many as were asked for.",
                usable=True,
            )
    return None


def _wrong_ids(answer: Answer, start: Tensor, new: int, sizes: Sizes) -> Outcome | None:
    """Look at what came back but for which ids were chosen."""
    ids, wanted = answer.first, (len(start), start.shape[1] + new)
    called = f"generate(idx, {new}) of idx {shape_text(start.shape)}"
    if not isinstance(ids, Tensor) or tuple(ids.shape) != wanted:
        shape = shape_text(ids.shape) if isinstance(ids, Tensor) else str(ids or "nothing")
        return failed(
            f"{called} gives {shape}; expected {shape_text(wanted)}: idx and, after it, the new ids.",
            "Each step adds one column: cut the context for the model, not the text that grows.",
            usable=True,
        )
    if ids.is_floating_point() or ids.dtype == torch.bool:
        return failed(f"{called} gives {ids.dtype}, not integers.", "Token ids are int64.", usable=True)
    if not unchanged(ids[:, : start.shape[1]], start):
        return failed(f"{called} does not begin with idx.", "The text that was given stays as it is.", usable=True)
    if int(ids.min()) < 0 or int(ids.max()) >= sizes.config["vocab_size"]:
        return failed(f"{called} gives ids outside of the vocabulary.", "Draw from the V logits.", usable=True)
    if "idx" in answer.after and not unchanged(answer.after["idx"], start):
        return failed("generate changes the idx that it was given.", "torch.cat makes a new tensor.", usable=True)
    if answer.mode_changed or answer.changed or answer.grad_mode_changed:
        return failed(
            "generate leaves the model in another mode, or changed.",
            "Put back what you switch, or leave train() and eval() to the caller.",
            usable=True,
        )
    return None


def _wrong_choice(exam: Exam, specimen: Specimen, answer: Answer, length: int) -> Outcome | None:
    """Where the student's own forward leaves no doubt about the next id, that id must be there."""
    ids = answer.first
    assert isinstance(ids, Tensor)
    limit = specimen.sizes.config["block_size"]
    places = range(length, ids.shape[1])
    calls = [Call({"idx": ids[:, max(0, place - limit) : place].contiguous()}) for place in places]
    asked, wrong = 0, []
    for place, given in zip(places, exam.student.attempts(specimen.part, specimen.model, calls), strict=True):
        logits = must(given).first
        if not isinstance(logits, Tensor) or logits.dim() != 3:
            return None  # told, and paid for, by the check of the shapes
        best = logits[:, -1].double().topk(2, dim=-1)
        certain = best.values[:, 0] - best.values[:, 1] > CERTAIN
        asked += int(certain.sum())
        wrong += [place for row in certain.nonzero().flatten().tolist() if ids[row, place] != best.indices[row, 0]]
    if not wrong:
        return None
    exhibit = numbers("Steps where one id is certain", steps=asked, other_id=len(wrong))
    late = length <= limit < min(wrong) or length > limit
    return failed(
        f"generate draws another id than the one that the logits make certain (first at position {min(wrong)})"
        + (f", once the text is longer than block_size = {limit}." if late else "."),
        "Give the model the last block_size ids." if late else "Softmax of the last position's logits, then draw.",
        [exhibit],
        usable=True,
    )
