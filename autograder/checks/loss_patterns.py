"""Known ways to get the loss wrong: the number that each gives, and how to say so."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Loss:
    """A way to get the loss wrong, the number that it gives, and how to say so."""

    value: float
    sentence: str
    look_at: str


def cross_entropy(logits: Tensor, targets: Tensor) -> float:
    """Return the mean cross-entropy in nats of logits (B, T, V) with targets (B, T)."""
    return float(torch.nn.functional.cross_entropy(logits.reshape(-1, logits.shape[-1]), targets.reshape(-1)))


def known_losses(logits: Tensor, targets: Tensor, idx: Tensor) -> list[Loss]:
    """Return each known way to get the loss of `logits` (B, T, V) wrong, `idx` and `targets` (B, T) being given."""
    functional = torch.nn.functional
    batch, length, vocab = logits.shape
    flat, ids = logits.reshape(-1, vocab), targets.reshape(-1)
    each = functional.cross_entropy(flat, ids, reduction="none").reshape(batch, length)
    scrambled = logits.reshape(batch, vocab, length)
    known = [
        Loss(
            float(each.sum()),
            "The loss is the sum over all tokens, not their mean.",
            "Leave cross_entropy's reduction at 'mean'.",
        ),
        Loss(
            float(each.sum() / batch),
            "The loss is summed over time and averaged over the batch only.",
            "Average over all B*T tokens.",
        ),
        Loss(
            float(each.sum() / length),
            "The loss is summed over the batch and averaged over time only.",
            "Average over all B*T tokens.",
        ),
        Loss(
            float(each[:, -1].mean()),
            "The loss looks at the last position only.",
            "Train on every position: all T of them have a target.",
        ),
        Loss(
            float(each[:, :-1].mean()),
            "The loss leaves out the last position.",
            "All T positions have a target: targets are shifted by the caller.",
        ),
        Loss(float(each[:, 1:].mean()), "The loss leaves out the first position.", "All T positions have a target."),
        Loss(
            float(each.sum() / max(batch * (length - 1), 1)),
            "The loss is divided by B*(T-1).",
            "All T positions have a target: average over B*T.",
        ),
        Loss(
            float(functional.cross_entropy(flat, ids, ignore_index=0)),
            "ignore_index=0 drops a real character (id 0) from the loss.",
            "Remove ignore_index.",
        ),
        Loss(
            float(functional.cross_entropy(scrambled, targets)),
            "view(B, V, T) scrambles the logits.",
            "Use transpose(1, 2), or flatten to (B*T, V).",
        ),
        Loss(
            float(each.mean()) / math.log(2),
            "The loss is in bits, not nats.",
            "Use the natural logarithm, as F.cross_entropy does.",
        ),
        Loss(-float(each.mean()), "The loss has the wrong sign.", "Cross-entropy is the mean of -log p."),
        Loss(
            float(functional.cross_entropy(flat.softmax(-1), ids)),
            "The loss takes the softmax twice: cross_entropy wants logits.",
            "Drop your softmax.",
        ),
    ]
    known += [
        Loss(
            float(functional.cross_entropy(flat, ids, label_smoothing=amount)),
            f"The loss uses label smoothing ({amount}).",
            "Drop label_smoothing.",
        )
        for amount in (0.05, 0.1, 0.2)
    ]
    known += _in_other_terms(logits, targets, each)
    known.append(
        Loss(
            cross_entropy(logits, idx),
            "The loss compares the logits with idx, the tokens that went in, not with targets.",
            "Logits at position t are about token t + 1: that is targets[:, t].",
        )
    )
    if length > 1:
        shifted = functional.cross_entropy(logits[:, :-1].reshape(-1, vocab), targets[:, 1:].reshape(-1))
        known.append(
            Loss(
                float(shifted),
                "The loss shifts the targets once more.",
                "The caller has shifted them: compare position t with targets[:, t].",
            )
        )
    return known


def _in_other_terms(logits: Tensor, targets: Tensor, each: Tensor) -> list[Loss]:
    """Return other measures of how wrong logits (B, T, V) are, and the softmax along other axes; `each` (B, T) is the
    cross-entropy."""
    functional = torch.nn.functional
    batch, length, vocab = logits.shape
    chosen = targets.unsqueeze(-1)
    wanted = functional.one_hot(targets, vocab).double()
    along = [
        (1, "The softmax of the loss runs over time, not over the vocabulary."),
        (0, "The softmax of the loss runs over the batch, not over the vocabulary."),
    ]
    if length * batch == 1:
        along = []
    found = [
        Loss(-float(logits.log_softmax(axis).gather(-1, chosen).mean()), sentence, "Softmax over dim=-1.")
        for axis, sentence in along
    ]
    return [
        *found,
        Loss(
            -float(logits.gather(-1, chosen).mean()),
            "The loss has no softmax: it is the mean of minus the target's logit.",
            "nll_loss wants log-probabilities; F.cross_entropy takes the logits.",
        ),
        Loss(
            -float(logits.softmax(-1).gather(-1, chosen).mean()),
            "The loss is minus the mean probability of the target: the log is missing.",
            "F.cross_entropy takes the logits.",
        ),
        Loss(
            float(each.mean().exp()), "The loss is the perplexity, exp of the loss.", "Return the loss, before the exp."
        ),
        Loss(
            float(functional.mse_loss(logits.softmax(-1), wanted)),
            "The loss is the squared error of the probabilities.",
            "Use F.cross_entropy.",
        ),
        Loss(
            float(functional.mse_loss(logits, wanted)),
            "The loss is the squared error of logits.",
            "Use F.cross_entropy.",
        ),
        Loss(
            float(functional.binary_cross_entropy_with_logits(logits, wanted)),
            "The loss asks yes or no of each token by itself (binary cross-entropy).",
            "Use F.cross_entropy: the tokens exclude each other.",
        ),
        Loss(float(each[:, 0].mean()), "The loss looks at the first position only.", "All T positions have a target."),
        Loss(float(each[0].mean()), "The loss looks at the first sequence only.", "Average over all B*T tokens."),
        Loss(
            float(each.mean()) / math.log(10), "The loss takes the logarithm to base 10.", "Use the natural logarithm."
        ),
        Loss(2 * float(each.mean()), "The loss is twice the mean cross-entropy.", "Add it once."),
        Loss(float(each.median()), "The loss is the median over all positions.", "Take their mean."),
    ]
