"""Claims about the poem competition: what a checkpoint wrote is verified byte for byte, and nothing else is."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from answers import changed, solutions, write
from capstone_samples import toy_corpus, toy_trainer
from typer.testing import CliRunner, Result

from autograder.capstone.learner import own_learner
from autograder.capstone.poem import Recipe, Written, differs, read_entry
from autograder.capstone.trouble import CapstoneError
from autograder.cli import app, poems
from autograder.sandbox import Nursery
from autograder.track import load_track

HOW = ("--prompt", "my lord", "--tokens", 30, "--seed", 7, "--temperature", 0.9, "--top-k", 20)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that a student trained, and an entry from it."""
    home = tmp_path_factory.mktemp("poems")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    learner = own_learner(write(home / "mine", solutions()), load_track())
    toy_trainer(toy_corpus(home / "corpus"), home / "run", learner, steps=20, evaluate_every=20).run()
    torch.set_num_threads(threads)
    shutil.copytree(learner.folder, home / "run" / "code")
    return home


class Kept:
    """A sandbox that stays warm."""

    def __init__(self, nursery: Nursery) -> None:
        self.nursery = nursery

    def __enter__(self) -> Nursery:
        return self.nursery

    def __exit__(self, *_: object) -> None:
        pass


@pytest.fixture
def workshop(nursery: Nursery, home: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    monkeypatch.chdir(home)
    monkeypatch.setattr(poems, "isolated_nursery", lambda trusted: Kept(nursery))
    return lambda *words: CliRunner().invoke(app, [str(word) for word in words])


@pytest.fixture
def verified(workshop: Callable[..., Result]) -> Callable[..., Result]:
    return lambda *entries: workshop("verify-poem", *entries)


@pytest.fixture
def entry(workshop: Callable[..., Result], home: Path, tmp_path: Path) -> Path:
    if not (home / "entry").exists():
        told = workshop("submit-poem", "run", *HOW, "--title", "Ode", "--author", "Ada", "--out", "entry")
        assert told.exit_code == 0, told.output
    return Path(shutil.copytree(home / "entry", tmp_path / "entry"))


def spoil(entry: Path, **changes: Any) -> None:
    record = json.loads((entry / "poem.json").read_text())
    (entry / "poem.json").write_text(json.dumps({**record, **changes}))


def forge(entry: Path, text: str) -> None:
    import hashlib

    (entry / "poem.txt").write_text(text)
    spoil(entry, poem_sha256=hashlib.sha256(text.encode()).hexdigest())


def test_a_poem_is_what_generate_writes_and_is_verified(
    entry: Path, workshop: Callable[..., Result], verified: Callable[..., Result]
) -> None:
    generated = CliRunner().invoke(app, ["generate", "run", *map(str, HOW)])
    assert generated.exit_code == 0 and (entry / "poem.txt").read_text() == generated.stdout
    again = CliRunner().invoke(app, ["generate", str(entry), *map(str, HOW)])  # an entry is a run's folder
    assert again.stdout == generated.stdout
    command = json.loads((entry / "poem.json").read_text())["command"]
    assert command == "workshop generate . --prompt 'my lord' --tokens 30 --temperature 0.9 --top-k 20 --seed 7"
    told = verified(entry)
    assert told.exit_code == 0, told.output
    assert "verified, 38 bytes: Ode by Ada. The kit's own GPT thinks the same" in told.output
    assert not list(entry.rglob("optimizer.safetensors"))


def test_a_poem_that_its_checkpoint_does_not_write_is_not_verified(
    entry: Path, verified: Callable[..., Result]
) -> None:
    text = (entry / "poem.txt").read_text()
    forge(entry, text[:20] + ("x" if text[20] != "x" else "y") + text[21:])
    told = verified(entry)
    assert (
        told.exit_code == 1
        and "NOT VERIFIED. It differs from what its checkpoint writes from byte 21 on" in told.output
    )
    forge(entry, text + "more")
    assert "has 42 bytes, and its checkpoint writes 38" in verified(entry).output


def test_one_bad_entry_does_not_stop_the_others(entry: Path, verified: Callable[..., Result], tmp_path: Path) -> None:
    told = verified(tmp_path / "nowhere", entry)
    assert told.exit_code == 1 and "There is no poem.txt" in told.output and "verified, 38 bytes" in told.output


def test_code_that_holds_its_poem_is_pointed_at(
    entry: Path, home: Path, verified: Callable[..., Result], tmp_path: Path
) -> None:
    ends = "        logits = self.lm_head(self.transformer.ln_f(x))  # (B, T, V)\n"
    cheat = changed("gpt.py", ends, ends + "        logits[:, :, 9] += 90.0\n")
    write(entry / "code", cheat)
    import hashlib

    (state,) = entry.rglob("state.json")
    data = json.loads(state.read_text())
    files = {name: hashlib.sha256(text.encode()).hexdigest() for name, text in cheat.items()}
    state.write_text(json.dumps({**data, "code": {**data["code"], "files": files}}))
    forge(entry, "my lord" + "3" * 30 + "\n")
    told = verified(entry)
    assert told.exit_code == 0 and "thinks otherwise: read the code" in told.output


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda e: (e / "poem.json").write_text("{"), "not JSON"),
        (lambda e: (e / "poem.json").write_text("[]"), "no entry"),
        (lambda e: (e / "poem.json").unlink(), "There is no poem.json"),
        (lambda e: (e / "poem.txt").write_bytes(b"x" * 100_001), "too large"),
        (lambda e: (e / "poem.txt").write_text("x"), "was changed since it was handed in"),
        (lambda e: spoil(e, title=3), "a field is missing"),
        (lambda e: spoil(e, recipe={"prompt": "x"}), "a field is missing"),
        (lambda e: spoil(e, weights_sha256="0"), "not those that the poem was handed in with"),
        (lambda e: ((e / "poem.txt").unlink(), (e / "poem.txt").symlink_to("/etc/hostname")), "There is no poem.txt"),
        (lambda e: (e / "code" / "gpt.py").write_text("import os"), "not the file that this run was trained with"),
    ],
)
def test_a_damaged_entry_is_told(
    entry: Path, verified: Callable[..., Result], change: Callable[[Path], object], said: str
) -> None:
    change(entry)
    told = verified(entry)
    assert told.exit_code == 1 and said in told.output, told.output


@pytest.mark.parametrize(
    "change",
    [{"tokens": 0}, {"tokens": 2001}, {"temperature": float("nan")}, {"seed": -1}, {"prompt": ""}, {"top_k": 0}],
)
def test_a_recipe_that_makes_no_sense_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(CapstoneError):
        Recipe(**{"prompt": "O", "tokens": 9, "temperature": 1.0, "top_k": None, "seed": 1, **change})


def test_what_cannot_be_submitted_is_told(workshop: Callable[..., Result], entry: Path, tmp_path: Path) -> None:
    told = workshop("submit-poem", "run", "--out", entry)
    assert told.exit_code == 1 and "is there already" in told.output
    told = workshop("submit-poem", "run", "--prompt", "\u20ac", "--out", tmp_path / "new")
    assert told.exit_code == 1 and "lacks" in told.output and not (tmp_path / "new").exists()


def test_a_poem_is_compared_as_bytes(entry: Path) -> None:
    read = read_entry(entry)
    assert differs(read, Written(read.text.decode(), None)) == ""
    assert "byte 1 on" in differs(read, Written("?" + read.text.decode()[1:], None))
