"""A track: the parts of a course, the contract of each class, and the points, as data read from TOML."""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, TypeVar

Shape = tuple[int, ...]
T = TypeVar("T")

#: `gpt_hints.toml` holds the hints of track `gpt`: it lies beside the tracks, and is none.
HINTS_SUFFIX = "_hints.toml"

#: The course that a command means when it names none.
DEFAULT = "gpt"


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
    role: str = ""  # what it is in a transformer: the checks of that role apply to it. By default its name
    constructor: dict[str, str] = field(default_factory=dict)  # argument -> field ("n_embd"); none: (config)
    repeat: str = "n_layer"  # the field over which {i} runs in the paths of `uses`
    width: str = "n_embd"  # last axis of what forward returns
    mistakes: str = ""  # the part of the bank of known mistakes that applies. By default its role
    alike: dict[str, str] = field(default_factory=dict)  # own layer -> what that layer is called in the bank
    titles: dict[str, str] = field(default_factory=dict)  # check id -> its title, where the usual one does not fit

    def __post_init__(self) -> None:
        """Fill in what is the same by default: a part's role is its name, and the mistakes are those of its role."""
        object.__setattr__(self, "role", self.role or self.name)
        object.__setattr__(self, "mistakes", self.mistakes or self.role)

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

    @property
    def interface(self) -> str:
        """How its constructor is called: with a "config", or with "arguments" (plain numbers)."""
        return "arguments" if self.constructor else "config"

    @property
    def takes_tokens(self) -> bool:
        """Whether forward takes ids (B, T) and perhaps targets, as a whole model does, and not vectors (B, T, C)."""
        return self.role == "gpt"

    def shapes(self, config: Mapping[str, int]) -> dict[str, Shape]:
        """Return the shape of each own tensor under `config`."""
        return {name: parse_shape(expression, config) for name, expression in self.parameters.items()}

    def arguments(self, config: Mapping[str, int]) -> dict[str, int]:
        """Return what its constructor is called with, by name and in the contract's order; nothing for a config."""
        return {name: parse_shape(expression, config)[0] for name, expression in self.constructor.items()}

    def in_bank_names(self, weights: Mapping[str, T]) -> dict[str, T]:
        """Return weights under the names that the bank of known mistakes has for the layers of this part."""
        named = {}
        for name, value in weights.items():
            layer = next((own for own in self.alike if name.startswith(f"{own}.")), "")
            named[self.alike[layer] + name.removeprefix(layer) if layer else name] = value
        return named

    def output_width(self, config: Mapping[str, int]) -> int:
        """Return the length of the last axis of what forward returns."""
        return parse_shape(self.width, config)[0]


@dataclass(frozen=True)
class Tables:
    """The tensors of the whole model that are looked up or compared by row; empty names where there are none."""

    tokens: str = ""
    positions: str = ""
    head: str = ""
    tied: bool = False  # whether table and head are one parameter

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(name for name in (self.tokens, self.positions, self.head) if name)

    @property
    def ends(self) -> tuple[str, ...]:
        """Where ids come in and logits go out."""
        return tuple(name for name in (self.tokens, self.head) if name)

    @property
    def shared(self) -> tuple[str, ...]:
        """The names under which a tensor is counted a second time."""
        return (self.tokens,) if self.tied else ()


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

    folder: str = ""  # where in solutions/ and exercises/ its files are
    tables: Tables = Tables()
    extras: tuple[str, ...] = ()  # files with an exercise that is not graded
    words: dict[str, str] = field(default_factory=dict)  # word of the checks' sentences -> what the course calls it

    @property
    def config_part(self) -> Part | None:
        """The part that is the configuration; None where classes take plain numbers."""
        return next((part for part in self.parts if part.role == "config"), None)

    def bank_knows_gradients(self, part: Part) -> bool:
        """Whether the bank has names for the tensors of `part`: a whole model's are known by its table and its head."""
        known = {"transformer.wte.weight", "lm_head.weight"}
        return not part.takes_tokens or known == set(part.in_bank_names(dict.fromkeys(self.tables.ends, "")))

    def in_words(self, sentence: str) -> str:
        """Return a sentence of a check in the words of the course: n_embd is n_embed in some."""
        if not self.words:
            return sentence
        known = "|".join(re.escape(word) for word in sorted(self.words, key=len, reverse=True))
        return re.sub(rf"(?<![\w.])(?:{known})(?!\w)", lambda found: self.words[found[0]], sentence)

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
    known = fields_of(config)
    return tuple(
        math.prod(int(word) if word.isdigit() else known[word] for word in side) for side in _factors(expression)
    )


@cache
def _factors(expression: str) -> tuple[tuple[str, ...], ...]:
    return tuple(tuple(word.strip() for word in side.split("*")) for side in expression.split(","))


def fields_of(config: Mapping[str, int]) -> dict[str, int]:
    """Return the fields of `config` and what follows from them: head_dim, the width of one head."""
    if config.get("n_head") and "n_embd" in config:
        return {**config, "head_dim": config["n_embd"] // config["n_head"]}
    return dict(config)


def load_track(name_or_path: str = DEFAULT) -> Track:
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
            role=entry.get("role", ""),
            constructor=dict(entry.get("constructor", {})),
            repeat=entry.get("repeat", "n_layer"),
            width=entry.get("width", "vocab_size" if entry.get("role", entry["name"]) == "gpt" else "n_embd"),
            mistakes=entry.get("mistakes", ""),
            alike=dict(entry.get("alike", {})),
            titles=dict(entry.get("titles", {})),
        )
        for entry in data["parts"]
    )
    return Track(
        data["name"],
        data["title"],
        data["single_file"],
        dict(data["config"]),
        tuple(part for part in parts if not part.optional),
        tuple(part for part in parts if part.optional),
        folder=data.get("folder", ""),
        tables=Tables(**data.get("tables", {})),
        extras=tuple(data.get("extras", ())),
        words=dict(data.get("words", {})),
    )
