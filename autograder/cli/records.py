"""`workshop history`, and what `workshop regrade` tells: results of the ledger side by side."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from autograder.cli.screen import USAGE, Screen, tell

if TYPE_CHECKING:
    from autograder.classroom.changes import Change
    from autograder.classroom.ledger import Result
    from autograder.verdict import Report, Verdict

HISTORY_EPILOG = """\b
Examples:
  workshop history ada                      all results of ada in ./grades
  workshop history "Zoë Müller" --out ps1   of another folder

\b
Oldest first, with the files, seed and kit of each, and what changed from one
to the next.
Exit status: 0, or 2: no such student or ledger, or a run is going on."""


def history(
    student: Annotated[str, typer.Argument(metavar="STUDENT", help="The student's id, as in class.csv.")],
    out: Annotated[Path, typer.Option(metavar="DIR", help="The folder that holds the results.")] = Path("grades"),
) -> None:
    """Show every result that a student ever got."""
    from autograder.classroom.ledger import Ledger, LedgerError
    from autograder.reports.plain import clean

    try:
        with Ledger(out, to_read=True) as ledger:
            results = ledger.history(student)
            current = ledger.current(student)
            known = ledger.students() if not results else []
    except LedgerError as error:
        tell(f"Error: {error}", err=True)
        raise typer.Exit(USAGE) from None
    if not results:
        raise typer.BadParameter(_nobody(student, known), param_hint="STUDENT")
    console = Screen(sys.stdout)
    console.print(clean(student))
    for before, after in zip([None, *results], results, strict=False):
        for line in _entry(before, after, current is not None and current.id == after.id):
            console.print(line, soft_wrap=True)


def tell_changes(changes: Sequence[Change], console: Screen) -> None:
    """Print what a regrade changed, a paragraph a student; those for whom nothing changed are counted."""
    from autograder.classroom.changes import reasons
    from autograder.reports.plain import clean

    moved = [change for change in changes if change.moved]
    for change in sorted(moved, key=lambda change: change.after.report.student.casefold()):
        student = clean(change.after.report.student, limit=60)
        if change.before is None:
            console.print(f"{student}: {_score(change.after.report)}, first result", soft_wrap=True)
            continue
        why = "; ".join(reasons(change.before, change.after)) or (
            "nothing differs that a grade depends on: look for time limits on a busy machine"
        )
        scores = f"{_score(change.before.report)} -> {_score(change.after.report)}"
        console.print(f"{student}: {scores} ({clean(why, limit=300)})", soft_wrap=True)
        for line in _check_lines(change.before.report, change.after.report):
            console.print(f"    {line}", soft_wrap=True)
    console.print(f"{len(moved)} changed, {len(changes) - len(moved)} as before")


def _entry(before: Result | None, after: Result, counts: bool) -> list[str]:
    from autograder.classroom.changes import reasons
    from autograder.reports.plain import clean

    when = after.graded.replace("T", " ").replace("Z", " UTC")
    lines = [
        f"{when}  {_score(after.report)}{'  <- counts' if counts else ''}",
        f"    submission {after.key.digest[:12] or '(not read)'}  seed {after.seed} ({after.seed_policy})"
        f"  kit {clean(after.terms.kit_version)}  track {clean(after.terms.track)}",
    ]
    if after.copy_of is not None:
        lines.append("    from an earlier run: these files were graded before")
    if after.report.error:
        lines.append(f"    {clean(after.report.error, limit=300)}")
    if before is not None:
        why = reasons(before, after)
        if why:
            lines.append(f"    {clean('; '.join(why), limit=300)}")
        lines += [f"    {line}" for line in _check_lines(before.report, after.report)]
    return lines


def _check_lines(before: Report, after: Report) -> list[str]:
    from autograder.classroom.changes import changed_checks
    from autograder.reports.plain import clean

    return [
        f"{clean(change.id)}: {_word(change.before)} -> {_word(change.after)}"
        for change in changed_checks(before, after)
    ]


def _score(report: Report) -> str:
    from autograder.reports.marks import MARKS
    from autograder.reports.plain import points
    from autograder.verdict import Verdict

    if report.verdict is Verdict.UNGRADABLE:
        return MARKS[report.verdict].word
    return f"{points(report.score)} / {points(report.max_score)} {MARKS[report.verdict].word}"


def _word(verdict: Verdict | None) -> str:
    from autograder.reports.marks import MARKS

    return "not there" if verdict is None else MARKS[verdict].word


def _nobody(student: str, known: Sequence[str]) -> str:
    from autograder.reports.plain import clean

    folded = {name.casefold(): name for name in known}
    near = [clean(folded[name], limit=60) for name in difflib.get_close_matches(student.casefold(), folded, 3)]
    hint = f" Did you mean {' or '.join(near)}?" if near else ""
    return f"there is no result of {clean(student, limit=60)} among those of {len(known)} students.{hint}"
