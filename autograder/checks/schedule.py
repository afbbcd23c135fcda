"""Checks of learning_rate: a line up, half a cosine down, a floor; and the schedules that are taken for it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from autograder.checks.calls import Ask, ask, close
from autograder.checks.evidence import table
from autograder.checks.exam import Exam
from autograder.checks.registry import Outcome, check, failed, passed
from autograder.track import Part
from autograder.verdict import Evidence

NAME = "learning_rate"
#: Rates are one formula in double precision: other ways to write it differ in the last digits.
SAME = 1e-9


@dataclass(frozen=True)
class Plan:
    """The arguments of a schedule but for the step."""

    top: float
    floor: float
    warm: int
    end: int

    @property
    def args(self) -> list[float]:
        return [self.top, self.floor, self.warm, self.end]

    def rate(self, step: int) -> float:
        """Return the contract's rate of a step."""
        if step < self.warm:
            return self.top * (step + 1) / (self.warm + 1)
        return self.floor if step > self.end else self.between(0.5 + 0.5 * math.cos(math.pi * self.share(step)))

    def share(self, step: int) -> float:
        return (step - self.warm) / (self.end - self.warm)

    def between(self, height: float) -> float:
        return self.floor + height * (self.top - self.floor)


Variant = tuple[Callable[[Plan, int], float], str]

WARMUP: tuple[Variant, ...] = (
    (lambda p, s: p.top * s / p.warm, "The first step has rate 0 and teaches nothing: steps are counted from 0."),
    (lambda p, s: p.top * (s + 1) / p.warm, "The line reaches max_lr one step too early: divide by warmup_iters + 1."),
    (lambda p, s: p.top * s / (p.warm + 1), "The first step has rate 0: the line begins at 1, not 0."),
    (lambda p, s: p.top, "There is no warmup: the rate is max_lr from the first step."),
    (lambda p, s: p.floor + (p.top - p.floor) * (s + 1) / (p.warm + 1), "The line starts from min_lr; it starts at 0."),
    (lambda p, s: p.floor + (p.top - p.floor) * s / p.warm, "The line starts from min_lr; it starts near 0."),
    (lambda p, s: p.floor, "During the warmup the rate stays at min_lr: it climbs to max_lr."),
    (lambda p, s: p.floor * (s + 1) / (p.warm + 1), "The line climbs to min_lr; it climbs to max_lr."),
)
COSINE: tuple[Variant, ...] = (
    (lambda p, s: p.between(1 - p.share(s)), "It goes down in a line, not along a cosine."),
    (
        lambda p, s: p.between(0.5 + 0.5 * math.cos(math.pi * s / p.end)),
        "The cosine begins at step 0, not at warmup_iters.",
    ),
    (
        lambda p, s: p.between(0.5 + 0.5 * math.cos(math.pi * (s - p.warm) / p.end)),
        "The cosine is as long as decay_iters; it has only decay_iters - warmup_iters steps.",
    ),
    (lambda p, s: p.top * (0.5 + 0.5 * math.cos(math.pi * p.share(s))), "It goes down to 0, not to min_lr."),
    (
        lambda p, s: p.between(math.cos(math.pi / 2 * p.share(s))),
        "This is a quarter of a cosine: it bends the wrong way at the end; half of one is wanted.",
    ),
    (
        lambda p, s: p.between(0.5 + 0.5 * math.cos(2 * math.pi * p.share(s))),
        "This is a whole cosine: it comes up again. Half of one is wanted.",
    ),
    (
        lambda p, s: p.between(0.5 - 0.5 * math.cos(math.pi * p.share(s))),
        "The cosine goes up: it is 1 + cos, not 1 - cos; or max_lr and min_lr are exchanged.",
    ),
    (
        lambda p, s: p.between(0.5 + 0.5 * math.cos(math.pi / 2 * p.share(s))),
        "The cosine stops half-way down: its argument ends at pi/2, and should end at pi.",
    ),
    (
        lambda p, s: p.between(math.cos(math.pi * p.share(s))),
        "The cosine goes from 1 to -1: bring it to 1 and 0 first.",
    ),
    (
        lambda p, s: p.floor + p.top * (0.5 + 0.5 * math.cos(math.pi * p.share(s))),
        "It starts above max_lr: the height of the cosine is max_lr - min_lr.",
    ),
    (lambda p, s: p.between(0.5 + 0.5 * math.cos(p.share(s))), "The cosine lacks pi: its argument goes from 0 to pi."),
    (lambda p, s: p.between(0.5 + 0.5 * math.cos(math.radians(p.share(s)))), "math.cos takes radians, not degrees."),
    (lambda p, s: p.top, "It does not go down: the rate stays at max_lr."),
    (lambda p, s: p.between(math.exp(-3 * p.share(s))), "It goes down exponentially, not along a cosine."),
)
AFTER: tuple[Variant, ...] = (
    (
        lambda p, s: p.between(0.5 + 0.5 * math.cos(math.pi * p.share(s))),
        "After decay_iters the cosine goes on and the rate rises again: it stays at min_lr.",
    ),
    (lambda p, s: 0.0, "After decay_iters the rate is 0: nothing would be learnt any more. It stays at min_lr."),
    (lambda p, s: p.top, "After decay_iters the rate is max_lr again: it stays at min_lr."),
)


