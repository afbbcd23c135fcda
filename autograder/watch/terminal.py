"""The terminal while `watch` has it: keys without Enter, a screen of its own, and everything as before at the end."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import IO, Any

from autograder.watch.events import Ended, Key, Post, Redraw

ENTER_SCREEN = "\x1b[?1049h\x1b[?25l\x1b[H"  # the alternate screen, no cursor
LEAVE_SCREEN = "\x1b[?25h\x1b[?1049l"
_NAMED = {
    b"\x1b[A": "up",
    b"\x1b[B": "down",
    b"\x1bOA": "up",
    b"\x1bOB": "down",
    b"\x1b[5~": "page up",
    b"\x1b[6~": "page down",
    b"\x1b": "escape",
    b"\r": "enter",
    b"\n": "enter",
    b" ": "space",
}
_PRESS = re.compile(rb"\x1b\[[0-?]*[ -/]*[@-~]|\x1bO.|\x1b[^\x1b]|.", re.DOTALL)
_UNFINISHED = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*|O)?\Z")
#: The rest of a key's sequence comes right after its beginning, even over a slow line; Esc alone waits so long.
_REST_S = 0.05


def presses(data: bytes) -> list[str]:
    """Return the names of the keys that sent `data`; keys without a name here (F5, Alt-x) are left out."""
    names = []
    for press in _PRESS.findall(data):
        name = _NAMED.get(press) or (chr(press[0]) if len(press) == 1 and 0x20 < press[0] < 0x7F else "")
        if name:
            names.append(name)
    return names


def has_screen(source: IO[str], target: IO[str]) -> bool:
    """Tell whether one screen can be kept up: both ends are a terminal that knows cursor movements."""
    if os.environ.get("TERM", "") in ("dumb", "unknown") and sys.platform != "win32":
        return False
    try:
        return source.isatty() and target.isatty()
    except ValueError:  # closed
        return False


@contextlib.contextmanager
def screen(source: IO[str], target: IO[str], post: Post) -> Iterator[None]:
    """Hold the terminal: keys are posted as they are pressed, a new size as Redraw. Restored however it ends."""
    keyboard = _Console() if sys.platform == "win32" else _Tty(source.fileno())

    def enter() -> None:
        keyboard.take()
        _write(target, ENTER_SCREEN)

    def leave() -> None:
        _write(target, LEAVE_SCREEN)
        keyboard.give()

    reader = threading.Thread(target=_read_keys, args=(keyboard, post), name="keys", daemon=True)
    try:
        enter()
        reader.start()
        with _signals(enter, leave, post):
            yield
    finally:
        leave()
        keyboard.interrupt()
        if reader.ident is not None:
            reader.join(1.0)
        keyboard.close()


@contextlib.contextmanager
def lines(source: IO[str], post: Post) -> Iterator[None]:
    """Post the characters of each line that is typed as keys, and the end of the input."""

    def read() -> None:
        with contextlib.suppress(OSError, ValueError):  # closed under our feet: that is the end, too
            for line in source:
                for name in line.strip():
                    post(Key(name))
        post(Ended())

    threading.Thread(target=read, name="lines", daemon=True).start()
    with _handled(dict.fromkeys(_ENDING, _end)):
        yield


class _Tty:
    """The keyboard of a POSIX terminal."""

    def __init__(self, descriptor: int) -> None:
        import termios

        self._descriptor = descriptor
        self._before = termios.tcgetattr(descriptor)
        self._wake, self._waker = os.pipe()

    def take(self) -> None:
        """Let keys come one by one and unseen; Ctrl-C and Ctrl-Z stay what they are."""
        import termios
        import tty

        with _from_background():
            tty.setcbreak(self._descriptor, termios.TCSANOW)

    def give(self) -> None:
        """Put the terminal's settings back."""
        import termios

        with _from_background(), contextlib.suppress(termios.error):  # the terminal may have gone
            termios.tcsetattr(self._descriptor, termios.TCSANOW, self._before)

    def read(self) -> bytes | None:
        """Wait for keys and return what they sent; b"" when the terminal has gone, None after `interrupt`."""
        import select

        ready, _, _ = select.select([self._descriptor, self._wake], [], [])
        if self._wake in ready:
            return None
        try:
            data = os.read(self._descriptor, 1024)
            if _UNFINISHED.search(data) and select.select([self._descriptor], [], [], _REST_S)[0]:
                data += os.read(self._descriptor, 1024)
        except OSError:
            return b""
        return data

    def interrupt(self) -> None:
        os.write(self._waker, b"x")

    def close(self) -> None:
        os.close(self._wake)
        os.close(self._waker)


class _Console:
    """The keyboard of a Windows console."""

    def __init__(self) -> None:
        import msvcrt

        self._keys: Any = msvcrt  # typed on Windows only
        self._stop = threading.Event()

    def take(self) -> None:
        """Nothing to do: keys come one by one here."""

    def give(self) -> None:
        """Nothing was taken."""

    def read(self) -> bytes | None:
        """Wait for a key and return what it sent, None after `interrupt`."""
        while not self._keys.kbhit():
            if self._stop.wait(0.05):
                return None
        return str(self._keys.getwch()).encode("utf-8", "replace")

    def interrupt(self) -> None:
        self._stop.set()

    def close(self) -> None:
        """Nothing is held."""


def _read_keys(keyboard: _Tty | _Console, post: Post) -> None:
    while (data := keyboard.read()) is not None:
        if not data:
            post(Ended())
            return
        for name in presses(data):
            post(Key(name))


def _write(target: IO[str], text: str) -> None:
    with contextlib.suppress(OSError, ValueError):  # nobody is there to see it
        target.write(text)
        target.flush()


#: By name: not every system has all of them.
_ENDING = ("SIGTERM", "SIGHUP", "SIGQUIT")

Handler = Callable[[int, FrameType | None], None]


def _end(number: int, frame: FrameType | None) -> None:
    raise SystemExit(128 + number)


@contextlib.contextmanager
def _signals(enter: Callable[[], None], leave: Callable[[], None], post: Post) -> Iterator[None]:
    """End in order on a signal to end; give the terminal back while stopped (Ctrl-Z); redraw at a new size."""

    def resized(number: int, frame: FrameType | None) -> None:
        post(Redraw())

    def stopped(number: int, frame: FrameType | None) -> None:
        leave()
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)  # stops here, and goes on here with SIGCONT
        signal.signal(number, stopped)
        enter()
        post(Redraw())

    with _handled({**dict.fromkeys(_ENDING, _end), "SIGWINCH": resized, "SIGTSTP": stopped}):
        yield


@contextlib.contextmanager
def _handled(handlers: dict[str, Handler]) -> Iterator[None]:
    """Handle signals by name; those that the system lacks are left out, and all of them outside of the main thread."""
    before: dict[int, Any] = {}
    if threading.current_thread() is threading.main_thread():
        for name, handler in handlers.items():
            if number := getattr(signal, name, None):
                before[number] = signal.signal(number, handler)
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, signal.SIG_DFL if old is None else old)


@contextlib.contextmanager
def _from_background() -> Iterator[None]:
    """Allow a change of the terminal's settings while another program has the foreground."""
    held = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTTOU})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, held)
