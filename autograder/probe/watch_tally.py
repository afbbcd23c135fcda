"""How many processes and files a submission has made, counted over all the processes that it forks."""

from __future__ import annotations

import mmap
import struct

#: A data loader with a few workers is honest; nothing in this course needs more processes.
MAX_FORKS = 8
#: Logs and checkpoints are a handful of files; more is litter.
MAX_FILES = 100


class Tally:
    """Counts forks in memory that forked children share (their own lists are copies), and files by name."""

    def __init__(self) -> None:
        self._shared = mmap.mmap(-1, struct.calcsize("Q"))
        self._files: set[str] = set()
        self.variables: set[str] = set()  # environment variables that the submission itself set or removed

    @property
    def forks(self) -> int:
        """Forks so far, by the submission and by its children. Two at the same instant may count as one."""
        return int.from_bytes(self._shared[:], "little")

    def fork(self) -> int:
        """Count a fork; return how many there were."""
        count = self.forks + 1
        self._shared[:] = count.to_bytes(len(self._shared), "little")
        return count

    @property
    def files(self) -> int:
        """Different files opened for writing, or otherwise created; counting stops just above the limit."""
        return len(self._files)

    def file(self, path: str) -> int:
        """Count a file that is written; return how many different ones there were."""
        if len(self._files) <= MAX_FILES:
            self._files.add(path)
        return len(self._files) if path in self._files else MAX_FILES + 1
