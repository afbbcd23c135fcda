"""Grade a class on this machine: worker threads, each with a warm sandbox of its own, pull submissions from a queue."""

from __future__ import annotations

import contextlib
import os
import queue
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from autograder import __version__
from autograder.classroom.refusals import NotIsolated
from autograder.track import Track
from autograder.verdict import CheckResult, PartResult, Report, Verdict

if TYPE_CHECKING:
    from autograder.oracle.memory import Memory
    from autograder.sandbox import Limits, Nursery
    from autograder.submission import Submission

Entry = tuple[str, Path]  # student id, path of the submission
OnResult = Callable[[Report, int, int], None]  # the report, how many are done, how many there are
Recall = Callable[["Submission"], Report | None]  # the report that is there already, if it is

#: How long, in seconds, the workers have to notice that they should stop, before their sandboxes are closed.
_GRACE = 1.0
#: How often, in seconds, a waiting thread looks up: the main one, so that Ctrl-C arrives on Windows too; a worker,
#: whether it should stop.
_PATIENCE = 0.5
#: Reports that wait to be written: past these the workers wait, so that a class does not gather in memory.
_WAITING = 8


def usable_cores() -> int:
    """Return how many cores this process may use: a container or `taskset` may leave fewer than there are."""
    if hasattr(os, "sched_getaffinity"):
        return max(1, len(os.sched_getaffinity(0)))
    return os.cpu_count() or 1


def grade_class(
    entries: Sequence[Entry],
    track: Track,
    *,
    seed: int,
    limits: Limits,
    on_result: OnResult,
    jobs: int | None = None,
    recall: Recall | None = None,
    trust_students: bool = False,
) -> None:
    """Grade each entry and hand each report to `on_result`; none is kept, so that memory does not grow with a class.

    `on_result` is called in the calling thread as soon as a submission is done, in the order in which they finish.
    `recall` is asked in the workers' threads for each submission that was read: what it returns is not graded again.
    What goes wrong with one submission becomes that submission's `ungradable` report. On KeyboardInterrupt (and when
    `on_result` raises) the workers are stopped and the exception goes on: what `on_result` got is what is done.
    Raises NotIsolated, with nothing graded, where the sandbox does not hold and `trust_students` is False.
    """
    batch = _Batch(entries, track, seed, limits, recall, trust_students)
    threads = [
        threading.Thread(target=batch.work, name=f"grader-{number}", daemon=True)
        for number in range(min(jobs or usable_cores(), len(entries)))
    ]
    done = 0
    try:
        for thread in threads:
            thread.start()
        while done < len(entries):
            try:
                item = batch.done.get(timeout=_PATIENCE)
            except queue.Empty:
                continue
            if isinstance(item, NotIsolated):
                raise item
            done += 1
            on_result(item, done, len(entries))
    finally:
        batch.stop(threads)


def failure_report(student: str, track: Track, seed: int, reason: str) -> Report:
    """Return the report of a submission that we failed to grade: `ungradable`, every check listed with the reason."""
    verdict = Verdict.UNGRADABLE
    parts = {
        part.name: PartResult(
            name=part.name,
            title=part.title,
            verdict=verdict,
            score=0.0,
            max_score=part.max_score,
            checks=tuple(
                CheckResult(check, part.name, check.partition(".")[2].replace("_", " "), verdict, 0.0, worth, reason)
                for check, worth in part.points.items()
            ),
        )
        for part in track.graded
    }
    return Report(
        student=student,
        track=track.name,
        kit_version=__version__,
        seed=seed,
        isolation={},
        verdict=verdict,
        score=0.0,
        max_score=sum(part.max_score for part in track.graded),
        parts=parts,
        error=reason,
    )


class _Batch:
    """What the workers of one call share."""

    def __init__(
        self, entries: Sequence[Entry], track: Track, seed: int, limits: Limits, recall: Recall | None, trusted: bool
    ) -> None:
        self.track, self.seed, self.limits, self.recall, self.trusted = track, seed, limits, recall, trusted
        self.todo: queue.SimpleQueue[Entry] = queue.SimpleQueue()
        self.done: queue.Queue[Report | NotIsolated] = queue.Queue(_WAITING)
        self.halt = threading.Event()
        self.lock = threading.Lock()
        self.memory: Memory | None = None  # of the class's seed; made when torch has been imported
        self.nurseries: list[Nursery] = []
        for entry in entries:
            self.todo.put(entry)

    def work(self) -> None:
        """Grade what is in the queue until it is empty, in a sandbox that is made anew after a failure of ours."""
        with contextlib.ExitStack() as open_sandbox:
            nursery: Nursery | None = None
            while not self.halt.is_set():
                try:
                    student, path = self.todo.get_nowait()
                except queue.Empty:
                    return
                try:
                    submission = self._read(student, path)
                    report = self.recall(submission) if self.recall is not None else None
                    if report is None:
                        nursery = nursery or self._sandbox(open_sandbox)
                        report = self._grade(submission, nursery)
                except NotIsolated as refusal:
                    self._deliver(refusal)
                    return
                except Exception as error:  # anything: one submission must never stop the others
                    reason = f"The grader failed on this submission ({type(error).__name__}: {error})."
                    report = failure_report(student, self.track, self.seed, reason)
                    nursery = None
                    with contextlib.suppress(Exception):  # it failed already; its way out may fail too
                        open_sandbox.close()
                self._deliver(report)

    def stop(self, threads: Sequence[threading.Thread]) -> None:
        """End the workers. One in the middle of a submission loses its sandbox, and that result is not used."""
        self.halt.set()
        deadline = time.monotonic() + _GRACE
        for thread in threads:
            if thread.ident is not None:
                thread.join(max(0.0, deadline - time.monotonic()))
        if any(thread.is_alive() for thread in threads):
            for nursery in self.nurseries:
                with contextlib.suppress(Exception):  # it may be closed, or closing, in its own thread
                    nursery.__exit__(None, None, None)

    def _deliver(self, item: Report | NotIsolated) -> None:
        while not self.halt.is_set():
            try:
                return self.done.put(item, timeout=_PATIENCE)
            except queue.Full:
                continue

    def _sandbox(self, stack: contextlib.ExitStack) -> Nursery:
        from autograder.sandbox import Nursery  # here, not above: `workshop --help` needs no sandbox

        nursery = stack.enter_context(Nursery(self.limits))
        self.nurseries.append(nursery)
        nursery.start()  # returns at once: it imports torch while the next line of ours does the same here
        return nursery

    def _read(self, student: str, path: Path) -> Submission:
        from autograder.submission import read_submission

        return read_submission(path, self.track, student)

    def _grade(self, submission: Submission, nursery: Nursery) -> Report:
        # These import torch: only now, beside the sandbox that has been started.
        from autograder.grading import grade
        from autograder.oracle.memory import Memory

        if not self.trusted and not nursery.isolation.isolated:  # known once the sandbox is up, while torch came here
            raise NotIsolated(nursery.isolation.layers)
        with self.lock:
            self.memory = self.memory or Memory(self.seed)
        return grade(submission, self.track, nursery, seed=self.seed, limits=self.limits, memory=self.memory)
