"""Checks of train_step and estimate_loss: the gradient of the large batch, clipped as a whole; modes after."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from autograder.checks.calls import Ask, Got, ask, close, near
from autograder.checks.evidence import numbers
from autograder.checks.exam import Exam
from autograder.checks.practice_cases import Case, draw_case
from autograder.checks.registry import Outcome, check, failed, passed
from autograder.checks.replies import sensible
from autograder.track import Part
from autograder.verdict import Evidence, Verdict

STEP, ESTIMATE = "train_step", "estimate_loss"
#: A rate at which a step moves weights by about their size: every difference of gradients then shows.
RATE = 0.7
#: Float32 weights around 3 are exact to 4e-7; the smallest wrong step differs by 1e-3.
MOVED = 2e-5
NEVER = 1e6  # a norm that no gradient here reaches

Gradients = list[dict[str, Tensor]]


@check("training.step_gradient")
def the_step_is_that_of_the_large_batch(exam: Exam, part: Part) -> Outcome:
    """A step on several batches is the step on all of them as one batch."""
    cases = [draw_case(exam.draws, f"step {count}", batches=count) for count in (1, 4, 3)]
    asks = [_step(case, NEVER) for case in cases]
    mistakes: list[tuple[Callable[[Gradients], dict[str, Tensor]], str]] = [
        (lambda g: _sum(g), "The gradients of the batches are added up: divide each loss by the number of batches."),
        (lambda g: g[-1], "Only the last batch counts: gradients are cleared between the batches."),
        (lambda g: g[0], "Only the first batch counts."),
        (
            lambda g: _scaled(g[-1], 1 / len(g)),
            "Only the last batch counts, and as one of several: gradients are cleared between the batches.",
        ),
        (lambda g: _scaled(_sum(g), 1 / len(g) ** 2), "The loss is divided by the number of batches twice."),
        (
            lambda g: _scaled(_mean(g), 1 / _norm(_mean(g))),
            "The gradient is scaled to norm 1 though max_norm is far larger: clip only what is above it.",
        ),
        (
            lambda g: _scaled(_mean(g), NEVER / _norm(_mean(g))),
            "A gradient below max_norm is scaled up to it: clip only what is above.",
        ),
        (lambda g: _scaled(_mean(g), 0.0), "The weights do not move: is there an optimizer.step()?"),
        (lambda g: _scaled(_mean(g), 2.0), "The step is taken twice."),
        (lambda g: _scaled(_mean(g), -1.0), "The step goes uphill."),
        (lambda g: _clipped(_mean(g), 1.0), "The gradient is clipped at 1, whatever max_norm says."),
    ]
    got = [each.ran() for each in ask(exam, part, STEP, asks)]
    if all(
        near(each.under("weight."), _moved(case, _mean(case.gradients())), MOVED) for case, each in _zipped(cases, got)
    ):
        return passed()
    gradients = [case.gradients() for case in cases]
    for mistake, sentence in mistakes:
        if all(
            near(each.under("weight."), _moved(case, mistake(found)), MOVED)
            for (case, each), found in zip(_zipped(cases, got), gradients, strict=True)
        ):
            return failed(
                sentence, "The mean loss over all batches has the mean of their gradients.", [_moves(cases, got)]
            )
    if near(got[0].under("weight."), _moved(cases[0], gradients[0][0]), MOVED):
        return failed(
            "With one batch the step is right, with several it is not that of the large batch.",
            "Backward each loss / number of batches; step once, after the last of them.",
            [_moves(cases, got)],
        )
    share = _share(cases[0], got[0], gradients[0][0])
    if share is not None:
        return failed(
            f"With one batch the weights move by {share:.4g} times lr * gradient.",
            "Set group['lr'] = lr, backward the loss / number of batches, and step once: nothing else scales a step.",
            [_moves(cases, got)],
        )
    return failed(
        "With one batch, the weights after the step are not weights - lr * gradient.",
        "loss.backward(), then one optimizer.step(), and nothing that changes weights or gradients besides.",
        [_moves(cases, got)],
    )


@check("training.step_clips", needs=["step_gradient"])
def the_gradient_is_clipped_as_a_whole(exam: Exam, part: Part) -> Outcome:
    """A gradient above max_norm is scaled down to it, as one vector over all parameters and batches."""
    steep = replace(draw_case(exam.draws, "clip default", batches=2), gain=8.0)
    cases = [draw_case(exam.draws, f"clip {count}", batches=count) for count in (1, 3)]
    limits = [0.4 * _norm(_mean(case.gradients())) for case in cases]
    bounds = [*limits, 1.0]
    cases.append(steep)
    got = ask(
        exam,
        part,
        STEP,
        [*(_step(case, limit) for case, limit in zip(cases, limits, strict=False)), _step(steep, None)],
    )
    mistakes: list[tuple[Callable[[Gradients, float], dict[str, Tensor]], str]] = [
        (lambda g, m: _mean(g), "Nothing is clipped: the gradient's norm stays above max_norm."),
        (
            lambda g, m: {n: _clipped({n: t}, m)[n] for n, t in _mean(g).items()},
            "Each parameter is clipped by itself: that turns the direction of the step. One norm, over all of them.",
        ),
        (
            lambda g, m: {n: t.clamp(-m, m) for n, t in _mean(g).items()},
            "Single numbers are clipped to max_norm (clip_grad_value_): one norm, over all of them.",
        ),
        (
            lambda g, m: _mean([_clipped(each, m) for each in g]),
            "Each batch is clipped by itself: clip once, after the last.",
        ),
        (lambda g, m: _clipped_along(g, m), "The gradient is clipped after each batch: clip once, after the last."),
        (lambda g, m: _clipped(_mean(g), 1.0), "It is clipped at 1, whatever max_norm says."),
        (
            lambda g, m: _scaled(_mean(g), m),
            "The gradient is multiplied by max_norm: scale it so that its norm is max_norm.",
        ),
        (lambda g, m: _scaled(_mean(g), 1 / _norm(_mean(g))), "The gradient is scaled to norm 1, not to max_norm."),
        (
            lambda g, m: _infinite(_mean(g), m),
            "It is clipped by its largest number: the norm is the root of the sum of squares.",
        ),
    ]
    gradients = [case.gradients() for case in cases]
    rows = list(zip(cases, got, gradients, bounds, strict=True))
    if all(near(each.under("weight."), _moved(case, _clipped(_mean(g), m)), MOVED) for case, each, g, m in rows):
        return passed()
    exhibit = numbers(
        "The first case",
        norm=_norm(_mean(gradients[0])),
        max_norm=bounds[0],
        norm_of_your_step=_step_norm(*rows[0][:2]),
    )
    for mistake, sentence in mistakes:
        if all(near(each.under("weight."), _moved(case, mistake(g, m)), MOVED) for case, each, g, m in rows):
            return failed(
                sentence, "torch.nn.utils.clip_grad_norm_, between the last backward and the step.", [exhibit]
            )
    if all(near(each.under("weight."), _moved(case, _clipped(_mean(g), m)), MOVED) for case, each, g, m in rows[:2]):
        return failed("Without max_norm nothing is clipped at 1.0, the default.", "max_norm: float = 1.0.", [exhibit])
    return failed(
        "The step is not along the gradient scaled down to max_norm.",
        "Clip between the last backward and the step, once.",
        [exhibit],
    )


@check("training.step_conduct")
def a_step_forgets_and_sets_what_it_should(exam: Exam, part: Part) -> Outcome:
    """A step forgets old gradients, works in train mode, and sets every group's learning rate."""
    case = replace(draw_case(exam.draws, "conduct", batches=2), training=False)
    stale = tuple(
        (name, 3.0 * exam.draws.normal(f"stale {name}", tuple(value.shape))) for name, value in case.weights.items()
    )
    fresh, dirty = ask(exam, part, STEP, [_step(case, NEVER, first=9.0), _step(replace(case, stale=stale), NEVER)])
    for each in (fresh, dirty):
        each.ran()
    if not all(mode[0] and mode[1] for mode in fresh.modes()):
        return failed(
            "A model that came in eval mode is trained in eval mode.", "model.train() first: dropout is off otherwise."
        )
    with sensible():
        rates = [[float(rate) for rate in step] for step in fresh.data["rates"]]
    wrong = [step for step in rates if not all(close(rate, RATE, 1e-6) for rate in step)]
    if wrong:
        if close(wrong[0][0], RATE, 1e-6):
            return failed(
                "Only the first parameter group gets the learning rate.", "Go through all of optimizer.param_groups."
            )
        return failed(
            f"The step is taken with the learning rates {wrong[0]}, not with lr = {RATE}.",
            "Set group['lr'] of every group before the step.",
        )
    if not near(dirty.under("weight."), fresh.under("weight."), MOVED):
        return failed(
            "Gradients that were there before the call count in the step.",
            "optimizer.zero_grad() first: whoever called backward() before leaves gradients behind.",
        )
    if not fresh.data.get("grad_mode"):
        return failed("After the step gradients are switched off.", "Switch nothing off for good.")
    return passed()


