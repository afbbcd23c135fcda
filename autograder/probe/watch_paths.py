"""Which files are none of a submission's business: the grader's own, other processes', and what is installed."""

from __future__ import annotations

import os
import re
import sys
from pathlib import PurePath
from types import ModuleType
from typing import Any, Literal

import torch

#: Inside the package: what a grade is decided by. The probe is not among them: its code runs in the child anyway.
SECRET_FOLDERS = ("oracle", "checks", "tracks")
SECRET_FILES = ("grading",)
#: The reference answers: beside the package in a checkout, inside it once installed; of a student kit, the sealed ones.
ANSWER_FOLDERS = ("solutions", "_solutions", "_sealed")
#: The same by module name.
SECRET_MODULES = tuple(f"autograder.{name}" for name in (*SECRET_FOLDERS[:2], *SECRET_FILES, *ANSWER_FOLDERS))

_MEMORY = re.compile(r"/proc/.+/(mem|environ)")

Kind = Literal["grader", "process", "installed", ""]


class Paths:
    """Sorts paths into the grader's, another process's, what is installed, and the rest, which is ordinary.

    `own` are the submission's folder and its scratch directory, wherever they lie; `kit` is the package's folder.
    """

    def __init__(self, own: tuple[str, ...], kit: str) -> None:
        kit = os.path.realpath(kit)
        beside = os.path.dirname(kit)  # noqa: PTH120 -- text in, text out, many times a second
        self._kit = _within(kit)
        self._secret = (
            *(_within(os.path.join(kit, name)) for name in (*SECRET_FOLDERS, *ANSWER_FOLDERS)),  # noqa: PTH118
            *(_within(os.path.join(beside, name)) for name in ANSWER_FOLDERS),  # noqa: PTH118
            # An editable install leaves a second copy of the answers in site-packages, away from the package itself.
            *(_within(os.path.join(folder, "autograder", name)) for folder in sys.path for name in ANSWER_FOLDERS),  # noqa: PTH118
        )
        # A prefix that ends in a dot covers grading.py and __pycache__/grading.cpython-311.pyc.
        self._secret_files = tuple(
            os.path.normcase(os.path.join(kit, *folder, name + "."))  # noqa: PTH118
            for name in SECRET_FILES
            for folder in ((), ("__pycache__",))
        )
        self._installed = (_within(_parent(os)), _within(_parent(torch, 2)))  # the standard library, site-packages
        others = (*self._secret, self._kit, *self._installed)
        # A working directory such as "/" or a checkout holds the grader too: that makes nothing in it the submission's.
        self._own = tuple(
            folder for folder in map(_within, own) if not any(other.startswith(folder) for other in others)
        )

    def is_strange_folder(self, path: str) -> bool:
        """Return whether `path` is a folder outside the submission's own and what is installed.

        os.open() of a folder gives a descriptor from which files can be opened by relative names that tell nothing.
        """
        inside = os.path.normcase(path) + os.sep
        return os.path.isdir(path) and not inside.startswith((*self._own, *self._installed))  # noqa: PTH112

    def kind(self, path: str, writing: bool) -> Kind:
        """Return what `path`, as `resolve` gives it, is to a submission that wants to read it, or to change it."""
        if _MEMORY.fullmatch(path):
            return "process"
        inside = os.path.normcase(path) + os.sep
        if inside.startswith(self._own):
            return ""
        if inside.startswith(self._secret) or inside.startswith(self._secret_files):
            return "grader"
        if writing and inside.startswith(self._kit):
            return "grader"
        if writing and inside.startswith(self._installed):
            return "installed"
        return ""


def resolve(path: Any) -> str | None:
    """Return the absolute path, links followed, that an argument of open() means; None when it is not a path.

    Only text, bytes and pathlib's own paths are looked at: calling a method of anything else would run student code.
    """
    if isinstance(path, str):
        text = str.__str__(path)
    elif isinstance(path, bytes):
        text = os.fsdecode(bytes.__getitem__(path, slice(None)))
    elif type(path).__module__.partition(".")[0] == "pathlib" and isinstance(path, PurePath):
        text = str(path)
    else:
        return None
    return os.path.realpath(text)


def _within(folder: str) -> str:
    return os.path.normcase(os.path.realpath(folder)).rstrip(os.sep) + os.sep


def _parent(module: ModuleType, levels: int = 1) -> str:
    return str(PurePath(module.__file__ or "").parents[levels - 1])
