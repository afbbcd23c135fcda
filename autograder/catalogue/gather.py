"""All messages of the kit, from its Python files, its tracks, hints and known mistakes, and its HTML templates."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from autograder.catalogue.pages import pieces
from autograder.catalogue.po import FIELDS, Entry
from autograder.catalogue.sentences import Found, sentences

#: Rooms that say nothing to people.
_SILENT_ROOMS = ("catalogue", "_solutions", "_exercises", "_sealed")


def gather(package: Path) -> list[Entry]:
    """Return the messages of the package folder, each once with the files in which it stands, in the files' order."""
    places: dict[Found, list[str]] = {}
    for path in sorted(package.rglob("*")):
        name = path.relative_to(package).as_posix()
        if name.split("/")[0] in _SILENT_ROOMS or not path.is_file():
            continue
        for found in _messages(path):
            known = places.setdefault(found, [])
            if name not in known:
                known.append(name)
    plain = {found.message for found in places if not found.fields}
    return [
        Entry(found.message, places=tuple(files), flags=(FIELDS,) if found.fields else ())
        for found, files in places.items()
        if not (found.fields and found.message in plain)
    ]


def _messages(path: Path) -> Iterator[Found]:
    if path.suffix == ".py":
        yield from sentences(path.read_text(encoding="utf-8"))
    elif path.suffix == ".toml":
        yield from _data(tomllib.loads(path.read_text(encoding="utf-8")))
    elif path.suffix == ".html":
        for piece in pieces(path.read_text(encoding="utf-8")):
            yield Found(piece.message, fields=bool(piece.fields))


#: The keys of our TOML files whose text is shown: hints, known mistakes, titles.
_SHOWN = frozenset({"idea", "shapes", "steps", "title", "says", "about"})
_SHOWN_TABLES = frozenset({"reread", "titles"})


def _data(value: Any, shown: bool = False) -> Iterator[Found]:
    if isinstance(value, dict):
        for key, inner in value.items():
            table = isinstance(inner, dict)
            yield from _data(inner, key in _SHOWN_TABLES if table else shown or key in _SHOWN)
    elif isinstance(value, list):
        for inner in value:
            yield from _data(inner, False)
    elif isinstance(value, str) and shown:
        yield Found(value.strip())
