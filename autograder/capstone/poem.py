"""A poem of the competition: a text, the checkpoint that wrote it, and exactly how, so that anybody can write it again.

    ENTRY/poem.txt       what `workshop generate` printed
    ENTRY/poem.json      prompt, tokens, temperature, top-k and seed; title and author; SHA-256 of poem and weights
    ENTRY/checkpoints/   the checkpoint, without what is needed to train on
    ENTRY/code/          the model's code

An entry is a run's folder too: `workshop generate ENTRY` writes with it.
"""

from __future__ import annotations

import hashlib
import json
import math
import shlex
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from autograder import __version__
from autograder.capstone.checkpoint import MODEL, STATE
from autograder.capstone.evaluation import UNMOVED, moved, reference_log_probabilities
from autograder.capstone.handed_over import HandedOver
from autograder.capstone.learner import CODE
from autograder.capstone.sampling import sample_by
from autograder.capstone.sandboxed import SandboxedModel
from autograder.capstone.shelf import FOLDER
from autograder.capstone.trouble import CapstoneError, disk_trouble
from autograder.capstone.vocabulary import Vocabulary
from autograder.sandbox import Nursery
from autograder.track import Track

FORMAT, SCHEMA = "gpt-workshop-poem", 1
TEXT, RECORD = "poem.txt", "poem.json"
#: Characters of a poem: each is a question to the sandbox.
MAX_TOKENS = 2_000
MAX_PROMPT, MAX_NAME = 500, 100
_MAX_BYTES = 100_000
#: Contexts in which the kit's own GPT is asked as well.
_COMPARED = 64


@dataclass(frozen=True)
class Recipe:
    """How a poem is written. Raises CapstoneError for what cannot be."""

    prompt: str
    tokens: int
    temperature: float
    top_k: int | None
    seed: int

    def __post_init__(self) -> None:
        """Refuse, with a sentence, what no poem can be written with."""
        if not 1 <= len(self.prompt) <= MAX_PROMPT:
            raise CapstoneError(f"A prompt has 1 to {MAX_PROMPT} characters, not {len(self.prompt):,}.")
        if not 1 <= self.tokens <= MAX_TOKENS:
            raise CapstoneError(f"A poem has 1 to {MAX_TOKENS:,} characters after its prompt.")
        if not (math.isfinite(self.temperature) and 0 <= self.temperature <= 100):
            raise CapstoneError("The temperature is a number from 0 to 100.")
        if not 0 <= self.seed < 2**63 or (self.top_k is not None and not 1 <= self.top_k <= 10**6):
            raise CapstoneError("The seed is a number from 0, and top-k one from 1.")

    @property
    def command(self) -> str:
        """The command that writes the poem, in the folder of the entry."""
        top_k = [] if self.top_k is None else ["--top-k", str(self.top_k)]
        words = ["workshop", "generate", ".", "--prompt", self.prompt, "--tokens", str(self.tokens)]
        return shlex.join([*words, "--temperature", str(self.temperature), *top_k, "--seed", str(self.seed)])


@dataclass(frozen=True)
class Written:
    """A poem as the sandbox wrote it."""

    text: str
    as_reference: bool | None  # whether the kit's own GPT with these weights thinks the same; None: no solutions here


@dataclass(frozen=True)
class Entry:
    """What somebody hands in. All text in it is theirs."""

    title: str
    author: str
    recipe: Recipe
    text: bytes
    weights_sha256: str


def write_poem(handed: HandedOver, recipe: Recipe, track: Track, nursery: Nursery) -> Written:
    """Write the poem: the model's code runs in the sandbox, in float64, and the characters are drawn here.

    Float64 so that another machine, which adds up in another order, draws the same. Raises CapstoneError.
    """
    vocabulary = Vocabulary(handed.checkpoint.vocabulary)
    prompt = torch.from_numpy(vocabulary.encode(recipe.prompt))
    block_size = handed.checkpoint.config["block_size"]
    asked: list[tuple[Tensor, Tensor]] = []
    with SandboxedModel(handed, track, nursery, dtype="float64") as model:

        def ask(context: Tensor) -> Tensor:
            logits = model.logits(context)[0, -1]  # (V)
            if len(asked) < _COMPARED:
                asked.append((context, logits))
            return logits

        drawn = sample_by(
            ask,
            prompt,
            recipe.tokens,
            block_size,
            temperature=recipe.temperature,
            top_k=recipe.top_k,
            seed=recipe.seed,
        )
        text = vocabulary.decode(drawn)
    opening = "" if recipe.prompt == "\n" else recipe.prompt
    return Written(f"{opening}{text}\n", _as_reference(handed, track, asked))


