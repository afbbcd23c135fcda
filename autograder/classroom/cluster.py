"""Grade a class on a Dask cluster: the grader reads submissions and keeps results, the workers do the rest.

Only the grader touches the class, the ledger and the reports. What a worker had in work when it died, another one does
again.
"""

from __future__ import annotations

import contextlib
import logging
import queue
import secrets
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Sequence

import dask
from distributed import Client, Future, KilledWorker, LocalCluster

from autograder.classroom.ledger import Terms
from autograder.classroom.local import Entry, OnResult, Recall, failure_report, usable_cores
from autograder.classroom.parcel import Answer, Parcel
from autograder.classroom.refusals import ClusterError, NoCluster, NotIsolated
from autograder.classroom.worker import GradingPlugin, grade_here
from autograder.sandbox import Limits
from autograder.submission import read_submission
from autograder.track import Track
from autograder.verdict import Report

#: Seconds until a scheduler that does not answer is given up: the address is wrong, or a firewall swallows it.
_CONNECT_S = 20.0
#: How often, in seconds, the grader looks up while nothing comes in: for lost schedulers, and for Ctrl-C on Windows.
_PATIENCE = 0.5
#: Submissions handed out for each thread of the cluster, so that none waits for the grader, and at least so many in
#: all, so that a cluster that grows by need sees one. A bound, because they lie in the scheduler's memory.
_AHEAD, _LEAST_AHEAD = 2, 8


def grade_on_cluster(
    entries: Sequence[Entry],
    track: Track,
    *,
    seed: int,
    limits: Limits,
    on_result: OnResult,
    recall: Recall | None = None,
    trust_students: bool = False,
    scheduler: str | None = None,
    workers: int | None = None,
    tell: Callable[[str], None] = lambda sentence: None,
) -> None:
    """Grade each entry on the cluster at `scheduler`, or on one of `workers` processes started here and ended after.

    As `grade_class`, with the same reports. `tell` gets sentences for the person who waits. Raises NoCluster when the
    scheduler cannot be reached, ClusterError when it is lost or a worker has another kit; what was told is done.
    """
    with _quiet(), _connected(scheduler, workers or usable_cores()) as client:
        name = f"workshop-{secrets.token_hex(8)}"  # others may use the same cluster
        batch = _Batch(client, name, entries, track, seed, limits, recall, trust_students, tell)
        try:
            with _telling():
                client.register_plugin(GradingPlugin(name, ours=scheduler is None))
            for done, report in enumerate(batch.reports(), 1):
                on_result(report, done, len(entries))
        finally:
            batch.stop()