@check("training.step_loss")
def the_step_returns_the_mean_loss(exam: Exam, part: Part) -> Outcome:
    """train_step returns the mean loss of its batches, from before the step, as a float."""
    several = 3 if exam.verdicts.get("training.step_gradient") is Verdict.PASSED else 1  # steps between change the loss
    cases = [draw_case(exam.draws, f"step loss {count}", batches=count) for count in (1, several)]
    got = ask(exam, part, STEP, [_step(case, NEVER) for case in cases])
    mine = [each.number() for each in got]
    losses = [case.losses(True) for case in cases]
    after = [replace(case, weights=each.under("weight.")).losses(True) for case, each in _zipped(cases, got)]
    return _mean_loss(
        STEP, mine, losses, [(after, "It is the loss after the step; the one before it belongs to the step.")]
    )


@check("training.estimate_value")
def the_estimate_is_the_mean_loss(exam: Exam, part: Part) -> Outcome:
    """estimate_loss returns the mean loss over the batches as a float."""
    cases = [draw_case(exam.draws, f"estimate {count}", batches=count) for count in (1, 4, 5)]
    got = ask(exam, part, ESTIMATE, [_estimate(case) for case in cases])
    return _mean_loss(ESTIMATE, [each.number() for each in got], [case.losses(False) for case in cases], [])


