"""A track: the parts of a course, the contract of each class, and the points, as data read from TOML."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

Shape = tuple[int, ...]

#: `gpt_hints.toml` holds the hints of track `gpt`: it lies beside the tracks, and is none.
HINTS_SUFFIX = "_hints.toml"


@dataclass(frozen=True)
class Part:
    """One class that the student writes."""

    name: str  # "attention"
    class_name: str  # "CausalSelfAttention"
    file: str  # the stub file: "attention.py"
    points: dict[str, float]  # check id -> points, in the order in which they are shown
    parameters: dict[str, str]  # own tensors: name -> shape expression such as "3*n_embd, n_embd"
    uses: dict[str, str]  # sub-module path ("attn", "transformer.h.{i}") -> part that it is an instance of

    @property
    def max_score(self) -> float:
        return sum(self.points.values())

    def shapes(self, config: Mapping[str, int]) -> dict[str, Shape]:
        """Return the shape of each own tensor under `config`."""
        return {name: parse_shape(expression, config) for name, expression in self.parameters.items()}


@dataclass(frozen=True)
class Track:
    """A course of parts, graded in order."""

    name: str
    title: str
    single_file: str
    config: dict[str, int]  # default configuration
    parts: tuple[Part, ...]

    def part(self, name: str) -> Part:
        """Return the part called `name`. Raises KeyError with the known names."""
        for part in self.parts:
            if part.name == name:
                return part
        raise KeyError(f"no part {name!r} in track {self.name}; parts: {', '.join(p.name for p in self.parts)}")

    @property
    def classes(self) -> tuple[str, ...]:
        return tuple(part.class_name for part in self.parts)

    @property
    def max_score(self) -> float:
        return sum(part.max_score for part in self.parts)


def parse_shape(expression: str, config: Mapping[str, int]) -> Shape:
    """Return the shape that `expression` means: "3*n_embd, n_embd" is (3 * n_embd, n_embd)."""

    def factor(word: str) -> int:
        return int(word) if word.isdigit() else config[word]

    return tuple(math.prod(factor(word.strip()) for word in side.split("*")) for side in expression.split(","))


def load_track(name_or_path: str = "gpt") -> Track:
    """Read a track by name (`gpt`) or from a TOML file. Raises ValueError when it is unknown or ill-formed."""
    if name_or_path.endswith(".toml"):
        text = Path(name_or_path).read_text(encoding="utf-8")
    else:
        source = resources.files("autograder") / "tracks" / f"{name_or_path}.toml"
        if not source.is_file():
            raise ValueError(f"no track called {name_or_path!r}; known: {', '.join(track_names())}")
        text = source.read_text(encoding="utf-8")
    try:
        return _track(tomllib.loads(text))
    except (tomllib.TOMLDecodeError, KeyError, TypeError) as error:
        raise ValueError(f"track {name_or_path}: {error}") from error


def track_names() -> list[str]:
    """Return the names of the tracks that come with the kit."""
    folder = resources.files("autograder") / "tracks"
    files = [entry.name for entry in folder.iterdir() if entry.name.endswith(".toml")]
    return sorted(name.removesuffix(".toml") for name in files if not name.endswith(HINTS_SUFFIX))


def _track(data: dict[str, Any]) -> Track:
    if data["schema"] != 1:
        raise ValueError(f"unknown track schema {data['schema']!r}")
    parts = tuple(
        Part(
            name=entry["name"],
            class_name=entry["class"],
            file=entry["file"],
            points={check: float(points) for check, points in entry["points"].items()},
            parameters=dict(entry.get("parameters", {})),
            uses=dict(entry.get("uses", {})),
        )
        for entry in data["parts"]
    )
    return Track(data["name"], data["title"], data["single_file"], dict(data["config"]), parts)
