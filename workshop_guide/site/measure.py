"""Gather the numbers behind the guide's pictures from three short runs into measured.json.

In a fresh folder R, about six minutes on two cores in all:

    workshop data
    head -c 20000 data/corpus/input.txt > R/short.txt
    workshop data --file R/short.txt --out R/short-corpus
    workshop train --reference --steps 400 --evaluate-every 50 --out R/muon
    workshop train --reference --steps 400 --evaluate-every 50 --optimizer adamw --out R/adamw
    workshop train --reference --steps 500 --evaluate-every 25 --corpus R/short-corpus --out R/short
    python workshop_guide/site/measure.py R "the machine, in words"
    python workshop_guide/site/draw.py
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch

from autograder.capstone.checkpoint import load, load_weights
from autograder.capstone.learner import reference_learner
from autograder.capstone.shelf import find_checkpoint
from autograder.capstone.vocabulary import Vocabulary
from autograder.track import load_track

HERE = Path(__file__).resolve().parent
PROMPT = "ROMEO:\nWhat is m"
TEMPERATURES = (0.5, 1.0, 1.5)


def curves(run: Path) -> dict[str, list[tuple[int, float]]]:
    """Return training and validation losses of a run, each with its step."""
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    return {
        "training": [(row["step"], round(row["loss"], 4)) for row in rows if "loss" in row],
        "validation": [(row["step"], round(row["validation_loss"], 4)) for row in rows if "validation_loss" in row],
    }


def next_character(run: Path) -> dict[str, dict[str, float]]:
    """Return what a run's best model says about the character after PROMPT: temperature -> character -> probability."""
    kept = load(find_checkpoint(run))
    vocabulary = Vocabulary(kept.vocabulary)
    model = reference_learner(load_track()).build(kept.config, 0)
    load_weights(model, kept)
    model.eval()
    with torch.no_grad():
        logits = model(torch.from_numpy(vocabulary.encode(PROMPT))[None])[0][0, -1]  # (V)
    likeliest = logits.topk(8).indices
    return {
        str(temperature): {
            vocabulary.decode([int(number)]): round(float((logits / temperature).softmax(dim=-1)[number]), 5)
            for number in likeliest
        }
        for temperature in TEMPERATURES
    }


def main() -> None:
    runs, machine = Path(sys.argv[1]), sys.argv[2]
    measured = {
        "machine": machine,
        "torch": torch.__version__,
        "curves": {name: curves(runs / name) for name in ("muon", "adamw", "short")},
        "prompt": PROMPT,
        "next": next_character(runs / "muon"),
    }
    text = json.dumps(measured, ensure_ascii=False)
    (HERE / "measured.json").write_text(text.replace("]], ", "]],\n").replace("}, ", "},\n") + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
