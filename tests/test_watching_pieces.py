"""The pieces of `workshop watch`: keys, signals, saves, and a check that is cut short with real processes."""

from __future__ import annotations

import os
import queue
import signal
import sys
import threading
import types
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from answers import solutions
from sample_reports import report

from autograder.sandbox import Limits, Nursery
from autograder.stubs import start
from autograder.track import load_track
from autograder.verdict import Report, Verdict
from autograder.watch import checker, loop, saves, terminal
from autograder.watch.events import Checked, Ended, Event, Key, Redraw, Saved

if os.name != "posix":
    pytest.skip("there are no ptys here", allow_module_level=True)

from pty_screen import PtyScreen

TRACK = load_track("gpt")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    start(TRACK, tmp_path / "mine")
    return tmp_path / "mine"


@pytest.fixture
def screen() -> Iterator[PtyScreen]:
    with PtyScreen() as made:
        yield made


@pytest.mark.parametrize(
    ("data", "names"),
    [
        (b"nq?", ["n", "q", "?"]),
        (b"\x1b[A\x1b[B\x1bOA", ["up", "down", "up"]),
        (b" \r\n\x1b", ["space", "enter", "enter", "escape"]),
        (b"\x1b[15~\x1bx\x1b[1;5C", []),
        (b"\x00\x7f\xc3\xa9", []),
        (b"\x1b[200~q\x1b[201~", ["q"]),
    ],
)
def test_keys_are_read_and_sequences_are_never_taken_for_letters(data: bytes, names: list[str]) -> None:
    assert terminal.presses(data) == names


def test_a_terminal_that_goes_away_is_the_end(screen: PtyScreen) -> None:
    events: queue.SimpleQueue[Event] = queue.SimpleQueue()

    class Gone:
        def read(self) -> bytes:
            return b""

    terminal._read_keys(Gone(), events.put)  # type: ignore[arg-type]
    assert events.get() == Ended()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT])
def test_signals_to_end_restore_the_terminal(screen: PtyScreen, number: signal.Signals) -> None:
    import termios

    before, handler = termios.tcgetattr(screen.source.fileno()), signal.getsignal(number)
    with pytest.raises(SystemExit) as end, terminal.screen(screen.source, screen.target, lambda _: None):
        os.kill(os.getpid(), number)
        threading.Event().wait(60)
    assert end.value.code == 128 + number
    assert termios.tcgetattr(screen.source.fileno()) == before and signal.getsignal(number) == handler


def test_a_stopped_watch_gives_the_terminal_back_until_it_goes_on(
    screen: PtyScreen, monkeypatch: pytest.MonkeyPatch
) -> None:
    import termios

    events: queue.SimpleQueue[Event] = queue.SimpleQueue()
    before = termios.tcgetattr(screen.source.fileno())
    stopped: list[tuple[int, bool, object]] = []

    def stop(process: int, number: int) -> None:  # in place of os.kill, which would stop the tests
        same = termios.tcgetattr(screen.source.fileno()) == before
        stopped.append((number, same, signal.getsignal(number)))

    with terminal.screen(screen.source, screen.target, events.put):
        monkeypatch.setattr(terminal.os, "kill", stop)
        signal.raise_signal(signal.SIGTSTP)
        assert stopped == [(signal.SIGTSTP, True, signal.SIG_DFL)]
        assert events.get(timeout=60) == Redraw()
        assert termios.tcgetattr(screen.source.fileno())[3] & termios.ECHO == 0
    assert termios.tcgetattr(screen.source.fileno()) == before


def test_keys_of_a_windows_console_are_read_until_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    typed = ["n", "h"]
    console = types.ModuleType("msvcrt")
    console.__dict__.update(kbhit=lambda: bool(typed), getwch=lambda: typed.pop(0))
    monkeypatch.setitem(sys.modules, "msvcrt", console)
    keyboard = terminal._Console()
    keyboard.take()
    assert [keyboard.read(), keyboard.read()] == [b"n", b"h"]
    keyboard.interrupt()
    assert keyboard.read() is None
    keyboard.give()
    keyboard.close()


