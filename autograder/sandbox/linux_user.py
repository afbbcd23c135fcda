"""Another user for a child where we are root; else, and in any case, no capabilities."""

from __future__ import annotations

import os
import secrets
import struct
from collections.abc import Iterable
from contextlib import suppress

from autograder.sandbox.linux_calls import call

#: Above all users and containers that systemd knows (https://systemd.io/UIDS-GIDS), below 2**31.
_SLOTS = range(1_900_000_000, 2_030_000_000)
_PR_CAPBSET_DROP, _PR_CAP_AMBIENT, _CLEAR_ALL = 24, 47, 4
_LAST_CAPABILITY = 63  # there are 41 now; asking for more fails at once
_CAPABILITY_VERSION_3 = 0x20080522


def pick_slot() -> int | None:
    """Return a user id that nobody else has, for the children of one supervisor; None when we are not root."""
    return _SLOTS.start + secrets.randbelow(len(_SLOTS)) if os.geteuid() == 0 else None


def can_live_as(slot: int, places: Iterable[str]) -> bool:
    """Return whether user `slot` exists here and can enter and read all of `places`. Leaves us as we were."""
    groups = os.getgroups()
    try:
        with suppress(PermissionError):
            os.setgroups([])
        os.setresgid(slot, slot, 0)
        os.setresuid(slot, slot, 0)
    except OSError:  # a container that maps a few users only
        usable = False
    else:
        usable = all(os.access(place, os.R_OK | (os.X_OK if os.path.isdir(place) else 0)) for place in places)  # noqa: PTH112
    os.setresuid(0, 0, 0)
    os.setresgid(0, 0, 0)
    with suppress(PermissionError):
        os.setgroups(groups)
    return usable


def become(slot: int) -> None:
    """Become user and group `slot` for good. Raises OSError."""
    with suppress(PermissionError):  # in a user namespace groups cannot be set; there they mean nothing either
        os.setgroups([])
    os.setresgid(slot, slot, slot)
    os.setresuid(slot, slot, slot)


def forgo_capabilities() -> None:
    """Make the bounding set empty, so that no program can bring a capability back. Raises OSError without the right."""
    for number in range(_LAST_CAPABILITY + 1):
        try:
            call("prctl", _PR_CAPBSET_DROP, number, 0, 0, 0)
        except OSError as error:
            if error.errno == 22:  # EINVAL: past the last one
                return
            raise


def drop_capabilities() -> None:
    """Give up all capabilities that this process holds. Raises OSError."""
    with suppress(OSError):
        call("prctl", _PR_CAP_AMBIENT, _CLEAR_ALL, 0, 0, 0)
    call("capset", struct.pack("Ii", _CAPABILITY_VERSION_3, 0), bytes(24))
