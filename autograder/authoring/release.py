"""The student kit: what students get, as a folder and as a zip; the same bytes for the same course and seeds.

It holds the stubs, the guide, the autograder and sealed answers (oracle/sealed.py). It holds no solution, no bank of
mistakes and nothing of this room.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import shutil
import tempfile
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

import autograder
from autograder.authoring.canary import leaks, telling_lines
from autograder.authoring.dictation import PATIENT, dictate
from autograder.kit_mark import marked, marked_notebook
from autograder.oracle.misconceptions import BANK
from autograder.oracle.reference import SolutionsNotFound, find_solutions
from autograder.oracle.released import file_name
from autograder.sandbox import Nursery
from autograder.stubs import StubError, find_stubs
from autograder.track import Track
from autograder.verdict import Report, Verdict

NAME = "gpt-workshop-kit"
#: Any seed will do. One fills most of the size that a kit may have.
DEFAULT_SEEDS = (65,)
#: Larger kits are refused: they are mailed, and unpacked a hundred times on one server.
MAX_BYTES = 5_000_000
#: Time of every member of the zip; the earliest that the format knows.
_TIME = (1980, 1, 1, 0, 0, 0)
#: Of the package: what a kit goes without.
_LEFT_OUT = ("authoring", "_solutions", "_exercises", "_sealed", "oracle/misconceptions.toml", "catalogue/messages.pot")
#: Of the package: the formulas of the bank of mistakes.
_FORMULAS = "oracle/variants"
#: Of the guide: what is for instructors.
_NOT_FOR_STUDENTS = ("instructors.md", "reports.md", "handbook/README.md")

_REFERENCE = '''"""The reference of a student kit: sealed answers, and no solutions."""

from autograder.oracle.expected import Expected, SolutionsNotFound, count
from autograder.oracle.sealed import SealedReference as Reference
from autograder.oracle.sealed import find_solutions

__all__ = ["Expected", "Reference", "SolutionsNotFound", "count", "find_solutions"]
'''
_MISCONCEPTIONS = '''"""The known mistakes of a student kit: their prints, and what to say."""

from autograder.oracle.sealed import recognise, recognise_gradients

__all__ = ["recognise", "recognise_gradients"]
'''


class ReleaseError(Exception):
    """No kit can be built here. One sentence for people."""


@dataclass(frozen=True)
class Kit:
    """A kit that was built."""

    version: str
    folder: Path
    archive: Path
    size: int  # of the archive, in bytes
    files: int


def release(
    track: Track, out: Path, seeds: Sequence[int] = DEFAULT_SEEDS, tell: Callable[[str], None] = lambda _: None
) -> Kit:
    """Build the kit below `out` and return where it is. Raises ReleaseError; then `out` is as it was."""
    try:
        solutions, stubs = find_solutions(track), find_stubs(track)
    except (SolutionsNotFound, StubError) as error:
        raise ReleaseError(str(error)) from None
    members = _members(track, stubs)
    with Nursery(PATIENT) as nursery:
        for number, seed in enumerate(seeds, 1):
            tell(f"Sealing the answers for seed {seed} ({number} of {len(seeds)}): half a minute")
            data, reports = dictate(track, solutions, seed, nursery)
            _refuse_unfit(reports, seed)
            members[f"autograder/_sealed/{file_name(seed)}"] = data
    words = [{"says": entry.sentence, "look_at": entry.look_at} for entry in BANK]
    members["autograder/_sealed/mistakes.json"] = _json(words)
    version = f"{autograder.__version__}+kit.{_digest(members)[:10]}"
    members["autograder/_sealed/release.json"] = _json({"version": version, "seeds": list(seeds), "track": track.name})
    _stamp(members, version)
    files = [*(part.file for part in track.every), *track.extras]
    answers, given = ([(folder / file).read_text(encoding="utf-8") for file in files] for folder in (solutions, stubs))
    found = list(leaks(members, telling_lines(answers, given)))
    if found:
        raise ReleaseError(f"What students must not see would be in the kit: {found[0]}")
    return _write(out, version, members)


def _members(track: Track, stubs: Path) -> dict[str, bytes]:
    """Return what the kit holds besides its sealed answers: path -> content."""
    package = Path(autograder.__file__).resolve().parent
    root = package.parent
    members = {}
    for path in sorted(package.rglob("*")):
        inside = path.relative_to(package).as_posix()
        if not path.is_file() or "__pycache__" in path.parts or path.suffix == ".pyc":
            continue
        if inside.startswith(_FORMULAS):
            continue
        if not any(inside == name or inside.startswith(f"{name}/") for name in _LEFT_OUT):
            members[f"autograder/{inside}"] = path.read_bytes()
    members["autograder/oracle/reference.py"] = _REFERENCE.encode()
    members["autograder/oracle/misconceptions.py"] = _MISCONCEPTIONS.encode()
    exercises = "/".join(["exercises", *([track.folder] if track.folder else [])])
    for name in [*(part.file for part in track.every), *track.extras]:
        members[f"{exercises}/{name}"] = (stubs / name).read_bytes()
    for path in sorted((stubs / "notebooks").glob("*.ipynb")):
        members[f"{exercises}/notebooks/{path.name}"] = path.read_bytes()
    try:
        for path in sorted((root / "workshop_guide").iterdir()):
            if path.is_file() and path.name not in _NOT_FOR_STUDENTS:
                text = path.read_text(encoding="utf-8")
                kept = [line for line in text.splitlines(True) if not any(f"({n})" in line for n in _NOT_FOR_STUDENTS)]
                members[f"workshop_guide/{path.name}"] = "".join(kept).encode()
        for path in sorted((root / "workshop_guide" / "pictures").glob("*.svg")):
            members[f"workshop_guide/pictures/{path.name}"] = path.read_bytes()
        for name in ("LICENSE", "constraints.txt"):
            members[name] = (root / name).read_bytes()
        project = (root / "pyproject.toml").read_text(encoding="utf-8")
    except OSError as error:
        raise ReleaseError(f"{error.filename} cannot be read ({error.strerror}): run this in the checkout.") from error
    project = re.sub(r'^"solutions" = .*\n', "", project.partition("[tool.ruff]")[0], flags=re.MULTILINE)
    members["pyproject.toml"] = (project.rstrip() + "\n").encode()
    readme = resources.files("autograder.authoring") / "kit_readme.md"
    members["README.md"] = _readme(track, readme.read_text(encoding="utf-8")).encode()
    return members


def _readme(track: Track, text: str) -> str:
    """Return the kit's README with the files of this course."""
    *others, last = (f"`{part.file}`" for part in track.parts)
    first = track.parts[0].file
    text = text.replace(
        "`config.py`, `attention.py`, `mlp.py`, `block.py` and `gpt.py`", f"{', '.join(others)} and {last}"
    )
    return text.replace("open config.py", f"open {first}")


