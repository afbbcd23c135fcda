"""`check` and `hint`: grade the definitions of the running notebook, and show what was found under the cell."""

from __future__ import annotations

import contextlib
import difflib
import secrets
from functools import partial
from pathlib import Path
from types import FunctionType
from typing import TYPE_CHECKING

from autograder.hints import Hints, Ladder, load_hints
from autograder.jupyter.cells import history
from autograder.jupyter.gathering import Gathered, gather
from autograder.jupyter.showing import can_press, hint_button, note, reader, show
from autograder.progress import Progress, ProgressError, ProgressFile, holds_work
from autograder.reports.notebook import hint_html, hint_plain, note_html, report_html, report_text
from autograder.track import Track, load_track
from autograder.verdict import Report, Verdict

if TYPE_CHECKING:
    from autograder.sandbox import Nursery


def check(*things: type | str, track: str = "gpt", seed: int | None = None) -> None:
    """Check classes of this notebook: `check(CausalSelfAttention)`, `check("attention")`, `check()` for all.

    What is graded is the code of the cells that were run; a part that is not here is read from its own notebook in
    the same folder. It runs in a process of its own: interrupting the kernel ends it.
    """
    course, folder = load_track(track), Path.cwd()
    asked = []
    for thing in things:
        name, problem = part_of(thing, course)
        if problem:
            note(problem)
            return
        asked.append(name)
    gathered = gather(course, history(), folder)
    wanted = [part for part in course.every if part.name in asked] if asked else list(course.parts)
    missing = [part.title for part in wanted if not any(name in gathered.places for name in part.names)]
    if missing and (asked or len(missing) == len(wanted)):
        sentence = f"There is no {' and no '.join(missing)} here yet: run the cell that defines it, then check again."
        problem = " ".join([*gathered.notices, sentence])
        note(problem)
        return
    try:
        report = grade_gathered(gathered, course, secrets.randbits(31) if seed is None else seed, asked)
    except KeyboardInterrupt:
        note("Interrupted: nothing was graded.")
        return
    show_report(report, gathered, course, folder, asked)


def hint(thing: type | str | None = None, track: str = "gpt") -> None:
    """Show the next hint for a part: `hint("attention")`. Without an argument: for the first that is not passed."""
    course, folder = load_track(track), Path.cwd()
    progress, _ = _progress(folder, course)
    name, problem = part_of(thing, course) if thing is not None else (progress.current(course), "")
    if problem:
        note(problem)
        return
    ladder, rung = _next(load_hints(track), course, folder, name)
    if ladder is None:
        note(f"The course has no hints for {name}.")
    else:
        language = reader()
        show(hint_html(ladder, rung, language), hint_plain(ladder, rung, language))


def part_of(thing: object, track: Track) -> tuple[str, str]:
    """Return the part that a class or a word names, or a sentence why there is none."""
    word = thing.__name__ if isinstance(thing, type | FunctionType) else thing
    names = {name.casefold(): part.name for part in track.every for name in part.names}
    names |= {part.file.casefold(): part.name for part in track.every}
    names |= {part.name: part.name for part in track.every}
    known = ", ".join(part.name for part in track.every)
    if not isinstance(word, str):
        return "", f"check takes a class or the name of a part, not {type(word).__name__}. The parts are: {known}."
    if found := names.get(word.casefold()):
        return found, ""
    near = difflib.get_close_matches(word.casefold(), names, n=1, cutoff=0.5)
    guess = f" Did you mean {names[near[0]]}?" if near else ""
    return "", f"There is no part {word!r}.{guess} The parts are: {known}."


def grade_gathered(
    gathered: Gathered, track: Track, seed: int, asked: list[str], sandbox: Nursery | None = None
) -> Report:
    """Grade in `sandbox`, or one of its own. Our own failures become a report that says so."""
    from autograder.sandbox import Limits, Nursery

    limits = Limits()
    student = gathered.submission.student
    try:
        with contextlib.nullcontext(sandbox) if sandbox is not None else Nursery(limits) as nursery:
            nursery.start()  # its process imports torch while the next line may do the same here
            from autograder.grading import grade

            return grade(gathered.submission, track, nursery, seed=seed, limits=limits, parts=asked or None)
    except Exception as error:  # ours, whatever it is: never shown as a mistake of the student
        from autograder.classroom import failure_report

        reason = f"The grader failed ({type(error).__name__}: {error}). Please report this, with your notebook."
        return failure_report(student, track, seed, reason)


def show_report(report: Report, gathered: Gathered, track: Track, folder: Path, asked: list[str]) -> None:
    """Show what was found about the parts in `asked` (all, when it is empty), and keep the progress."""
    progress, notices = _progress(folder, track, report)
    parts = [part for name, part in report.parts.items() if not asked or name in asked]
    hints = load_hints(track.name)
    open_parts = [part.name for part in parts if part.verdict not in (Verdict.PASSED, Verdict.UNGRADABLE)]
    ladders = [_ladder(hints, name, progress) for name in open_parts]
    found = [ladder for ladder in ladders if ladder is not None]
    press = can_press()
    known = [(part.title, track.part(part.name).names) for part in parts]
    found_in = [(title, gathered.places[name]) for title, names in known for name in names if name in gathered.places]
    sources = ", ".join(f"{title} from {place}" for title, place in dict(found_in).items())
    language = reader()
    shown = () if press else found
    html = report_html(report, parts, track, progress, hints=shown, sources=sources, catalogue=language)
    told = [language.say(notice) for notice in (*gathered.notices, *notices)]
    text = "\n".join([report_text(report, parts, track, progress, language), *told])
    for notice in told:
        html += note_html(notice)
    show(html, text)
    if press:
        for name in open_parts[:1]:
            hint_button(name, partial(_pressed, hints, track, folder, name))


def _pressed(hints: Hints, track: Track, folder: Path, name: str) -> str:
    ladder, rung = _next(hints, track, folder, name)
    return "" if ladder is None else hint_html(ladder, rung, reader())


def _next(hints: Hints, track: Track, folder: Path, name: str) -> tuple[Ladder | None, int]:
    """Return the next rung for a part, and note that it was read."""
    progress, _ = _progress(folder, track)
    known = progress.part(name)
    found = hints.next_rung(name, known.wrong, known.hints)
    if found is None:
        return None, 0
    ladder, rung = found
    if _keeps(folder, track):
        try:
            ProgressFile(folder, track.name).update(lambda before: before.with_hint(name, ladder.topic, rung))
        except ProgressError as error:
            print(error)
    return ladder, rung


def _ladder(hints: Hints, name: str, progress: Progress) -> Ladder | None:
    found = hints.about(name, progress.part(name).wrong)
    return found if found is not None else hints.ladder(name, "general")


def _keeps(folder: Path, track: Track) -> bool:
    """Tell whether progress is kept in `folder`: it holds a part, as a notebook or as a file."""
    books = (part.file.removesuffix(".py") + ".ipynb" for part in track.every)
    return holds_work(folder, track) or any((folder / name).is_file() for name in books)


def _progress(folder: Path, track: Track, report: Report | None = None) -> tuple[Progress, list[str]]:
    """Return the progress in `folder`, after `report` if there is one, and what went wrong with its file."""
    file = ProgressFile(folder, track.name)
    after = Progress() if report is None else Progress().with_report(report)
    if not _keeps(folder, track):
        return after, []
    try:
        known = file.read() if report is None else file.update(lambda before: before.with_report(report))
    except ProgressError as error:
        return after, [str(error)]
    return known, file.notices
