"""Pictures of experiments and of attention heads, as PNG files. Needs matplotlib (the extra `capstone`)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from torch import Tensor

from autograder.capstone.experiments import Curve, Experiment
from autograder.capstone.trouble import CapstoneError, disk_trouble

#: The last losses of an experiment are drawn up to this: one run that went astray must not flatten the others.
_TALL = 1.5
#: Where one run starts so many times higher than another, the losses are drawn by their logarithm.
_WILD = 2.0


def draw_experiment(experiment: Experiment, curves: Sequence[Curve], path: Path) -> None:
    """Draw the curves over the steps, or the last losses over what was varied, as the experiment asks."""
    figure = _figure(7.5, 4.2)
    axes = figure.subplots()
    if experiment.axis in ("steps", "both"):
        for place, curve in enumerate(curves):
            steps = [point.step for point in curve.points]
            said = "diverges" if curve.loss is None else f"ends at {curve.loss:.3f}"
            label = f"{curve.name}: starts at {curve.points[0].validation:.1f}, {said}"
            axes.plot(steps, [p.validation for p in curve.points], f"C{place}o-", markersize=3, label=label)
            if experiment.axis == "both":
                axes.plot(steps[1:], [p.training for p in curve.points[1:]], f"C{place}--", linewidth=1)
        low = min(min(p.training if experiment.axis == "both" else p.validation for p in c.points) for c in curves)
        starts = [curve.points[0].validation for curve in curves]
        if max(starts) > _WILD * min(starts):
            axes.set(xlabel="step", yscale="log")
            axes.yaxis.set_major_formatter("{x:g}")
            axes.yaxis.set_minor_formatter("{x:g}")
        else:
            axes.set(xlabel="step", ylim=(max(0.0, 0.9 * low), 1.05 * max(starts)))
        legend = experiment.varied + (" (dashed: training loss)" if experiment.axis == "both" else "")
        axes.legend(fontsize=8, title=legend, title_fontsize=8)
    else:
        ends = [(curve.value, curve.loss) for curve in curves if curve.loss is not None]
        axes.plot([value for value, _ in ends], [loss for _, loss in ends], "o-")
        for end in ends:
            axes.annotate(f"{end[1]:.3f}", end, (0, 6), textcoords="offset points", fontsize=8, ha="center")
        low, high = (one((loss for _, loss in ends), default=1.0) for one in (min, max))
        axes.set(xlabel=experiment.varied, xscale=experiment.axis, ylim=(0.95 * low, min(_TALL * low, 1.05 * high)))
        axes.margins(x=0.1)
    axes.set(ylabel="validation loss (nats per character)")
    axes.set_title(experiment.question, fontsize=10)
    axes.grid(alpha=0.3)
    _save(figure, path)


def draw_heads(maps: Sequence[Tensor], text: str, path: Path) -> None:
    """Draw who listens to whom: `maps` holds for each layer the weights (H, T, T) on `text`, T characters."""
    layers, heads = len(maps), len(maps[0])
    figure = _figure(2.4 * heads + 0.6, 2.4 * layers + 0.9)
    grid = figure.subplots(layers, heads, squeeze=False)
    shown = [{"\n": "\\n", " ": "_"}.get(character, character) for character in text]
    for layer in range(layers):
        for head in range(heads):
            axes = grid[layer][head]
            axes.imshow(maps[layer][head].numpy(), cmap="Blues", vmin=0.0)
            axes.set_title(f"layer {layer}, head {head}", fontsize=8)
            for set_ticks in (axes.set_xticks, axes.set_yticks):
                set_ticks(range(len(shown)), labels=shown, fontsize=5, parse_math=False)
    figure.suptitle("A row shows where its character looks; dark is much", fontsize=10)
    _save(figure, path)


def refuse_no_pictures() -> None:
    """Raise CapstoneError when nothing can be drawn here: better before a run than after it."""
    _figure(1.0, 1.0)


def _figure(width: float, height: float) -> Any:
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        raise CapstoneError("The picture needs matplotlib: pip install 'gpt-workshop-kit[capstone]'") from None
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)  # no window system is asked for
    return figure


def _save(figure: Any, path: Path) -> None:
    try:
        figure.savefig(path, dpi=120, format="png", metadata={"Software": None})
    except OSError as error:
        raise disk_trouble(str(path), error) from error
