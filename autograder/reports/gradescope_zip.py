"""Gradescope's autograder archive: setup.sh, run_autograder, the requirements, and this kit as it is installed here.

The same kit gives the same bytes: names in order, and one date for all.
"""

from __future__ import annotations

import importlib.metadata
import io
import re
import shlex
import zipfile
from collections.abc import Iterator
from pathlib import Path

import autograder

_DISTRIBUTION = "gpt-workshop-kit"
_DATE = (2020, 1, 1, 0, 0, 0)
_SCRIPT, _FILE = 0o100755, 0o100644

_SETUP = """\
#!/usr/bin/env bash
# Runs once, as root, when Gradescope builds the image: Python, the requirements and the kit, away from the system's.
set -euo pipefail
root="${AUTOGRADER_ROOT:-/autograder}"

new_enough() { "$1" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' > /dev/null 2>&1; }
python=""
for candidate in python3.13 python3.12 python3.11 python3; do
  if new_enough "$candidate"; then python="$candidate"; break; fi
done
if [ -z "$python" ]; then  # Ubuntu 22.04 has 3.10, and 3.11 beside it
  apt-get update
  apt-get install -y python3.11 python3.11-venv
  python=python3.11
fi

"$python" -m venv "$root/venv"
"$root/venv/bin/python" -m pip install --no-cache-dir --upgrade pip
"$root/venv/bin/python" -m pip install --no-cache-dir -r "$root/source/requirements.txt"@INDEX@

site="$("$root/venv/bin/python" -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')"
cp -R "$root/source/kit/autograder" "$site/"
chmod -R go-rwx "$site/autograder/_solutions" "$root/source"  # the answers are for the grader alone
"""
_RUN = """\
#!/usr/bin/env bash
# Runs for each submission. No results.json, and Gradescope says that the autograder failed: our failure is no zero.
set -euo pipefail
root="${AUTOGRADER_ROOT:-/autograder}"
report="$(mktemp)"
trap 'rm -f "$report"' EXIT

status=0
"$root/venv/bin/python" -m autograder check --path "$root/submission" --track @TRACK@ --json --no-progress \\
  > "$report" || status=$?
if [ "$status" -gt 1 ]; then
  echo "The submission could not be graded (exit status $status): run the autograder again." >&2
  exit "$status"
fi
"$root/venv/bin/python" -m autograder export gradescope "$report" --out "$root/results/results.json" @OPTIONS@
"""


class ZipError(Exception):
    """The archive cannot be made on this machine; the text says why."""


def autograder_zip(track: str, *, visibility: str = "visible", leaderboard: bool = False, index_url: str = "") -> bytes:
    """Return the archive. `index_url`: a further index for pip, such as that of PyTorch's smaller CPU builds.

    Raises ZipError where the kit or its requirements are not whole here.
    """
    index = f" --extra-index-url {shlex.quote(index_url)}" if index_url else ""
    options = f"--visibility {shlex.quote(visibility)}{' --leaderboard' if leaderboard else ''}"
    run = _RUN.replace("@TRACK@", shlex.quote(track)).replace("@OPTIONS@", options)
    contents = io.BytesIO()
    with zipfile.ZipFile(contents, "w", zipfile.ZIP_DEFLATED) as archive:
        _add(archive, "setup.sh", _SETUP.replace("@INDEX@", index).encode(), _SCRIPT)
        _add(archive, "run_autograder", run.encode(), _SCRIPT)
        _add(archive, "requirements.txt", _requirements().encode(), _FILE)
        for name, path in sorted(_kit()):
            _add(archive, f"kit/autograder/{name}", path.read_bytes(), _FILE)
    return contents.getvalue()


def _add(archive: zipfile.ZipFile, name: str, data: bytes, mode: int) -> None:
    info = zipfile.ZipInfo(name, _DATE)
    info.create_system = 3  # Unix, so that the mode is kept on whatever machine this runs
    info.external_attr = mode << 16
    info.compress_type = zipfile.ZIP_DEFLATED
    archive.writestr(info, data)


def _requirements() -> str:
    """Return what the kit needs, at the versions that it runs with here."""
    try:
        needed = importlib.metadata.requires(_DISTRIBUTION) or []
        names = [re.split(r"[^A-Za-z0-9._-]", line)[0] for line in needed if "extra ==" not in line]
        pins = [f"{name}=={importlib.metadata.version(name).split('+')[0]}" for name in sorted(names)]
    except importlib.metadata.PackageNotFoundError as error:
        raise ZipError(f"{error.name} is not installed here: install the kit with pip, and try again.") from error
    return "\n".join(pins) + "\n"


def _kit() -> Iterator[tuple[str, Path]]:
    """Yield each file of the kit and its name in the package; answers and stubs lie where the wheel has them."""
    package = Path(autograder.__file__).resolve().parent
    yield from _files(package, "")
    for packed, beside in (("_solutions", "solutions"), ("_exercises", "exercises")):
        if (package / packed).is_dir():
            continue  # an installed wheel: they came with the package
        if not (package.parent / beside / "gpt.py").is_file():
            raise ZipError(f"The kit's {beside} are not here (looked beside and in {package}). Install it again.")
        yield from _files(package.parent / beside, f"{packed}/")


def _files(folder: Path, prefix: str) -> Iterator[tuple[str, Path]]:
    for path in folder.rglob("*"):
        if path.is_file() and "__pycache__" not in path.parts and not path.name.startswith("."):
            yield prefix + path.relative_to(folder).as_posix(), path
