"""`workshop watch`: check at every save, on one screen with hints; plain lines where there is no terminal."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from autograder.cli.folder import folder_named, hints_named
from autograder.cli.screen import INTERRUPTED, Screen, seed_or_fresh, tell
from autograder.cli.student import course_named, part_named, track_flag

EPILOG = """\b
Examples:
  workshop watch                 in this folder, from the first open part on
  workshop watch attention       from this part on
  workshop watch --path my_gpt   in another folder

\b
Keys: n next, h hint, l list, c check all, x reset, ? help, q quit.
Without a terminal (in a pipe, say) it prints a line at each save, and ends
with Ctrl-C or the end of the input."""


def watch(
    part: Annotated[str | None, typer.Argument(metavar="PART", help="Default: the first that is not passed.")] = None,
    path: Annotated[Path, typer.Option(metavar="DIR", help="Your folder.")] = Path(),
    track: Annotated[str, typer.Option(metavar="NAME", help="The course to check against.")] = "gpt",
    seed: Annotated[
        int | None, typer.Option(metavar="N", min=0, help="Draw the weights and inputs of an earlier run.")
    ] = None,
) -> None:
    """Check your work at every save, with hints at hand."""
    course, hints, folder = course_named(track), hints_named(track), folder_named(path)
    begin = part_named(part, course) if part else None
    drawn = seed_or_fresh(seed)
    console = Screen(sys.stdout)

    from autograder.reports.progress import progress_total
    from autograder.watch import watch_folder

    try:
        progress = watch_folder(
            folder,
            course,
            hints,
            seed=drawn,
            part=begin,
            source=sys.stdin,
            console=console,
            catalogue=console.catalogue,
        )
    except KeyboardInterrupt:
        tell("Interrupted.", err=True)
        raise typer.Exit(INTERRUPTED) from None
    total = progress_total(course, progress, console.catalogue)
    again = console.catalogue.say(f"See it again: workshop status{track_flag(track)}")
    console.print(Text(f"{total}. {again}"), soft_wrap=True)
