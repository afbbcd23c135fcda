"""What each choice of the two tracks costs in parameters and in loss: eight short runs of the capstone's trainer.

    python benchmarks/track_choices.py "the machine, in words" [--steps 300] [--corpus DIR] [--out FILE]

Starts from the gpt track's model and changes one thing at a time, then trains the foundations track's model: the same
batches, optimizer and schedule for all, AdamW for every tensor, one thread. The first model is trained from a second
seed too: what differs by no more than that says nothing. Losses are nats per character, over all of the validation
text. Writes workshop_guide/site/choices.json, of which workshop_guide/site/draw.py makes the guide's picture. A run is
about a minute; losses, unlike seconds, do not depend on what else the machine does.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib
import json
import math
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from bench_capstone import read_corpus
from measure import ROOT, SOLUTIONS
from torch import Tensor, nn
from torch.nn import functional as F

from autograder.capstone import CORPUS
from autograder.capstone.experiments import Variant, run_variant
from autograder.capstone.learner import INITIAL_STD, Learner, reference_learner
from autograder.capstone.presets import Settings, load_preset
from autograder.track import load_track

#: What is trained, and on what: small enough for a minute on one thread.
SIZES = {"n_layer": 4, "n_head": 4, "n_embd": 128, "block_size": 64, "batch_size": 12}
SEED, OTHER_SEED = 1337, 1338
DROPOUT = 0.1
RESULTS = ROOT / "workshop_guide" / "site" / "choices.json"


@dataclass(frozen=True)
class Choice:
    """A model to train: which track's, and what is changed in it."""

    name: str
    track: str = "gpt"
    change: Callable[[nn.Module], None] = lambda model: None
    dropout: float = 0.0
    seed: int = SEED


class ReluMLP(nn.Module):
    """The MLP of the gpt track with ReLU between its layers: (B, T, C) -> (B, T, C)."""

    def __init__(self, mlp: Any) -> None:
        super().__init__()
        self.c_fc, self.c_proj = mlp.c_fc, mlp.c_proj

    def forward(self, x: Tensor) -> Tensor:
        """Return c_proj(relu(c_fc(x)))."""
        hidden: Tensor = self.c_proj(F.relu(self.c_fc(x)))
        return hidden


class Waves(nn.Module):
    """Positions that are computed, not learned: sines and cosines (Vaswani et al. 2017, section 3.5)."""

    table: Tensor

    def __init__(self, length: int, width: int) -> None:
        super().__init__()
        rates = torch.exp(torch.arange(0, width, 2) * (-math.log(10_000.0) / width))
        angles = torch.arange(length)[:, None] * rates  # (T, C / 2)
        waves = torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)  # (T, C)
        self.register_buffer("table", waves * INITIAL_STD * math.sqrt(2))  # as large as a learned table is at first

    def forward(self, position: Tensor) -> Tensor:
        """Return the rows of `position` (T): (T, C)."""
        return self.table[position]


def relu(model: Any) -> None:
    """Put ReLU in the place of GELU."""
    for block in model.transformer["h"]:
        block.mlp = ReluMLP(block.mlp)


def own_head(model: Any) -> None:
    """Give the head a matrix of its own, and a bias."""
    vocab, width = model.lm_head.weight.shape
    model.lm_head = nn.Linear(width, vocab)
    nn.init.normal_(model.lm_head.weight, 0.0, INITIAL_STD)
    nn.init.zeros_(model.lm_head.bias)


def no_biases(model: Any) -> None:
    """Take the biases of queries, keys and values away."""
    for block in model.transformer["h"]:
        block.attn.c_attn.bias = None


def waves(model: Any) -> None:
    """Compute the positions instead of learning them."""
    model.transformer["wpe"] = Waves(*model.transformer["wpe"].weight.shape)


