"""`workshop build`: the stubs and notebooks of exercises/, generated from solutions/."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Annotated

import typer

from autograder.cli.screen import NOT_RIGHT, USAGE, tell
from autograder.cli.student import course_with
from autograder.track import Track

EPILOG = """\b
Examples:
  workshop build                   write exercises/ anew from solutions/
  workshop build --check           only name what is stale (exit status 1)
  workshop build --solved answers  the notebooks with our answers, elsewhere
  workshop build --nbgrader course --assignment gpt
                                   course/source/gpt/, for nbgrader
  workshop build --nbgrader course --assignment week4 --parts training,generation
                                   optional parts, as an assignment of their own

\b
What somebody has written into a stub is kept beside it, as
attention.before-build-1.txt. In an nbgrader course an older notebook is kept
beside gradebook.db, where nbgrader does not hand it out.
Exit status: 0, 1 stale, 2 cannot be done."""


def build(
    check: Annotated[bool, typer.Option("--check", help="Write nothing; name what is stale.")] = False,
    solved: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write the notebooks with our answers to DIR, and nothing else.")
    ] = None,
    nbgrader: Annotated[
        Path | None, typer.Option(metavar="COURSE_DIR", help="Write the source assignment of an nbgrader course there.")
    ] = None,
    assignment: Annotated[
        str | None, typer.Option(metavar="NAME", help="What nbgrader calls it. Default: the course's name.")
    ] = None,
    parts: Annotated[
        str | None,
        typer.Option(
            metavar="A,B|all", help="The assignment's parts: names, or all with the optional ones. Default: required."
        ),
    ] = None,
    root: Annotated[Path | None, typer.Option(metavar="DIR", help="The course's checkout. Default: the kit's.")] = None,
    track: Annotated[str, typer.Option(metavar="NAME", help="The course.")] = "gpt",
) -> None:
    """Generate the stubs and notebooks, and the nbgrader assignment, from the solutions."""
    import autograder
    from autograder.oracle.released import released

    course = course_with(track, parts)
    if released() is not None:
        tell("This is a student kit: what it holds was built in the course's checkout.", err=True)
        raise typer.Exit(USAGE)
    from autograder.authoring.build import build as write_all
    from autograder.authoring.build import stale
    from autograder.authoring.regions import AuthoringError

    top = root or Path(autograder.__file__).resolve().parents[1]
    if missing := [name for name in ("jupytext", "nbformat") if importlib.util.find_spec(name) is None]:
        tell(f'Error: this needs {" and ".join(missing)}: pip install "gpt-workshop-kit[authoring]"', err=True)
        raise typer.Exit(USAGE)
    for option, given in (("--assignment", assignment), ("--parts", parts)):
        if given is not None and nbgrader is None:
            raise typer.BadParameter(
                "this is about an nbgrader assignment: add --nbgrader COURSE_DIR.", param_hint=option
            )
    try:
        if solved is not None:
            _write_solved(top, course, solved)
            return
        if nbgrader is not None:
            _write_assignment(top, course, nbgrader, course.name if assignment is None else assignment, check)
            return
        changes = stale(top, course) if check else write_all(top, course)
    except AuthoringError as error:
        tell(f"Error: {error}", err=True)
        raise typer.Exit(USAGE) from None
    for change in changes:
        kept = f"; what was written there is kept in {change.kept.name}" if change.kept else ""
        word = {"left over": "no source"}.get(change.what, change.what if check else "written")
        tell(f"{word}: {change.file.relative_to(top)}{kept}")
    left = any(change.what == "left over" for change in changes)
    if check and changes:
        tell("Run: workshop build" + (" (and remove what has no source)" if left else ""))
        raise typer.Exit(NOT_RIGHT)
    if not changes:
        tell("Everything in exercises is current.")


def _write_assignment(root: Path, course: Track, folder: Path, name: str, check: bool) -> None:
    """Write the assignment into an nbgrader course, or with `check` name what is stale there. Raises AuthoringError."""
    from autograder.authoring.assignment import (
        assignment_files,
        shows_hidden_tests,
        stale_assignment,
        write_assignment,
    )
    from autograder.gradebook.cells import notebook_name, options

    files = assignment_files(root, course, folder, name)
    changes = stale_assignment(files) if check else write_assignment(files, folder)
    for change in changes:
        kept = f"; the one that was there is now {change.kept}" if change.kept else ""
        tell(f"{change.what if check else 'written'}: {change.file}{kept}")
    if shows_hidden_tests(folder):
        tell(
            f"{folder / 'nbgrader_config.py'} is yours, and lets nbgrader show hidden tests in its feedback. Add:\n"
            'c.GenerateFeedback.preprocessors = ["nbgrader.preprocessors.GetGrades", '
            '"nbgrader.preprocessors.ClearHiddenTests", "nbconvert.preprocessors.CSSHTMLHeaderPreprocessor"]'
        )
    if check and changes:
        tell(f"Run: workshop build --nbgrader {folder} --assignment {name}{options(course)}")
        raise typer.Exit(NOT_RIGHT)
    if changes:
        tell(f"Next, in {folder}: nbgrader generate_assignment {name}")
    else:
        tell(f"source/{name}/{notebook_name(course)}.ipynb is current.")


def _write_solved(root: Path, course: Track, folder: Path) -> None:
    """Write the solved notebooks into a folder that holds none of them yet. Raises AuthoringError."""
    from autograder.authoring.build import solved_notebooks, write_text
    from autograder.authoring.regions import AuthoringError

    books = solved_notebooks(root, course)
    if there := [name for name in books if (folder / name).exists()]:
        raise AuthoringError(f"{folder} holds {there[0]} already, and may hold somebody's work: name another folder.")
    for name, text in books.items():
        write_text(folder / name, text)
    tell(f"Written to {folder}: {', '.join(books)}")
