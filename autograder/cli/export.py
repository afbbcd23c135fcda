"""`workshop export`: the grades of a class in the form that a gradebook, a CI server or another grader takes."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from autograder.cli.screen import NOT_RIGHT, OUR_FAULT, leave_pipe, tell
from autograder.cli.student import course_named

if TYPE_CHECKING:
    from autograder.reports.graded import GradedClass
    from autograder.reports.gradescope import Visibility

EPILOG = """\b
Examples:
  workshop export canvas grades               grades/canvas.csv
  workshop export moodle grades --out -       to stdout
  workshop export gradescope grades           a results.json for each student
  workshop export gradescope-zip              an autograder to upload
  workshop export github                      a GitHub Classroom workflow

\b
Reads what `workshop grade --out grades` wrote, and changes none of it.
Who could not be graded for a reason of ours gets no score, not a zero.
Exit status: 0, 1 a file cannot be written, 2 wrong argument or folder,
3 some have no grade."""

export = typer.Typer(rich_markup_mode=None, no_args_is_help=True)

GradesArgument = Annotated[Path, typer.Argument(metavar="DIR", help="The folder that `workshop grade` wrote.")]
OutOption = Annotated[Path | None, typer.Option(metavar="FILE", help="Where to write; - is stdout. Default: in DIR.")]
PenaltyOption = Annotated[bool, typer.Option("--after-penalty", help="Scores after late penalties, not as earned.")]
AssignmentOption = Annotated[str, typer.Option(metavar="NAME", help="The assignment's name there.")]
TrackOption = Annotated[str, typer.Option(metavar="NAME", help="The course.")]
VisibilityOption = Annotated[
    str, typer.Option(metavar="WHEN", help="visible, after_due_date, after_published or hidden.")
]
LeaderboardOption = Annotated[bool, typer.Option("--leaderboard", help="Show the points on the leaderboard.")]

#: What an export must not be written over.
_RESULTS = ("class.json", "class.csv", "class.html", "ledger.sqlite3")


@export.callback(epilog=EPILOG)
def formats() -> None:
    """Write grades in the form that an LMS, a CI server or another grader takes."""


@export.command()
def canvas(
    path: GradesArgument = Path("grades"),
    out: OutOption = None,
    assignment: AssignmentOption = "Write a GPT",
    after_penalty: PenaltyOption = False,
) -> None:
    """A CSV file for Canvas (Grades > Import). Folder names are SIS logins."""
    from autograder.reports.gradebooks import canvas_csv

    graded = _class(path, after_penalty)
    _write(canvas_csv(graded, assignment, after_penalty=after_penalty), out, path, "canvas.csv")
    _tell(graded)


@export.command()
def moodle(
    path: GradesArgument = Path("grades"),
    out: OutOption = None,
    assignment: AssignmentOption = "Write a GPT",
    after_penalty: PenaltyOption = False,
) -> None:
    """A CSV file for Moodle (Grades > Import > CSV). Folder names are usernames."""
    from autograder.reports.gradebooks import moodle_csv

    graded = _class(path, after_penalty)
    _write(moodle_csv(graded, assignment, after_penalty=after_penalty), out, path, "moodle.csv")
    _tell(graded)


@export.command()
def otter(path: GradesArgument = Path("grades"), out: OutOption = None, after_penalty: PenaltyOption = False) -> None:
    """final_grades.csv, as otter-grader writes it."""
    from autograder.reports.gradebooks import otter_csv

    graded = _class(path, after_penalty)
    _write(otter_csv(graded, after_penalty=after_penalty), out, path, "final_grades.csv")
    _tell(graded)


@export.command()
def junit(path: GradesArgument = Path("grades"), out: OutOption = None) -> None:
    """JUnit XML: a test suite a student, a test case a check."""
    from autograder.reports.junit import junit_xml

    graded = _class(path)
    _write(junit_xml(graded), out, path, "junit.xml")
    _tell(graded)


@export.command()
def gradescope(
    path: Annotated[
        Path, typer.Argument(metavar="DIR", help="The folder that `workshop grade` wrote, or one report in JSON.")
    ] = Path("grades"),
    out: Annotated[
        Path | None,
        typer.Option(metavar="PATH", help="A folder; for one report a file, or - for stdout. Default: DIR/gradescope."),
    ] = None,
    visibility: VisibilityOption = "visible",
    leaderboard: LeaderboardOption = False,
    after_penalty: PenaltyOption = False,
) -> None:
    """Gradescope's results.json, one for each student."""
    from autograder.reports.folder import on_disk
    from autograder.reports.gradescope import results_json
    from autograder.reports.tables import file_names, json_text

    when = _visibility(visibility)
    graded = _class(path, after_penalty)
    texts = {
        student.report.student: json_text(
            results_json(student, visibility=when, leaderboard=leaderboard, after_penalty=after_penalty)
        )
        for student in graded.students
        if student.known
    }
    if path.is_file():
        for text in texts.values():
            _write(text, out, path.parent, "results.json")
    else:
        folder = out if out is not None else path / "gradescope"
        if str(folder) == "-":
            raise typer.BadParameter("a class is many files: name a folder.", param_hint="--out")
        names = file_names(student.report.student for student in graded.students)
        for student, text in texts.items():
            _write(text, folder / on_disk(names[student]) / "results.json", path, "", quiet=True)
        tell(f"{folder}: {len(texts)} times results.json")
    _tell(graded)


