"""Claims about checkpoints: they come back bit for bit, survive a kill at any moment, and nothing in them runs."""

from __future__ import annotations

import errno
import json
import os
import pickle
import random
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from capstone_samples import toy_learner

from autograder.capstone import checkpoint as files
from autograder.capstone.checkpoint import Checkpoint, load, load_weights, save, validation_loss_of
from autograder.capstone.nested import put_together, random_state, restore_random_state, take_apart
from autograder.capstone.shelf import Shelf, find_checkpoint
from autograder.capstone.trouble import CapstoneError
from autograder.capstone.vocabulary import SHAKESPEARE

CONFIG = {"vocab_size": 65, "block_size": 8, "n_layer": 1, "n_head": 2, "n_embd": 8}


def sample(step: int = 10, loss: float | None = 2.5) -> Checkpoint:
    model = toy_learner().build(CONFIG, seed=step)
    progress = {"optimizers": [{"state": {0: {"step": torch.tensor(3.0)}}, "groups": [{"betas": (0.9, 0.95)}]}]}
    corpus = {"sha256": "ab"}
    return Checkpoint(CONFIG, SHAKESPEARE, corpus, step, loss, {"seed": 1}, {}, model.state_dict(), progress)


def edit(place: Path, change: Callable[[dict[str, Any]], None]) -> None:
    state = json.loads((place / "state.json").read_text(encoding="ascii"))
    change(state)
    (place / "state.json").write_text(json.dumps(state), encoding="ascii")


def test_a_checkpoint_comes_back_bit_for_bit(tmp_path: Path) -> None:
    made = sample()
    save(made, tmp_path / "c")
    found = load(tmp_path / "c", to_resume=True)
    assert replace(found, weights={}) == replace(made, weights={})
    assert all(torch.equal(found.weights[name], tensor) for name, tensor in made.weights.items())
    assert set(found.weights) == set(made.weights)


def test_weights_are_read_without_the_optimizers_file(tmp_path: Path) -> None:
    save(sample(), tmp_path / "c")
    (tmp_path / "c" / "optimizer.safetensors").unlink()
    model = toy_learner().build(CONFIG, seed=99)
    load_weights(model, load(tmp_path / "c"))
    assert torch.equal(model.state_dict()["lm_head.weight"], sample().weights["lm_head.weight"])
    with pytest.raises(CapstoneError, match=r"optimizer\.safetensors is missing"):
        load(tmp_path / "c", to_resume=True)


# Killed while writing


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks, to be killed at each of its system calls")
def test_a_kill_at_any_moment_leaves_a_whole_checkpoint(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path)
    shelf.put(sample(1), best_step=1)
    second = sample(2)
    survived = []
    for moment in range(1, 200):
        if _put_and_die(shelf, second, moment):
            break
        last = load(shelf.last(), to_resume=True)
        survived.append(last.step)
        if last.step == 2:
            files.remove(shelf.place(2))
            shelf.put(sample(1), best_step=1)
    else:
        pytest.fail("saving never came to its end")
    assert set(survived) == {1, 2}  # it was killed before the new one was there, and after
    assert shelf.steps() == [2] and [path.name for path in shelf.folder.iterdir()] == ["step-000002"]


def _put_and_die(shelf: Shelf, made: Checkpoint, moment: int) -> bool:
    """Put `made` on the shelf in a process that dies at its n-th touch of the file system; tell whether it lived."""
    child = os.fork()
    if child == 0:
        left = moment

        def die(event: str, _: tuple[Any, ...]) -> None:
            nonlocal left
            if event.startswith(("open", "os.", "shutil.")):
                left -= 1
                if not left:
                    os._exit(1)

        sys.addaudithook(die)
        shelf.put(made, best_step=2)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_full_disk_is_said_and_leaves_the_last_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shelf = Shelf(tmp_path)
    shelf.put(sample(1), best_step=1)

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(CapstoneError, match="The disk is full"):
        shelf.put(sample(2), best_step=1)
    assert [path.name for path in shelf.folder.iterdir()] == ["step-000001"]
    assert load(shelf.last()).step == 1


# The shelf


