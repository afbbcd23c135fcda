"""`read_submission`: a folder, a source, a notebook or an archive in; a `Submission` out, whatever the student did."""

from __future__ import annotations

import hashlib
import os
import stat
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import autograder
from autograder.kit_mark import is_other, version_in
from autograder.submission import problems
from autograder.submission.archive import Archive
from autograder.submission.book import Book, read_book
from autograder.submission.choice import brought, covering_notebooks, defined, find_sources, uncovered
from autograder.submission.explain import explanation, line_number, not_utf8_warning, source_text
from autograder.submission.folder import Folder, read_regular, unreadable
from autograder.submission.limits import MAX_FILE, MAX_NOTEBOOK, MAX_SOURCE, MAX_TREE, MB, Refused, too_large
from autograder.submission.names import (
    Entry,
    Listing,
    optional_names,
    required_names,
    shown,
    student_id,
    suffix_of,
)
from autograder.submission.notebook import cell_of
from autograder.submission.repair import repaired
from autograder.submission.sieve import sift
from autograder.submission.syntax import Parser
from autograder.submission.tree import Submission
from autograder.track import Track
from autograder.verdict import Verdict

#: One report page of them; a tree of 2,000 oddities must not become one of 2,000 sentences.
_MAX_WARNINGS = 20


@dataclass
class _Draft:
    """A submission while it is read."""

    track: Track
    tree: dict[str, bytes] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    sources: dict[str, str] = field(default_factory=dict)
    lenient: set[str] = field(default_factory=set)
    shown_as: dict[str, str] = field(default_factory=dict)  # path in `tree` -> the student's own name for it
    warnings: list[str] = field(default_factory=list)
    repairs: list[str] = field(default_factory=list)
    suspicious: list[str] = field(default_factory=list)

    def record(self, path: str, data: bytes) -> None:
        self.files[path] = hashlib.sha256(data).hexdigest()


def read_submission(path: Path, track: Track, student: str | None = None) -> Submission:
    """Read one submission. Never raises for what a student may hand in: see `problem` and `verdict`.

    `path` itself may not be a link either, so that one hand-in of a class cannot stand for another: resolve a path
    that a person typed.
    """
    draft = _Draft(track)
    problem, verdict = "", None
    is_folder = False
    try:
        info = os.lstat(path)
        is_folder = stat.S_ISDIR(info.st_mode)
        _read(draft, path, info)
    except Refused as refusal:
        problem, verdict = refusal.sentence, refusal.verdict
    except FileNotFoundError:
        problem, verdict = f"There is nothing called {shown(path.name)}.", Verdict.NOT_ATTEMPTED
    except OSError as error:
        failure = unreadable(shown(path.name), error)
        problem, verdict = failure.sentence, failure.verdict
    if problem:
        draft.tree.clear()
        draft.sources.clear()
        draft.lenient.clear()
        draft.repairs.clear()
    explanations = _explain(draft)
    draft.warnings += _other_kits(draft)
    return Submission(
        student=student if student is not None else student_id(path.name, is_folder),
        origin=path,
        tree=dict(sorted(draft.tree.items())),
        files=dict(sorted(draft.files.items())),
        sources=draft.sources,
        lenient=frozenset(draft.lenient),
        shown_as={path: draft.shown_as[path] for path in sorted(draft.lenient)},
        warnings=_shortened(list(dict.fromkeys(draft.warnings))),
        repairs=_shortened(list(dict.fromkeys(draft.repairs))),
        explanations=explanations,
        problem=problem,
        verdict=verdict,
        suspicious=_shortened(draft.suspicious),
    )


def _read(draft: _Draft, path: Path, info: os.stat_result) -> None:
    name = student_id(path.name, is_folder=True)  # the whole name, as text
    if stat.S_ISLNK(info.st_mode):
        raise Refused(f"{shown(name)} is a link: hand in the file or folder itself.")
    if stat.S_ISDIR(info.st_mode):
        _from_listing(draft, _lone_archive(Folder(path)))
        return
    if not stat.S_ISREG(info.st_mode):
        raise Refused(f"{shown(name)} is not a regular file.")
    suffix = suffix_of(name)
    if suffix == ".py":
        _from_source(draft, name, read_regular(path, (), MAX_SOURCE))
    elif suffix == ".ipynb":
        _add_notebooks(draft, [_book(draft, shown(name), read_regular(path, (), MAX_NOTEBOOK))])
        _assign(draft)
    elif suffix:
        _from_listing(draft, Archive(read_regular(path, (), MAX_FILE), name))
    else:
        raise Refused(
            f"{shown(name)} is nothing that can be graded: submit {draft.track.single_file}, a notebook or a .zip.",
            Verdict.FAILED,
        )


