"""Reports on a terminal: one student's in full, a class as a table. Reads well without colour and at 80 columns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from autograder.catalogue import ENGLISH, Catalogue
from autograder.reports.exhibits import exhibit
from autograder.reports.marks import MARKS, isolation_sentence, worth_showing
from autograder.reports.plain import clean, points
from autograder.reports.summary import diagnoses, figures, first_to_do
from autograder.reports.tables import in_order, part_names
from autograder.reports.translated import in_language, marks_in_language, part_in_language
from autograder.verdict import CheckResult, PartResult, Report, Verdict

#: Exhibits that are shown of checks that passed, too, in a long report.
PICTURES = ("matrix", "bars")
#: Names are cut in tables, so that a row stays a row: never below the first, never above the second.
_NAME_WIDTHS = (8, 24)


def writes_ascii(console: Console) -> bool:
    """Tell whether the marks and shades cannot be written in the console's encoding."""
    try:
        "✓✗·–█▓▒░".encode(console.encoding)
    except (UnicodeEncodeError, LookupError):
        return True
    return False


def student_report(
    report: Report,
    console: Console,
    verbose: bool = False,
    only: Sequence[str] | None = None,
    command: str = "workshop check",
    catalogue: Catalogue = ENGLISH,
) -> None:
    """Print one student's report: what was graded, each part with what is wrong in it, the total, what to do next.

    `only` names the parts that were asked for; passed checks are listed with `verbose`, else counted. `command` is
    what to run again, without the part.
    """
    writer = _Writer(ascii=writes_ascii(console), verbose=verbose, command=command, catalogue=catalogue)
    report = in_language(report, catalogue)
    parts = [part for name, part in report.parts.items() if only is None or name in only]
    console.print(Group(*writer.header(report)))
    for part in parts:
        console.print(Group(*writer.part(part)))
    console.print(Group(*writer.closing(report, parts, whole=only is None)))


def part_report(
    part: PartResult, *, ascii: bool, verbose: bool = False, catalogue: Catalogue = ENGLISH
) -> RenderableType:
    """Return one part with what is wrong in it, as `student_report` shows it."""
    writer = _Writer(ascii=ascii, verbose=verbose, catalogue=catalogue)
    return Group(*writer.part(part_in_language(part, catalogue)))


def class_table(reports: Iterable[Report], console: Console, catalogue: Catalogue = ENGLISH) -> None:
    """Print the class: a row a student, then the mean, the most common diagnoses, and what we could not grade."""
    reports = in_order(reports)
    writer, say = _Writer(ascii=writes_ascii(console), catalogue=catalogue), catalogue.say
    console.print(writer.table(reports, console.width))
    numbers = figures(reports)
    if numbers.mean is not None and numbers.median is not None:
        console.print(
            Text(
                say(
                    f"{numbers.graded} graded: mean {numbers.mean:.1f}, median {numbers.median:.1f} "
                    f"of {points(numbers.max_score)}; {numbers.passed_all} passed all"
                )
            )
        )
    for diagnosis in diagnoses(reports, most=5):
        if len(diagnosis.students) > 1:
            console.print(
                Text(f"{len(diagnosis.students)} x  {diagnosis.part}: {clean(say(diagnosis.text), limit=200)}")
            )
    for report in reports:
        if report.verdict is Verdict.UNGRADABLE:
            reason = clean(report.error) or "no reason was given"
            told = say(f"Not graded, our fault: {clean(report.student, limit=60)}: {reason}")
            console.print(Text(told, style="yellow"))


def result_line(report: Report, catalogue: Catalogue = ENGLISH) -> str:
    """Return a submission's result in one line, as the progress of a class shows it: `ada: 84 / 100  failed`."""
    name, word = clean(report.student, limit=60), catalogue.say(MARKS[report.verdict].word)
    if report.verdict is Verdict.UNGRADABLE:
        return f"{name}: {word}"
    return f"{name}: {points(report.score)} / {points(report.max_score)}  {word}"


