"""`workshop watch` from the inside, on a pty and with a grader of straw: keys, pages, saves, the terminal as before."""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from sample_reports import HOSTILE, NO_SCALE, report

from autograder.cli.screen import Screen
from autograder.hints import Hints, load_hints
from autograder.progress import FILE_NAME, Progress, ProgressFile
from autograder.stubs import start
from autograder.track import load_track
from autograder.verdict import PartResult, Report, Verdict, combine
from autograder.watch import checker, terminal, watch_folder

if os.name != "posix":
    pytest.skip("there are no ptys here", allow_module_level=True)

from pty_screen import PtyScreen

TRACK, HINTS = load_track("gpt"), load_hints("gpt")
KEYS = "n next  h hint  l list"


def graded(parts: Sequence[str], folder: Path) -> Report:
    """Grade by the words after "work:" in a file: right, wrong, hostile, loud, ours, raise; a stub is not attempted."""
    found = {}
    warnings: tuple[str, ...] = ()
    for name in parts:
        text = (folder / TRACK.part(name).file).read_text(encoding="utf-8")
        words = text.split()[1:] if text.startswith("work:") else []
        if "raise" in words:
            raise RuntimeError("the oracle lost its crystal ball")
        stub = None if words else Verdict.NOT_ATTEMPTED
        whole = report("ada", NO_SCALE if "wrong" in words else None, whole=lambda _, stub=stub: stub)  # type: ignore[misc]
        found[name] = whole.parts[name]
        if "hostile" in words:
            found[name] = replace(found[name], verdict=Verdict.FAILED, diagnosis=HOSTILE, checks=())
        if "ours" in words:
            found[name] = PartResult(name, TRACK.part(name).class_name, Verdict.UNGRADABLE, 0, 1, "The disk is full.")
        warnings += ("It prints a lot.",) if "loud" in words else ()
    verdict = combine(part.verdict for part in found.values())
    score = sum(part.score for part in found.values())
    assembled = {"message": "They fit."} if len(parts) == 5 else {}
    return replace(report("ada"), parts=found, verdict=verdict, score=score, warnings=warnings, assembled=assembled)


class Watching:
    """One `watch` that runs in a thread on a pty."""

    def __init__(self, folder: Path, screen: PtyScreen, **how: object) -> None:
        self.folder, self.screen = folder, screen
        self.result: Progress | None = None
        self.error: BaseException | None = None
        self.thread = threading.Thread(target=self._run, kwargs=how)

    def _run(self, **how: object) -> None:
        console = Screen(self.screen.target)
        arguments = {"seed": 7, "grade": lambda parts, _: graded(parts, self.folder), **how}
        try:
            self.result = watch_folder(
                self.folder,
                TRACK,
                arguments.pop("hints", HINTS),
                source=self.screen.source,
                console=console,
                **arguments,
            )
        except BaseException as error:
            self.error = error

    def save(self, name: str, text: str) -> None:
        new = self.folder / f".{name}.new"
        new.write_text(f"work: {text}", encoding="utf-8")
        new.replace(self.folder / name)

    def leave(self) -> Progress:
        self.screen.press("q")
        self.thread.join(60)
        assert self.error is None and self.result is not None
        return self.result


@pytest.fixture(autouse=True)
def no_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setattr(checker.CutShort, "start", lambda self: self)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    start(TRACK, tmp_path / "mine")
    return tmp_path / "mine"


@pytest.fixture
def screen() -> Iterator[PtyScreen]:
    with PtyScreen() as made:
        yield made


@pytest.fixture
def watching(folder: Path, screen: PtyScreen) -> Iterator[Callable[..., Watching]]:
    begun: list[Watching] = []

    def begin(**how: object) -> Watching:
        begun.append(Watching(folder, screen, **how))
        begun[-1].thread.start()
        return begun[-1]

    yield begin
    for each in begun:
        if each.thread.is_alive():
            screen.press("nq")  # "n" answers a question that is open
            each.thread.join(60)
        assert not each.thread.is_alive()


Begin = Callable[..., Watching]


def test_a_save_is_answered_and_the_next_part_waits_for_a_key(watching: Begin, screen: PtyScreen) -> None:
    watch = watching()
    screen.wait("config  GPTConfig in config.py", "not attempted", "Fill in config.py and save it", KEYS)
    watch.save("config.py", "right")
    shown = screen.wait("5 / 5", "config passes. Next is attention: press n.")
    assert "1 ✓ [config]   2 · attention" in shown
    screen.press("n")
    screen.wait("attention  CausalSelfAttention in attention.py", "not attempted")
    watch.save("attention.py", "wrong")
    screen.wait("23 / 30", "sqrt(head_dim)", "10 of 11 checks passed")
    progress = watch.leave()
    assert progress.part("config").points == 5 and progress.part("attention").attempts == 1
    assert ProgressFile(watch.folder, "gpt").read() == progress


