"""What runs on a worker of a cluster: sandboxes that are kept warm there, and one submission graded in one of them."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING

from distributed import WorkerPlugin, get_worker

from autograder.classroom.ledger import Terms
from autograder.classroom.parcel import Answer, Parcel
from autograder.sandbox import Limits, Nursery
from autograder.track import load_track

if TYPE_CHECKING:
    from distributed import Worker

    from autograder.oracle.memory import Memory

#: A grader that was killed can take nothing back from its cluster: what it left idle there ends itself, in seconds.
_IDLE_S = 120.0


def grade_here(parcel: bytes, plugin: str) -> bytes:
    """Grade one parcel on the worker that runs this, in a sandbox of the plugin of that name; never raises for ours."""
    return get_worker().plugins[plugin].sandboxes.grade(parcel)  # type: ignore[attr-defined,no-any-return]


class GradingPlugin(WorkerPlugin):
    """Gives each worker process its sandboxes, from the first submission there to the end of the run."""

    def __init__(self, name: str, *, ours: bool) -> None:
        self.name = name
        self._ours = ours  # the cluster was started by this run, on this machine

    def setup(self, worker: Worker) -> None:
        """Begin on a worker process."""
        self.sandboxes = Sandboxes()
        if self._ours and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches a whole terminal; the grader ends its workers

    def teardown(self, worker: Worker) -> None:
        """End on a worker process, whatever is in work there."""
        self.sandboxes.close()


class Sandboxes:
    """The sandboxes of one process: one for each thread that grades at the same time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: list[tuple[Limits, Nursery]] = []
        self._lent: list[Nursery] = []
        self._closed = False
        self._memory: Memory | None = None
        self._alarm: threading.Timer | None = None

    def grade(self, data: bytes) -> bytes:
        """Return the packed answer to a packed parcel. What goes wrong is an answer, too."""
        try:
            return self._answer(Parcel.unpack(data)).pack()
        except Exception as error:  # anything: the worker is to live on, and the grader to be told
            return Answer("failed", f"The grader failed on this submission ({type(error).__name__}: {error}).").pack()

    def close(self) -> None:
        """End every sandbox, those in use as well. No new one is made."""
        with self._lock:
            self._closed = True
            nurseries = [*self._lent, *(nursery for _, nursery in self._idle)]
            self._idle = []
            self._rest(None)
        _end(nurseries)

    def _answer(self, parcel: Parcel) -> Answer:
        track = load_track(parcel.terms.track).choosing(parcel.parts)
        own = Terms.of(track, parcel.limits)
        if own != parcel.terms:
            return Answer("different", _difference(own, parcel.terms))
        with self._lend(parcel.limits) as nursery:
            # These import torch: only now, beside the sandbox that has been started.
            from autograder.grading import grade
            from autograder.oracle.memory import Memory

            if not parcel.trusted and not nursery.isolation.isolated:
                return Answer("exposed", list(nursery.isolation.layers))
            with self._lock:
                if self._memory is None or self._memory.draws.seed != parcel.seed:
                    self._memory = Memory(parcel.seed)  # of one run: the last
                memory = self._memory
            report = grade(parcel.submission, track, nursery, seed=parcel.seed, limits=parcel.limits, memory=memory)
            return Answer.of(report)

    @contextlib.contextmanager
    def _lend(self, limits: Limits) -> Iterator[Nursery]:
        """Yield a started sandbox, kept for the next one unless something of ours goes wrong in it."""
        with self._lock:
            if self._closed:
                raise RuntimeError("the run has ended")
            at = next((index for index, (known, _) in enumerate(self._idle) if known == limits), None)
            nursery = Nursery(limits) if at is None else self._idle.pop(at)[1]
            self._lent.append(nursery)
            self._rest(None)
        try:
            nursery.start()  # returns at once: it imports torch while grading does the same here
            yield nursery
        except BaseException:
            with self._lock:
                self._lent.remove(nursery)
            _end([nursery])
            raise
        with self._lock:
            self._lent.remove(nursery)
            self._idle.append((limits, nursery))
            if not self._lent:
                self._rest(_IDLE_S)

    def _rest(self, seconds: float | None) -> None:
        """Set when idle sandboxes end; None: not now. The lock is held."""
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm = None
        if seconds is not None:
            self._alarm = threading.Timer(seconds, self._tidy)
            self._alarm.daemon = True
            self._alarm.start()

    def _tidy(self) -> None:
        with self._lock:
            nurseries = [nursery for _, nursery in self._idle]
            self._idle = []
        _end(nurseries)


def _end(nurseries: list[Nursery]) -> None:
    for nursery in nurseries:
        with contextlib.suppress(Exception):  # it failed already, or is closing in its own thread
            nursery.close()


def _difference(here: Terms, wanted: Terms) -> str:
    if here.kit_version != wanted.kit_version:
        return f"it has kit {here.kit_version}, and not {wanted.kit_version}"
    if here.kit_code != wanted.kit_code:
        return f"its kit {here.kit_version} has other code (or other solutions) than the one here"
    return f"its course {here.track} has other checks or points than the one here"
