"""What a command costs: seconds on the clock, and of all its processes on the CPU; and one table for all benchmarks."""

from __future__ import annotations

import re
import resource
import shutil
import statistics
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOLUTIONS = ROOT / "solutions"
#: Between two looks at a process's memory.
_TICK_S = 0.05


@dataclass(frozen=True)
class Cost:
    """What one run of a command took."""

    wall: float  # seconds
    cpu: float  # seconds, of it and of all its processes
    peak_mb: float | None = None  # of its own process alone, where that was asked for and the system tells


def measure(
    command: Sequence[str],
    cwd: Path = ROOT,
    environment: Mapping[str, str] | None = None,
    *,
    memory: bool = False,
    accept: Callable[[int], bool] = lambda status: status == 0,
) -> Cost:
    """Run `command` and return its cost. Raises SystemExit with its output when its status is not accepted."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    process = subprocess.Popen(
        command, cwd=cwd, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    peak: float | None = None
    while memory and process.poll() is None:
        peak = _peak_mb(process.pid) or peak
        time.sleep(_TICK_S)
    said, _ = process.communicate()
    wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    if not accept(process.returncode):
        raise SystemExit(f"{' '.join(command)} ended with status {process.returncode}:\n{said[-3000:]}")
    return Cost(wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, peak)


def median(costs: Sequence[Cost]) -> Cost:
    """Return the medians of wall and of CPU, each on its own."""
    return Cost(statistics.median(cost.wall for cost in costs), statistics.median(cost.cpu for cost in costs))


def copies(folder: Path, size: int, source: Path = SOLUTIONS) -> Path:
    """Make a class of `size` copies of a submission in `folder`, and return it."""
    for number in range(size):
        shutil.copytree(source, folder / f"student-{number:04d}", ignore=shutil.ignore_patterns("__pycache__"))
    return folder


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print rows under a head: the first column to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    for row in (head, *rows):
        cells = [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
        print("  ".join(cells))
    print()


def _peak_mb(pid: int) -> float | None:
    """Return the most memory that a process itself (not its children) ever held; None where Linux's /proc is not."""
    try:
        found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text(encoding="utf-8"))
    except OSError:
        return None
    return int(found[1]) / 1024 if found else None
