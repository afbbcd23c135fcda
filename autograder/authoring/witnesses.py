"""Witnesses: our solutions, changed from outside, so that checks ask all that they may ask about a student's work.

What a check asks the oracle depends on the submission: whether stand-ins can be put in, whether names have to be found,
what has to be diagnosed. Each witness takes one of those ways.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from autograder.track import Part, Track


def witnesses(track: Track, solutions: Mapping[str, str]) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield (name, file -> text) of each witness. `solutions` are the texts of the reference."""
    yield "plain", dict(solutions)
    yield "leaking", _appended(track, solutions, _leaking)
    yield "reaching", _appended(track, solutions, _reaching)
    yield "renamed", _appended(track, solutions, _renamed)


def _appended(track: Track, solutions: Mapping[str, str], change: Callable[[Part], str]) -> dict[str, str]:
    return {part.file: solutions[part.file] + change(part) for part in track.parts}


def _leaking(part: Part) -> str:
    """Let every layer without sub-parts see the future: what leaks is diagnosed."""
    if part.uses or part.role == "config":
        return ""
    return (
        f"\n\nclass {part.class_name}({part.class_name}):\n"
        "    def forward(self, x):\n"
        "        y = super().forward(x)\n"
        "        return y + y.mean(dim=1, keepdim=True)\n"
    )


def _reaching(part: Part) -> str:
    """Let parts look into their sub-parts, where stand-ins hold nothing: they are then compared as a whole."""
    if not part.uses:
        return ""
    looks = "".join(
        f"        next(self.get_submodule({path.replace('{i}', '0')!r}).children())\n" for path in part.uses
    )
    return (
        f"\n\nclass {part.class_name}({part.class_name}):\n"
        f"    def forward(self, *inputs, **named):\n{looks}"
        "        return super().forward(*inputs, **named)\n"
    )


def _renamed(part: Part) -> str:
    """Keep every layer under another name: the numbers are right, and the correspondence has to be found."""
    if part.role == "config" or not part.parameters:
        return ""
    layers = list(dict.fromkeys(name.split(".")[0] for name in part.parameters))
    moves = "".join(f"        self.own_{layer} = self._modules.pop({layer!r})\n" for layer in layers)
    takes = ", ".join(part.constructor or ["config"])
    reads = "".join(
        f"    {layer} = property(lambda self: self._modules.get('own_{layer}', self._modules.get({layer!r})))\n"
        for layer in layers
    )
    return (
        f"\n\nclass {part.class_name}({part.class_name}):\n{reads}\n"
        f"    def __init__(self, {takes}):\n        super().__init__({takes})\n{moves}"
    )
