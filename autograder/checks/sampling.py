"""Checks of what generate draws: counts of many draws against the odds that our model and the arguments promise."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from autograder.checks.calls import LUCK, Got, ask, odds_off
from autograder.checks.evidence import table
from autograder.checks.exam import Exam
from autograder.checks.generation import NAME, ask_for, text_of
from autograder.checks.practice_cases import VOCABULARY, Case, draw_case
from autograder.checks.registry import Outcome, check, failed, passed
from autograder.track import Part
from autograder.verdict import Evidence, Verdict

#: So many rows are drawn at once: odds that differ by a twentieth then differ by seven standard deviations and more.
ROWS = 4_000


@check("generation.temperature", needs=["shape"])
def the_temperature_divides_the_logits(exam: Exam, part: Part) -> Outcome:
    """Tokens are drawn from softmax(logits / temperature) of the last position."""
    case = draw_case(exam.draws, "temperature", scale=0.9)
    # A wrong position, or a wrong crop, costs its points once: then only what does not depend on it is asked here.
    sound = all(exam.verdicts.get(f"generation.{name}") is Verdict.PASSED for name in ("greedy", "context"))
    contexts = exam.draws.tokens("temperature prompt", (2, 3 if sound else 1), VOCABULARY)
    trials = [1.0, 0.5, 2.0]
    logits = _logits(case, contexts)
    mistakes: list[tuple[Callable[[Tensor, float], Tensor], str]] = [
        (
            lambda z, t: (z[:, -1] * t).softmax(-1),
            "The logits are multiplied by the temperature: they are divided by it.",
        ),
        (
            lambda z, t: z[:, -1].softmax(-1),
            "The temperature makes no difference (nor does dividing the *probabilities* by it).",
        ),
        (
            lambda z, t: (z[:, -1].softmax(-1) / t).softmax(-1),
            "The temperature divides the probabilities: it divides the logits, before the softmax.",
        ),
        (lambda z, t: (z[:, -1] / t).softmax(-1).softmax(-1), "softmax is taken twice."),
        (lambda z, t: (z[:, 0] / t).softmax(-1), "Drawn is what comes after the *first* position, not the last."),
        (
            lambda z, t: (z.mean(dim=1) / t).softmax(-1),
            "Drawn is from the mean over the positions, not from the last one.",
        ),
        (lambda z, t: (z[:, -1] / t**0.5).softmax(-1), "The logits are divided by the root of the temperature."),
        (lambda z, t: (z[:, -1] / t**2).softmax(-1), "The logits are divided by the temperature twice."),
        (
            lambda z, t: torch.full_like(z[:, -1], 1 / VOCABULARY),
            "All tokens are drawn equally often, whatever the model says.",
        ),
        (lambda z, t: _one_hot(z[:, -1]), "Always the likeliest token is taken: nothing is drawn."),
        (lambda z, t: (z[:1, -1] / t).softmax(-1).expand(2, -1), "Every row is drawn from the logits of row 0."),
        (
            lambda z, t: (z[:, -1] / t).softmax(0).div((z[:, -1] / t).softmax(0).sum(-1, keepdim=True)),
            "softmax runs over the rows of the batch, not over the vocabulary.",
        ),
    ]
    asks = [ask_for(case, _many(contexts), 1, temperature=t) for t in trials]
    asks.append(ask_for(case, _many(contexts), 1))  # the default is 1
    counts = [_counts(got, _many(contexts)) for got in ask(exam, part, NAME, asks)]
    temperatures = [*trials, 1.0]
    right = [(logits[:, -1] / t).softmax(-1) for t in temperatures]
    if all(_agree(mine, odds) for mine, odds in zip(counts, right, strict=True)):
        return passed()
    exhibit = _odds(right[1], counts[1], "At temperature 0.5, after the first prompt")
    fits = [
        (max(_off(mine, mistake(logits, t)) for mine, t in zip(counts, temperatures, strict=True)), sentence)
        for mistake, sentence in mistakes
    ]
    best, sentence = min(fits)
    if best <= LUCK:
        return failed(sentence, "softmax(logits[:, -1] / temperature).", [exhibit])
    if all(_agree(mine, odds) for mine, odds in zip(counts[:3], right[:3], strict=True)):
        return failed("Without temperature it is not 1.0.", "temperature: float = 1.0.", [exhibit])
    if all(int((row > 0).sum()) == 1 for mine in counts for row in mine):
        return failed(
            "Rows with the same prompt all get the same token: one draw serves them all.",
            "torch.multinomial draws once for each row of the probabilities (B, V).",
            [exhibit],
        )
    if _agree(counts[0], right[0]):
        return failed(
            "At temperature 1 the odds are right, at others not.", "softmax(logits / temperature).", [exhibit]
        )
    return failed("Tokens are not drawn with the model's odds.", "softmax(logits[:, -1] / temperature).", [exhibit])


@check("generation.top_k", needs=["shape"])
def only_the_k_likeliest_are_drawn(exam: Exam, part: Part) -> Outcome:
    """With top_k only the k likeliest tokens of each row are drawn, with their own odds."""
    case, contexts, logits = _apart(exam)
    sizes = [3, 1, VOCABULARY]
    asks = [ask_for(case, _many(contexts), 1, top_k=k) for k in sizes]
    (more,) = ask(exam, part, NAME, [ask_for(case, _many(contexts), 1, top_k=VOCABULARY + 5)])
    if more.fault is not None and more.fault.verdict is Verdict.CRASHED:
        return failed(
            f"With top_k = {VOCABULARY + 5} and {VOCABULARY} tokens, {more.fault.message}",
            "Where k is larger than V all stay: take the smaller of the two.",
            more.fault.evidence,
        )
    given = ask(exam, part, NAME, asks)
    for got, k in zip(given, sizes, strict=True):
        if got.fault is not None and "probability tensor" in got.said:
            return failed(
                f"With top_k = {k} nothing is left to draw from in some row: {got.fault.message}",
                "Each row has its own k-th largest logit, and that one stays: >=, not >.",
                got.fault.evidence,
            )
    counts = [*(_counts(got, _many(contexts)) for got in given), _counts(more, _many(contexts))]
    sizes.append(VOCABULARY)
    right = [_top(logits, k).softmax(-1) for k in sizes]
    if all(_agree(mine, odds) for mine, odds in zip(counts, right, strict=True)):
        return passed()
    strays = [int(mine[odds < 1e-12].sum()) for mine, odds in zip(counts, right, strict=True)]
    if exam.verdicts.get("generation.temperature") is not Verdict.PASSED and not any(strays):
        return passed()  # wrong odds cost their points there
    exhibit = _odds(right[0], counts[0], "With top_k = 3, after the first prompt")
    smallest = -torch.inf
    mistakes: list[tuple[Callable[[int], Tensor], str]] = [
        (lambda k: logits.softmax(-1), "top_k makes no difference."),
        (
            lambda k: _top(logits, k + 1).softmax(-1),
            "k + 1 tokens stay, not k: > the k-th largest, or >= the one after it.",
        ),
        (lambda k: _top(logits, max(k - 1, 1)).softmax(-1), "k - 1 tokens stay: the k-th largest belongs to them."),
        (
            lambda k: (
                (-_top(-logits, k)).nan_to_num(posinf=smallest).where(-_top(-logits, k) < 1e30, smallest).softmax(-1)
            ),
            "The k *least* likely tokens stay.",
        ),
        (
            lambda k: _top(logits, k).nan_to_num(neginf=0.0).softmax(-1),
            "What is left out gets the logit 0, which is a good chance: it gets minus infinity, before the softmax.",
        ),
        (
            lambda k: _normed(torch.isfinite(_top(logits, k)).double()),
            "The k likeliest are drawn equally often: they keep their own odds.",
        ),
        (
            lambda k: logits.where(torch.isfinite(_top(logits, k)[:1]), smallest).softmax(-1),
            "All rows keep the k tokens that are likeliest in row 0.",
        ),
        (
            lambda k: logits.where(logits >= logits[0].topk(k).values[-1], smallest).softmax(-1),
            "Row 0 decides from which logit on tokens stay: each row has its own k-th largest.",
        ),
        (lambda k: _one_hot(logits), "Always the likeliest token is taken."),
    ]
    fits = [
        (max(_off(mine, mistake(k)) for mine, k in zip(counts, sizes, strict=True)), sentence)
        for mistake, sentence in mistakes
    ]
    best, sentence = min(fits)
    advice = "Everything below the k-th largest logit of the row gets -inf, before the softmax."
    if best <= LUCK:
        return failed(sentence, advice, [exhibit])
    if strays[0]:
        share = f"{strays[0]} of {2 * ROWS}"
        return failed(f"With top_k = 3, {share} tokens are none of the 3 likeliest.", advice, [exhibit])
    return failed("With top_k the odds are not those of the k likeliest.", advice, [exhibit])


def _apart(exam: Exam) -> tuple[Case, Tensor, Tensor]:
    """Draw a case with two prompts (2, 1) whose 3 likeliest tokens differ, and differ in how likely they are.

    What is decided by one row for both then shows. The prompts are single tokens: no position can be mistaken.
    """
    for attempt in range(200):
        case = draw_case(exam.draws, f"top_k {attempt}", scale=0.5)
        contexts = exam.draws.tokens(f"top_k {attempt}", (2, 1), VOCABULARY)
        logits = _logits(case, contexts)[:, -1]
        first, second = (row.topk(3) for row in logits)
        others = int((logits[1] >= first.values[-1]).sum())
        if others not in (0, 3) and {*first.indices.tolist()} != {*second.indices.tolist()}:
            return case, contexts, logits
    raise ValueError("no prompts that differ in 200 draws")  # two in three do


def _logits(case: Case, contexts: Tensor) -> Tensor:
    with torch.no_grad():
        logits: Tensor = case.model(False)(contexts)[0]
    return logits


def _many(contexts: Tensor) -> Tensor:
    """Return ROWS rows of each context, one context after the other in turn."""
    return contexts.repeat(ROWS, 1)


def _counts(got: Got, contexts: Tensor) -> Tensor:
    """Return how often each token followed each of the two contexts: (2, V)."""
    new = text_of(got, contexts, 1)[:, -1].clamp(0, VOCABULARY - 1).to(torch.int64)
    return torch.stack([torch.bincount(new[row::2], minlength=VOCABULARY) for row in range(2)])


def _agree(counts: Tensor, odds: Tensor) -> bool:
    return _off(counts, odds) <= LUCK


def _off(counts: Tensor, odds: Tensor) -> float:
    return max(odds_off(mine.tolist(), right.tolist()) for mine, right in zip(counts, odds, strict=True))


def _top(logits: Tensor, k: int) -> Tensor:
    """Return logits in which all but the k largest of each row are -inf."""
    order = logits.argsort(dim=-1, descending=True)
    kept = torch.zeros_like(logits, dtype=torch.bool).scatter(1, order[:, :k], True)
    return torch.where(kept, logits, torch.full_like(logits, -torch.inf))


def _normed(weights: Tensor) -> Tensor:
    return weights / weights.sum(dim=-1, keepdim=True)


def _one_hot(logits: Tensor) -> Tensor:
    return torch.nn.functional.one_hot(logits.argmax(dim=-1), logits.shape[-1]).double()


def _odds(right: Tensor, counts: Tensor, title: str) -> Evidence:
    rows: Sequence[Sequence[object]] = [
        [token, f"{float(right[0, token]) * ROWS:.0f}", int(counts[0, token])] for token in range(VOCABULARY)
    ]
    return table(title, ["token", f"expected of {ROWS}", "yours"], rows)
