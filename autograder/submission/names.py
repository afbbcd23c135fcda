"""Names in a submission: which may be shown, which may be written, which are left out and why."""

from __future__ import annotations

import re
import sys
import unicodedata
from dataclasses import dataclass
from typing import Literal, Protocol

from autograder.submission.limits import Refused
from autograder.track import Track

ARCHIVE_SUFFIXES = (".zip", ".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tbz", ".tar.xz", ".txz")
#: Archives that we cannot open. They are a hand-in all the same: the student is told, not forgotten.
FOREIGN_ARCHIVE_SUFFIXES = (".rar", ".7z", ".tar.zst", ".tzst", ".gz", ".bz2", ".xz", ".zst")
SUFFIXES = tuple(sorted((".py", ".ipynb", *ARCHIVE_SUFFIXES, *FOREIGN_ARCHIVE_SUFFIXES), key=len, reverse=True))

#: Made by operating systems, not by students: dropped without a word.
SYSTEM_NAMES = frozenset({".DS_Store", "Thumbs.db", "desktop.ini", "__MACOSX"})
#: Folders that are never looked into (hidden ones beside them).
PRUNED_NAMES = frozenset({"__pycache__", "tests"})
#: Compiled code is not what the student wrote: a planted .pyc once ran instead of model.py.
COMPILED_SUFFIXES = (".pyc", ".pyo", ".so", ".pyd", ".dll", ".dylib")
#: Python runs these by itself when it starts: nobody needs them in an exercise.
STARTUP_STEMS = frozenset({"sitecustomize", "usercustomize"})
#: Modules that the grader, torch or numpy import: a file of the same name beside model.py must not take their place.
SHADOWED = frozenset(sys.stdlib_module_names) | frozenset(
    {"autograder", "solutions", "torch", "torchgen", "functorch", "numpy", "triton", "sympy", "mpmath", "networkx"}
    | {"jinja2", "markupsafe", "fsspec", "filelock", "typing_extensions", "setuptools", "pkg_resources", "packaging"}
    | {"safetensors", "psutil", "yaml", "opt_einsum", "pytest", "_pytest", "pluggy"}
)

SHOWN_LENGTH = 80  # characters: a file name longer than a terminal line hides the sentence around it
MAX_PATH = 4096  # characters in a path; Linux allows no more
NAME_BYTES = 240  # every file system in use takes 255 bytes for one name

Kind = Literal["file", "folder", "link", "link out", "special"]


@dataclass(frozen=True)
class Entry:
    """One thing in a folder or an archive, named but not read."""

    parts: tuple[str, ...]  # names from the top of the submission down, NFC
    kind: Kind
    size: int = 0  # bytes, as declared; only for files
    key: object = None  # what the listing that it came from needs to read it

    @property
    def path(self) -> str:
        return "/".join(self.parts)

    @property
    def name(self) -> str:
        return self.parts[-1]


class Listing(Protocol):
    """The contents of a folder or an archive: names first, bytes on request."""

    entries: list[Entry]
    pruned: list[str]  # paths that were not looked into and are worth a word
    warnings: list[str]

    def read(self, entry: Entry, limit: int) -> bytes:
        """Return the bytes of a file. Raises Refused when it is no regular file or larger than `limit`."""


def shown(name: str) -> str:
    """Return `name` fit for one line of a report: no control characters, not longer than a line."""
    clean = "".join(char if char.isprintable() else "\ufffd" for char in name)
    return clean if len(clean) <= SHOWN_LENGTH else clean[: SHOWN_LENGTH - 1] + "…"


def composed(name: str) -> str:
    """Return `name` in NFC, as Python's import looks for it. macOS hands out decomposed names."""
    return unicodedata.normalize("NFC", name)


def suffix_of(name: str) -> str:
    """Return the suffix that makes `name` a submission (".tar.gz", ".py", ...), lower case, or ""."""
    return next((suffix for suffix in SUFFIXES if name.lower().endswith(suffix)), "")


def student_id(name: str, is_folder: bool) -> str:
    """Return the student's id from the name of a file or folder; bytes that are no text become U+FFFD."""
    text = name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    suffix = "" if is_folder else suffix_of(text)
    return text[: len(text) - len(suffix)] or text


def required_names(track: Track) -> tuple[str, ...]:
    """Return the file names that the track asks for, the single file first."""
    return tuple(dict.fromkeys((track.single_file, *(part.file for part in track.parts))))


def optional_names(track: Track) -> tuple[str, ...]:
    """Return the file names of the optional parts."""
    return tuple(part.file for part in track.optional)


def is_system(name: str) -> bool:
    """Is this a file that an operating system leaves everywhere?"""
    return name in SYSTEM_NAMES or name.startswith("._")


def is_pruned(name: str) -> bool:
    """Is this a name (at any depth) that is left out, with all that is below it?"""
    return name.startswith(".") or name in PRUNED_NAMES or is_system(name)


def is_plain(name: str) -> bool:
    """Can a file of this name be written on any system without surprise?"""
    return (
        name.isprintable()
        and not any(char in '/\\:*?"<>|' for char in name)
        and name not in ("", ".", "..")
        and not name.endswith((".", " "))
        and len(name.encode()) <= NAME_BYTES
    )


def archive_parts(name: str) -> tuple[str, ...]:
    """Return the parts of a member's name (none for "./"). Raises Refused for a name that leads out of the archive."""
    if len(name) > MAX_PATH:
        raise Refused(f"The archive holds a path of {len(name):,} characters ({shown(name)}).")
    if "\0" in name:
        raise Refused(f"The archive holds a name with a NUL in it ({shown(name)}).")
    if "\\" in name:
        raise Refused(
            f"The archive holds a name with a backslash ({shown(name)}): pack it again with your system's own tool."
        )
    if name.startswith("/"):
        raise Refused(f"The archive holds an absolute path ({shown(name)}): pack the folder, not the path to it.")
    if re.match(r"[A-Za-z]:", name):
        raise Refused(f"The archive holds a path with a drive letter ({shown(name)}).")
    parts = tuple(composed(part) for part in name.split("/") if part not in ("", "."))
    if ".." in parts:
        raise Refused(f"The archive holds a path that leads out of it ({shown(name)}).")
    return parts


def leads_out(folder: tuple[str, ...], target: str) -> bool:
    """Does a link in `folder` with this relative or absolute target lead out of the submission? By its text alone."""
    if target.startswith(("/", "\\")) or re.match(r"[A-Za-z]:", target):
        return True
    depth = len(folder)
    for part in target.replace("\\", "/").split("/"):
        depth += -1 if part == ".." else part not in ("", ".")
        if depth < 0:
            return True
    return False
