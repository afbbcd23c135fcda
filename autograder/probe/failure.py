"""How a conversation with a student's process can fail, and the sentence for each. Imports no torch."""

from __future__ import annotations

import signal
from dataclasses import dataclass

from autograder.verdict import Verdict

#: Students read these, so they are words and not the names of constants.
_SIGNALS = {
    "SIGSEGV": "segmentation fault",
    "SIGABRT": "abort",
    "SIGBUS": "bus error",
    "SIGFPE": "arithmetic error",
    "SIGILL": "illegal instruction",
    "SIGKILL": "killed",
    "SIGTERM": "terminated",
    "SIGXFSZ": "file too large",
    "SIGALRM": "alarm",
    "SIGPIPE": "broken pipe",
    "SIGTRAP": "trap",
    "SIGHUP": "hang-up",
    "SIGINT": "interrupt",
}

#: A process that was killed from outside while it held more than this share of its memory limit most likely met the
#: kernel's out-of-memory killer: RLIMIT_AS counts address space, of which about half is ever touched.
_MEMORY_SHARE = 0.5


class ProbeFailure(Exception):
    """A call that brought no reply: `verdict` says whose fault it is, `message` is one sentence for the student."""

    def __init__(self, verdict: Verdict, message: str) -> None:
        super().__init__(message)
        self.verdict = verdict
        self.message = message


#: With this status a child ends whose own bookkeeping (not the code it runs) found no memory. 71: see sysexits.h.
NO_MEMORY_STATUS = 71
#: With this one it ends when its channel does not work any more; 74: "input or output error".
NO_CHANNEL_STATUS = 74

ORPHANED = "The code killed the process that supervises it."
_CLOSED = "The code closed descriptors that do not belong to it."


@dataclass(frozen=True)
class Ending:
    """How a child process ended.

    `exit_status` or `signal` is set (neither, when it could not be learnt); `cpu_s` is seconds of processor time,
    `peak_mb` the largest resident size in MiB. `killed` says that the grader killed it while it still lived;
    `orphaned` that the process supervising it was gone.
    """

    exit_status: int | None = None
    signal: int | None = None
    cpu_s: float = 0.0
    peak_mb: float = 0.0
    killed: bool = False
    orphaned: bool = False


def signal_in_words(number: int) -> str:
    """Return "segmentation fault (signal 11)" for 11; unknown numbers give "signal 77"."""
    try:
        name = signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
    return f"{_SIGNALS.get(name, name)} (signal {number})"


def explain(ending: Ending, *, cpu_s: float, memory_mb: float, output: bytes) -> ProbeFailure:
    """Return the failure that `ending` means for a child that left the conversation by itself.

    `cpu_s` and `memory_mb` are its limits; `output` is (part of) what it printed, which shows a C++ bad_alloc.
    """
    if ending.orphaned:
        return ProbeFailure(Verdict.FORBIDDEN, ORPHANED)
    if ending.killed or ending.exit_status == NO_CHANNEL_STATUS:
        return ProbeFailure(Verdict.FORBIDDEN, _CLOSED)
    if ending.exit_status == NO_MEMORY_STATUS:
        return out_of_memory(memory_mb)
    if ending.signal is None:
        if ending.exit_status is None:
            return ProbeFailure(Verdict.CRASHED, "The process ended; how is not known.")
        return ProbeFailure(Verdict.CRASHED, f"The process ended itself (exit status {ending.exit_status}).")
    name = signal.Signals(ending.signal).name if ending.signal in set(signal.Signals) else ""
    if name == "SIGXCPU" or (name == "SIGKILL" and ending.cpu_s >= cpu_s):
        return ProbeFailure(Verdict.TIMED_OUT, f"It used more than {cpu_s:g} s of processor time.")
    if name == "SIGKILL" and ending.peak_mb >= _MEMORY_SHARE * memory_mb:
        return out_of_memory(memory_mb)
    if name == "SIGABRT" and b"bad_alloc" in output:
        return out_of_memory(memory_mb)
    return ProbeFailure(Verdict.CRASHED, f"The process died: {signal_in_words(ending.signal)}.")


def out_of_memory(memory_mb: float) -> ProbeFailure:
    """Return the failure of a child that needed more than `memory_mb` MiB."""
    return ProbeFailure(Verdict.OUT_OF_MEMORY, f"It used more than {memory_mb:g} MB of memory.")
