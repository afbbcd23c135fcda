"""`workshop grade` and `workshop regrade`: submissions in; a table, a page and a file for each student out."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from autograder.cli.class_run import ClassRun, Order
from autograder.cli.engine import EngineOption, JobsOption, SchedulerOption, chosen_engine
from autograder.cli.screen import INTERRUPTED, OUR_FAULT, USAGE, Screen, tell, write_plain
from autograder.cli.student import course_with
from autograder.track import Track

if TYPE_CHECKING:
    from autograder.classroom.late import Policy
    from autograder.classroom.local import Entry
    from autograder.sandbox import Limits

#: In MB on top of what torch itself takes: building and running the 10.8M GPT needs 400.
LEAST_MEMORY = 512

_HOW_TO_ISOLATE = (
    "Grade on Linux 5.13 or newer (a virtual machine will do). If you trust all of these students with your account,\n"
    "add --trust-students."
)

EPILOG = """\b
Examples:
  workshop grade submissions                    a folder, one student each
  workshop grade submitted --out ../grades      an nbgrader tree
  workshop grade ada.zip --seed 42              one archive, an earlier seed
  workshop grade --nbgrader course gpt          into nbgrader's gradebook.db
  workshop grade submissions --policy late.toml with late marks
  workshop grade submissions --json > all.json  the class as data
  workshop grade submissions --parts all        the optional parts too
  workshop grade submissions --scheduler tcp://node1:8786   on a Dask cluster

\b
Writes class.json, class.csv and class.html, and a .json and .html for each
student as soon as it is done. Files of students not graded now stay.
Each result is kept in DIR/ledger.sqlite3. After a crash or Ctrl-C the same
command goes on where it stopped, with the seed it had; what is there already
for the same files, kit, course and limits is reported and not graded again.
With --nbgrader, PATH is the name of an assignment that nbgrader collected:
points and comments go into the course's gradebook, once all is graded, and
the pages beside its feedback. What was set by hand there stays. An assignment
of other parts or of another course is graded with the --parts and the --track
with which `workshop build` made it.
On a cluster (pip install "gpt-workshop-kit[cluster]") this kit is installed
on every node; submissions and results stay with this command alone. When a
worker dies, another one grades what it had.
Exit status: 0 graded, 2 wrong argument or path, or student code cannot be
isolated here (see --trust-students), 3 some could not be graded (our fault;
an earlier grade of theirs stays), 130 interrupted."""

REGRADE_EPILOG = """\b
Examples:
  workshop regrade submissions               after a new kit, or a dispute
  workshop regrade ada.zip --out grades      one student
  workshop regrade submissions --seed 42     with an earlier seed

