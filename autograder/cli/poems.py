"""`workshop submit-poem` and `workshop verify-poem`: a poem, and the proof of which checkpoint wrote it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from autograder.cli.evaluating import TrustOption, isolated_nursery
from autograder.cli.screen import INTERRUPTED, NOT_RIGHT, OUR_FAULT, Screen, tell

if TYPE_CHECKING:
    from autograder.sandbox import Nursery

SUBMIT_EPILOG = """\b
Examples:
  workshop generate runs/cpu --prompt "O thou" --seed 7      look for a poem
  workshop submit-poem runs/cpu --prompt "O thou" --seed 7   hand it in
  workshop submit-poem runs/cpu --prompt "O" --seed 7 --title "Ode" --out ode

\b
Takes the options of `workshop generate`. The folder holds the poem, its
checkpoint, its code and the exact command, for workshop verify-poem. The model
runs in the sandbox, in float64, so that any machine finds the same characters.
Exit status: 0 written, 1 it cannot be (the reason is printed),
2 wrong argument, 3 our fault, 130 interrupted."""

VERIFY_EPILOG = """\b
Examples:
  workshop verify-poem poem
  workshop verify-poem entries/*

\b
Writes each poem again, from the entry's checkpoint and code in the sandbox, and
compares byte for byte. Nothing is unpickled. Where the kit has its solutions,
it also says whether its own GPT thinks the same with these weights: code may
hold a poem that no weights ever wrote.
Exit status: 0 all are true, 1 one is not, 2 wrong argument, or no isolation
here, 3 our fault, 130 interrupted."""


def submit_poem(
    checkpoint: Annotated[Path, typer.Argument(metavar="RUN", help="A run's folder, with its code.")],
    prompt: Annotated[str, typer.Option(metavar="TEXT", help="What to go on from.")] = "\n",
    tokens: Annotated[int, typer.Option(metavar="N", min=1, max=2000, help="How many characters.")] = 500,
    temperature: Annotated[float, typer.Option(metavar="X", min=0.0, max=100.0, help="0 is greedy.")] = 0.8,
    top_k: Annotated[int | None, typer.Option(metavar="K", min=1, help="Draw among the K likeliest only.")] = None,
    seed: Annotated[int, typer.Option(metavar="N", min=0, max=2**63 - 1, help="Of the poem you liked.")] = 0,
    title: Annotated[str, typer.Option(metavar="TEXT", help="The poem's title.")] = "Untitled",
    author: Annotated[str, typer.Option(metavar="TEXT", help="Your name, or none.")] = "anonymous",
    out: Annotated[Path, typer.Option(metavar="DIR", help="The entry, a new folder.")] = Path("poem"),
) -> None:
    """Hand in a poem that your GPT wrote, with all that proves it."""
    from autograder.capstone.handed_over import read_handed_over
    from autograder.capstone.poem import MAX_NAME, Entry, Recipe, save_entry, write_poem
    from autograder.capstone.sandboxed import OurFault
    from autograder.capstone.trouble import CapstoneError
    from autograder.grading import one_thread
    from autograder.reports.plain import clean
    from autograder.track import load_track

    screen, track = Screen(sys.stdout), load_track()
    try:
        if out.exists():
            raise CapstoneError(f"{out} is there already: name another folder with --out.")
        recipe = Recipe(prompt or "\n", tokens, temperature, top_k, seed)
        handed = read_handed_over(checkpoint, track)
        with isolated_nursery(trusted=True) as nursery, one_thread():  # it is one's own code
            written = write_poem(handed, recipe, track, nursery)
        entry = Entry(title[:MAX_NAME], author[:MAX_NAME], recipe, written.text.encode(), handed.weights_sha256)
        save_entry(entry, handed, out)
    except CapstoneError as trouble:
        tell(f"Error: {clean(trouble)}", err=True)
        raise typer.Exit(OUR_FAULT if isinstance(trouble, OurFault) else NOT_RIGHT) from None
    except KeyboardInterrupt:
        tell("Interrupted: nothing was written.", err=True)
        raise typer.Exit(INTERRUPTED) from None
    screen.print(Text(clean(written.text, multiline=True)), soft_wrap=True)
    screen.print(f"Entry: {out}. Hand in the whole folder. Written by: {recipe.command}", soft_wrap=True)


def verify_poem(
    entries: Annotated[list[Path], typer.Argument(metavar="ENTRY...", help="What `workshop submit-poem` wrote.")],
    trust_students: TrustOption = False,
) -> None:
    """Write each poem again in the sandbox, and compare it byte for byte."""
    from autograder.capstone.sandboxed import OurFault
    from autograder.capstone.trouble import CapstoneError
    from autograder.reports.plain import clean

    screen = Screen(sys.stdout)
    statuses = []
    try:
        with isolated_nursery(trust_students) as nursery:
            for folder in entries:
                try:
                    said, status = _verify(folder, nursery)
                except OurFault as fault:
                    said, status = f"not verified, and not the poem's fault: {fault}", OUR_FAULT
                except CapstoneError as trouble:
                    said, status = f"NOT VERIFIED. {trouble}", NOT_RIGHT
                statuses.append(status)
                screen.print(f"{clean(folder)}: {clean(said)}", soft_wrap=True)
    except KeyboardInterrupt:
        tell("Interrupted.", err=True)
        raise typer.Exit(INTERRUPTED) from None
    raise typer.Exit(max(statuses, default=0))


def _verify(folder: Path, nursery: Nursery) -> tuple[str, int]:
    """Return what to say of one entry, and the exit status."""
    from autograder.capstone.handed_over import read_handed_over
    from autograder.capstone.poem import differs, read_entry, write_poem
    from autograder.capstone.trouble import CapstoneError
    from autograder.grading import one_thread
    from autograder.track import load_track

    track = load_track()
    entry = read_entry(folder)
    handed = read_handed_over(folder, track)
    if handed.weights_sha256 != entry.weights_sha256:
        raise CapstoneError("Its weights are not those that the poem was handed in with.")
    with one_thread():
        written = write_poem(handed, entry.recipe, track, nursery)
    if difference := differs(entry, written):
        return f"NOT VERIFIED. {difference}", NOT_RIGHT
    thinks = {
        True: " The kit's own GPT thinks the same with these weights.",
        False: " But with these weights the kit's own GPT thinks otherwise: read the code before you give a prize.",
        None: "",
    }[written.as_reference]
    return f"verified, {len(entry.text):,} bytes: {entry.title} by {entry.author}.{thinks}", 0
