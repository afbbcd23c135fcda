"""The same class in this command, and on a Dask cluster started for it with 1 and 2 workers.

    python benchmarks/bench_cluster.py [--students N] [--workers 1 2]

Start-up (processes, torch in each of them, certificates) is part of the wall time, and is shown by a class of one.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from measure import Cost, copies, measure, table


def grade(size: int, engine: str, jobs: int) -> Cost:
    """Return what grading a class of `size` costs."""
    with tempfile.TemporaryDirectory(prefix="bench-cluster-") as name:
        work = copies(Path(name) / "students", size)
        command = [sys.executable, "-m", "autograder", "grade", str(work), "--out", str(Path(name) / "out")]
        return measure([*command, "--seed", "1", "--engine", engine, "--jobs", str(jobs)])


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="One machine's cores, by threads and by Dask workers.")
    parser.add_argument("--students", type=int, default=12, help="submissions in the class (default: 12)")
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2], help="numbers of workers (default: 1 2)")
    options = parser.parse_args(arguments)
    if options.students < 2 or min(options.workers) < 1:
        parser.error("--students must be at least 2, --workers at least 1")

    print(f"Python {sys.version.split()[0]}, {os.cpu_count()} CPUs, a class of {options.students}\n")
    rows, others = [], options.students - 1
    for jobs in options.workers:
        for engine in ("local", "dask"):
            one, many = grade(1, engine, jobs), grade(options.students, engine, jobs)
            rate = 60 * others / max(many.wall - one.wall, 1e-9)
            figures = [f"{one.wall:.1f}", f"{many.wall:.1f}", f"{rate:.0f}", f"{(many.cpu - one.cpu) / others:.3f}"]
            rows.append([f"{engine}, {jobs}", *figures])
    table(["engine, workers", "wall s of one", "wall s of all", "a minute, further ones", "CPU s each"], rows)


if __name__ == "__main__":
    main()
