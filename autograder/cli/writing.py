"""`workshop generate`: text from a model that `workshop train` trained."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from autograder.cli.screen import INTERRUPTED, NOT_RIGHT, fresh_seed, tell, write_plain

if TYPE_CHECKING:
    from autograder.capstone.checkpoint import Checkpoint
    from autograder.capstone.learner import Learner

EPILOG = """\b
Examples:
  workshop generate runs/cpu --prompt "ROMEO:"
  workshop generate runs/cpu --tokens 1000 --temperature 0.9 --top-k 40
  workshop generate runs/cpu --temperature 0     greedy: always the likeliest
  workshop generate runs/cpu --seed 7            the same text each time

\b
CHECKPOINT is a run's folder (its best checkpoint) or one in checkpoints/.
It is read without unpickling anything. The model's code is the copy that the
run kept, unchanged since, or that at --path; it runs with your own rights:
do not run what others sent you. The text goes to stdout, the seed to stderr.
Exit status: 0 written, 1 it cannot be (the reason is printed),
2 wrong argument, 130 interrupted."""


def generate(
    checkpoint: Annotated[Path, typer.Argument(metavar="CHECKPOINT", help="A run's folder, or a checkpoint.")],
    prompt: Annotated[str, typer.Option(metavar="TEXT", help="What to go on from.")] = "\n",
    tokens: Annotated[int, typer.Option(metavar="N", min=1, max=1_000_000, help="How many characters.")] = 500,
    temperature: Annotated[
        float, typer.Option(metavar="X", min=0.0, max=100.0, help="Below 1 bolder choices get rarer; 0 is greedy.")
    ] = 0.8,
    top_k: Annotated[int | None, typer.Option(metavar="K", min=1, help="Draw among the K likeliest only.")] = None,
    seed: Annotated[int | None, typer.Option(metavar="N", min=0, max=2**63 - 1, help="Repeat an earlier text.")] = None,
    path: Annotated[Path | None, typer.Option(metavar="PATH", help="The code of the model, if not the run's.")] = None,
    reference: Annotated[bool, typer.Option("--reference", help="Use the kit's solutions as the model.")] = False,
    device: Annotated[str, typer.Option(metavar="NAME", help="auto, cpu, cuda or mps.")] = "cpu",
) -> None:
    """Write text with a model that you trained."""
    from autograder.capstone.trouble import CapstoneError
    from autograder.reports.plain import clean

    number = fresh_seed() if seed is None else seed
    try:
        _write(checkpoint, prompt or "\n", tokens, temperature, top_k, number, path, reference, device)
    except CapstoneError as trouble:
        tell(f"Error: {clean(trouble)}", err=True)
        raise typer.Exit(NOT_RIGHT) from None
    except KeyboardInterrupt:
        tell("\nInterrupted.", err=True)
        raise typer.Exit(INTERRUPTED) from None
    if temperature > 0 and seed is None:
        tell(f"seed {number} (again with --seed {number})", err=True)


def _write(
    place: Path,
    prompt: str,
    tokens: int,
    temperature: float,
    top_k: int | None,
    seed: int,
    path: Path | None,
    reference: bool,
    device: str,
) -> None:
    import torch

    from autograder.capstone.checkpoint import load, load_weights
    from autograder.capstone.hardware import choose_device
    from autograder.capstone.sampling import sample
    from autograder.capstone.shelf import find_checkpoint
    from autograder.capstone.vocabulary import Vocabulary
    from autograder.reports.plain import clean

    found = find_checkpoint(place)
    kept = load(found)
    vocabulary = Vocabulary(kept.vocabulary)
    ids = torch.from_numpy(vocabulary.encode(prompt))
    learner = _learner(kept, found, path, reference)
    model = learner.build(kept.config, 0).to(choose_device(device))
    load_weights(model, kept)
    write_plain(prompt if prompt != "\n" else "")
    block_size = kept.config["block_size"]
    for number in sample(model, ids, tokens, block_size, temperature=temperature, top_k=top_k, seed=seed):
        character = vocabulary.decode([number])  # of a vocabulary that may hold anything
        write_plain(clean(character, multiline=True) if sys.stdout.isatty() else character)
    write_plain("\n")


def _learner(kept: Checkpoint, found: Path, path: Path | None, reference: bool) -> Learner:
    from autograder.capstone.learner import Code, kept_learner, own_learner, reference_learner
    from autograder.track import load_track

    if reference:
        return reference_learner(load_track())
    if path is not None:
        return own_learner(path, load_track())
    run = found.resolve().parent.parent  # RUN/checkpoints/step-N
    return kept_learner(Code.from_json(kept.code), run, load_track())
