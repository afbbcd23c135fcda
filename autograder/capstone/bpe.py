"""Byte-pair encoding in miniature: start from characters, join the most frequent pair of neighbours, and again.

(Sennrich et al. 2016; pairs are joined within words, a word with the space before it, as GPT-2 has it.)
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from autograder.capstone.corpus import Ids
from autograder.capstone.trouble import CapstoneError

_WORD = re.compile(r" ?[^\W\d_]+|\s|.", re.DOTALL)
Pair = tuple[int, int]


@dataclass(frozen=True)
class Bpe:
    """An encoding: the characters have the first ids, each join the next one."""

    characters: str
    joins: dict[Pair, int]  # two ids -> the id of both together, in the order in which they were learnt
    _known: dict[str, list[int]] = field(default_factory=dict, compare=False, repr=False)

    def __len__(self) -> int:
        return len(self.characters) + len(self.joins)

    def encode(self, text: str) -> Ids:
        """Return the ids of `text`, (N,) int64. Raises KeyError for a character that the training text lacked."""
        ids: list[int] = []
        for word in _WORD.findall(text):
            if word not in self._known:
                self._known[word] = self._joined([self._first[character] for character in word])
            ids += self._known[word]
        return np.array(ids, dtype=np.int64)

    def decode(self, ids: Ids) -> str:
        """Return the text of `ids`."""
        texts = list(self.characters)
        for one, other in self.joins:
            texts.append(texts[one] + texts[other])
        return "".join(texts[number] for number in ids)

    @property
    def _first(self) -> dict[str, int]:
        return {character: number for number, character in enumerate(self.characters)}

    def _joined(self, ids: list[int]) -> list[int]:
        while True:
            pairs = [pair for pair in pairwise(ids) if pair in self.joins]
            if not pairs:
                return ids
            first = min(pairs, key=self.joins.__getitem__)
            ids = _join(ids, first, self.joins[first])


def train_bpe(text: str, size: int) -> Bpe:
    """Learn an encoding of `size` ids from `text`. Raises CapstoneError when the text has no so many pairs."""
    characters = "".join(sorted(set(text)))
    ids = {character: number for number, character in enumerate(characters)}
    counts = Counter(_WORD.findall(text))
    words = [[ids[character] for character in word] for word in counts]
    often = list(counts.values())
    pairs: Counter[Pair] = Counter()
    where: defaultdict[Pair, set[int]] = defaultdict(set)
    for number, word in enumerate(words):
        for pair in pairwise(word):
            pairs[pair] += often[number]
            where[pair].add(number)
    joins: dict[Pair, int] = {}
    while len(characters) + len(joins) < size:
        best = max(pairs, key=lambda pair: (pairs[pair], pair), default=None)
        if best is None or pairs[best] < 1:
            raise CapstoneError(f"The text is too short for an encoding of {size} ids: take a longer one.")
        joins[best] = len(characters) + len(joins)
        for number in where.pop(best):
            old = words[number]
            words[number] = new = _join(old, best, joins[best])
            for pair in pairwise(old):
                pairs[pair] -= often[number]
            for pair in pairwise(new):
                pairs[pair] += often[number]
                where[pair].add(number)
        del pairs[best]
    return Bpe(characters, joins)


def _join(ids: list[int], pair: Pair, joined: int) -> list[int]:
    out: list[int] = []
    for token in ids:
        if out and (out[-1], token) == pair:
            out[-1] = joined  # a new id, so that it is no half of `pair`: what was joined is used up
        else:
            out.append(token)
    return out
