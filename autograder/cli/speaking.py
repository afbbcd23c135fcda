"""The commands' own words, --help and errors about arguments, in the reader's language."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import typer
import typer.core

from autograder.cli.screen import reader

# Contexts and commands are click's in some versions of typer, and typer's own in others: hence Any.


class Commands(typer.core.TyperGroup):
    """The `workshop` command and those below it."""

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command with its help in the reader's language. Commands are made anew for each process."""
        command = super().get_command(ctx, cmd_name)
        catalogue = reader()
        if command is not None and catalogue:
            _translate(command, catalogue.say)
        return command

    def get_help(self, ctx: Any) -> str:
        """Return the help of the whole."""
        catalogue = reader()
        if catalogue:
            _translate(self, catalogue.say)
        return super().get_help(ctx)

    def invoke(self, ctx: Any) -> Any:
        """Run the command that was asked for; what is wrong with its arguments is said in the reader's language."""
        try:
            return super().invoke(ctx)
        except typer.BadParameter as error:
            vars(error)["message"] = reader().say(error.message)
            raise


def _translate(command: Any, say: Callable[[str], str]) -> None:
    command.help = _said(command.help, say)
    command.epilog = _said(command.epilog, say)
    for parameter in command.params:
        if getattr(parameter, "help", None):
            parameter.help = _said(parameter.help, say)


def _said(text: str | None, say: Callable[[str], str]) -> str | None:
    return say(text.strip()) if text else text
