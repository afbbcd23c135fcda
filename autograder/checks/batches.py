"""Checks of get_batch: targets one token later, every window, each as likely, replayed from a generator."""

from __future__ import annotations

import torch
from torch import Tensor

from autograder.checks.calls import LUCK, Ask, Got, ask, kind_of, odds_off, untouched
from autograder.checks.evidence import numbers, shape_text, table
from autograder.checks.exam import Exam
from autograder.checks.registry import Outcome, Stopped, check, failed, passed
from autograder.track import Part
from autograder.verdict import Verdict

NAME = "get_batch"
#: Drawing windows for so many rows shows each of a few starts many times.
ROWS = 600


@check("training.batch_shift")
def targets_are_one_token_later(exam: Exam, part: Part) -> Outcome:
    """get_batch cuts windows out of the text, and y is x one token later."""
    data = _data(exam, "shift", 70)
    cases = [(7, 5), (1, 4), (12, 1), (30, 3)]
    asks = [_ask(data, block, batch, number) for number, (block, batch) in enumerate(cases)]
    asks.append(Ask(args=[{"tensor": "data"}, 6, 4], tensors={"data": data}))  # without a generator
    for (block, batch), got in zip([*cases, (6, 4)], ask(exam, part, NAME, asks), strict=True):
        x, y = _batch(got, block, batch)
        starts = _starts(data, x)
        if starts is None:
            return failed(
                f"A row of x is no piece of the text: {x[0].tolist()[:8]} does not stand in data like this.",
                "A window is block_size tokens in a row.",
                [table("x and the text", ["", ""], [["x[0]", x[0].tolist()[:12]], ["data", data.tolist()[:24]]])],
            )
        wrong = _shift_fault(data, starts, x, y)
        if wrong:
            rows = [["x[0]", x[0].tolist()[:12]], ["y[0]", y[0].tolist()[:12]]]
            return failed(wrong, "y[b, t] is the token that follows x[b, t] in data.", [table("A row", ["", ""], rows)])
        if not untouched(got, "data", data):
            return failed("get_batch changes data itself.", "Copy what you cut out before you change it.")
    return passed()


@check("training.batch_windows", needs=["batch_shift"])
def every_window_is_as_likely(exam: Exam, part: Part) -> Outcome:
    """Every window that has an answer is drawn, each as often."""
    sizes = [(5 + 24, 5), (9, 5), (6, 5)]  # (N, T): twenty-four starts, four, a single one
    data = [_data(exam, f"windows {length}", length) for length, _ in sizes]
    asks = [_ask(each, block, ROWS, 17 + n) for n, (each, (_, block)) in enumerate(zip(data, sizes, strict=True))]
    for each, (length, block), got in zip(data, sizes, ask(exam, part, NAME, asks), strict=True):
        places = length - block
        case = f"N = {length} tokens and T = {block}: {places} window{'s' if places > 1 else ''}"
        if got.fault is not None and got.fault.verdict is Verdict.CRASHED:
            return failed(
                f"With {case}, {got.fault.message}",
                "The last start is N - T - 1: its last answer is the last token of data.",
                got.fault.evidence,
            )
        x, _ = _batch(got, block, ROWS)
        starts = _starts(each, x)
        if starts is None:
            return failed(f"With {case}, a row of x is no piece of the text.", "Starts go from 0 to N - T - 1.")
        counts = torch.bincount(starts, minlength=places).tolist()
        exhibit = numbers("How often each start was drawn", **{f"start_{n}": c for n, c in enumerate(counts[:12])})
        if places > 1 and len(set(starts.tolist())) == 1:
            return failed(
                f"All {ROWS} rows are the same window, from {int(starts[0])}.",
                "Draw a start for each row.",
                [exhibit],
            )
        missing = [start for start, count in enumerate(counts) if not count]
        if missing == [places - 1]:
            return failed(
                f"The last window, from {places - 1}, is never drawn ({case}).",
                "randint's upper end is not drawn itself: there are N - T starts, 0 to N - T - 1.",
                [exhibit],
            )
        if missing == [0]:
            return failed("The first window, from 0, is never drawn.", "Starts go from 0 to N - T - 1.", [exhibit])
        if missing:
            return failed(
                f"Windows that start at {', '.join(map(str, missing[:5]))} are never drawn ({case}).",
                "Starts go from 0 to N - T - 1, in steps of one.",
                [exhibit],
            )
        if len(counts) > places or odds_off(counts, [1 / places] * places) > LUCK:
            return failed("Some windows are drawn far more often than others.", "Each is as likely.", [exhibit])
        if places > 10 and max(counts) - min(counts) <= 1:  # of four starts, chance does that once in 15,000
            return failed(
                "The windows come in turn, not at random: every start is drawn equally often.",
                "Draw the starts with torch.randint.",
                [exhibit],
            )
    return passed()


