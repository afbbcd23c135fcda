"""One run over a class: grades what the ledger lacks, keeps each result, writes the reports, tells what is what."""

from __future__ import annotations

import contextlib
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from autograder import __version__
from autograder.cli.engine import Engine
from autograder.cli.screen import USAGE, Screen, seed_or_fresh, tell
from autograder.track import Track
from autograder.verdict import Report, Verdict

if TYPE_CHECKING:
    from autograder.classroom.changes import Change
    from autograder.classroom.late import Late, Policy
    from autograder.classroom.ledger import Kind, Result
    from autograder.classroom.local import Entry
    from autograder.sandbox import Limits

#: At most so many late hand-ins are listed on the terminal: the rest is in the files.
_LISTED = 20


@dataclass(frozen=True)
class Order:
    """What the command was asked to do."""

    source: Path  # as given
    entries: list[Entry]
    track: Track
    limits: Limits
    out: Path
    seed: int | None
    anew: bool = False  # grade also what is there already
    kind: Kind = "grade"
    policy: Policy | None = None
    engine: Engine = field(default_factory=Engine)
    trusted: bool = False  # run student code even where it cannot be isolated


class ClassRun:
    """One run of the command; a context manager, for it holds the ledger of its folder."""

    def __init__(self, order: Order, console: Screen) -> None:
        from autograder.classroom.ledger import Ledger, LedgerError, Terms
        from autograder.classroom.rows import Rows
        from autograder.reports.folder import FolderError, GradesFolder

        self.order, self.console = order, console
        self.paths = dict(order.entries)
        self._rows = Rows()
        self.reports: list[Report] = []  # as rows of the class table: what else there is of a report, is on the disk
        self.failed = 0  # not graded this time, for a reason of ours
        self.kept: dict[str, str] = {}  # student whose earlier grade stays -> why there is no new one
        self.changes: list[Change] = []
        self.late: dict[str, Late] | None = {} if order.policy is not None else None
        self.left: Counter[str] = Counter()  # optional part that was handed in, and is not graded -> by how many
        self.folder = GradesFolder(order.out, list(self.paths), console.catalogue)
        try:
            self.folder.prepare()
            self.ledger = Ledger(order.out)
            self.folder.sweep()
            self.run = self.ledger.begin(
                Terms.of(order.track, order.limits),
                order.source,
                seed=order.seed,
                draw=seed_or_fresh,
                anew=order.anew,
                kind=order.kind,
                isolated_only=not order.trusted,
            )
        except FolderError as error:
            raise typer.BadParameter(str(error), param_hint="--out") from error
        except LedgerError as error:
            tell(f"Error: {error}", err=True)
            raise typer.Exit(USAGE) from None

    def __enter__(self) -> ClassRun:
        return self

    def __exit__(self, *_: object) -> None:
        self.ledger.close()

    def grade(self) -> bool:
        """Grade all; True when Ctrl-C ended it early. Reports that are done are in `reports`, and on disk.

        Raises NotIsolated and ClusterError.
        """
        seed = self.run.seed
        count = len(self.order.entries)
        told = f"Going on with {count} with seed {seed}" if self.run.goes_on else f"Grading {count} with seed {seed}"
        self.console.print(told)
        try:
            with _ended_politely(), _progress(self.console, len(self.order.entries)) as show:

                def on_result(report: Report, done: int, total: int) -> None:
                    self._take(report)
                    show(report, done, total, report.student in self.run.recalled)

                self.order.engine.grade(
                    self.order.entries,
                    self.order.track,
                    tell=self.console.print,
                    seed=seed,
                    limits=self.order.limits,
                    on_result=on_result,
                    recall=self.run.recall,
                    trust_students=self.order.trusted,
                )
        except KeyboardInterrupt:
            return True
        return False

    def _take(self, report: Report) -> None:
        """Keep a result, and write the student's files from what counts: our failure replaces no grade."""
        report, same_files = self.run.record(report), True
        stems = {Path(path).stem for path in report.files}
        graded = self.order.track.graded
        self.left.update(p.name for p in self.order.track.optional if p not in graded and Path(p.file).stem in stems)
        if report.verdict is Verdict.UNGRADABLE:
            self.failed += 1
            earlier = self.ledger.current(report.student)
            if earlier is not None:
                self.kept[report.student] = report.error
                same_files = earlier.report.files == report.files
                report = _kept(earlier.report, report.error, same_files)
        elif self.order.kind == "regrade":
            self._compare(report.student)
        late = self._late(report) if same_files else None  # the date belongs to the new files, the score to the old
        if not self.folder.write_student(report, late):
            self.kept[report.student] = report.error
        self.reports.append(self._rows.row(report))

    def _compare(self, student: str) -> None:
        from autograder.classroom.changes import Change

        before, after = self.run.earlier(student), self.ledger.current(student)
        if after is not None:
            self.changes.append(Change(self._slim(before) if before is not None else None, self._slim(after)))

    def _slim(self, result: Result) -> Result:
        return replace(result, report=self._rows.row(result.report))

    def _late(self, report: Report) -> Late | None:
        if self.order.policy is None or self.late is None:
            return None
        from autograder.classroom.handed_in import mark_of

        mark = mark_of(report, self.paths[report.student], self.order.source, self.order.policy)
        if mark is not None:
            self.late[report.student] = mark
        return mark

    def shown_seed(self) -> int:
        """Return the seed that the class files name: the run's, or the commonest where all was there already."""
        seeds = Counter(sorted(report.seed for report in self.reports))
        return self.run.seed if self.run.seed in seeds or not seeds else seeds.most_common(1)[0][0]

    def not_graded(self) -> str:
        """Say which optional parts were handed in and are not graded in this run; nothing where there are none."""
        if not self.left:
            return ""
        held = ", ".join(
            f"{part.name} ({self.left[part.name]})" for part in self.order.track.optional if self.left[part.name]
        )
        return f"Handed in and not graded in this run, since these parts are optional: {held}. Add --parts all."

    def write_class(self, interrupted: bool) -> str:
        """Write the class files from what is done, and return the text of class.json; then the run is finished."""
        from autograder.reports.html import ClassMeta
        from autograder.reports.tables import common_isolation

        meta = ClassMeta(
            track=self.order.track.name,
            kit_version=__version__,
            seed=self.shown_seed(),
            isolation=common_isolation(self.reports),
            title=self.order.track.title,
            parts=tuple(part.name for part in self.order.track.graded),
            expected=len(self.order.entries),
            note=self.not_graded(),
        )
        text = self.folder.write_class(self.reports, meta, self.late)
        if not interrupted:
            self.run.finish()
        return text

    def tell(self, interrupted: bool, table: bool) -> None:
        """Print the class table, and where everything is."""
        from autograder.reports.marks import isolation_sentence
        from autograder.reports.plain import clean
        from autograder.reports.tables import common_isolation
        from autograder.reports.terminal import class_table

        say = self.console.print
        if table:
            class_table(self.reports, self.console, self.console.catalogue)
        self._tell_late()
        if self.left:
            say(self.not_graded())
        sentence = isolation_sentence(common_isolation(self.reports))
        if sentence:
            say(f"isolation: {clean(sentence)}")
        if self.run.recalled:
            hint = " (--no-resume grades all anew)" if self.order.kind == "grade" else ""
            say(f"{len(self.run.recalled)} of {len(self.reports)} from an earlier run{hint}")
        for student, reason in self.kept.items():
            say(f"An earlier grade stays: {clean(student, limit=60)}: {clean(reason, limit=300)}")
        if interrupted:
            say(f"Interrupted: {len(self.reports)} of {len(self.order.entries)} graded. What is done is kept.")
            say("Give the same command again to go on.")
        say(f"seed {self.shown_seed()} (replay with --seed {self.shown_seed()})")
        say(f"Reports are in {clean(self.folder.path)}: open class.html", soft_wrap=True)

    def _tell_late(self) -> None:
        from autograder.reports.plain import clean, points

        if self.late is None or self.order.policy is None:
            return
        from autograder.classroom.late_policy import unknown_students

        late = sorted((student, mark) for student, mark in self.late.items() if mark.late_by_hours)
        self.console.print(f"{len(late)} late of {len(self.late)}")
        for student, mark in late[:_LISTED]:
            score = f"{points(mark.score_after_penalty + mark.penalty)} -> {points(mark.score_after_penalty)}"
            hours = points(mark.late_by_hours)
            self.console.print(f"  {clean(student, limit=60)}: {hours} h late, {score} ({clean(mark.rule)})")
        if len(late) > _LISTED:
            self.console.print(f"  and {len(late) - _LISTED} more: see class.csv")
        for sentence in unknown_students(self.order.policy, list(self.paths)):
            self.console.print(clean(sentence))


