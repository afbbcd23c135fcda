"""What of a listing goes to the student's process: sources and notebooks; what is left out, and why."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import PurePosixPath

from autograder.submission.names import (
    COMPILED_SUFFIXES,
    SHADOWED,
    STARTUP_STEMS,
    Entry,
    Listing,
    is_plain,
    required_names,
    shown,
)
from autograder.track import Track

_MAX_LISTED = 5  # names in one sentence
#: What `workshop check` and `watch` leave in a student's folder: nothing to warn of.
_OWN_FILES = ".workshop-progress"


@dataclass
class Sifted:
    """The entries that count, and sentences about those that do not."""

    sources: list[Entry] = field(default_factory=list)
    notebooks: list[Entry] = field(default_factory=list)  # at the top only
    warnings: list[str] = field(default_factory=list)
    suspicious: list[str] = field(default_factory=list)


def sift(listing: Listing, track: Track) -> Sifted:
    """Sort out the entries of `listing`. Names that the track asks for always count."""
    required = set(required_names(track))
    sifted = Sifted()
    left_out = [path for path in listing.pruned if not PurePosixPath(path).name.startswith(_OWN_FILES)]
    taken: set[str] = set()
    for entry in sorted(listing.entries, key=lambda entry: _order(entry, required)):
        if entry.path in required:
            if entry.kind == "file":
                sifted.sources.append(entry)
                taken.add(entry.path.casefold())
        elif sentence := _unwelcome(entry):
            sifted.warnings.append(sentence)
            if _runs_at_startup(entry):
                sifted.suspicious.append(sentence)
        elif entry.name.endswith(COMPILED_SUFFIXES):
            left_out.append(entry.path)
        elif entry.kind == "file" and entry.name.lower().endswith(".ipynb") and len(entry.parts) == 1:
            sifted.notebooks.append(entry)
        elif entry.kind == "file" and entry.name.endswith(".py"):
            if sentence := _collision(entry, taken):
                sifted.warnings.append(sentence)
            else:
                sifted.sources.append(entry)
                taken.add(entry.path.casefold())
    if left_out:
        more = f" and {len(left_out) - _MAX_LISTED} more" if len(left_out) > _MAX_LISTED else ""
        names = ", ".join(shown(path) for path in sorted(left_out)[:_MAX_LISTED])
        sifted.warnings.append(f"Left out, since it is no part of the answer: {names}{more}.")
    sifted.warnings = list(dict.fromkeys(sifted.warnings))
    sifted.suspicious = list(dict.fromkeys(sifted.suspicious))
    return sifted


def _order(entry: Entry, required: set[str]) -> tuple[bool, list[str], tuple[str, ...]]:
    """Names that the track asks for first, a file before what pretends to be inside it, whatever their case."""
    return entry.path not in required, [part.casefold() for part in entry.parts], entry.parts


def _runs_at_startup(entry: Entry) -> bool:
    stems = {entry.parts[0].split(".")[0], entry.name.split(".")[0]}
    return entry.kind != "folder" and (bool(stems & STARTUP_STEMS) or entry.name.endswith(".pth"))


def _unwelcome(entry: Entry) -> str:
    """Return why a file must not get beside the student's sources, or ""."""
    name = shown(entry.path)
    top = entry.parts[0].removesuffix(".py") if len(entry.parts) == 1 else entry.parts[0]
    if _runs_at_startup(entry):
        return f"The submission brings its own {name}, which only serves to run code before the grader."
    if entry.name == "conftest.py":
        return f"The submission brings its own {name}: it is left out."
    if entry.kind in ("link", "link out"):
        return f"{name} is a link: it is not followed."
    if entry.kind == "special":
        return f"{name} is not a regular file: it is left out."
    if entry.kind == "file" and entry.name.endswith(".py") and top in SHADOWED:
        what = shown(entry.parts[0])
        return f"{what} is left out: it would take the place of the module {top}."
    if entry.kind == "file" and entry.name.endswith((".py", ".ipynb")) and not all(map(is_plain, entry.parts)):
        return f"{name} is left out: its name cannot be used everywhere."
    return ""


def _collision(entry: Entry, taken: set[str]) -> str:
    """Return why `entry` cannot be written beside what is taken (also where upper and lower case are one), or ""."""
    folded = entry.path.casefold()
    steps = folded.split("/")
    if any("/".join(steps[:count]) in taken for count in range(1, len(steps) + 1)):
        return f"{shown(entry.path)} is left out: another file has the same name."
    return ""
