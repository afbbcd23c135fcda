"""The catalogue on the disk: messages.pot with all messages, and a .po for each language, current with the code."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from autograder.catalogue.gather import gather
from autograder.catalogue.po import Entry, read_po, write_po
from autograder.catalogue.speech import fault

ALL = "messages.pot"
_HEADER = "Content-Type: text/plain; charset=UTF-8\nContent-Transfer-Encoding: 8bit\n"
_INTRO = (
    "All messages of the workshop kit, found in its code and data: made by `workshop translate --remake`.",
    "A word in {braces} is a field: it stands in the translation, too, once or more, at any place.",
)
#: Where what students read comes from; the rest is for those who teach, build and run servers.
_FOR_STUDENTS = (
    *("checks/", "oracle/misconceptions.toml", "tracks/gpt", "probe/", "submission/", "watch/", "jupyter/"),
    *("grading.py", "hints.py", "progress.py", "stubs.py", "kit_mark.py", "reports/marks.py", "reports/terminal.py"),
    *("reports/progress.py", "reports/exhibits.py", "reports/matrix.py", "reports/bars.py", "reports/notebook.py"),
    *("reports/templates/student.html", "reports/templates/parts.html", "reports/templates/base.html"),
    *("reports/templates/notebook.html", "cli/student.py", "cli/watch.py", "cli/learner.py", "cli/folder.py"),
)


@dataclass(frozen=True)
class Coverage:
    """How much of a language is there: messages with a translation, of all, and of those that students read."""

    language: str
    done: int
    of: int
    done_for_students: int
    of_for_students: int


def is_for_students(entry: Entry) -> bool:
    return any(place.startswith(_FOR_STUDENTS) for place in entry.places)


def messages(package: Path) -> list[Entry]:
    """Return all messages: from messages.pot, or from the code where a kit comes without it."""
    path = package / "catalogue" / ALL
    if not path.is_file():
        return gather(package)
    return [entry for entry in read_po(path.read_text(encoding="utf-8")) if entry.message]


def template_text(entries: Iterable[Entry]) -> str:
    """Return what messages.pot holds."""
    return write_po(_HEADER, entries, _INTRO)


def updated(text: str, entries: Iterable[Entry], language: str) -> str:
    """Return a language's .po with these messages: its translations are kept, those of messages that are gone are not.

    Raises ValueError where `text` (a .po, or nothing) cannot be read.
    """
    known = {entry.message: entry for entry in read_po(text)}
    header = known[""].translation if "" in known else f"Language: {language}\n{_HEADER}"
    merged = []
    for entry in entries:
        old = known.get(entry.message)
        if old is not None:
            fuzzy = ("fuzzy",) if "fuzzy" in old.flags else ()
            entry = replace(entry, translation=old.translation, comments=old.comments, flags=(*fuzzy, *entry.flags))
        merged.append(entry)
    return write_po(header, merged, (f"The workshop kit in the language {language}.", _INTRO[1]))


def coverage(language: str, text: str, entries: Sequence[Entry]) -> Coverage:
    """Return how many of `entries` a .po translates. Raises ValueError where it cannot be read."""
    done = {entry.message for entry in read_po(text) if entry.usable and not fault(entry)}
    told = [entry for entry in entries if is_for_students(entry)]
    return Coverage(
        language,
        sum(entry.message in done for entry in entries),
        len(entries),
        sum(entry.message in done for entry in told),
        len(told),
    )


def faults(text: str) -> list[str]:
    """Return what is wrong with the translations of a .po, a line each. Raises ValueError where it cannot be read."""
    found = ((entry, fault(entry)) for entry in read_po(text))
    return [f"{entry.message[:60]!r}: {what}" for entry, what in found if what]


def stale(package: Path) -> list[str]:
    """Return the files of the catalogue that are not what the code says, and wrong translations, a line each."""
    entries = gather(package)
    folder = package / "catalogue"
    found = []
    path = folder / ALL
    if not path.is_file() or path.read_text(encoding="utf-8") != template_text(entries):
        found.append(f"stale: {path.name}")
    for each in sorted(folder.glob("*.po")):
        text = each.read_text(encoding="utf-8")
        if text != updated(text, entries, each.stem):
            found.append(f"stale: {each.name}")
        found += [f"{each.name}: {line}" for line in faults(text)]
    return found


def remake(package: Path) -> list[Path]:
    """Write messages.pot anew and bring every language up to date; return the files. Raises ValueError, OSError."""
    entries = gather(package)
    folder = package / "catalogue"
    texts = {folder / ALL: template_text(entries)}
    for each in sorted(folder.glob("*.po")):
        texts[each] = updated(each.read_text(encoding="utf-8"), entries, each.stem)
    for path, text in texts.items():
        path.write_text(text, encoding="utf-8", newline="\n")
    return list(texts)
