"""A notebook's code as one Python source: code cells in order; magics, shell lines and our imports made comments."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from autograder.submission.lines import Scanner, split_lines

_LINE_MAGIC = re.compile(r"\s*(?:%{1,2}[A-Za-z]|!|\?)")
_ASSIGNED_MAGIC = re.compile(r"\s*+[\w.,\[\] ]++=\s*+(?:%[A-Za-z]|!)")  # possessive: blanks may be many
_HELP = re.compile(r"\s*[\w.*]+\?{1,2}\s*$")
_CELL_MAGIC = re.compile(r"%%(\w+)")
#: Cell magics whose body runs as plain Python in the notebook itself: only their first line is not Python.
_TRANSPARENT = frozenset({"time", "capture", "prun"})
#: What our own notebooks begin with; the child that runs a submission has no such module.
_OUR_IMPORT = re.compile(r"\s*+from\s++autograder\.jupyter\s++import\b")
_IMPORT = re.compile(r"\s*+from\s++(\w+)\s++import\b")
_SEPARATOR = re.compile(r"# %%%? ((?:text )?cell \d+(?: of .+)?|added cell)$")


def to_python(cells: Sequence[str], absent: Collection[str] = ()) -> str:
    """Return one source with all `cells`, each under a line `# %% cell N`, where N counts code cells from 1.

    Imports from the modules in `absent` become comments: in the joined source their classes are at hand.
    """
    return "\n".join(under_header(f"cell {number}", plain(cell, absent)) for number, cell in enumerate(cells, 1))


def under_header(label: str, text: str, goes_on: bool = False) -> str:
    """Return the text of one cell under a line that says which it is: "cell 3", "text cell 1 of gpt.ipynb".

    A cell that goes on with the code of the one before it has a third % there: neither is Python without the other.
    """
    return f"# %%{'%' if goes_on else ''} {label}\n{text}\n"


def cell_of(lines: Sequence[str], number: int) -> str:
    """Return where line `number` of such a source is in the notebook: "line 3 of code cell 2"."""
    for above in range(number - 1, 0, -1):
        if found := _SEPARATOR.match(lines[above - 1]):
            return f"line {number - above} of {'code ' if found[1].startswith('cell') else ''}{found[1]}"
    return f"line {number}"


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
