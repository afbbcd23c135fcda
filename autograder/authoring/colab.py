"""The cell with which a notebook installs the kit on Colab, and the link that opens the notebook there."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

#: `import` decides, so that elsewhere nothing happens. Colab has PyTorch, so pip has little to fetch.
_INSTALL = """\
# On Colab only: {first}
# Elsewhere the kit is there, and this does nothing.
try:
    import autograder
except ImportError:
    %pip install --quiet {what}"""
_UPLOAD = "put the kit's zip into the files at the left, then run this."
_FETCH = "run this; it installs the kit, and nothing heavy."
_REPOSITORY = re.compile(r"https://github\.com/([\w.-]+/[\w.-]+?)(?:\.git)?/?")


def repository(root: Path) -> str:
    """Return OWNER/NAME of the GitHub repository that pyproject.toml names as `Repository`; "" without one."""
    try:
        project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
        address = project["project"]["urls"]["Repository"]
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, KeyError, TypeError):
        return ""
    found = _REPOSITORY.fullmatch(address) if isinstance(address, str) else None
    return found[1] if found else ""


def with_colab(notebook: str, file: str, home: str) -> str:
    """Return the notebook (JSON) with the installing cell after its title, and with a link when `home` is known.

    `file` is its path in the repository, `home` is OWNER/NAME there, or "". The same notebook gives the same bytes.
    """
    import nbformat
    from nbformat.v4 import new_code_cell, new_markdown_cell

    book = nbformat.reads(notebook, as_version=4)
    what = f'"gpt-workshop-kit @ git+https://github.com/{home}"' if home else "gpt-workshop-kit*.zip"
    cells = [new_code_cell(_INSTALL.format(first=_FETCH if home else _UPLOAD, what=what), id="colab")]
    if home:
        link = f"https://colab.research.google.com/github/{home}/blob/HEAD/{file}"
        cells.insert(0, new_markdown_cell(f"[Open in Colab]({link})", id="colab-link"))
    book.cells[1:1] = cells
    nbformat.validate(book)
    return str(nbformat.writes(book, version=4)).rstrip("\n") + "\n"
