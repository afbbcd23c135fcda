"""Mishaps while a model runs (no memory, a compiler that is not there, code that raises), put into words."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import torch

from autograder.capstone.learner import broken
from autograder.capstone.presets import Settings
from autograder.capstone.trouble import CapstoneError
from autograder.probe.faults import describe_exception


@contextlib.contextmanager
def in_words(settings: Settings, folder: Path, doing: str) -> Iterator[None]:
    """Turn what a model raises while `doing` into a CapstoneError; `folder` is where its code lies."""
    try:
        yield
    except CapstoneError:
        raise
    except Exception as error:
        if out_of_memory(error):
            raise CapstoneError(
                f"{doing}: memory ran out on {settings.device}. The same training in less memory: --accumulate "
                f"{2 * settings.accumulate} (more and smaller parts of a step); or take a smaller preset."
            ) from error
        if settings.compile and from_compiler(error):
            raise CapstoneError(
                f"{doing}: torch.compile failed ({str(error).strip().splitlines()[0][:200]}). It needs a C++ compiler, "
                "and code that it can trace. Leave out --compile."
            ) from error
        fault = describe_exception(error, str(folder), "forward")
        if not fault.file and not fault.not_implemented:
            raise CapstoneError(
                f"{doing} raised {fault.type}: {fault.message}. It does not come from your code: please report this."
            ) from error
        raise broken(fault, doing) from error


def out_of_memory(error: BaseException) -> bool:
    """Tell whether `error` says that memory ran out, on the device or in the machine."""
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    text = str(error)
    return isinstance(error, RuntimeError) and ("can't allocate memory" in text or "out of memory" in text)


def from_compiler(error: BaseException) -> bool:
    """Tell whether `error` was raised by torch.compile itself, and not by the code that it compiles."""
    return type(error).__module__.startswith(("torch._dynamo", "torch._inductor"))