CHOICES = (
    Choice("gpt, as it is"),
    Choice("gpt, another seed", seed=OTHER_SEED),
    Choice("ReLU", change=relu),
    Choice("a head of its own", change=own_head),
    Choice("no q, k, v biases", change=no_biases),
    Choice("dropout 0.1", dropout=DROPOUT),
    Choice("positions as waves", change=waves),
    Choice("foundations, as it is", track="foundations"),
)


@dataclass(frozen=True)
class Changed:
    """A learner whose models are changed after they were built."""

    learner: Learner
    change: Callable[[nn.Module], None]

    def build(self, config: dict[str, int], seed: int) -> nn.Module:
        model = self.learner.build(config, seed)
        self.change(model)
        return model


def settings_of(steps: int) -> Settings:
    """Return what all runs share."""
    base = load_preset("cpu", "adamw").settings
    given: dict[str, Any] = {"steps": steps, "warmup": max(1, steps // 20), "evaluate_every": max(1, steps // 10)}
    return dataclasses.replace(base, **SIZES, **given, seed=SEED, threads=1)


def _converter() -> ModuleType:
    """Return our convert.py; its modules, which have names that others have too, are forgotten again."""
    before = set(sys.modules)
    sys.path.insert(0, str(SOLUTIONS / "foundations"))
    try:
        convert = importlib.import_module("convert")
        importlib.import_module("transformer")
    finally:
        sys.path.pop(0)
        for name in {path.stem for path in (SOLUTIONS / "foundations").glob("*.py")} - before:
            sys.modules.pop(name, None)
    return convert


def same_numbers(vocab_size: int) -> float:
    """Return how far logits are apart when the foundations model's weights are put into fused tensors (convert.py)."""
    convert = _converter()
    sizes = {"n_head": SIZES["n_head"], "n_embed": SIZES["n_embd"], "context_length": SIZES["block_size"]}
    torch.manual_seed(SEED)
    mine = convert.Transformer(**sizes, vocab_size=vocab_size, N_BLOCKS=SIZES["n_layer"])
    fused = convert.GPTStyle(**sizes, vocab_size=vocab_size, N_BLOCKS=SIZES["n_layer"])
    fused.load_state_dict(convert.to_gpt(mine.state_dict()))
    idx = torch.randint(vocab_size, (4, SIZES["block_size"]))
    with torch.no_grad():
        return float((mine(idx)[0] - fused(idx)).abs().max())


def main(arguments: Sequence[str] | None = None) -> None:
    """Train every choice and write down what came out."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("machine", help="the machine, in words")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--corpus", type=Path, default=CORPUS)
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    corpus = read_corpus(options.corpus)
    training, validation = corpus.split()
    settings, vocab_size = settings_of(options.steps), len(corpus.vocabulary)
    rows = []
    for choice in CHOICES:
        learner: Any = Changed(reference_learner(load_track(choice.track)), choice.change)
        own = dataclasses.replace(settings, seed=choice.seed)
        curve = run_variant(
            learner, Variant(choice.name, 0.0, own, training, validation, vocab_size, dropout=choice.dropout)
        )
        points = [(point.step, round(point.validation, 4)) for point in curve.points]
        loss = None if curve.loss is None else round(curve.loss, 4)
        rows.append({"name": choice.name, "parameters": curve.parameters, "loss": loss, "validation": points})
        print(f"{choice.name:24} {curve.parameters:>9,} parameters   loss {loss}   {curve.seconds:.0f} s", flush=True)
    apart = same_numbers(vocab_size)
    print(f"Heads apart or fused, mask kept or made anew: logits differ by at most {apart:.1e}")
    found = {
        "machine": options.machine,
        "torch": torch.__version__,
        "command": f"python benchmarks/track_choices.py --steps {options.steps}",
        "settings": settings.to_json(),
        "corpus": corpus.provenance.sha256,
        "logits_apart": apart,
        "runs": rows,
    }
    text = re.sub(r"\[\s+([\d.]+),\s+([\d.]+)\s+\]", r"[\1, \2]", json.dumps(found, indent=1))  # a point on one line
    options.out.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
