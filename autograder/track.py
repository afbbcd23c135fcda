"""A track: the parts of a course, the contract of each class, and the points, as data read from TOML."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path
from typing import Any

Shape = tuple[int, ...]

#: `gpt_hints.toml` holds the hints of track `gpt`: it lies beside the tracks, and is none.
HINTS_SUFFIX = "_hints.toml"


@dataclass(frozen=True)
class Part:
    """One file that the student writes: a class, functions, or both."""

    name: str  # "attention"
    class_name: str  # "CausalSelfAttention"; "" where the part is functions alone
    file: str  # the stub file: "attention.py"
    points: dict[str, float]  # check id -> points, in the order in which they are shown
    parameters: dict[str, str]  # own tensors: name -> shape expression such as "3*n_embd, n_embd"
    uses: dict[str, str]  # sub-module path ("attn", "transformer.h.{i}") -> part that it is an instance of
    functions: tuple[str, ...] = ()  # "get_batch", ...
    optional: bool = False  # graded only where it is asked for

    @property
    def names(self) -> tuple[str, ...]:
        """The names that the file must define."""
        return ((self.class_name,) if self.class_name else ()) + self.functions

    @property
    def title(self) -> str:
        """What the part is called in reports: its class, or its file."""
        return self.class_name or self.file

    @property
    def max_score(self) -> float:
        return sum(self.points.values())

    def shapes(self, config: Mapping[str, int]) -> dict[str, Shape]:
        """Return the shape of each own tensor under `config`."""
        return {name: parse_shape(expression, config) for name, expression in self.parameters.items()}


@dataclass(frozen=True)
class Track:
    """A course of parts, graded in order. `parts` are those that everybody hands in; they make up `max_score`."""

    name: str
    title: str
    single_file: str
    config: dict[str, int]  # default configuration
    parts: tuple[Part, ...]
    optional: tuple[Part, ...] = ()  # further ones, graded where they are asked for
    chosen: tuple[str, ...] = ()  # the parts that a whole class is graded on; none: `parts`

    @property
    def every(self) -> tuple[Part, ...]:
        return self.parts + self.optional

    @property
    def graded(self) -> tuple[Part, ...]:
        """The parts that are graded where nobody names any."""
        return tuple(part for part in self.every if part.name in self.chosen) if self.chosen else self.parts

    def choosing(self, names: Sequence[str]) -> Track:
        """Return this track with the parts `names` to be graded; without names, `parts`."""
        return replace(self, chosen=tuple(part.name for part in self.every if part.name in names))

    def of(self, parts: Sequence[Part]) -> Track:
        """Return a track of these parts alone."""
        return replace(self, parts=tuple(parts), optional=(), chosen=())

    def part(self, name: str) -> Part:
        """Return the part called `name`. Raises KeyError with the known names."""
        for part in self.every:
            if part.name == name:
                return part
        raise KeyError(f"no part {name!r} in track {self.name}; parts: {', '.join(p.name for p in self.every)}")

    @property
    def classes(self) -> tuple[str, ...]:
        """The names that the files of `parts` must define."""
        return tuple(name for part in self.parts for name in part.names)

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
            class_name=entry["class"] if "functions" not in entry else entry.get("class", ""),
            file=entry["file"],
            points={check: float(points) for check, points in entry["points"].items()},
            parameters=dict(entry.get("parameters", {})),
            uses=dict(entry.get("uses", {})),
            functions=tuple(entry.get("functions", ())),
            optional=bool(entry.get("optional", False)),
        )
        for entry in data["parts"]
    )
    required = tuple(part for part in parts if not part.optional)
    optional = tuple(part for part in parts if part.optional)
    return Track(data["name"], data["title"], data["single_file"], dict(data["config"]), required, optional)
