"""`workshop grade`: a folder of submissions in; a table, a page and a file for each student out."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from autograder import __version__
from autograder.cli.screen import INTERRUPTED, OUR_FAULT, Screen, fresh_seed, write_plain
from autograder.cli.student import course_named
from autograder.track import Track
from autograder.verdict import Report, Verdict

if TYPE_CHECKING:
    from autograder.classroom.local import Entry
    from autograder.sandbox import Limits

#: In MB on top of what torch itself takes: building and running the 10.8M GPT needs 400.
LEAST_MEMORY = 512

EPILOG = """\b
Examples:
  workshop grade submissions                    a folder, one student each
  workshop grade submitted --out ../grades      an nbgrader tree
  workshop grade ada.zip --seed 42              one archive, an earlier seed
  workshop grade submissions --json > all.json  the class as data

\b
Writes class.json, class.csv and class.html, and a .json and .html for each
student as soon as it is done. Files of students not graded now stay.
Exit status: 0 graded, 2 wrong argument or path, 3 some could not be graded
(our fault; an earlier grade of theirs stays), 130 interrupted."""


def grade(
    path: Annotated[Path, typer.Argument(metavar="PATH", help="A folder of submissions, or a single one.")],
    out: Annotated[Path, typer.Option(metavar="DIR", help="The folder for the results.")] = Path("grades"),
    seed: Annotated[
        int | None, typer.Option(metavar="N", min=0, help="Draw the weights and inputs of an earlier run.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print class.json to stdout, progress to stderr.")] = False,
    jobs: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Submissions graded at once. Default: one a core.")
    ] = None,
    timeout: Annotated[
        float | None, typer.Option(metavar="S", min=0.1, help="Seconds for each call of student code.")
    ] = None,
    memory: Annotated[
        int | None,
        typer.Option(metavar="MB", min=LEAST_MEMORY, help="Memory for student code, in MB, beside torch's own."),
    ] = None,
    track: Annotated[str, typer.Option(metavar="NAME", help="The course to grade against.")] = "gpt",
) -> None:
    """Grade a whole class and write its reports."""
    course = course_named(track)
    entries = _entries(path, course)
    _refuse_unfit(out, path)
    console = Screen(sys.stderr if as_json else sys.stdout)
    run = ClassRun(entries, course, fresh_seed() if seed is None else seed, out, console)
    try:
        interrupted = run.grade(_limits(timeout, memory), jobs)
        text = run.write_class()
    except OSError as error:  # the disk is full, or the folder went away
        typer.echo(f"The results could not be written to {out}: {error.strerror or error}.", err=True)
        raise typer.Exit(OUR_FAULT) from None
    if as_json:
        write_plain(text)
    run.tell(interrupted, table=not as_json)
    if interrupted:
        raise typer.Exit(INTERRUPTED)
    raise typer.Exit(OUR_FAULT if any(report.verdict is Verdict.UNGRADABLE for report in run.reports) else 0)


class ClassRun:
    """One run of the command: grades, writes each student's files at once, and tells how far it is."""

    def __init__(self, entries: list[Entry], track: Track, seed: int, out: Path, console: Screen) -> None:
        from autograder.reports.folder import FolderError, GradesFolder

        self.entries, self.track, self.seed, self.console = entries, track, seed, console
        self.reports: list[Report] = []
        self.kept: list[str] = []  # ungradable now, with an earlier grade that stays
        self.folder = GradesFolder(out, [student for student, _ in entries])
        try:
            self.folder.prepare()
        except FolderError as error:
            raise typer.BadParameter(str(error), param_hint="--out") from error

    def grade(self, limits: Limits, jobs: int | None) -> bool:
        """Grade all; True when Ctrl-C ended it early. Reports that are done are in `reports`, and on disk."""
        from autograder.classroom.local import grade_class

        self.console.print(f"Grading {len(self.entries)} with seed {self.seed}")
        try:
            with _progress(self.console, len(self.entries)) as show:

                def on_result(report: Report, done: int, total: int) -> None:
                    self.reports.append(report)
                    if not self.folder.write_student(report):
                        self.kept.append(report.student)
                    show(report, done, total)

                grade_class(self.entries, self.track, seed=self.seed, limits=limits, jobs=jobs, on_result=on_result)
        except KeyboardInterrupt:
            return True
        return False

    def write_class(self) -> str:
        """Write the class files from what is done, and return the text of class.json."""
        from autograder.reports.html import ClassMeta
        from autograder.reports.tables import common_isolation

        meta = ClassMeta(
            track=self.track.name,
            kit_version=__version__,
            seed=self.seed,
            isolation=common_isolation(self.reports),
            title=self.track.title,
            parts=tuple(part.name for part in self.track.parts),
            expected=len(self.entries),
        )
        return self.folder.write_class(self.reports, meta)

    def tell(self, interrupted: bool, table: bool) -> None:
        """Print the class table, and where everything is."""
        from autograder.reports.marks import isolation_sentence
        from autograder.reports.plain import clean
        from autograder.reports.tables import common_isolation
        from autograder.reports.terminal import class_table

        if table:
            class_table(self.reports, self.console)
        sentence = isolation_sentence(common_isolation(self.reports))
        if sentence:
            self.console.print(f"isolation: {clean(sentence)}")
        for student in self.kept:
            self.console.print(f"An earlier grade stays: {clean(student, limit=60)}")
        if interrupted:
            self.console.print(f"Interrupted: {len(self.reports)} of {len(self.entries)} graded. What is done is kept.")
        self.console.print(f"seed {self.seed} (replay with --seed {self.seed})")
        self.console.print(f"Reports are in {clean(self.folder.path)}: open class.html", soft_wrap=True)


def _entries(path: Path, track: Track) -> list[Entry]:
    from autograder.submission import IntakeError, find_submissions

    try:
        return find_submissions(path, track)
    except IntakeError as error:
        raise typer.BadParameter(str(error), param_hint="PATH") from error


def _refuse_unfit(out: Path, path: Path) -> None:
    from autograder.reports.folder import FolderError, check_folder

    try:
        check_folder(out, path)
    except FolderError as error:
        raise typer.BadParameter(str(error), param_hint="--out") from error


def _limits(timeout: float | None, memory: int | None) -> Limits:
    from autograder.sandbox import Limits

    given = {"wall_s": timeout, "memory_mb": memory}
    return Limits(**{name: value for name, value in given.items() if value is not None})  # type: ignore[arg-type]


@contextlib.contextmanager
def _progress(console: Screen, total: int) -> Iterator[Callable[[Report, int, int], None]]:
    """Yield what to call after each result: a bar with the time that remains, or a plain line for each."""
    from autograder.reports.terminal import result_line

    if not console.animated:
        yield lambda report, done, total: console.print(f"[{done}/{total}] {result_line(report)}", soft_wrap=True)
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    remaining = TimeRemainingColumn(elapsed_when_finished=True)
    columns = (MofNCompleteColumn(), BarColumn(), remaining, TextColumn("{task.description}", markup=False))
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("", total=total)
        yield lambda report, done, total: progress.update(task, completed=done, description=result_line(report)[:60])
