"""The stubs and notebooks on the student's disk: fresh ones, and a stub put back. Nothing is overwritten, ever."""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
from dataclasses import dataclass
from pathlib import Path

import autograder
from autograder.kit_mark import marked, marked_notebook
from autograder.track import Part, Track

#: More old versions of one file than this, and something is going wrong.
_MAX_KEPT = 10_000


class StubError(Exception):
    """The stubs are not there, or a file cannot be written. One sentence for people."""


@dataclass(frozen=True)
class Reset:
    """What putting a stub back did."""

    file: Path
    kept: Path | None  # where the old file is now; None when there was none, or it was the stub already
    changed: bool


def find_stubs(track: Track | None = None) -> Path:
    """Return the folder of a track's stubs: the checkout's, or the one packed with the kit. Raises StubError.

    Without a track: that of the gpt track.
    """
    inside, last = (track.folder, track.parts[-1].file) if track is not None else ("", "gpt.py")
    package = Path(autograder.__file__).resolve().parent
    for folder in (package.parent / "exercises", package / "_exercises"):
        if (folder / inside / last).is_file():
            return folder / inside
    raise StubError(f"The stubs did not come with this kit (looked beside and in {package}). Install it again.")


def start(track: Track, folder: Path) -> tuple[list[str], list[str]]:
    """Copy the stubs of `track` into `folder`; return the names written, and those left since they were there already.

    Raises StubError when a file cannot be written.
    """
    stubs = find_stubs(track)
    names = [*(part.file for part in track.every), *track.extras]
    return _copy({name: _stub(stubs, name) for name in names}, folder)


def start_notebooks(track: Track, folder: Path) -> tuple[list[str], list[str]]:
    """Copy the notebooks of `track` into `folder`, as `start` does the stubs. Raises StubError."""
    stubs = find_stubs(track)
    names = [part.file.removesuffix(".py") + ".ipynb" for part in track.every]
    return _copy({name: _stub(stubs / "notebooks", name) for name in names}, folder)


def _copy(texts: dict[str, bytes], folder: Path) -> tuple[list[str], list[str]]:
    written, there = [], []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, data in texts.items():
            try:
                with (folder / name).open("xb") as stream:
                    stream.write(data)
                written.append(name)
            except FileExistsError:
                there.append(name)
    except OSError as error:
        raise StubError(f"{error.filename or folder} cannot be written ({error.strerror}).") from error
    return written, there


def reset(track: Track, part: Part, folder: Path) -> Reset:
    """Put the stub of `part` back into `folder`; what was there is kept beside, under a name that was free.

    Raises StubError when that cannot be done; then everything is as it was.
    """
    file = folder / part.file
    data = _stub(find_stubs(track), part.file)
    try:
        if not os.path.lexists(file):
            if (folder / track.single_file).exists():
                raise StubError(f"Your work is in {track.single_file}, not in {part.file}: change it there by hand.")
            _write(file, data)
            return Reset(file, None, True)
        if not stat.S_ISREG(os.lstat(file).st_mode):
            raise StubError(f"{file} is not a plain file: it is left as it is. Move it away, then try again.")
        if file.read_bytes() == data:
            return Reset(file, None, False)
        kept = _keep(file)
        try:
            _write(file, data)
        except OSError:
            kept.unlink()
            raise
    except OSError as error:
        raise StubError(
            f"{error.filename or file} cannot be written ({error.strerror}). Nothing was changed."
        ) from error
    return Reset(file, kept, True)


def name_for_old(file: Path) -> Path:
    """Return where a reset would keep `file`: the first free name of attention.before-reset-1.txt, -2, ..."""
    for number in range(1, _MAX_KEPT):
        # Not .py: what is put aside must neither be handed in as a module nor be read by the grader.
        kept = file.with_name(f"{file.stem}.before-reset-{number}.txt")
        if not os.path.lexists(kept):
            return kept
    raise StubError(f"There are {_MAX_KEPT} old versions of {file.name} beside it: move some away.")


def _keep(file: Path) -> Path:
    """Give the file a second name that was free (or copy it, where disks have no links), and return it."""
    while True:
        kept = name_for_old(file)
        try:
            os.link(file, kept)  # what an editor may still write into the file is kept, too
            return kept
        except FileExistsError:
            continue
        except OSError:
            with contextlib.suppress(FileExistsError), kept.open("xb") as stream:
                stream.write(file.read_bytes())
                return kept


def _write(file: Path, data: bytes) -> None:
    """Replace `file` in one step: it is never half there."""
    descriptor, name = tempfile.mkstemp(prefix=".workshop-", suffix=".tmp", dir=file.parent)
    new = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(data)
        new.chmod(0o644)
        new.replace(file)
    except BaseException:
        with contextlib.suppress(OSError):
            new.unlink()
        raise


def _stub(stubs: Path, name: str) -> bytes:
    try:
        data = (stubs / name).read_bytes()
        return marked_notebook(data) if name.endswith(".ipynb") else marked(data)
    except OSError as error:
        raise StubError(f"There is no stub of {name} in {stubs} ({error.strerror}).") from error
