"""`workshop experiment`: one question, a few short runs, a picture."""

from __future__ import annotations

import dataclasses
import json
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from autograder.capstone import CORPUS
from autograder.cli.screen import INTERRUPTED, NOT_RIGHT, Screen, tell

if TYPE_CHECKING:
    from torch import nn

    from autograder.capstone.corpus import Corpus
    from autograder.capstone.learner import Learner
    from autograder.capstone.presets import Settings

EPILOG = """\b
Examples:
  workshop experiment size --reference          a wider model
  workshop experiment learning-rate             from too small to too large
  workshop experiment context                   4 to 128 characters
  workshop experiment tying                     what the tied matrix starts as
  workshop experiment dropout                   a text learnt by heart
  workshop experiment tokens                    characters or BPE
  workshop experiment heads --run runs/cpu      where a trained model looks

\b
Short runs on the CPU, a minute or two each; --steps makes them longer.
DIR (default: experiments/NAME) gets NAME.png and experiment.json with every
number, the seed and the settings. The same seed draws the same picture.
Your code runs with your own rights here: take only what you wrote.
Exit status: 0 done, 1 it cannot be (the reason is printed),
2 wrong argument, 130 interrupted."""


class Name(StrEnum):
    """The experiments."""

    SIZE = "size"
    LEARNING_RATE = "learning-rate"
    CONTEXT = "context"
    TYING = "tying"
    DROPOUT = "dropout"
    TOKENS = "tokens"
    HEADS = "heads"


def experiment(
    name: Annotated[Name, typer.Argument(metavar="NAME", help="size, learning-rate, context, tying, dropout, ...")],
    path: Annotated[Path, typer.Option(metavar="PATH", help="Your folder, model.py or notebook.")] = Path(),
    reference: Annotated[bool, typer.Option("--reference", help="Take the kit's solutions instead.")] = False,
    run: Annotated[
        Path | None, typer.Option(metavar="RUN", help="heads: draw those of this run's best checkpoint.")
    ] = None,
    corpus: Annotated[Path, typer.Option(metavar="DIR", help="The corpus, as `workshop data` made it.")] = CORPUS,
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="Where the picture and the numbers go.")] = None,
    steps: Annotated[int, typer.Option(metavar="N", min=1, help="Of each run.")] = 300,
    seed: Annotated[int, typer.Option(metavar="N", min=0, help="Of weights and batches.")] = 1337,
    threads: Annotated[int | None, typer.Option(metavar="N", min=1, help="CPU threads.")] = None,
) -> None:
    """Vary one thing, and see what it does to the loss."""
    if run is not None and name is not Name.HEADS:
        raise typer.BadParameter("only the experiment `heads` looks at a run that is there.", param_hint="--run")
    from autograder.capstone.corpus import load
    from autograder.capstone.pictures import refuse_no_pictures
    from autograder.capstone.trouble import CapstoneError, disk_trouble
    from autograder.reports.plain import clean

    folder = out or Path("experiments") / name.value
    screen = Screen(sys.stdout)
    try:
        refuse_no_pictures()
        text = load(corpus)
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise disk_trouble(str(folder), error) from error
        _heads_or_runs(name, path, reference, run, text, folder, steps, seed, threads, screen)
    except CapstoneError as trouble:
        tell(f"Error: {clean(trouble)}", err=True)
        raise typer.Exit(NOT_RIGHT) from None
    except KeyboardInterrupt:
        tell("Interrupted: nothing was drawn.", err=True)
        raise typer.Exit(INTERRUPTED) from None
    screen.print(f"Picture: {folder / name.value}.png; numbers: {folder / 'experiment.json'}", soft_wrap=True)


def _heads_or_runs(
    name: Name,
    path: Path,
    reference: bool,
    run: Path | None,
    corpus: Corpus,
    folder: Path,
    steps: int,
    seed: int,
    threads: int | None,
    screen: Screen,
) -> None:
    import torch

    from autograder.capstone.experiments import EXPERIMENTS, base_settings
    from autograder.capstone.learner import own_learner, reference_learner
    from autograder.capstone.mishaps import in_words
    from autograder.track import load_track

    torch.set_num_threads(threads or torch.get_num_threads())
    base = base_settings(steps, seed, torch.get_num_threads())
    if run is not None:
        _heads(*_trained(run), corpus, folder)
        return
    learner = reference_learner(load_track()) if reference else own_learner(path, load_track())
    with in_words(base, learner.folder, "The experiment"):
        if name is Name.HEADS:
            _train_and_draw_heads(learner, corpus, base, folder)
            return
        _runs(EXPERIMENTS[name.value], learner, corpus, base, folder, screen)


