"""The loss curve of a run as a small SVG: nothing to install, and drawn in a millisecond."""

from __future__ import annotations

from collections.abc import Sequence

WIDTH, HEIGHT, LEFT, BOTTOM = 560, 220, 44, 24
#: Points of a line: more than pixels are for nobody.
_POINTS = 280
Points = Sequence[tuple[int, float]]


def loss_svg(training: Points, validation: Points, steps: int) -> str:
    """Return both losses (nats per character) over the steps, 0 to `steps`, as an SVG element with a title."""
    losses = [loss for _, loss in (*training, *validation)]
    if not losses:
        return ""
    low, high = min(losses), max(losses)
    high = max(high, low + 0.1)

    def x(step: int) -> float:
        return LEFT + (WIDTH - LEFT - 8) * step / max(1, steps)

    def y(loss: float) -> float:
        return 8 + (HEIGHT - BOTTOM - 8) * (high - loss) / (high - low)

    def line(points: Points) -> str:
        shown = points[:: max(1, len(points) // _POINTS)]
        shown = shown if not points or shown[-1] == points[-1] else [*shown, points[-1]]
        return " ".join(f"{x(step):.1f},{y(loss):.1f}" for step, loss in shown)

    marks = "".join(
        f'<circle cx="{x(step):.1f}" cy="{y(loss):.1f}" r="3" fill="#d95f02"/>' for step, loss in validation
    )
    small = 'font-size="11" fill="currentColor"'
    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" role="img">'
        "<title>Training loss (line) and validation loss (dots), nats per character, over the steps</title>"
        f'<path d="M{LEFT} 8V{HEIGHT - BOTTOM}H{WIDTH - 8}" fill="none" stroke="currentColor" stroke-opacity="0.4"/>'
        f'<polyline points="{line(training)}" fill="none" stroke="#1b9e77" stroke-width="1.2"/>'
        f'<polyline points="{line(validation)}" fill="none" stroke="#d95f02" stroke-width="1.5"/>{marks}'
        f'<text x="4" y="16" {small}>{high:.2f}</text>'
        f'<text x="4" y="{HEIGHT - BOTTOM}" {small}>{low:.2f}</text>'
        f'<text x="{LEFT}" y="{HEIGHT - 8}" {small}>0</text>'
        f'<text x="{WIDTH - 8}" y="{HEIGHT - 8}" text-anchor="end" {small}>{steps} steps</text></svg>'
    )
