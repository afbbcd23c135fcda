"""The warm supervisor: a process that has torch imported and forks a child for each submission. Linux.

It is exec'd with a fixed environment, knows no submission, and adopts and kills whatever a child leaves behind.
"""

from __future__ import annotations

import gc
import os
import signal
import socket
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from autograder.sandbox import boot, portable, survivors
from autograder.sandbox.child import watch_exit
from autograder.sandbox.wire import END, ENDED, FAILED, READY, SPAWN, SPAWNED, Notice, read_notice

#: Between two looks at a dying process.
_TICK_S = 0.0005


class Job(NamedTuple):
    """The descriptors that a new child owns."""

    channel: int
    output: int
    canary: int


def main(control_number: str, workbench: str, layers: str) -> None:
    """Run as the supervisor on the inherited control socket, until the grader closes it.

    `layers` names those of the Linux sandbox that children put on, with commas between.
    """
    control = socket.socket(fileno=int(control_number))
    control.set_inheritable(False)
    for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGALRM", "SIGTTOU", "SIGTTIN"):
        signal.signal(getattr(signal, name), signal.SIG_IGN)  # students' code may send them
    wanted = frozenset(layers.split(",")) - {""}
    from autograder.sandbox import linux, linux_spaces  # here: other systems take only `warm_up` from this room

    # First of all: some of it is for a process with one thread, and the numbers of processes change.
    spaces = linux_spaces.enter(control.close) if "namespaces" in wanted else ()
    portable.adopt_orphans()
    make = boot.load_workbench(workbench)
    warm_up()
    if preload := getattr(make, "preload", None):
        preload()
    boot.hide_package()
    me = os.getpid()
    plan = linux.prepare(wanted, spaces, Path.cwd()) if wanted else None
    gc.collect()
    gc.freeze()  # a collection in a child would otherwise touch, and so copy, every page
    control.sendall(Notice(READY).pack())
    job = attend(control)
    # A child comes out of here with its own descriptors only: no frame above it knows of other children.
    del control
    if job is not None:
        boot.run_child(*job, make, me, plan)
    os._exit(0)  # taking torch apart takes longer than a check of one part


def warm_up() -> None:
    """Import what a child needs and run forward and backward once, on one thread: the first time costs 40 ms."""
    import numpy.random  # noqa: F401 (so that children can seed it: numpy imports it when first asked, in 7 ms)
    import torch

    from autograder.probe import host  # noqa: F401 (what a child serves with)

    torch.set_num_threads(1)
    with suppress(RuntimeError):  # refused when some thread pool has started: it has not, but no harm
        torch.set_num_interop_threads(1)
    layer = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.LayerNorm(4), torch.nn.GELU())
    torch.nn.functional.cross_entropy(layer(torch.randn(2, 4)), torch.zeros(2, dtype=torch.long)).backward()  # type: ignore[no-untyped-call]
    portable.reseed()


def attend(control: socket.socket) -> Job | None:
    """Serve the grader. Returns None when it has gone, and in each forked child that child's Job."""
    live: dict[int, int] = {}
    while (message := read_notice(control)) is not None:
        notice, descriptors = message
        if notice.kind == SPAWN:
            try:
                pid = os.fork()
            except OSError as error:
                control.sendall(Notice(FAILED, notice.number, error.errno or 0).pack())
            else:
                if pid == 0:
                    os.close(control.detach())
                    os.setsid()
                    return Job(*descriptors)
                live[notice.number] = pid
                _announce(control, notice.number, pid)
            for number in descriptors:
                os.close(number)
        elif notice.kind == END:
            pid = live.pop(notice.number)
            control.sendall(finish(pid, notice, live.values()).pack())
    for pid in live.values():
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        survivors.kill_group(pid)
    survivors.sweep_children(())
    return None


def _announce(control: socket.socket, number: int, pid: int) -> None:
    """Tell the grader of child `pid`, and hand it a hold on the process: in another world, its number is another."""
    message = Notice(SPAWNED, number, pid).pack()
    hold = watch_exit(pid)
    if hold is None:
        control.sendall(message)
        return
    socket.send_fds(control, [message], [hold])
    os.close(hold)


def finish(pid: int, notice: Notice, others: Any) -> Notice:
    """Give child `pid` the time in `notice` to end by itself, kill it and all it started; return the ENDED notice."""
    deadline = time.monotonic() + notice.value / 1000
    done, status, usage = os.wait4(pid, os.WNOHANG)
    while not done and time.monotonic() < deadline:
        time.sleep(_TICK_S)
        done, status, usage = os.wait4(pid, os.WNOHANG)
    killed = not done
    if killed:
        os.kill(pid, signal.SIGKILL)
    survivors.kill_group(pid)
    if killed:
        _, status, usage = os.wait4(pid, 0)
    if os.getpid() == 1 and not others:
        survivors.kill_all()
    clean = survivors.sweep_children(frozenset(others)) if sys.platform == "linux" else True
    cpu_ms = int((usage.ru_utime + usage.ru_stime) * 1000)
    peak_kb = usage.ru_maxrss if sys.platform != "darwin" else usage.ru_maxrss // 1024
    return Notice(ENDED, notice.number, status, cpu_ms, peak_kb, int(killed) | int(clean) << 1)
