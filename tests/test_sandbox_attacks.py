"""Attacks of student code on the transport: each ends with the right verdict, in time, and hurts nobody else."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from sandbox_toy import wait_until, write_workbench

from autograder.probe.client import Probe, ProbeFailure
from autograder.probe.listener import Listener
from autograder.sandbox import Limits, Nursery
from autograder.verdict import Verdict

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the warm supervisor is for Linux only")

LIMITS = Limits(wall_s=10.0, memory_mb=1500, output_mb=5, reply_mb=4)
FIND_CHANNEL = "import os\nchannel = max(int(n) for n in os.listdir('/proc/self/fd'))\n"
FORGE = (
    FIND_CHANNEL + "import json, struct\n"
    "text = {'seq': 2, 'nonce': '0' * 32, 'data': {'value': 'forged'}, 'events': [], 'tensors': []}\n"
    "text = json.dumps(text).encode()\n"
    "frame = b'WKP1' + struct.pack('!IQ', len(text), 0) + text\n"
)


@pytest.fixture(scope="module")
def nursery(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nursery]:
    with Nursery(LIMITS, workbench=write_workbench(tmp_path_factory.mktemp("bench")), layers=()) as nursery:
        yield nursery


@pytest.fixture
def probe(nursery: Nursery, tmp_path: Path) -> Iterator[Probe[Limits]]:
    with Probe(nursery, tmp_path, LIMITS) as probe:
        yield probe
    with Probe(nursery, tmp_path, LIMITS) as after:  # the next submission is unaffected
        assert after.call("ping", {"well": True}).data == {"well": True}


def run(probe: Probe[Limits], code: str, wall_s: float | None = None) -> None:
    probe.call("run", {"code": code}, wall_s=wall_s)


def value(probe: Probe[Limits], code: str) -> Any:
    return probe.call("eval", {"code": code}).data["value"]


@pytest.mark.parametrize(
    ("code", "verdict", "sentence"),
    [
        ("import os; os._exit(0)", Verdict.CRASHED, "The process ended itself (exit status 0)."),
        ("import os; os._exit(3)", Verdict.CRASHED, "The process ended itself (exit status 3)."),
        ("raise SystemExit(4)", Verdict.CRASHED, "The call ended with SystemExit: 4"),
        ("raise KeyboardInterrupt", Verdict.CRASHED, "The call ended with KeyboardInterrupt:"),
        ("import ctypes; ctypes.string_at(0)", Verdict.CRASHED, "The process died: segmentation fault (signal 11)."),
        ("import os; os.abort()", Verdict.CRASHED, "The process died: abort (signal 6)."),
        ("import os; os.kill(os.getpid(), 9)", Verdict.CRASHED, "The process died: killed (signal 9)."),
        ("import os; os.kill(os.getpid(), 15)", Verdict.CRASHED, "The process died: terminated (signal 15)."),
        (
            "hoard = []\nwhile True: hoard.append(bytearray(50_000_000))",
            Verdict.OUT_OF_MEMORY,
            "It used more than 1500 MB",
        ),
        ("import torch; torch.zeros(10**11)", Verdict.OUT_OF_MEMORY, "It used more than 1500 MB of memory."),
        (
            "import os, sys; os.write(2, b'terminate called after throwing an instance of std::bad_alloc'); os.abort()",
            Verdict.OUT_OF_MEMORY,
            "It used more than 1500 MB",
        ),
        ("while True: print('x' * 1000)", Verdict.CRASHED, "It printed more than 5 MB."),
        (
            "import os; os.closerange(3, 65536)",
            Verdict.FORBIDDEN,
            "The code closed descriptors that do not belong to it.",
        ),
        (FIND_CHANNEL + "os.close(channel)\nwhile True: pass", Verdict.FORBIDDEN, "The code closed descriptors"),
        (FORGE + "os.write(channel, b'garbage' * 10)", Verdict.FORBIDDEN, "The code wrote to the grader's channel"),
        (FORGE + "os.write(channel, frame)", Verdict.FORBIDDEN, "The code wrote to the grader's channel"),
        (
            FORGE + "os.write(channel, b'WKP1' + b'\\xff' * 12)",
            Verdict.FORBIDDEN,
            "The code wrote to the grader's channel",
        ),
        (FORGE + "os.write(channel, frame[:40]); os._exit(0)", Verdict.CRASHED, "The process ended itself"),
        (
            "class Bomb(BaseException):\n    def __str__(self): raise ValueError\nraise Bomb",
            Verdict.CRASHED,
            "The call ended with Bomb: (the message cannot be shown)",
        ),
        (
            "class Bomb(Exception):\n    def __str__(self): return 'long\\ud800\\x1b[31m' * 5_000_000\nraise Bomb",
            Verdict.CRASHED,
            "The call ended with Bomb: long",
        ),
        (
            "class Text(str):\n    def __getitem__(self, key): raise ValueError\n    encode = __len__ = __getitem__\n"
            "class Bomb(Exception):\n    def __str__(self): return Text('sly')\nraise Bomb",
            Verdict.CRASHED,
            "The call ended with Bomb: sly",
        ),
    ],
)
def test_a_fatal_act_gets_its_verdict_and_its_sentence(
    probe: Probe[Limits], code: str, verdict: Verdict, sentence: str
) -> None:
    with pytest.raises(ProbeFailure) as caught:
        run(probe, code)
    assert caught.value.verdict is verdict
    assert caught.value.message.startswith(sentence)
    assert caught.value.message.isprintable()
    assert len(caught.value.message) < 400
    assert not probe.alive


@pytest.mark.parametrize(
    "code",
    [
        "while True: pass",
        "sum(range(10**12))",
        "import os, signal; os.kill(os.getpid(), signal.SIGSTOP)",
        "import signal, time\nfor s in (15, 2, 1, 14): signal.signal(s, signal.SIG_IGN)\ntime.sleep(60)",
        FORGE + "os.write(channel, frame[:40])\nimport time; time.sleep(60)",
        "class Bomb(Exception):\n    def __str__(self):\n        while True: pass\nraise Bomb",
    ],
    ids=["loop", "loop in C", "stopped", "deaf to signals", "half a reply", "endless message"],
)
def test_what_does_not_end_is_ended_in_time(probe: Probe[Limits], code: str) -> None:
    probe.call("ping")
    begun = time.monotonic()
    with pytest.raises(ProbeFailure, match=r"The call did not finish within 0\.3 s\.") as caught:
        run(probe, code, wall_s=0.3)
    assert caught.value.verdict is Verdict.TIMED_OUT
    assert time.monotonic() - begun < 5


def test_a_stopped_child_that_never_reads_a_large_request_times_out(probe: Probe[Limits]) -> None:

    run(
        probe,
        "import threading, os, signal, time\n"
        "def stop():\n    time.sleep(0.05)\n    os.kill(os.getpid(), signal.SIGSTOP)\n"
        "threading.Thread(target=stop, daemon=True).start()",
    )
    pid_file = f"/proc/{value(probe, 'os.getpid()')}/stat"
    assert wait_until(lambda: Path(pid_file).read_text().rpartition(")")[2].split()[0] in "Tt")
    with pytest.raises(ProbeFailure) as caught:
        probe.call("echo", tensors={"x": torch.zeros(2_000_000)}, wall_s=0.3)
    assert caught.value.verdict is Verdict.TIMED_OUT


def test_processor_time_is_limited_apart_from_the_clock(nursery: Nursery, tmp_path: Path) -> None:
    with Probe(nursery, tmp_path, Limits(wall_s=30, cpu_s=1)) as probe:
        with pytest.raises(ProbeFailure, match="more than 1 s of processor time") as caught:
            run(probe, "while True: pass")
        assert caught.value.verdict is Verdict.TIMED_OUT


def test_a_loop_that_ignores_the_first_warning_is_a_time_out_too(nursery: Nursery, tmp_path: Path) -> None:
    with (
        Probe(nursery, tmp_path, Limits(wall_s=30, cpu_s=1)) as probe,
        pytest.raises(ProbeFailure, match="more than 1 s of processor time"),
    ):
        run(probe, "import signal; signal.signal(signal.SIGXCPU, signal.SIG_IGN)\nwhile True: pass")


def test_an_oversized_answer_is_the_code_s_fault_and_says_so(probe: Probe[Limits]) -> None:
    with pytest.raises(ProbeFailure, match="It returned more than 4 MB of tensors") as caught:
        probe.call("make", {"code": "{'x': torch.zeros(1).expand(10**9)}"})
    assert caught.value.verdict is Verdict.CRASHED


@pytest.mark.parametrize(
    ("code", "event"),
    [
        (
            "import os\n"
            "for n in range(3, 41):\n"
            "    try: os.write(n, b'{\"score\": 100}' * 20000)\n"
            "    except OSError: pass\n",
            "The code writes to descriptors that do not belong to it.",
        ),
        ("import os; os.closerange(3, 1024)", "The code closes descriptors that do not belong to it."),
        ("import os; os.close(1)", "The code closes descriptors that do not belong to it."),
        (
            "import os; os.dup2(os.open('/dev/null', 1), 1)",
            "The code redirects the grader's output.",
        ),
        ("import os; os.dup2(1, 3)", "The code redirects descriptors that do not belong to it."),
    ],
)
def test_meddling_with_descriptors_is_noted_and_survived(probe: Probe[Limits], code: str, event: str) -> None:
    run(probe, code)
    assert probe.call("ping", {"a": 1}).data == {"a": 1}
    assert probe.events == [event]
    assert probe.alive


def test_lowered_limits_do_not_disturb_the_conversation(probe: Probe[Limits]) -> None:
    run(probe, "import resource as r; r.setrlimit(r.RLIMIT_NOFILE, (3, 3)); r.setrlimit(r.RLIMIT_FSIZE, (0, 0))")
    assert probe.call("ping", {"a": 1}).data == {"a": 1}


def test_a_broken_stdout_does_not_disturb_the_conversation(probe: Probe[Limits]) -> None:
    run(probe, "import sys; sys.stdout.close(); sys.stderr = None")
    assert probe.call("ping", {"a": 1}).data == {"a": 1}


def test_a_second_answer_slipped_in_after_the_first_is_seen(probe: Probe[Limits]) -> None:
    run(
        probe,
        FORGE + "import threading, time\n"
        "def late():\n"
        "    time.sleep(0.05)\n"
        "    os.write(channel, frame)\n"
        "    open('done', 'w').close()\n"
        "threading.Thread(target=late, daemon=True).start()\n"
        "where = os.getcwd()\n",
    )
    with pytest.raises(ProbeFailure, match="wrote to the grader's channel"):
        for _ in range(10_000):
            probe.call("ping")


@pytest.mark.parametrize(
    "code",
    [
        "if os.fork() == 0:\n    os.setsid()\n    time.sleep(60)",
        "if os.fork() == 0:\n    os.setsid()\n    if os.fork(): os._exit(0)\n    time.sleep(60)",
        "for _ in range(20):\n    if os.fork() == 0: time.sleep(60)",
        "import ctypes; ctypes.CDLL(None).prctl(36, 1)\n"
        "if os.fork() == 0:\n    os.setsid()\n    if os.fork(): os._exit(0)\n    time.sleep(60)",
    ],
    ids=["own session", "daemon", "twenty", "own sub-reaper"],
)
def test_processes_left_behind_are_gone_with_the_child(nursery: Nursery, tmp_path: Path, code: str) -> None:
    with Probe(nursery, tmp_path, LIMITS) as probe:
        run(probe, "import os, time\n" + code)
        supervisor = value(probe, "os.getppid()")
        mine = value(probe, "os.getcwd()")
        assert _strays(supervisor)
        begun = time.monotonic()
    assert time.monotonic() - begun < 5  # a survivor that holds stdout open is not waited for
    assert not _strays(supervisor)
    assert not Path(mine).exists()


def _strays(supervisor: int) -> list[int]:
    """Return the processes in whose initial environment HOME is the supervisor's, but for the supervisor."""
    home = next(v for v in _environment(supervisor) if v.startswith(b"HOME="))
    pids = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    return [pid for pid in pids if pid != supervisor and home in _environment(pid)]


