"""What a reader sees of a message: its translation, found as a whole, by its pattern, or sentence by sentence."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path

from autograder.catalogue.po import Entry, read_po
from autograder.catalogue.template import Template

#: The environment variable that names the reader's language.
VARIABLE = "WORKSHOP_LANG"
Say = Callable[[str], str]

#: Longer text is an exception's, not a message of ours; it is shown as it is.
_LONGEST = 4000
#: A message holds another one in a field, which may hold a third one: "Two mistakes at once. A And: B".
_DEPTH = 4
#: More pieces than this are no message of ours either.
_MOST_PIECES = 40
#: What is remembered of a class's reports, in which the same sentences stand again and again.
_REMEMBERED = 5000
#: Where a text falls apart into messages, the strongest cut first.
_CUTS = tuple(re.compile(cut) for cut in (r"(\n+)", r"(?<=[.!?])( )(?=[^a-z])", r"(; )", r"(: )"))
_LETTER = re.compile(r"[^\W\d_]")


class CatalogueError(Exception):
    """A language cannot be read; the text says which one and what to do."""


@dataclass(frozen=True, eq=False)
class Catalogue:
    """The messages of one language. Without any it is English, and gives every text back untouched."""

    language: str = "en"
    exact: dict[str, str] = field(default_factory=dict, repr=False)
    anchored: dict[str, list[tuple[Template, Template]]] = field(default_factory=dict, repr=False)
    floating: list[tuple[Template, Template]] = field(default_factory=list, repr=False)
    _seen: dict[str, str] = field(default_factory=dict, repr=False, compare=False)

    def __bool__(self) -> bool:
        return bool(self.exact or self.anchored or self.floating)

    @classmethod
    def of(cls, language: str, entries: Iterable[Entry]) -> Catalogue:
        """Return the catalogue of these messages; those without a translation, or with a wrong one, stay English."""
        made = cls(language)
        for entry in entries:
            if not entry.message or not entry.usable:
                continue
            made.exact[entry.message] = entry.translation
            if not entry.has_fields or fault(entry):
                continue
            pair = Template.parse(entry.message), Template.parse(entry.translation)
            if pair[0].tells:
                first = pair[0].literals[0][:_KEY]
                (made.anchored.setdefault(first, []) if len(first) == _KEY else made.floating).append(pair)
        for pairs in (*made.anchored.values(), made.floating):
            pairs.sort(key=lambda pair: -pair[0].weight)
        return made

    def say(self, text: str) -> str:
        """Return `text` in this language as far as it is known, else as it is. Never fails, whatever `text` holds."""
        if not self or len(text) > _LONGEST:
            return text
        known = self._seen.get(text)
        if known is None:
            known = self._say(text, _DEPTH)
            if len(self._seen) < _REMEMBERED:
                self._seen[text] = known
        return known

    def _say(self, text: str, depth: int) -> str:
        if text in self.exact:
            return self.exact[text]
        if depth == 0 or not _LETTER.search(text):
            return text
        core = text.strip()
        if core != text:
            return text.replace(core, self._say(core, depth), 1)
        found = self._pattern(text)
        if found is not None:
            values, translation = found
            return translation.fill({name: self._say(value, depth - 1) for name, value in values.items()})
        for cut in _CUTS:
            pieces = cut.split(text, _MOST_PIECES)
            if len(pieces) > 2 * _MOST_PIECES:
                return text
            if len(pieces) > 1:
                said = "".join(self._say(piece, depth - 1) for piece in pieces)
                if said != text:
                    return said
        return text

    def _pattern(self, text: str) -> tuple[dict[str, str], Template] | None:
        """Return the heaviest template that fits, with what stands in its fields."""
        best: tuple[dict[str, str], Template] | None = None
        weight = -1
        for message, translation in self._candidates(text):
            if message.weight > weight and (values := message.match(text)) is not None:
                best, weight = (values, translation), message.weight
        return best

    def _candidates(self, text: str) -> Iterator[tuple[Template, Template]]:
        yield from self.anchored.get(text[:_KEY], ())
        yield from self.floating


#: So many letters at the beginning of a template find it; one that begins with a field, or sooner, is tried always.
_KEY = 4

ENGLISH = Catalogue()


def fault(entry: Entry) -> str:
    """Return what is wrong with a translation: a field that the message has and it lacks, or the reverse; else ""."""
    if not entry.has_fields or not entry.translation:
        return ""
    try:
        wanted, given = (set(Template.parse(text).fields) for text in (entry.message, entry.translation))
    except ValueError as error:
        return str(error)
    names = ", ".join(sorted(wanted ^ given))
    return f"these fields stand in one of message and translation alone: {names}" if names else ""


def of_environment() -> Catalogue:
    """Return the catalogue that $WORKSHOP_LANG names, English where it is not set. Raises CatalogueError."""
    return load(os.environ.get(VARIABLE, ""))


def languages() -> list[str]:
    """Return the languages that come with the kit, by their codes; English needs no file."""
    folder = resources.files("autograder.catalogue")
    return sorted(entry.name.removesuffix(".po") for entry in folder.iterdir() if entry.name.endswith(".po"))


def load(language: str) -> Catalogue:
    """Return the catalogue of a language: "de", or the path of a .po file of one's own. Raises CatalogueError.

    Nothing else decides: not the terminal's locale, nor the system's.
    """
    name = language.strip()
    if name.lower() in ("", "en"):
        return ENGLISH
    if name.endswith(".po"):
        try:
            text, code = Path(name).read_text(encoding="utf-8"), Path(name).stem
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
            raise CatalogueError(f"the language file {name} cannot be read: {why}.") from None
    else:
        code = name.lower()
        source = resources.files("autograder.catalogue") / f"{code}.po"
        if code not in languages():
            known = ", ".join(["en", *languages()])
            raise CatalogueError(f"there is no language {name!r}. There are: {known}; or name a .po file of your own.")
        text = source.read_text(encoding="utf-8")
    try:
        return Catalogue.of(code, read_po(text))
    except ValueError as error:
        raise CatalogueError(f"the language file {name} is damaged: {error}.") from None