@check("training.batch_replay", needs=["batch_shift"])
def a_generator_replays_batches(exam: Exam, part: Part) -> Outcome:
    """The same generator state gives the same batch, and nothing else is drawn from."""
    data = _data(exam, "replay", 500)
    asks = [_ask(data, 8, 6, seed, seed=other) for seed, other in ((1, 5), (1, 6), (2, 5))]
    asks += [Ask(args=[{"tensor": "data"}, 8, 6], tensors={"data": data}, more={"seed": s}) for s in (1, 1, 2)]
    got = ask(exam, part, NAME, asks)
    first, again, other, own, own_again, own_other = (_batch(each, 8, 6)[0] for each in got)
    if not torch.equal(first, again):
        return failed(
            "The same generator, in the same state, gives another batch.",
            "Hand generator=generator to torch.randint; Python's and NumPy's random know nothing of it.",
        )
    if torch.equal(first, other):
        return failed("Every generator gives the same batch.", "Do not seed anything inside get_batch.")
    if any(each.data.get("random") for each in got[:3]):
        return failed(
            "With a generator given, get_batch still draws from (or seeds) the global generators.",
            "Then a run that is resumed sees other batches. Draw from `generator` alone.",
        )
    if not torch.equal(own, own_again) or torch.equal(own, own_other):
        return failed(
            "Without a generator, torch.manual_seed does not decide the batch.",
            "generator=None stands for torch's own generator: hand it on as it is.",
        )
    return passed()


@check("training.batch_refuses")
def too_short_data_are_refused(exam: Exam, part: Part) -> Outcome:
    """Data that do not hold a window and its answer raise ValueError."""
    sizes = [(8, 8), (5, 8), (0, 3)]
    asks = [_ask(_data(exam, f"refuses {length}", length), block, 2, 3) for length, block in sizes]
    for (length, block), got in zip(sizes, ask(exam, part, NAME, asks), strict=True):
        if got.fault is None:
            return failed(
                f"With N = {length} tokens and T = {block} get_batch returns something.",
                "There is no window with an answer: raise ValueError.",
            )
        if got.fault.verdict is not Verdict.CRASHED:
            return got.fault
        if not {"ValueError", "AssertionError"} & set(got.raised):
            return failed(
                f"With N = {length} tokens and T = {block}, {got.fault.message} That does not tell what is wrong.",
                "Look at the length first, and raise ValueError with both numbers.",
                got.fault.evidence,
            )
    return passed()


def _data(exam: Exam, purpose: str, length: int) -> Tensor:
    """Return ids that are all different, so that each window shows where it was cut."""
    order = exam.draws.generator(f"batch {purpose}").permutation(length)
    return torch.from_numpy(order).to(torch.int64) * 3 + 1


def _ask(data: Tensor, block: int, batch: int, generator: int, seed: int = 0) -> Ask:
    return Ask(
        args=[{"tensor": "data"}, block, batch],
        kwargs={"generator": {"generator": generator}},
        tensors={"data": data},
        more={"seed": seed},
    )


def _batch(got: Got, block: int, batch: int) -> tuple[Tensor, Tensor]:
    """Return x and y, each (B, T) int64. Raises Stopped when they are something else."""
    pair = got.pair()
    wanted = (batch, block)
    for name, value in zip("xy", pair, strict=True):
        if not isinstance(value, Tensor):
            raise Stopped(failed(f"{name} is {kind_of(value)}, not a tensor.", "Return two tensors (B, T)."))
        if tuple(value.shape) != wanted:
            mine = shape_text(value.shape)
            hint = "The axes are exchanged." if tuple(value.shape) == wanted[::-1] and batch != block else ""
            raise Stopped(
                failed(
                    f"{name} has shape {mine}; expected (B, T) = {shape_text(wanted)}. {hint}".rstrip(),
                    "One row for each window: torch.stack.",
                )
            )
        if value.dtype != torch.int64:
            raise Stopped(failed(f"{name} is of {value.dtype}, not int64.", "Ids stay integers."))
    return pair


def _starts(data: Tensor, x: Tensor) -> Tensor | None:
    """Return the start of each row in `data` (B), or None when a row is no window of it."""
    place = torch.full((int(data.max()) + 1,), -1, dtype=torch.int64)
    place[data] = torch.arange(len(data))
    if bool(((x < 0) | (x >= len(place))).any()):
        return None
    places = place[x]  # (B, T)
    expected = places[:, :1] + torch.arange(x.shape[1])
    return places[:, 0] if torch.equal(places, expected) and bool((places >= 0).all()) else None


def _shift_fault(data: Tensor, starts: Tensor, x: Tensor, y: Tensor) -> str:
    """Say what is wrong with y, or nothing."""
    offsets = starts[:, None] + torch.arange(x.shape[1])
    if int(offsets.max()) + 1 < len(data) and torch.equal(y, data[offsets + 1]):
        return ""
    if torch.equal(y, x):
        return "y is x itself: a model that copies its input would be right."
    for shift, words in ((2, "two tokens later"), (-1, "one token earlier"), (x.shape[1], "the window after x")):
        moved = (offsets + shift).clamp(0, len(data) - 1)
        if torch.equal(y, data[moved]):
            return f"y is {words}, not one token later."
    if x.shape[1] > 1 and torch.equal(y, torch.cat([x[:, 1:], x[:, :1]], dim=1)):
        return "The last answer of each row is its first token: roll() goes round, the text does not."
    if x.shape[1] > 1 and torch.equal(y[:, :-1], x[:, 1:]):
        return "The last answer of each row is not the token that follows in the text."
    if _starts(data, y) is not None:
        return "y is a window of its own: it must begin one token after x, in the same row."
    return "y is not x one token later."
