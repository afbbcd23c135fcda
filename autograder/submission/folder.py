"""A folder as a listing: walked and read without ever following a link or opening what is no regular file."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from autograder.submission.limits import MAX_DEPTH, MAX_FILES, Refused, too_large
from autograder.submission.names import Entry, Kind, composed, is_pruned, is_system, leads_out, shown
from autograder.verdict import Verdict

# O_NONBLOCK: opening a pipe would wait for a writer for ever. The flags that Windows lacks count as 0 there.
_FILE = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
_FILE |= getattr(os, "O_BINARY", 0)
_FOLDER = _FILE | getattr(os, "O_DIRECTORY", 0)

#: Whether folders are held open while they are walked, so that none can be exchanged for a link meanwhile.
HOLDS_FOLDERS = os.open in os.supports_dir_fd and os.scandir in os.supports_fd and os.readlink in os.supports_dir_fd

Place = int | Path  # an open folder, or its path where folders cannot be held open


class Folder:
    """The contents of one folder, down to MAX_DEPTH. Raises Refused when there is too much; OSError when unreadable."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.entries: list[Entry] = []
        self.pruned: list[str] = []
        self.warnings: list[str] = []
        self._seen = 0
        with _opened(root, None) as place:
            self._walk(place, (), ())

    def read(self, entry: Entry, limit: int) -> bytes:
        """Return the bytes of a file. Raises Refused when it is no regular file or larger than `limit` bytes."""
        key = entry.key
        assert isinstance(key, tuple)
        return read_regular(self.root, key, limit)

    def _walk(self, place: Place, above: tuple[str, ...], key: tuple[str, ...]) -> None:
        below: list[str] = []
        with os.scandir(place) as items:
            for item in items:
                self._seen += 1
                if self._seen > MAX_FILES:
                    raise Refused(f"The submission holds more than {MAX_FILES:,} files: hand in your own files only.")
                parts = (*above, composed(item.name))
                if is_pruned(item.name):
                    if not is_system(item.name):
                        self.pruned.append("/".join(parts))
                    continue
                info = item.stat(follow_symlinks=False)
                kind = self._kind(place, item, info, above)
                if kind == "folder":
                    below.append(item.name)
                self.entries.append(Entry(parts, kind, info.st_size, (*key, item.name)))
        if below and len(above) == MAX_DEPTH:
            raise Refused(f"The submission holds folders more than {MAX_DEPTH} levels deep.")
        for name in sorted(below):
            with _opened(name, place) as deeper:
                self._walk(deeper, (*above, composed(name)), (*key, name))

    def _kind(self, place: Place, item: os.DirEntry[str], info: os.stat_result, above: tuple[str, ...]) -> Kind:
        if stat.S_ISLNK(info.st_mode):
            target = _target(place, item.name)
            tops = (str(self.root.absolute()) + os.sep, os.path.realpath(self.root) + os.sep)
            inside = next((target.removeprefix(top) for top in tops if target.startswith(top)), None)
            out = leads_out(above, target) if inside is None else leads_out((), inside)
            return "link out" if out else "link"
        if hasattr(item, "is_junction") and item.is_junction():  # Windows' link between folders, Python 3.12 on
            return "link"
        return "folder" if stat.S_ISDIR(info.st_mode) else "file" if stat.S_ISREG(info.st_mode) else "special"


def read_regular(root: Path, parts: tuple[str, ...], limit: int) -> bytes:
    """Return the bytes of `root/parts` (of `root` itself when there are none), following no link on the way.

    Raises Refused when it is no regular file, or larger than `limit` bytes, or cannot be read (then: ungradable).
    """
    name = shown(parts[-1] if parts else root.name)
    try:
        with _reached((root, *parts), None) as descriptor:
            info = os.fstat(descriptor)
            if not stat.S_ISREG(info.st_mode):
                raise Refused(f"{name} is not a regular file.")
            if info.st_size > limit:
                raise too_large(name, limit)
            with os.fdopen(descriptor, "rb", closefd=False) as stream:
                data = stream.read(limit + 1)  # it may grow while we read
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EMLINK):
            raise Refused(f"{name} is a link: hand in the file itself.") from error
        raise unreadable(name, error) from error
    if len(data) > limit:
        raise too_large(name, limit)
    return data


def unreadable(name: str, error: OSError) -> Refused:
    """Return the refusal for what the system would not let us read: our trouble, not the student's."""
    return Refused(f"{name} cannot be read ({error.strerror or type(error).__name__}).", Verdict.UNGRADABLE)


@contextmanager
def _opened(name: str | Path, within: Place | None) -> Iterator[Place]:
    """Hold a folder open; where that is not possible, look that it is no link and give its path."""
    path = within / name if isinstance(within, Path) else Path(name)
    if not HOLDS_FOLDERS:
        if not stat.S_ISDIR(os.lstat(path).st_mode):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path))
        yield path
        return
    descriptor = os.open(name, _FOLDER, dir_fd=within if isinstance(within, int) else None)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def _reached(names: tuple[str | Path, ...], within: Place | None) -> Iterator[int]:
    """Open the last of `names` for reading, each of the others being a folder in the one before."""
    if len(names) > 1:
        with _opened(names[0], within) as place, _reached(names[1:], place) as descriptor:
            yield descriptor
        return
    path = within / names[0] if isinstance(within, Path) else names[0]
    if not getattr(os, "O_NOFOLLOW", 0) and Path(path).is_symlink():
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
    descriptor = os.open(path, _FILE, dir_fd=within if isinstance(within, int) else None)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _target(place: Place, name: str) -> str:
    return os.readlink(name, dir_fd=place) if isinstance(place, int) else str((place / name).readlink())
