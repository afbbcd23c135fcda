"""`workshop train`: train the GPT that you wrote."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from autograder.capstone import CORPUS
from autograder.cli.screen import INTERRUPTED, NOT_RIGHT, Screen, tell

if TYPE_CHECKING:
    from autograder.capstone.run import Order

EPILOG = """\b
Examples:
  workshop train --path exercises               your GPT, about three minutes
  workshop train --preset gpu                   the 10.8M model on a GPU
  workshop train --steps 500 --optimizer adamw  other numbers
  workshop train --path my_gpt --optimizer own  with your own training.py
  workshop train --resume                       go on after Ctrl-C or a crash
  torchrun --nproc-per-node 2 -m autograder train --preset gpu

\b
Presets: cpu (4 layers, width 128), laptop (width 256), gpu (the default GPT).
The schedule is by steps. Before a long run a proof run looks whether the
model learns at all. The run's folder then holds checkpoints/ (the last and the
best), metrics.jsonl, loss.png and a copy of your code.
Your code runs with your own rights here: train only what you wrote.
Exit status: 0 trained, 1 it cannot be trained (the reason is printed),
2 wrong argument, 130 interrupted (--resume goes on)."""


def train(
    path: Annotated[Path, typer.Option(metavar="PATH", help="Your folder, model.py or notebook.")] = Path(),
    reference: Annotated[bool, typer.Option("--reference", help="Train the kit's solutions instead.")] = False,
    preset: Annotated[str, typer.Option(metavar="NAME", help="cpu, laptop or gpu.")] = "cpu",
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="The run's folder. Default: runs/PRESET.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the last checkpoint in the folder.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Start anew in a folder that holds a run.")] = False,
    corpus: Annotated[Path, typer.Option(metavar="DIR", help="The corpus, as `workshop data` made it.")] = CORPUS,
    optimizer: Annotated[
        str, typer.Option(metavar="NAME", help="muon (with AdamW), adamw, or own: your training.py.")
    ] = "muon",
    learning_rate: Annotated[float | None, typer.Option(metavar="R", help="The highest rate of AdamW.")] = None,
    steps: Annotated[int | None, typer.Option(metavar="N", min=1, help="How many steps.")] = None,
    batch_size: Annotated[int | None, typer.Option(metavar="N", min=1, help="Sequences a step.")] = None,
    block_size: Annotated[int | None, typer.Option(metavar="N", min=1, help="Context, in characters.")] = None,
    accumulate: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Parts a step is computed in: less memory.")
    ] = None,
    evaluate_every: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Steps between validations, with a checkpoint each.")
    ] = None,
    seed: Annotated[int, typer.Option(metavar="N", min=0, help="Of weights and batches.")] = 1337,
    device: Annotated[str, typer.Option(metavar="NAME", help="auto, cpu, cuda or mps.")] = "auto",
    precision: Annotated[
        str, typer.Option(metavar="NAME", help="fp32, bf16, or auto: the faster one, measured.")
    ] = "auto",
    compiled: Annotated[bool, typer.Option("--compile", help="Compile with torch.compile (needs a compiler).")] = False,
    threads: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="CPU threads. Default: all or one, as is faster.")
    ] = None,
    proof: Annotated[bool, typer.Option("--proof/--no-proof", help="Overfit one batch first.")] = True,
    samples: Annotated[bool, typer.Option("--samples/--no-samples", help="Show samples as it learns.")] = True,
) -> None:
    """Train the GPT that you wrote."""
    from autograder.capstone.processes import joined
    from autograder.capstone.run import Order, refuse_device
    from autograder.capstone.trouble import CapstoneError
    from autograder.reports.plain import clean

    changes = {
        "rate": learning_rate,
        "steps": steps,
        "batch_size": batch_size,
        "block_size": block_size,
        "accumulate": accumulate,
        "evaluate_every": evaluate_every,
    }
    order = Order(
        path=None if reference else path,
        preset=preset,
        optimizer=optimizer,
        changes={name: value for name, value in changes.items() if value is not None},
        seed=seed,
        device=device,
        precision=precision,
        compile=compiled,
        out=out or Path("runs") / preset,
        corpus=corpus,
        resume=resume,
        overwrite=overwrite,
        proof=proof,
        threads=threads,
    )
    try:
        refuse_device(device, precision)
        with joined() as processes, _stop_asked() as asked:
            screen = Screen(sys.stdout)
            screen.quiet = not processes.first
            status = _train(order, processes, screen, asked, samples=samples)
    except CapstoneError as trouble:
        tell(f"Error: {clean(trouble)}", err=True)
        raise typer.Exit(NOT_RIGHT) from None
    except KeyboardInterrupt:
        tell("Interrupted. What was kept last stays: add --resume to go on.", err=True)
        raise typer.Exit(INTERRUPTED) from None
    raise typer.Exit(status)


def _train(order: Order, processes: Any, screen: Screen, asked: Callable[[], bool], *, samples: bool) -> int:
    from autograder.capstone import run
    from autograder.capstone.journal import draw_curve
    from autograder.capstone.trouble import CapstoneError
    from autograder.cli.training_screen import TrainingScreen

    prepared = run.prepare(order, processes, lambda line: screen.print(line, soft_wrap=True))
    settings = prepared.trainer.settings
    with TrainingScreen(
        screen, prepared.corpus.vocabulary, settings.block_size, settings.seed, samples=samples
    ) as watcher:
        outcome = prepared.trainer.run(watcher if processes.first else None, asked)
    if processes.first:
        if outcome.reason == "interrupted":
            screen.print(
                f"Interrupted at step {outcome.step}; it is kept. Go on with --resume --out {order.out}", soft_wrap=True
            )
            return INTERRUPTED
        ended = "Stopped early: validation got no better." if outcome.reason == "stopped early" else "Finished."
        screen.print(
            f"{ended} Best validation loss {outcome.best_loss:.4f} nats per character at step {outcome.best_step}; "
            f"{outcome.seconds:.0f} s.",
            soft_wrap=True,
        )
        try:
            screen.print(
                f"Loss curve: {draw_curve(order.out, f'{order.out.name}: best {outcome.best_loss:.3f}')}",
                soft_wrap=True,
            )
        except CapstoneError as trouble:
            screen.print(str(trouble), soft_wrap=True)
        screen.print(f"Write with it: workshop generate {order.out} --prompt 'ROMEO:'", soft_wrap=True)
    return INTERRUPTED if outcome.reason == "interrupted" else 0


@contextmanager
def _stop_asked() -> Iterator[Callable[[], bool]]:
    """Turn the first Ctrl-C into a question that the trainer asks after each step; the second one interrupts."""
    asked = False

    def ask(number: int, frame: object) -> None:
        nonlocal asked
        if asked:
            raise KeyboardInterrupt
        asked = True

    before = signal.signal(signal.SIGINT, ask)
    try:
        yield lambda: asked
    finally:
        signal.signal(signal.SIGINT, before)
