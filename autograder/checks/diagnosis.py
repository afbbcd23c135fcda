"""A mistake that has a name, or two at once, in the words of the bank."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Diagnosis:
    """What to say of it, and where to look."""

    sentence: str
    look_at: str


def named(found: Sequence[Any]) -> Diagnosis | None:
    """Return what to say of one known mistake or of two."""
    if not found:
        return None
    if len(found) == 1:
        return Diagnosis(found[0].sentence, found[0].look_at)
    sentences = " And: ".join(entry.sentence for entry in found)
    return Diagnosis(f"Two mistakes at once. {sentences}", " ".join(dict.fromkeys(e.look_at for e in found)))
