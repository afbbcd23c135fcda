"""Where the commands write: consoles that never fail on an encoding or a closed pipe, and the exit statuses."""

from __future__ import annotations

import io
import os
import secrets
import sys
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, TextIO, TypeVar

import typer
from rich.console import Console

from autograder.catalogue import ENGLISH, Catalogue, CatalogueError, load, of_environment
from autograder.oracle.released import course_meant, released

T = TypeVar("T")

NOT_RIGHT = 1  # something in the submission is not right
USAGE = 2  # a wrong argument or path
OUR_FAULT = 3  # something could not be graded for a reason of ours
INTERRUPTED = 130  # 128 + SIGINT, as shells have it


class Screen(Console):
    """A rich console for text that is not markup, which goes on in silence when the reader has left."""

    def __init__(self, stream: TextIO) -> None:
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a name outside the terminal's encoding must not end the grading
        super().__init__(file=stream, markup=False, highlight=False, emoji=False)
        self.catalogue = reader()

    def print(self, *objects: Any, **how: Any) -> None:
        """Print as rich does; sentences are said in the reader's language."""
        super().print(*(self.catalogue.say(each) if isinstance(each, str) else each for each in objects), **how)

    @property
    def animated(self) -> bool:
        """Tell whether a progress bar can be redrawn in place here."""
        return self.is_terminal and not self.is_dumb_terminal

    def on_broken_pipe(self) -> None:
        """Drop the rest of the output (`workshop grade ... | head`): the files are still to be written."""
        self.quiet = True
        leave_pipe(self.file)


#: The language of the command that runs, in its own context.
_language: ContextVar[Catalogue | None] = ContextVar("language", default=None)


def speak(name: str) -> None:
    """Speak this language from here on. A usage error where there is none of that name."""
    try:
        _language.set(load(name))
    except CatalogueError as error:
        _language.set(ENGLISH)
        raise typer.BadParameter(str(error)) from None


def reader() -> Catalogue:
    """Return the language of whoever sees the output: --language, else $WORKSHOP_LANG, else English.

    A usage error where there is no such language.
    """
    chosen = _language.get()
    if chosen is not None:
        return chosen
    try:
        return of_environment()
    except CatalogueError as error:
        raise typer.BadParameter(str(error), param_hint="WORKSHOP_LANG") from None


def tell(message: str, *, err: bool = False) -> None:
    """Write a sentence for people, in their language."""
    typer.echo(reader().say(message), err=err)


def leave_pipe(stream: object) -> None:
    """Point a stream whose reader has left to nowhere, so that its last flush at exit fails no more."""
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())  # type: ignore[attr-defined]
        os.close(nowhere)
    except (OSError, AttributeError, ValueError):  # not a real file: nothing is flushed at exit
        pass


def write_plain(text: str) -> None:
    """Write text meant for programs to stdout, as it is."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        leave_pipe(sys.stdout)


def fresh_seed() -> int:
    """Return a seed that nobody can foresee: 31 bits, so that it is easily typed again."""
    return secrets.randbits(31)


def course_or_default(name: str) -> str:
    """Return the course that a command means which names `name`; exit status 3 where the kit is damaged."""
    return _unless_damaged(lambda: course_meant(name))


def _unless_damaged(read: Callable[[], T]) -> T:
    try:
        return read()
    except ValueError as error:
        tell(str(error), err=True)
        raise typer.Exit(OUR_FAULT) from None


def seed_or_fresh(seed: int | None = None) -> int:
    """Return the seed to check with: the one that was asked for, or a fresh one. A student kit has its own.

    A usage error where a kit holds no answers for `seed`; exit status 3 where the kit is damaged.
    """
    kit = _unless_damaged(released)
    if kit is None:
        return fresh_seed() if seed is None else seed
    if seed is None or seed in kit.seeds:
        return secrets.choice(kit.seeds) if seed is None else seed
    known = ", ".join(map(str, kit.seeds))
    raise typer.BadParameter(f"this kit holds the answers for {known} alone: leave --seed out.", param_hint="--seed")
