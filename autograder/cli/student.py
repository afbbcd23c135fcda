"""`workshop check`: grade one's own work, one part or all, and say what to do next."""

from __future__ import annotations

import difflib
import gc
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from autograder.cli.folder import note
from autograder.cli.screen import (
    INTERRUPTED,
    NOT_RIGHT,
    OUR_FAULT,
    Screen,
    course_or_default,
    seed_or_fresh,
    tell,
    write_plain,
)
from autograder.track import Track, load_track
from autograder.verdict import Report, Verdict

EPILOG = """\b
Examples:
  workshop check                       the five parts of the GPT
  workshop check tokenizer training    optional parts (and generation)
  workshop check all                   all eight
  workshop check attention             one part
  workshop check mlp block --verbose   two parts, passed checks listed
  workshop check --path my_gpt.ipynb   a notebook, model.py or archive
  workshop check --seed 42             replay an earlier run

\b
Exit status: 0 all that was asked passes, 1 something is not right,
2 wrong argument or path, 3 it could not be graded (not your fault)."""


def check(
    parts: Annotated[
        list[str] | None,
        typer.Argument(metavar="PART", help="Parts to check: config, attention, ...; all. Default: the required ones."),
    ] = None,
    path: Annotated[Path, typer.Option(metavar="PATH", help="Your folder, model.py, notebook or archive.")] = Path(),
    track: Annotated[str, typer.Option(metavar="NAME", help="The course to check against.")] = "gpt",
    seed: Annotated[
        int | None, typer.Option(metavar="N", min=0, help="Draw the weights and inputs of an earlier run.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the whole report as JSON, and nothing else.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="List the checks that passed too.")] = False,
    progress: Annotated[bool, typer.Option(help="Note in your folder what you have reached.")] = True,
) -> None:
    """Check your own work and say what is wrong with it."""
    course = course_named(track)
    asked = parts_named(parts or [], course)
    if not path.exists():
        raise typer.BadParameter(f"{path} is not there. Name the folder or file with your work.", param_hint="--path")
    drawn = seed_or_fresh(seed)
    try:
        report = _grade(path, course, drawn, asked)
    except KeyboardInterrupt:
        tell("Interrupted.", err=True)
        raise typer.Exit(INTERRUPTED) from None
    if progress:
        note(path, course, lambda before: before.with_report(report))
    if as_json:
        from autograder.reports.tables import json_text, student_json

        write_plain(json_text(student_json(report)))
    else:
        from autograder.reports.terminal import student_report

        command = "workshop check" if path == Path() else f"workshop check --path {shlex.quote(str(path))}"
        command += track_flag(track)
        screen = Screen(sys.stdout)
        student_report(report, screen, verbose, only=asked or None, command=command, catalogue=screen.catalogue)
    raise typer.Exit(status(report, asked))


def course_named(name: str) -> Track:
    """Return the track called `name`; a usage error when there is none."""
    try:
        return load_track(course_or_default(name))
    except (ValueError, OSError) as error:
        raise typer.BadParameter(str(error), param_hint="--track") from error


def track_flag(name: str) -> str:
    """Return what a command needs besides to mean this course again; nothing for the one that is meant by default."""
    return "" if name == "gpt" else f" --track {shlex.quote(name)}"


def course_with(name: str, parts: str | None) -> Track:
    """Return the track called `name`, to be graded on `parts`: "tokenizer,training", "all"; None: the required ones."""
    track = course_named(name)
    return track.choosing(parts_named([word for word in (parts or "").split(",") if word.strip()], track))


def parts_named(words: Sequence[str], track: Track) -> list[str]:
    """Return the parts that `words` name; "all" names every one, the optional ones too."""
    if any(word.strip().casefold() == "all" for word in words):
        return [part.name for part in track.every]
    return list(dict.fromkeys(part_named(word.strip(), track) for word in words))


def part_named(word: str, track: Track) -> str:
    """Return the part that `word` names, by its name, class or file; a usage error with the nearest name otherwise."""
    names = {part.name: part.name for part in track.every}
    for part in track.every:
        for each in part.names:
            names.setdefault(each.casefold(), part.name)
        names.setdefault(part.file.casefold(), part.name)
    found = names.get(word.casefold())
    if found:
        return found
    near = difflib.get_close_matches(word.casefold(), names, n=1, cutoff=0.5)
    hint = f" Did you mean {names[near[0]]}?" if near else ""
    known = ", ".join(part.name for part in track.every)
    raise typer.BadParameter(f"there is no part {word!r}.{hint} The parts are: {known}.", param_hint="PART")


def status(report: Report, asked: Sequence[str]) -> int:
    """Return the exit status: 0 only when all that was asked passes."""
    verdicts = {report.parts[name].verdict for name in asked if name in report.parts}
    if report.verdict is Verdict.UNGRADABLE or Verdict.UNGRADABLE in verdicts:
        return OUR_FAULT
    if asked:
        whole = len([name for name in asked if name in report.parts]) == len(asked) and not report.error
        right = whole and verdicts == {Verdict.PASSED} and report.verdict is not Verdict.FORBIDDEN
    else:
        right = report.verdict is Verdict.PASSED
    return 0 if right else NOT_RIGHT


def _grade(path: Path, track: Track, seed: int, asked: Sequence[str]) -> Report:
    from autograder.sandbox import Limits, Nursery

    limits = Limits()
    student = path.resolve().name or "submission"
    try:
        with Nursery(limits) as nursery:
            nursery.start()  # its process imports torch while the next line does the same here
            gc.disable()  # collections while torch is imported find nothing, and cost a tenth of that time
            from autograder.grading import grade
            from autograder.submission import read_submission

            gc.freeze()  # nor need later ones look at all of torch again
            gc.enable()
            submission = read_submission(path, track, student)
            return grade(submission, track, nursery, seed=seed, limits=limits, parts=list(asked) or None, at_once=True)
    except Exception as error:  # ours, whatever it is: never shown as a mistake of the student
        from autograder.classroom import failure_report

        reason = f"The grader failed ({type(error).__name__}: {error}). Please report this, with your files."
        return failure_report(student, track, seed, reason)
