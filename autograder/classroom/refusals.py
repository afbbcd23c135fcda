"""Why the grading of a class stops: nothing is wrong with any submission."""

from __future__ import annotations

from collections.abc import Sequence


class NotIsolated(Exception):
    """Student code cannot be kept apart from this machine, and nobody has said that the students are trusted."""

    def __init__(self, layers: Sequence[str]) -> None:
        super().__init__(f"student code could reach the rest of this machine; what holds here: {', '.join(layers)}")


class ClusterError(Exception):
    """The cluster cannot go on grading; the text says why and what to do."""


class NoCluster(ClusterError):
    """There is none: nothing answers at the address, or none can be started."""
