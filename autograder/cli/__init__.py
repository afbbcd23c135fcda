"""The `workshop` command. Its modules import what is heavy (torch, templates) only inside the command that needs it."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from autograder import __version__
from autograder.cli import corpus, instructor, records, student, training, writing

_EPILOG = """\b
Examples:
  workshop check attention        check the part you are working on
  workshop grade submissions      grade a folder, one student each
  workshop regrade submissions    grade again, and see what changed and why
  workshop history ada            all results of one student
  workshop train --path exercises train the GPT that you wrote
  workshop generate runs/cpu      write with it

\b
`workshop check --help` and `workshop grade --help` show more."""

app = typer.Typer(
    name="workshop",
    epilog=_EPILOG,
    rich_markup_mode=None,  # plain help: brackets stay brackets, and no box characters on any terminal
    pretty_exceptions_enable=False,
    add_completion=False,
    no_args_is_help=True,
)
app.command("check", epilog=student.EPILOG)(student.check)
app.command("grade", epilog=instructor.EPILOG)(instructor.grade)
app.command("regrade", epilog=instructor.REGRADE_EPILOG)(instructor.regrade)
app.command("history", epilog=records.HISTORY_EPILOG)(records.history)
app.command("data", epilog=corpus.EPILOG)(corpus.data)
app.command("train", epilog=training.EPILOG)(training.train)
app.command("generate", epilog=writing.EPILOG)(writing.generate)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"workshop {__version__}")
        raise typer.Exit


@app.callback()
def workshop(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and leave.")
    ] = False,
) -> None:
    """Write a GPT, and know what is wrong with it."""


def main() -> None:
    """Run the command line. Exits with a status; text that the terminal cannot show is replaced, never an error."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    app(prog_name="workshop")
