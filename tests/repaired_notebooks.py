"""What the tests of notebook repair share: a damaged file read, and which classes of it load as ours do."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

from answers import single_file
from submission_samples import CLASSES, TRACK, fill, read

from autograder.probe.loading import Substitutes, load_tree
from autograder.submission import Submission, write_tree


def read_book(data: str | bytes, name: str = "hw.ipynb") -> Submission:
    """Read one notebook, and see that its file is as it was."""
    with tempfile.TemporaryDirectory() as place:
        work = read(fill(Path(place), {name: data}) / name)
        assert (Path(place) / name).read_bytes() == (data.encode() if isinstance(data, str) else data)
    return work


def graded(work: Submission) -> set[str]:
    """Return the classes that load, as the child loads them, with a forward (of the config: fields) as ours."""
    if not work.tree:
        return set()
    with tempfile.TemporaryDirectory() as place:
        path, modules = list(sys.path), set(sys.modules)
        write_tree(work, Path(place) / "tree")
        files = {part.class_name: part.file for part in TRACK.parts}
        substitutes = Substitutes({}, TRACK.classes[0], TRACK.config)
        tree = load_tree(str(Path(place) / "tree"), work.sources, files, work.lenient, substitutes)
        sys.path[:] = path
        for name in set(sys.modules) - modules:
            del sys.modules[name]
    return {name for name, thing in tree.classes.items() if _OURS[name] == _contents(thing)}


def _contents(thing: type) -> object:
    method = vars(thing).get("forward")
    return (method.__code__.co_names, method.__code__.co_varnames) if method is not None else vars(thing).get("n_embd")


def _ours() -> dict[str, object]:
    space: dict[str, Any] = {"__name__": "ours"}
    exec(compile(single_file(), "ours.py", "exec", dont_inherit=True), space)
    return {name: _contents(space[name]) for name in CLASSES}


_OURS = _ours()
