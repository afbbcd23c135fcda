"""Where a class is graded: in threads of this command, on a Dask cluster of its own, or on one that is there."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from autograder.track import Track

if TYPE_CHECKING:
    from autograder.classroom.local import Entry


#: As Dask has them: a protocol, a host (IPv6 in brackets) and a port.
_ADDRESS = re.compile(r"((tcp|tls|ws|wss|ucx)://)?([\w.-]+|\[[0-9a-fA-F:.%]+\]):\d{1,5}/?", re.ASCII)


class EngineName(StrEnum):
    """The words that `--engine` takes."""

    LOCAL = "local"
    DASK = "dask"


JobsOption = Annotated[
    int | None, typer.Option(metavar="N", min=1, help="Submissions graded at once. Default: one a core.")
]
EngineOption = Annotated[
    EngineName | None, typer.Option(help="Grade in this command, or on a Dask cluster started for it here.")
]
SchedulerOption = Annotated[
    str | None, typer.Option(metavar="ADDRESS", help="Grade on the Dask cluster whose scheduler is there (tcp://...).")
]


@dataclass(frozen=True)
class Engine:
    """What runs the grading. The reports are the same from each."""

    name: EngineName = EngineName.LOCAL
    scheduler: str | None = None
    jobs: int | None = None

    def grade(self, entries: Sequence[Entry], track: Track, *, tell: Callable[[str], None], **how: Any) -> None:
        """Grade each entry; the keywords are those of `grade_class`. Raises NotIsolated, ClusterError."""
        if self.name is EngineName.LOCAL:
            from autograder.classroom.local import grade_class

            grade_class(entries, track, jobs=self.jobs, **how)
        else:
            from autograder.classroom.cluster import grade_on_cluster

            grade_on_cluster(entries, track, scheduler=self.scheduler, workers=self.jobs, tell=tell, **how)


def chosen_engine(name: EngineName | None, scheduler: str | None, jobs: int | None) -> Engine:
    """Return the engine that the options name; a usage error where they contradict each other, or Dask is missing."""
    if scheduler is None and name is not EngineName.DASK:
        return Engine(jobs=jobs)
    if name is EngineName.LOCAL:
        raise typer.BadParameter("--scheduler names a Dask cluster: leave out --engine local.", param_hint="--engine")
    if scheduler is not None and jobs is not None:
        raise typer.BadParameter("the cluster has as many workers as it has: leave out --jobs.", param_hint="--jobs")
    if scheduler is not None and not _ADDRESS.fullmatch(scheduler):
        raise typer.BadParameter(
            f"{scheduler!r} is no scheduler's address: those look like tcp://10.0.0.5:8786.", param_hint="--scheduler"
        )
    needed = ("distributed",) if scheduler is not None else ("distributed", "cryptography")
    for module in needed:
        if importlib.util.find_spec(module) is None:
            raise typer.BadParameter(
                f'this needs Dask, and {module} is not installed here: pip install "gpt-workshop-kit[cluster]"',
                param_hint="--engine" if scheduler is None else "--scheduler",
            )
    return Engine(EngineName.DASK, scheduler, jobs)
