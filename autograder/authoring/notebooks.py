"""A part's notebook: its text, the stub, a check, a picture, and questions to go on with."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from autograder.authoring.regions import AuthoringError
from autograder.track import DEFAULT, Part, Track

NUMBERS = {2: "two", 3: "three", 4: "four", 5: "five", 6: "six", 7: "seven", 8: "eight"}

_CHECK = """\
## Check it

Run the cell above, then the next one. It looks at the class as it is now in this notebook, in a process of its own.
Stuck? `hint("{part}"{track})` says a little more each time, and costs nothing."""
_CHECK_FILE = """\
## Check it

Run the cell above, then the next one. It looks at the definitions as they are now in this notebook, in a process of its
own. This part is optional, with points of its own. Stuck? `hint("{part}"{track})` says a little more each time; \
it is free."""
#: A cell of code at the end of a page's first section, for parts that have no picture.
_CODE = re.compile(r"```python\n(.*?)\n```\s*\Z", re.DOTALL)
_TOGETHER = """\
## All {number} together

`check({track})` looks at all parts, each from its own notebook as you last saved it."""


@dataclass(frozen=True)
class Prose:
    """The text of a notebook that follows its check."""

    picture: str  # what the picture shows
    stretch: str  # questions to go on with


def read_prose(text: str, file: str) -> Prose:
    """Read solutions/PART.md: one section about the picture, one with questions. Raises AuthoringError."""
    sections = [section.strip() for section in re.split(r"^(?=## )", text, flags=re.MULTILINE) if section.strip()]
    if len(sections) != 2 or not all(section.startswith("## ") for section in sections):
        raise AuthoringError(
            f"{file}, line 1: write two sections (##), about the picture and to go on; not {len(sections)}."
        )
    return Prose(*sections)


def notebook_text(track: Track, part: Part, source: str, prose: Prose, file: str) -> str:
    """Return the notebook of `part` as JSON. `source` is its stub or its solution, in the percent format.

    The same source gives the same bytes. Raises AuthoringError when it is not one text cell and one code cell.
    """
    cells = list(_cells(track, part, source, prose, file))
    for number, cell in enumerate(cells, 1):
        cell["id"] = f"{part.name}-{number}"
    return book_text(cells)


def book_text(cells: list[Any]) -> str:
    """Return a notebook of `cells`, which have their ids, as JSON for our kernel."""
    import nbformat

    book = nbformat.v4.new_notebook(
        cells=cells,
        metadata={
            "kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"},
            "language_info": {"name": "python"},
        },
    )
    nbformat.validate(book)
    return str(nbformat.writes(book, version=4)).rstrip("\n") + "\n"


def text_and_code(source: str, file: str) -> tuple[str, str]:
    """Return the text (with its heading) and the code of a part in the percent format. Raises AuthoringError."""
    import jupytext

    found = jupytext.reads(source, fmt="py:percent").cells
    if [cell.cell_type for cell in found] != ["markdown", "code"] or not found[0].metadata.get("title"):
        kinds = ", ".join(cell.cell_type for cell in found)
        raise AuthoringError(
            f"{file}, line 1: not `# %% TITLE [markdown]`, then one `# %%` with the code, but: {kinds}."
        )
    text, code = found
    return f"# {text.metadata['title']}\n\n{text.source}", str(code.source)


def _cells(track: Track, part: Part, source: str, prose: Prose, file: str) -> Iterator[Any]:
    from nbformat.v4 import new_code_cell, new_markdown_cell

    text, code = text_and_code(source, file)
    yield new_markdown_cell(text)
    yield new_code_cell(_setup(track, part))
    yield new_code_cell(code)
    named = "" if track.name == DEFAULT else f'track="{track.name}"'
    more = f", {named}" if named else ""
    if part.functions:
        shown = _CODE.search(prose.picture)
        if shown is None:
            raise AuthoringError(f"{file}: the first section of its page ends without a ```python cell.")
        yield new_markdown_cell(_CHECK_FILE.format(part=part.name, track=more))
        yield new_code_cell(f'check("{part.name}"{more})')
        yield new_markdown_cell(prose.picture[: shown.start()].rstrip())
        yield new_code_cell(shown[1])
    else:
        yield new_markdown_cell(_CHECK.format(part=part.name, track=more))
        yield new_code_cell(f"check({part.class_name}{more})")
        yield new_markdown_cell(prose.picture)
        yield new_code_cell(f"picture({part.class_name}{more})")
    yield new_markdown_cell(prose.stretch)
    if part is track.parts[-1]:
        number = NUMBERS.get(len(track.parts), str(len(track.parts)))
        yield new_markdown_cell(_TOGETHER.format(number=number, track=named))
        yield new_code_cell(f"check({named})")


def _setup(track: Track, part: Part) -> str:
    if part.functions:
        return "from autograder.jupyter import check, hint"
    lines = ["from autograder.jupyter import check, hint, picture"]
    if used := list(dict.fromkeys(part.uses.values())):
        lines[0] = "from autograder.jupyter import check, hint, import_parts, picture"
        names = ", ".join(f'"{name}"' for name in used)
        books = " and ".join(track.part(name).file.removesuffix(".py") + ".ipynb" for name in used)
        named = "" if track.name == DEFAULT else f', track="{track.name}"'
        lines += ["", f"import_parts({names}{named})  # the import below finds what you wrote in {books}"]
    return "\n".join(lines)
