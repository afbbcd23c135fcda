"""The vocabulary: which character has which id, and text to ids and back."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from autograder.capstone.trouble import CapstoneError

#: The 65 characters of tiny Shakespeare in the order of their ids, whatever a text holds: so ids agree with every
#: published checkpoint. ('3' stands in the canonical file only.)
SHAKESPEARE = "\n !$&',-.3:;?ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


@dataclass(frozen=True)
class Vocabulary:
    """Characters in the order of their ids, each once and sorted by code point. Raises ValueError otherwise."""

    characters: str

    def __post_init__(self) -> None:
        if not self.characters or list(self.characters) != sorted(set(self.characters)):
            raise ValueError("a vocabulary holds each of its characters once, sorted")

    def __len__(self) -> int:
        return len(self.characters)

    def encode(self, text: str) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        """Return the ids of `text`, (N,) int64. Raises CapstoneError naming the characters that have no id."""
        codes = _code_points(text)
        known = _code_points(self.characters)
        ids = np.searchsorted(known, codes).clip(max=len(known) - 1)
        unknown = codes[known[ids] != codes]
        if unknown.size:
            shown = ", ".join(ascii(chr(code)) for code in np.unique(unknown)[:8])
            raise CapstoneError(f"The vocabulary of {len(self)} characters lacks {shown}: leave them out.")
        return ids.astype(np.int64)

    def decode(self, ids: Iterable[int]) -> str:
        """Return the text of `ids`. Raises IndexError for an id outside 0 to V - 1."""
        text = []
        for number in ids:
            if number < 0:
                raise IndexError(f"there is no id {number}")
            text.append(self.characters[number])
        return "".join(text)


def vocabulary_of(text: str) -> Vocabulary:
    """Return tiny Shakespeare's 65 characters where they are enough for `text`, else the characters of `text`."""
    found = set(text)
    return Vocabulary(SHAKESPEARE if found <= set(SHAKESPEARE) else "".join(sorted(found)))


def _code_points(text: str) -> np.ndarray[tuple[int], np.dtype[np.uint32]]:
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