def test_the_last_and_the_best_are_kept(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path)
    for step, loss, best in ((1, 3.0, 1), (2, 2.0, 2), (3, 2.5, 2), (4, None, 2)):
        shelf.put(sample(step, loss), best)
    assert shelf.steps() == [2, 4]
    assert shelf.last() == shelf.place(4) and shelf.best() == shelf.place(2)
    assert find_checkpoint(tmp_path) == shelf.place(2)
    assert find_checkpoint(shelf.place(4)) == shelf.place(4)
    assert find_checkpoint(shelf.place(4) / "model.safetensors") == shelf.place(4)


def test_an_empty_run_has_no_checkpoint(tmp_path: Path) -> None:
    (tmp_path / "checkpoints").mkdir()
    for ask in (Shelf(tmp_path).last, Shelf(tmp_path).best):
        with pytest.raises(CapstoneError, match="There is no checkpoint"):
            ask()


# What is refused


def test_a_truncated_file_is_refused(tmp_path: Path) -> None:
    save(sample(), tmp_path / "c")
    whole = (tmp_path / "c" / "model.safetensors").read_bytes()
    for length in (0, 4, 100, len(whole) - 1):
        (tmp_path / "c" / "model.safetensors").write_bytes(whole[:length])
        with pytest.raises(CapstoneError, match="cut short or damaged"):
            load(tmp_path / "c")


def test_weights_that_were_changed_are_refused(tmp_path: Path) -> None:
    save(sample(), tmp_path / "c")
    path = tmp_path / "c" / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-1] + b"\x01")
    with pytest.raises(CapstoneError, match="was changed since"):
        load(tmp_path / "c")


