"""Pages for a student and for a class: self-contained HTML, everything escaped, nothing fetched from anywhere."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import resources
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from autograder.catalogue import ENGLISH, Catalogue
from autograder.catalogue.pages import translated
from autograder.classroom.late import Late
from autograder.reports.bars import Bars, read_bars
from autograder.reports.marks import isolation_sentence, worth_showing
from autograder.reports.matrix import Matrix, read_matrix
from autograder.reports.plain import clean, number, points
from autograder.reports.summary import diagnoses, figures, first_to_do, grid, part_sentence
from autograder.reports.tables import file_names, in_order, part_names
from autograder.reports.translated import in_language, marks_in_language
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


def student_page(report: Report, late: Late | None = None, catalogue: Catalogue = ENGLISH) -> str:
    """Return the page of one student, as it is written to students/<id>.html."""
    report = in_language(report, catalogue)
    return (
        environment(catalogue)
        .get_template("student.html")
        .render(
            report=report,
            late=late,
            next_part=first_to_do(report),
            isolation=catalogue.say(isolation_sentence(report.isolation)),
            isolated=bool(report.isolation.get("isolated")),
            graded=report.verdict is not Verdict.UNGRADABLE,
        )
    )


def class_page(
    reports: Iterable[Report],
    meta: ClassMeta,
    names: Mapping[str, str] | None = None,
    late: Mapping[str, Late] | None = None,
    catalogue: Catalogue = ENGLISH,
) -> str:
    """Return the page of the class. `names` are the students' file names, for the links; `late` the late marks."""
    return "".join(class_page_pieces(reports, meta, names, late, catalogue))


def class_page_pieces(
    reports: Iterable[Report],
    meta: ClassMeta,
    names: Mapping[str, str] | None = None,
    late: Mapping[str, Late] | None = None,
    catalogue: Catalogue = ENGLISH,
) -> Iterator[str]:
    """Return the page of the class piece by piece: of a thousand students it is too large to be held twice."""
    reports = [in_language(report, catalogue) for report in in_order(reports)]
    names = names or file_names(report.student for report in reports)
    counts = {verdict: sum(report.verdict is verdict for report in reports) for verdict in Verdict}
    return (
        environment(catalogue)
        .get_template("class.html")
        .generate(
            reports=reports,
            meta=replace(meta, note=catalogue.say(meta.note)),
            late=late,
            parts=list(meta.parts) or part_names(reports),
            titles={part.name: part.title for report in reports for part in report.parts.values()},
            figures=figures(reports),
            counts=counts,
            grid=grid(reports),
            diagnoses=diagnoses(reports),
            links={student: f"students/{quote(name, safe='')}.html" for student, name in names.items()},
            isolation=catalogue.say(isolation_sentence(meta.isolation)),
            isolated=bool(meta.isolation.get("isolated")),
        )
    )


@cache
def environment(catalogue: Catalogue = ENGLISH) -> Environment:
    """Return the template environment: autoescape everywhere, and each printed value is cleaned of hostile text.

    The text of the templates is in the language of `catalogue` before they are compiled.
    """
    environment = Environment(
        loader=_Templates(catalogue),
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
        language=catalogue.language,
        marks=marks_in_language(catalogue),
        Verdict=Verdict,
        part_sentence=part_sentence,
        read_matrix=read_matrix,
        read_bars=read_bars,
        in_words=lambda picture: catalogue.say(_words_of(picture)),
    )
    environment.tests["worth_showing"] = worth_showing
    environment.filters.update(number=number, points=points, lines=_lines, short=_short, name=_name, percent=_percent)
    return environment


class _Templates(PackageLoader):
    """Our templates in one language."""

    def __init__(self, catalogue: Catalogue) -> None:
        super().__init__("autograder.reports")
        self._catalogue = catalogue

    def get_source(self, environment: Environment, template: str) -> Any:
        source, name, current = super().get_source(environment, template)
        catalogue = self._catalogue
        return translated(source, lambda text: catalogue.exact.get(text, text)) if catalogue else source, name, current


def _words_of(picture: Matrix | Bars) -> str:
    return picture.in_words()


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
