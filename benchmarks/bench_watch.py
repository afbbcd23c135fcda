"""Measure how long `workshop watch` takes from a save to the verdict, beside a fresh pytest run on the same part.

    python benchmarks/bench_watch.py [--saves N] [--pytest-runs N]

Saves attention.py N times in each of three states (the stub, an answer that forgets the scale, the right answer) and
prints medians of wall seconds. Machines differ and are shared: run it on quiet cores. No test depends on these figures.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SCALE = " / math.sqrt(self.head_dim)"

#: What a course without a grader would hand out: the same part, tested as a class usually is.
PYTEST = """
import torch
from torch.nn import functional as F
from types import SimpleNamespace
from attention import CausalSelfAttention

CONFIG = SimpleNamespace(n_embd=24, n_head=3, block_size=16, vocab_size=65, n_layer=1)

def expected(layer, x):
    B, T, C = x.shape
    q, k, v = (t.view(B, T, 3, 8).transpose(1, 2) for t in layer.c_attn(x).split(C, dim=2))
    y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    return layer.c_proj(y.transpose(1, 2).reshape(B, T, C))

def test_shape():
    assert CausalSelfAttention(CONFIG)(torch.randn(2, 7, 24)).shape == (2, 7, 24)

def test_values():
    layer, x = CausalSelfAttention(CONFIG), torch.randn(2, 7, 24)
    torch.testing.assert_close(layer(x), expected(layer, x))

def test_causal():
    layer, x = CausalSelfAttention(CONFIG), torch.randn(1, 7, 24)
    y = x.clone()
    y[:, 4:] += 1
    torch.testing.assert_close(layer(x)[:, :4], layer(y)[:, :4])
"""


def states() -> dict[str, str]:
    """Return the states of attention.py that are saved: name -> text."""
    right = (ROOT / "solutions" / "attention.py").read_text(encoding="utf-8")
    assert SCALE in right
    stub = (ROOT / "exercises" / "attention.py").read_text(encoding="utf-8")
    return {"the stub": stub, "an answer without the scale": right.replace(SCALE, ""), "the right answer": right}


def time_saves(folder: Path, text: str, saves: int) -> list[float]:
    """Return the seconds from each of `saves` saves to its verdict line; the first two are for warming up."""
    command = [sys.executable, "-m", "autograder", "watch", "attention"]
    environment = {**os.environ, "PYTHONUTF8": "1"}
    seconds: list[float] = []
    with subprocess.Popen(
        command, cwd=folder, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as watch:
        assert watch.stdin is not None and watch.stdout is not None
        wait_for_verdict(watch)
        for number in range(saves + 2):
            time.sleep(0.3)  # as a person: the watcher is at rest when the next save comes
            before = time.perf_counter()
            (folder / "attention.py").write_text(f"{text}\n# save {number}\n", encoding="utf-8")
            wait_for_verdict(watch)
            seconds.append(time.perf_counter() - before)
        watch.stdin.close()
    return seconds[2:]


def wait_for_verdict(watch: subprocess.Popen[str]) -> None:
    """Read up to the next verdict line. Raises SystemExit when `watch` ends first."""
    assert watch.stdout is not None
    for line in watch.stdout:
        if line.startswith("attention ") and "/" in line:
            return
    raise SystemExit("workshop watch ended before its verdict")


def time_pytest(folder: Path, text: str, runs: int) -> list[float]:
    """Return the seconds of each of `runs` fresh pytest runs."""
    (folder / "attention.py").write_text(text, encoding="utf-8")
    (folder / "test_attention.py").write_text(PYTEST, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_attention.py"]
    seconds = []
    for _ in range(runs + 1):  # the first run reads the libraries from disk
        before = time.perf_counter()
        done = subprocess.run(command, cwd=folder, capture_output=True, check=False)
        seconds.append(time.perf_counter() - before)
        if done.returncode not in (0, 1):
            raise SystemExit(f"pytest ended with status {done.returncode}:\n{done.stdout.decode()}")
    (folder / "test_attention.py").unlink()
    return seconds[1:]


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="From save to verdict in `workshop watch`, beside a fresh pytest run.")
    parser.add_argument("--saves", type=int, default=20, help="saves in each state (default: 20)")
    parser.add_argument("--pytest-runs", type=int, default=5, help="pytest runs in each state (default: 5)")
    options = parser.parse_args(arguments)
    if options.saves < 1 or options.pytest_runs < 1:
        parser.error("--saves and --pytest-runs must be at least 1")
    load = f", load {os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else ""
    print(
        f"Python {sys.version.split()[0]}, {os.cpu_count()} CPUs{load}, attention, medians of {options.saves} saves\n"
    )
    print(f"{'attention.py is':32}{'watch s':>9}{'worst s':>9}{'pytest s':>10}{'ratio':>8}")
    for name, text in states().items():
        with tempfile.TemporaryDirectory(prefix="bench-watch-") as place:
            folder = Path(place)
            shutil.copytree(
                ROOT / "exercises", folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__")
            )
            (folder / "attention.py").write_text(text, encoding="utf-8")
            watch = time_saves(folder, text, options.saves)
            pytest = statistics.median(time_pytest(folder, text, options.pytest_runs))
            median = statistics.median(watch)
            print(f"{name:32}{median:9.3f}{max(watch):9.3f}{pytest:10.2f}{pytest / median:8.1f}")


if __name__ == "__main__":
    main()
