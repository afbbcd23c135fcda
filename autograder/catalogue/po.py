"""The .po files of GNU gettext as far as a catalogue needs them: messages, translations, places, flags."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from dataclasses import dataclass

#: The flag of a message with {fields}.
FIELDS = "python-brace-format"
_WIDE = 100
#: What no editor shows, or takes for the end of a line.
_UNSEEN = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_STRING = re.compile(r'^(msgctxt|msgid|msgid_plural|msgstr)?\s*("(?:[^"\\]|\\.)*")\s*$')


@dataclass(frozen=True)
class Entry:
    """One message; `translation` is empty where there is none yet."""

    message: str
    translation: str = ""
    places: tuple[str, ...] = ()  # files in which it stands
    flags: tuple[str, ...] = ()
    comments: tuple[str, ...] = ()  # a translator's own

    @property
    def has_fields(self) -> bool:
        return FIELDS in self.flags

    @property
    def usable(self) -> bool:
        """Whether there is a translation that somebody stands for: a fuzzy one is a guess of a tool."""
        return bool(self.translation) and "fuzzy" not in self.flags


def read_po(text: str) -> list[Entry]:
    """Read a .po or .pot file; the header is the entry with the empty message. Raises ValueError with the line.

    Plural forms and contexts are not read: the kit's messages have none.
    """
    entries: list[Entry] = []
    block: dict[str, list[str]] = {}
    state = ""
    for number, line in enumerate([*text.split("\n"), ""], 1):
        stripped = line.strip()
        if not stripped or (stripped.startswith("#") and "msgstr" in block):
            if "msgid" in block:
                entries.append(_entry(block))
            block, state = ({}, "")
            if not stripped:
                continue
        if stripped.startswith("#~"):
            continue
        if stripped.startswith("#"):
            kind = stripped[:2] if stripped[1:2] in (":", ",", ".", "|") else "#"
            block.setdefault(kind, []).append(stripped[len(kind) :].strip())
            continue
        found = _STRING.match(stripped)
        if found is None or not (found[1] or state) or found[1] in ("msgctxt", "msgid_plural"):
            raise ValueError(f"line {number} is not what the kit reads: {stripped[:60]}")
        state = found[1] or state
        try:
            block.setdefault(state, []).append(ast.literal_eval(found[2]))
        except (SyntaxError, ValueError):
            raise ValueError(f"line {number} is no string: {stripped[:60]}") from None
    return entries


def write_po(header: str, entries: Iterable[Entry], intro: Iterable[str] = ()) -> str:
    """Return the text of a .po file: `intro` as comments, the header, then each message with its places and flags."""
    blocks = ["".join(f"# {line}".rstrip() + "\n" for line in intro) + f'msgid ""\nmsgstr {_quoted(header)}\n']
    for entry in entries:
        lines = [f"# {comment}".rstrip() for comment in entry.comments]
        lines += [f"#: {' '.join(entry.places)}"] if entry.places else []
        lines += [f"#, {', '.join(entry.flags)}"] if entry.flags else []
        lines += [f"msgid {_quoted(entry.message)}", f"msgstr {_quoted(entry.translation)}"]
        blocks.append("\n".join(lines) + "\n")
    return "\n".join(blocks)


def _entry(block: dict[str, list[str]]) -> Entry:
    return Entry(
        message="".join(block["msgid"]),
        translation="".join(block.get("msgstr", [])),
        places=tuple(" ".join(block.get("#:", [])).split()),
        flags=tuple(flag.strip() for flag in ",".join(block.get("#,", [])).split(",") if flag.strip()),
        comments=tuple(block.get("#", [])),
    )


def _quoted(text: str) -> str:
    """Return `text` as gettext writes it: one line, or an empty one and then pieces that end at a break or a space."""
    pieces = [piece for line in re.findall(r"[^\n]*\n|[^\n]+", text) for piece in _wrapped(line)]
    if len(pieces) <= 1:
        return _escaped(text)
    return "\n".join(['""', *map(_escaped, pieces)])


def _wrapped(line: str) -> list[str]:
    pieces = [""]
    for word in re.findall(r"\S*\s*", line):
        if pieces[-1] and len(pieces[-1]) + len(word) > _WIDE:
            pieces.append("")
        pieces[-1] += word
    return [piece for piece in pieces if piece]


def _escaped(text: str) -> str:
    for plain, written in (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("\t", "\\t")):
        text = text.replace(plain, written)
    return f'"{_UNSEEN.sub(_as_number, text)}"'


def _as_number(found: re.Match[str]) -> str:
    code = ord(found[0])
    return "\\b" if found[0] == "\b" else f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