\b
Tells for each student the old and the new score, which checks changed and
why: files, kit version, course, seed or limits. Both results stay in the
ledger; the new one counts, unless it could not be graded (our fault).
Exit status: as of workshop grade."""

PathArgument = Annotated[Path, typer.Argument(metavar="PATH", help="A folder of submissions, or a single one.")]
CourseOption = Annotated[
    Path | None,
    typer.Option(metavar="COURSE_DIR", help="Grade what nbgrader collected there; PATH names the assignment."),
]
OutOption = Annotated[Path, typer.Option(metavar="DIR", help="The folder for the results.")]
SeedOption = Annotated[
    int | None, typer.Option(metavar="N", min=0, help="Draw the weights and inputs of an earlier run.")
]
TimeoutOption = Annotated[
    float | None, typer.Option(metavar="S", min=0.1, help="Seconds for each call of student code.")
]
MemoryOption = Annotated[
    int | None,
    typer.Option(metavar="MB", min=LEAST_MEMORY, help="Memory for student code, in MB, beside torch's own."),
]
PolicyOption = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Due dates and penalties (TOML): adds late marks.")
]
TrackOption = Annotated[str, typer.Option(metavar="NAME", help="The course to grade against.")]
PartsOption = Annotated[
    str | None,
    typer.Option(
        metavar="A,B|all", help="The parts to grade: names, or all with the optional ones. Default: required."
    ),
]
TrustOption = Annotated[
    bool, typer.Option("--trust-students", help="Grade even where their code cannot be isolated from this machine.")
]


def grade(
    path: PathArgument,
    out: OutOption = Path("grades"),
    seed: SeedOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print class.json to stdout, progress to stderr.")] = False,
    resume: Annotated[
        bool, typer.Option("--resume/--no-resume", help="Do not grade again what is there already.")
    ] = True,
    policy: PolicyOption = None,
    nbgrader: CourseOption = None,
    jobs: JobsOption = None,
    engine: EngineOption = None,
    scheduler: SchedulerOption = None,
    timeout: TimeoutOption = None,
    memory: MemoryOption = None,
    track: TrackOption = "gpt",
    parts: PartsOption = None,
    trust_students: TrustOption = False,
) -> None:
    """Grade a whole class and write its reports."""
    from autograder.cli.gradebook import course_at, deliver

    course = course_with(track, parts)
    workplace = chosen_engine(engine, scheduler, jobs)
    rules = _policy(policy)
    book = course_at(nbgrader, str(path), course) if nbgrader is not None else None
    entries = list(book.entries) if book is not None else _entries(path, course)
    _refuse_unfit(out, nbgrader or path)
    order = Order(
        book.submitted if book is not None else path,
        entries,
        course,
        _limits(timeout, memory),
        out,
        seed,
        anew=not resume,
        policy=rules,
        engine=workplace,
        trusted=trust_students,
    )
    console = Screen(sys.stderr if as_json else sys.stdout)
    with ClassRun(order, console) as run:
        interrupted, text = _graded(run)
        if as_json:
            write_plain(text)
        run.tell(interrupted, table=not as_json)
        missed = deliver(book, run) if book is not None and run.reports else 0
    raise typer.Exit(_status(run, interrupted, missed))


def regrade(
    path: PathArgument,
    out: OutOption = Path("grades"),
    seed: SeedOption = None,
    policy: PolicyOption = None,
    jobs: JobsOption = None,
    engine: EngineOption = None,
    scheduler: SchedulerOption = None,
    timeout: TimeoutOption = None,
    memory: MemoryOption = None,
    track: TrackOption = "gpt",
    parts: PartsOption = None,
    trust_students: TrustOption = False,
) -> None:
    """Grade again, and show what changed and why."""
    from autograder.cli.records import tell_changes

    course = course_with(track, parts)
    workplace = chosen_engine(engine, scheduler, jobs)
    rules = _policy(policy)
    entries = _entries(path, course)
    _refuse_unfit(out, path)
    order = Order(
        path,
        entries,
        course,
        _limits(timeout, memory),
        out,
        seed,
        anew=True,
        kind="regrade",
        policy=rules,
        engine=workplace,
        trusted=trust_students,
    )
    with ClassRun(order, Screen(sys.stdout)) as run:
        interrupted, _ = _graded(run)
        tell_changes(run.changes, run.console)
        run.tell(interrupted, table=False)
    raise typer.Exit(_status(run, interrupted))


def _graded(run: ClassRun) -> tuple[bool, str]:
    """Grade, and write the class files; a full disk, or a folder that went away, ends it with a sentence."""
    from autograder.classroom.ledger import LedgerError
    from autograder.classroom.refusals import ClusterError, NoCluster, NotIsolated

    try:
        try:
            interrupted = run.grade()
        except (NotIsolated, ClusterError):
            if run.reports:
                run.write_class(interrupted=True)
            raise
        if interrupted and not run.reports:
            return True, ""  # nothing is done: what an earlier run wrote stays
        return interrupted, run.write_class(interrupted)
    except NotIsolated as refusal:
        tell(f"{_done(run)} graded: {refusal}.\n{_HOW_TO_ISOLATE}", err=True)
        raise typer.Exit(USAGE) from None
    except NoCluster as error:
        tell(f"Nothing was graded: {error} Is the address right, and the cluster up?", err=True)
        raise typer.Exit(USAGE) from None
    except ClusterError as error:
        tell(f"Error: {error}\n{_done(run)} graded. Give the same command again to go on.", err=True)
    except LedgerError as error:
        tell(f"Error: {error}", err=True)
    except OSError as error:
        tell(f"The results could not be written to {run.order.out}: {error.strerror or error}.", err=True)
    raise typer.Exit(OUR_FAULT)


def _done(run: ClassRun) -> str:
    return f"{len(run.reports)} of {len(run.order.entries)} were" if run.reports else "Nothing was"


def _status(run: ClassRun, interrupted: bool, missed: int = 0) -> int:
    if interrupted:
        return INTERRUPTED
    return OUR_FAULT if run.failed or missed else 0


def _policy(path: Path | None) -> Policy | None:
    if path is None:
        return None
    from autograder.classroom.late_policy import PolicyError, read_policy

    try:
        return read_policy(path)
    except PolicyError as error:
        raise typer.BadParameter(str(error), param_hint="--policy") from error


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
