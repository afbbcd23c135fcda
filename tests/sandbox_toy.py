"""A toy workbench (it runs only in child processes), and what tests of the sandbox need around it."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch


class Toy:
    """Does what a request says, however hostile.

    Ops: eval (code -> its value), run (code), echo (the tensors back), make (code -> tensors), tree, save (coverage).
    """

    def __init__(self, tree: str) -> None:
        self._tree = tree
        self._names: dict[str, Any] = {}

    def handle(self, op: str, args: dict[str, Any], tensors: dict[str, torch.Tensor]) -> Any:
        if op == "eval":
            return {"value": eval(args["code"], self._names)}, {}
        if op == "run":
            exec(args["code"], self._names)
            return {}, {}
        if op == "echo":
            return {}, tensors
        if op == "make":
            return {}, eval(args["code"], {"torch": torch})
        if op == "save":
            globals().get("save_coverage", lambda: None)()
        return {"tree": self._tree}, {}


#: Children have an environment of their own and end by a signal, so that coverage must be started and saved by hand.
_COVERAGE = """
import atexit, coverage
_coverage = coverage.Coverage(data_file={data_file!r}, data_suffix=True, config_file={config!r})
_coverage.start()
save_coverage = _coverage.save
atexit.register(save_coverage)
"""


def write_workbench(folder: Path) -> str:
    """Put the toy into `folder` and return the spec by which a Nursery finds it."""
    target = folder / "toy.py"
    shutil.copy(__file__, target)
    if (data_file := _data_file()) is not None:
        config = str(Path(__file__).parents[1] / "pyproject.toml")
        with target.open("a", encoding="utf-8") as stream:
            stream.write(_COVERAGE.format(data_file=data_file, config=config))
    return f"{target}:Toy"


def _data_file() -> str | None:
    try:
        import coverage
    except ImportError:
        return None
    running = coverage.Coverage.current()
    return None if running is None else str(Path(running.config.data_file).absolute())


def wait_until(condition: Callable[[], bool], seconds: float = 10.0) -> bool:
    """Return whether `condition` comes true within `seconds`, looking often."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.002)
    return True
