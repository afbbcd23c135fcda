"""How the cost of a class grows with its size: submissions a minute, CPU seconds each, and the grader's own memory.

    python benchmarks/bench_scale.py [--sizes 10 100 1000] [--jobs N] [--submission PATH]

The class is made of copies of the solutions, or of any other submission: an untouched stub (data/sample_class/goran)
takes a tenth of the time, and shows the memory of a large class soon. Memory is the most that the grader's own process
held, class pages included; it should be the same for any size.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from measure import SOLUTIONS, Cost, copies, measure, table


def grade(size: int, jobs: int | None, submission: Path) -> tuple[Cost, float]:
    """Return what grading a class of `size` costs, and the size of its class page in MB."""
    with tempfile.TemporaryDirectory(prefix="bench-scale-") as name:
        work, out = copies(Path(name) / "students", size, submission), Path(name) / "out"
        command = [sys.executable, "-m", "autograder", "grade", str(work), "--out", str(out), "--seed", "1"]
        command += ["--jobs", str(jobs)] if jobs else []
        return measure(command, memory=True), (out / "class.html").stat().st_size / 1e6


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="Rate, cost and memory by class size.")
    parser.add_argument("--sizes", type=int, nargs="+", default=[10, 40], help="class sizes (default: 10 40)")
    parser.add_argument("--jobs", type=int, help="submissions graded at once (default: one a core)")
    parser.add_argument("--submission", type=Path, default=SOLUTIONS, help="what the class is made of: a folder")
    options = parser.parse_args(arguments)
    if min(options.sizes) < 1 or not options.submission.is_dir():
        parser.error("--sizes must be at least 1, and --submission a folder")

    print(f"Python {sys.version.split()[0]}, {os.cpu_count()} CPUs, classes of copies of {options.submission.name}\n")
    rows, base = [], None
    for size in options.sizes:
        cost, page = grade(size, options.jobs, options.submission)
        base = base or cost.peak_mb
        memory = ["n/a", "n/a"] if cost.peak_mb is None or base is None else [f"{cost.peak_mb:.0f}"]
        memory += [f"{cost.peak_mb / base:.2f} x"] if cost.peak_mb is not None and base is not None else []
        rate = 60 * size / cost.wall
        rows.append([str(size), f"{cost.wall:.1f}", f"{rate:.0f}", f"{cost.cpu / size:.3f}", *memory, f"{page:.1f}"])
    table(["students", "wall s", "a minute", "CPU s each", "grader MB", "to first", "class page MB"], rows)


if __name__ == "__main__":
    main()