def _environment(pid: int) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return []


def test_a_polite_signal_to_the_supervisor_does_nothing(probe: Probe[Limits]) -> None:
    run(probe, "import os, signal\nfor s in (15, 2, 1, 10, 14): os.kill(os.getppid(), s)")
    assert probe.call("ping", {"a": 1}).data == {"a": 1}


def test_a_stopped_supervisor_goes_on_when_it_is_needed(probe: Probe[Limits]) -> None:
    run(probe, "import os, signal; os.kill(os.getppid(), signal.SIGSTOP)")
    begun = time.monotonic()
    probe.close()
    assert time.monotonic() - begun < 5


def test_who_kills_the_supervisor_is_told_on(nursery: Nursery, tmp_path: Path) -> None:
    with Probe(nursery, tmp_path, LIMITS) as probe:
        run(
            probe,
            "import ctypes, os, time\n"
            "ctypes.CDLL(None).prctl(1, 0)\n"
            "boss = os.getppid()\n"
            "if os.fork() == 0:\n    os.setsid()\n    time.sleep(60)",
        )
        boss, stray = value(probe, "boss"), _strays(value(probe, "boss"))
        run(probe, "os.kill(boss, 9)")
        assert wait_until(lambda: not any(_environment(boss)))
    assert probe.events == ["The code killed the process that supervises it."]
    assert stray
    assert wait_until(lambda: not any(value for pid in stray for value in _environment(pid)))
    with Probe(nursery, tmp_path, LIMITS) as after:
        assert after.call("ping", {"a": 1}).data == {"a": 1}


def test_events_are_few_short_and_printable() -> None:
    listener = Listener()
    for number in range(100):
        listener.note(f"{number}\x1b[31m\u202e\ud800" + "x" * 1000)
        listener.note(number)
        listener.note("")
    assert len(listener.events) == 20
    assert all(len(event) <= 300 and event.isprintable() for event in listener.events)
