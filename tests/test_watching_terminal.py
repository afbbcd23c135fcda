"""`workshop watch` as a student has it: the real command and the real grader, driven through a terminal by pexpect."""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from answers import solutions

from autograder.progress import ProgressFile
from autograder.stubs import start
from autograder.track import load_track

if os.name != "posix":
    pytest.skip("pexpect needs a pty, which this system has not", allow_module_level=True)

import pexpect
from pty_screen import screen_lines

#: How long something may take that should happen; the first check imports torch twice on a machine that may be busy.
PATIENCE_S = 120
ENDLESS = "        while True:\n            pass\n        B, T, C = x.shape"


class Terminal:
    """A `workshop watch` on a terminal of 80 x 24."""

    def __init__(self, folder: Path, *words: str) -> None:
        environment = {**os.environ, "TERM": "xterm-256color", "NO_COLOR": "1", "PYTHONUTF8": "1"}
        arguments = ["-m", "autograder", "watch", *words]
        self.child = pexpect.spawn(
            sys.executable,
            arguments,
            cwd=folder,
            env=environment,
            encoding="utf-8",
            timeout=PATIENCE_S,
            dimensions=(24, 80),
        )
        self.output = ""

    def wait(self, text: str, without: str = "") -> str:
        """Wait until the screen shows `text` and not `without`; return the screen."""
        while True:
            shown = "\n".join(screen_lines(self.output))
            flat = " ".join(shown.split())
            if (text in shown or text in flat) and not (without and without in shown):
                return shown
            try:
                self.output += self.child.read_nonblocking(65536, PATIENCE_S)
            except (pexpect.EOF, pexpect.TIMEOUT) as error:
                raise AssertionError(
                    f"{text!r} never came ({type(error).__name__}); the screen shows:\n{shown}"
                ) from None

    def press(self, keys: str) -> None:
        self.child.send(keys)

    def end(self) -> str:
        """Wait for the end; return what came after the screen was left."""
        self.output += self.child.read()
        self.child.close()
        return self.output.rpartition("\x1b[?1049l")[2]


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    start(load_track("gpt"), tmp_path / "mine")
    return tmp_path / "mine"


@contextlib.contextmanager
def watching(folder: Path, *words: str) -> Iterator[Terminal]:
    terminal = Terminal(folder, *words)
    try:
        yield terminal
    finally:
        terminal.child.close(force=True)


def save(folder: Path, name: str, text: str) -> None:
    (folder / name).write_text(text, encoding="utf-8")


def test_every_key_does_what_the_help_says(mine: Path) -> None:
    right = solutions()
    with watching(mine, "attention", "--seed", "7") as terminal:
        terminal.wait("Fill in attention.py and save it.")
        save(mine, "attention.py", right["attention.py"].replace(" / math.sqrt(self.head_dim)", ""))
        shown = terminal.wait("scores are not divided by sqrt(head_dim)", without="Checking")
        assert "23 / 30" in shown
        terminal.press("h")
        terminal.wait("the scale of the scores  (hint 1 of 3: idea)")
        save(mine, "attention.py", right["attention.py"])
        terminal.wait("attention passes. Next is mlp: press n.")
        terminal.press("n")
        terminal.wait("mlp  MLP in mlp.py")
        terminal.wait("Fill in mlp.py and save it.")
        terminal.press("l")
        assert "> mlp" in re.sub(" +", " ", terminal.wait("first passed"))
        terminal.press("?")
        terminal.wait("All weights and inputs of this run come from seed 7.")
        terminal.child.setwinsize(12, 60)
        terminal.wait("more lines: space")
        terminal.child.setwinsize(24, 80)
        terminal.wait("seed 7", without="more lines")
        terminal.press("c")
        terminal.wait("Total  30 / 100")
        terminal.press("2")
        terminal.wait("attention passes.")
        terminal.press("x")
        terminal.wait("Put the stub of attention.py back?")
        terminal.press("y")
        terminal.wait("Fill in attention.py and save it.")
        terminal.press("q")
        assert "30 of 100 points, 0 of 5 parts passed" in terminal.end()
        assert terminal.child.exitstatus == 0
    assert (mine / "attention.before-reset-1.txt").read_text(encoding="utf-8") == right["attention.py"]
    attention = ProgressFile(mine, "gpt").read().part("attention")
    assert (attention.points, attention.attempts, attention.hints) == (30, 2, {"scale": (1,)})


def test_an_endless_loop_a_syntax_error_and_a_deleted_file_are_survived_and_repaired(mine: Path) -> None:
    right = solutions()["attention.py"]
    endless = right.replace("        B, T, C = x.shape", ENDLESS)
    assert endless != right
    with watching(mine, "attention") as terminal:
        terminal.wait("Fill in attention.py and save it.")
        save(mine, "attention.py", endless)
        terminal.wait("Checking attention")
        save(mine, "attention.py", "class CausalSelfAttention(\n")
        terminal.wait("does not load", without="Checking")
        (mine / "attention.py").unlink()
        terminal.wait("There is no attention.py", without="Checking")
        save(mine, "attention.py", right)
        terminal.wait("attention passes.")
        save(mine, "attention.py", endless)
        terminal.wait("Checking attention")
        terminal.press("q")
        assert "points" in terminal.end() and terminal.child.exitstatus == 0


def test_ctrl_c_at_once_gives_the_terminal_back(mine: Path) -> None:
    with watching(mine) as terminal:
        terminal.wait("q quit")
        assert not terminal.child.getecho()
        terminal.press("\x03")
        after = terminal.end()
        assert "\x1b[?1049l" in terminal.output and "Traceback" not in after
        assert terminal.child.exitstatus == 130


def test_in_a_pipe_it_prints_a_line_a_save_until_the_input_ends(mine: Path) -> None:
    from pexpect.popen_spawn import PopenSpawn

    command = [sys.executable, "-m", "autograder", "watch", "mlp"]
    child = PopenSpawn(
        command, cwd=str(mine), encoding="utf-8", timeout=PATIENCE_S, env={**os.environ, "PYTHONUTF8": "1"}
    )
    child.expect(r"mlp +0 / 10 +not attempted")
    save(mine, "mlp.py", solutions()["mlp.py"])
    child.expect(r"mlp +10 / 10 +passed\n")
    child.sendeof()
    child.expect("10 of 100 points")
    assert child.wait() == 0 and "\x1b" not in child.before
