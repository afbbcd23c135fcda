"""The Nursery: where children for student code come from: forked by a warm supervisor, or fresh."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import weakref
from collections.abc import Collection
from contextlib import suppress
from functools import partial
from itertools import count
from pathlib import Path
from typing import IO, Literal, Self

from autograder.probe.failure import Ending, ProbeFailure
from autograder.probe.frames import ProtocolError
from autograder.sandbox import boot, survivors, wire
from autograder.sandbox.child import ChildProcess, ending_of, nonblocking_pipe, pid_of
from autograder.sandbox.fresh import FreshProcess
from autograder.sandbox.policy import LAYERS, Isolation, Limits
from autograder.sandbox.scratch import let_pass, new_folder, readable_folder, remove_folder
from autograder.sandbox.wire import END, ENDED, READY, SPAWN, SPAWNED, Notice, read_notice
from autograder.verdict import Verdict

StartMethod = Literal["zygote", "fresh"]

#: Importing torch takes two seconds, some forty from a cold network disk; beyond this something is broken.
_START_S = 120.0
#: For a fork (3 ms) or the sweep after a child (5 s at most, see survivors): ours alone, no student code takes part.
_ANSWER_S = 30.0


class Nursery:
    """Makes children in which one submission each is run. A context manager; one per worker thread is best.

    `start_method` "zygote" forks from a warm process (milliseconds; the default on Linux); "fresh" starts a new
    interpreter each time (seconds; the default elsewhere, as forking a process with torch is not safe there).
    `workbench` names the class that handles requests in the child. `layers` are those of the Linux sandbox to put
    around a forked child, as far as the machine has them; none leaves the portable ones. A failure of the machine
    (nothing can be started, the disk is full) is a ProbeFailure with verdict UNGRADABLE.
    """

    def __init__(
        self,
        limits: Limits | None = None,
        start_method: StartMethod | None = None,
        workbench: str = "autograder.probe.ops:Workbench",
        layers: Collection[str] = LAYERS,
    ) -> None:
        self.limits = limits or Limits()
        self.start_method: StartMethod = start_method or ("zygote" if sys.platform == "linux" else "fresh")
        self._workbench = workbench
        self._wanted = tuple(layers) if self.start_method == "zygote" and sys.platform == "linux" else ()
        self._lock = threading.RLock()
        self._numbers = count(1)
        self._zygote: _Zygote | None = None
        self._spare: FreshProcess | None = None
        self._root: Path | None = None
        self._isolation: Isolation | None = None
        self._clean_up: weakref.finalize[..., Nursery] | None = None

    # -- life ---------------------------------------------------------------------------------------------------------

    def start(self) -> Self:
        """Begin launching and return at once: torch is imported in another process while the caller goes on."""
        with self._lock:
            try:
                if self.start_method == "zygote":
                    self._zygote = self._zygote or self._supervisor()
                else:
                    self._spare = self._spare or self._launch()
            except OSError as error:
                raise _ours("the process that runs submissions could not be started", error) from error
        return self

    def close(self) -> None:
        """End all children and the supervisor, and remove every folder. May be called twice."""
        with self._lock:
            if self._zygote is not None:
                self._zygote.close()
            if self._spare is not None:
                self._spare.finish(0.0)
            self._zygote = self._spare = None
            if self._clean_up is not None:
                self._clean_up()
            self._root = self._clean_up = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def isolation(self) -> Isolation:
        """How children are kept apart. Starts one for a moment when none has been started yet."""
        if self._isolation is None:
            self.spawn(readable_folder(self._folder(), "tree-"), self.limits).end(0.0)
        assert self._isolation is not None
        return self._isolation

    def _folder(self) -> Path:
        if self._root is None:
            self._root = new_folder()
            let_pass(self._root)
            self._clean_up = weakref.finalize(self, remove_folder, self._root)
        return self._root

    def _supervisor(self) -> _Zygote:
        return _Zygote(self._workbench, new_folder(self._folder(), "home-"), self._wanted)

    def _launch(self) -> FreshProcess:
        return FreshProcess(self._workbench, new_folder(self._folder(), "home-"))

    # -- children -----------------------------------------------------------------------------------------------------

    def spawn(self, tree: Path, limits: Limits | None = None) -> ChildProcess:
        """Return a new child for the submission under `tree`, confined and ready. Raises ProbeFailure (UNGRADABLE)."""
        with self._lock:
            try:
                scratch = new_folder(self._folder(), "scratch-")
                child = self._forked(scratch) if self.start_method == "zygote" else self._fresh(scratch)
            except (OSError, EOFError) as error:
                raise _ours("no process for the submission could be started", error) from error
        return self._introduce(child, tree, scratch, limits or self.limits)

    def _introduce(self, child: ChildProcess, tree: Path, scratch: Path, limits: Limits) -> ChildProcess:
        try:
            child.channel.settimeout(_START_S)
            wire.send_json(child.channel, wire.contract(str(tree), str(scratch), limits))
            answer = wire.receive_json(child.channel)
        except (OSError, EOFError, ProtocolError) as error:
            said = (child.output.read(2000) or b"").decode("utf-8", "replace").strip()
            child.end(0.0)
            raise _ours("the process for the submission did not come up", said or error) from error
        layers = tuple(str(layer) for layer in answer["layers"])
        self._isolation = Isolation("linux" if self._wanted else "portable", bool(answer["isolated"]), layers)
        return child

    def _fresh(self, scratch: Path) -> ChildProcess:
        process = self._spare or self._launch()
        self._spare = None
        try:
            channel = process.connect(_START_S)
        except OSError:
            process.finish(0.0)
            raise
        return ChildProcess(channel, process.output, process.canary, process.watch_exit(), scratch, process.finish)

    def _forked(self, scratch: Path) -> ChildProcess:
        number = next(self._numbers)
        output, output_end = nonblocking_pipe()
        canary, canary_end = nonblocking_pipe()
        ours, theirs = socket.socketpair()
        try:
            pid, hold = self._ask_for_fork(number, [theirs.fileno(), output_end, canary_end])
        except (OSError, EOFError):
            for stream in (ours, output, canary):
                stream.close()
            raise
        finally:
            theirs.close()
            os.close(output_end)
            os.close(canary_end)
        assert self._zygote is not None
        finish = partial(self._finish, self._zygote, number, pid)
        return ChildProcess(ours, output, canary, hold, scratch, finish)

    def _ask_for_fork(self, number: int, descriptors: list[int]) -> tuple[int | None, int | None]:
        for last_try in (False, True):
            self.start()
            assert self._zygote is not None
            try:
                return self._zygote.fork(number, descriptors)
            except (OSError, EOFError):
                # A submission may have killed or stopped it behind our back: that one is gone, and a new one works.
                if self._zygote.forks_refused or last_try:
                    raise
                self._drop(self._zygote)
        raise AssertionError("unreachable")

    def _finish(self, zygote: _Zygote, number: int, pid: int | None, grace_s: float) -> Ending:
        with self._lock:
            try:
                return zygote.end(number, grace_s)
            except (OSError, EOFError):
                if pid is not None:
                    with suppress(ProcessLookupError, PermissionError):
                        os.kill(pid, signal.SIGKILL)
                    survivors.kill_group(pid)
                self._drop(zygote)
                return Ending(orphaned=True)

    def _drop(self, zygote: _Zygote) -> None:
        zygote.close()
        survivors.hunt(zygote.home)
        if self._zygote is zygote:
            self._zygote = None


class _Zygote:
    """The grader's hold on one supervisor process."""

    def __init__(self, workbench: str, home: Path, layers: Collection[str]) -> None:
        self.home = home  # known to no other process, so that it marks those of this supervisor
        self.forks_refused = False
        self._ready = False
        self._log: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 (closed with the zygote)
        self._control, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                boot.command("autograder.sandbox.zygote", str(theirs.fileno()), workbench, ",".join(layers)),
                env=boot.environment(home),
                cwd=home,
                stdin=subprocess.DEVNULL,
                stdout=self._log,
                stderr=self._log,
                start_new_session=True,
                pass_fds=(theirs.fileno(),),
            )

    def fork(self, number: int, descriptors: list[int]) -> tuple[int | None, int | None]:
        """Return the pid of a new child that owns `descriptors`, and one to watch it by, as far as they are to be had.

        Raises OSError or EOFError.
        """
        if not self._ready:
            if self._answer(_START_S)[0].kind != READY:
                raise OSError("the process that runs submissions does not answer as it should")
            self._ready = True
        self._process.send_signal(signal.SIGCONT)  # a submission may have stopped it
        socket.send_fds(self._control, [Notice(SPAWN, number).pack()], descriptors)
        answer, holds = self._answer(_ANSWER_S)
        if answer.kind != SPAWNED:
            self.forks_refused = True
            raise OSError(answer.value, os.strerror(answer.value))
        if not holds:
            return answer.value, None
        return pid_of(holds[0]), holds[0]

    def end(self, number: int, grace_s: float) -> Ending:
        """End child `number` after at most `grace_s` seconds. Raises OSError or EOFError when the zygote is gone."""
        self._process.send_signal(signal.SIGCONT)  # a submission may have stopped it
        self._control.sendall(Notice(END, number, int(grace_s * 1000)).pack())
        answer, _ = self._answer(grace_s + _ANSWER_S)
        if answer.kind != ENDED or answer.number != number or not answer.flags & 2:
            raise OSError("processes of the submission are left over")
        used = {"cpu_s": answer.cpu_ms / 1000, "peak_mb": answer.peak_kb / 1024}
        return ending_of(answer.value, **used, killed=bool(answer.flags & 1))

    def close(self) -> None:
        """Let it end its children and itself; kill it when it does not."""
        self._control.close()
        try:
            self._process.wait(3.0 if self._ready else 0.0)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._log.close()

    def _answer(self, deadline_s: float) -> tuple[Notice, list[int]]:
        message = read_notice(self._control, deadline_s)
        if message is None:
            self._log.seek(0)
            said = self._log.read()[-500:].decode("utf-8", "replace").strip()
            raise EOFError(said or "the process that runs submissions has gone")
        return message


def _ours(what: str, why: object) -> ProbeFailure:
    return ProbeFailure(
        Verdict.UNGRADABLE, f"The grader failed, not the code: {what} ({str(why).strip() or type(why).__name__})."
    )
