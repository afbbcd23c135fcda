"""The leaderboard: standings as a table for a terminal, and as a page that fetches nothing and escapes everything."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from rich.console import Console
from rich.table import Table
from rich.text import Text

from autograder import __version__
from autograder.capstone.standing import Standing
from autograder.catalogue import ENGLISH, Catalogue
from autograder.reports.html import environment
from autograder.reports.marks import isolation_sentence
from autograder.reports.plain import clean, points

Rows = Sequence[tuple[int | None, Standing]]
#: What the page and the table put where there is nothing.
NONE = "–"


def leaderboard_table(rows: Rows, console: Console, catalogue: Catalogue = ENGLISH) -> None:
    """Print the standings, a table for each preset, and under it why some have no rank."""
    say = catalogue.say
    for preset, group in by_preset(rows):
        table = Table(title=say(f"Preset {clean(preset) or 'unknown'}"), title_justify="left", box=None, pad_edge=False)
        for head, side in (
            ("rank", "right"),
            ("name", "left"),
            ("nats", "right"),
            ("bits", "right"),
            ("points", "right"),
            ("parameters", "right"),
            ("characters seen", "right"),
        ):
            table.add_column(say(head), justify="right" if side == "right" else "left", overflow="fold")
        for rank, one in group:
            table.add_row(
                NONE if rank is None else str(rank),
                clean(one.name, limit=60),
                NONE if one.loss is None else f"{one.loss:.4f}",
                NONE if one.bits is None else f"{one.bits:.4f}",
                f"{points(one.points)} / {points(one.max_points)}",
                f"{one.parameters:,}",
                f"{one.seen:,}",
            )
        console.print(table)
        for _, one in group:
            for said in (*([f"no rank: {one.refused}"] if one.refused else []), *one.remarks):
                console.print(Text(f"  {clean(one.name, limit=60)}: {clean(say(said))}"), soft_wrap=True)
        console.print()


def leaderboard_page(rows: Rows, title: str = "Leaderboard", catalogue: Catalogue = ENGLISH) -> str:
    """Return the page: self-contained HTML in which every name is escaped."""
    groups = by_preset(rows)
    corpora = sorted({one.corpus for _, one in rows if one.corpus})
    isolations = sorted({catalogue.say(isolation_sentence(one.isolation)) for _, one in rows if one.isolation})
    page = environment(catalogue).get_template("leaderboard.html")
    return page.render(
        title=title, groups=groups, corpora=corpora, isolations=isolations, kit_version=__version__, none=NONE
    )


def by_preset(rows: Rows) -> list[tuple[str, list[tuple[int | None, Standing]]]]:
    """Return the rows of each preset: runs of different budgets are compared with nobody else's."""
    return [(preset, list(group)) for preset, group in groupby(rows, key=lambda row: row[1].preset)]
