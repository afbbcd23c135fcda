"""A terminal for tests: a pty whose other end is read by a thread, and what its screen shows, line by line."""

from __future__ import annotations

import os
import re
import select
import threading
import time
from types import TracebackType
from typing import Self

#: How long something may take that should happen: only a broken program needs all of it.
PATIENCE_S = 10.0
_STYLES = re.compile(r"\x1b\[[0-9;]*m|\x1b\[\?[0-9]+[hl]|\x1b\[2K")


class PtyScreen:
    """A pty of 80 x 24. `source` and `target` are the program's ends; here are the keyboard and the screen."""

    def __init__(self) -> None:
        self._master, slave = os.openpty()
        self.name = os.ttyname(slave)
        self.resize(80, 24)
        self.source = os.fdopen(slave, "r", encoding="utf-8")
        self.target = os.fdopen(os.open(self.name, os.O_WRONLY | os.O_NOCTTY), "w", encoding="utf-8")
        self.output = ""
        self._changed = threading.Condition()
        self._wake, self._waker = os.pipe()
        self._thread = threading.Thread(target=self._read, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.write(self._waker, b"x")
        self._thread.join()
        self.target.close()
        self.source.close()
        for descriptor in (self._master, self._wake, self._waker):
            os.close(descriptor)

    def resize(self, columns: int, rows: int) -> None:
        import fcntl
        import struct
        import termios

        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def press(self, keys: str) -> None:
        os.write(self._master, keys.encode())

    @property
    def lines(self) -> list[str]:
        """What the screen shows: the last full drawing."""
        return screen_lines(self.output)

    def wait(self, *texts: str, without: str = "") -> str:
        """Wait until the screen shows all `texts`, and not `without`; return it."""
        end = time.monotonic() + PATIENCE_S
        with self._changed:
            while True:
                shown = "\n".join(self.lines)
                flat = " ".join(shown.split())  # what is wrapped is found, too
                if all(text in shown or text in flat for text in texts) and not (without and without in shown):
                    return shown
                if not self._changed.wait(max(0.0, end - time.monotonic())):
                    raise AssertionError(f"{texts} never came; the screen shows:\n{shown}")

    def wait_for_end(self, text: str) -> None:
        """Wait until the last that was written is `text`."""
        with self._changed:
            assert self._changed.wait_for(lambda: self.output.endswith(text), PATIENCE_S), self.output[-200:]

    def _read(self) -> None:
        while True:
            ready, _, _ = select.select([self._master, self._wake], [], [])
            if self._wake in ready:
                return
            data = os.read(self._master, 65536).decode("utf-8", "replace")
            with self._changed:
                self.output += data
                self._changed.notify_all()


def screen_lines(output: str) -> list[str]:
    """Return the lines of the last complete drawing in what a program wrote (see autograder.watch.display)."""
    drawings = output.split("\x1b[H")
    complete = [drawing for drawing in drawings if "\x1b[J" in drawing]
    last = complete[-1].split("\x1b[J")[0] if complete else ""
    return [_STYLES.sub("", line).rstrip() for line in last.split("\n")]
