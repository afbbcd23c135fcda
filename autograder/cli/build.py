"""`workshop build`: the stubs and notebooks of exercises/, generated from solutions/."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Annotated

import typer

from autograder.cli.screen import NOT_RIGHT, USAGE
from autograder.cli.student import course_named
from autograder.track import Track

EPILOG = """\b
Examples:
  workshop build                   write exercises/ anew from solutions/
  workshop build --check           only name what is stale (exit status 1)
  workshop build --solved answers  the notebooks with our answers, elsewhere

\b
What somebody has written into a stub is kept beside it, as
attention.before-build-1.txt. Exit status: 0, 1 stale, 2 cannot be done."""


def build(
    check: Annotated[bool, typer.Option("--check", help="Write nothing; name what is stale.")] = False,
    solved: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write the notebooks with our answers to DIR, and nothing else.")
    ] = None,
    root: Annotated[Path | None, typer.Option(metavar="DIR", help="The course's checkout. Default: the kit's.")] = None,
    track: Annotated[str, typer.Option(metavar="NAME", help="The course.")] = "gpt",
) -> None:
    """Generate the stubs and notebooks from the solutions."""
    import autograder
    from autograder.oracle.released import released

    course = course_named(track)
    if released() is not None:
        typer.echo("This is a student kit: what it holds was built in the course's checkout.", err=True)
        raise typer.Exit(USAGE)
    from autograder.authoring.build import build as write_all
    from autograder.authoring.build import stale
    from autograder.authoring.regions import AuthoringError

    top = root or Path(autograder.__file__).resolve().parents[1]
    if missing := [name for name in ("jupytext", "nbformat") if importlib.util.find_spec(name) is None]:
        typer.echo(f'Error: this needs {" and ".join(missing)}: pip install "gpt-workshop-kit[authoring]"', err=True)
        raise typer.Exit(USAGE)
    try:
        if solved is not None:
            _write_solved(top, course, solved)
            return
        changes = stale(top, course) if check else write_all(top, course)
    except AuthoringError as error:
        typer.echo(f"Error: {error}", err=True)
        raise typer.Exit(USAGE) from None
    for change in changes:
        kept = f"; what was written there is kept in {change.kept.name}" if change.kept else ""
        word = {"left over": "no source"}.get(change.what, change.what if check else "written")
        typer.echo(f"{word}: {change.file.relative_to(top)}{kept}")
    left = any(change.what == "left over" for change in changes)
    if check and changes:
        typer.echo("Run: workshop build" + (" (and remove what has no source)" if left else ""))
        raise typer.Exit(NOT_RIGHT)
    if not changes:
        typer.echo("Everything in exercises is current.")


def _write_solved(root: Path, course: Track, folder: Path) -> None:
    """Write the solved notebooks into a folder that holds none of them yet. Raises AuthoringError."""
    from autograder.authoring.build import solved_notebooks, write_text
    from autograder.authoring.regions import AuthoringError

    books = solved_notebooks(root, course)
    if there := [name for name in books if (folder / name).exists()]:
        raise AuthoringError(f"{folder} holds {there[0]} already, and may hold somebody's work: name another folder.")
    for name, text in books.items():
        write_text(folder / name, text)
    typer.echo(f"Written to {folder}: {', '.join(books)}")
