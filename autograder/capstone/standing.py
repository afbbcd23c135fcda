"""A standing: one trained model with its loss and points, as a file of the grader's own, and the order of many."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from autograder import __version__
from autograder.capstone.corpus import Corpus
from autograder.capstone.evaluation import Measured, characters_seen, over_budget, remarks
from autograder.capstone.handed_over import HandedOver
from autograder.capstone.marking import Scale
from autograder.capstone.trouble import CapstoneError, disk_trouble

FORMAT = "gpt-workshop-evaluation"
SCHEMA = 1
#: A file of ours has some 2 kB.
_MAX_BYTES = 1_000_000


@dataclass(frozen=True)
class Standing:
    """What the evaluation of one model found. Plain data, in JSON beside the grades."""

    name: str
    preset: str
    points: float
    max_points: float
    loss: float | None  # nats per character; None: it could not be evaluated
    bits: float | None  # bits per character
    characters: int  # validated on
    compared: int
    parameters: int
    seen: int  # characters in training, as recorded
    step: int
    refused: str = ""  # why there is no loss, or why it counts for nothing
    remarks: tuple[str, ...] = ()
    as_reference: bool | None = None
    corpus: str = ""  # where the text comes from
    corpus_sha256: str = ""
    weights_sha256: str = ""
    files: dict[str, str] = field(default_factory=dict)  # the code: path -> SHA-256
    seed: int = 0
    isolation: dict[str, Any] = field(default_factory=dict)
    kit: str = __version__


def standing_of(
    name: str, handed: HandedOver, measured: Measured, scale: Scale, corpus: Corpus, **more: Any
) -> Standing:
    """Return the standing of a measured model: points only within the budget, on the corpus of its training."""
    refused = over_budget(handed, scale)
    if handed.checkpoint.corpus.get("sha256") != corpus.provenance.sha256:
        refused = (
            refused or "It was trained on another corpus than it was evaluated on: the loss is compared with nobody."
        )
    return Standing(
        name=name,
        preset=scale.preset,
        points=0.0 if refused else scale.points(measured.loss),
        max_points=scale.max_points,
        loss=measured.loss,
        bits=measured.bits,
        characters=measured.characters,
        compared=measured.compared,
        parameters=handed.parameters,
        seen=characters_seen(handed),
        step=handed.checkpoint.step,
        refused=refused,
        remarks=remarks(handed, measured),
        as_reference=measured.as_reference,
        corpus=corpus.provenance.source,
        corpus_sha256=corpus.provenance.sha256,
        weights_sha256=handed.weights_sha256,
        files=handed.submission.files,
        **more,
    )


def refused_standing(name: str, preset: str, max_points: float, reason: str, **more: Any) -> Standing:
    """Return the standing of what could not be evaluated."""
    return Standing(name, preset, 0.0, max_points, None, None, 0, 0, 0, 0, 0, refused=reason, **more)


def ranked(standings: Iterable[Standing]) -> list[tuple[int | None, Standing]]:
    """Return the standings with their ranks: by preset, those that count first, by loss; equal losses share a rank."""
    ordered = sorted(
        standings,
        key=lambda s: (s.preset, bool(s.refused), math.inf if s.loss is None else s.loss, s.name.casefold(), s.name),
    )
    rows: list[tuple[int | None, Standing]] = []
    for place, standing in enumerate(ordered):
        before = rows[-1] if rows and rows[-1][1].preset == standing.preset else None
        first = next(i for i, other in enumerate(ordered) if other.preset == standing.preset)
        rank: int | None = place - first + 1
        if before is not None and before[1].loss == standing.loss:
            rank = before[0]
        rows.append((None if standing.refused else rank, standing))
    return rows


def write_standing(standing: Standing, path: Path) -> None:
    """Write `standing` to `path`, whole or not at all. Raises CapstoneError (a full disk)."""
    text = json.dumps({"format": FORMAT, "schema": SCHEMA, **asdict(standing)}, indent=1, allow_nan=False) + "\n"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        beside = path.with_name(f".{path.name}.part")
        with beside.open("w", encoding="ascii") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        beside.replace(path)
    except OSError as error:
        raise disk_trouble(str(path), error) from error


def read_standing(path: Path) -> Standing:
    """Read what `write_standing` wrote. Raises CapstoneError for anything else."""
    try:
        if path.stat().st_size > _MAX_BYTES:
            raise CapstoneError(f"{path} is too large for an evaluation: {_MAX_BYTES:,} bytes are read at most.")
        data = json.loads(path.read_bytes())
    except OSError as error:
        raise CapstoneError(f"{path} cannot be read: {error.strerror or error}.") from error
    except (ValueError, RecursionError) as error:
        raise CapstoneError(f"{path} is damaged: it is not JSON. Evaluate the run again.") from error
    if not isinstance(data, dict) or data.pop("format", None) != FORMAT:
        raise CapstoneError(f"{path} is no evaluation: name files that `workshop evaluate --out` wrote.")
    if data.pop("schema", None) != SCHEMA:
        raise CapstoneError(f"{path} was written by another version of this kit: evaluate the run again.")
    kinds: dict[str, Any] = {
        "str": str,
        "int": int,
        "float": (int, float),
        "float | None": (int, float, type(None)),
        "bool | None": (bool, type(None)),
        "tuple[str, ...]": list,
        "dict[str, str]": dict,
        "dict[str, Any]": dict,
    }
    known = {entry.name: kinds[str(entry.type)] for entry in fields(Standing)}
    if set(data) != set(known) or not all(isinstance(data[name], kind) for name, kind in known.items()):
        raise CapstoneError(f"{path} is damaged: a field is missing or of another kind. Evaluate the run again.")
    numbers = [data["points"], data["max_points"], data["loss"] or 0.0, data["bits"] or 0.0]
    if not all(abs(value) < 1e9 for value in numbers) or not all(isinstance(text, str) for text in data["remarks"]):
        raise CapstoneError(f"{path} is damaged: its numbers make no sense. Evaluate the run again.")
    return Standing(**{**data, "remarks": tuple(data["remarks"])})


def find_standings(places: Sequence[Path]) -> list[Path]:
    """Return the files that `places` name: themselves, or the .json files in a folder. Raises CapstoneError if none."""
    found: list[Path] = []
    for place in places:
        if not place.exists():
            raise CapstoneError(f"{place} is not there: name files or a folder that `workshop evaluate --out` wrote.")
        found += (
            sorted(entry for entry in place.glob("*.json") if not entry.name.startswith("."))
            if place.is_dir()
            else [place]
        )
    if not found:
        raise CapstoneError(f"There is no evaluation in {places[0]}: make some with `workshop evaluate RUN --out DIR`.")
    return list(dict.fromkeys(found))
