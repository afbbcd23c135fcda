"""Scratch folders for children, and their removal, whatever student code left in them."""

from __future__ import annotations

import os
import secrets
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path


def new_folder(parent: Path | None = None, prefix: str = "workshop-") -> Path:
    """Return a fresh empty folder that only this user may enter. Raises OSError when the disk is full or read-only."""
    return Path(tempfile.mkdtemp(prefix=prefix, dir=parent)).resolve()


def let_pass(folder: Path) -> None:
    """Let other users through `folder` to what they know the name of, when we are root: children are another user."""
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        folder.chmod(0o711)


def readable_folder(parent: Path, prefix: str) -> Path:
    """Return a fresh empty folder that every user may read. Raises OSError."""
    folder = new_folder(parent, prefix)
    folder.chmod(0o755)
    return folder


def remove_folder(folder: Path) -> None:
    """Remove `folder` and all in it; never follows a link, never raises, leaves what the system will not give up.

    `shutil.rmtree` recurses, so thousands of nested folders overflow its stack, and paths of that depth are too long
    for the system. Here every inner folder is first moved up to the top, so that none is ever deep.
    """
    if os.rename not in os.supports_dir_fd:  # Windows: paths are bounded there anyway
        shutil.rmtree(folder, ignore_errors=True)
        return
    with suppress(OSError):
        top = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            _empty(top)
        finally:
            os.close(top)
        folder.rmdir()


def _empty(top: int) -> None:
    token = secrets.token_hex(8)  # so that a name already there cannot be in the way
    names = (f".{token}-{number}" for number in count())
    stuck: set[str] = set()
    while inner := [name for name in _clear_files(top) if name not in stuck]:
        for name in inner:
            _flatten(top, name, names)
            try:
                os.rmdir(name, dir_fd=top)
            except OSError:
                stuck.add(name)


def _flatten(top: int, name: str, names: Iterator[str]) -> None:
    """Remove the files in `top`/`name` and move its folders up into `top`."""
    with suppress(OSError):
        os.chmod(name, 0o700, dir_fd=top)
        inside = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=top)
        try:
            for deeper in _clear_files(inside):
                with suppress(OSError):
                    os.chmod(deeper, 0o700, dir_fd=inside)
                    os.rename(deeper, next(names), src_dir_fd=inside, dst_dir_fd=top)
        finally:
            os.close(inside)


def _clear_files(folder: int) -> list[str]:
    """Unlink what is not a folder; return the names of the folders."""
    folders = []
    for name in os.listdir(folder):
        with suppress(OSError):
            if stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
                folders.append(name)
            else:
                os.unlink(name, dir_fd=folder)
    return folders