@check("training.estimate_conduct")
def an_estimate_leaves_the_model_as_it_was(exam: Exam, part: Part) -> Outcome:
    """estimate_loss works in eval mode without gradients, and leaves mode, gradients and weights as they were."""
    case = draw_case(exam.draws, "estimate conduct", batches=3)
    stale = tuple((name, exam.draws.normal(f"kept {name}", tuple(value.shape))) for name, value in case.weights.items())
    training, evaluating = ask(
        exam, part, ESTIMATE, [_estimate(replace(case, stale=stale)), _estimate(replace(case, training=False))]
    )
    for each in (training, evaluating):
        each.ran()
    modes = training.modes()
    if any(mode[0] or mode[1] for mode in modes):
        when = "The model is estimated in train mode"
        if not modes[0][0]:
            when = "After the first batch the model is in train mode again"
        if any(mode[1] and not mode[0] for mode in modes):
            when = "Only the model's own flag is set, and its sub-modules stay in train mode"
        return failed(
            f"{when}: dropout would disturb the estimate.", "model.eval() before the first batch, back after the last."
        )
    if any(mode[2] for mode in modes):
        return failed(
            "Gradients are on while the loss is estimated: each batch keeps its whole graph in memory.",
            "with torch.no_grad(): around the loop.",
        )
    if training.mode_after() != (True, True):
        return failed(
            "A model that was in train mode is left in eval mode: it would train without dropout.",
            "model.train() at the end.",
        )
    if evaluating.mode_after() != (False, False):
        return failed(
            "A model that was in eval mode is left in train mode.",
            "Remember model.training before model.eval(), and go back to that.",
        )
    left = training.under("grad.")
    if any(name not in left or not torch.equal(left[name], value) for name, value in stale):
        return failed(
            "Gradients that were there before are changed or gone.", "An estimate touches no gradient: no zero_grad()."
        )
    if evaluating.under("grad."):
        return failed("The estimate leaves gradients behind.", "No backward() in an estimate.")
    if not near(training.under("weight."), case.weights, 1e-7):
        return failed("The estimate changes the weights.", "No step in an estimate.")
    if not (training.data.get("grad_mode") and evaluating.data.get("grad_mode")):
        return failed(
            "After the estimate gradients stay switched off: no later step could learn.",
            "with torch.no_grad(): ends by itself.",
        )
    return passed()


def _step(case: Case, limit: float | None, first: float = RATE) -> Ask:
    """Return a call of train_step; `first` is the rate that the optimizer has before."""
    args: list[object] = [{"model": True}, {"optimizer": True}, {"batches": len(case.batches)}, RATE]
    return case.ask(args if limit is None else [*args, limit], optimizer=first)


def _estimate(case: Case) -> Ask:
    return case.ask([{"model": True}, {"batches": len(case.batches)}])


