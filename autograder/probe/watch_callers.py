"""Whose code is running: tells a submission's frames and functions from everybody else's."""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from types import FrameType, FunctionType, MethodType
from typing import Any, Literal

#: Files looked up in a submission's folder; intake refuses more than that, so that a longer walk is never needed.
MAX_FILES = 2000
#: Frames looked at before blaming the submission: ours are a dozen, so that a deeper stack is its recursion.
MAX_FRAMES = 400

Blame = Literal["student", "kit", ""]


class Callers:
    """Answers, for a stack frame or a function, whether it comes from the submission in `tree`.

    The name in the code object counts, and never a module's `__file__`, which the module may change. Student code that
    compiles itself under another name is not recognised; it gains nothing, since it is judged by its tensors alone.
    """

    def __init__(self, tree: str, kit: str) -> None:
        self._main = threading.get_ident()
        tree = os.path.abspath(tree)  # noqa: PTH100 -- only text is wanted: pathlib would resolve nothing more
        self._tree = tuple({_folder(tree), _folder(os.path.realpath(tree))})
        self._kit = tuple({_folder(kit), _folder(os.path.realpath(kit))})
        # A loader may compile under the path within the submission, so that tracebacks show "model.py".
        self._relative = frozenset(_sources(tree))

    def is_student(self, frame: FrameType) -> bool:
        """Return whether the code of `frame` is written in a file of the submission."""
        return self._owns(frame.f_code.co_filename)

    def direct(self, frame: FrameType | None, through: frozenset[str] = frozenset()) -> bool:
        """Return whether the submission itself made this call, be it by way of the top-level modules in `through`.

        Code given to exec() has no file: whoever called exec() answers for it.
        """
        while frame is not None:
            if self.is_student(frame):
                return True
            if module_of(frame).partition(".")[0] not in through and not _is_generated(frame.f_code.co_filename):
                return False
            frame = frame.f_back
        return False

    def blame(self, frame: FrameType | None) -> Blame:
        """Return who asked for this call, if indirectly: the submission, the kit on its behalf, or neither ("")."""
        answer: Blame = "student"
        for _ in range(MAX_FRAMES):
            if frame is None:  # a thread that we did not start was started by the submission
                return "" if threading.get_ident() == self._main else answer
            if self.is_student(frame):
                return answer
            if str.startswith(frame.f_code.co_filename, self._kit):
                answer = "kit"
            frame = frame.f_back
        return answer

    def made(self, thing: Any) -> bool:
        """Return whether `thing`, a function, method, class or instance, is written in a file of the submission.

        Nothing of `thing` is called: it may be hostile.
        """
        return any(self._owns(function.__code__.co_filename) for function in _functions(thing))

    def _owns(self, filename: str) -> bool:
        # Unbound str methods: a code object's file name may be an instance of a subclass with methods of its own.
        return str.startswith(filename, self._tree) or str.__str__(filename) in self._relative


def module_of(frame: FrameType) -> str:
    """Return the name of the module that `frame` runs in, or "" when it is not plain text."""
    name = dict.get(frame.f_globals, "__name__")
    return name if type(name) is str else ""


def _functions(thing: Any) -> Iterator[FunctionType]:
    for _ in range(8):  # partials of methods of partials: nobody nests deeper
        if type(thing) is functools.partial:
            thing = thing.func
        elif type(thing) is MethodType:
            thing = thing.__func__
    if type(thing) is FunctionType:
        yield thing
        return
    kind = thing if issubclass(type(thing), type) else type(thing)
    for base in type.__getattribute__(kind, "__mro__"):
        for member in list(type.__getattribute__(base, "__dict__").values()):
            if type(member) in (staticmethod, classmethod):
                member = member.__func__
            if type(member) is FunctionType:
                yield member


def _is_generated(filename: str) -> bool:
    return str.startswith(filename, "<") and not str.startswith(filename, "<frozen")


def _folder(path: str) -> str:
    return path.rstrip(os.sep) + os.sep


def _sources(tree: str) -> Iterator[str]:
    seen = 0
    for folder, _, names in os.walk(tree):
        for name in names:
            seen += 1
            if seen > MAX_FILES:
                return
            if name.endswith(".py"):
                yield Path(folder, name).relative_to(tree).as_posix()
