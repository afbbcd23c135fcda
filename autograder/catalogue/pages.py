"""The text in our HTML templates, found and replaced in their source, so that showing it is no work."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

#: What parts the text of a page: a tag, a statement, a comment, our styles and scripts.
_BORDER = re.compile(
    r"<!--.*?-->|<(?:style|script)\b.*?</(?:style|script)>|\{#.*?#\}|\{%.*?%\}|</?[a-zA-Z!](?:\{\{.*?\}\}|\{%.*?%\}|\"[^\"]*\"|[^>\"])*>",
    re.DOTALL,
)
#: Attributes that are read aloud or shown.
_ATTRIBUTE = re.compile(r'\b(?:aria-label|title|alt)="([^"]*)"')
_EXPRESSION = re.compile(r"\{\{\s*(.*?)\s*\}\}", re.DOTALL)
#: A string inside of an expression or statement that is shown: one with a space, or a heading.
_QUOTED = re.compile(r"\"([^\"{}|]*[a-z][^\"{}|]* [^\"{}|]*)\"|(?<=head\()\"([^\"]+)\"")
#: What begins or ends something other than text.
_ACTIVE = re.compile(r"[<>\"]|\{[{%#]|[}%#]\}")
_WORD = re.compile(r"[A-Za-z]{2,}")


@dataclass(frozen=True)
class Piece:
    """Text between two places of a template; its expressions are fields."""

    start: int
    end: int
    message: str
    fields: dict[str, str]  # name -> the expression, with its braces


def pieces(source: str) -> Iterator[Piece]:
    """Yield the messages of a template, in its order."""
    at = 0
    for border in _BORDER.finditer(source):
        yield from _text(source, at, border.start())
        inside = border[0]
        if not inside.startswith(("<style", "<script", "<!", "{#")):
            for found in _ATTRIBUTE.finditer(inside):
                yield from _text(source, border.start() + found.start(1), border.start() + found.end(1))
            if inside.startswith("{%"):
                yield from _strings(inside, border.start())
        at = border.end()
    yield from _text(source, at, len(source))


def translated(source: str, say: Callable[[str], str]) -> str:
    """Return a template whose text went through `say` (message to message, {fields} kept)."""
    out, at = [], 0
    for piece in sorted(pieces(source), key=lambda piece: piece.start):
        if piece.start < at:
            continue
        text = say(piece.message)
        if _ACTIVE.findall(text) != _ACTIVE.findall(piece.message):
            text = piece.message  # a translation is text: it adds no tag, no attribute and no statement to a page
        for name, expression in piece.fields.items():
            text = text.replace(f"{{{name}}}", expression)
        out += [source[at : piece.start], text]
        at = piece.end
    return "".join([*out, source[at:]])


def _text(source: str, start: int, end: int) -> Iterator[Piece]:
    raw = source[start:end]
    core = raw.strip()
    fields: dict[str, str] = {}

    def named(found: re.Match[str]) -> str:
        words = re.findall(r"[a-z_]{2,}", re.sub(r"\"[^\"]*\"|'[^']*'| or | else .*", "", found[1].split("|")[0]))
        base = words[-1] if words else "value"
        name, number = base, 1
        while fields.get(name, found[0]) != found[0]:
            number += 1
            name = f"{base}_{number}"
        fields[name] = found[0]
        return f"{{{name}}}"

    message = " ".join(_EXPRESSION.sub(named, core).split())
    if _WORD.search(re.sub(r"\{\w+\}", "", message)) and not re.search(r"[{}]{2}|%\}", message):
        first = start + raw.index(core)
        yield Piece(first, first + len(core), message, fields)
        return
    for found in _EXPRESSION.finditer(raw):
        yield from _strings(found[0], start + found.start())


def _strings(code: str, start: int) -> Iterator[Piece]:
    for found in _QUOTED.finditer(code):
        group = 1 if found[1] is not None else 2
        yield Piece(start + found.start(group), start + found.end(group), found[group], {})