def _lone_archive(folder: Folder) -> Listing:
    """Return what a folder holds, or what its one archive holds when there is no code beside it.

    Learning platforms save an upload so: a folder for each student, the archive in it.
    """
    files = [entry for entry in folder.entries if entry.kind == "file"]
    suffixes = {entry.path: suffix_of(entry.name) for entry in files}
    archives = [entry for entry in files if suffixes[entry.path] not in ("", ".py", ".ipynb") and len(entry.parts) == 1]
    if len(archives) != 1 or any(suffix in (".py", ".ipynb") for suffix in suffixes.values()):
        return folder
    return Archive(folder.read(archives[0], MAX_FILE), archives[0].name)


def _from_source(draft: _Draft, name: str, data: bytes) -> None:
    """A single file: it holds all classes, whatever it is called, unless it is the stub of one part."""
    track = draft.track
    own = {each for part in track.every if part.file == name for each in part.names}
    target = name if own and defined(track, source_text(data)) <= own else track.single_file
    draft.record(shown(name), data)
    draft.tree[target] = data
    draft.shown_as[target] = shown(name)
    _assign(draft)


def _from_listing(draft: _Draft, listing: Listing) -> None:
    track = draft.track
    draft.warnings += listing.warnings
    sifted = sift(listing, track)
    draft.warnings += sifted.warnings
    draft.suspicious += sifted.suspicious
    required = required_names(track)
    problems.refuse_irregular(listing.entries, required)
    for entry in sifted.sources:
        _add_source(draft, listing, entry, needed=entry.path in required)
    stubs = {path: source_text(draft.tree[path]) for path in required if path in draft.tree}
    if track.single_file not in stubs:
        _from_notebooks(draft, listing, sifted.notebooks, stubs)
    _optional_notebooks(draft, listing, sifted.notebooks)
    if not any(path in draft.tree for path in (*required, *optional_names(track))):
        texts = {path: source_text(data) for path, data in draft.tree.items() if "/" not in path}
        raise problems.nothing_to_grade(listing.entries, track, texts)
    draft.warnings += problems.misnamed(listing.entries, required, set(draft.tree))
    _assign(draft)


def _add_source(draft: _Draft, listing: Listing, entry: Entry, needed: bool) -> None:
    if entry.size > MAX_SOURCE and not needed:
        draft.warnings.append(f"{shown(entry.path)} is too large (at most {MAX_SOURCE // MB} MB): it is left out.")
        return
    data = listing.read(entry, MAX_SOURCE)
    if len(data) + sum(map(len, draft.tree.values())) > MAX_TREE:
        raise Refused(f"The Python files are too large together (at most {MAX_TREE // MB} MB).")
    draft.record(entry.path, data)
    draft.tree[entry.path] = data


def _from_notebooks(draft: _Draft, listing: Listing, entries: list[Entry], stubs: dict[str, str]) -> None:
    if not entries or not uncovered(draft.track, stubs):
        return
    if sum(entry.size for entry in entries) > MAX_NOTEBOOK:
        raise too_large(shown(entries[0].path) if len(entries) == 1 else "The notebooks together", MAX_NOTEBOOK)
    found: dict[str, Book] = {}
    failures: list[Refused] = []
    for entry in entries:
        try:
            found[entry.path] = _book(draft, entry.path, listing.read(entry, MAX_NOTEBOOK))
        except Refused as refusal:
            failures.append(refusal)
    parser = Parser()  # one for all: a thousand notebooks are not a thousand times the work
    texts = {name: repaired([book], draft.track, parser=parser).source for name, book in found.items()}
    chosen = covering_notebooks(draft.track, stubs, texts)
    if not chosen and not stubs:
        if failures:
            raise failures[0]
        raise problems.no_notebook_counts(list(found), draft.track)
    draft.warnings += [refusal.sentence for refusal in failures]
    draft.files = {path: sha for path, sha in draft.files.items() if path not in found or path in chosen}
    if chosen:
        _add_notebooks(draft, [found[name] for name in chosen])


