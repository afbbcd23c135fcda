"""Which files a child may read: what Python, torch and their libraries need, and nothing of the grader's."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from pathlib import Path

#: Shared libraries, the C library's tables, a Python of the system's. Under /usr nobody keeps what is private.
_SYSTEM = ("/usr", "/lib", "/lib32", "/lib64", "/etc/ld.so.cache")
_PACKAGES = ("site-packages", "dist-packages")


def readable_paths() -> list[str]:
    """Return what this process has been running from: system libraries, Python, installed packages. No checkouts."""
    prefixes = {sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix} - {"/"}
    found = [*_SYSTEM, *sorted(prefixes)]
    found += [entry for entry in sys.path if Path(entry).name in _PACKAGES]
    found += [folder for folder in _library_folders() if not _beneath(folder, found)]
    return [path for path in dict.fromkeys(found) if Path(path).exists()]


def hidden_paths() -> list[str]:
    """Return the folders that decide grades: the kit itself (a child has imported what it needs), and the answers."""
    kit = Path(__file__).resolve().parents[1]
    # An editable install leaves a second copy of the answers in site-packages, away from the package itself.
    copies = [Path(entry, kit.name).resolve() for entry in sys.path if Path(entry).name in _PACKAGES]
    return [str(path) for path in dict.fromkeys((kit, kit.parent / "solutions", *copies)) if path.is_dir()]


def without(paths: Iterable[str], hidden: Iterable[str]) -> list[str]:
    """Return `paths`, where each that holds one of `hidden` is replaced by what lies beside it, at every level.

    For landlock, which can only allow: it has no way to say "all of this folder but that one".
    """
    secret = [os.path.realpath(path) for path in hidden]
    found: list[str] = []
    todo = list(paths)
    while todo:
        path = todo.pop(0)
        real = os.path.realpath(path)
        if _beneath(real, secret):
            continue
        if not any(_beneath(each, [real]) for each in secret):
            found.append(path)
        elif os.path.isdir(real):  # noqa: PTH112
            todo += [entry.path for entry in os.scandir(real) if not entry.is_symlink()]
    return found


def _library_folders() -> list[str]:
    """Return the folders of the shared libraries that are loaded: a vendor's may lie anywhere."""
    try:
        lines = Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
    names = {line.split(maxsplit=5)[-1] for line in lines if ".so" in line}
    return sorted({str(Path(name).parent) for name in names if name.startswith("/")} - {"/", "/tmp", "/dev/shm"})


def _beneath(path: str, folders: Iterable[str]) -> bool:
    return any(path == folder or path.startswith(folder.rstrip("/") + "/") for folder in folders)
