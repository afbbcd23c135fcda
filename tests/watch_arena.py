"""Runs student texts under a Watch, each in a forked child, and prints what was seen. Started by test_watch.py.

stdin: a JSON list of {"files": {path: text}, "look": expression, "snapshot": bool}; stdout: what came of each.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import tempfile
import threading
import types
from pathlib import Path
from typing import Any

import numpy
import torch

import autograder.probe.ops
from autograder.probe.watch import Snapshot, Watch, snapshot

_MEMORY = 3 << 30  # torch itself needs 0.8 GB of address space
_SECONDS = 20


def run(scenario: dict[str, Any], originals: Snapshot) -> dict[str, Any]:
    """Return what a watch saw, and how things were afterwards, in a child process."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        try:
            text = json.dumps(_child(scenario, originals))
            with os.fdopen(writing, "w") as channel:
                channel.write(text)
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as channel:
        text = channel.read()
    _, status = os.waitpid(child, 0)
    return json.loads(text) if text else {"error": f"no reply, status {status}"}


def _child(scenario: dict[str, Any], originals: Snapshot) -> dict[str, Any]:
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (_SECONDS, _SECONDS))
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)
    with tempfile.TemporaryDirectory() as folder:
        tree, scratch = Path(folder, "tree"), Path(folder, "scratch")
        for path, text in scenario["files"].items():
            (tree / path).parent.mkdir(parents=True, exist_ok=True)
            (tree / path).write_text(text, encoding="utf-8")
        scratch.mkdir()
        os.chdir(scratch)
        tracers = _tracers()
        watch = Watch(str(tree), originals if scenario["snapshot"] else None)
        sys.path.insert(0, str(tree))
        answer = {"error": _student(tree)}
        watch.inspect()
        answer["tampering"], answer["side_effects"], answer["notices"] = _seen(watch)
        watch.inspect()
        answer["repeated"] = _seen(watch) != (answer["tampering"], answer["side_effects"], answer["notices"])
        names = {"torch": torch, "numpy": numpy, "os": os, "sys": sys, "scratch": scratch}
        answer["look"] = eval(scenario["look"], {**names, "untraced": _tracers() == tracers})
        os.chdir("/")
        return answer


def _tracers() -> list[Any]:
    """Return who traces and profiles: nobody, or a coverage measurement of these very tests."""
    return [sys.gettrace(), sys.getprofile(), threading.gettrace(), threading.getprofile()]


def _seen(watch: Watch) -> tuple[list[str], list[str], list[str]]:
    return watch.tampering, watch.side_effects, watch.notices


def _student(tree: Path) -> str:
    module = types.ModuleType("model")
    module.__file__ = str(tree / "model.py")
    sys.modules["model"] = module
    try:
        exec(compile((tree / "model.py").read_bytes(), str(tree / "model.py"), "exec"), vars(module))
        if "call" in vars(module):
            module.call()
    except BaseException as error:
        return f"{type(error).__name__}: {error}"
    return ""


if __name__ == "__main__":
    torch.set_num_threads(1)
    assert autograder.probe.ops  # loaded, so that its functions are watched too
    taken = snapshot()
    print(json.dumps([run(scenario, taken) for scenario in json.load(sys.stdin)]))
