"""Checks of generate: exact ids where nothing is left to chance, and counts of many draws where it is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from autograder.checks.calls import LUCK, Ask, Got, ask, kind_of, near, odds_off, untouched
from autograder.checks.evidence import shape_text, table
from autograder.checks.exam import Exam
from autograder.checks.practice_cases import VOCABULARY, Case, draw_case
from autograder.checks.registry import Outcome, Stopped, check, failed, passed
from autograder.track import Part
from autograder.verdict import Evidence, Verdict

NAME = "generate"
#: So many rows are drawn at once: odds that differ by a twentieth then differ by seven standard deviations and more.
ROWS = 4_000
#: Of the two likeliest tokens: nearer ones would leave to rounding which is taken.
GAP = 0.05
#: At this temperature the likeliest token has all of the probability: exp(-GAP / COLD) is 1e-217.
COLD = 1e-4

Pick = Callable[[Tensor], Tensor]  # logits (B, t, V) -> next ids (B)


@check("generation.shape")
def new_tokens_are_appended(exam: Exam, part: Part) -> Outcome:
    """generate returns the prompt with max_new_tokens more in each row, as int64."""
    case = draw_case(exam.draws, "shape")
    trials = [
        (2, 3, 4),
        (1, 1, 6),
        (3, 5, 0),
        (2, 13, 3),
    ]  # rows, prompt, new; the last prompt is longer than block_size
    prompts = [exam.draws.tokens(f"shape {n}", trial[:2], VOCABULARY) for n, trial in enumerate(trials)]
    asks = [_ask(case, prompt, trial[2]) for prompt, trial in zip(prompts, trials, strict=True)]
    for prompt, (rows, length, new), got in zip(prompts, trials, ask(exam, part, NAME, asks), strict=True):
        value, wanted = got.value(), (rows, length + new)
        case_text = f"a prompt {shape_text((rows, length))} and max_new_tokens = {new}"
        if not isinstance(value, Tensor):
            return failed(f"generate returns {kind_of(value)}, not a tensor of ids.", "Return idx with the new ids.")
        if tuple(value.shape) != wanted:
            mine = shape_text(value.shape)
            why = ""
            if tuple(value.shape) == (rows, new):
                why = " The prompt is missing: return it with what was appended."
            elif (
                tuple(value.shape) == (rows, min(length + new, case.block_size))
                or value.shape[-1] <= case.block_size < wanted[1]
            ):
                why = " What was cropped for the model is lost: keep the whole sequence, and crop a copy."
            elif value.dim() == 2 and value.shape[1] == wanted[1] + 1:
                why = " One token too many."
            return failed(f"From {case_text} comes {mine}, not {shape_text(wanted)}.{why}", "(B, T + max_new_tokens).")
        if value.dtype != torch.int64:
            return failed(f"The ids are of {value.dtype}, not int64.", "Ids stay integers.")
        if not torch.equal(value[:, :length], prompt):
            return failed(
                "What comes back does not begin with the prompt.", "Append on the right: torch.cat([idx, new], dim=1)."
            )
        if bool(((value < 0) | (value >= VOCABULARY)).any()):
            return failed("Some new ids are no tokens.", "Draw one of the V tokens.")
    return passed()


@check("generation.greedy")
def temperature_zero_is_greedy(exam: Exam, part: Part) -> Outcome:
    """Temperature 0 takes the likeliest token after the last position, each time."""
    case, prompt = _clear(exam, "greedy", rows=3, length=2, new=5)
    asks = [_ask(case, prompt, 5, temperature=0.0), _ask(case, prompt, 5, temperature=0.0, top_k=4)]
    asks.append(_ask(case, prompt, 5, temperature=0))
    expected = _continued(case, prompt, 5, _last)
    mistakes: list[tuple[Pick, str]] = [
        (
            lambda logits: logits[:, 0].argmax(dim=-1),
            "It takes what is likely after the *first* position, not the last.",
        ),
        (lambda logits: logits[:, -1].argmin(dim=-1), "It takes the least likely token."),
        (lambda logits: logits.mean(dim=1).argmax(dim=-1), "It takes the mean over all positions, not the last one."),
        (lambda logits: logits[:1, -1].argmax(dim=-1).expand(len(logits)), "Every row gets the token of row 0."),
    ]
    for got in ask(exam, part, NAME, asks):
        if got.fault is not None and got.fault.verdict is Verdict.CRASHED:
            why = (
                " A division by 0 gives inf and NaN." if "nan" in got.said.lower() or "inf" in got.said.lower() else ""
            )
            return failed(
                f"With temperature 0, {got.fault.message}{why}",
                "Temperature 0 is argmax, without dividing.",
                got.fault.evidence,
            )
        mine = _ids(got, expected)
        if torch.equal(mine, expected):
            continue
        for pick, sentence in mistakes:
            if torch.equal(mine, _continued(case, prompt, 5, pick)):
                return failed(sentence, "logits[:, -1] are about the next token.", [_rows(expected, mine, prompt)])
        if torch.equal(mine[:, :3], expected[:, :3]) and len({*mine[0, 2:].tolist()}) == 1:
            return failed(
                "The same token is appended again and again: the model is not asked anew with what was appended.",
                "Ask with the whole sequence each time.",
                [_rows(expected, mine, prompt)],
            )
        return failed(
            "With temperature 0 other tokens come than the likeliest.",
            "argmax of the last logits.",
            [_rows(expected, mine, prompt)],
        )
    return passed()


@check("generation.context", needs=["shape"])
def the_model_sees_the_last_block(exam: Exam, part: Part) -> Outcome:
    """The model is asked with the last block_size tokens, or with all while there are fewer."""
    trials = [_clear(exam, "context", rows=2, length=6, new=7), _clear(exam, "long prompt", rows=2, length=12, new=3)]
    asks = [_ask(case, prompt, new, temperature=COLD) for (case, prompt), new in zip(trials, (7, 3), strict=True)]
    for (case, prompt), new, got in zip(trials, (7, 3), ask(exam, part, NAME, asks), strict=True):
        block, length = case.block_size, prompt.shape[1]
        if got.fault is not None and "does not fit: block_size" in got.said:
            return failed(
                f"The model is asked with more than block_size = {block} tokens, for which it has no positions.",
                "idx[:, -block_size:], for the model alone.",
                got.fault.evidence,
            )
        mine, expected = _ids(got, _continued(case, prompt, new, _last)), _continued(case, prompt, new, _last)
        asked = [shape[-1] for shape in got.shapes()]
        wanted = [min(length + step, block) for step in range(new)]
        exhibit = _rows(expected, mine, prompt)
        if len(asked) > new:
            return failed(
                f"The model is asked {len(asked)} times for {new} tokens.", "Once for each new token.", [exhibit]
            )
        if asked != wanted:
            sentence = f"The model is asked with {asked} tokens; expected {wanted}."
            if set(asked) == {1}:
                sentence = "The model is asked with the last token alone: it then knows nothing of what came before."
            elif asked == [min(length + step, block - 1) for step in range(new)]:
                sentence = "The model is asked with the last block_size - 1 tokens: block_size fit."
            elif asked == [length] * new:
                sentence = "The model is always asked with the prompt: append each token before the next is asked for."
            return failed(sentence, "idx[:, -block_size:].", [exhibit])
        if not torch.equal(mine, expected):
            first = [min(step, block) for step in range(length, length + new)]
            if torch.equal(mine, _continued(case, prompt, new, _last, crop=lambda idx: idx[:, :block])):
                return failed(
                    "It keeps the first block_size tokens and drops the latest.", "idx[:, -block_size:].", [exhibit]
                )
            return failed(
                f"What the model is asked with ({first} tokens) is not the end of the sequence.",
                "idx[:, -block_size:].",
                [exhibit],
            )
    return passed()


@check("generation.temperature", needs=["shape"])
def the_temperature_divides_the_logits(exam: Exam, part: Part) -> Outcome:
    """Tokens are drawn from softmax(logits / temperature) of the last position."""
    case = draw_case(exam.draws, "temperature", scale=0.6)
    contexts = exam.draws.tokens("temperature prompt", (2, 3), VOCABULARY)
    trials = [1.0, 0.5, 2.0]
    logits = _logits(case, contexts)
    mistakes: list[tuple[Callable[[Tensor, float], Tensor], str]] = [
        (lambda z, t: (z[:, -1] * t).softmax(-1), "The logits are multiplied by the temperature: they are divided by it."),
        (lambda z, t: z[:, -1].softmax(-1), "The temperature makes no difference."),
        (lambda z, t: (z[:, -1].softmax(-1) / t).softmax(-1), "The temperature divides the probabilities: it divides the "
         "logits, before the softmax."),
        (lambda z, t: (z[:, -1] / t).softmax(-1).softmax(-1), "softmax is taken twice."),
        (lambda z, t: _normed(z[:, -1].softmax(-1) / t), "The temperature divides the probabilities, which changes nothing: "
         "it divides the logits."),
        (lambda z, t: (z[:, 0] / t).softmax(-1), "Drawn is what comes after the *first* position, not the last."),
        (lambda z, t: (z.mean(dim=1) / t).softmax(-1), "Drawn is from the mean over the positions, not from the last one."),
        (lambda z, t: (z[:, -1] / t**0.5).softmax(-1), "The logits are divided by the root of the temperature."),
        (lambda z, t: (z[:, -1] / t**2).softmax(-1), "The logits are divided by the temperature twice."),
        (lambda z, t: torch.full_like(z[:, -1], 1 / VOCABULARY), "All tokens are drawn equally often, whatever the model says."),
        (lambda z, t: _one_hot(z[:, -1]), "Always the likeliest token is taken: nothing is drawn."),
        (lambda z, t: (z[:1, -1] / t).softmax(-1).expand(2, -1), "Every row is drawn from the logits of row 0."),
        (lambda z, t: (z[:, -1] / t).softmax(0).div((z[:, -1] / t).softmax(0).sum(-1, keepdim=True)), "softmax runs over the "
         "rows of the batch, not over the vocabulary."),
    ]  # fmt: skip
    asks = [_ask(case, _many(contexts), 1, temperature=t) for t in trials]
    asks.append(_ask(case, _many(contexts), 1))  # the default is 1
    counts = [_counts(got) for got in ask(exam, part, NAME, asks)]
    temperatures = [*trials, 1.0]
    right = [(logits[:, -1] / t).softmax(-1) for t in temperatures]
    if all(_agree(mine, odds) for mine, odds in zip(counts, right, strict=True)):
        return passed()
    exhibit = _odds(right[1], counts[1], "At temperature 0.5, after the first prompt")
    for mistake, sentence in mistakes:
        if all(_agree(mine, mistake(logits, t)) for mine, t in zip(counts, temperatures, strict=True)):
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
    case = draw_case(exam.draws, "top_k", scale=0.5)
    contexts = exam.draws.tokens("top_k prompt", (2, 3), VOCABULARY)
    logits = _logits(case, contexts)[:, -1]
    sizes = [3, 1, VOCABULARY]
    asks = [_ask(case, _many(contexts), 1, top_k=k) for k in sizes]
    (more,) = ask(exam, part, NAME, [_ask(case, _many(contexts), 1, top_k=VOCABULARY + 5)])
    if more.fault is not None and more.fault.verdict is Verdict.CRASHED:
        return failed(
            f"With top_k = {VOCABULARY + 5} and {VOCABULARY} tokens, {more.fault.message}",
            "Where k is larger than V all stay: take the smaller of the two.",
            more.fault.evidence,
        )
    counts = [*(_counts(got) for got in ask(exam, part, NAME, asks)), _counts(more)]
    sizes.append(VOCABULARY)
    right = [_top(logits, k).softmax(-1) for k in sizes]
    if all(_agree(mine, odds) for mine, odds in zip(counts, right, strict=True)):
        return passed()
    exhibit = _odds(right[0], counts[0], "With top_k = 3, after the first prompt")
    smallest = -torch.inf
    mistakes: list[tuple[Callable[[int], Tensor], str]] = [
        (lambda k: logits.softmax(-1), "top_k makes no difference."),
        (lambda k: _top(logits, k + 1).softmax(-1), "k + 1 tokens stay, not k: > the k-th largest, or >= the one after it."),
        (lambda k: _top(logits, max(k - 1, 1)).softmax(-1), "k - 1 tokens stay: the k-th largest belongs to them."),
        (lambda k: (-_top(-logits, k)).nan_to_num(posinf=smallest).where(-_top(-logits, k) < 1e30, smallest).softmax(-1),
         "The k *least* likely tokens stay."),
        (lambda k: _top(logits, k).nan_to_num(neginf=0.0).softmax(-1), "What is left out gets the logit 0, which is a good "
         "chance: it gets minus infinity, before the softmax."),
        (lambda k: _normed(torch.isfinite(_top(logits, k)).double()), "The k likeliest are drawn equally often: they keep "
         "their own odds."),
        (lambda k: logits.where(torch.isfinite(_top(logits, k)[:1]), smallest).softmax(-1), "All rows keep the k tokens that "
         "are likeliest in row 0."),
        (lambda k: logits.where(logits >= logits[0].topk(k).values[-1], smallest).softmax(-1), "Row 0 decides from which logit "
         "on tokens stay: each row has its own k-th largest."),
        (lambda k: _one_hot(logits), "Always the likeliest token is taken."),
    ]  # fmt: skip
    for mistake, sentence in mistakes:
        if all(_agree(mine, mistake(k)) for mine, k in zip(counts, sizes, strict=True)):
            return failed(sentence, "Everything below the k-th largest logit of the row gets -inf.", [exhibit])
    full = _agree(counts[2], right[2])
    strays = int(sum(int(mine[right[0] < 1e-12].sum()) for mine in counts[:1]))
    if strays and full:
        return failed(
            f"With top_k = 3, {strays} of {len(_many(contexts))} tokens are none of the 3 likeliest.",
            "Everything below the k-th largest logit of the row gets -inf, before the softmax.",
            [exhibit],
        )
    return failed(
        "With top_k the odds are not those of the k likeliest.", "softmax after the others got -inf.", [exhibit]
    )


@check("generation.replay", needs=["shape"])
def a_generator_replays_the_text(exam: Exam, part: Part) -> Outcome:
    """The same generator state gives the same text; rows are drawn apart; nothing else is drawn from."""
    case = draw_case(exam.draws, "replay", scale=0.3)
    prompt = exam.draws.tokens("replay", (1, 3), VOCABULARY).expand(4, 3).contiguous()
    asks = [_ask(case, prompt, 14, generator=seed, seed=other) for seed, other in ((1, 5), (1, 6), (2, 5))]
    asks += [_ask(case, prompt, 14, generator=None, seed=seed) for seed in (1, 1, 2)]
    got = ask(exam, part, NAME, asks)
    first, again, other, own, own_again, own_other = (each.value() for each in got)
    if not torch.equal(first, again):
        return failed(
            "The same generator, in the same state, gives another text.", "torch.multinomial(..., generator=generator)."
        )
    if torch.equal(first, other):
        return failed("Every generator gives the same text.", "Do not seed anything inside generate.")
    if any(each.data.get("random") for each in got[:3]):
        return failed(
            "With a generator given, generate still draws from the global one, or seeds it.",
            "Draw from `generator` alone.",
        )
    if all(torch.equal(row, first[0]) for row in first):
        return failed("Rows with the same prompt get the same text: one draw serves them all.", "A draw for each row.")
    if not torch.equal(own, own_again) or torch.equal(own, own_other):
        return failed(
            "Without a generator, torch.manual_seed does not decide the text.",
            "generator=None stands for torch's own generator: hand it on as it is.",
        )
    return passed()


@check("generation.conduct")
def the_model_is_left_as_it_was(exam: Exam, part: Part) -> Outcome:
    """The model answers in eval mode without gradients, and is in its old mode afterwards; idx stays as it is."""
    case = draw_case(exam.draws, "conduct")
    prompt = exam.draws.tokens("conduct", (2, 4), VOCABULARY)
    training, evaluating = ask(
        exam, part, NAME, [_ask(case, prompt, 3), _ask(replace(case, training=False), prompt, 3)]
    )
    for each in (training, evaluating):
        each.value()
    modes = training.modes()
    if not modes:
        return failed("The model is never asked.", "Call model(context).")
    if any(mode[0] or mode[1] for mode in modes):
        return failed("The model answers in train mode: dropout would disturb it.", "model.eval() before the loop.")
    if any(mode[2] for mode in modes):
        return failed(
            "Gradients are on while text is generated: each step keeps its graph in memory.", "with torch.no_grad():"
        )
    if training.mode_after() != (True, True):
        return failed(
            "A model that was in train mode is left in eval mode.", "Remember model.training, and go back to that."
        )
    if evaluating.mode_after() != (False, False):
        return failed(
            "A model that was in eval mode is left in train mode.", "Remember model.training, and go back to that."
        )
    if not (training.data.get("grad_mode") and evaluating.data.get("grad_mode")):
        return failed(
            "Afterwards gradients stay switched off: no later step could learn.",
            "with torch.no_grad(): ends by itself.",
        )
    if not untouched(training, "idx", prompt):
        return failed(
            "generate changes the prompt that it was given.", "torch.cat makes a new tensor; write into no old one."
        )
    if not near(training.under("weight."), case.weights, 1e-7):
        return failed("generate changes the model's weights.", "It only asks.")
    return passed()


def _ask(
    case: Case,
    prompt: Tensor,
    new: int,
    *,
    temperature: float | None = None,
    top_k: int | None = None,
    generator: int | None = 7,
    seed: int = 0,
) -> Ask:
    kwargs: dict[str, Any] = {} if generator is None else {"generator": {"generator": generator}}
    kwargs |= {} if temperature is None else {"temperature": temperature}
    kwargs |= {} if top_k is None else {"top_k": top_k}
    args = [{"model": True}, {"tensor": "idx"}, new, case.block_size]
    return case.ask(args, kwargs, tensors={"idx": prompt}, seed=seed)


def _clear(exam: Exam, purpose: str, rows: int, length: int, new: int) -> tuple[Case, Tensor]:
    """Draw a case in which the likeliest token is clear at each step, whatever context is cropped how."""
    for attempt in range(200):
        case = draw_case(exam.draws, f"{purpose} {attempt}")
        prompt = exam.draws.tokens(f"{purpose} {attempt}", (rows, length), VOCABULARY)
        gaps = []

        def pick(logits: Tensor, gaps: list[float] = gaps) -> Tensor:
            best = logits[:, -1].topk(2).values
            gaps.append(float((best[:, 0] - best[:, 1]).min()))
            return _last(logits)

        text = _continued(case, prompt, new, pick)
        varied = all(len({*row[length:].tolist()}) > 2 for row in text) or new < 5
        if min(gaps) > GAP and varied:
            return case, prompt
    raise AssertionError("no clear case in 200 draws")  # one in three is


def _continued(
    case: Case, prompt: Tensor, new: int, pick: Pick, crop: Callable[[Tensor], Tensor] | None = None
) -> Tensor:
    """Return the text that follows from the prompt when `pick` chooses each next token."""
    model, idx = case.model(False), prompt
    for _ in range(new):
        window = crop(idx) if crop is not None else idx[:, max(0, idx.shape[1] - case.block_size) :]
        with torch.no_grad():
            logits = model(window)[0]
        idx = torch.cat((idx, pick(logits)[:, None]), dim=1)
    return idx


def _last(logits: Tensor) -> Tensor:
    return logits[:, -1].argmax(dim=-1)


def _logits(case: Case, contexts: Tensor) -> Tensor:
    with torch.no_grad():
        logits: Tensor = case.model(False)(contexts)[0]
    return logits


def _ids(got: Got, expected: Tensor) -> Tensor:
    """Return the ids that came back. Raises Stopped when their shape is another."""
    value = got.value()
    if not isinstance(value, Tensor) or value.shape != expected.shape:
        wanted = shape_text(expected.shape)
        raise Stopped(failed(f"generate returns {kind_of(value)}; expected ids {wanted}.", "(B, T + max_new_tokens)."))
    return value.to(torch.int64)


def _many(contexts: Tensor) -> Tensor:
    """Return ROWS rows of each context, one context after the other in turn."""
    return contexts.repeat(ROWS, 1)


def _counts(got: Got) -> Tensor:
    """Return how often each token followed each of the two contexts: (2, V)."""
    value = got.value()
    if not isinstance(value, Tensor) or value.shape != (2 * ROWS, 4):
        raise Stopped(failed(f"With {2 * ROWS} rows generate returns {kind_of(value)}.", "(B, T + max_new_tokens)."))
    new = value[:, -1].clamp(0, VOCABULARY - 1).to(torch.int64)
    return torch.stack([torch.bincount(new[row::2], minlength=VOCABULARY) for row in range(2)])


def _agree(counts: Tensor, odds: Tensor) -> bool:
    return all(odds_off(mine.tolist(), right.tolist()) <= LUCK for mine, right in zip(counts, odds, strict=True))


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


def _rows(expected: Tensor, mine: Tensor, prompt: Tensor) -> Evidence:
    rows: Mapping[str, object] = {
        "prompt": prompt[0].tolist(),
        "expected": expected[0].tolist(),
        "yours": mine[0].tolist(),
    }
    return table("Row 0", ["", "ids"], [[name, str(ids)] for name, ids in rows.items()])
