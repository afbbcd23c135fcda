"""Hints in three rungs (idea, shapes, steps), for each part and for common mistakes, read from the track's data."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from autograder.track import HINTS_SUFFIX

#: From a nudge to nearly everything: what the idea is, what goes in and out, and the way in words.
RUNGS = ("idea", "shapes", "steps")
#: The topic of the hints that are about a part as a whole.
GENERAL = "general"


@dataclass(frozen=True)
class Ladder:
    """The hints about one topic."""

    part: str  # "attention"
    topic: str  # "scale"; GENERAL is the part as a whole
    title: str  # "the scale of the scores"
    rungs: tuple[str, ...]  # as in RUNGS
    checks: tuple[str, ...] = ()  # failing one of these suggests the topic
    words: tuple[str, ...] = ()  # so does a message with one of these, more strongly


@dataclass(frozen=True)
class Hints:
    """All hints of a track."""

    ladders: tuple[Ladder, ...] = ()

    def of(self, part: str) -> tuple[Ladder, ...]:
        """Return the ladders of a part, the general one first."""
        return tuple(ladder for ladder in self.ladders if ladder.part == part)

    def ladder(self, part: str, topic: str) -> Ladder | None:
        """Return the hints of a part about a topic, or None."""
        return next((ladder for ladder in self.of(part) if ladder.topic == topic), None)

    def about(self, part: str, wrong: Mapping[str, str]) -> Ladder | None:
        """Return the hints that fit what is wrong (check id -> message): by its words, else by the check."""
        said = " ".join(wrong.values()).casefold()
        ladders = self.of(part)
        by_word = (ladder for ladder in ladders if any(word in said for word in ladder.words))
        by_check = (ladder for ladder in ladders if any(check in wrong for check in ladder.checks))
        return next(by_word, None) or next(by_check, None)

    def next_rung(
        self, part: str, wrong: Mapping[str, str], used: Mapping[str, tuple[int, ...]]
    ) -> tuple[Ladder, int] | None:
        """Return the ladder and the rung (from 1) to read next, given what is wrong and what was read before.

        The mistake comes first, then the part as a whole; the last rung is given again when all were read. None when
        the track has no hints for the part.
        """
        fitting = [ladder for ladder in (self.about(part, wrong), self.ladder(part, GENERAL)) if ladder is not None]
        for ladder in fitting:
            rung = max(used.get(ladder.topic, ()), default=0) + 1
            if rung <= len(ladder.rungs):
                return ladder, rung
        return (fitting[0], len(fitting[0].rungs)) if fitting else None


def load_hints(name_or_path: str) -> Hints:
    """Read the hints of a track: tracks/NAME_hints.toml, or NAME_hints.toml beside a track file of one's own.

    A track without such a file has none. Raises ValueError when the file is ill-formed.
    """
    if name_or_path.endswith(".toml"):
        own = Path(name_or_path)
        text = _read(own.with_name(own.name.removesuffix(".toml") + HINTS_SUFFIX))
    else:
        text = _read(resources.files("autograder") / "tracks" / f"{name_or_path}{HINTS_SUFFIX}")
    if text is None:
        return Hints()
    try:
        return _hints(tomllib.loads(text))
    except (tomllib.TOMLDecodeError, AttributeError, KeyError, TypeError) as error:
        raise ValueError(f"the hints of track {name_or_path}: {error}") from error


def _read(path: Any) -> str | None:
    return path.read_text(encoding="utf-8") if path.is_file() else None


def _hints(data: dict[str, Any]) -> Hints:
    if data["schema"] != 1:
        raise ValueError(f"unknown schema {data['schema']!r} of hints")
    general = [Ladder(name, GENERAL, "the part as a whole", _rungs(entry)) for name, entry in data["parts"].items()]
    mistakes = [
        Ladder(
            entry["part"],
            entry["topic"],
            entry["title"],
            _rungs(entry),
            tuple(entry.get("checks", ())),
            tuple(word.casefold() for word in entry.get("words", ())),
        )
        for entry in data.get("mistakes", [])
    ]
    return Hints((*general, *mistakes))


def _rungs(entry: dict[str, Any]) -> tuple[str, ...]:
    return tuple(str(entry[rung]).strip() for rung in RUNGS)