class _Batch:
    """One class on its way through the cluster."""

    def __init__(
        self,
        client: Client,
        name: str,
        entries: Sequence[Entry],
        track: Track,
        seed: int,
        limits: Limits,
        recall: Recall | None,
        trusted: bool,
        tell: Callable[[str], None],
    ) -> None:
        self._client, self._name, self._track, self._seed, self._limits = client, name, track, seed, limits
        self._recall, self._trusted, self._tell = recall, trusted, tell
        self._terms = Terms.of(track, limits)
        self._todo = deque(enumerate(entries))
        self._out: dict[str, tuple[str, Future[bytes]]] = {}  # key -> student, result to be
        self._done: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._warned = False

    def reports(self) -> Iterator[Report]:
        """Yield each report as soon as it is there, in the order in which they come."""
        while self._todo or self._out:
            room = self._room()
            while self._todo and len(self._out) < room:
                found = self._hand_out(*self._todo.popleft())
                if found is not None:
                    yield found
            if self._out:
                try:
                    key = self._done.get(timeout=_PATIENCE)
                except queue.Empty:
                    continue
                student, future = self._out.pop(key)
                yield self._report(student, future)

    def stop(self) -> None:
        """Take back what is still out, and end the sandboxes on the workers."""
        if self._client.status != "running":
            return
        with contextlib.suppress(Exception):  # the run has ended, well or not: this is only to leave no work behind
            self._client.cancel([future for _, future in self._out.values()])
            self._client.unregister_worker_plugin(self._name)

    def _room(self) -> int:
        if self._client.status != "running":
            raise ClusterError("The connection to the scheduler was lost.")
        with _telling():
            threads: int = sum(self._client.nthreads().values())
        if not threads and not self._warned:
            self._warned = True
            self._tell("The cluster has no workers yet: waiting for one (Ctrl-C ends this)")
        return max(_LEAST_AHEAD, _AHEAD * threads)

    def _hand_out(self, index: int, entry: Entry) -> Report | None:
        """Send a submission on its way; or return its report at once, when it is there already or cannot be read."""
        student, path = entry
        try:
            submission = read_submission(path, self._track, student)
            known = self._recall(submission) if self._recall is not None else None
            if known is not None:
                return known
            chosen = self._track.chosen
            data = Parcel(submission, self._terms, self._seed, self._limits, self._trusted, chosen).pack()
        except Exception as error:  # anything: one submission must never stop the others
            return self._failure(student, f"The grader failed on this submission ({type(error).__name__}: {error}).")
        key = f"{self._name}-{index}"
        with _telling():
            future = self._client.submit(grade_here, data, self._name, key=key)
        future.add_done_callback(lambda _: self._done.put(key))
        self._out[key] = student, future
        return None

    def _report(self, student: str, future: Future[bytes]) -> Report:
        if future.status in ("cancelled", "lost"):
            raise ClusterError("The scheduler dropped the work that it had been given, or was restarted.")
        try:
            answer = Answer.unpack(future.result())
        except KilledWorker as death:
            deaths = death.allowed_failures + 1
            return self._failure(student, f"The workers that had this submission died, {deaths} times in a row.")
        except Exception as error:
            return self._failure(student, f"The cluster failed on this submission ({type(error).__name__}: {error}).")
        if answer.kind == "exposed":
            raise NotIsolated(answer.content)
        if answer.kind == "different":
            raise ClusterError(f"A worker cannot be used: {answer.content}. Install the same kit everywhere.")
        if answer.kind == "failed":
            return self._failure(student, str(answer.content))
        assert isinstance(answer.content, Report)
        return answer.content

    def _failure(self, student: str, reason: str) -> Report:
        return failure_report(student, self._track, self._seed, reason)


@contextlib.contextmanager
def _connected(scheduler: str | None, workers: int) -> Iterator[Client]:
    """Yield a client of the cluster at `scheduler`, or of one of our own. Raises NoCluster."""
    with contextlib.ExitStack() as stack:
        try:
            address = scheduler or stack.enter_context(_own_cluster(workers))
            client = Client(address, timeout=_CONNECT_S, set_as_default=False)
        except (OSError, ValueError, TypeError, RuntimeError) as error:  # what a mistyped address raises is any of them
            where = f"No scheduler answers at {scheduler}" if scheduler else "No cluster could be started here"
            raise NoCluster(f"{where} ({error}).") from error
        stack.callback(client.close)
        yield client


@contextlib.contextmanager
def _own_cluster(workers: int) -> Iterator[LocalCluster]:
    """Yield a cluster of `workers` processes on this machine.

    Whoever reaches a scheduler can run code as its user, on this machine any other user: hence TLS, with a key that
    lives as long as the cluster, and no web pages. Processes, because a sandbox is forked from one; one thread each,
    as torch has one; without a limit on memory, as our own grader has none (the sandbox has).
    """
    bare = {
        "distributed.scheduler.http.routes": [],
        "distributed.worker.http.routes": [],
        "distributed.worker.profile.enabled": False,  # it looks at each thread 100 times a second
    }
    with (
        dask.config.set(bare),
        LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            processes=True,
            security=True,
            memory_limit=0,
            dashboard_address="127.0.0.1:0",
            silence_logs=logging.CRITICAL,
        ) as cluster,
    ):
        yield cluster


@contextlib.contextmanager
def _telling() -> Iterator[None]:
    """Turn what a request to the scheduler raises into a ClusterError."""
    try:
        yield
    except ClusterError:
        raise
    except Exception as error:
        said = f"{type(error).__name__}: {error}"
        raise ClusterError(
            f"The cluster does not take the work ({said}). Its scheduler and workers need this kit, and the same "
            "version of distributed."
        ) from error


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keep Dask's log off the terminal: what a person must know is told in our own words."""
    logger = logging.getLogger("distributed")
    before = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", module="distributed")  # a large submission is no mistake
            yield
    finally:
        logger.setLevel(before)