@contextlib.contextmanager
def _ended_politely() -> Iterator[None]:
    """Treat a request to end (a closed terminal, a job scheduler's SIGTERM) like Ctrl-C: what is done is kept."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    names = [name for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    before = {name: signal.signal(getattr(signal, name), interrupt) for name in names}
    try:
        yield
    finally:
        for name, handler in before.items():
            signal.signal(getattr(signal, name), handler)


def _kept(earlier: Report, reason: str, same_files: bool) -> Report:
    """Return an earlier report that says why it is still there."""
    files = "" if same_files else ", of files handed in before"
    warning = f"This is an earlier grade{files}: the latest try failed, and not for a mistake of yours. {reason}"
    return replace(earlier, warnings=(*earlier.warnings, warning.strip()))


Show = Callable[[Report, int, int, bool], None]  # the report, how many are done, how many there are, from earlier?


@contextlib.contextmanager
def _progress(console: Screen, total: int) -> Iterator[Show]:
    """Yield what to call after each result: a bar with the time that remains, or a plain line for each."""
    from autograder.reports.terminal import result_line

    def line(report: Report, earlier: bool) -> str:
        earlier_run = console.catalogue.say("(from an earlier run)")
        return f"{result_line(report, console.catalogue)}{f'  {earlier_run}' if earlier else ''}"

    if not console.animated:
        yield lambda report, done, total, old: console.print(f"[{done}/{total}] {line(report, old)}", soft_wrap=True)
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    remaining = TimeRemainingColumn(elapsed_when_finished=True)
    columns = (MofNCompleteColumn(), BarColumn(), remaining, TextColumn("{task.description}", markup=False))
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("", total=total)
        yield lambda report, done, total, old: progress.update(task, completed=done, description=line(report, old)[:60])