def _stamp(members: dict[str, bytes], version: str) -> None:
    """Write the kit's version where the command, the reports and pip read it, and into each exercise."""
    plain = f'__version__ = "{autograder.__version__}"'.encode()
    first = members["autograder/__init__.py"]
    if plain not in first:
        raise ReleaseError("autograder/__init__.py does not hold its version as a plain line.")
    members["autograder/__init__.py"] = first.replace(plain, f'__version__ = "{version}"'.encode())
    members["README.md"] = members["README.md"].replace(b"VERSION", version.encode())
    for path, data in members.items():
        if path.startswith("exercises/"):
            mark = marked_notebook if path.endswith(".ipynb") else marked
            members[path] = mark(data, version)


def _write(out: Path, version: str, members: dict[str, bytes]) -> Kit:
    """Write folder and zip, each in one move. A kit of this version that is there already must be the same."""
    name = f"{NAME}-{version}"
    packed = _zipped(name, members)
    if len(packed) > MAX_BYTES:
        raise ReleaseError(
            f"The kit would be {len(packed) / 1e6:.1f} MB, more than {MAX_BYTES / 1e6:.0f}: ask for fewer seeds."
        )
    folder, archive = out / name, out / f"{name}.zip"
    try:
        out.mkdir(parents=True, exist_ok=True)
        if folder.exists():
            there = {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()}
            if there != members:
                raise ReleaseError(f"{folder} is there already and was changed: move it away first.")
        else:
            with tempfile.TemporaryDirectory(prefix=".kit-", dir=out) as scratch:
                for path, data in members.items():
                    target = Path(scratch) / name / path
                    target.parent.mkdir(parents=True, exist_ok=True)
                    target.write_bytes(data)
                shutil.move(Path(scratch) / name, folder)
        with tempfile.NamedTemporaryFile(prefix=".kit-", dir=out, delete=False) as stream:
            stream.write(packed)
        Path(stream.name).chmod(0o644)
        Path(stream.name).replace(archive)
    except OSError as error:
        raise ReleaseError(f"{error.filename or out} cannot be written ({error.strerror}).") from error
    return Kit(version, folder, archive, len(packed), len(members))


def _zipped(name: str, members: dict[str, bytes]) -> bytes:
    """Return a zip of `members` below the folder `name`: sorted, of one time and mode."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for path in sorted(members):
            info = zipfile.ZipInfo(f"{name}/{path}", _TIME)
            info.compress_type, info.create_system = zipfile.ZIP_DEFLATED, 3
            info.external_attr = 0o100644 << 16
            archive.writestr(info, members[path], compresslevel=9)
    return buffer.getvalue()


def _digest(members: dict[str, bytes]) -> str:
    digest = hashlib.sha256()
    for path in sorted(members):
        digest.update(f"{path} {len(members[path])}\n".encode() + members[path])
    return digest.hexdigest()


def _json(data: object) -> bytes:
    return (json.dumps(data, indent=1, ensure_ascii=False) + "\n").encode()


def _refuse_unfit(reports: Mapping[str, Report], seed: int) -> None:
    """Raise ReleaseError where the solutions fail, or where a witness was stopped before it had asked everything."""
    for name, report in reports.items():
        seen = {check.verdict for part in report.parts.values() for check in part.checks}
        if name in ("plain", "reaching") and report.verdict is not Verdict.PASSED:
            raise ReleaseError(
                f"The solutions do not pass every check under seed {seed} ({_first_fault(report)}): "
                "make that right first, or choose another --seed."
            )
        if not seen <= {Verdict.PASSED, Verdict.FAILED, Verdict.BLOCKED}:
            raise ReleaseError(f"The grading of a changed solution ({name}) was stopped: try again.")


def _first_fault(report: Report) -> str:
    lost = [c for part in report.parts.values() for c in part.checks if c.verdict is not Verdict.PASSED]
    return f"{lost[0].id}: {lost[0].message}" if lost else report.error
