"""A few SVG charts, drawn from plain numbers: the same numbers give the same bytes, and no font is embedded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 640, 330
LEFT, RIGHT, TOP, BOTTOM = 62, 18, 40, 50
#: Colours that can be told apart without seeing red or green; each line also has its name beside it.
COLOURS = ("#3949ab", "#d9730d", "#00796b")
INK, GREY = "#222222", "#c8c8c8"


@dataclass(frozen=True)
class Line:
    """One line of a chart: points (x, y) from left to right."""

    name: str
    points: Sequence[tuple[float, float]]
    dashed: bool = False


@dataclass(frozen=True)
class Axis:
    """An axis from `low` to `high`, with a number at each of `ticks`."""

    title: str
    low: float
    high: float
    ticks: Sequence[float]


def picture(title: str, body: Sequence[str], width: int = WIDTH, height: int = HEIGHT) -> str:
    """Return a whole SVG with a title that is read aloud, on white (dark pages keep it legible)."""
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
            'role="img" font-family="Helvetica, Arial, sans-serif" font-size="13">',
            f"<title>{escape(title)}</title>",
            f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
            *body,
            "</svg>\n",
        ]
    )


def words(x: float, y: float, text: str, anchor: str = "start", colour: str = INK, more: str = "") -> str:
    """Return text at (x, y); `anchor` is start, middle or end."""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}"{more}>{escape(text)}</text>'


def chart(title: str, across: Axis, up: Axis, lines: Sequence[Line]) -> str:
    """Return a chart of `lines`, each in a colour of its own and with its name above."""

    def x(value: float) -> float:
        return LEFT + (value - across.low) / (across.high - across.low) * (WIDTH - LEFT - RIGHT)

    def y(value: float) -> float:
        return HEIGHT - BOTTOM - (value - up.low) / (up.high - up.low) * (HEIGHT - TOP - BOTTOM)

    body = []
    for tick in up.ticks:
        body.append(f'<path d="M{LEFT} {y(tick):.1f}H{WIDTH - RIGHT}" stroke="{GREY}" stroke-width="1"/>')
        body.append(words(LEFT - 8, y(tick) + 4, f"{tick:g}", "end"))
    body += [words(x(tick), HEIGHT - BOTTOM + 20, f"{tick:,g}", "middle") for tick in across.ticks]
    body.append(words((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 10, across.title, "middle"))
    turned = f' transform="rotate(-90 16 {(TOP + HEIGHT - BOTTOM) / 2:.1f})"'
    body.append(words(16, (TOP + HEIGHT - BOTTOM) / 2, up.title, "middle", more=turned))
    at = float(LEFT)
    for line, colour in zip(lines, COLOURS, strict=False):
        dash = ' stroke-dasharray="6 4"' if line.dashed else ""
        path = "L".join(f"{x(a):.1f} {y(b):.1f}" for a, b in line.points)
        body.append(f'<path d="M{path}" fill="none" stroke="{colour}" stroke-width="2.5"{dash}/>')
        body.append(f'<path d="M{at:.1f} 19h22" stroke="{colour}" stroke-width="3"{dash}/>')
        body.append(words(at + 28, 23, line.name))
        at += 44 + 7.2 * len(line.name)
    return picture(title, body)


def bars(title: str, rows: Sequence[str], columns: Sequence[tuple[str, Sequence[float]]]) -> str:
    """Return groups of horizontal bars: for each column its name and, for each row, a share from 0 to 1."""
    across = (WIDTH - 60) / len(columns)
    height = TOP + 22 * len(rows) + 14
    body = [words(44, TOP + 22 * n + 15, row, "end", more=' font-family="monospace"') for n, row in enumerate(rows)]
    for number, (name, shares) in enumerate(columns):
        left = 52 + number * across
        body.append(words(left, 24, name))
        for row, share in enumerate(shares):
            top, long = TOP + 22 * row, share * (across - 66)
            body.append(
                f'<rect x="{left:.1f}" y="{top}" width="{max(long, 1):.1f}" height="17" fill="{COLOURS[number]}"/>'
            )
            body.append(words(left + max(long, 1) + 5, top + 14, f"{share:.1%}" if share >= 0.0005 else "0"))
    return picture(title, body, height=height)
