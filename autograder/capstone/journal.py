"""The journal of a run: metrics.jsonl, a line a record, and the picture of the loss curve."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from autograder.capstone.trouble import CapstoneError, disk_trouble

METRICS, CURVE = "metrics.jsonl", "loss.png"


class Journal:
    """Appends records to RUN/metrics.jsonl. Each has its `step`, the number of steps done, counted from 1."""

    def __init__(self, run: Path) -> None:
        self.path = run / METRICS

    def cut(self, step: int) -> None:
        """Drop what comes after `step`: a resumed run writes it again. A line that a kill cut short goes too."""
        kept = [json.dumps(record) + "\n" for record in read_metrics(self.path) if record["step"] <= step]
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            beside = self.path.with_suffix(".part")  # a kill must not cost the records of the steps before
            beside.write_text("".join(kept), encoding="ascii")
            beside.replace(self.path)
        except OSError as error:
            raise disk_trouble(str(self.path), error) from error

    def add(self, record: dict[str, Any]) -> None:
        """Append one record."""
        try:
            with self.path.open("a", encoding="ascii") as stream:
                stream.write(json.dumps(record) + "\n")
        except OSError as error:
            raise disk_trouble(str(self.path), error) from error


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """Return the records in `path`, none if it is not there; lines that are no records are left out."""
    if not path.is_file():
        return []
    records = []
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            record = json.loads(line)
        except ValueError:
            continue
        if isinstance(record, dict) and isinstance(record.get("step"), int):
            records.append(record)
    return records


def draw_curve(run: Path, title: str) -> Path:
    """Draw training and validation loss over steps into RUN/loss.png; return its path.

    Raises CapstoneError when matplotlib is not installed (the extra `capstone`) or the disk is full.
    """
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        raise CapstoneError("The loss curve needs matplotlib: pip install 'gpt-workshop-kit[capstone]'") from None
    records = read_metrics(run / METRICS)
    figure = Figure(figsize=(7, 4), layout="constrained")
    FigureCanvasAgg(figure)  # no window system is asked for
    axes = figure.subplots()
    training = [(record["step"], record["loss"]) for record in records if "loss" in record]
    validation = [(record["step"], record["validation_loss"]) for record in records if "validation_loss" in record]
    if training:
        axes.plot(*zip(*training, strict=True), linewidth=0.8, alpha=0.6, label="training (one batch)")
    if validation:
        axes.plot(*zip(*validation, strict=True), marker="o", markersize=4, label="validation (all of it)")
    axes.set(xlabel="step", ylabel="loss (nats per character)", title=title)
    axes.grid(alpha=0.3)
    if training or validation:
        axes.legend()
    try:
        figure.savefig(run / CURVE, dpi=120, format="png", metadata={"Software": None})
    except OSError as error:
        raise disk_trouble(str(run / CURVE), error) from error
    return run / CURVE
