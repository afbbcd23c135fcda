"""A message with named fields: read from "Position {i} sees {j}", found again in finished text, filled anew."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

_PIECE = re.compile(r"\{\{|\}\}|\{([A-Za-z_]\w*)\}|[{}]")
#: Letters that the literal pieces of a template hold at least, so that it is looked for in text: fewer fit anything.
_LETTERS_ANCHORED, _LETTERS_FLOATING = 4, 5


def word(text: str) -> str:
    """Return `text`: marks a single word as one that people read. Sentences the catalogue finds by itself."""
    return text


@dataclass(frozen=True)
class Template:
    """Literal pieces with fields between them: `literals` has one more than `fields`."""

    literals: tuple[str, ...]
    fields: tuple[str, ...]

    @classmethod
    def parse(cls, message: str) -> Template:
        """Read a message in which {name} is a field, and {{ and }} are braces. Raises ValueError on a lone brace."""
        literals, fields, at = [""], [], 0
        for found in _PIECE.finditer(message):
            literals[-1] += message[at : found.start()]
            at = found.end()
            if found[1]:
                fields.append(found[1])
                literals.append("")
            elif found[0] in ("{{", "}}"):
                literals[-1] += found[0][0]
            else:
                raise ValueError(f"a brace that is no field: {message[:60]!r}")
        literals[-1] += message[at:]
        return cls(tuple(literals), tuple(fields))

    @cached_property
    def weight(self) -> int:
        """How much of it is fixed, in letters: of two templates that fit, the heavier says more."""
        return sum(character.isalpha() for literal in self.literals for character in literal)

    @property
    def tells(self) -> bool:
        """Whether it is fixed enough to be looked for in finished text."""
        anchored = any(character.isalpha() for character in self.literals[0] + self.literals[-1])
        return self.weight >= (_LETTERS_ANCHORED if anchored else _LETTERS_FLOATING)

    def match(self, text: str) -> dict[str, str] | None:
        """Return what stands in the place of each field, or None where `text` is not this message.

        The pieces are sought from left to right, each at its first place: the time grows with the length of `text`
        alone, whatever it holds.
        """
        first, *inner = self.literals
        last = inner.pop() if inner else ""
        if not inner and not self.fields:
            return {} if text == first else None
        start, end = len(first), len(text) - len(last)
        if start > end or not text.startswith(first) or not text.endswith(last):
            return None
        values: dict[str, str] = {}
        for name, literal in zip(self.fields, [*inner, None], strict=True):
            at = end if literal is None else text.find(literal, start, end)
            if at < 0:
                return None
            value = text[start:at]
            if values.setdefault(name, value) != value:
                return None
            start = at + len(literal or "")
        return values

    def fill(self, values: Mapping[str, str]) -> str:
        """Return the message with `values` in the places of the fields."""
        pieces = [self.literals[0]]
        for name, literal in zip(self.fields, self.literals[1:], strict=True):
            pieces += [values[name], literal]
        return "".join(pieces)