def test_it_begins_with_the_part_that_was_asked_for_and_a_number_goes_to_another(
    watching: Begin, screen: PtyScreen
) -> None:
    watching(part="mlp")
    screen.wait("mlp  MLP in mlp.py", "[mlp]")
    screen.press("4")
    screen.wait("block  Block in block.py")


def test_hints_are_shown_on_request_and_recorded_and_go_when_the_part_passes(
    watching: Begin, screen: PtyScreen
) -> None:
    watch = watching(part="mlp")
    assert "hint 1" not in screen.wait("not attempted")
    screen.press("h")
    screen.wait("(hint 1 of 3: idea)")
    screen.press("h")
    screen.wait("(hint 2 of 3: shapes)")
    watch.save("mlp.py", "right")
    screen.wait("mlp passes", without="(hint 2")
    assert watch.leave().part("mlp").hints == {"general": (1, 2)}


def test_a_course_without_hints_says_so(watching: Begin, screen: PtyScreen) -> None:
    watching(hints=Hints())
    screen.wait("not attempted")
    screen.press("h")
    screen.wait("There are no hints for config.")


def test_list_help_and_check_all_are_pages_that_a_key_leaves(folder: Path, watching: Begin, screen: PtyScreen) -> None:
    for part in TRACK.parts:
        (folder / part.file).write_text("work: right", encoding="utf-8")
    watch = watching()
    screen.wait("config passes")
    screen.press("l")
    screen.wait("first passed", "0 / 35")
    screen.press("l")
    screen.wait("config passes", without="first passed")
    screen.press("?")
    screen.wait("go to the next part", "seed 7", "10 s")
    screen.press("\x1b")
    screen.wait("config passes", without="seed 7")
    screen.press("c")
    screen.wait("Total  100 / 100", "They fit.")
    screen.press("\r")
    screen.wait("All parts pass.", without="Total")
    screen.press("n")  # all that is required passes: on to what is optional
    screen.wait("tokenizer  CharTokenizer in tokenizer.py")
    screen.press("2")
    screen.wait("attention  CausalSelfAttention in attention.py", "All parts pass.")
    assert watch.leave().current(TRACK) == "gpt"


def test_reset_asks_and_only_y_is_yes(watching: Begin, screen: PtyScreen) -> None:
    watch = watching()
    watch.save("config.py", "right")
    screen.wait("config passes")
    screen.press("x")
    screen.wait("Put the stub of config.py back?", "config.before-reset-1.txt")
    screen.press("q")
    screen.wait("Nothing was changed.")
    assert (watch.folder / "config.py").read_text(encoding="utf-8") == "work: right"
    screen.press("xy")
    screen.wait("not attempted", without="config passes")
    assert (watch.folder / "config.before-reset-1.txt").read_text(encoding="utf-8") == "work: right"
    assert "is still to be written" not in (watch.folder / "config.py").read_text(encoding="utf-8")
    progress = watch.leave()
    assert progress.part("config").points == 5 and not progress.passed("config")


def test_reset_of_a_stub_and_of_what_is_no_file_is_told(watching: Begin, screen: PtyScreen) -> None:
    watch = watching()
    screen.wait("not attempted")
    screen.press("xy")
    screen.wait("config.py is the stub already.")
    (watch.folder / "mlp.py").unlink()
    (watch.folder / "mlp.py").symlink_to(watch.folder / "gpt.py")
    screen.press("3")
    screen.wait("mlp  MLP in mlp.py")
    screen.press("xy")
    screen.wait("is not a plain file")


def test_a_save_of_another_part_is_told_and_checks_the_current_one(watching: Begin, screen: PtyScreen) -> None:
    watch = watching()
    screen.wait("not attempted")
    watch.save("gpt.py", "right")
    screen.wait("gpt.py was saved; you are on config. Press 5 to go there.")
    screen.press("5")
    screen.wait("gpt passes. Next is config: press n.")


def test_text_of_students_cannot_act_on_the_terminal(watching: Begin, screen: PtyScreen) -> None:
    watch = watching(part="mlp")
    watch.save("mlp.py", "right hostile loud")
    screen.wait("alert(1)", "warning (costs nothing): It prints a lot.")
    assert "\x1b]0;" not in screen.output and "\x1b[31mred" not in screen.output and "\x9b2J" not in screen.output
    watch.leave()


def test_our_failures_are_told_as_ours_and_the_next_save_works(watching: Begin, screen: PtyScreen) -> None:
    watch = watching(part="mlp")
    screen.wait("not attempted")
    watch.save("mlp.py", "raise")
    screen.wait("not your code", "crystal ball")
    watch.save("mlp.py", "right ours")
    screen.wait("not graded (our fault)")
    watch.save("mlp.py", "right")
    screen.wait("mlp passes")
    assert watch.leave().part("mlp").attempts == 1


