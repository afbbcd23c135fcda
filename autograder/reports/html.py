"""Pages for a student and for a class: self-contained HTML, everything escaped, nothing fetched from anywhere."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from autograder.classroom.late import Late
from autograder.reports.bars import read_bars
from autograder.reports.marks import MARKS, isolation_sentence, worth_showing
from autograder.reports.matrix import read_matrix
from autograder.reports.plain import clean, number, points
from autograder.reports.summary import diagnoses, figures, first_to_do, grid, part_sentence
from autograder.reports.tables import file_names, in_order, part_names
from autograder.verdict import Report, Verdict


@dataclass(frozen=True)
class ClassMeta:
    """What a class page says about the run as a whole."""

    track: str
    kit_version: str
    seed: int
    isolation: dict[str, Any] = field(default_factory=dict)
    title: str = ""
    parts: tuple[str, ...] = ()  # in track order; empty: as found in the reports
    expected: int | None = None  # how many submissions there were, where the run was interrupted
    note: str = ""  # a sentence about the run as a whole


def student_page(report: Report, late: Late | None = None) -> str:
    """Return the page of one student, as it is written to students/<id>.html."""
    return (
        environment()
        .get_template("student.html")
        .render(
            report=report,
            late=late,
            next_part=first_to_do(report),
            isolation=isolation_sentence(report.isolation),
            isolated=bool(report.isolation.get("isolated")),
            graded=report.verdict is not Verdict.UNGRADABLE,
        )
    )


def class_page(
    reports: Iterable[Report],
    meta: ClassMeta,
    names: Mapping[str, str] | None = None,
    late: Mapping[str, Late] | None = None,
) -> str:
    """Return the page of the class. `names` are the students' file names, for the links; `late` the late marks."""
    return "".join(class_page_pieces(reports, meta, names, late))


def class_page_pieces(
    reports: Iterable[Report],
    meta: ClassMeta,
    names: Mapping[str, str] | None = None,
    late: Mapping[str, Late] | None = None,
) -> Iterator[str]:
    """Return the page of the class piece by piece: of a thousand students it is too large to be held twice."""
    reports = in_order(reports)
    names = names or file_names(report.student for report in reports)
    counts = {verdict: sum(report.verdict is verdict for report in reports) for verdict in Verdict}
    return (
        environment()
        .get_template("class.html")
        .generate(
            reports=reports,
            meta=meta,
            late=late,
            parts=list(meta.parts) or part_names(reports),
            titles={part.name: part.title for report in reports for part in report.parts.values()},
            figures=figures(reports),
            counts=counts,
            grid=grid(reports),
            diagnoses=diagnoses(reports),
            links={student: f"students/{quote(name, safe='')}.html" for student, name in names.items()},
            isolation=isolation_sentence(meta.isolation),
            isolated=bool(meta.isolation.get("isolated")),
        )
    )


@cache
def environment() -> Environment:
    """Return the template environment: autoescape everywhere, and each printed value is cleaned of hostile text."""
    environment = Environment(
        loader=PackageLoader("autograder.reports"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_finalize,
    )
    script = asset("sort.js")
    environment.globals.update(
        style=Markup(asset("style.css")),
        script=Markup(script),
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        marks=MARKS,
        Verdict=Verdict,
        part_sentence=part_sentence,
        read_matrix=read_matrix,
        read_bars=read_bars,
    )
    environment.tests["worth_showing"] = worth_showing
    environment.filters.update(number=number, points=points, lines=_lines, short=_short, name=_name, percent=_percent)
    return environment


def _finalize(value: Any) -> Any:
    """Clean what a template prints, whether it was filtered before or not; our own markup stays as it is."""
    return value if isinstance(value, Markup | int | float) else clean(value)


def _lines(text: object) -> Markup:
    """Return text that keeps its line breaks, cleaned and escaped."""
    return Markup.escape(clean(text, multiline=True))


def _short(text: object) -> str:
    """Return text that fits in a pop-up over a cell."""
    return clean(text, limit=160)


def _name(text: object) -> str:
    """Return a student's id short enough for a row of a table; the student's own page has it whole."""
    return clean(text, limit=60)


def _percent(score: float, of: float) -> int:
    """Return a whole percentage; 100 only for full marks, and 0 only for none."""
    if of <= 0 or score <= 0:
        return 0
    return 100 if score >= of else min(99, max(1, round(100 * score / of)))


def asset(name: str) -> str:
    """Return one of our own style sheets or scripts, ready to stand between its tags."""
    return (resources.files("autograder.reports") / "templates" / name).read_text(encoding="utf-8")
