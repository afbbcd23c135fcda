"""The line by which work tells which kit it began in; written into each stub, read when the work comes back."""

from __future__ import annotations

import json
import re

import autograder

_WORDS = "(leave this line: grading tells by it from which kit the exercise came)"
#: What comes back is anybody's text: a version has few characters, and few kinds of them.
_LINE = re.compile(rb"^# gpt-workshop-kit ([0-9A-Za-z.+_-]{1,60})(?: .*)?$", re.MULTILINE)


def marked(data: bytes, version: str | None = None) -> bytes:
    """Return a stub with the line at its end; one that has it already stays as it is."""
    if _LINE.search(data):
        return data
    return data.rstrip(b"\n") + f"\n\n{_line(version)}\n".encode()


def marked_notebook(data: bytes, version: str | None = None) -> bytes:
    """Return a notebook with the line at the end of its first code cell; what is no notebook stays as it is."""
    try:
        book = json.loads(data)
        cell = next(cell for cell in book["cells"] if cell["cell_type"] == "code")
        source = "".join(cell["source"])
        if _LINE.search(source.encode()):
            return data
        cell["source"] = f"{source}\n\n{_line(version)}".splitlines(keepends=True)
    except (KeyError, StopIteration, TypeError, ValueError):
        return data
    return (json.dumps(book, indent=1, ensure_ascii=False) + "\n").encode()


def version_in(source: bytes) -> str | None:
    """Return the version of the kit in which a source began, or None where it does not say."""
    found = _LINE.search(source)
    return found[1].decode() if found else None


def is_other(version: str) -> bool:
    """Tell whether `version` is another one than this kit's. What follows a + counts only where both have it."""
    mine = autograder.__version__
    if "+" in version and "+" in mine:
        return version != mine
    return version.partition("+")[0] != mine.partition("+")[0]


def _line(version: str | None) -> str:
    return f"# gpt-workshop-kit {version or autograder.__version__} {_WORDS}"
