"""`train` and `generate`: train the GPT of the running notebook under a live plot, and write with it."""

from __future__ import annotations

import time
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autograder.jupyter.cells import history
from autograder.jupyter.curve import loss_svg
from autograder.jupyter.gathering import gather
from autograder.jupyter.showing import Place, note, show
from autograder.reports.plain import clean
from autograder.track import load_track

if TYPE_CHECKING:
    from torch import nn

    from autograder.capstone.trainer import Progress
    from autograder.capstone.vocabulary import Vocabulary

#: Seconds between two pictures: a browser that draws more often slows the training.
REDRAW_S = 1.0
#: Characters of the sample under the curve.
SAMPLE = 160


def train(
    preset: str = "cpu",
    *,
    out: str | Path | None = None,
    resume: bool = False,
    overwrite: bool = False,
    optimizer: str = "muon",
    corpus: str | Path = Path("data") / "corpus",
    seed: int = 1337,
    device: str = "auto",
    proof: bool = True,
    **settings: Any,
) -> None:
    """Train the GPT of this notebook, as `workshop train` does: `train()`, `train("gpu")`, `train(steps=300)`.

    What is trained is the code of the cells that were run; a part that is not here is read from its own notebook in the
    same folder. Under the cell stand the loss curve and a sample, as it learns. The run is kept in `out` (default:
    runs/PRESET). Interrupting the kernel loses at most the steps since the last checkpoint: `train(resume=True)`.
    `settings` are those of the preset that should differ: steps, batch_size, block_size, rate, evaluate_every, ...
    """
    from autograder.capstone.learner import learner_of
    from autograder.capstone.processes import Processes
    from autograder.capstone.run import Order, prepare, refuse_device
    from autograder.capstone.trouble import CapstoneError

    track = load_track()
    said: list[str] = []
    place = Place()
    folder = Path(out) if out is not None else Path("runs") / preset

    def say(line: object) -> None:
        said.append(clean(line))
        place.put(_lines(said), said[-1])

    try:
        refuse_device(device, "auto")
        changes = _known(settings)
        gathered = gather(track, history(), Path.cwd())
        learner = learner_of(gathered.submission, "This notebook, with the files beside it,", track)
        order = Order(
            path=None,
            out=folder,
            corpus=Path(corpus),
            preset=preset,
            optimizer=optimizer,
            changes=changes,
            seed=seed,
            device=device,
            resume=resume,
            overwrite=overwrite,
            proof=proof,
            learner=learner,
        )
        prepared = prepare(order, Processes(), say)
        chosen = prepared.trainer.settings
        live = LivePlot(place, said, chosen.steps, prepared.corpus.vocabulary, chosen.block_size, seed)
        outcome = prepared.trainer.run(live)
    except CapstoneError as trouble:
        note(str(trouble))
        return
    except KeyboardInterrupt:
        sentence = "Interrupted. What was kept last stays: train(resume=True) goes on."
        note(sentence)
        return
    ended = "Stopped early: validation got no better." if outcome.reason == "stopped early" else "Finished."
    said.append(
        f"{ended} Best validation loss {outcome.best_loss:.4f} nats per character at step {outcome.best_step}; "
        f'{outcome.seconds:.0f} s. Write with it: generate("{folder.as_posix()}")'
    )
    live.draw(said[-1])


def generate(
    run: str | Path = Path("runs") / "cpu",
    prompt: str = "\n",
    tokens: int = 500,
    temperature: float = 0.8,
    top_k: int | None = None,
    seed: int = 0,
) -> None:
    """Write text with a model that was trained here: `generate("runs/cpu", "ROMEO:")`. Another seed, another text."""
    import torch

    from autograder.capstone.checkpoint import load, load_weights
    from autograder.capstone.learner import Code, kept_learner
    from autograder.capstone.poem import Recipe
    from autograder.capstone.sampling import sample
    from autograder.capstone.shelf import find_checkpoint
    from autograder.capstone.trouble import CapstoneError
    from autograder.capstone.vocabulary import Vocabulary

    try:
        how = Recipe(prompt or "\n", tokens, temperature, top_k, seed)
        found = find_checkpoint(Path(run))
        kept = load(found)
        vocabulary = Vocabulary(kept.vocabulary)
        ids = torch.from_numpy(vocabulary.encode(how.prompt))
        model = kept_learner(Code.from_json(kept.code), found.resolve().parent.parent, load_track()).build(
            kept.config, 0
        )
        load_weights(model, kept)
        drawn = sample(
            model, ids, tokens, kept.config["block_size"], temperature=temperature, top_k=top_k, seed=how.seed
        )
        text = clean(how.prompt.lstrip("\n") + vocabulary.decode(drawn), multiline=True)
    except CapstoneError as trouble:
        note(str(trouble))
        return
    show(f"<pre>{escape(text)}</pre>", text)


class LivePlot:
    """A watcher of the trainer: keeps the losses, and draws them under the cell now and then."""

    def __init__(
        self, place: Place, said: list[str], steps: int, vocabulary: Vocabulary, block_size: int, seed: int
    ) -> None:
        self._place, self._said, self._steps = place, said, steps
        self._vocabulary, self._block_size, self._seed = vocabulary, block_size, seed
        self._training: list[tuple[int, float]] = []
        self._validation: list[tuple[int, float]] = []
        self._sample, self._drawn = "", 0.0

    def stepped(self, progress: Progress) -> None:
        """Note a record; draw when the last picture is old enough."""
        self._training.append((progress.step, progress.loss))
        if time.monotonic() - self._drawn >= REDRAW_S:
            speed = f"{progress.tokens_per_second:,.0f} characters/s"
            self.draw(f"step {progress.step}/{progress.steps}, loss {progress.loss:.3f}, {speed}")

    def validated(self, step: int, loss: float, is_best: bool, model: nn.Module) -> None:
        """Note a validation, draw a sample, and show both."""
        import torch

        from autograder.capstone.sampling import sample

        self._validation.append((step, loss))
        first = torch.zeros(1, dtype=torch.int64)
        ids = sample(model, first, SAMPLE, self._block_size, seed=self._seed)
        self._sample = clean(self._vocabulary.decode(ids).strip("\n"), multiline=True)
        self.draw(f"step {step}/{self._steps}, validation {loss:.4f}{', best so far' if is_best else ''}")

    def draw(self, line: str) -> None:
        """Put the picture, what was said, and `line` in the cell's place."""
        self._drawn = time.monotonic()
        picture = loss_svg(self._training, self._validation, self._steps)
        lines = self._said if self._said and line == self._said[-1] else [*self._said, line]
        text = f"<pre>{escape(self._sample)}</pre>" if self._sample else ""
        self._place.put(f"{_lines(lines)}{picture}{text}", line)


def _lines(lines: list[str]) -> str:
    return "".join(f"<div>{escape(line)}</div>" for line in lines)


def _known(settings: dict[str, Any]) -> dict[str, Any]:
    """Return the settings that a run may change. Raises CapstoneError for others, and for other kinds of values."""
    from autograder.capstone.trouble import CapstoneError

    kinds: dict[str, Any] = dict.fromkeys(("steps", "batch_size", "block_size", "accumulate", "evaluate_every"), int)
    kinds["rate"] = (int, float)
    for name, value in settings.items():
        if name not in kinds:
            raise CapstoneError(f"train has no setting {name!a}; there are: {', '.join(kinds)}.")
        if not isinstance(value, kinds[name]) or isinstance(value, bool):
            raise CapstoneError(f"{name} is a number, not {value!r:.40}.")
    return settings
