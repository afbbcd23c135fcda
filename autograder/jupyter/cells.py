"""What a notebook defines at this moment: of the cells that were run, those whose definitions still hold."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from autograder.submission.book import read_book
from autograder.submission.limits import MAX_NOTEBOOK, Refused
from autograder.submission.notebook import plain
from autograder.submission.repair import Repaired, repaired
from autograder.track import Track

_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def history() -> list[str]:
    """Return the cells that were run in this kernel, as they were typed, oldest first; outside of IPython, none."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    if shell is None:
        return []
    return [str(cell) for cell in shell.history_manager.input_hist_raw]


def saved(file: Path, track: Track) -> Repaired:
    """Return the code of a notebook on the disk, repaired. Raises Refused when it is none, OSError."""
    if file.stat().st_size > MAX_NOTEBOOK:
        raise Refused(f"{file.name} is too large: clear the outputs of its cells and save it again.")
    return repaired([read_book(file.read_bytes(), file.name)], track)


def definitions(cells: Sequence[str]) -> str:
    """Return the source of the cells that define something which no later cell defines anew.

    A cell that is no Python (the kernel did not run it either) is left out; so is one that only calls or prints.
    """
    kept: list[str] = []
    later: set[str] = set()
    for cell in reversed(cells):
        text = plain(cell)
        try:
            names = set(_bound(ast.parse(text).body))
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue
        if any(name not in later and name.split(".")[0] not in later for name in names):
            kept.append(text.rstrip("\n") + "\n")
        later |= names
    return "\n".join(reversed(kept))


def _bound(body: Sequence[ast.stmt]) -> Iterator[str]:
    """Yield the names that statements give a value; `A.forward = ...` gives one to "A.forward"."""
    for node in body:
        if isinstance(node, _DEFINITIONS):
            yield node.name
        elif isinstance(node, ast.Import | ast.ImportFrom):
            yield from ((alias.asname or alias.name).split(".")[0] for alias in node.names)
        elif isinstance(node, ast.Assign):
            yield from (ast.unparse(name) for target in node.targets for name in _targets(target))
        elif isinstance(node, ast.AnnAssign):
            yield ast.unparse(node.target)
        elif isinstance(node, ast.Try):
            yield from _bound(node.body)


def _targets(target: ast.expr) -> Iterator[ast.expr]:
    if isinstance(target, ast.Tuple | ast.List):
        for each in target.elts:
            yield from _targets(each)
    else:
        yield target
