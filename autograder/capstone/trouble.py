"""Trouble that can be foreseen (a broken file, no network, a full disk), as a sentence for a person."""

from __future__ import annotations

import errno


class CapstoneError(Exception):
    """Foreseeable trouble. Its text says what happened, where, and what to do next."""


def disk_trouble(what: str, error: OSError) -> CapstoneError:
    """Return what to say when `what` could not be written."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return CapstoneError(
            f"The disk is full: {what} could not be written. Make room, and run the same command again."
        )
    return CapstoneError(f"{what} could not be written: {error.strerror or error}.")
