"""How a Python process of ours is started for student code: command line, environment, first steps of every child."""

from __future__ import annotations

import importlib
import importlib.util
import os
import socket
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autograder.probe.failure import NO_CHANNEL_STATUS, NO_MEMORY_STATUS
from autograder.sandbox import portable, wire
from autograder.sandbox.policy import Limits

if TYPE_CHECKING:
    from autograder.sandbox.linux import Plan

#: -P and -s keep the current folder and the user's packages off sys.path, -B leaves no .pyc behind. Not -I: it would
#: also ignore PYTHONHASHSEED, and the environment is ours alone anyway.
_FLAGS = ("-P", "-s", "-B", "-X", "utf8")

#: The package's parent is on sys.path only until the package is found: in a checkout, the solutions lie there too.
_BOOTSTRAP = (
    "import sys; parent, room, *rest = sys.argv[1:]; sys.argv = ['']; sys.path.append(parent); "
    "import importlib; main = importlib.import_module(room).main; sys.path.pop(); main(*rest)"
)


def command(room: str, *arguments: str) -> list[str]:
    """Return the command line that runs `room`.main(*arguments), where `room` is a module of ours."""
    parent = Path(__file__).resolve().parents[2]
    return [sys.executable, *_FLAGS, "-c", _BOOTSTRAP, str(parent), room, *arguments]


def environment(home: Path) -> dict[str, str]:
    """Return the whole environment of such a process: nothing of the grader's own is in it.

    One thread each: a fork of a process with a thread pool deadlocks. No compiler: nothing that needs it is graded.
    """
    fixed = {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "LANG": "C.UTF-8",
        "HOME": str(home),
        "PYTHONHASHSEED": "0",
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "MKL_NUM_THREADS": "1",
        "OMP_THREAD_LIMIT": "1",
        "TORCHDYNAMO_DISABLE": "1",
    }
    if sys.platform == "win32":  # sockets and temporary files do not work without these
        fixed |= {name: os.environ[name] for name in ("SYSTEMROOT", "TEMP") if name in os.environ}
    return fixed


def load_workbench(spec: str) -> Any:
    """Return the class that `spec` names: "package.module:Class", or "/path/to/file.py:Class"."""
    place, _, name = spec.rpartition(":")
    if not place.endswith(".py"):
        return getattr(importlib.import_module(place), name)
    found = importlib.util.spec_from_file_location("workbench", place)
    if found is None or found.loader is None:
        raise ImportError(f"no workbench in {place}")
    module = importlib.util.module_from_spec(found)
    sys.modules["workbench"] = module
    found.loader.exec_module(module)
    return getattr(module, name)


def hide_package() -> None:
    """Let nothing more of ours be imported but rooms of the probe: no check, no oracle, no reference.

    An editable install puts the checkout, and with it the solutions, on sys.path for good: it comes off, too.
    """
    import autograder

    parent = Path(__file__).resolve().parents[2]
    if not (parent / "torch").exists():  # else it is the folder of all installed packages
        sys.path[:] = [entry for entry in sys.path if Path(entry).resolve() != parent]
    autograder.__path__ = []


def run_child(
    channel: int, output: int | None, canary: int | None, make: Any, parent: int | None, plan: Plan | None = None
) -> None:
    """Become a child: settle descriptors, read the contract, take on its limits, say "ready", serve until the end.

    Never returns to its caller's frames: the process ends here. `make(tree)` builds the workbench. `plan` holds the
    layers of the Linux sandbox; None leaves it at the portable ones.
    """
    from autograder.probe.host import ran_out_of_memory

    status = 70  # "internal software error" (sysexits.h), unless all goes well
    try:
        if sys.platform != "win32":
            channel = portable.settle_descriptors(channel, output, canary)
        with socket.socket(fileno=channel) as talk:
            _serve(talk, canary is not None, make, parent, plan)
        status = 0
    except BaseException as error:
        if ran_out_of_memory(error):
            status = NO_MEMORY_STATUS
        elif isinstance(error, OSError):
            status = NO_CHANNEL_STATUS
        sys.excepthook(*sys.exc_info())
    finally:
        os._exit(status)  # no exit handlers: they would be the student's


def _serve(
    talk: socket.socket, has_canary: bool, make: Callable[[str], Any], parent: int | None, plan: Plan | None
) -> None:
    from autograder.probe import host

    terms = wire.receive_json(talk)
    limits = Limits(**terms["limits"])
    tree, scratch, isolated = terms["tree"], terms["scratch"], False
    if plan is None:
        layers = portable.confine(Path(scratch), limits, parent)
    else:
        cell = plan.cell(tree, scratch)
        cell.enter(limits.disk_mb)
        layers = portable.confine(Path(cell.scratch), limits, parent)
        cell.shut(limits, parent)
        layers += cell.held.values()
        tree, isolated = cell.tree, cell.isolated
    wire.send_json(talk, {"ready": True, "layers": layers, "isolated": isolated})
    watched = {1: "output", 2: "output"} | ({portable.CANARY: "canary"} if has_canary else {})
    host.serve(talk, partial(make, tree), watched, limits.reply_mb << 20)
