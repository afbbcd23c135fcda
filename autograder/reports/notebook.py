"""A report as the output of a notebook's cell: HTML whose style stays in its own box, and the same as plain text."""

from __future__ import annotations

import io
from collections.abc import Sequence

from markupsafe import Markup
from rich.console import Console, RenderableType

from autograder.catalogue import ENGLISH, Catalogue
from autograder.hints import RUNGS, Ladder
from autograder.progress import Progress
from autograder.reports.exhibits import exhibit
from autograder.reports.html import asset, environment
from autograder.reports.marks import isolation_sentence
from autograder.reports.plain import clean
from autograder.reports.progress import hint_text, progress_total
from autograder.reports.terminal import part_report
from autograder.reports.translated import (
    exhibit_in_language,
    in_language,
    ladder_in_language,
    part_in_language,
)
from autograder.track import Track
from autograder.verdict import Evidence, PartResult, Report, Verdict

#: What Jupyter shows of plain text without a scroll bar, on a narrow screen.
_WIDTH = 100


def report_html(
    report: Report,
    parts: Sequence[PartResult],
    track: Track,
    progress: Progress,
    *,
    hints: Sequence[Ladder] = (),
    sources: str = "",
    catalogue: Catalogue = ENGLISH,
) -> str:
    """Return `parts` of a report with their evidence, `hints` to unfold, and the progress over all parts.

    `sources` says in words what was graded. All of it is escaped.
    """
    say = catalogue.say
    report = in_language(report, catalogue)
    failed = report.error or ("" if parts else say("Nothing was graded."))
    not_theirs = say("Not your fault.") + " " if failed and report.verdict is Verdict.UNGRADABLE else ""
    return _render(
        catalogue,
        problem=not_theirs + failed,
        parts=[part_in_language(part, catalogue) for part in parts],
        hints=[ladder_in_language(ladder, catalogue) for ladder in hints],
        assembled=report.assembled.get("message", ""),
        warnings=report.warnings,
        isolation=say(isolation_sentence(report.isolation)),
        isolated=bool(report.isolation.get("isolated")),
        sources=say(sources),
        seed=report.seed,
        total=progress_total(track, progress, catalogue),
        progress=[
            (part.name, known.verdict, min(known.points, part.max_score), part.max_score)
            for part in (*track.parts, *(each for each in track.optional if each.name in progress.parts))
            for known in [progress.part(part.name)]
        ],
    )


def report_text(
    report: Report, parts: Sequence[PartResult], track: Track, progress: Progress, catalogue: Catalogue = ENGLISH
) -> str:
    """Return the same as plain text, for front ends without HTML."""
    pieces = [_plain_text(part_report(part, ascii=False, catalogue=catalogue)) for part in parts]
    if report.error:
        pieces.insert(0, clean(catalogue.say(report.error)))
    return "\n".join([*pieces, progress_total(track, progress, catalogue)])


def note_html(text: str, catalogue: Catalogue = ENGLISH) -> str:
    """Return one sentence as a note in the same style."""
    return _render(catalogue, problem=catalogue.say(text))


def hint_html(ladder: Ladder, rung: int, catalogue: Catalogue = ENGLISH) -> str:
    """Return rung `rung` (from 1) of a ladder with its heading."""
    ladder = ladder_in_language(ladder, catalogue)
    of = catalogue.say(f"hint {rung} of {len(ladder.rungs)}: {RUNGS[rung - 1]}")
    heading = f"{ladder.part}, {ladder.title} ({of})"
    text = Markup.escape(clean(ladder.rungs[rung - 1], multiline=True))
    return Markup('<p><strong>{}</strong></p><p style="white-space:pre-line">{}</p>').format(clean(heading), text)


def hint_plain(ladder: Ladder, rung: int, catalogue: Catalogue = ENGLISH) -> str:
    """Return the same hint as plain text."""
    return _plain_text(hint_text(ladder, rung, catalogue))


def exhibit_html(item: Evidence, catalogue: Catalogue = ENGLISH) -> str:
    """Return one exhibit by itself: the picture of a notebook."""
    module = environment(catalogue).get_template("parts.html").module
    inside = module.evidence(exhibit_in_language(item, catalogue))  # type: ignore[attr-defined]
    return Markup('<div class="gpt-workshop"><style>{}</style>{}</div>').format(Markup(scoped_style()), inside)


def exhibit_text(item: Evidence, catalogue: Catalogue = ENGLISH) -> str:
    """Return the same exhibit in characters."""
    return _plain_text(exhibit(exhibit_in_language(item, catalogue), ascii_only=False, catalogue=catalogue))


def scoped_style() -> str:
    """Return our style sheet as rules within `.gpt-workshop`: they must not touch the notebook around them."""
    style = asset("style.css")
    for whole, box in ((":root {", "& {"), ("\nbody {", "\n& {"), ("\nhtml {", "\n& {")):
        style = style.replace(whole, box)
    # The class twice: JupyterLab's own rules for tables, lists and headings must not win over ours.
    ends = "padding: .5rem 1rem;\nsection:first-of-type > h2 { margin-top: 0; }\n}\n"
    return f".gpt-workshop.gpt-workshop {{\n{style}{ends}"


def _render(catalogue: Catalogue, **values: object) -> str:
    blank: dict[str, object] = dict.fromkeys(("problem", "assembled", "isolation", "sources", "total"), "")
    blank |= {"parts": [], "hints": [], "warnings": [], "progress": [], "isolated": True, "seed": 0}
    blank["rungs"] = [catalogue.say(rung) for rung in RUNGS]
    given = {**blank, "scoped_style": Markup(scoped_style()), **values}
    return environment(catalogue).get_template("notebook.html").render(given)


def _plain_text(content: RenderableType) -> str:
    console = Console(
        file=io.StringIO(),
        width=_WIDTH,
        markup=False,
        highlight=False,
        emoji=False,
        color_system=None,
        force_jupyter=False,  # else rich would display by itself, once more
    )
    with console.capture() as captured:
        console.print(content)
    return captured.get().rstrip()
