"""Regions that run student code: the stage at which it raised there, and what it is refused."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any


class StudentFault(Exception):
    """Student code raised: carries the stage in which it did."""

    def __init__(self, stage: str, error: BaseException) -> None:
        super().__init__(stage)
        self.stage, self.error = stage, error


@contextlib.contextmanager
def student_code(stage: str) -> Iterator[None]:
    """Mark a region that runs student code: whatever it raises is the student's."""
    try:
        yield
    except BaseException as error:  # SystemExit and KeyboardInterrupt in a forward are the student's too
        raise StudentFault(stage, error) from None


def refuse(*_: Any, **__: Any) -> None:
    """Stand in for functions that open files or start programs without Python's audit hooks seeing it."""
    raise PermissionError("this is not allowed while grading")