def test_a_new_size_is_posted(screen: PtyScreen) -> None:
    events: queue.SimpleQueue[Event] = queue.SimpleQueue()
    with terminal.screen(screen.source, screen.target, events.put):
        os.kill(os.getpid(), signal.SIGWINCH)
        assert events.get(timeout=60) == Redraw()
        screen.press("n")
        assert events.get(timeout=60) == Key("n")


def test_saves_are_told_also_of_a_folder_that_was_deleted_and_came_back(tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "notes.txt").touch()
    events: queue.SimpleQueue[Event] = queue.SimpleQueue()

    def wait(name: str) -> None:
        while True:
            event = events.get(timeout=60)
            if isinstance(event, Saved) and name in event.names:
                return

    with saves.Saves(mine, events.put):
        (mine / "a.py").write_text("1", encoding="utf-8")
        wait("a.py")
        (mine / "a.py").unlink()
        mine.joinpath("notes.txt").unlink()
        mine.rmdir()
        wait("a.py")
        mine.mkdir()
        (mine / "b.py").write_text("1", encoding="utf-8")
        wait("b.py")
        (mine / "c.py").write_text("1", encoding="utf-8")
        wait("c.py")
    assert saves.stamps(tmp_path / "gone") == {}


def test_saves_are_found_where_the_system_reports_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import watchfiles

    def silent(*_: object, stop_event: threading.Event, **__: object) -> Iterator[set[object]]:
        if not stop_event.wait(0.01):
            yield set()
        raise OSError("no more watches")

    monkeypatch.setattr(watchfiles, "watch", silent)
    events: queue.SimpleQueue[Event] = queue.SimpleQueue()
    with saves.Saves(tmp_path, events.put):
        (tmp_path / "a.py").write_text("1", encoding="utf-8")
        assert events.get(timeout=60) == Saved(frozenset({"a.py"}))


# cutting a check short: with real processes


def test_a_new_request_ends_the_check_that_runs_and_only_the_newest_is_told(tmp_path: Path) -> None:
    events: queue.SimpleQueue[Event] = queue.SimpleQueue()
    running = threading.Event()

    def endless_then_quick(parts: Sequence[str], nursery: Nursery) -> Report:
        if parts == ["endless"]:
            child = nursery.spawn(tmp_path)
            running.set()
            child.channel.settimeout(60)
            assert child.channel.recv(1) == b""  # until it is killed
            assert child.end(60).signal == signal.SIGKILL
            nursery.spawn(tmp_path)  # refused while the check is being cut short
        nursery.spawn(tmp_path).end(0.0)
        return report("ada")

    tmp_path.chmod(0o755)
    with checker.Checker(lambda parts, nursery: endless_then_quick(list(parts), nursery), events.put) as checking:
        checking.ask(["endless"])
        assert running.wait(120)
        number = checking.ask(["quick"])
        event = events.get(timeout=120)
        assert isinstance(event, Checked) and event.number == number == 2 and event.report is not None
        running.clear()
        checking.ask(["endless"])
        assert running.wait(60)
    assert events.empty()


def test_the_real_grader_grades_the_folder_as_it_is(folder: Path, nursery: Nursery) -> None:
    grade = checker.grader(folder, TRACK, 7, Limits())
    assert grade(["config"], nursery).parts["config"].verdict is Verdict.NOT_ATTEMPTED
    (folder / "config.py").write_text(solutions()["config.py"], encoding="utf-8")
    again = grade(["config"], nursery)
    assert again.parts["config"].verdict is Verdict.PASSED and again.seed == 7 and list(again.parts) == ["config"]


def test_ending_while_nothing_was_asked_is_quick_and_calm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checker.CutShort, "start", lambda self: self)
    with checker.Checker(lambda parts, nursery: report("ada"), lambda event: None):
        pass
    assert loop._WAIT_S is None