def _optional_notebooks(draft: _Draft, listing: Listing, entries: list[Entry]) -> None:
    """Take tokenizer.ipynb as tokenizer.py, where there is none; one that does not read is told, and left out."""
    places = {entry.path: entry for entry in entries}
    for part in draft.track.optional:
        entry = places.get(part.file.removesuffix(".py") + ".ipynb")
        if entry is None or part.file in draft.tree or entry.size > MAX_NOTEBOOK:
            continue
        try:
            book = _book(draft, entry.path, listing.read(entry, MAX_NOTEBOOK))
        except Refused as refusal:
            draft.warnings.append(refusal.sentence)
            continue
        found = repaired([book], draft.track)
        data = found.source.encode("utf-8", "backslashreplace")
        if len(data) <= MAX_SOURCE and brought(part, source_text(data)):
            draft.tree[part.file] = data
            draft.lenient.add(part.file)
            draft.shown_as[part.file] = shown(entry.path)
            draft.repairs += found.repairs


def _book(draft: _Draft, name: str, data: bytes) -> Book:
    book = read_book(data, name)
    draft.record(name, data)
    return book


def _add_notebooks(draft: _Draft, books: list[Book]) -> None:
    target = draft.track.single_file
    # Notebooks of several parts import each other's classes; joined, they hold them.
    absent = {part.file.removesuffix(".py") for part in draft.track.parts if part.file not in draft.tree}
    found = repaired(books, draft.track, absent)
    data = found.source.encode("utf-8", "backslashreplace")
    names = ", ".join(book.name for book in books)
    if len(data) > MAX_SOURCE:
        raise too_large(f"The code in {shown(names)}", MAX_SOURCE)
    draft.tree[target] = data
    draft.lenient.add(target)
    draft.shown_as[target] = shown(names)
    draft.repairs += found.repairs


def _assign(draft: _Draft) -> None:
    names = {*required_names(draft.track), *optional_names(draft.track)}
    texts = {path: source_text(data) for path, data in draft.tree.items() if path in names}
    draft.sources = find_sources(draft.track, texts)
    single = draft.track.single_file
    for name in draft.track.classes:
        source = draft.sources.get(name, single)
        if source != single and name in defined(draft.track, texts.get(single, "")):
            draft.warnings.append(f"{name} is in {source} and in {single}: the one in {source} is graded.")


def _explain(draft: _Draft) -> dict[str, str]:
    """Look at the sources that count first, at helpers while the whole stays below what one person writes."""
    graded = set(draft.sources.values())
    explanations: dict[str, str] = {}
    budget = MAX_SOURCE
    for path, data in sorted(draft.tree.items(), key=lambda item: (item[0] not in graded, item[0])):
        budget -= len(data) if path not in graded else 0
        if budget < 0:
            break
        name = draft.shown_as.get(path, shown(path))
        where = partial(cell_of, source_text(data).split("\n")) if path in draft.lenient else line_number
        if sentence := explanation(name, data, where):
            explanations[path] = sentence
        if warning := not_utf8_warning(data, where):
            draft.warnings.append(warning if len(draft.tree) == 1 else f"{name}: {warning}")
    return explanations


def _other_kits(draft: _Draft) -> list[str]:
    """Return a sentence when exercises came from another version of this kit; it costs nothing."""
    begun: dict[str, list[str]] = {}
    for path in sorted({*draft.sources.values()} & draft.tree.keys()):
        version = version_in(draft.tree[path])
        if version is not None and is_other(version):
            begun.setdefault(version, []).append(draft.shown_as.get(path, shown(path)))
    mine = autograder.__version__
    return [
        f"{', '.join(names)} began in version {version} of this kit; this is {mine}. What was asked may differ."
        for version, names in begun.items()
    ]


def _shortened(sentences: list[str]) -> tuple[str, ...]:
    if len(sentences) <= _MAX_WARNINGS:
        return tuple(sentences)
    return (*sentences[: _MAX_WARNINGS - 1], f"... and {len(sentences) - _MAX_WARNINGS + 1} more like these.")
