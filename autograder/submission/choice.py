"""Which file is graded for which class: read off the text, since a file that does not parse has its place too."""

from __future__ import annotations

import re
from collections.abc import Mapping

from autograder.track import Part, Track


def defined(track: Track, text: str) -> set[str]:
    """Return the track's classes for which `text` has a `class NAME` statement."""
    return {name for name in track.classes if re.search(rf"^[ \t]*class[ \t]+{re.escape(name)}\b", text, re.MULTILINE)}


def brought(part: Part, text: str) -> set[str]:
    """Return the names of an optional part that `text` defines at its top level, assigns or imports there."""

    def brings(name: str) -> bool:
        word = re.escape(name)
        definition = rf"(?:class|(?:async[ \t]+)?def)[ \t]+{word}\b"
        found = re.search(rf"^(?:{definition}|{word}[ \t]*=(?!=)|(?:from|import)\b.*\b{word}\b)", text, re.MULTILINE)
        return found is not None

    return {name for name in part.names if brings(name)}


def mentioned(track: Track, text: str) -> set[str]:
    """Return the track's classes that `text` defines, assigns or imports."""

    def brings(name: str) -> bool:
        word = re.escape(name)
        by_assignment = rf"{word}[ \t]*(?::[^=\n]*)?=(?!=)"
        by_import = rf"(?:from|import)\b[^\n]*\b{word}\b"
        in_import_list = rf"(?:\w+[ \t]+as[ \t]+)?{word}[ \t]*(?:[,)]|$)"  # a line of `from x import (`
        found = re.search(rf"^[ \t]*(?:{by_assignment}|{by_import}|{in_import_list})", text, re.MULTILINE)
        return found is not None

    return defined(track, text) | {name for name in track.classes if brings(name)}


def find_sources(track: Track, texts: Mapping[str, str]) -> dict[str, str]:
    """Return class -> file, out of `texts` (path -> text of each file that the track names).

    The part's own stub if the class is in it, else the single file, else another stub that defines the class (many
    keep everything in gpt.py), else the stub that should have it. Classes without any file are left out. The names of
    an optional part are in its own file, or all in the single file or in another that defines one of them.
    """
    optional = {part.file for part in track.optional}
    every, texts = texts, {path: text for path, text in texts.items() if path not in optional}
    sources: dict[str, str] = {}
    for part in track.parts:
        name = part.class_name
        elsewhere = next((path for path, text in texts.items() if name in defined(track, text)), None)
        if name in mentioned(track, texts.get(part.file, "")):
            sources[name] = part.file
        elif track.single_file in texts:
            sources[name] = track.single_file
        elif elsewhere is not None:
            sources[name] = elsewhere
        elif part.file in texts:
            sources[name] = part.file
    for part in track.optional:
        places = [part.file, track.single_file, *texts]
        found = next((path for path in places if brought(part, every.get(path, ""))), None)
        if found is None and part.file in every:
            found = part.file
        sources |= dict.fromkeys(part.names if found is not None else (), found or "")
    return sources


def uncovered(track: Track, texts: Mapping[str, str]) -> set[str]:
    """Return the classes that are in none of `texts`: not in their own stub, and not defined in another."""
    found = {part.class_name for part in track.parts if part.class_name in mentioned(track, texts.get(part.file, ""))}
    return set(track.classes) - found - {name for text in texts.values() for name in defined(track, text)}


def covering_notebooks(track: Track, stubs: Mapping[str, str], notebooks: Mapping[str, str]) -> list[str]:
    """Return the notebooks (name -> code) that are graded: those that bring a class which the stubs lack.

    A notebook that defines classes goes before one that only imports them. A lone notebook counts in any case.
    """
    missing = uncovered(track, stubs)
    for brings in (defined, mentioned):
        chosen = [name for name, text in notebooks.items() if brings(track, text) & missing]
        if chosen:
            return chosen
    return list(notebooks) if len(notebooks) == 1 and not stubs else []
