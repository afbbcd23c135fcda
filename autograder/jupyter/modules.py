"""`import_parts`: what was written in other notebooks of the folder, as modules to import from."""

from __future__ import annotations

import ast
import contextlib
import linecache
import sys
import types
from pathlib import Path

from autograder.jupyter.gathering import beside
from autograder.submission.limits import Refused
from autograder.track import Part, Track, load_track


def import_parts(*names: str, track: str = "gpt") -> None:
    """Let this notebook import from other parts: `import_parts("mlp")`, then `from mlp import MLP`.

    Runs the definitions of mlp.ipynb as it was last saved (or of mlp.py), here in this kernel, and those of the parts
    that it uses. Call it again after you changed them. Says so where a part is not there.
    """
    course = load_track(track)
    known = {part.name: part for part in course.parts}
    for name in names:
        if name in known:
            _bring(course, known[name], Path.cwd(), set())
        else:
            print(f"There is no part {name!r}; the parts are: {', '.join(known)}.")


def _bring(track: Track, part: Part, folder: Path, done: set[str]) -> None:
    if part.name in done:
        return
    done.add(part.name)
    for used in part.uses.values():
        _bring(track, track.part(used), folder, done)
    stem = part.file.removesuffix(".py")
    try:
        found = beside(part, folder, track)
    except (OSError, Refused) as error:
        print(error.sentence if isinstance(error, Refused) else f"{stem}.ipynb cannot be read ({error.strerror}).")
        return
    if found is None:
        print(f"There is no {stem}.ipynb in {folder}: write that part first, and save it there.")
        return
    path, source, _ = found
    module = types.ModuleType(stem)
    module.__file__ = str(path)
    sys.modules[stem] = module
    try:
        _run(source.decode("utf-8"), f"<{path.name}>", module)
    except Exception as error:  # the student's own code, in the student's own kernel
        print(f"{path.name} does not run ({type(error).__name__}: {error}). Open it, run all cells, save it.")
        sys.modules.pop(stem, None)


def _run(source: str, name: str, module: types.ModuleType) -> None:
    """Run imports and definitions; of the rest only what gives a name a value, and not where that fails."""
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)  # for tracebacks
    for statement in ast.parse(source, name).body:
        code = compile(ast.Module([statement], []), name, "exec", dont_inherit=True)
        if isinstance(statement, ast.Import | ast.ImportFrom | ast.FunctionDef | ast.ClassDef):
            exec(code, vars(module))
        elif isinstance(statement, ast.Assign | ast.AnnAssign | ast.Try):
            with contextlib.suppress(Exception):
                exec(code, vars(module))
