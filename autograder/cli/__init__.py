"""The `workshop` command. Its modules import what is heavy (torch, templates) only inside the command that needs it."""

from __future__ import annotations

import atexit
import os
import sys
from contextlib import suppress
from typing import Annotated, NoReturn

import typer

from autograder import __version__
from autograder.catalogue import VARIABLE
from autograder.cli import (
    build,
    corpus,
    evaluating,
    experimenting,
    export,
    instructor,
    lab,
    learner,
    poems,
    records,
    release,
    speaking,
    student,
    training,
    translating,
    watch,
    writing,
)
from autograder.cli.screen import speak

_EPILOG = """\b
Examples:
  workshop start                  the stubs, into a folder of your own
  workshop watch                  check at every save, with hints
  workshop check attention        check the part you are working on
  workshop grade submissions      grade a folder, one student each
  workshop regrade submissions    grade again, and see what changed and why
  workshop history ada            all results of one student
  workshop export canvas grades   the grades for an LMS
  workshop release                the kit for students, without solutions
  workshop train --path exercises train the GPT that you wrote
  workshop generate runs/cpu      write with it
  workshop evaluate runs/cpu      what it is worth, measured in the sandbox
  workshop lab                    the same course in JupyterLab

\b
`workshop check --help` and `workshop grade --help` show more."""

app = typer.Typer(
    name="workshop",
    cls=speaking.Commands,
    epilog=_EPILOG,
    rich_markup_mode=None,  # plain help: brackets stay brackets, and no box characters on any terminal
    pretty_exceptions_enable=False,
    add_completion=False,
    no_args_is_help=True,
)
app.command("start", epilog=learner.START_EPILOG)(learner.start)
app.command("watch", epilog=watch.EPILOG)(watch.watch)
app.command("check", epilog=student.EPILOG)(student.check)
app.command("hint", epilog=learner.HINT_EPILOG)(learner.hint)
app.command("status", epilog=learner.STATUS_EPILOG)(learner.status)
app.command("reset", epilog=learner.RESET_EPILOG)(learner.reset)
app.command("grade", epilog=instructor.EPILOG)(instructor.grade)
app.command("regrade", epilog=instructor.REGRADE_EPILOG)(instructor.regrade)
app.command("history", epilog=records.HISTORY_EPILOG)(records.history)
app.add_typer(export.export, name="export", epilog=export.EPILOG)
app.command("release", epilog=release.EPILOG)(release.release)
app.command("data", epilog=corpus.EPILOG)(corpus.data)
app.command("train", epilog=training.EPILOG)(training.train)
app.command("lab", epilog=lab.EPILOG)(lab.lab)
app.command("evaluate", epilog=evaluating.EPILOG)(evaluating.evaluate)
app.command("leaderboard", epilog=evaluating.LEADERBOARD_EPILOG)(evaluating.leaderboard)
app.command("submit-poem", epilog=poems.SUBMIT_EPILOG)(poems.submit_poem)
app.command("verify-poem", epilog=poems.VERIFY_EPILOG)(poems.verify_poem)
app.command("experiment", epilog=experimenting.EPILOG)(experimenting.experiment)
app.command("build", epilog=build.EPILOG)(build.build)
app.command("translate", epilog=translating.EPILOG)(translating.translate)
app.command("generate", epilog=writing.EPILOG)(writing.generate)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"workshop {__version__}")
        raise typer.Exit


def _speak(name: str) -> str:
    speak(name)
    return name


@app.callback()
def workshop(
    language: Annotated[
        str,
        typer.Option(
            metavar="CODE",
            envvar=VARIABLE,
            callback=_speak,
            is_eager=True,
            help="The language to speak: en, de, or a .po file of your own. Never the terminal's.",
        ),
    ] = "en",
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and leave.")
    ] = False,
) -> None:
    """Write a GPT, and know what is wrong with it."""


def main() -> NoReturn:
    """Run the command line. Exits with a status; text that the terminal cannot show is replaced, never an error."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    try:
        app(prog_name="workshop")
    except SystemExit as end:
        if isinstance(end.code, int):
            _leave(end.code)
        raise
    _leave(0)


def _leave(status: int) -> NoReturn:
    """End the process at once after its exit handlers: taking torch apart takes half a second, and helps nobody."""
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):  # the reader has gone, or the stream is closed
            stream.flush()
    os._exit(status)