class Bomb:
    """A pickle that leaves a mark when it is opened."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Any, ...]:
        return (Path.touch, (self.mark,))


def test_a_pickle_is_never_opened_wherever_it_is_put(tmp_path: Path) -> None:
    mark = tmp_path / "it ran"
    torch.save(Bomb(mark), tmp_path / "model.pt")
    (tmp_path / "state.bin").write_bytes(pickle.dumps(Bomb(mark)))
    save(sample(), tmp_path / "c")
    torch.save(Bomb(mark), tmp_path / "c" / "model.safetensors")
    for path in (tmp_path / "model.pt", tmp_path / "state.bin", tmp_path / "c"):
        with pytest.raises(CapstoneError, match="looks like a pickle"):
            load(find_checkpoint(path))
    (tmp_path / "c" / "state.json").write_bytes(pickle.dumps(Bomb(mark)))
    with pytest.raises(CapstoneError, match="not JSON"):
        load(tmp_path / "c")
    assert not mark.exists()


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("format", "other", "not a checkpoint of this kit"),
        ("schema", 99, "another version"),
        ("config", [], "config is missing or no dict"),
        ("step", "3", "step is missing or no int"),
        ("step", -1, "step or its list of files"),
        ("files", {}, "list of files"),
        ("validation_loss", "low", "validation_loss"),
        ("vocabulary", "ba", "vocabulary in .* is wrong"),
        ("vocabulary", "ab", "vocab_size is 65, and the vocabulary has 2"),
        ("config", {**CONFIG, "n_layer": 10**9}, "n_layer must be a number from 1 to 256"),
        ("config", {**CONFIG, "n_embd": True}, "n_embd must be"),
        ("config", {**CONFIG, "dropout": 1}, "there is no 'dropout'"),
        ("config", {}, "vocab_size must be"),
    ],
)
def test_a_wrong_state_is_refused_with_the_reason(tmp_path: Path, key: str, value: object, said: str) -> None:
    save(sample(), tmp_path / "c")
    edit(tmp_path / "c", lambda state: state.update({key: value}))
    with pytest.raises(CapstoneError, match=said):
        load(tmp_path / "c")


@pytest.mark.parametrize("text", ["", "{", "[]", "[" * 100_000, "\xff"])
def test_a_state_that_is_no_json_object_is_refused(tmp_path: Path, text: str) -> None:
    save(sample(), tmp_path / "c")
    (tmp_path / "c" / "state.json").write_bytes(text.encode("latin-1"))
    with pytest.raises(CapstoneError, match=r"state\.json"):
        load(tmp_path / "c")


def test_files_that_are_too_large_or_no_files_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save(sample(), tmp_path / "c")
    monkeypatch.setattr(files, "MAX_TENSORS", 100)
    with pytest.raises(CapstoneError, match="at most 100 are read"):
        load(tmp_path / "c")
    (tmp_path / "c" / "state.json").unlink()
    (tmp_path / "c" / "state.json").mkdir()
    with pytest.raises(CapstoneError, match="cannot be read"):
        load(tmp_path / "c")
    with pytest.raises(CapstoneError, match="There is no checkpoint at"):
        load(tmp_path / "nowhere")


def test_a_device_in_place_of_a_file_is_refused(tmp_path: Path) -> None:
    if not Path("/dev/zero").exists():
        pytest.skip("this system has no /dev/zero")
    save(sample(), tmp_path / "c")
    (tmp_path / "c" / "state.json").unlink()
    (tmp_path / "c" / "state.json").symlink_to("/dev/zero")
    with pytest.raises(CapstoneError, match="not a regular file"):
        load(tmp_path / "c")


@pytest.mark.parametrize(
    "progress",
    [{"$tensor": "none"}, {"$other": 1}, {"a": 1, "b": 2}, {"$tuple": 1}, {"$entries": [[1]]}, {"$entries": [[[], 1]]}],
)
def test_a_damaged_optimizer_state_is_refused(tmp_path: Path, progress: dict[str, Any]) -> None:
    save(sample(), tmp_path / "c")
    edit(tmp_path / "c", lambda state: state.update(progress=progress))
    with pytest.raises(CapstoneError, match="state is damaged"):
        load(tmp_path / "c", to_resume=True)


def test_weights_of_another_model_are_refused_by_name(tmp_path: Path) -> None:
    made = sample()
    larger = toy_learner().build({**CONFIG, "n_embd": 16}, seed=1)
    with pytest.raises(CapstoneError, match=r"has the shape \(65, 8\) in the checkpoint and \(65, 16\)"):
        load_weights(larger, made)
    deeper = toy_learner().build({**CONFIG, "n_layer": 2}, seed=1)
    with pytest.raises(CapstoneError, match=r"lacks 'transformer\.h\.1"):
        load_weights(deeper, made)
    model = toy_learner().build(CONFIG, seed=1)
    with pytest.raises(CapstoneError, match="holds 'extra', which the model does not have"):
        load_weights(model, replace(made, weights={**made.weights, "extra": torch.zeros(1)}))


def test_the_validation_loss_is_read_without_tensors(tmp_path: Path) -> None:
    save(sample(loss=1.25), tmp_path / "a")
    save(sample(loss=None), tmp_path / "b")
    for name in ("a", "b"):
        (tmp_path / name / "model.safetensors").unlink()
    assert validation_loss_of(tmp_path / "a") == 1.25
    assert validation_loss_of(tmp_path / "b") == float("inf")


# Nested state


def test_only_plain_things_are_kept() -> None:
    with pytest.raises(TypeError, match="which a checkpoint cannot"):
        take_apart({"a": [Path()]}, "p", {})
    tensors: dict[str, torch.Tensor] = {}
    tree = {1: (1.5, None, [torch.ones(2)]), "b": {"c": True}}
    back = put_together(json.loads(json.dumps(take_apart(tree, "p", tensors))), tensors)
    assert back[1][0] == 1.5 and torch.equal(back[1][2][0], torch.ones(2)) and back["b"] == {"c": True}


def test_every_random_generator_goes_on_where_it_was() -> None:
    def draw() -> list[float]:
        return [float(torch.rand(())), float(np.random.rand()), random.random(), float(np.random.randn())]

    draw()
    tensors: dict[str, torch.Tensor] = {}
    state = json.loads(json.dumps(take_apart(random_state(), "p", tensors)))
    expected = draw()
    restore_random_state(put_together(state, tensors))
    assert draw() == expected
    with pytest.raises(CapstoneError, match="random state is damaged"):
        restore_random_state({"torch": 1})
