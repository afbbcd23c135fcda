"""`Submission`: what one student handed in, as one clean tree of sources, and how that tree is written down."""

from __future__ import annotations

import hashlib
import json
import os
import stat
from dataclasses import dataclass, field
from pathlib import Path

from autograder.submission.names import is_plain
from autograder.verdict import Verdict

_FRESH = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)


@dataclass(frozen=True)
class Submission:
    """One submission, read. When `problem` is set nothing can be graded and `tree` is empty.

    All text here may come from the student: every report escapes it.
    """

    student: str  # the id as shown, any text
    origin: Path
    tree: dict[str, bytes] = field(default_factory=dict)  # relative posix path, NFC -> bytes of a source for the child
    files: dict[str, str] = field(default_factory=dict)  # each file that was read, path -> SHA-256
    sources: dict[str, str] = field(default_factory=dict)  # class -> path in `tree` in which it should be found
    lenient: frozenset[str] = frozenset()  # paths in `tree` taken from notebooks: only their definitions are run
    shown_as: dict[str, str] = field(default_factory=dict)  # for those, the name of what they were made from
    warnings: tuple[str, ...] = ()  # cost nothing
    repairs: tuple[str, ...] = ()  # what was put right in notebooks, for the student to see; the files are as they were
    explanations: dict[str, str] = field(default_factory=dict)  # path in `tree` -> why it will probably not load
    problem: str = ""  # one sentence: why nothing can be graded
    verdict: Verdict | None = None  # the verdict for that problem
    suspicious: tuple[str, ...] = ()  # what an instructor should see: files that serve to run before the grader

    @property
    def digest(self) -> str:
        """Return the SHA-256 over the sorted (path, SHA-256) pairs of `files`: the key of this submission."""
        return hashlib.sha256(json.dumps(sorted(self.files.items())).encode()).hexdigest()


def write_tree(submission: Submission, directory: Path) -> None:
    """Write the sources of `submission` below `directory` (made if it is not there), each a fresh file of mode 0644.

    Raises FileExistsError when a file is there already, ValueError for a path that would lead out of `directory`.
    """
    for path in submission.tree:
        if not path.isprintable() or not all(is_plain(part) for part in path.split("/")):
            raise ValueError(f"{path!r} is not a path below a folder")
    directory.mkdir(parents=True, exist_ok=True)
    for path, data in submission.tree.items():
        folder = directory
        for part in path.split("/")[:-1]:
            folder = folder / part
            _make_folder(folder)
        descriptor = os.open(directory / path, _FRESH, 0o644)
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(data)
            if hasattr(os, "fchmod"):  # whatever the umask: the child may run as another user
                os.fchmod(descriptor, 0o644)


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir()
        folder.chmod(0o755)
    except FileExistsError:
        if not stat.S_ISDIR(os.lstat(folder).st_mode):
            raise
