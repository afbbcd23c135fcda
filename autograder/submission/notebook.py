"""A notebook's code as one Python source: code cells in order; magics, shell lines and our imports made comments."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Sequence
from typing import Any

from autograder.submission.limits import MAX_NOTEBOOK_VALUES, MAX_SOURCE, Refused, too_large
from autograder.submission.lines import Scanner, split_lines
from autograder.submission.names import shown
from autograder.verdict import Verdict

_LINE_MAGIC = re.compile(r"\s*(?:%{1,2}[A-Za-z]|!|\?)")
_ASSIGNED_MAGIC = re.compile(r"\s*+[\w.,\[\] ]++=\s*+(?:%[A-Za-z]|!)")  # possessive: blanks may be many
_HELP = re.compile(r"\s*[\w.*]+\?{1,2}\s*$")
_CELL_MAGIC = re.compile(r"%%(\w+)")
#: Cell magics whose body runs as plain Python in the notebook itself: only their first line is not Python.
_TRANSPARENT = frozenset({"time", "capture", "prun"})
#: What our own notebooks begin with; the child that runs a submission has no such module.
_OUR_IMPORT = re.compile(r"\s*+from\s++autograder\.jupyter\s++import\b")
_IMPORT = re.compile(r"\s*+from\s++(\w+)\s++import\b")
_SEPARATOR = re.compile(r"# %% cell (\d+)$")


def code_cells(data: bytes, name: str) -> list[str]:
    """Return the source of each code cell. Raises Refused when `data` is no notebook (nbformat 3 and later)."""
    if sum(data.count(mark) for mark in (b"[", b"{", b",")) > MAX_NOTEBOOK_VALUES:
        raise Refused(f"{shown(name)} holds too much: clear the outputs of its cells and save it again.")
    try:
        book = json.loads(data)
    except RecursionError:
        raise Refused(f"{shown(name)} is nested too deeply to be a notebook.") from None
    except ValueError:
        raise Refused(
            f"{shown(name)} is not a notebook (not valid JSON): save it again from Jupyter.", Verdict.FAILED
        ) from None
    cells = _cells(book)
    if cells is None:
        raise Refused(f"{shown(name)} is not a notebook (it has no cells): save it again from Jupyter.", Verdict.FAILED)
    sources = [_source(cell) for cell in cells if isinstance(cell, dict) and cell.get("cell_type") == "code"]
    if sum(len(source) + len("# %% cell 1\n") for source in sources) > MAX_SOURCE:
        raise too_large(f"The code in {shown(name)}", MAX_SOURCE)
    return sources


def to_python(cells: Sequence[str], absent: Collection[str] = ()) -> str:
    """Return one source with all `cells`, each under a line `# %% cell N`, where N counts code cells from 1.

    Imports from the modules in `absent` become comments: in the joined source their classes are at hand.
    """
    pieces = [f"# %% cell {number}\n{plain(cell, absent)}\n" for number, cell in enumerate(cells, 1)]
    return "\n".join(pieces)


def cell_of(lines: Sequence[str], number: int) -> str:
    """Return where line `number` of such a source is in the notebook: "line 3 of code cell 2"."""
    for above in range(number - 1, 0, -1):
        if found := _SEPARATOR.match(lines[above - 1]):
            return f"line {number - above} of code cell {found[1]}"
    return f"line {number}"


def _cells(book: Any) -> list[Any] | None:
    if not isinstance(book, dict):
        return None
    if isinstance(book.get("cells"), list):
        return list(book["cells"])
    sheets = book.get("worksheets")  # nbformat 3
    if not isinstance(sheets, list):
        return None
    inside = [sheet.get("cells") for sheet in sheets if isinstance(sheet, dict)]
    return [cell for cells in inside if isinstance(cells, list) for cell in cells]


def _source(cell: dict[str, Any]) -> str:
    source = cell.get("source", cell.get("input", ""))  # nbformat 3 says "input"
    pieces = source if isinstance(source, list) else [source]
    return "".join(piece for piece in pieces if isinstance(piece, str))


def plain(cell: str, absent: Collection[str] = ()) -> str:
    """Return one cell as Python, line by line: what the notebook's own language adds has become comments."""
    lines = split_lines(cell)
    first = next((index for index, line in enumerate(lines) if line.strip()), 0)
    magic = _CELL_MAGIC.match(lines[first])
    if magic and magic[1] not in _TRANSPARENT:
        return "\n".join(f"# {line}" for line in lines)
    scanner, out, continues, brackets = Scanner(), [], False, False
    for line in lines:
        foreign = not continues and scanner.at_statement and _imports_from(line, absent)
        if continues or foreign or (scanner.at_statement and _is_magic(line)):
            brackets = (brackets or (foreign and "(" in line)) and ")" not in line
            continues = line.endswith("\\") or brackets
            indent = line[: len(line) - len(line.lstrip())]
            # in an indented block the comment alone could leave the block without a statement
            out.append(f"{indent}pass  # {line.strip()}" if indent else f"# {line}")
        else:
            scanner.feed(line)
            out.append(line)
    return "\n".join(out)


def _is_magic(line: str) -> bool:
    return any(pattern.match(line) for pattern in (_LINE_MAGIC, _ASSIGNED_MAGIC, _HELP))


def _imports_from(line: str, absent: Collection[str]) -> bool:
    found = _IMPORT.match(line)
    return bool(_OUR_IMPORT.match(line)) or (found is not None and found[1] in absent)
