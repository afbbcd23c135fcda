"""Solution regions: what stands between the markers is taken out, and a stub says what is to be written there."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

BEGIN, END = "### BEGIN SOLUTION", "### END SOLUTION"
#: What somebody meant as a marker, and nearly wrote: as it is, the answer would go out with the stub.
_NEARLY = re.compile(r"#+\s*(begin|end)\s*[-_]?\s*solution", re.IGNORECASE)
_CLASS = re.compile(r"class (\w+)")
_METHOD = re.compile(r" {4}(?:async )?def (\w+)")
_FUNCTION = re.compile(r"(?:async )?def (\w+)")


class AuthoringError(Exception):
    """The source is ill-formed. A sentence for people, with file and line."""


@dataclass
class _Region:
    """A region while it is read."""

    line: int
    indent: str
    lines: list[str] = field(default_factory=list)


def stub_text(solution: str, file: str) -> str:
    """Return the stub of a solution: each region becomes its TODO, the length of our answer, and a line to replace.

    The comment right above a region is its task. `file` names the source in messages. Raises AuthoringError.
    """
    stub: list[str] = []
    region: _Region | None = None
    class_name = method = ""
    for number, line in enumerate(solution.splitlines(), 1):
        where = f"{file}, line {number}"
        marker = _marker(line, where)
        indent = line[: len(line) - len(line.lstrip())]
        if marker == BEGIN:
            if region is not None:
                raise AuthoringError(f"{where}: {BEGIN} inside the region that began in line {region.line}.")
            if not (class_name or method):
                raise AuthoringError(
                    f"{where}: a region outside of any class or function; a stub could not say what is missing."
                )
            _mark_task(stub, where)
            region = _Region(number, indent)
        elif marker == END:
            if region is None:
                raise AuthoringError(f"{where}: {END} without {BEGIN} above it.")
            stub += _unwritten(region, indent, class_name, method, where)
            region = None
        elif region is not None:
            region.lines.append(line)
        else:
            if found := _CLASS.match(line):
                class_name, method = found[1], ""
            elif found := _FUNCTION.match(line):
                class_name, method = "", found[1]
            elif found := _METHOD.match(line):
                method = found[1]
            stub.append(line)
    if region is not None:
        raise AuthoringError(f"{file}, line {region.line}: {BEGIN} is never closed by {END}.")
    if not (class_name or method) or "\n".join(stub) == solution.rstrip("\n"):
        raise AuthoringError(f"{file}, line 1: no {BEGIN} in the whole file; its stub would be the answer.")
    return "\n".join(stub) + "\n"


def task_text(solution: str, file: str) -> str:
    """Return the solution, regions and all, with tasks that say TODO and how long our answer is, as in a stub.

    Raises AuthoringError, as `stub_text` does.
    """
    stub_text(solution, file)
    text: list[str] = []
    lines = solution.splitlines()
    for number, line in enumerate(lines, 1):
        if line.strip() == BEGIN:
            _mark_task(text, f"{file}, line {number}")
            indent = line[: len(line) - len(line.lstrip())]
            end = next(index for index in range(number, len(lines)) if lines[index].strip() == END)
            text.append(f"{indent}# Ours takes {_length(lines[number:end])} lines.")
        text.append(line)
    return "\n".join(text) + "\n"


def _length(lines: list[str]) -> int:
    return sum(bool(line.strip()) and not line.strip().startswith("#") for line in lines)


def _marker(line: str, where: str) -> str:
    """Return the marker that `line` is, or nothing. Raises AuthoringError for one that is misspelt."""
    text = line.strip()
    if text in (BEGIN, END):
        return text
    if _NEARLY.match(text):
        raise AuthoringError(f"{where}: {text[:60]!r} is no marker; write exactly {BEGIN!r} or {END!r}.")
    return ""


def _mark_task(stub: list[str], where: str) -> None:
    """Begin the comment at the end of `stub` with TODO."""
    first = len(stub)
    while first and stub[first - 1].strip().startswith("# "):
        first -= 1
    if first == len(stub):
        raise AuthoringError(f"{where}: no comment right above {BEGIN}; it tells the student what to write.")
    stub[first] = stub[first].replace("# ", "# TODO: ", 1)


def _unwritten(region: _Region, indent: str, class_name: str, method: str, where: str) -> list[str]:
    if indent != region.indent:
        raise AuthoringError(f"{where}: {END} is not indented like its {BEGIN} in line {region.line}.")
    length = _length(region.lines)
    if not length:
        raise AuthoringError(f"{where}: the region that began in line {region.line} holds no code.")
    owner = f"{class_name}." if class_name else ""
    raising = f'raise NotImplementedError("{owner}{method} is still to be written")'
    return [f"{indent}# Ours takes {length} lines.", indent + (raising if method else "pass")]
