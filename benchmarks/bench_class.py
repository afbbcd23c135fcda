"""Grade the same class with the kit, with `nbgrader autograde`, and with one pytest process a submission, in one run.

    python benchmarks/bench_class.py [--students N] [--ours N] [--rounds N] [--only-full]

Every submission is right, and every grader has to say so. The rivals do what rival_checks.py does, which is less than
ours. What a submission costs is a class of N less a class of one, over N - 1. Start-up stands beside it: a class of any
size pays it once, but with pytest each submission does. Compare ratios of one run, never seconds of two.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from measure import ROOT, Cost, copies, measure, median, table
from rivals import FILES, grade_with_nbgrader, grade_with_pytest

Grader = Callable[[Path, int], Cost]  # a fresh folder, how many students


@dataclass(frozen=True)
class Figures:
    """What a grader costs: a class of one, and each further submission."""

    first: Cost
    each: Cost


def ours(folder: Path, students: int) -> Cost:
    """Grade the whole track on one core, with the ledger and all pages."""
    work = copies(folder / "students", students)
    command = [sys.executable, "-m", "autograder", "grade", str(work), "--out", str(folder / "out"), "--seed", "1"]
    return measure([*command, "--jobs", "1"])


def our_attention(folder: Path, students: int) -> Cost:
    """Grade attention alone on one core."""
    work = copies(folder / "students", students)
    return measure([sys.executable, str(ROOT / "benchmarks" / "grade_parts.py"), str(work), "attention"])


def figures(grader: Grader, students: int, rounds: int) -> Figures:
    """Return the medians over `rounds` of a class of one, and of what each submission beyond the first adds."""
    firsts, further = [], []
    for _ in range(rounds):
        with tempfile.TemporaryDirectory(prefix="bench-class-") as name:
            one, many = grader(Path(name) / "one", 1), grader(Path(name) / "many", students)
        firsts.append(one)
        others = students - 1
        further.append(Cost((many.wall - one.wall) / others, (many.cpu - one.cpu) / others))
    return Figures(median(firsts), median(further))


def compare(title: str, graders: dict[str, tuple[Grader, int]], rounds: int) -> None:
    """Measure and print each grader, the first of which is ours, and by how much the others cost more."""
    found = {name: figures(grader, students, rounds) for name, (grader, students) in graders.items()}
    base = next(iter(found.values())).each
    print(title)
    rows = []
    for name, cost in found.items():
        speed = 60 / max(cost.each.wall, 1e-9)
        ratio = cost.each.cpu / base.cpu
        rows.append(
            [name, f"{cost.first.cpu:.2f}", f"{cost.each.cpu:.3f}", f"{ratio:.1f} x", f"{speed:.0f}"],
        )
    table(["", "CPU s, class of 1", "CPU s a submission", "to ours", "submissions/min, 1 core"], rows)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="A class with the kit, with nbgrader, and with pytest, side by side.")
    parser.add_argument("--students", type=int, default=3, help="submissions for each rival (default: 3)")
    parser.add_argument("--ours", type=int, default=10, help="submissions for the kit (default: 10)")
    parser.add_argument("--rounds", type=int, default=1, help="times that each is measured; medians (default: 1)")
    parser.add_argument("--only-full", action="store_true", help="the whole track only, not attention alone")
    options = parser.parse_args(arguments)
    if min(options.students, options.ours) < 2 or options.rounds < 1:
        parser.error("--students and --ours must be at least 2, --rounds at least 1")

    print(
        f"Python {sys.version.split()[0]}, {os.cpu_count()} CPUs, each grader on one core, {options.rounds} round(s)\n"
    )
    with_nbgrader = importlib.util.find_spec("nbgrader") is not None
    if not with_nbgrader:
        print("nbgrader is not installed (pip install '.[notebook]'): it is left out\n")
    wanted: list[tuple[str, Grader, tuple[str, ...]]] = [("The whole gpt track", ours, FILES)]
    if not options.only_full:
        wanted.append(("Attention alone", our_attention, ("attention",)))
    for title, own, parts in wanted:
        graders: dict[str, tuple[Grader, int]] = {"workshop": (own, options.ours)}
        if with_nbgrader:
            graders["nbgrader autograde"] = (lambda f, n, p=parts: grade_with_nbgrader(f, n, p), options.students)
        graders["one pytest process each"] = (lambda f, n, p=parts: grade_with_pytest(f, n, p), options.students)
        compare(title, graders, options.rounds)


if __name__ == "__main__":
    main()
