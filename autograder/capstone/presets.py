"""Presets and settings: all numbers that decide how a run goes, read from a data file and kept in each checkpoint."""

from __future__ import annotations

import dataclasses
import tomllib
from dataclasses import dataclass
from importlib import resources
from typing import Any

from autograder.capstone.trouble import CapstoneError

OPTIMIZERS = ("muon", "adamw")
#: The functions of the student's training.py; rates and expectation are AdamW's.
OWN = "own"
DECAYS = ("linear", "cosine")


@dataclass(frozen=True)
class Settings:
    """Everything that decides how a run goes. The same settings, code, corpus and machine give the same weights."""

    preset: str
    n_layer: int
    n_head: int
    n_embd: int
    block_size: int
    batch_size: int  # sequences a step, over all processes and micro-batches
    accumulate: int  # micro-batches that a step is computed in: less memory, same gradient
    steps: int
    warmup: int
    decay: str
    final_share: float
    clip: float
    evaluate_every: int
    patience: int
    optimizer: str
    rate: float
    matrix_rate: float
    weight_decay: float
    seed: int = 1337
    device: str = "cpu"
    precision: str = "fp32"  # fp32 or bf16 (autocast)
    compile: bool = False
    threads: int = 0  # on the CPU; 0: not decided yet
    own: str = ""  # functions of the student's training.py that the run uses, joined by commas

    def __post_init__(self) -> None:
        """Refuse, with a sentence, what cannot be trained with."""
        counts = ("n_layer", "n_head", "n_embd", "block_size", "batch_size", "accumulate", "steps", "evaluate_every")
        for name in counts:
            if getattr(self, name) < 1:
                raise CapstoneError(f"{name} must be at least 1, not {getattr(self, name)}.")
        if self.n_embd % self.n_head:
            raise CapstoneError(f"n_embd = {self.n_embd} does not split into n_head = {self.n_head} equal heads.")
        if self.batch_size % self.accumulate:
            raise CapstoneError(f"batch_size = {self.batch_size} does not split into {self.accumulate} equal parts.")
        if not (self.rate > 0 and self.matrix_rate >= 0 and self.weight_decay >= 0 and self.clip > 0):
            raise CapstoneError("Learning rate and clip must be above 0, weight decay at least 0.")
        if (
            self.optimizer not in (*OPTIMIZERS, OWN)
            or self.decay not in DECAYS
            or self.precision not in ("fp32", "bf16")
        ):
            raise CapstoneError(f"The settings are wrong: {self.optimizer!a}, {self.decay!a}, {self.precision!a}.")

    def config(self, vocab_size: int) -> dict[str, int]:
        """Return the fields of the GPTConfig of this run."""
        sizes = {"block_size": self.block_size, "n_layer": self.n_layer, "n_head": self.n_head, "n_embd": self.n_embd}
        return {"vocab_size": vocab_size, **sizes}

    def to_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    @staticmethod
    def from_json(data: dict[str, Any]) -> Settings:
        """Return the settings in a checkpoint. Raises CapstoneError when they are none."""
        kinds = {field.name: str(field.type) for field in dataclasses.fields(Settings)}
        fits = {"int": int, "float": (int, float), "str": str, "bool": bool}
        if set(data) != set(kinds) or not all(isinstance(data[name], fits[kind]) for name, kind in kinds.items()):  # type: ignore[arg-type]
            raise CapstoneError("The settings in the checkpoint are damaged, or from another version of this kit.")
        return Settings(**data)


@dataclass(frozen=True)
class Preset:
    """Settings, and what to expect of them on the default corpus."""

    settings: Settings
    title: str
    expected_loss: float  # nats per character, over all validation characters
    basis: str  # "measured ...", "estimate": where the expectation comes from
    seconds: int  # on the machine that the title names


def preset_names() -> list[str]:
    """Return the names of the presets, in the order of the file."""
    return list(_presets())


def load_preset(name: str, optimizer: str = "muon") -> Preset:
    """Return the preset called `name` with the rates for `optimizer`. Raises CapstoneError when there is none."""
    presets = _presets()
    if name not in presets:
        raise CapstoneError(f"There is no preset {name!a}; there are: {', '.join(presets)}.")
    entry = dict(presets[name])
    rates = {known: entry.pop(known) for known in OPTIMIZERS}
    if optimizer not in (*OPTIMIZERS, OWN):
        raise CapstoneError(f"There is no optimizer {optimizer!a}; there are: {', '.join((*OPTIMIZERS, OWN))}.")
    chosen = dict(rates["adamw" if optimizer == OWN else optimizer])
    title, seconds = entry.pop("title"), entry.pop("seconds")
    loss, basis = chosen.pop("expected_loss"), chosen.pop("basis")
    return Preset(Settings(preset=name, optimizer=optimizer, **entry, **chosen), title, loss, basis, seconds)


def _presets() -> dict[str, dict[str, Any]]:
    source = resources.files("autograder") / "capstone" / "presets.toml"
    return tomllib.loads(source.read_text(encoding="utf-8"))
