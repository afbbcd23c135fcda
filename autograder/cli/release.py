"""`workshop release`: build the kit that students get."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from autograder.cli.screen import OUR_FAULT, tell
from autograder.cli.student import course_named

EPILOG = """\b
Examples:
  workshop release                    into the folder release
  workshop release --out kits --seed 7

\b
Writes gpt-workshop-kit-VERSION/ and the same as a .zip: stubs, guide,
autograder, and sealed answers instead of solutions. `pip install` takes
either. The same course and seed give the same bytes. It takes a minute.
Exit status: 0 built, 2 wrong argument, 3 not built (the reason is told)."""


def release(
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where to write folder and zip.")] = Path("release"),
    seed: Annotated[
        list[int] | None,
        typer.Option(metavar="N", min=0, help="The seed whose answers are sealed; may be given again. Default: 65."),
    ] = None,
    track: Annotated[str, typer.Option(metavar="NAME", help="The course.")] = "gpt",
) -> None:
    """Build the student kit: no solution in it, and the same verdicts."""
    course = course_named(track)
    from autograder.oracle.released import released

    if released() is not None:
        tell("This is a student kit itself. Build kits in the course's checkout.", err=True)
        raise typer.Exit(OUR_FAULT)
    from autograder.authoring.release import DEFAULT_SEEDS, ReleaseError, release
    from autograder.probe.client import ProbeFailure

    try:
        kit = release(course, out, tuple(dict.fromkeys(seed or DEFAULT_SEEDS)), lambda line: tell(line, err=True))
    except ReleaseError as error:
        tell(f"No kit was built. {error}", err=True)
        raise typer.Exit(OUR_FAULT) from None
    except ProbeFailure as failure:
        tell(f"No kit was built: the sandbox failed ({failure.message})", err=True)
        raise typer.Exit(OUR_FAULT) from None
    tell(f"Version {kit.version}: {kit.files} files, {kit.size / 1e6:.1f} MB packed")
    tell(f"Folder:  {kit.folder}")
    tell(f"Archive: {kit.archive}")
