"""Evidence on a terminal: numbers, tables, source lines; matrices and bars in block characters."""

from __future__ import annotations

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from autograder.catalogue import ENGLISH, Catalogue
from autograder.reports.bars import Bars, read_bars
from autograder.reports.matrix import Cell, Matrix, read_matrix
from autograder.reports.plain import clean, number
from autograder.verdict import Evidence

#: Two characters a cell and a margin: 32 positions fit in 80 columns.
_WIDEST = 32
#: A terminal is no place for page-long tables; the HTML report has them whole.
_ROWS = 12
_BAR_WIDTH = 30
_EIGHTHS = " ▏▎▍▌▋▊▉"
_SHADES = "░▒▓█"
_ASCII_SHADES = ":+#@"


def exhibit(item: Evidence, ascii_only: bool, catalogue: Catalogue = ENGLISH) -> RenderableType:
    """Return the exhibit as it is printed; its title first. The words that are ours are said in `catalogue`'s language;
    the exhibit itself is translated with its report."""
    title = Text(clean(item.title), style="dim")
    if item.kind == "matrix":
        return Group(title, matrix_text(read_matrix(item.data), ascii_only, catalogue))
    if item.kind == "bars":
        return Group(title, bars_text(read_bars(item.data), ascii_only))
    if item.kind == "numbers":
        return Group(title, _numbers(item))
    if item.kind == "table":
        return Group(title, _table(item, ascii_only, catalogue))
    if item.kind == "code":
        where = catalogue.say(f"{clean(item.data['file'], limit=80)}, line {number(item.data['line'])}")
        return Group(Text.assemble(title, (f"  {where}", "dim")), _lines(item.data["text"], "> ", catalogue))
    return Group(title, _lines(item.data["text"], "  ", catalogue))


def matrix_text(matrix: Matrix, ascii_only: bool, catalogue: Catalogue = ENGLISH) -> Text:
    """Return the matrix as text: shades for influence, `!` beside each cell that must be empty and is not."""
    shades = _ASCII_SHADES if ascii_only else _SHADES
    out = Text(no_wrap=True)
    columns = min(matrix.columns, _WIDEST)
    out.append(
        "    " + "".join(f"{j % 100:>2}" for j in range(columns)) + f"   {clean(matrix.column_label, limit=40)}\n"
    )
    for i, row in enumerate(matrix.cells[:_WIDEST]):
        out.append(f"{i:>3} ")
        for cell in row[:_WIDEST]:
            out.append(_cell(cell, shades), style="bold red" if cell.leak else "")
        out.append("\n")
    rows = f"rows: {clean(matrix.row_label, limit=40)}; {shades[-1] * 2} strong, {shades[0] * 2} weak influence"
    out.append(f"    {catalogue.say(rows)}\n")
    if matrix.has_empty_region:
        leaks = len(matrix.leaks)
        told = "above the diagonal (dots) it must be empty: it is"
        if leaks:
            told = f"above the diagonal (dots) it must be empty: {leaks} are not, marked !{shades[-1]}"
        out.append(f"    {catalogue.say(told)}")
    return out


def bars_text(bars: Bars, ascii_only: bool) -> Text:
    """Return a line for each figure: its name, a bar, the number."""
    names = [clean(bar.label, limit=24) for bar in bars.bars]
    width = max((len(name) for name in names), default=0)
    lines = []
    for name, bar in zip(names, bars.bars, strict=True):
        eighths = round(bar.share * _BAR_WIDTH * 8)
        drawn = "#" * round(eighths / 8) if ascii_only else "█" * (eighths // 8) + _EIGHTHS[eighths % 8].strip()
        lines.append(f"  {name:<{width}} {drawn} {number(bar.value)}")
    return Text("\n".join(lines), no_wrap=True)


def _cell(cell: Cell, shades: str) -> str:
    shade = shades[min(len(shades) - 1, int(cell.strength * len(shades)))] if cell.strength else " "
    if cell.leak:
        return "!" + shade
    return " ." if cell.must_be_empty else shade * 2


def _numbers(item: Evidence) -> Table:
    table = Table(box=None, show_header=False, pad_edge=False)
    for row in item.data["rows"][:_ROWS]:
        table.add_row(*[Text(number(cell)) for cell in row])
    return table


def _table(item: Evidence, ascii_only: bool, catalogue: Catalogue) -> Table:
    rows = item.data["rows"]
    table = Table(box=None if ascii_only else box.SIMPLE_HEAD, pad_edge=False)
    for name in item.data["columns"]:
        table.add_column(Text(clean(name, limit=60)), overflow="fold")
    for row in rows[:_ROWS]:
        table.add_row(*[Text(number(cell)) for cell in row])
    if len(rows) > _ROWS:
        table.add_row(Text(catalogue.say(f"and {len(rows) - _ROWS} more rows")))
    return table


def _lines(text: object, prefix: str, catalogue: Catalogue) -> Text:
    lines = clean(text, multiline=True).rstrip().split("\n")
    more = [catalogue.say(f"... {len(lines) - _ROWS} more lines")] if len(lines) > _ROWS else []
    shown = lines[:_ROWS] + more
    return Text("\n".join(prefix + line for line in shown))
