"""Checks of configure_optimizer: judged by the steps that it takes, under gradients that we chose."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from autograder.checks.calls import Ask, Got, ask, kind_of
from autograder.checks.evidence import table
from autograder.checks.exam import Exam
from autograder.checks.faults import fault_outcome
from autograder.checks.registry import Outcome, Stopped, check, failed, passed
from autograder.checks.replies import read_fault, sensible
from autograder.track import Part

NAME = "configure_optimizer"
#: Names that do not tell what a tensor is: only its dimensions do. The table is tied to the head; two are frozen.
SHAPES = {
    "wte.weight": (7, 5),
    "blocks.0.fc.weight": (4, 5),
    "blocks.0.fc.bias": (4,),
    "blocks.0.norm.weight": (5,),
    "bias_table": (3, 6),
    "kernel": (2, 3, 4),
    "gain": (6,),
    "frozen.weight": (4, 4),
    "frozen.bias": (4,),
}
TIED = {"lm_head.weight": "wte.weight"}
FROZEN = ("frozen.weight", "frozen.bias")
TRAINED = tuple(name for name in SHAPES if name not in FROZEN)
#: Optimizers whose steps are others from the first on: what AdamW's first step tells cannot be read off theirs.
OTHERS = ("SGD", "RMSprop", "Adagrad", "Adadelta", "Adamax", "NAdam", "RAdam", "Rprop", "ASGD")
#: AdamW's first step moves each weight by the learning rate, whatever the gradient; float32 keeps six digits of it.
NEAR = 2e-3


@check("training.optimizer_covers")
def every_trainable_parameter_is_covered_once(exam: Exam, part: Part) -> Outcome:
    """The optimizer covers each parameter that requires a gradient once, and no other."""
    got, weights, _ = _steps(exam, part, "covers", steps=1, decay=0.0)
    names = [name for group in _groups(got) for name in group["names"]]
    stuck = [name for name in TRAINED if torch.equal(got.under("weight.")[name], weights[name])]
    if stuck:
        why = ""
        if all(len(SHAPES[name]) > 2 for name in stuck):
            why = " They have more than two dimensions: >= 2, not == 2."
        elif all(len(SHAPES[name]) < 2 for name in stuck):
            why = " Biases and gains are trained too; they only do not decay."
        elif stuck == ["wte.weight"]:
            why = " It is tied: it has two names and is one parameter, which is to be kept once."
        return failed(
            f"A step does not move {_listed(stuck)}: the optimizer lacks them.{why}", "Every parameter is in a group."
        )
    frozen = [name for name in names if name in FROZEN]
    if frozen:
        return failed(
            f"The optimizer holds {_listed(frozen)}, which require no gradient.",
            "Leave out what has requires_grad False.",
        )
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        return failed(
            f"{_listed(twice)} is there twice: it would take two steps at once.",
            "model.parameters() gives a tied one once.",
        )
    return passed()


@check("training.optimizer_decay")
def matrices_decay_and_vectors_do_not(exam: Exam, part: Part) -> Outcome:
    """What has two dimensions or more decays by weight_decay; what has fewer does not."""
    decay, rate = 0.3, 0.05
    got, weights, grads = _steps(exam, part, "decay", steps=1, decay=decay, rate=rate)
    found = _decays(weights, grads[0], got.under("weight."))
    wanted = {name: decay if len(SHAPES[name]) >= 2 else 0.0 for name in TRAINED}
    moved = _moved(got, weights)
    wrong = [
        name for name in moved if not abs(found[name] - wanted[name]) <= 0.02
    ]  # what is not covered costs elsewhere
    if not wrong:
        return passed()
    rows = [[name, str(SHAPES[name]), f"{wanted[name]:g}", f"{found[name]:.3f}"] for name in TRAINED]
    exhibit = table("Decay of each parameter", ["parameter", "shape", "expected", "yours"], rows)
    return failed(_decay_fault(got, found, moved, decay), "Two groups: by the number of dimensions.", [exhibit])


@check("training.optimizer_settings")
def the_settings_arrive(exam: Exam, part: Part) -> Outcome:
    """The optimizer steps with the given learning rate and betas, and follows param_groups."""
    for betas in (None, (0.7, 0.9)):
        chosen = betas or (0.9, 0.95)
        kwargs = {} if betas is None else {"betas": {"pair": list(betas)}}
        got, weights, grads = _steps(exam, part, f"settings {betas}", steps=3, rate=0.02, kwargs=kwargs, last=0.007)
        # Vectors, since what decays in spite of weight_decay = 0 costs its points elsewhere.
        moved = _moved(got, weights)
        judged = [name for name in moved if len(SHAPES[name]) == 1] or moved
        after = {name: got.under("weight.")[name] for name in judged}
        if _follows(after, weights, grads, [0.02, 0.02, 0.007], chosen):
            continue
        if _follows(after, weights, grads, [0.02] * 3, chosen):
            return failed(
                "The optimizer does not follow the learning rate in its param_groups.",
                "Return the torch optimizer itself: a schedule sets group['lr'].",
            )
        if _follows(after, weights, grads, [1e-3, 1e-3, 0.007], chosen):
            return failed("The learning rate does not arrive: steps are taken with AdamW's own, 0.001.", "lr=lr.")
        for other, words in (
            ((0.9, 0.999), "AdamW's defaults"),
            ((0.9, 0.95), "the defaults"),
            (chosen[::-1], "swapped"),
        ):
            if other != chosen and _follows(after, weights, grads, [0.02, 0.02, 0.007], other):
                return failed(
                    f"The betas are {other}, {words}, not {chosen}.",
                    "Hand betas=betas to AdamW: its own default is (0.9, 0.999).",
                )
        with sensible():
            kind = str(got.data["optimizer"].get("type"))
        if kind in OTHERS:
            return failed(
                f"This is torch.optim.{kind}; the contract asks for AdamW.", "torch.optim.AdamW(groups, ...)."
            )
        size = max((float((after[name] - weights[name]).abs().mean()) for name in judged), default=0.0)
        return failed(
            f"Three steps of rate 0.02, 0.02 and 0.007 with betas = {chosen} do not give AdamW's numbers (a weight "
            f"moves by {size:.3g} on average).",
            "AdamW(groups, lr=lr, betas=betas), and nothing else is changed.",
        )
    return passed()


def _steps(
    exam: Exam,
    part: Part,
    purpose: str,
    *,
    steps: int,
    decay: float = 0.0,
    rate: float = 0.05,
    kwargs: Mapping[str, Any] | None = None,
    last: float | None = None,
) -> tuple[Got, dict[str, Tensor], list[dict[str, Tensor]]]:
    """Have the optimizer made and take steps; return what came of it, the weights before, and the gradients."""
    draws = exam.draws
    weights = {name: _away(draws.normal(f"optimizer {purpose} {name}", shape)) for name, shape in SHAPES.items()}
    grads = [
        {name: _away(draws.normal(f"gradient {purpose} {step} {name}", SHAPES[name])) * (1 + step) for name in TRAINED}
        for step in range(steps)
    ]
    tensors = {f"model.{name}": value for name, value in weights.items()}
    tensors |= {f"g{step}.{name}": value for step, each in enumerate(grads) for name, value in each.items()}
    after: dict[str, Any] = {"steps": steps} | ({} if last is None else {"lr": last})
    more = {"model": {"kind": "parameters", "tied": TIED, "frozen": list(FROZEN)}, "after": after}
    (got,) = ask(
        exam,
        part,
        NAME,
        [Ask(args=[{"model": True}, rate, decay], kwargs=kwargs or {}, tensors=tensors, more=more)],
    )
    if got.fault is not None and "more than one parameter group" in got.said:
        raise Stopped(
            failed(
                "A parameter is put into two groups, which torch refuses.",
                "lm_head.weight and wte.weight are one parameter: go through model.parameters(), which gives it once.",
                got.fault.evidence,
            )
        )
    value = got.value()
    with sensible():
        told = dict(got.data["optimizer"])
    fault = read_fault(told)
    if fault is not None:
        if fault.type == "AttributeError":
            raise Stopped(
                failed(f"{NAME} returns {kind_of(value)}, which is no optimizer.", "Return the torch optimizer.")
            )
        raise Stopped(fault_outcome(fault))
    return got, weights, grads


def _moved(got: Got, weights: Mapping[str, Tensor]) -> list[str]:
    """Return the parameters that moved and are there once: the others cost their points in `covers`."""
    held = [name for group in _groups(got) for name in group["names"]]
    after = got.under("weight.")
    return [name for name in TRAINED if not torch.equal(after[name], weights[name]) and held.count(name) < 2]


def _groups(got: Got) -> list[dict[str, Any]]:
    with sensible():
        groups = [dict(group) for group in got.data["optimizer"]["groups"]]
        return [{**group, "names": [str(name) for name in group["names"]]} for group in groups]
    raise AssertionError("unreachable")


def _away(values: Tensor) -> Tensor:
    """Keep numbers away from 0, where the size of a step or of a decay could not be read off."""
    return values + 0.5 * values.sign() + 0.5 * (values == 0)


def _decays(before: Mapping[str, Tensor], grad: Mapping[str, Tensor], after: Mapping[str, Tensor]) -> dict[str, float]:
    """Return by how much each parameter decayed in its first step, whatever the rate of that step.

    w' = w - lr * (sign(gradient) + decay * w): along the gradient's sign, how far w moved is a line over w.
    """
    found = {}
    for name, gradient in grad.items():
        sign = gradient.double().sign()
        along, moved = before[name].double() * sign, (before[name].double() - after[name].double()) * sign
        spread = (along - along.mean()).square().sum()
        slope = ((along - along.mean()) * (moved - moved.mean())).sum() / spread
        found[name] = float(slope / (moved.mean() - slope * along.mean()))
    return found


def _decay_fault(got: Got, found: Mapping[str, float], moved: Sequence[str], decay: float) -> str:
    """Name the mistake behind the decays that were found."""
    with sensible():
        kind = str(got.data["optimizer"].get("type"))
    decaying = {name for name in moved if found[name] > 0.1 * decay}
    matrices = {name for name in moved if len(SHAPES[name]) >= 2}
    if kind in OTHERS:
        return f"This is torch.optim.{kind}; the contract asks for AdamW."
    if kind == "Adam":
        return "Adam mixes the decay into the gradient, where its size is lost: AdamW decays the weights themselves."
    if not decaying:
        return "Nothing decays: weight_decay does not arrive."
    if decaying == set(moved):
        return "Everything decays, biases and gains too."
    if decaying == set(moved) - matrices:
        return "It is the wrong way round: vectors decay, and matrices do not."
    if decaying == matrices:
        some = sorted(found[name] for name in matrices)[0]
        return f"Matrices decay by {some:.3f}, not by weight_decay = {decay:g}."
    named = {name for name in moved if name.endswith("weight")}
    if decaying == named:
        return "What is called weight decays: a norm's gain is called so, and is a vector. Only the dimensions tell."
    if decaying == {name for name in matrices if len(SHAPES[name]) == 2}:
        return "A tensor of three dimensions does not decay: two or more, not exactly two."
    if decaying == {name for name in moved if "bias" not in name}:
        return "What is not called bias decays: gains are vectors too. Only the dimensions tell."
    odd = sorted(decaying ^ matrices)
    return f"{_listed(odd)} {'decays and should not' if odd[0] in decaying else 'does not decay and should'}."


def _follows(
    after: Mapping[str, Tensor],
    weights: Mapping[str, Tensor],
    grads: Sequence[Mapping[str, Tensor]],
    rates: Sequence[float],
    betas: Sequence[float],
) -> bool:
    """Whether the weights are those of Adam without decay (Kingma & Ba 2015)."""
    for name in after:
        value, mean, square = weights[name].double(), 0.0 * weights[name].double(), 0.0 * weights[name].double()
        for step, (each, rate) in enumerate(zip(grads, rates, strict=True), 1):
            gradient = each[name].double()
            mean = betas[0] * mean + (1 - betas[0]) * gradient
            square = betas[1] * square + (1 - betas[1]) * gradient**2
            value = value - rate * mean / (1 - betas[0] ** step) / (square / (1 - betas[1] ** step)).sqrt()
        if float((after[name].double() - value).abs().max()) > NEAR * sum(rates):
            return False
    return True


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")