def _runs(experiment: Any, learner: Learner, corpus: Corpus, base: Settings, folder: Path, screen: Screen) -> None:
    from autograder.capstone.experiments import run_variant
    from autograder.capstone.pictures import draw_experiment

    screen.print(experiment.question)
    variants = experiment.vary(base, corpus)
    screen.print(f"{len(variants)} runs of {base.steps} steps, seed {base.seed}.")
    curves = []
    for variant in variants:
        curve = run_variant(learner, variant)
        curves.append(curve)
        end = "diverged" if curve.loss is None else f"{curve.loss:.4f}"
        screen.print(
            f"  {curve.name:>24}  validation {end}  training {curve.points[-1].training:.4f}  "
            f"{curve.parameters:>9,} parameters  {curve.seconds:.0f} s",
            soft_wrap=True,
        )
    varied = {
        variant.name: {**variant.settings.to_json(), "dropout": variant.dropout, "draw": variant.draw}
        for variant in variants
    }
    results = [dataclasses.asdict(curve) for curve in curves]
    draw_experiment(experiment, curves, folder / f"{experiment.name}.png")
    _record(
        folder,
        {"experiment": experiment.name, "question": experiment.question, "settings": varied, "results": results},
        base.seed,
        learner.code.to_json(),
        corpus,
    )


def _train_and_draw_heads(learner: Learner, corpus: Corpus, base: Settings, folder: Path) -> None:
    from torch import nn

    from autograder.capstone.batches import Batches
    from autograder.capstone.hardware import choose_device
    from autograder.capstone.optimizers import Optimizers

    config = base.config(len(corpus.vocabulary))
    model = learner.build(config, base.seed)
    batches = Batches(corpus.split()[0], base.block_size, base.batch_size, base.seed, choose_device("cpu"))
    optimizers = Optimizers(model, base)
    for step in range(base.steps):
        idx, targets = next(batches(step))
        optimizers.set_step(step)
        optimizers.zero_grad()
        model(idx, targets)[1].backward()
        nn.utils.clip_grad_norm_(model.parameters(), base.clip)
        optimizers.step()
    _heads(model, config, base.seed, learner.code.to_json(), corpus, folder)


def _trained(run: Path) -> tuple[nn.Module, dict[str, int], int, dict[str, Any]]:
    """Return the model of a run, its config, its seed, and whose code it is."""
    from autograder.capstone.checkpoint import load, load_weights
    from autograder.capstone.learner import Code, kept_learner
    from autograder.capstone.shelf import find_checkpoint
    from autograder.track import load_track

    place = find_checkpoint(run)
    kept = load(place)
    learner = kept_learner(Code.from_json(kept.code), place.resolve().parent.parent, load_track())
    model = learner.build(kept.config, 0)
    load_weights(model, kept)
    seed = kept.settings.get("seed")
    return model, kept.config, seed if isinstance(seed, int) else 0, kept.code


def _heads(
    model: nn.Module, config: dict[str, int], seed: int, code: dict[str, Any], corpus: Corpus, folder: Path
) -> None:
    import torch

    from autograder.capstone.heads import attention_maps
    from autograder.capstone.pictures import draw_heads
    from autograder.capstone.trouble import CapstoneError

    if len(corpus.vocabulary) != config["vocab_size"]:
        raise CapstoneError("The run has another vocabulary than this corpus: name its own with --corpus.")
    ids = corpus.split()[1][: min(32, config["block_size"])]
    maps = attention_maps(model, torch.from_numpy(ids)[None], config["n_head"])
    text = corpus.vocabulary.decode(int(number) for number in ids)
    draw_heads(maps, text, folder / "heads.png")
    # How far back a head looks on average, in characters: a number beside each picture.
    length = len(ids)
    back = (torch.arange(length)[:, None] - torch.arange(length)[None]).clamp(min=0)
    looks = [[round(float((one * back).sum(-1).mean()), 3) for one in layer] for layer in maps]
    _record(folder, {"experiment": "heads", "text": text, "config": config, "looks_back": looks}, seed, code, corpus)


def _record(folder: Path, found: dict[str, Any], seed: int, code: dict[str, Any], corpus: Corpus) -> None:
    import torch

    from autograder import __version__
    from autograder.capstone.trouble import disk_trouble

    about = {"seed": seed, "code": code, "corpus": dataclasses.asdict(corpus.provenance)}
    data = {**found, **about, "kit": __version__, "torch": torch.__version__}
    try:
        (folder / "experiment.json").write_text(json.dumps(data, indent=1) + "\n", encoding="ascii")
    except OSError as error:
        raise disk_trouble(str(folder / "experiment.json"), error) from error
