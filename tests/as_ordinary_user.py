"""Run a command as an ordinary user, for tests that root runs: `python as_ordinary_user.py COMMAND ...`.

In a mount namespace of its own, folders that only root may enter (a Python under /root, say) are replaced by empty ones
in which just what Python needs is shown. Ends with status 77 where the machine does not let us.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from autograder.sandbox.linux_calls import call

NOBODY = 65534
_BIND, _PRIVATE = 4096 | 16384, 16384 | 1 << 18


def open_the_way(needed: Path, folder: Path) -> None:
    """Make `needed` reachable for everybody. What lies beside it on the way disappears from view."""
    closed = next((each for each in reversed(needed.parents) if not each.stat().st_mode & 0o001), None)
    if closed is None:
        return
    kept = folder / "kept"
    kept.mkdir(exist_ok=True)
    call("mount", os.fsencode(needed), os.fsencode(kept), None, _BIND, None)
    call("mount", b"tmpfs", os.fsencode(closed), b"tmpfs", 0, b"mode=755")
    needed.mkdir(parents=True)
    call("mount", os.fsencode(kept), os.fsencode(needed), None, _BIND, None)


def main() -> None:
    folder = Path(tempfile.mkdtemp(prefix="workshop-test-"))
    os.chown(folder, NOBODY, NOBODY)
    try:
        call("unshare", 0x00020000)
        call("mount", None, b"/", None, _PRIVATE, None)
        for prefix in {sys.base_prefix, sys.prefix, str(Path(__file__).resolve().parents[1])}:
            open_the_way(Path(prefix), folder)
    except OSError as error:
        print(f"this machine does not let root prepare the way for an ordinary user: {error}")
        sys.exit(77)
    os.setgroups([])
    os.setresgid(NOBODY, NOBODY, NOBODY)
    os.setresuid(NOBODY, NOBODY, NOBODY)
    os.environ.update(HOME=str(folder), TMPDIR=str(folder), PYTHONDONTWRITEBYTECODE="1")
    os.execv(sys.argv[1], sys.argv[1:])


if __name__ == "__main__":
    main()
