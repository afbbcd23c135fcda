"""What the sandbox costs: the start of its warm process, and a child under each layer, alone and all together.

    python benchmarks/bench_sandbox.py [--children N]

A child is forked, locked in, asked nothing and ended. The rows are measured in turns, so that a busy moment hits all.
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from autograder.sandbox import Nursery
from autograder.sandbox.policy import LAYERS


def child(nursery: Nursery, tree: Path) -> float:
    """Return the seconds that one child takes, from the fork to the last trace of it."""
    start = time.perf_counter()
    nursery.spawn(tree).end(0.0)
    return time.perf_counter() - start


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="Start-up of the sandbox, and the cost of each layer.")
    parser.add_argument("--children", type=int, default=40, help="children a row (default: 40)")
    options = parser.parse_args(arguments)
    if options.children < 1:
        parser.error("--children must be at least 1")

    rows: list[tuple[str, tuple[str, ...]]] = [("limits only", ()), *((f"+ {layer}", (layer,)) for layer in LAYERS)]
    rows.append(("all layers", LAYERS))
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-sandbox-")))
        folder.chmod(0o755)
        tree = folder / "tree"
        tree.mkdir()
        nurseries, starts = [], []
        for _, layers in rows:
            start = time.perf_counter()
            nursery = stack.enter_context(Nursery(layers=layers))
            child(nursery, tree)
            starts.append(time.perf_counter() - start)
            nurseries.append(nursery)
        turns = [[child(nursery, tree) for nursery in nurseries] for _ in range(options.children)]
        medians = [1000 * statistics.median(column) for column in zip(*turns, strict=True)]
        print(f"Python {sys.version.split()[0]}, medians of {options.children} children\n")
        print(f"{'':16}{'start-up s':>11}{'a child, ms':>13}{'more, ms':>10}  isolated")
        for (name, _), start, cost, nursery in zip(rows, starts, medians, nurseries, strict=True):
            isolated = "yes" if nursery.isolation.isolated else "no"
            print(f"{name:16}{start:11.2f}{cost:13.1f}{cost - medians[0]:10.1f}  {isolated}")
        print()


if __name__ == "__main__":
    main()
