"""`workshop lab`: JupyterLab on a copy of the notebooks in the student's own folder."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from typing import Annotated

import typer

from autograder.cli.screen import USAGE, tell
from autograder.cli.student import course_named

EPILOG = """\b
Examples:
  workshop lab                   the notebooks, in the folder my_gpt
  workshop lab gpt-2nd-try       in another one
  workshop lab --no-browser      print the address, open nothing
  workshop lab my_gpt -- --port 9000 --allow-root    options of JupyterLab

\b
A notebook that is there already is left as it is. End JupyterLab with Ctrl-C."""


def lab(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Made if it is not there.")] = Path("my_gpt"),
    options: Annotated[
        list[str] | None, typer.Argument(metavar="[-- OPTION...]", help="Options of JupyterLab itself.")
    ] = None,
    browser: Annotated[bool, typer.Option(help="Open a browser.")] = True,
    track: Annotated[str, typer.Option(metavar="NAME", help="The course.")] = "gpt",
) -> None:
    """Work in JupyterLab, on notebooks of your own."""
    from autograder.stubs import StubError, start_notebooks

    course = course_named(track)
    missing = [name for name in ("jupyterlab", "ipykernel") if importlib.util.find_spec(name) is None]
    if missing:
        tell(
            f"Error: {' and '.join(missing)} cannot be found by {sys.executable}. "
            'Run: pip install "gpt-workshop-kit[notebook]"',
            err=True,
        )
        raise typer.Exit(USAGE)
    try:
        written, there = start_notebooks(course, folder)
    except StubError as error:
        tell(f"Error: {error}", err=True)
        raise typer.Exit(USAGE) from None
    if written:
        tell(f"Written to {folder}: {', '.join(written)}")
    if there:
        tell(f"Left as they are in {folder}: {', '.join(there)}")
    first = written[0] if written else there[0]
    command = [
        sys.executable,
        "-m",
        "jupyterlab",
        f"--ServerApp.root_dir={folder.resolve()}",
        str(folder.resolve() / first),
    ]
    # The kernel called python3 is then the one of this interpreter, whatever the user has registered elsewhere.
    environment = {**os.environ, "JUPYTER_PREFER_ENV_PATH": "1"}
    try:
        done = subprocess.run(
            [*command, *([] if browser else ["--no-browser"]), *(options or [])], env=environment, check=False
        )
    except KeyboardInterrupt:
        return
    raise typer.Exit(done.returncode)
