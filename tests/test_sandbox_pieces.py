"""Pieces of the sandbox that a whole run seldom shows: endings in words, limits as a table, removal, forks."""

from __future__ import annotations

import os
import signal
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from autograder.probe.failure import Ending, explain, signal_in_words
from autograder.sandbox import Limits, boot, portable, survivors, zygote
from autograder.sandbox.portable import limit_table
from autograder.sandbox.scratch import new_folder, remove_folder
from autograder.sandbox.wire import END, ENDED, Notice, read_notice
from autograder.verdict import Verdict

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals and descriptors of POSIX")


@pytest.mark.parametrize(
    ("ending", "verdict", "words"),
    [
        (Ending(exit_status=0), Verdict.CRASHED, "exit status 0"),
        (Ending(), Verdict.CRASHED, "how is not known"),
        (Ending(signal=signal.SIGBUS), Verdict.CRASHED, "bus error (signal 7)"),
        (Ending(signal=signal.SIGKILL, cpu_s=10.1), Verdict.TIMED_OUT, "10 s of processor time"),
        (Ending(signal=signal.SIGKILL, peak_mb=900), Verdict.OUT_OF_MEMORY, "1000 MB"),
        (Ending(signal=signal.SIGKILL), Verdict.CRASHED, "killed (signal 9)"),
        (Ending(exit_status=71), Verdict.OUT_OF_MEMORY, "1000 MB"),
        (Ending(exit_status=74), Verdict.FORBIDDEN, "closed descriptors"),
        (Ending(killed=True, signal=signal.SIGKILL), Verdict.FORBIDDEN, "closed descriptors"),
        (Ending(orphaned=True), Verdict.FORBIDDEN, "supervises"),
    ],
)
def test_every_ending_has_a_verdict_and_a_sentence(ending: Ending, verdict: Verdict, words: str) -> None:
    failure = explain(ending, cpu_s=10, memory_mb=1000, output=b"")
    assert failure.verdict is verdict
    assert words in failure.message


def test_unknown_signals_keep_their_number() -> None:
    assert signal_in_words(250) == "signal 250"
    assert signal_in_words(signal.SIGUSR1) == f"SIGUSR1 (signal {int(signal.SIGUSR1)})"
    assert "signal 250" in explain(Ending(signal=250), cpu_s=1, memory_mb=1, output=b"").message


def test_a_process_limit_is_set_only_where_it_counts() -> None:
    assert "RLIMIT_NPROC" not in [name for _, name, _, _ in limit_table(Limits(), None)]
    assert ("process", "RLIMIT_NPROC", 364, 364) in limit_table(Limits(processes=64), 300)


def test_a_folder_is_removed_however_deep_locked_or_linked(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").write_text("x")
    folder = new_folder(tmp_path)
    (folder / "link").symlink_to(outside)
    (folder / "a").mkdir()
    (folder / "a" / "link").symlink_to(outside)
    os.mkfifo(folder / "a" / "fifo")
    (folder / "a").chmod(0)
    here = os.open(folder, os.O_RDONLY)
    for _ in range(1500):
        os.mkdir("d" * 200, dir_fd=here)
        deeper = os.open("d" * 200, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = deeper
    os.close(here)
    remove_folder(folder)
    assert not folder.exists()
    assert (outside / "kept").read_text() == "x"
    remove_folder(folder)  # gone already: no error


def test_a_link_in_place_of_a_folder_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "kept")
    remove_folder(tmp_path / "link")
    assert (tmp_path / "kept").is_dir()


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_children_are_found_with_and_without_the_kernel_s_list(monkeypatch: pytest.MonkeyPatch) -> None:
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(writing)
        os.read(reading, 1)
        os._exit(0)
    try:
        assert pid in survivors.children_of(os.getpid())
        original = Path.read_text
        monkeypatch.setattr(
            Path, "read_text", lambda self: (_ for _ in ()).throw(OSError) if "task" in str(self) else original(self)
        )
        assert pid in survivors.children_of(os.getpid())
        assert pid not in survivors.children_of(1)
    finally:
        os.close(writing)
        os.close(reading)
        os.waitpid(pid, 0)


def test_a_workbench_is_found_by_module_or_by_file(tmp_path: Path) -> None:
    (tmp_path / "bench.py").write_text("class Bench: pass\n")
    assert boot.load_workbench(f"{tmp_path}/bench.py:Bench").__name__ == "Bench"
    assert boot.load_workbench("collections:OrderedDict").__name__ == "OrderedDict"
    with pytest.raises(OSError, match="bench2"):
        boot.load_workbench(f"{tmp_path}/bench2.py:Bench")


def fork_to(act: Callable[[], object]) -> int:
    """Fork a process that does `act` and then ends with status 9."""
    pid = os.fork()
    if pid == 0:
        try:
            act()
        finally:
            os._exit(9)
    return pid


def test_a_child_that_ends_by_itself_is_told_from_one_that_is_killed() -> None:
    ended = zygote.finish(fork_to(lambda: None), Notice(END, 7, 5000), ())
    assert (ended.kind, ended.number, os.waitstatus_to_exitcode(ended.value), ended.flags) == (ENDED, 7, 9, 2)
    killed = zygote.finish(fork_to(lambda: time.sleep(60)), Notice(END, 8, 0), ())
    assert (os.waitstatus_to_exitcode(killed.value), killed.flags) == (-signal.SIGKILL, 3)


@pytest.mark.parametrize(
    ("act", "status"),
    [
        (lambda _: (_ for _ in ()).throw(MemoryError), 71),
        (lambda _: (_ for _ in ()).throw(BrokenPipeError), 74),
        (lambda _: (_ for _ in ()).throw(ValueError), 70),
    ],
)
def test_what_breaks_a_child_before_it_serves_shows_in_its_status(
    act: Any, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        monkeypatch.setattr(boot.wire, "receive_json", act)
        pid = fork_to(lambda: boot.run_child(theirs.fileno(), os.open(os.devnull, os.O_WRONLY), None, None, None))
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == status


@pytest.mark.parametrize(("soft", "hard"), [(256, 512), (1024, 4096), (20000, 20000), (1024, -1)])
def test_the_channel_goes_above_common_numbers_where_the_system_allows(
    soft: int, hard: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [soft, hard]
    monkeypatch.setattr("resource.getrlimit", lambda _: tuple(now))
    monkeypatch.setattr("resource.setrlimit", lambda _, pair: now.__setitem__(slice(None), pair))
    for _ in range(50):
        number = portable._pick_high_number()
        assert number > (1024 if hard != 512 else 200)
        assert number < now[0]


def test_other_users_than_root_get_a_process_limit_above_what_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    set_to: dict[int, Any] = {}
    monkeypatch.setattr("resource.setrlimit", set_to.__setitem__)
    assert ("process" in portable._set_limits(Limits())) is Path("/proc/loadavg").exists()
    monkeypatch.setattr("os.geteuid", lambda: 0)
    assert "process" not in portable._set_limits(Limits())


def test_a_limit_that_the_system_refuses_is_not_claimed(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise ValueError

    monkeypatch.setattr("resource.setrlimit", refuse)
    assert portable._set_limits(Limits()) == []


def test_notices_are_waited_for_no_longer_than_asked() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        with pytest.raises(TimeoutError):
            read_notice(ours, 0.01)
        theirs.send(Notice(END, 3).pack()[:5])
        theirs.send(Notice(END, 3).pack()[5:])
        assert read_notice(ours, 5) == (Notice(END, 3), [])
