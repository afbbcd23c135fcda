"""The order in which a notebook's cells run: what one needs stands before it; and the imports that are gone."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from autograder.submission.pieces import Unit
from autograder.submission.syntax import RUN, bound, needed, unbound

#: What the course's own cells import, under the names that everybody uses: for these there is no doubt what is meant.
_USUAL = {
    "math": "import math",
    "np": "import numpy as np",
    "torch": "import torch",
    "nn": "from torch import nn",
    "Tensor": "from torch import Tensor",
    "F": "from torch.nn import functional as F",
    "dataclass": "from dataclasses import dataclass",
}


def in_running_order(units: Sequence[Unit]) -> tuple[list[Unit], list[tuple[Unit, Unit]]]:
    """Return `units` so that each stands after those that it needs to be run, and (moved, before which) pairs.

    Those that need nothing from below stay where they are.
    """
    brings = [set(bound(unit.body or ())) for unit in units]
    places: dict[str, list[int]] = {}
    for place, names in enumerate(brings):
        for name in names:
            places.setdefault(name, []).append(place)
    order: list[int] = []
    moved: list[tuple[Unit, Unit]] = []
    begun: set[int] = set()
    done: set[int] = set()
    known: set[str] = set()
    for start in range(len(units)):
        stack = [start]
        while stack:  # no recursion: a notebook may hold thousands of cells, each needing the next
            place = stack[-1]
            if place not in begun:
                begun.add(place)
                missing = sorted(_needs(units[place]) - known)
                # of those that bring it, the first from here on: what ran before has been run
                wanted = [next((at for at in places.get(name, ()) if at not in begun), None) for name in missing]
                later = sorted({at for at in wanted if at is not None}, reverse=True)
                stack += later
                moved += [(units[at], units[place]) for at in later if at > place]
                if later:
                    continue
            stack.pop()
            if place not in done:
                done.add(place)
                order.append(place)
                known |= brings[place]
    return [units[place] for place in order], moved


def _needs(unit: Unit) -> set[str]:
    """Return the names that must be there before the unit is run."""
    have: set[str] = set()
    names: set[str] = set()
    for node in unit.body or ():
        if isinstance(node, RUN):
            names |= needed(node) - have
        have |= set(bound([node]))
    return names


def missing_imports(bodies: Sequence[Sequence[ast.stmt]]) -> list[str]:
    """Return the import lines for usual names that are used in `bodies` and bound nowhere."""
    missing = unbound(bodies)
    return [line for name, line in _USUAL.items() if name in missing]
