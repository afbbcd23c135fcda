"""The desk as something to look at: a head, the open page, a foot with the keys; or as plain lines."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from rich.console import Group, RenderableType
from rich.text import Text

from autograder.hints import Ladder
from autograder.reports.marks import MARKS
from autograder.reports.plain import clean, points
from autograder.reports.progress import hint_text, now, progress_table, progress_total
from autograder.reports.terminal import part_report
from autograder.reports.translated import marks_in_language
from autograder.verdict import Report, Verdict
from autograder.watch.desk import Desk

KEYS = "n next  h hint  l list  c check all  x reset  ? help  q quit"

_HELP = """\
Save a file: the current part is checked at once, with what is wrong and where to look.

n      go to the next part that is not passed
1-8    go to a part by its number
h      a hint; again: one rung further (idea, shapes, steps). It costs nothing
l      list of the parts: points, attempts, hints
c      check the required parts, and the optional ones that you have begun
x      put the stub back (asks first; what you wrote is kept beside it)
space  further down, page up, arrows: scroll
Esc    back to the part
q      quit

A check that does not come back ends after {limit} s; a save or a key to leave ends it at once.
All weights and inputs of this run come from seed {seed}."""


def head(desk: Desk, *, ascii: bool) -> RenderableType:
    """Return the line with the current part, and the one with all of them."""
    part = desk.track.part(desk.part)
    title = Text.assemble((part.name, "bold"), f"  {part.class_name or ', '.join(part.functions)} in {part.file}")
    row = Text()
    for number, each in enumerate(desk.track.every, 1):
        verdict = desk.progress.part(each.name).verdict
        mark = MARKS[verdict or Verdict.NOT_ATTEMPTED]
        here = each.name == part.name
        row.append(f"{number} ")
        row.append(mark.ascii if ascii else mark.symbol, style=mark.style)
        row.append(f" {'[' if here else ''}{each.name}{']' if here else ''}   ", style="bold" if here else "")
    row.rstrip()
    return Group(title, row, Text(""))


def body(desk: Desk, *, ascii: bool, seed: int, limit: float) -> RenderableType:
    """Return the open page."""
    if desk.page == "list":
        table = progress_table(desk.track, desk.progress, ascii=ascii, current=desk.part, catalogue=desk.catalogue)
        return Group(table, Text(""), Text(progress_total(desk.track, desk.progress, desk.catalogue)))
    if desk.page == "help":
        return Text(_help(desk, seed, limit))
    shown: list[RenderableType] = []
    if desk.hint is not None and desk.page != "all":
        shown += [hint_text(*desk.hint, desk.catalogue), Text("")]
    if desk.waiting:
        what = desk.catalogue.say("all parts") if desk.waiting_all else desk.part
        told = desk.catalogue.say(f"Checking {what} ... (at most {limit:g} s a call; a save ends it)")
        shown.append(Text(told, style="dim"))
    report = desk.whole if desk.page == "all" else desk.report
    if desk.problem and not desk.waiting:
        shown.append(Text(clean(desk.catalogue.say(desk.problem)), style="yellow"))
    elif report is not None and not (desk.waiting and desk.page == "all"):
        shown += _result(desk, report, ascii=ascii)
    return Group(*shown)


def foot(desk: Desk) -> RenderableType:
    """Return the message, what to do next, and the keys."""
    say = desk.catalogue.say
    going_on = Text(clean(say(_next(desk))), style="bold")
    return Group(Text(clean(say(desk.message or desk.elsewhere))), going_on, Text(say(KEYS), style="dim"))


def plain(
    desk: Desk, said: str | Report | tuple[Ladder, int], *, ascii: bool, seed: int, limit: float
) -> RenderableType:
    """Return one thing that was said as lines: a sentence, a verdict, a hint, or a page by its name."""
    if isinstance(said, Report):
        return Text("\n".join(verdict_lines(desk, said)))
    if isinstance(said, tuple):
        return hint_text(*said, desk.catalogue)
    if said == "list":
        return progress_table(desk.track, desk.progress, ascii=ascii, current=desk.part, catalogue=desk.catalogue)
    if said == "help":
        return Text(_help(desk, seed, limit))
    return Text(clean(desk.catalogue.say(said)))


def _help(desk: Desk, seed: int, limit: float) -> str:
    return desk.catalogue.say(_HELP).replace("{limit}", f"{limit:g}").replace("{seed}", str(seed))


def verdict_lines(desk: Desk, report: Report) -> Iterator[str]:
    """Yield a line for each part of a report: its name, points, verdict and the one sentence that explains it."""
    say, marks = desk.catalogue.say, marks_in_language(desk.catalogue)
    for part in report.parts.values():
        words = marks[part.verdict].word
        score = "-" if part.verdict is Verdict.UNGRADABLE else points(part.score)
        why = f": {clean(say(part.diagnosis), limit=300)}" if part.diagnosis else ""
        yield f"{clean(part.name, limit=40):<10} {score:>4} / {points(part.max_score):<4} {words}{why}"
    if desk.part in report.parts and report.parts[desk.part].verdict is Verdict.PASSED:
        yield say(_next(desk))


def _result(desk: Desk, report: Report, *, ascii: bool) -> list[RenderableType]:
    say = desk.catalogue.say
    shown: list[RenderableType] = []
    wanted = [report.parts[desk.part]] if desk.page != "all" else list(report.parts.values())
    if desk.page == "all":
        total = f"{say('Total')}  {points(report.score)} / {points(report.max_score)}  "
        shown.append(Text.assemble((total, "bold"), now(report.verdict, ascii=ascii, catalogue=desk.catalogue)))
        if report.assembled.get("message"):
            told = clean(say(report.assembled["message"]))
            shown.append(Text(f"{say('Your own parts, put together:')} {told}"))
        shown.append(Text(""))
    for part in wanted:
        begun = part.verdict is not Verdict.NOT_ATTEMPTED  # else its checks say the same again
        shown.append(part_report(part if begun else replace(part, checks=()), ascii=ascii, catalogue=desk.catalogue))
    warning = say("warning (costs nothing):")
    shown += [Text(f"{warning} {clean(say(text))}", style="yellow") for text in report.warnings]
    return shown


def _next(desk: Desk) -> str:
    """Say what to do, when there is something to say: before a part is begun, and after it has passed."""
    if desk.waiting or desk.report is None:
        return ""
    verdict = desk.report.parts[desk.part].verdict
    if verdict is Verdict.NOT_ATTEMPTED:
        return f"Fill in {desk.track.part(desk.part).file} and save it. With h you get a hint."
    if verdict is not Verdict.PASSED:
        return ""
    if desk.finished:
        return "All parts pass. Your GPT is right: train it."
    return f"{desk.part} passes. Next is {desk.next_part}: press n."
