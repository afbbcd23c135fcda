"""Draw the guide's pictures from measured.json, choices.json and formulas: `python workshop_guide/site/draw.py`."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))  # run as a script or loaded by a test: svg.py lies beside it
from svg import COLOURS, GREY, INK, WIDTH, Axis, Line, bars, chart, picture, words

HERE = Path(__file__).resolve().parent
PICTURES = HERE.parent / "pictures"
#: nats per character, with 65 characters: what a loss means. All but the first and the last were counted on the corpus:
#: frequencies of the training part, one added to each count (a tenth where two or more letters are given), used on the
#: rest.
MEANINGS = (
    (math.log(65), "nothing: every character is as likely as any other (ln 65)"),
    (3.34, "how frequent each character is"),
    (2.48, "what follows the last character"),
    (2.03, "what follows the last two"),
    (1.77, "what follows the last three"),
    (1.53, "what a small GPT finds in 64 characters (the preset cpu, 2,000 steps)"),
)


def drawn() -> dict[str, str]:
    """Return every picture: file name -> SVG."""
    measured = json.loads((HERE / "measured.json").read_text(encoding="utf-8"))
    runs = measured["curves"]
    return {
        "windows.svg": _windows(),
        "learning-rate.svg": _learning_rate(),
        "optimizers.svg": _optimizers(runs["muon"], runs["adamw"]),
        "by-heart.svg": _by_heart(runs["short"]),
        "temperature.svg": _temperature(measured),
        "loop.svg": _loop(),
        "losses.svg": _losses(),
        "choices.svg": _choices(json.loads((HERE / "choices.json").read_text(encoding="utf-8"))["runs"]),
    }


def _windows() -> str:
    """A batch: each row a window, its targets one character later."""
    rows = ("First Citizen:", "you, good sir,", "speak, speak. ")
    body = [
        words(20, 26, "x, what the model reads"),
        words(340, 26, "y, what it is asked for: the same, one character later"),
    ]
    for number, text in enumerate(rows):
        top = 42 + 46 * number
        for left, window, colour in ((20, text[:12], COLOURS[0]), (340, text[1:13], COLOURS[1])):
            for place, character in enumerate(window):
                x = left + 23 * place
                body.append(
                    f'<rect x="{x}" y="{top}" width="22" height="26" fill="none" stroke="{colour}" stroke-width="1.4"/>'
                )
                body.append(words(x + 11, top + 18, character, "middle", more=' font-family="monospace"'))
    body.append(words(20, 196, "B = 3 rows, drawn at random places of the text; T = 12 characters each"))
    return picture("A batch of three windows, and their targets one character later", body, height=212)


def _learning_rate() -> str:
    highest, lowest, warmup, last = 1e-3, 1e-4, 100, 2000

    def rate(step: int) -> float:
        if step < warmup:
            return highest * (step + 1) / (warmup + 1)
        if step > last:
            return lowest
        return lowest + (highest - lowest) * (1 + math.cos(math.pi * (step - warmup) / (last - warmup))) / 2

    points = [(float(step), 1000 * rate(step)) for step in range(0, 2301, 10)]
    across = Axis("step", 0, 2300, (0, 500, 1000, 1500, 2000))
    up = Axis("learning rate, thousandths", 0, 1.1, (0, 0.25, 0.5, 0.75, 1.0))
    return chart(
        "The learning rate: a line up, half a cosine down, a floor", across, up, [Line("learning rate", points)]
    )


def _optimizers(muon: dict[str, Any], adamw: dict[str, Any]) -> str:
    across = Axis("step", 0, 400, (0, 100, 200, 300, 400))
    up = Axis("validation loss, nats", 1.6, 2.8, (1.6, 1.8, 2.0, 2.2, 2.4, 2.6, 2.8))
    lines = [Line("Muon and AdamW", muon["validation"]), Line("AdamW alone", adamw["validation"], dashed=True)]
    return chart("Validation loss of two optimizers over 400 steps", across, up, lines)


def _by_heart(short: dict[str, Any]) -> str:
    across = Axis("step", 0, 500, (0, 100, 200, 300, 400, 500))
    up = Axis("loss, nats", 0, 4.5, (0, 1, 2, 3, 4))
    lines = [Line("training", short["training"]), Line("validation", short["validation"], dashed=True)]
    return chart("On 20,000 characters the training loss falls while the validation loss climbs", across, up, lines)


def _temperature(measured: dict[str, Any]) -> str:
    rows = [{" ": "space", "\n": "newline"}.get(character, character) for character in measured["next"]["1.0"]]
    columns = [(f"temperature {name}", list(shares.values())) for name, shares in measured["next"].items()]
    return bars("What a model says about the next character, at three temperatures", rows, columns)


def _loop() -> str:
    """Generation: crop, ask, choose, append, again."""
    steps = ("the last T tokens", "model", "logits at the end", "/ temperature, top-k", "softmax, draw")
    body, left = [], 14
    for number, step in enumerate(steps):
        body.append(f'<rect x="{left}" y="44" width="108" height="44" rx="6" fill="none" stroke="{COLOURS[0]}"/>')
        body.append(words(left + 54, 70, step, "middle", more=' font-size="11"'))
        if number < len(steps) - 1:
            body.append(f'<path d="M{left + 109} 66h13m-5 -4l5 4l-5 4" fill="none" stroke="{INK}" stroke-width="1.4"/>')
        left += 125
    body.append(f'<path d="M568 90V126H68V94m-4 5l4 -5l4 5" fill="none" stroke="{COLOURS[1]}" stroke-width="1.6"/>')
    body.append(words(320, 120, "append the new token, and ask again", "middle", COLOURS[1]))
    body.append(words(14, 26, "One turn of the loop makes one token."))
    return picture("The loop of generation: crop, ask, choose, append, and again", body, height=144)


def _losses() -> str:
    """A scale of losses, and what a model knows at each."""
    body = [words(14, 24, "loss, nats a character"), words(150, 24, "the model knows")]
    for number, (loss, meaning) in enumerate(MEANINGS):
        y = 48 + 30 * number
        body.append(f'<path d="M110 {y}H140" stroke="{GREY}" stroke-width="2"/>')
        body.append(f'<circle cx="110" cy="{y}" r="5" fill="{COLOURS[0]}"/>')
        body += [words(92, y + 5, f"{loss:.2f}", "end"), words(150, y + 5, meaning)]
    body.insert(2, f'<path d="M110 48V{48 + 30 * (len(MEANINGS) - 1)}" stroke="{COLOURS[0]}" stroke-width="2"/>')
    return picture("What a loss means", body, height=220)


def _choices(runs: list[dict[str, Any]]) -> str:
    """The loss of each choice beside that of the gpt track, and how far two seeds of that are apart."""
    low, high, left, top = 2.33, 2.38, 190, 52

    def x(loss: float) -> float:
        return left + (loss - low) / (high - low) * (WIDTH - left - 130)

    seeds = sorted(x(run["loss"]) for run in runs[:2])
    tall = 30 * len(runs)
    body = [
        words(14, 24, "validation loss after 300 steps, nats a character; to the left is better"),
        f'<rect x="{seeds[0]:.1f}" y="{top - 16}" width="{seeds[1] - seeds[0]:.1f}" height="{tall}" fill="{GREY}"/>',
    ]
    for number, run in enumerate(runs):
        y, colour = top + 30 * number, COLOURS[1] if number == len(runs) - 1 else COLOURS[0]
        body.append(f'<path d="M{left} {y}H{WIDTH - 130}" stroke="{GREY}" stroke-width="1"/>')
        body.append(f'<circle cx="{x(run["loss"]):.1f}" cy="{y}" r="6" fill="{colour}"/>')
        body += [
            words(left - 12, y + 5, run["name"], "end"),
            words(WIDTH - 118, y + 5, f"{run['loss']:.3f}"),
            words(WIDTH - 14, y + 5, f"{run['parameters']:,}", "end"),
        ]
    body.append(
        words(14, top + tall + 6, "grey: how far two seeds of the same model are apart; right: loss, parameters")
    )
    return picture("What each choice does to the loss of a small model", body, height=top + tall + 20)


if __name__ == "__main__":
    PICTURES.mkdir(exist_ok=True)
    for name, svg in drawn().items():
        (PICTURES / name).write_text(svg, encoding="utf-8")