@check("training.rate_warmup")
def the_rate_climbs_in_a_line(exam: Exam, part: Part) -> Outcome:
    """Before warmup_iters the rate climbs in a line that begins above 0."""
    plans = _plans(exam)
    steps = [
        (plan, step)
        for plan in plans
        for step in sorted({0, 1, plan.warm // 2, plan.warm - 1})
        if 0 <= step < plan.warm
    ]
    return _compared(exam, part, steps, WARMUP, "max_lr * (it + 1) / (warmup_iters + 1), for it < warmup_iters.")


@check("training.rate_cosine")
def the_rate_falls_along_a_cosine(exam: Exam, part: Part) -> Outcome:
    """From warmup_iters to decay_iters the rate falls from max_lr to min_lr along half a cosine."""
    steps = []
    for plan in [*_plans(exam), Plan(6e-4, 6e-5, 0, 50)]:
        width = plan.end - plan.warm
        places = {plan.warm, plan.warm + 1, plan.warm + width // 3, plan.warm + width // 2, plan.end - 1, plan.end}
        steps += [(plan, step) for step in sorted(places)]
    return _compared(exam, part, steps, COSINE, "At warmup_iters it is max_lr, at decay_iters min_lr, both included.")


@check("training.rate_after")
def the_rate_stays_at_its_floor(exam: Exam, part: Part) -> Outcome:
    """After decay_iters the rate is min_lr."""
    steps = [
        (plan, step)
        for plan in _plans(exam)
        for step in (plan.end + 1, plan.end + (plan.end - plan.warm) // 2, 3 * plan.end)
    ]
    return _compared(exam, part, steps, AFTER, "min_lr, for it > decay_iters.")


def _plans(exam: Exam) -> list[Plan]:
    rng = exam.draws.generator("schedule")
    plans = []
    for _ in range(3):
        warm, top = int(rng.integers(5, 60)), float(rng.uniform(1e-4, 1e-2))
        plans.append(Plan(top, top * float(rng.uniform(0.05, 0.3)), warm, warm + int(rng.integers(80, 400))))
    return [*plans, Plan(1e-3, 1e-4, 1, 20)]


def _compared(
    exam: Exam, part: Part, steps: Sequence[tuple[Plan, int]], variants: Sequence[Variant], contract: str
) -> Outcome:
    """Compare rates with the contract's; where all agree with a known mistake, say which."""
    asks = [Ask(args=[step, *plan.args]) for plan, step in steps]
    rates = [got.number() for got in ask(exam, part, NAME, asks)]
    expected = [plan.rate(step) for plan, step in steps]
    if all(close(mine, right, SAME) for mine, right in zip(rates, expected, strict=True)):
        return passed()
    for formula, sentence in variants:
        if all(_close(mine, formula, plan, step) for mine, (plan, step) in zip(rates, steps, strict=True)):
            return failed(sentence, contract, [_rows(steps, rates, expected)])
    wrong = [n for n, (mine, right) in enumerate(zip(rates, expected, strict=True)) if not close(mine, right, SAME)]
    plan, step = steps[wrong[0]]
    where = "at decay_iters itself" if all(steps[n][1] == steps[n][0].end for n in wrong) else ""
    where = where or (
        "at warmup_iters itself" if all(steps[n][1] == steps[n][0].warm for n in wrong) else f"at it = {step}"
    )
    return failed(
        f"{where[0].upper()}{where[1:]} the rate is {rates[wrong[0]]:.6g}, not {expected[wrong[0]]:.6g} "
        f"(warmup_iters = {plan.warm}, decay_iters = {plan.end}, max_lr = {plan.top:.4g}, min_lr = {plan.floor:.4g}).",
        contract,
        [_rows(steps, rates, expected)],
    )


def _close(rate: float, formula: Callable[[Plan, int], float], plan: Plan, step: int) -> bool:
    predicted = formula(plan, step)
    return abs(rate - predicted) <= SAME * plan.top


def _rows(steps: Sequence[tuple[Plan, int]], rates: Sequence[float], expected: Sequence[float]) -> Evidence:
    rows = [
        [step, plan.warm, plan.end, f"{right:.6g}", f"{mine:.6g}"]
        for (plan, step), mine, right in zip(steps, rates, expected, strict=True)
    ]
    return table("Rates", ["it", "warmup_iters", "decay_iters", "expected", "yours"], rows[:12])
