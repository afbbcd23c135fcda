"""What a seed fixes for a whole class: numbers that are drawn, and answers of the reference to them, are kept."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from torch import Tensor

from autograder.oracle.cases import TABLES, Config, Draws, Sizes
from autograder.oracle.expected import Expected
from autograder.oracle.reference import Reference
from autograder.track import Part, Shape, Track

T = TypeVar("T")

#: A grading draws some 300 tensors and asks for some 100 answers. Odd submissions may ask for others: those past this
#: are drawn and computed anew each time, so that memory does not grow with a class.
MOST = 2000


class Memory:
    """The hidden numbers of one seed and what is right under them, for many submissions, in one process."""

    def __init__(self, seed: int) -> None:
        self.draws = KeptDraws(seed)
        self._lock = threading.Lock()
        self._references: dict[tuple[str, ...], Reference] = {}

    def reference(self, track: Track) -> Reference:
        """Return the reference of a track, or of some parts of it; made once."""
        key = (track.name, *(part.name for part in track.parts))
        with self._lock:
            if key not in self._references:
                self._references[key] = KeptAnswers(track, self.draws)
            return self._references[key]


class KeptDraws(Draws):
    """Draws whose numbers are made once: whoever asks again gets the same tensors. They are not to be written to."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self._kept: dict[tuple[object, ...], Any] = {}
        self._tensors: dict[int, Tensor] = {}

    def drew(self, tensor: Tensor) -> bool:
        """Whether this very tensor was drawn here, and is as it was."""
        return self._tensors.get(id(tensor)) is tensor and tensor._version == 0

    def sizes(self, purpose: str, **fixed: int) -> Sizes:
        """As Draws."""
        sizes = self._once(("sizes", purpose, *fixed.items()), lambda: super(KeptDraws, self).sizes(purpose, **fixed))
        return replace(sizes, config=dict(sizes.config))

    def normal(self, purpose: str, shape: Shape, scale: float = 1.0) -> Tensor:
        """As Draws."""
        key = ("normal", purpose, *shape, scale)
        return self._tensor(key, lambda: super(KeptDraws, self).normal(purpose, shape, scale))

    def tokens(self, purpose: str, shape: Shape, vocab_size: int) -> Tensor:
        """As Draws."""
        key = ("tokens", purpose, *shape, vocab_size)
        return self._tensor(key, lambda: super(KeptDraws, self).tokens(purpose, shape, vocab_size))

    def weights(
        self, purpose: str, shapes: Mapping[str, Shape], scale: float = 1.0, *, tables: Collection[str] = TABLES
    ) -> dict[str, Tensor]:
        """As Draws."""
        key = ("weights", purpose, *shapes.items(), scale, *tables)
        drawn = self._once(key, lambda: super(KeptDraws, self).weights(purpose, shapes, scale, tables=tables))
        if any(value._version for value in drawn.values()):
            drawn = super().weights(purpose, shapes, scale, tables=tables)
        elif key in self._kept:
            self._tensors.update((id(value), value) for value in drawn.values())
        return dict(drawn)

    def _tensor(self, key: tuple[object, ...], draw: Callable[[], Tensor]) -> Tensor:
        drawn = self._once(key, draw)
        if drawn._version:  # written to after all
            return draw()
        if key in self._kept:
            self._tensors[id(drawn)] = drawn
        return drawn

    def _once(self, key: tuple[object, ...], draw: Callable[[], T]) -> T:
        found: T | None = self._kept.get(key)
        if found is None:
            found = draw()
            if len(self._kept) < MOST:
                found = self._kept.setdefault(key, found)  # another thread may have been first
        return found


class KeptAnswers(Reference):
    """The reference of a track, which computes once what is asked of it again and again."""

    def __init__(self, track: Track, draws: KeptDraws) -> None:
        super().__init__(track)
        self._kept_draws = draws
        self._known: dict[tuple[object, ...], Expected] = {}

    def evaluate(
        self,
        part: Part,
        config: Config,
        weights: Mapping[str, Tensor],
        inputs: Mapping[str, Tensor],
        *,
        stand_ins: bool = True,
        cotangent: Tensor | None = None,
        loss: bool = False,
    ) -> Expected:
        """As Reference."""
        how: dict[str, Any] = {"stand_ins": stand_ins, "cotangent": cotangent, "loss": loss}
        given = {**weights, **{f"input.{name}": value for name, value in inputs.items()}}
        if cotangent is not None:
            given["cotangent"] = cotangent
        if not all(self._kept_draws.drew(value) for value in given.values()):
            return super().evaluate(part, config, weights, inputs, **how)
        names = ((name, id(value)) for name, value in given.items())
        key = (part.name, *config.values(), stand_ins, loss, *names)
        found = self._known.get(key)
        if found is None:
            found = super().evaluate(part, config, weights, inputs, **how)
            if len(self._known) < MOST:
                self._known[key] = found
        return Expected(found.outputs, dict(found.gradients))
