"""Tells of saves in one folder, at once where the system reports them, within a second everywhere else."""

from __future__ import annotations

import threading
from pathlib import Path
from types import TracebackType
from typing import Self

from autograder.watch.events import Post, Saved

#: An editor writes a file in several steps (truncate, write, rename): changes this close are one save. One more step
#: than that is checked again, so that a short wait loses nothing.
_STEP_MS, _DEBOUNCE_MS = 20, 200
#: How often the folder itself is looked at: for network disks that report nothing, and for a folder that was deleted.
_LOOK_MS = 1000

Stamps = dict[str, tuple[int, int, int]]


class Saves:
    """Watches the sources at the top of `folder` in a thread of its own. A context manager."""

    def __init__(self, folder: Path, post: Post) -> None:
        self._folder, self._post = folder, post
        self._stop = threading.Event()
        self._seen = stamps(folder)
        self._thread = threading.Thread(target=self._run, name="saves", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join(3 * _LOOK_MS / 1000)

    def _run(self) -> None:
        polling = False
        while not self._stop.is_set():
            try:
                self._watch(polling)
            except (OSError, RuntimeError):  # the folder is gone, or the system has no more watches to give
                polling = self._folder.is_dir()
            self._stop.wait(_LOOK_MS / 2000)
            self._look()

    def _watch(self, polling: bool) -> None:
        """Post saves until the folder is another one, or until the end. Raises OSError or RuntimeError."""
        from watchfiles import watch

        identity = _identity(self._folder)
        changes = watch(
            self._folder,
            watch_filter=lambda _, path: is_source(Path(path).name),
            recursive=False,  # a virtual environment in the folder has thousands of folders
            step=_STEP_MS,
            debounce=_DEBOUNCE_MS,
            rust_timeout=_LOOK_MS,
            yield_on_timeout=True,
            stop_event=self._stop,
            raise_interrupt=False,
            force_polling=polling or None,
        )
        for found in changes:
            if found:
                self._seen = stamps(self._folder)
                self._post(Saved(frozenset(Path(path).name for _, path in found)))
            else:
                self._look()
            if _identity(self._folder) != identity:
                return

    def _look(self) -> None:
        """Compare the folder with what was seen last, and post what nobody told us."""
        now = stamps(self._folder)
        changed = {name for name in {*now, *self._seen} if now.get(name) != self._seen.get(name)}
        self._seen = now
        if changed:
            self._post(Saved(frozenset(changed)))


def is_source(name: str) -> bool:
    """Tell whether a file of this name can be part of the answer."""
    return name.endswith((".py", ".ipynb")) and not name.startswith(".")


def stamps(folder: Path) -> Stamps:
    """Return what changes when a source in `folder` is written: its inode, size and time. Empty without the folder."""
    found: Stamps = {}
    try:
        for entry in folder.iterdir():
            if is_source(entry.name):
                info = entry.lstat()
                found[entry.name] = (info.st_ino, info.st_size, info.st_mtime_ns)
    except OSError:  # it is being deleted: what is left shows next time
        pass
    return found


def _identity(folder: Path) -> tuple[int, int] | None:
    try:
        info = folder.stat()
    except OSError:
        return None
    return info.st_dev, info.st_ino
