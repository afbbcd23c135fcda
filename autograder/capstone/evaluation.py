"""The evaluation of a trained model: its loss over all validation characters, measured where the model cannot cheat.

The code runs in the sandbox and returns logits; normalising them, comparing with the right next characters and
averaging is done here. Whether a logit knows what comes after it is measured on the windows that are scored, in a
second process that is never shown what follows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from autograder.capstone.corpus import Corpus, Ids
from autograder.capstone.handed_over import HandedOver
from autograder.capstone.marking import Scale
from autograder.capstone.sandboxed import SandboxedModel
from autograder.capstone.trouble import CapstoneError
from autograder.oracle.expected import NotSealed
from autograder.oracle.reference import Reference, SolutionsNotFound
from autograder.sandbox import Nursery
from autograder.track import Track

#: Windows whose beginnings are shown alone, and how many beginnings: of each, the last logit cannot know its successor.
#: A model that peeks at one position in a hundred escapes 1,024 of them once in 30,000 times.
WINDOWS, BEGINNINGS = 64, 1_024
#: Some of each length, so that no position is safe to peek at; in very long contexts, of so many lengths.
LENGTHS = 256
#: nats. Float32 sums in another order move a log-probability by less; what could be gained within it is nothing.
UNMOVED = 5e-3
#: Log-probabilities below this are all alike: nothing depends on how impossible a character is.
FLOOR = -20.0
#: nats. A validation text that is this much easier than the training text was probably trained on.
TOO_EASY = 0.25
_SIZES = ("block_size", "n_layer", "n_head", "n_embd")
#: More steps, or sequences in one, no run has.
_SENSIBLE = 10**9
#: Float64 numbers kept of the compared windows: 160 MB.
_KEPT = 20_000_000


@dataclass(frozen=True)
class Measured:
    """What was measured of a model."""

    loss: float  # nats per character, over all validation characters
    training_loss: float  # the same over a sample of the training text
    characters: int
    compared: int  # logits that were compared with those of a process that did not see what follows
    as_reference: bool | None  # whether the kit's GPT with these weights says the same; None: no solutions here

    @property
    def bits(self) -> float:
        """Bits per character."""
        return self.loss / math.log(2)


def measure(handed: HandedOver, corpus: Corpus, track: Track, nursery: Nursery, seed: int) -> Measured:
    """Measure the model; `seed` decides the order of the windows and what is compared.

    Raises CapstoneError when the model cannot be run, draws at random, or sees the future; OurFault when it is ours.
    """
    if corpus.provenance.vocabulary != handed.checkpoint.vocabulary:
        raise CapstoneError(
            "The model has another vocabulary than this corpus: name the corpus that it was trained on."
        )
    draw = np.random.default_rng([seed, 2])
    training, validation = corpus.split()
    block_size = handed.checkpoint.config["block_size"]
    windows, tail = fixed_windows(validation, block_size)
    order = torch.from_numpy(draw.permutation(len(windows)))  # a window's neighbour in a batch is not its successor
    width = windows.shape[1] * handed.checkpoint.config["vocab_size"]
    # Which windows are compared later, nothing that the model is shown tells: they lie anywhere in the order.
    spots = torch.from_numpy(np.sort(draw.permutation(len(order))[: max(1, min(WINDOWS, _KEPT // max(1, width)))]))
    with SandboxedModel(handed, track, nursery) as model:
        total, kept = _total(model, windows[order], spots)
        total += _total(model, tail)[0]
        sample, _ = fixed_windows(training, block_size)
        sample = sample[torch.from_numpy(draw.permutation(len(sample))[: 4 * WINDOWS])]
        training_loss = _total(model, sample)[0] / max(1, sample[:, 1:].numel())
    chosen = order[spots]
    if not len(chosen):
        raise CapstoneError("The validation text is shorter than one window of this model: take a longer text.")
    compared = _refuse_sight_of_the_future(handed, track, nursery, windows[chosen], kept, draw)
    characters = windows[:, 1:].numel() + tail[:, 1:].numel()
    return Measured(
        loss=total / characters,
        training_loss=training_loss,
        characters=characters,
        compared=compared,
        as_reference=_as_reference(handed, track, windows[chosen[:8]], kept[:8]),
    )


def fixed_windows(ids: Ids, block_size: int) -> tuple[Tensor, Tensor]:
    """Return the text as windows that do not overlap: (N, T + 1) int64, and the rest, (1, R + 1) or (0, 1).

    The last id of a window is the first of the next one: each character but the text's first is foretold once.
    """
    text = torch.from_numpy(ids)
    whole = (len(text) - 1) // block_size
    windows = text[: whole * block_size + 1].unfold(0, block_size + 1, block_size) if whole else text.new_empty((0, 2))
    rest = text[whole * block_size :]
    return windows, rest[None] if len(rest) > 1 else text.new_empty((0, 1))


def remarks(handed: HandedOver, measured: Measured) -> tuple[str, ...]:
    """Return what an instructor should look at; none of it costs points by itself."""
    found = []
    easier = measured.training_loss - measured.loss
    if easier > TOO_EASY:
        found.append(
            f"The validation text is easier for it than the training text (by {easier:.2f} nats): it may have "
            "been trained on it. Evaluate it on a text that nobody has seen (--corpus)."
        )
    if measured.as_reference is False:
        found.append(
            "With these weights the kit's own GPT says something else: the architecture is not the contract's."
        )
    return tuple(found)


def over_budget(handed: HandedOver, scale: Scale) -> str:
    """Return why the run is not within the budget of the preset; empty when it is.

    Parameters are counted in the file. Steps, batch and context are as recorded; a record that contradicts itself, or
    the weights, is none.
    """
    checkpoint, recorded = handed.checkpoint, _recorded(handed)
    same = all(recorded[name] == checkpoint.config[name] for name in _SIZES)
    if not same or checkpoint.step > recorded["steps"]:
        return "The record of the run contradicts itself: its settings are not those of its weights."
    if handed.parameters > scale.parameters:
        return f"It has {handed.parameters:,} parameters; preset {scale.preset} allows {scale.parameters:,}."
    seen = characters_seen(handed)
    if seen > scale.characters:
        return f"It saw {seen:,} characters in training; preset {scale.preset} allows {scale.characters:,}."
    return ""


def characters_seen(handed: HandedOver) -> int:
    """Return steps x batch x context, as the run has recorded them."""
    recorded = _recorded(handed)
    return min(handed.checkpoint.step, _SENSIBLE) * recorded["batch_size"] * recorded["block_size"]


def _recorded(handed: HandedOver) -> dict[str, int]:
    """Return the numbers of the run's settings that the budget asks for, 0 for what is no number.

    Other settings may come and go with the versions of the kit: a model is evaluated all the same.
    """
    found = {name: handed.checkpoint.settings.get(name) for name in (*_SIZES, "steps", "batch_size")}
    return {name: value if type(value) is int and 0 < value <= _SENSIBLE else 0 for name, value in found.items()}


def _total(model: SandboxedModel, windows: Tensor, spots: Tensor | None = None) -> tuple[float, Tensor]:
    """Return the summed loss of windows (N, T + 1) in nats, and the log-probabilities of those at `spots`, sorted."""
    total, start = 0.0, 0
    kept: list[Tensor] = []
    for part in torch.split(windows, max(1, model.at_once // max(1, windows.shape[1] - 1))):
        if not part.numel():
            continue
        said = model.log_probabilities(part[:, :-1])  # (B, T, V)
        total -= float(said.gather(2, part[:, 1:, None]).sum())
        if spots is not None:
            kept.append(said[spots[(spots >= start) & (spots < start + len(part))] - start])
        start += len(part)
    return total, torch.cat(kept) if kept else torch.empty(0)


def _refuse_sight_of_the_future(
    handed: HandedOver, track: Track, nursery: Nursery, windows: Tensor, said: Tensor, draw: np.random.Generator
) -> int:
    """Show a fresh process only the beginnings of scored windows; return how many logits could not know what follows.

    Raises CapstoneError when they differ from those that were scored.
    """
    block_size = windows.shape[1] - 1
    lengths = draw.permutation(block_size)[:LENGTHS] + 1
    rows = min(len(windows), max(4, math.ceil(BEGINNINGS / len(lengths))))
    with SandboxedModel(handed, track, nursery) as fresh:
        for length in map(int, lengths):
            # In other company than when they were scored: the rows of a batch may not look at each other.
            chosen = torch.from_numpy(draw.permutation(len(windows))[:rows])
            alone = fresh.log_probabilities(windows[chosen, :length])
            apart = moved(alone, said[chosen, :length])
            if float(apart.max()) <= UNMOVED:
                continue
            if not _repeats(fresh, windows[:1, :length]):
                raise CapstoneError(
                    "Its logits differ from call to call: dropout, or a random number, in evaluation mode."
                )
            row, position = divmod(int(apart.argmax()), length)
            raise CapstoneError(
                f"It sees what it should foretell: at position {position} of a validation window its log-probabilities "
                f"are others (by {float(apart[row, position]):.3g} nats) when it is shown {length} of the {block_size} "
                "characters and nothing after them. Find out more: workshop check attention"
            )
    return rows * len(lengths)


def moved(one: Tensor, other: Tensor) -> Tensor:
    """Return how far log-probabilities lie apart: (B, T, V) twice -> (B, T)."""
    return (one.clamp(min=FLOOR) - other.clamp(min=FLOOR)).abs().amax(dim=-1)


def _repeats(model: SandboxedModel, idx: Tensor) -> bool:
    once, again = model.log_probabilities(idx), model.log_probabilities(idx)
    return float(moved(once, again).max()) <= UNMOVED


def reference_log_probabilities(handed: HandedOver, track: Track, idx: Tensor) -> Tensor | None:
    """Return what our own GPT with these weights says, (B, T) -> (B, T, V) float64; None in a kit without solutions."""
    part, config = track.parts[-1], handed.checkpoint.config
    try:
        said = Reference(track).evaluate(part, config, handed.checkpoint.weights, {"idx": idx}, stand_ins=False)
    except (SolutionsNotFound, NotSealed):
        return None
    logits = said.outputs[0]
    assert logits is not None
    return logits.log_softmax(dim=-1)


def _as_reference(handed: HandedOver, track: Track, windows: Tensor, said: Tensor) -> bool | None:
    ours = reference_log_probabilities(handed, track, windows[:, :-1].contiguous())
    return None if ours is None else float(moved(ours, said).max()) <= UNMOVED
