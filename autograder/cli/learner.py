"""`workshop start`, `status`, `hint` and `reset`: what a student does between checks."""

from __future__ import annotations

import difflib
import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from autograder.cli.folder import folder_named, hints_named, note, read_progress
from autograder.cli.screen import USAGE, Screen, tell
from autograder.cli.student import course_named, part_named, track_flag
from autograder.hints import RUNGS, Hints, Ladder
from autograder.progress import Progress, holds_work

START_EPILOG = """\b
Examples:
  workshop start                 the stubs, into the folder my_gpt
  workshop start gpt-2nd-try     into another one

\b
A file that is there already is left as it is."""

STATUS_EPILOG = """\b
Points are the best so far. An attempt is a check of a file that you changed.
All of it is kept in one plain file, .workshop-progress.json."""

HINT_EPILOG = """\b
Examples:
  workshop hint                  the next hint for the part you are on
  workshop hint attention        again: one rung further
  workshop hint mlp --rung 1     an earlier one again
  workshop hint gpt --about loss

\b
Three rungs: the idea, what goes in and out, the steps in words. They fit what
the last check found wrong. Reading them costs nothing."""

RESET_EPILOG = """\b
Your file is kept beside the stub, as attention.before-reset-1.txt.
Exit status: 0, or 1 when you said no, 2 when it cannot be done."""

_PATH = typer.Option(metavar="DIR", help="Your folder.")
_TRACK = typer.Option(metavar="NAME", help="The course.")


def start(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Made if it is not there.")] = Path("my_gpt"),
    track: Annotated[str, _TRACK] = "gpt",
) -> None:
    """Put the stubs into a folder of your own."""
    from autograder.stubs import StubError
    from autograder.stubs import start as put_stubs

    course = course_named(track)
    try:
        written, there = put_stubs(course, folder)
    except StubError as error:
        tell(f"Error: {error}", err=True)
        raise typer.Exit(USAGE) from None
    if written:
        tell(f"Written to {folder}: {', '.join(written)}")
    if there:
        tell(f"Left as they are in {folder}: {', '.join(there)}")
    where = (
        "" if folder == Path() else f"cd {shlex.quote(str(folder))}, open {course.parts[0].file} in your editor, and "
    )
    tell(f"Next: {where}run: workshop watch{track_flag(track)}")


def status(path: Annotated[Path, _PATH] = Path(), track: Annotated[str, _TRACK] = "gpt") -> None:
    """Show what you have reached: parts, points, attempts, hints."""
    from autograder.reports.progress import progress_table, progress_total
    from autograder.reports.terminal import writes_ascii

    course, folder = course_named(track), folder_named(path)
    progress = read_progress(folder, course)
    console = Screen(sys.stdout)
    ascii, current = writes_ascii(console), progress.current(course)
    console.print(progress_table(course, progress, ascii=ascii, current=current, catalogue=console.catalogue))
    console.print(progress_total(course, progress, console.catalogue))
    if course.optional:
        tell(f"* optional, with points of its own: workshop check {' '.join(p.name for p in course.optional)}")
    if not progress.parts:
        flag = track_flag(track)
        tell(f"Nothing was checked here yet. Run: workshop check{flag}, or: workshop watch{flag}")


def hint(
    part: Annotated[
        str | None, typer.Argument(metavar="PART", help="Default: the first part that is not passed.")
    ] = None,
    rung: Annotated[
        int | None, typer.Option(metavar="N", min=1, max=len(RUNGS), help="This rung, instead of the next one.")
    ] = None,
    about: Annotated[str | None, typer.Option(metavar="TOPIC", help="Another topic; a wrong one lists them.")] = None,
    path: Annotated[Path, _PATH] = Path(),
    track: Annotated[str, _TRACK] = "gpt",
) -> None:
    """Show the next hint for a part, or for what went wrong in it."""
    from autograder.reports.progress import hint_text

    course, folder, hints = course_named(track), folder_named(path), hints_named(track)
    progress = read_progress(folder, course)
    name = part_named(part, course) if part else progress.current(course)
    ladder, step = _chosen(hints, name, about, rung, progress)
    console = Screen(sys.stdout)
    console.print(hint_text(ladder, step, console.catalogue))
    again = "workshop hint " + name + (f" --about {about}" if about else "") + track_flag(track)
    if step < len(ladder.rungs):
        console.print(f"More: {again}" + (f" --rung {step + 1}" if rung else ""))
    note(folder, course, lambda before: before.with_hint(name, ladder.topic, step))
    if not holds_work(folder, course):
        tell(f"(Not noted: {folder.resolve()} holds none of your files. Name yours with --path.)", err=True)


def reset(
    part: Annotated[str, typer.Argument(metavar="PART", help="The part to begin anew.")],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    path: Annotated[Path, _PATH] = Path(),
    track: Annotated[str, _TRACK] = "gpt",
) -> None:
    """Put a part's stub back; your file is kept beside it."""
    from autograder.stubs import StubError, name_for_old
    from autograder.stubs import reset as put_back

    course, folder = course_named(track), folder_named(path)
    chosen = course.part(part_named(part, course))
    file = folder / chosen.file
    try:
        if file.exists() and not yes:
            question = f"Put the stub of {file} back? What you wrote is kept as {name_for_old(file).name}"
            if not typer.confirm(question):
                tell("Nothing was changed.")
                raise typer.Exit(1)
        done = put_back(course, chosen, folder)
    except StubError as error:
        tell(f"Error: {error}", err=True)
        raise typer.Exit(USAGE) from None
    if not done.changed:
        tell(f"{file} is the stub already.")
        return
    note(folder, course, lambda before: before.with_reset(chosen.name))
    tell(f"{file} is the stub again." + (f" What you wrote is in {done.kept}." if done.kept else ""))


def _chosen(hints: Hints, part: str, about: str | None, rung: int | None, progress: Progress) -> tuple[Ladder, int]:
    known = progress.part(part)
    if about is not None:
        ladder = hints.ladder(part, about.casefold())
        if ladder is None:
            topics = [each.topic for each in hints.of(part)]
            near = difflib.get_close_matches(about.casefold(), topics, n=1, cutoff=0.5)
            guess = f" Did you mean {near[0]}?" if near else ""
            known_topics = ", ".join(topics) or "none"
            raise typer.BadParameter(
                f"there is no topic {about!r} in {part}.{guess} The topics are: {known_topics}.", param_hint="--about"
            )
        return ladder, rung or min(max(known.hints.get(ladder.topic, ()), default=0) + 1, len(ladder.rungs))
    found = hints.next_rung(part, known.wrong, known.hints)
    if found is None:
        raise typer.BadParameter(f"the course has no hints for {part}.", param_hint="PART")
    if rung is not None:
        return hints.about(part, known.wrong) or found[0], rung
    return found
