"""The submission that a running notebook stands for: its own definitions, and the other parts from beside it."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

from autograder.jupyter.cells import definitions, saved
from autograder.jupyter.splitting import split
from autograder.submission import Submission, read_submission
from autograder.submission.choice import brought, defined
from autograder.submission.limits import Refused
from autograder.track import Part, Track

STUDENT = "this notebook"


@dataclass(frozen=True)
class Gathered:
    """What there is to grade. `places` says for each class that was found where: "this notebook", "mlp.ipynb"."""

    submission: Submission
    places: dict[str, str]
    notices: tuple[str, ...] = ()


def gather(track: Track, cells: list[str], folder: Path) -> Gathered:
    """Read the classes of `cells` (run in this notebook, oldest first), and those that it lacks from `folder`.

    There, PART.ipynb as it was last saved goes before PART.py. Nothing of it is run, and nothing is written there.
    """
    own = definitions(cells)
    mine = defined(track, own)
    for part in track.optional:
        mine |= brought(part, own)
    files: dict[str, bytes] = {}
    lenient: set[str] = set()
    places = dict.fromkeys((name for part in track.every for name in part.names if name in mine), STUDENT)
    notices: list[str] = []
    for part in track.every:
        if mine.intersection(part.names):
            continue
        try:
            found = beside(part, folder, track)
        except (OSError, Refused) as error:
            notices.append(error.sentence if isinstance(error, Refused) else f"{part.name}: {error.strerror}.")
            continue
        if found is not None:
            path, data, repairs = found
            notices += repairs
            files[part.file] = data
            places |= dict.fromkeys(part.names, path.name)
            if path.suffix == ".ipynb":
                lenient.add(part.file)
    one = [part for part in track.every if mine.intersection(part.names)]
    target = one[0].file if len(one) == 1 else track.single_file
    texts = {target: own} if mine else {}
    if len(one) > 1 and files:  # the other parts import these by the names of their files
        texts = split(own, one, track)
    files |= {file: text.encode("utf-8", "backslashreplace") for file, text in texts.items()}
    lenient |= texts.keys()
    with tempfile.TemporaryDirectory(prefix="workshop-") as place:
        for name, data in files.items():
            (Path(place) / name).write_bytes(data)
        submission = read_submission(Path(place).resolve(), track, STUDENT)
    books = {part.file: places[part.class_name] for part in track.parts if part.file in lenient - texts.keys()}
    shown_as = books | dict.fromkeys(texts, STUDENT)
    submission = replace(submission, lenient=submission.lenient | lenient, shown_as=shown_as)
    return Gathered(submission, places, tuple(notices))


def beside(part: Part, folder: Path, track: Track) -> tuple[Path, bytes, tuple[str, ...]] | None:
    """Return where a part lies in `folder`, its source, and what was repaired in it; None when it is not there.

    Raises Refused, OSError.
    """
    book = folder / (part.file.removesuffix(".py") + ".ipynb")
    if book.is_file():
        read = saved(book, track)
        return book, definitions(read.pieces).encode("utf-8", "backslashreplace"), read.repairs
    file = folder / part.file
    return (file, file.read_bytes(), ()) if file.is_file() else None