def test_a_long_page_scrolls_and_a_resized_terminal_is_filled_again(watching: Begin, screen: PtyScreen) -> None:
    watch = watching()
    screen.wait("not attempted")
    screen.resize(60, 10)
    screen.press("?")
    shown = screen.wait("more lines: space)")
    assert len(shown.split("\n")) == 10 and all(len(line) <= 60 for line in shown.split("\n"))
    screen.press(" \x1b[6~")
    screen.wait("seed 7")
    screen.press("\x1b[A\x1b[5~\x1b[5~\x1b[5~\x1b[B\x1b[A")
    screen.wait("Save a file")
    screen.resize(10, 2)
    screen.press("\x1b")
    screen.wait("quit", without="Save a file")
    screen.resize(0, 0)
    screen.press("l")
    screen.wait("first passed")
    watch.leave()


def test_the_terminal_is_as_before_after_q_and_its_screen_was_its_own(watching: Begin, screen: PtyScreen) -> None:
    import termios

    before = termios.tcgetattr(screen.source.fileno())
    watch = watching()
    screen.wait("not attempted")
    during = termios.tcgetattr(screen.source.fileno())
    assert during[3] & termios.ECHO == 0 and during[3] & termios.ISIG
    watch.leave()
    assert termios.tcgetattr(screen.source.fileno()) == before
    assert screen.output.startswith(terminal.ENTER_SCREEN)
    screen.wait_for_end(terminal.LEAVE_SCREEN)


def test_progress_that_cannot_be_kept_is_told_once_and_kept_in_memory(watching: Begin, screen: PtyScreen) -> None:
    watch = watching(part="mlp")
    screen.wait("not attempted")
    (watch.folder / FILE_NAME).unlink()
    (watch.folder / FILE_NAME).mkdir()
    watch.save("mlp.py", "right")
    screen.wait("mlp passes", "not noted")
    screen.press("\x1b")
    screen.wait("mlp passes", without="not noted")
    watch.save("mlp.py", "right loud")
    screen.wait("It prints a lot.", without="not noted")
    assert watch.leave().passed("mlp")


def test_a_damaged_progress_file_is_told_and_an_empty_folder_gets_none(
    folder: Path, watching: Begin, screen: PtyScreen
) -> None:
    (folder / FILE_NAME).write_text("{", encoding="utf-8")
    watch = watching()
    screen.wait("not attempted", "was damaged")
    for path in folder.glob("*.py"):
        path.unlink()
    (folder / FILE_NAME).unlink()
    screen.wait("not your code")  # the grader of straw finds no file
    assert watch.leave().part("config").attempts == 0 and not (folder / FILE_NAME).exists()


# without a terminal


def test_without_a_terminal_there_is_a_line_a_save(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reading, writing = os.pipe()
    printed: queue.SimpleQueue[str] = queue.SimpleQueue()
    out, into = os.pipe()

    def collect() -> None:
        with os.fdopen(out, encoding="utf-8") as lines:
            for line in lines:
                printed.put(line.rstrip("\n"))

    def wait(text: str) -> None:
        while text not in printed.get(timeout=60):
            pass

    threading.Thread(target=collect, daemon=True).start()
    with os.fdopen(reading, encoding="utf-8") as source, os.fdopen(into, "w", encoding="utf-8") as target:
        begun = threading.Thread(
            target=watch_folder,
            args=(folder, TRACK, HINTS),
            kwargs={
                "seed": 7,
                "source": source,
                "console": Screen(target),
                "grade": lambda parts, _: graded(parts, folder),
            },
        )
        begun.start()
        wait("Watching ")
        wait("config        0 / 5    not attempted")
        (folder / "config.py").write_text("work: right", encoding="utf-8")
        wait("config        5 / 5    passed")
        wait("config passes. Next is attention: press n.")
        for key, text in [
            ("h", "hint 1 of 3"),
            ("l", "first passed"),
            ("?", "seed 7"),
            ("n", "Now: attention (attention.py)"),
            ("x", "Put the stub of attention.py back?"),
            ("y", "attention.py is the stub already."),
            ("c", "mlp           0 / 10   not attempted"),
        ]:
            os.write(writing, f"{key}\n".encode())
            wait(text)
        os.close(writing)
        begun.join(60)
        assert not begun.is_alive()


def test_a_dumb_terminal_or_a_closed_stream_has_no_screen(
    screen: PtyScreen, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert terminal.has_screen(screen.source, screen.target)
    with (tmp_path / "out").open("w") as file:
        assert not terminal.has_screen(screen.source, file)
    assert not terminal.has_screen(screen.source, file)
    monkeypatch.setenv("TERM", "dumb")
    assert not terminal.has_screen(screen.source, screen.target)
