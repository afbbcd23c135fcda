"""Runs `workshop` in a process that kills itself, as `kill -9` would, at the Nth call within the grader's own code.

    python killed_grader.py fake|real MOMENT WORDS...

MOMENT is N, or R:N for the Nth call after the R-th result has come in; 0 never kills, and prints at the end how many
calls there were. `fake` puts the stand-ins of fake_grader in place.
"""

from __future__ import annotations

import atexit
import os
import signal
import sys
import threading
from pathlib import Path
from types import FrameType

#: Where a kill is of interest: what reads and writes, in our code, before and after each call of SQLite and the disk.
WATCHED = tuple(str(Path("autograder", place)) for place in ("classroom", "cli", "reports/folder.py"))


class Calls:
    """Counts calls (from Python or into C) and returns from either; kills this process at one of them."""

    def __init__(self, moment: str) -> None:
        results, _, calls = moment.rpartition(":")
        self.results, self.at = int(results or 0), int(calls)
        self.count = 0
        self.watched: dict[str, bool] = {}  # by file: this is asked at every call of anything

    def look(self, frame: FrameType, event: str, _: object) -> None:
        file = frame.f_code.co_filename
        known = self.watched.get(file)
        if known is None:
            known = self.watched[file] = any(place in file for place in WATCHED)
        if not known:
            return
        if self.results > 0:
            self.results -= event == "call" and frame.f_code.co_name == "record"
            return
        self.count += 1  # threads may lose one to each other: the moment is drawn anyway
        if self.count == self.at:
            os.kill(os.getpid(), signal.SIGKILL)


def main() -> None:
    kind, moment, *words = sys.argv[1:]
    here = Path(__file__).resolve().parent
    sys.path[:0] = [str(here), str(here.parent)]
    if kind == "fake":
        import fake_grader

        fake_grader.install()
    from autograder import cli

    sys.argv = ["workshop", *words]
    calls = Calls(moment)
    if kind == "fake":  # the real grader's threads make millions of calls
        threading.setprofile(calls.look)
    sys.setprofile(calls.look)
    atexit.register(tell, calls)  # the command ends its process without coming back here
    cli.main()


def tell(calls: Calls) -> None:
    sys.setprofile(None)
    print(f"calls {calls.count}")


if __name__ == "__main__":
    main()