@export.command("gradescope-zip")
def gradescope_zip(
    out: Annotated[Path, typer.Option(metavar="FILE", help="The archive.")] = Path("autograder.zip"),
    track: TrackOption = "gpt",
    visibility: VisibilityOption = "visible",
    leaderboard: LeaderboardOption = False,
    index_url: Annotated[
        str, typer.Option(metavar="URL", help="A further index for pip: PyTorch's CPU builds are much smaller.")
    ] = "",
) -> None:
    """An autograder to upload to Gradescope: this kit, setup.sh and run_autograder."""
    from autograder.reports.gradescope_zip import ZipError, autograder_zip

    course = course_named(track)
    when = _visibility(visibility)
    if index_url and not index_url.startswith("https://"):
        raise typer.BadParameter("an index is an address that begins with https://", param_hint="--index-url")
    try:
        data = autograder_zip(course.name, visibility=when, leaderboard=leaderboard, index_url=index_url)
    except ZipError as error:
        tell(f"Error: {error}", err=True)
        raise typer.Exit(OUR_FAULT) from None
    _write(data, out, None, "")


@export.command()
def github(
    out: Annotated[Path, typer.Option(metavar="FILE", help="Where to write; - is stdout.")] = Path("classroom.yml"),
    track: TrackOption = "gpt",
    kit: Annotated[
        str, typer.Option(metavar="SPEC", help="What pip installs the kit from: a name, an address, git+https://...")
    ] = "gpt-workshop-kit",
) -> None:
    """A GitHub Classroom workflow: points for each part, at every push."""
    from autograder.reports.github_classroom import workflow

    _write(workflow(course_named(track), kit), out, None, "")


def _class(path: Path, after_penalty: bool = False) -> GradedClass:
    from autograder.reports.graded import GradedError, read_class

    try:
        graded = read_class(path)
    except GradedError as error:
        raise typer.BadParameter(str(error), param_hint="DIR") from error
    if after_penalty and not graded.has_late_marks:
        raise typer.BadParameter(
            "there are no late marks in it: grade with --policy first.", param_hint="--after-penalty"
        )
    return graded


def _visibility(word: str) -> Visibility:
    from autograder.reports.gradescope import VISIBILITIES

    for known in VISIBILITIES:
        if word == known:
            return known
    raise typer.BadParameter(f"{word!r} is none of {', '.join(VISIBILITIES)}.", param_hint="--visibility")


def _write(data: str | bytes, out: Path | None, results: Path | None, name: str, *, quiet: bool = False) -> None:
    """Write an export whole or not at all: to `out`, else to `name` in the folder of the results."""
    raw = data.encode() if isinstance(data, str) else data
    place = out if out is not None else (results or Path()) / name
    if str(place) == "-":
        try:
            sys.stdout.buffer.write(raw)  # UTF-8 whatever the terminal's encoding: a name must not lose its letters
            sys.stdout.flush()
        except BrokenPipeError:  # the reader has left (`| head`)
            leave_pipe(sys.stdout)
        return
    if place.is_dir():
        raise typer.BadParameter(f"{place} is a folder: name a file.", param_hint="--out")
    if results is not None and results.is_dir() and _is_a_result(place, results):
        raise typer.BadParameter(f"{place} is a file of the results: name another.", param_hint="--out")
    from autograder.reports.folder import write_atomic

    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(place, raw)
    except OSError as error:
        tell(f"{place} cannot be written: {error.strerror or error}.", err=True)
        raise typer.Exit(NOT_RIGHT) from None
    if not quiet:
        tell(f"{place}")


def _is_a_result(place: Path, results: Path) -> bool:
    inside = place.resolve()
    folder = results.resolve()
    return inside in {folder / name for name in _RESULTS} or inside.is_relative_to(folder / "students")


def _tell(graded: GradedClass) -> None:
    """Say who is not in it; exit with a status where somebody has no grade."""
    from autograder.reports.plain import clean

    if graded.others:
        names = ", ".join(clean(name, limit=60) for name in graded.others[:5])
        more = f" and {len(graded.others) - 5} more" if len(graded.others) > 5 else ""
        tell(f"Left out, for they were not in the latest run: {names}{more}", err=True)
    for student in graded.missing:
        tell(f"No grade (our fault; not a zero): {clean(student, limit=60)}", err=True)
    if graded.missing:
        raise typer.Exit(OUR_FAULT)
