"""A language made from English: every message in brackets, its words with accents, its fields as they are."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import autograder
from autograder.catalogue import Catalogue
from autograder.catalogue.gather import gather
from autograder.catalogue.po import Entry

_ACCENTS = str.maketrans("aeiouAEIOU", "áéíóúÁÉÍÓÚ")
_FIELD = re.compile(r"(\{\w+\})")
#: Words that stay in any language: names of code, formulas, quoted text, paths, numbers.
_NAME = re.compile(r"workshop \w+|`[^`]*`|\"[^\"]*\"|'[^']*'|\S*[._(\[/=\\<>*0-9]\S*|--?\w+|\b[A-Z]\w*[A-Z]\w*\b")
_EXCEPTION = re.compile(r"(ráísés \w+(?: ⟦?\(líné .*?\)⟧?)?:).*", re.DOTALL)
#: Two plain English words in a row: nobody has translated that.
_PLAIN = re.compile(r"\b[a-z]{2,}[,:;]? [a-z]{2,}\b")
#: Such words that hold no letter which takes an accent, or are no English.
_SILENT = re.compile(r"\b(?:by|my|try|why|torch|nn|[b-df-hj-np-tv-z]+)\b")


def pseudo() -> Catalogue:
    """Return the catalogue of the pseudo-language, made from the code as it is."""
    entries = gather(Path(autograder.__file__).resolve().parent)
    return Catalogue.of("pseudo", [replace(entry, translation=dressed(entry)) for entry in entries])


def dressed(entry: Entry) -> str:
    """Return a message as the pseudo-language says it."""
    if not entry.has_fields:
        return f"⟦{entry.message.translate(_ACCENTS)}⟧"
    pieces = [each if _FIELD.fullmatch(each) else each.translate(_ACCENTS) for each in _FIELD.split(entry.message)]
    return f"⟦{''.join(pieces)}⟧"


def plain_english(text: str) -> str:
    """Return what of `text` is still in plain English, two words or more; "" where nothing is.

    What Python itself says of an exception stays as it is in every language.
    """
    text = _EXCEPTION.sub(r"\1", text)
    bare = _SILENT.sub("", _NAME.sub(" · ", text))
    found = _PLAIN.search(bare)
    return found[0] if found else ""