def _mean_loss(
    name: str,
    mine: Sequence[float],
    losses: Sequence[Sequence[float]],
    more: Sequence[tuple[Sequence[Sequence[float]], str]],
) -> Outcome:
    """Compare numbers with the mean of each case's losses; name the mistake that gives them."""

    def mean(values: Sequence[float]) -> float:
        return sum(values) / len(values)

    known: list[tuple[list[float], str]] = [
        ([sum(each) for each in losses], "It is the sum over the batches: divide by their number."),
        ([each[-1] for each in losses], "It is the loss of the last batch alone."),
        ([statistics.median(each) for each in losses], "It is the median of the batches."),
        ([statistics.median_low(each) for each in losses], "It is the median of the batches."),
        ([max(each) for each in losses], "It is the largest of the batches' losses."),
        ([each[0] for each in losses], "It is the loss of the first batch alone."),
        ([mean(each) / len(each) for each in losses], "It is divided by the number of batches twice."),
        *(([mean(each) for each in found], sentence) for found, sentence in more),
    ]
    right = [mean(each) for each in losses]
    if all(close(a, b, 1e-4) for a, b in zip(mine, right, strict=True)):
        return passed()
    exhibit = numbers("The second case", expected=right[1], yours=mine[1], batches=len(losses[1]))
    for wrong, sentence in known:
        if all(close(a, b, 1e-4) for a, b in zip(mine, wrong, strict=True)):
            return failed(
                f"{name} returns {mine[1]:.5g}, not {right[1]:.5g}. {sentence}", "The mean over the batches.", [exhibit]
            )
    return failed(
        f"{name} returns {mine[1]:.5g}; the mean loss is {right[1]:.5g}.", "The mean over the batches.", [exhibit]
    )


def _zipped(cases: Sequence[Case], got: Sequence[Got]) -> list[tuple[Case, Got]]:
    return list(zip(cases, got, strict=True))


def _moved(case: Case, gradient: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: value.double() - RATE * gradient[name] for name, value in case.weights.items()}


def _sum(gradients: Gradients) -> dict[str, Tensor]:
    return {name: torch.stack([each[name] for each in gradients]).sum(dim=0) for name in gradients[0]}


def _mean(gradients: Gradients) -> dict[str, Tensor]:
    return _scaled(_sum(gradients), 1 / len(gradients))


def _scaled(gradient: Mapping[str, Tensor], factor: float) -> dict[str, Tensor]:
    return {name: value * factor for name, value in gradient.items()}


def _norm(gradient: Mapping[str, Tensor]) -> float:
    return math.sqrt(sum(float(value.square().sum()) for value in gradient.values()))


def _clipped(gradient: Mapping[str, Tensor], limit: float) -> dict[str, Tensor]:
    return _scaled(gradient, min(1.0, limit / _norm(gradient)))


def _infinite(gradient: Mapping[str, Tensor], limit: float) -> dict[str, Tensor]:
    return _scaled(gradient, min(1.0, limit / max(float(value.abs().max()) for value in gradient.values())))


def _clipped_along(gradients: Gradients, limit: float) -> dict[str, Tensor]:
    """Clip what has gathered after each batch."""
    gathered = _scaled(gradients[0], 0.0)
    for each in gradients:
        gathered = _clipped({name: gathered[name] + each[name] / len(gradients) for name in each}, limit)
    return gathered


def _step_norm(case: Case, got: Got) -> float:
    after = got.under("weight.")
    return _norm({name: (value.double() - after[name].double()) / RATE for name, value in case.weights.items()})


def _share(case: Case, got: Got, gradient: Mapping[str, Tensor]) -> float | None:
    """Return the one number by which the weights moved in units of lr * gradient, or None where there is no such."""
    after = got.under("weight.")
    moved = {name: (value.double() - after[name].double()) / RATE for name, value in case.weights.items()}
    along = sum(float((moved[name] * value).sum()) for name, value in gradient.items()) / _norm(gradient) ** 2
    return along if near(after, _moved(case, _scaled(gradient, along)), MOVED) else None


def _moves(cases: Sequence[Case], got: Sequence[Got]) -> Evidence:
    rows = {}
    for case, each in _zipped(cases, got):
        expected = _norm(_mean(case.gradients()))
        rows[f"{len(case.batches)}_batches"] = f"moved {_step_norm(case, each):.4g}, expected {expected:.4g}"
    return numbers("How far the weights move, over lr", **rows)