@dataclass(frozen=True)
class _Writer:
    ascii: bool
    verbose: bool = False
    command: str = "workshop check"
    catalogue: Catalogue = ENGLISH

    def say(self, text: str) -> str:
        return self.catalogue.say(text)

    def named(self, verdict: Verdict) -> str:
        return marks_in_language(self.catalogue)[verdict].word

    def symbol(self, verdict: Verdict) -> Text:
        mark = MARKS[verdict]
        return Text(mark.ascii if self.ascii else mark.symbol, style=mark.style)

    def word(self, verdict: Verdict) -> Text:
        return Text(self.named(verdict), style=MARKS[verdict].style)

    def cell(self, part: PartResult | None) -> Text:
        if part is None:
            return Text("-")
        score = "-" if part.verdict is Verdict.UNGRADABLE else points(part.score)
        return Text.assemble(score, " ", self.symbol(part.verdict))

    def table(self, reports: Sequence[Report], width: int) -> Table:
        """The class table; the students' column takes what the others leave, down to a few characters."""
        names = part_names(reports)
        rows = []
        for report in reports:
            graded = report.verdict is not Verdict.UNGRADABLE
            score = Text(points(report.score) if graded else "-", style="bold")
            word = self.word(report.verdict) if graded else Text(self.say("not graded"), style="yellow")
            rows.append([score, *[self.cell(report.parts.get(name)) for name in names], word])
        heads = [self.say("score"), *[clean(name, limit=20) for name in names], self.say("result")]
        columns = zip(map(Text, heads), *rows, strict=True)
        widths = [max(cell.cell_len for cell in column) for column in columns]
        students = [Text(clean(report.student, limit=60)) for report in reports]
        longest = max((student.cell_len for student in students), default=0)
        left = max(_NAME_WIDTHS[0], min(_NAME_WIDTHS[1], longest, width - sum(widths) - 2 * len(widths)))
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold underline")
        table.add_column(self.say("student"), overflow="crop" if self.ascii else "ellipsis", no_wrap=True, width=left)
        for place, (head, size) in enumerate(zip(heads, widths, strict=True), 1):
            right = place < len(heads)
            table.add_column(Text(head), justify="right" if right else "left", no_wrap=True, width=size)
        for student, row in zip(students, rows, strict=True):
            table.add_row(student, *row)
        return table

    def header(self, report: Report) -> list[RenderableType]:
        lines = [
            Text.assemble((clean(report.student, limit=200), "bold"), "  ", self.say(f"({clean(report.track)} track)"))
        ]
        if report.files:
            shown = sorted(report.files)[:8]
            more = f" and {len(report.files) - len(shown)} more" if len(report.files) > len(shown) else ""
            named = [f"{clean(name, limit=80)} {clean(report.files[name][:8])}".rstrip() for name in shown]
            start = self.say("(start of SHA-256)")
            lines.append(Text(f"{self.head('graded')}{', '.join(named)}{self.say(more)}  {start}"))
        lines.append(Text(f"{self.head('seed')}{report.seed}  {self.say(f'(replay with --seed {report.seed})')}"))
        run = self.say(f"{report.checks_run} were run, by kit {clean(report.kit_version, limit=60)}")
        lines.append(Text(f"{self.head('checks')}{run}"))
        if self.verbose:
            for title, file in report.modules.items():
                whole = clean(report.files.get(file, ""), limit=64)
                where = f"{clean(title, limit=60)} {self.say('from')} {clean(file, limit=80)}"
                lines.append(Text(f"{self.head('')}{where}  {whole}".rstrip()))
        if report.isolation:
            style = "" if report.isolation.get("isolated") else "yellow"
            sentence = self.say(clean(isolation_sentence(report.isolation)))
            lines.append(Text(f"{self.head('isolation')}{sentence}", style=style))
        return [*lines, Text("")]

    def head(self, word: str) -> str:
        """Return what stands before a line of the header, as wide as the longest of them."""
        words = [self.say("graded"), self.say("seed"), self.say("checks"), self.say("isolation")]
        return f"{self.say(word):<{max(map(len, words)) + 2}}"

    def part(self, part: PartResult) -> list[RenderableType]:
        title = f"{clean(part.title, limit=60):<24}"
        score = "-" if part.verdict is Verdict.UNGRADABLE else points(part.score)
        head = Text.assemble(
            self.symbol(part.verdict),
            " ",
            (title, "bold"),
            f"{score:>5} / {points(part.max_score):<5} ",
            self.word(part.verdict),
        )
        wrong = [check for check in part.checks if worth_showing(check.verdict)]
        out: list[RenderableType] = [head]
        if part.diagnosis and part.diagnosis not in [check.message for check in wrong[:1]]:
            out.append(_indent(Text(clean(part.diagnosis)), 2))
        for check, alike in _grouped(wrong):
            out.append(_indent(self.check(check), 2))
            if alike:
                out.append(_indent(Text(self.say(f"and {alike} more checks, for the same reason"), style="dim"), 4))
        out += [_indent(line, 2) for line in self.quiet(part, all_calm=part.verdict is Verdict.NOT_ATTEMPTED)]
        return out

    def check(self, check: CheckResult) -> RenderableType:
        score = f"{points(check.points)}/{points(check.max_points)}"
        words = f"  {self.named(check.verdict)}, {score}"
        out: list[RenderableType] = [Text.assemble(self.symbol(check.verdict), " ", clean(check.title), (words, "dim"))]
        if check.message:
            out.append(_indent(Text(clean(check.message)), 2))
        out += [_indent(exhibit(item, self.ascii, self.catalogue), 4) for item in check.evidence]
        if check.look_at:
            out.append(_indent(Text.assemble((self.say("look at:") + " ", "bold"), clean(check.look_at)), 2))
        return Group(*out)

    def quiet(self, part: PartResult, all_calm: bool) -> list[RenderableType]:
        """What needs no attention: passed checks (listed or counted), then blocked and not attempted ones."""
        passed = [check for check in part.checks if check.verdict is Verdict.PASSED]
        lines: list[RenderableType] = []
        if self.verbose:
            for check in passed:
                score = f"  {points(check.points)} / {points(check.max_points)}"
                lines.append(Text.assemble(self.symbol(check.verdict), " ", clean(check.title), (score, "dim")))
                lines += [
                    _indent(exhibit(e, self.ascii, self.catalogue), 4) for e in check.evidence if e.kind in PICTURES
                ]
        elif passed and part.verdict is not Verdict.PASSED:
            lines.append(Text(self.say(f"{len(passed)} of {len(part.checks)} checks passed"), style="dim"))
        reasons: dict[tuple[Verdict, str], list[str]] = {}
        for check in part.checks:
            if check.verdict is Verdict.PASSED or worth_showing(check.verdict):
                continue
            if not (all_calm and check.verdict is Verdict.NOT_ATTEMPTED):
                unwritten = all_calm and check.verdict is Verdict.BLOCKED and not self.verbose
                reason = "Not run before it is written" if unwritten else clean(check.message)
                reasons.setdefault((check.verdict, reason), []).append(clean(check.title))
        for (verdict, reason), titles in reasons.items():
            what = titles[0] if len(titles) == 1 else self.say(f"{len(titles)} checks")
            why = f": {reason}" if reason else ""
            lines.append(Text.assemble(self.symbol(verdict), " ", (f"{self.named(verdict)}: {what}{why}", "dim")))
        return lines

    def closing(self, report: Report, parts: list[PartResult], whole: bool) -> list[RenderableType]:
        out: list[RenderableType] = [Text("")]
        if report.error:
            out.append(Text(clean(report.error), style=MARKS[report.verdict].style))
        if report.verdict is Verdict.UNGRADABLE:
            return [*out, Text(self.say("Not graded, and not your fault: nothing of this counts."), style="yellow")]
        score = report.score if whole else sum(part.score for part in parts)
        of = report.max_score if whole else sum(part.max_score for part in parts)
        total = Text.assemble((self.say("Total") + "  ", "bold"), (f"{points(score)} / {points(of)}", "bold"))
        if whole:
            total = Text.assemble(total, "  ", self.word(report.verdict))
        out.append(total)
        if report.assembled.get("message"):
            out.append(Text(f"{self.say('Your own parts, put together:')} {clean(report.assembled['message'])}"))
        out += [
            Text(f"{self.say('repaired (costs nothing):')} {clean(text)}", style="yellow") for text in report.repairs
        ]
        out += [
            Text(f"{self.say('warning (costs nothing):')} {clean(text)}", style="yellow") for text in report.warnings
        ]
        following = first_to_do(report) if whole else next((p for p in parts if p.verdict is not Verdict.PASSED), None)
        if following is not None:
            todo = "fill in its stub" if following.verdict is Verdict.NOT_ATTEMPTED else "read the first message above"
            file = report.modules.get(following.title)
            where = f" in {clean(file, limit=80)}" if file else ""
            again = f"then run: {clean(self.command)} {clean(following.name)}"
            out.append(Text(self.say(f"Next: {clean(following.title)}{where}: {todo}, {again}")))
        return out


def _grouped(checks: Iterable[CheckResult]) -> list[tuple[CheckResult, int]]:
    """Return the checks that say something of their own, each with how many more say the same."""
    groups: dict[tuple[object, ...], list[CheckResult]] = {}
    for check in checks:
        groups.setdefault((check.verdict, check.message or check.id), []).append(check)
    return [(group[0], len(group) - 1) for group in groups.values()]


@dataclass(frozen=True)
class _Indented:
    """What it holds, moved to the right; no trailing blanks, so that a log stays clean."""

    content: RenderableType
    by: int

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        narrow = options.update(width=max(20, options.max_width - self.by))
        for line in console.render_lines(self.content, narrow, pad=False):
            yield Segment(" " * self.by)
            yield from line
            yield Segment.line()


def _indent(content: RenderableType, by: int) -> _Indented:
    return _Indented(content, by)
