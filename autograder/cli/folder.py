"""The student's folder as the commands find it: whose progress is kept in it, and what is told when that fails."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import typer

from autograder.cli.screen import course_or_default, tell
from autograder.hints import Hints, load_hints
from autograder.progress import Progress, ProgressError, ProgressFile, holds_work
from autograder.track import Track


def folder_named(path: Path) -> Path:
    """Return `path` when it is a folder; a usage error otherwise."""
    if not path.is_dir():
        what = "is not a folder" if path.exists() else "is not there"
        raise typer.BadParameter(f"{path} {what}. Name the folder with your stubs.", param_hint="--path")
    return path


def hints_named(name: str) -> Hints:
    """Return the hints of the track called `name`; a usage error when they cannot be read."""
    try:
        return load_hints(course_or_default(name))
    except (ValueError, OSError) as error:
        raise typer.BadParameter(str(error), param_hint="--track") from error


def read_progress(folder: Path, track: Track) -> Progress:
    """Return the progress kept in `folder`; what is wrong with its file goes to stderr."""
    file = ProgressFile(folder, track.name)
    try:
        progress = file.read()
    except ProgressError as error:
        tell(str(error), err=True)
        progress = Progress()
    for notice in file.notices:
        tell(notice, err=True)
    return progress


def note(path: Path, track: Track, change: Callable[[Progress], Progress]) -> None:
    """Note a change of progress in the student's folder; a folder that cannot be written is told, and no error."""
    if not holds_work(path, track):
        return
    file = ProgressFile(path, track.name)
    try:
        file.update(change)
    except ProgressError as error:
        tell(str(error), err=True)
    for notice in file.notices:
        tell(notice, err=True)
