"""`find_submissions`: one submission, a class folder or nbgrader's tree -> the students and where their work lies."""

from __future__ import annotations

import os
from pathlib import Path

from autograder.submission.choice import defined
from autograder.submission.explain import source_text
from autograder.submission.folder import read_regular
from autograder.submission.limits import MAX_SOURCE, Refused
from autograder.submission.names import composed, is_pruned, required_names, shown, student_id, suffix_of
from autograder.submission.problems import meant_name
from autograder.track import Track

_NBGRADER_FOLDER = "submitted"
_NBGRADER_STAMP = "timestamp.txt"  # nbgrader puts one beside each hand-in


class IntakeError(Exception):
    """There is nothing to grade under a path that the instructor gave. The message says what to do."""


def find_submissions(path: Path, track: Track) -> list[tuple[str, Path]]:
    """Return (student id, path) of every submission under `path`, sorted by id.

    A folder that directly holds a file which the track asks for, or one notebook, is one submission; one with
    sub-folders, archives or other sources is a class. No student of a class is dropped: a broken hand-in is listed,
    and `read_submission` says what is wrong. Raises IntakeError when there is nothing, or more than one assignment.
    """
    try:
        if not path.exists():
            raise IntakeError(f"There is no file or folder {path}: give a submission or a class folder.")
        path = path.resolve()  # the instructor may give a link; a student's own is never followed
        return _in_folder(path, track) if path.is_dir() else [(student_id(path.name, is_folder=False), path)]
    except OSError as error:
        raise IntakeError(f"{error.filename or path} cannot be read ({error.strerror}).") from error


def _in_folder(path: Path, track: Track) -> list[tuple[str, Path]]:
    items = _items(path)
    if not items:
        raise IntakeError(f"The folder {path} is empty: give a submission or a class folder.")
    if _is_one(items, track):
        return [(student_id(path.name, is_folder=True), path)]
    submitted = path / _NBGRADER_FOLDER
    if submitted.is_dir() and not submitted.is_symlink():
        return _numbered(_nbgrader(submitted, track))
    if path.name == _NBGRADER_FOLDER or _is_stamped(items):
        return _numbered(_nbgrader(path, track))
    members = [item for item in items if _is_member(item)]
    if not members:  # a README and nothing else: one submission that lacks its model.py
        return [(student_id(path.name, is_folder=True), path)]
    return _numbered([(student_id(item.name, _is_folder(item)), Path(item.path)) for item in members])


def _items(path: Path) -> list[os.DirEntry[str]]:
    with os.scandir(path) as items:
        return sorted((item for item in items if not is_pruned(item.name)), key=lambda item: item.name)


def _inside(item: os.DirEntry[str]) -> list[os.DirEntry[str]]:
    """Return what is in a student's folder, nothing where it cannot be read: the student is listed all the same."""
    try:
        return _items(Path(item.path)) if item.is_dir(follow_symlinks=False) else []
    except OSError:
        return []


def _is_folder(item: os.DirEntry[str]) -> bool:
    """Also a link to a folder: it is listed, though it will be refused."""
    return item.is_dir()


def _is_member(item: os.DirEntry[str]) -> bool:
    return _is_folder(item) or bool(suffix_of(item.name))


def _is_one(items: list[os.DirEntry[str]], track: Track) -> bool:
    required = {name.casefold() for name in required_names(track)}
    if any(meant_name(composed(item.name)) in required for item in items):  # of any kind: a pipe is refused later
        return True
    if sum(suffix_of(item.name) == ".ipynb" for item in items) != 1:
        return False
    # one notebook: a student's, unless what lies beside it is other students' work
    return not any(_is_hand_in(item, track) for item in items if suffix_of(item.name) != ".ipynb")


def _is_hand_in(item: os.DirEntry[str], track: Track) -> bool:
    if item.is_dir(follow_symlinks=False):
        names = required_names(track)
        return any(inner.name in names or suffix_of(inner.name) == ".ipynb" for inner in _inside(item))
    if suffix_of(item.name) != ".py":
        return bool(suffix_of(item.name))
    try:
        data = read_regular(Path(item.path), (), MAX_SOURCE)
    except Refused:
        return False
    return bool(defined(track, source_text(data)))


def _is_stamped(items: list[os.DirEntry[str]]) -> bool:
    assignments = [inner for item in items for inner in _inside(item) if inner.is_dir(follow_symlinks=False)]
    return any(os.path.lexists(Path(item.path) / _NBGRADER_STAMP) for item in assignments)


def _nbgrader(path: Path, track: Track) -> list[tuple[str, Path]]:
    """Unwrap submitted/<student>/<assignment>/. A student's folder that holds the work itself is taken as it is."""
    found: list[tuple[str, Path]] = []
    assignments: set[str] = set()
    for student in filter(_is_member, _items(path)):
        place, name = Path(student.path), student_id(student.name, _is_folder(student))
        inner = _inside(student)
        folders = [item for item in inner if _is_folder(item)]
        if not folders or _is_one(inner, track):
            found.append((name, place))
            continue
        assignments |= {item.name for item in folders}
        found += [(name, Path(item.path)) for item in folders]
    if len(assignments) > 1:
        names = ", ".join(map(shown, sorted(assignments)))
        raise IntakeError(
            f"{path} holds several assignments ({names}): copy the one to grade to a folder of its own, and give that."
        )
    if not found:
        raise IntakeError(f"There are no students in {path}.")
    return found


def _numbered(found: list[tuple[str, Path]]) -> list[tuple[str, Path]]:
    """Return `found` sorted by id, where an id that is taken gets a number: "ada", "ada (2)"."""
    ids = {name for name, _ in found}
    taken: set[str] = set()
    numbered: list[tuple[str, Path]] = []
    for name, place in sorted(found, key=lambda pair: (pair[0], str(pair[1]))):
        unique, count = name, 1
        while unique in taken or (count > 1 and unique in ids):
            count += 1
            unique = f"{name} ({count})"
        taken.add(unique)
        numbered.append((unique, place))
    return sorted(numbered, key=lambda pair: pair[0])
