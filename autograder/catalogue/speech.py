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
_DEPTH = 6
#: More pieces than this are no message of ours either.
_MOST_PIECES = 40
#: So often one text is compared with the patterns; more readings has only a text that was made to have them.
_MOST_LOOKS = 300
#: What is remembered of a class's reports, in which the same sentences stand again and again.
_REMEMBERED = 5000
#: Where a text falls apart into messages, the strongest cut first.
#: A colon comes after what is said of all the rest, which may hold one, too.
_COLON = re.compile(r"(: )")
_CUTS = (
    re.compile(r"(\n+)"),
    re.compile(r"(?<=[.!?])( )(?=[^a-z])"),
    re.compile(r"(; )"),
    _COLON,
    re.compile(r"( )(?=\((?:and|line) )"),
    re.compile(r"(, )"),
)
#: A word of ours with a number: "batch row 4".
_COUNTED = re.compile(r"([A-Za-z][A-Za-z ]{0,40}) (\d[\d.,]*)")
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
            known = _Search(self).say(text, _DEPTH)[0]
            if len(self._seen) < _REMEMBERED:
                self._seen[text] = known
        return known


class _Search:
    """The search for what a text says: of several ways to read it, the one that translates most of it."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue
        self._left = _MOST_LOOKS
        self._found: dict[tuple[str, int], tuple[str, int]] = {}

    def say(self, text: str, depth: int) -> tuple[str, int]:
        """Return `text` translated, and how many of its letters were ours to translate."""
        if (text, depth) not in self._found:
            self._found[text, depth] = self._say(text, depth)
        return self._found[text, depth]

    def _say(self, text: str, depth: int) -> tuple[str, int]:
        exact = self._catalogue.exact
        if text in exact:
            return exact[text], _letters(text)
        if depth == 0 or self._left <= 0 or not _LETTER.search(text):
            return text, 0
        if text[-1] in ".:!" and text[:-1] in exact:
            return exact[text[:-1]] + text[-1], _letters(text)
        if f"{text}." in exact:  # its full stop comes at the end of what it is part of
            return exact[f"{text}."].removesuffix("."), _letters(text)
        core = text.strip()
        if core != text:
            said, weight = self.say(core, depth)
            return text.replace(core, said, 1), weight
        counted = _COUNTED.fullmatch(text)
        if counted is not None and counted[1] in exact:
            return f"{exact[counted[1]]} {counted[2]}", _letters(text)
        return max(self._readings(text, depth), key=lambda reading: reading[1])

    def _readings(self, text: str, depth: int) -> Iterator[tuple[str, int]]:
        yield text, 0
        self._left -= 1
        beginning, _, name = text.rpartition(" ")
        if " " in beginning and beginning in self._catalogue.exact:  # "an object of type dict"
            yield f"{self._catalogue.exact[beginning]} {name}", _letters(beginning)
        for pairs in (self._catalogue.anchored.get(text[:_KEY], ()), self._catalogue.floating):
            yield from self._pattern(text, pairs, depth)
        for cut in _CUTS:
            pieces = cut.split(text, 1 if cut is _COLON else _MOST_PIECES)
            if 1 < len(pieces) <= 2 * _MOST_PIECES:
                told = [self.say(piece, depth - 1) for piece in pieces]
                if cut is not _CUTS[-1] or _all_said(pieces, [said for said, _ in told]):
                    yield "".join(said for said, _ in told), sum(weight for _, weight in told)

    def _pattern(self, text: str, pairs: Iterable[tuple[Template, Template]], depth: int) -> Iterator[tuple[str, int]]:
        """Yield what the heaviest template that fits makes of `text`."""
        for message, translation in pairs:
            values = message.match(text)
            if values is not None:
                told = {name: self.say(value, depth - 1) for name, value in values.items()}
                said = translation.fill({name: value for name, (value, _) in told.items()})
                yield said, message.weight + sum(weight for _, weight in told.values())
                return


def _letters(text: str) -> int:
    return sum(character.isalpha() for character in text)


def _all_said(pieces: list[str], told: list[str]) -> bool:
    """Tell whether each item of a list is a message: else the commas are those of somebody's sentence."""
    return all(before != after for before, after in zip(pieces, told, strict=True) if _LETTER.search(before))


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
