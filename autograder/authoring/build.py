"""`build` and `stale`: write what solutions/ stands for into exercises/, or name what is out of date there."""

from __future__ import annotations

import ast
import json
import os
from dataclasses import dataclass
from pathlib import Path

from autograder.authoring.colab import repository, with_colab
from autograder.authoring.notebooks import Prose, notebook_text, read_prose
from autograder.authoring.regions import AuthoringError, stub_text
from autograder.submission.book import read_book
from autograder.submission.limits import Refused
from autograder.submission.notebook import to_python
from autograder.track import Part, Track


@dataclass(frozen=True)
class Change:
    """One output that is not what its source says."""

    file: Path
    what: str  # "missing", "stale", "left over"
    kept: Path | None = None  # where somebody's work that was in the file is now


@dataclass(frozen=True)
class Source:
    """The source of one part."""

    part: Part
    solution: str
    stub: str
    prose: Prose

    def notebook(self, track: Track, text: str) -> str:
        return notebook_text(track, self.part, text, self.prose, f"solutions/{_inside(track)}{self.part.file}")


def outputs(root: Path, track: Track) -> dict[Path, str]:
    """Return every generated file below `root` with its text. Raises AuthoringError; writes nothing."""
    found: dict[Path, str] = {}
    for source in sources(root, track):
        inside = f"exercises/{_inside(track)}"
        found[root / inside / source.part.file] = source.stub
        book = f"{inside}notebooks/{book_name(source.part)}"
        found[root / book] = with_colab(source.notebook(track, source.stub), book, repository(root))
    for name in track.extras:
        solution = _text(root / "solutions" / track.folder / name)
        _must_parse(solution, _inside(track) + name)
        found[root / "exercises" / track.folder / name] = stub_text(solution, f"solutions/{_inside(track)}{name}")
    return found


def solved_notebooks(root: Path, track: Track) -> dict[str, str]:
    """Return the notebooks with our answers in the place of the stubs, by name. Raises AuthoringError."""
    return {book_name(source.part): source.notebook(track, source.solution) for source in sources(root, track)}


def book_name(part: Part) -> str:
    """Return the name of a part's notebook: attention.ipynb."""
    return part.file.removesuffix(".py") + ".ipynb"


def stale(root: Path, track: Track) -> list[Change]:
    """Return what `build` would write, and what lies among the notebooks without a source. Raises AuthoringError."""
    wanted = outputs(root, track)
    changes = []
    for file, text in wanted.items():
        if not os.path.lexists(file):
            changes.append(Change(file, "missing"))
        elif _read(file) != text:
            changes.append(Change(file, "stale"))
    books = sorted((root / "exercises" / track.folder / "notebooks").glob("*.ipynb"))
    return changes + [Change(file, "left over") for file in books if file not in wanted]


def build(root: Path, track: Track) -> list[Change]:
    """Write what is missing or stale, and return it with what is left over. Raises AuthoringError.

    A file that somebody has worked in is kept beside the new one.
    """
    wanted = outputs(root, track)
    done = []
    for change in stale(root, track):
        kept = None
        if change.what != "left over":
            kept = _keep(change.file) if change.what == "stale" and _holds_work(change.file) else None
            write_text(change.file, wanted[change.file])
        done.append(Change(change.file, change.what, kept))
    return done


def write_text(file: Path, text: str) -> None:
    """Replace `file` in one step. Raises AuthoringError when it cannot be written."""
    new = file.with_name(f".{file.name}.tmp")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        new.write_text(text, encoding="utf-8", newline="\n")
        new.replace(file)
    except OSError as error:
        raise AuthoringError(f"{file} cannot be written ({error.strerror}).") from error


def sources(root: Path, track: Track) -> list[Source]:
    """Return the source of each part, in course order. Raises AuthoringError."""
    folder = root / "solutions" / track.folder
    found = []
    for part in track.every:
        page = part.file.removesuffix(".py") + ".md"
        solution, prose = _text(folder / part.file), _text(folder / page)
        _must_parse(solution, _inside(track) + part.file)
        stub = stub_text(solution, f"solutions/{_inside(track)}{part.file}")
        found.append(Source(part, solution, stub, read_prose(prose, f"solutions/{_inside(track)}{page}")))
    return found


def _inside(track: Track) -> str:
    """Return the path of the track's files below solutions/ as it stands before a file's name."""
    return f"{track.folder}/" if track.folder else ""


def _must_parse(solution: str, file: str) -> None:
    try:
        ast.parse(solution)
    except SyntaxError as error:
        raise AuthoringError(f"solutions/{file}, line {error.lineno}: not Python ({error.msg}).") from error


def _text(file: Path) -> str:
    """Return the text of a source. Raises AuthoringError when there is none."""
    text = _read(file)
    if text is None:
        raise AuthoringError(f"{file} is not there, or no UTF-8 text: run this in the course's checkout.")
    return text


def _read(file: Path) -> str | None:
    try:
        return file.read_bytes().decode("utf-8")
    except (OSError, UnicodeDecodeError):
        return None


def _keep(file: Path) -> Path:
    number = 1
    while os.path.lexists(kept := file.with_name(f"{file.stem}.before-build-{number}.txt")):
        number += 1
    try:
        kept.write_bytes(file.read_bytes())
    except OSError as error:
        raise AuthoringError(f"{file} holds somebody's work, which cannot be kept ({error.strerror}).") from error
    return kept


def _holds_work(file: Path) -> bool:
    """Tell whether something was written into a generated file: a method that is no stub, a field, an output."""
    try:
        data = file.read_bytes()
        if file.suffix == ".ipynb":
            book = json.loads(data)
            if any(cell.get("outputs") for cell in book["cells"]):
                return True
            text = to_python([cell.text for cell in read_book(data, file.name).cells if cell.kind == "code"])
        else:
            text = data.decode("utf-8")
        body = ast.parse(text).body
        classes = [node for node in body if isinstance(node, ast.ClassDef)]
        functions = [node for node in body if isinstance(node, ast.FunctionDef)]
    except (OSError, ValueError, SyntaxError, KeyError, TypeError, AttributeError, Refused):
        return True  # nothing that we have written
    return any(_written(node) for node in [*functions, *(node for each in classes for node in each.body)])


def _written(node: ast.stmt) -> bool:
    if isinstance(node, ast.FunctionDef):
        return "is still to be written" not in ast.unparse(node.body[-1])
    return isinstance(node, ast.Assign | ast.AnnAssign)
