"""Measure, side by side in one run, a check against `import torch` alone, and submissions graded a minute.

    python benchmarks/bench_check.py [--rounds N] [--class-size N]

Prints wall and CPU seconds as medians, and their ratios. Machines differ and are shared: compare ratios of one run,
never seconds of two. No test depends on these figures.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from measure import SOLUTIONS, Cost, copies, measure, median

IMPORT_TORCH = [sys.executable, "-c", "import torch"]
CHECK = [sys.executable, "-m", "autograder", "check", "--path", str(SOLUTIONS), "--no-progress"]


def alternate(rounds: int) -> tuple[Cost, Cost]:
    """Return the medians of `import torch` and of a check; taken in turns, so that a busy moment hits both."""
    for command in (IMPORT_TORCH, CHECK):
        measure(command)  # once unmeasured: the first import reads the libraries from disk
    pairs = [(measure(IMPORT_TORCH), measure(CHECK)) for _ in range(rounds)]
    return median([torch for torch, _ in pairs]), median([check for _, check in pairs])


def grade_class(size: int) -> Cost:
    """Return the cost of grading a class of `size` copies of the solutions."""
    with tempfile.TemporaryDirectory(prefix="bench-class-") as folder:
        students = copies(Path(folder) / "students", size)
        out = str(Path(folder) / "grades")
        return measure([sys.executable, "-m", "autograder", "grade", str(students), "--out", out, "--seed", "1"])


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="What a check and a class cost, against `import torch` alone.")
    parser.add_argument("--rounds", type=int, default=5, help="runs of each command, taken in turns (default: 5)")
    parser.add_argument("--class-size", type=int, default=12, help="submissions in the class (default: 12)")
    options = parser.parse_args(arguments)
    if options.rounds < 1 or options.class_size < 1:
        parser.error("--rounds and --class-size must be at least 1")

    print(f"Python {sys.version.split()[0]}, {os.cpu_count()} CPUs, medians of {options.rounds}\n")
    torch, check = alternate(options.rounds)
    print(f"{'':36}{'wall s':>8}{'CPU s':>8}")
    print(f"{'import torch':36}{torch.wall:8.2f}{torch.cpu:8.2f}")
    print(f"{'workshop check --path solutions':36}{check.wall:8.2f}{check.cpu:8.2f}")
    print(f"{'ratio':36}{check.wall / torch.wall:8.2f}{check.cpu / torch.cpu:8.2f}\n")
    group = grade_class(options.class_size)
    print(f"{f'workshop grade, a class of {options.class_size}':36}{group.wall:8.2f}{group.cpu:8.2f}")
    print(f"{60 * options.class_size / group.wall:.0f} submissions a minute, start-up included")


if __name__ == "__main__":
    main()
