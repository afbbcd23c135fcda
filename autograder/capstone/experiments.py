"""Experiments: one thing varied, the rest as it was, a short run of each on a CPU; what came out as plain data."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from autograder.capstone.batches import Batches
from autograder.capstone.bpe import train_bpe
from autograder.capstone.corpus import TRAINING_SHARE, Corpus, Ids
from autograder.capstone.dropout import add_dropout
from autograder.capstone.hardware import Hardware
from autograder.capstone.learner import Learner
from autograder.capstone.optimizers import Optimizers
from autograder.capstone.presets import Settings, load_preset
from autograder.capstone.processes import Processes
from autograder.capstone.validation import Validation

#: Records of a run: enough for a curve.
RECORDS = 12
#: Characters of the text that is to be learnt by heart: a model of 100,000 parameters needs some hundred steps for it.
LITTLE = 10_000
#: Vocabularies that are compared with characters.
BPE_SIZES = (256, 1024)
#: Validation characters that are measured between; the end is measured on all of them.
GLANCE = 20_000


@dataclass(frozen=True)
class Variant:
    """One run of an experiment."""

    name: str
    value: float  # what is varied, as a number; its place where it is none
    settings: Settings
    training: Ids
    validation: Ids
    vocab_size: int
    per_character: float = 1.0  # tokens a character
    dropout: float = 0.0
    draw: str = ""  # how the tied matrix starts: "" as the trainer does, "linear", "embedding"


@dataclass(frozen=True)
class Point:
    """A record. Losses are in nats per character."""

    step: int
    training: float
    validation: float


@dataclass(frozen=True)
class Curve:
    """What a run gave."""

    name: str
    value: float
    parameters: int
    seconds: float
    loss: float | None  # of the end, over all validation characters; None: it diverged, the loss was no number
    best: float  # the least that was seen on the way
    points: tuple[Point, ...]


@dataclass(frozen=True)
class Experiment:
    """A question, and how its answer is drawn."""

    name: str
    question: str
    varied: str  # the axis, or the legend's title
    axis: str  # "linear", "log": the last losses over the values; "steps": the curves; "both": with the training loss
    vary: Callable[[Settings, Corpus], list[Variant]]


def base_settings(steps: int, seed: int, threads: int) -> Settings:
    """Return what each experiment starts from: 0.1M parameters, some ten seconds for 300 steps on two cores."""
    small: dict[str, Any] = {"n_layer": 2, "n_head": 4, "n_embd": 64, "block_size": 64, "batch_size": 16}
    return dataclasses.replace(
        load_preset("cpu").settings,
        **small,
        steps=steps,
        warmup=max(1, steps // 20),
        evaluate_every=max(1, steps // RECORDS),
        seed=seed,
        threads=threads,
    )


def run_variant(learner: Learner, variant: Variant) -> Curve:
    """Train one variant and return its curve; a loss that is no number ends it."""
    settings, hardware = variant.settings, Hardware(torch.device("cpu"))
    model = learner.build(settings.config(variant.vocab_size), settings.seed)
    draw_tied(model, variant.draw, settings.seed)
    add_dropout(model, variant.dropout)
    batches = Batches(variant.training, settings.block_size, settings.batch_size, settings.seed, hardware.device)
    glance = Validation(variant.validation[: GLANCE + 1], settings.block_size)
    optimizers = Optimizers(model, settings)
    model.train()
    points: list[Point] = []
    started, recent, diverged = time.perf_counter(), 0.0, False
    for step in range(settings.steps):
        idx, targets = next(batches(step))
        if step == 0:
            points.append(_point(0, float(model(idx, targets)[1].detach()), glance, model, hardware, variant))
        optimizers.set_step(step)
        optimizers.zero_grad()
        loss = model(idx, targets)[1]
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), settings.clip)
        optimizers.step()
        now = float(loss.detach())
        recent = now if not recent else 0.9 * recent + 0.1 * now
        if diverged := not math.isfinite(now):
            break
        if (step + 1) % settings.evaluate_every == 0 or step + 1 == settings.steps:
            points.append(_point(step + 1, recent, glance, model, hardware, variant))
    everything = Validation(variant.validation, settings.block_size).loss(model, hardware, Processes())
    diverged = diverged or not math.isfinite(everything)
    return Curve(
        name=variant.name,
        value=variant.value,
        parameters=sum(parameter.numel() for parameter in model.parameters()),
        seconds=round(time.perf_counter() - started, 2),
        loss=None if diverged else everything * variant.per_character,
        best=min(point.validation for point in points),
        points=tuple(points),
    )


def draw_tied(model: nn.Module, how: str, seed: int) -> None:
    """Start the token table, and with it the head, as nn.Linear ("linear") or nn.Embedding ("embedding") would."""
    if not how:
        return
    table, head = model.get_parameter("transformer.wte.weight"), model.get_parameter("lm_head.weight")
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        if how == "linear":
            bound = 1 / math.sqrt(table.shape[1])
            table.uniform_(-bound, bound, generator=generator)
        else:
            table.normal_(0.0, 1.0, generator=generator)
        head.copy_(table.clone())


def _point(
    step: int, training: float, glance: Validation, model: nn.Module, hardware: Hardware, variant: Variant
) -> Point:
    validation = glance.loss(model, hardware, Processes())
    return Point(step, training * variant.per_character, validation * variant.per_character)


# What is varied


def _variants(base: Settings, corpus: Corpus, choices: Sequence[tuple[str, float, dict[str, object]]]) -> list[Variant]:
    training, validation = corpus.split()
    size = len(corpus.vocabulary)
    return [
        Variant(name, value, dataclasses.replace(base, **changes), training, validation, size)  # type: ignore[arg-type]
        for name, value, changes in choices
    ]


def _size(base: Settings, corpus: Corpus) -> list[Variant]:
    return _variants(base, corpus, [(f"width {width}", width, {"n_embd": width}) for width in (16, 32, 64, 128)])


def _learning_rate(base: Settings, corpus: Corpus) -> list[Variant]:
    adamw = dataclasses.replace(base, optimizer="adamw", matrix_rate=0.0, weight_decay=0.1)
    rates = (3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 1e-1)
    return _variants(adamw, corpus, [(f"{rate:g}", rate, {"rate": rate}) for rate in rates])


def _context(base: Settings, corpus: Corpus) -> list[Variant]:
    characters = base.batch_size * base.block_size  # a step: the same for all
    lengths = [length for length in (4, 16, 64, 128) if characters % length == 0]
    return _variants(
        base,
        corpus,
        [(f"{length}", length, {"block_size": length, "batch_size": characters // length}) for length in lengths],
    )


def _tying(base: Settings, corpus: Corpus) -> list[Variant]:
    starts = (("N(0, 0.02), as GPT-2", ""), ("the head's (nn.Linear)", "linear"), ("the table's N(0, 1)", "embedding"))
    found = _variants(base, corpus, [(name, place, {}) for place, (name, _) in enumerate(starts)])
    return [dataclasses.replace(one, draw=draw) for one, (_, draw) in zip(found, starts, strict=True)]


def _dropout(base: Settings, corpus: Corpus) -> list[Variant]:
    shares = (0.0, 0.1, 0.3)
    found = _variants(base, corpus, [(f"dropout {share:g}", share, {}) for share in shares])
    return [
        dataclasses.replace(one, training=one.training[:LITTLE], dropout=share)
        for one, share in zip(found, shares, strict=True)
    ]


def _tokens(base: Settings, corpus: Corpus) -> list[Variant]:
    (characters,) = _variants(base, corpus, [("characters", len(corpus.vocabulary), {})])
    cut = int(TRAINING_SHARE * len(corpus.text))
    found = [characters]
    for size in BPE_SIZES:
        bpe = train_bpe(corpus.text[:cut] + "".join(sorted(set(corpus.text))), size)
        training, validation = bpe.encode(corpus.text[:cut]), bpe.encode(corpus.text[cut:])
        share = len(validation) / (len(corpus.text) - cut)
        name = f"BPE, {size} tokens"
        found.append(Variant(name, size, base, training, validation, len(bpe), per_character=share))
    return found


EXPERIMENTS = {
    one.name: one
    for one in (
        Experiment("size", "Does a wider model learn more from the same steps?", "width (n_embd)", "log", _size),
        Experiment(
            "learning-rate", "Which learning rate does AdamW learn best with?", "learning rate", "log", _learning_rate
        ),
        Experiment("context", "What does it gain from a longer context?", "context (characters)", "log", _context),
        Experiment("tying", "Which matrix should the tied one start as?", "the tied matrix starts as", "steps", _tying),
        Experiment(
            "dropout", "What does dropout do for a text that can be learnt by heart?", "dropout", "both", _dropout
        ),
        Experiment("tokens", "Characters or BPE: which foretells the text better?", "tokens", "steps", _tokens),
    )
}
