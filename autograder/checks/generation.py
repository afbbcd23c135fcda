"""Checks of generate where nothing is left to chance: shapes, greedy ids, contexts, replays, modes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from autograder.checks.calls import Ask, Got, ask, kind_of, near, untouched
from autograder.checks.evidence import shape_text, table
from autograder.checks.exam import Exam
from autograder.checks.practice_cases import VOCABULARY, Case, draw_case
from autograder.checks.registry import Outcome, Stopped, check, failed, passed
from autograder.track import Part
from autograder.verdict import Evidence, Verdict

NAME = "generate"
#: Of the two likeliest tokens: nearer ones would leave to rounding which is taken.
GAP = 0.05
#: What our model says about a context that is longer than its positions.
TOO_LONG = "does not fit: block_size"

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
    asks = [ask_for(case, prompt, trial[2]) for prompt, trial in zip(prompts, trials, strict=True)]
    for prompt, (rows, length, new), got in zip(prompts, trials, ask(exam, part, NAME, asks), strict=True):
        if got.fault is not None and TOO_LONG in got.said:
            continue  # told, and paid for, in `context`
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
            sentence = f"From {case_text} comes {mine}, not {shape_text(wanted)}.{why}"
            return failed(sentence, "(B, T + max_new_tokens).", usable=True)
        if value.dtype != torch.int64:
            return failed(f"The ids are of {value.dtype}, not int64.", "Ids stay integers.")
        if not torch.equal(value[:, :length], prompt):
            advice = "Append on the right: torch.cat([idx, new], dim=1)."
            return failed("What comes back does not begin with the prompt.", advice, usable=True)
        if bool(((value < 0) | (value >= VOCABULARY)).any()):
            return failed("Some new ids are no tokens.", "Draw one of the V tokens.")
    return passed()


@check("generation.greedy")
def temperature_zero_is_greedy(exam: Exam, part: Part) -> Outcome:
    """Temperature 0 takes the likeliest token after the last position, each time."""
    case, prompt = _clear(exam, "greedy", rows=3, length=2, new=5)
    asks = [ask_for(case, prompt, 5, temperature=0.0), ask_for(case, prompt, 5, temperature=0.0, top_k=4)]
    asks.append(ask_for(case, prompt, 5, temperature=0))
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
        mine = text_of(got, prompt, 5)
        alone = _continued(case, prompt, 5, _last, crop=lambda idx: idx[:, -1:])  # told, and paid for, in `context`
        if torch.equal(mine, expected) or torch.equal(mine, alone):
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
    case = draw_case(exam.draws, "context")
    block = case.block_size
    for length, new in ((6, 7), (block + 4, 3)):
        prompt = exam.draws.tokens(f"context {length}", (2, length), VOCABULARY)
        (got,) = ask(exam, part, NAME, [ask_for(case, prompt, new)])
        if got.fault is not None and TOO_LONG in got.said:
            return failed(
                f"The model is asked with more than block_size = {block} tokens, for which it has no positions.",
                "idx[:, -block_size:], for the model alone.",
                got.fault.evidence,
            )
        text, seen = text_of(got, prompt, new)[0].tolist(), got.seen()
        if exam.verdicts.get("generation.shape") is not Verdict.PASSED:
            seen = seen[:new]  # that there is one token too many is told there
        wanted = [text[: length + step][-block:] for step in range(new)]
        if seen == wanted:
            continue
        rows = [[step, str(right), str(mine)] for step, (right, mine) in enumerate(zip(wanted, seen, strict=False))]
        exhibit = table("What the model is asked with, row 0", ["token", "expected", "yours"], rows)
        return failed(_context_fault(text, seen, length, block), "idx[:, -block_size:].", [exhibit])
    return passed()


def _context_fault(text: list[int], seen: list[list[int]], length: int, block: int) -> str:
    """Say what the model was asked with instead of the last block of the text so far."""
    sizes = [len(row) for row in seen]
    new = len(text) - length
    so_far = [text[: length + step] for step in range(new)]
    if len(seen) != new:
        return f"The model is asked {len(seen)} times for {new} tokens: once for each."
    if seen == [row[-1:] for row in so_far]:
        return "The model is asked with the last token alone: it then knows nothing of what came before."
    if seen == [row[:block] for row in so_far]:
        return "It keeps the first block_size tokens and drops the latest."
    if seen == [row[-(block - 1) :] for row in so_far]:
        return "The model is asked with the last block_size - 1 tokens: block_size fit."
    if len({*map(tuple, seen)}) == 1:
        return "The model is always asked with the same tokens: append each before the next is asked for."
    return f"What the model is asked with ({sizes} tokens) is not the end of the text."


@check("generation.replay", needs=["shape"])
def a_generator_replays_the_text(exam: Exam, part: Part) -> Outcome:
    """The same generator state gives the same text; rows are drawn apart; nothing else is drawn from."""
    case = draw_case(exam.draws, "replay", scale=0.3)
    prompt = exam.draws.tokens("replay", (1, 3), VOCABULARY).expand(4, 3).contiguous()
    asks = [ask_for(case, prompt, 5, generator=seed, seed=other) for seed, other in ((1, 5), (1, 6), (2, 5))]
    asks += [ask_for(case, prompt, 5, generator=None, seed=seed) for seed in (1, 1, 2)]
    got = ask(exam, part, NAME, asks)
    first, again, other, own, own_again, own_other = (text_of(each, prompt, 5) for each in got)
    drawn = exam.verdicts.get("generation.temperature") is Verdict.PASSED  # else that nothing is drawn is told there
    if not torch.equal(first, again):
        return failed(
            "The same generator, in the same state, gives another text.", "torch.multinomial(..., generator=generator)."
        )
    if drawn and torch.equal(first, other):
        return failed("Every generator gives the same text.", "Do not seed anything inside generate.")
    if any(each.data.get("random") for each in got[:3]):
        return failed(
            "With a generator given, generate still draws from the global one, or seeds it.",
            "Draw from `generator` alone.",
        )
    if drawn and all(torch.equal(row, first[0]) for row in first):
        return failed("Rows with the same prompt get the same text: one draw serves them all.", "A draw for each row.")
    if not torch.equal(own, own_again) or (drawn and torch.equal(own, own_other)):
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
        exam, part, NAME, [ask_for(case, prompt, 3), ask_for(replace(case, training=False), prompt, 3)]
    )
    for each in (training, evaluating):
        each.ran()
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


def ask_for(
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
        gaps: list[float] = []

        def pick(logits: Tensor, gaps: list[float] = gaps) -> Tensor:
            best = logits[:, -1].topk(2).values
            gaps.append(float((best[:, 0] - best[:, 1]).min()))
            return _last(logits)

        text = _continued(case, prompt, new, pick)
        varied = all(len({*row[length:].tolist()}) > 2 for row in text) or new < 5
        if min(gaps) > GAP and varied:
            return case, prompt
    raise ValueError("no clear case in 200 draws")  # one in three is; the longest of 120 searches took 14


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


def text_of(got: Got, prompt: Tensor, new: int) -> Tensor:
    """Return the prompt with the new tokens that came back (B, T + new), whatever stands before or after them.

    A wrong shape costs its points in `shape`. Raises Stopped when there are no such tokens.
    """
    value, rows, length = got.value(), len(prompt), prompt.shape[1]
    if not isinstance(value, Tensor) or value.dim() != 2 or len(value) != rows or value.shape[1] < new:
        wanted = shape_text((rows, length + new))
        raise Stopped(failed(f"generate returns {kind_of(value)}; expected ids {wanted}.", "(B, T + max_new_tokens)."))
    value = value.to(torch.int64)
    extra = value.shape[1] == length + new + 1
    return torch.cat([prompt, value[:, length : length + new] if extra else value[:, value.shape[1] - new :]], dim=1)


def _rows(expected: Tensor, mine: Tensor, prompt: Tensor) -> Evidence:
    rows: Mapping[str, object] = {
        "prompt": prompt[0].tolist(),
        "expected": expected[0].tolist(),
        "yours": mine[0].tolist(),
    }
    return table("Row 0", ["", "ids"], [[name, str(ids)] for name, ids in rows.items()])
