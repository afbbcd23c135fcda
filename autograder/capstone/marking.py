"""What a trained model is worth: budgets and thresholds by preset, from the track file's section `[capstone]`."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from importlib import resources

from autograder.capstone.trouble import CapstoneError


@dataclass(frozen=True)
class Scale:
    """The scale of one preset."""

    preset: str
    parameters: int  # trained values, at most
    characters: int  # seen in training, at most: steps x batch x context
    levels: tuple[tuple[float, float], ...]  # (nats per character, points), the best first

    @property
    def max_points(self) -> float:
        return self.levels[0][1]

    def points(self, loss: float) -> float:
        """Return the points for a validation loss in nats per character: those of the best level that it reaches."""
        return next((points for bound, points in self.levels if loss <= bound), 0.0)

    def next_level(self, loss: float) -> tuple[float, float] | None:
        """Return the nearest level that `loss` does not reach; None at the top."""
        missed = [level for level in self.levels if loss > level[0]]
        return missed[-1] if missed else None


def load_scale(preset: str, track: str = "gpt") -> Scale:
    """Return the scale of `preset`. Raises CapstoneError when the track has none."""
    text = (resources.files("autograder") / "tracks" / f"{track}.toml").read_text(encoding="utf-8")
    scales = tomllib.loads(text).get("capstone", {})
    if preset not in scales:
        raise CapstoneError(f"There is no preset {preset[:40]!a} with a scale; there are: {', '.join(scales)}.")
    entry = scales[preset]
    levels = tuple((float(level["loss"]), float(level["points"])) for level in entry["levels"])
    return Scale(preset, int(entry["parameters"]), int(entry["characters"]), levels)