def save_entry(entry: Entry, handed: HandedOver, folder: Path) -> None:
    """Write an entry into a fresh `folder`, whole or not at all. Raises CapstoneError when it exists, or no room is."""
    if folder.exists():
        raise CapstoneError(f"{folder} is there already: name another with --out.")
    beside = folder.with_name(f".{folder.name}.part")
    record = {
        "format": FORMAT,
        "schema": SCHEMA,
        "kit": __version__,
        "title": entry.title,
        "author": entry.author,
        "recipe": asdict(entry.recipe),
        "command": entry.recipe.command,
        "poem_sha256": hashlib.sha256(entry.text).hexdigest(),
        "weights_sha256": entry.weights_sha256,
    }
    try:
        shutil.rmtree(beside, ignore_errors=True)
        place = beside / FOLDER / f"step-{handed.checkpoint.step:06}"
        place.mkdir(parents=True)
        for name in (MODEL, STATE):
            shutil.copyfile(handed.place / name, place / name)
        if handed.checkpoint.code.get("kind") != "reference":  # an entry may be shown to students
            for name, data in handed.submission.tree.items():
                (beside / CODE / name).parent.mkdir(parents=True, exist_ok=True)
                (beside / CODE / name).write_bytes(data)
        (beside / TEXT).write_bytes(entry.text)
        (beside / RECORD).write_text(json.dumps(record, indent=1) + "\n", encoding="ascii")
        beside.replace(folder)
    except OSError as error:
        shutil.rmtree(beside, ignore_errors=True)
        raise disk_trouble(f"The entry {folder}", error) from error


def read_entry(folder: Path) -> Entry:
    """Read an entry, believing nothing. Raises CapstoneError when something is missing or senseless."""
    wrong = f"{folder / RECORD} is damaged"
    text, record = _bytes(folder / TEXT), _bytes(folder / RECORD)
    try:
        data: Any = json.loads(record)
    except (ValueError, RecursionError) as error:
        raise CapstoneError(f"{wrong}: it is not JSON.") from error
    if not isinstance(data, dict) or data.get("format") != FORMAT or data.get("schema") != SCHEMA:
        raise CapstoneError(f"{folder / RECORD} is no entry that this kit's `workshop submit-poem` wrote.")
    recipe = data.get("recipe")
    kinds: dict[str, Any] = {
        "prompt": str,
        "tokens": int,
        "temperature": (int, float),
        "top_k": (int, type(None)),
        "seed": int,
    }
    if (
        not isinstance(recipe, dict)
        or set(recipe) != set(kinds)
        or not all(
            isinstance(recipe[name], kind) and not isinstance(recipe[name], bool) for name, kind in kinds.items()
        )
        or not all(isinstance(data.get(name), str) for name in ("title", "author", "weights_sha256", "poem_sha256"))
    ):
        raise CapstoneError(f"{wrong}: a field is missing or of another kind.")
    if hashlib.sha256(text).hexdigest() != data["poem_sha256"]:
        raise CapstoneError(f"{folder / TEXT} was changed since it was handed in: its SHA-256 is not the recorded one.")
    return Entry(data["title"][:MAX_NAME], data["author"][:MAX_NAME], Recipe(**recipe), text, data["weights_sha256"])


def differs(entry: Entry, written: Written) -> str:
    """Return where the poem differs from what its checkpoint writes; empty when it is the same byte for byte."""
    again = written.text.encode()
    if again == entry.text:
        return ""
    place = next((i for i, (a, b) in enumerate(zip(entry.text, again, strict=False)) if a != b), None)
    if place is None:
        return (
            f"It has {len(entry.text):,} bytes, and its checkpoint writes {len(again):,}, the same as far as both go."
        )
    handed_in, wrote = (text[place : place + 20].decode("utf-8", "replace") for text in (entry.text, again))
    return f"It differs from what its checkpoint writes from byte {place + 1} on: {handed_in!r} there, {wrote!r} here."


def _as_reference(handed: HandedOver, track: Track, asked: list[tuple[Tensor, Tensor]]) -> bool | None:
    for context, said in asked[:: max(1, len(asked) // 8)]:
        ours = reference_log_probabilities(handed, track, context)
        if ours is None:
            return None
        if float(moved(said.double().log_softmax(-1)[None, None], ours[:, -1:]).max()) > UNMOVED:
            return False
    return True


def _bytes(path: Path) -> bytes:
    try:
        if not path.is_file() or path.is_symlink():
            raise CapstoneError(f"There is no {path.name} in {path.parent}: name what `workshop submit-poem` wrote.")
        with path.open("rb") as stream:
            data = stream.read(_MAX_BYTES + 1)
    except OSError as error:
        raise CapstoneError(f"{path} cannot be read: {error.strerror or error}.") from error
    if len(data) > _MAX_BYTES:
        raise CapstoneError(f"{path} is too large for a poem: at most {_MAX_BYTES:,} bytes are read.")
    return data
