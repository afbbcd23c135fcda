"""A checkpoint: a folder of safetensors and one JSON file. Whole or not there; nothing in it is ever unpickled.

    step-000250/model.safetensors       the weights, under the contract's names
    step-000250/optimizer.safetensors   what is needed to go on: the optimizers' and the random generators' tensors
    step-000250/state.json              the rest, and the SHA-256 of both files

It is written beside its place, flushed to the disk and renamed: a kill at any moment leaves the last whole one.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import shutil
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from autograder import __version__
from autograder.capstone.nested import put_together, take_apart
from autograder.capstone.trouble import CapstoneError, disk_trouble
from autograder.capstone.vocabulary import Vocabulary

FORMAT = "gpt-workshop-checkpoint"
SCHEMA = 1
MODEL, OPTIMIZER, STATE = "model.safetensors", "optimizer.safetensors", "state.json"

#: Bytes. State is a few kB with the random generators'; GPT-2 XL with both moments would have 19 GB: not a workshop's.
MAX_STATE, MAX_TENSORS = 16 * 1024**2, 4 * 1024**3
#: No model of a workshop is larger, and building one from a hostile number must not take the machine down.
MAX_CONFIG = {"vocab_size": 1_000_000, "block_size": 65_536, "n_layer": 256, "n_head": 256, "n_embd": 16_384}

#: nats per character; a whole number beyond a float's range would be an error of its own.
LARGEST_LOSS = 10**9

#: How the files begin that torch.save and pickle write.
_PICKLES = (b"PK\x03\x04", b"\x80")
_PICKLE_NAMES = (".pt", ".pth", ".pkl", ".pickle", ".ckpt", ".bin")


@dataclass(frozen=True)
class Checkpoint:
    """A model in training, at the end of a step."""

    config: dict[str, int]
    vocabulary: str
    corpus: dict[str, Any]  # its provenance, with its SHA-256
    step: int
    validation_loss: float | None  # nats per character, over all validation characters; None: not measured
    settings: dict[str, Any]  # how it is trained, in JSON
    code: dict[str, Any]  # whose classes these are: the files, each with its SHA-256
    weights: dict[str, Tensor]
    progress: dict[str, Any] = field(default_factory=dict)  # optimizers, random generators; empty when not read


def save(checkpoint: Checkpoint, place: Path) -> None:
    """Write `checkpoint` to the folder `place`, whole or not at all. Raises CapstoneError (a full disk)."""
    beside = place.with_name(f".{place.name}.part")
    try:
        shutil.rmtree(beside, ignore_errors=True)
        beside.mkdir(parents=True)
        tensors: dict[str, Tensor] = {}
        progress = take_apart(checkpoint.progress, "progress", tensors)
        files = {
            MODEL: _write_tensors(beside / MODEL, checkpoint.weights),
            OPTIMIZER: _write_tensors(beside / OPTIMIZER, tensors),
        }
        state = {
            "format": FORMAT,
            "schema": SCHEMA,
            "kit": __version__,
            "torch": torch.__version__,
            "step": checkpoint.step,
            "validation_loss": checkpoint.validation_loss,
            "config": checkpoint.config,
            "vocabulary": checkpoint.vocabulary,
            "corpus": checkpoint.corpus,
            "settings": checkpoint.settings,
            "code": checkpoint.code,
            "files": files,
            "progress": progress,
        }
        _write(beside / STATE, (json.dumps(state, indent=1) + "\n").encode("ascii"))
        _flush_folder(beside)
        if place.exists():
            remove(place)
        beside.replace(place)
        _flush_folder(place.parent)
    except OSError as error:
        shutil.rmtree(beside, ignore_errors=True)  # gives a full disk its room back
        raise disk_trouble(f"The checkpoint {place}", error) from error


def load(place: Path, *, to_resume: bool = False) -> Checkpoint:
    """Read the checkpoint in `place`; its `progress` only when `to_resume`. Raises CapstoneError, with nothing run."""
    _refuse_pickle(place)
    if not place.is_dir():
        raise CapstoneError(f"There is no checkpoint at {place}: name the folder of a run, or of a checkpoint in it.")
    state = _read_state(place / STATE)
    weights = _read_tensors(place / MODEL, state["files"][MODEL])
    progress: dict[str, Any] = {}
    if to_resume:
        tensors = _read_tensors(place / OPTIMIZER, state["files"][OPTIMIZER])
        progress = put_together(state["progress"], tensors)
    told = ("config", "vocabulary", "corpus", "step", "validation_loss", "settings", "code")
    return Checkpoint(**{name: state[name] for name in told}, weights=weights, progress=progress)


def validation_loss_of(place: Path) -> float:
    """Return the validation loss that `place` tells, nats per character, infinite if unmeasured. Reads no tensors."""
    loss = _read_state(place / STATE)["validation_loss"]
    return float(loss) if loss is not None and loss == loss else math.inf


def remove(place: Path) -> None:
    """Remove a checkpoint. It is renamed first, so that half of it is never taken for a whole one."""
    doomed = place.with_name(f".{place.name}.old")
    shutil.rmtree(doomed, ignore_errors=True)
    place.rename(doomed)
    shutil.rmtree(doomed, ignore_errors=True)


def load_weights(model: torch.nn.Module, checkpoint: Checkpoint) -> None:
    """Put the weights into `model`. Raises CapstoneError naming the first tensor that does not fit."""
    own = model.state_dict()
    for name, tensor in own.items():
        if name not in checkpoint.weights:
            raise CapstoneError(f"The checkpoint lacks {name!a}: it was trained with other classes.")
        if checkpoint.weights[name].shape != tensor.shape:
            found, wanted = tuple(checkpoint.weights[name].shape), tuple(tensor.shape)
            raise CapstoneError(f"{name!a} has the shape {found} in the checkpoint and {wanted} in the model.")
    if extra := sorted(set(checkpoint.weights) - set(own)):
        raise CapstoneError(f"The checkpoint holds {extra[0]!a}, which the model does not have.")
    model.load_state_dict(checkpoint.weights)


def _read_state(path: Path) -> dict[str, Any]:
    damaged = f"{path} is damaged"
    try:
        state = json.loads(_read(path, MAX_STATE))
    except (ValueError, RecursionError) as error:
        raise CapstoneError(f"{damaged}: it is not JSON.") from error
    if not isinstance(state, dict) or state.get("format") != FORMAT:
        raise CapstoneError(f"{path} is not a checkpoint of this kit.")
    if state.get("schema") != SCHEMA:
        raise CapstoneError(f"{path} was written by another version of this kit ({str(state.get('kit'))[:20]!a}).")
    kinds: dict[str, type] = dict.fromkeys(("config", "corpus", "settings", "code", "files", "progress"), dict)
    kinds |= {"vocabulary": str, "step": int}
    for name, kind in kinds.items():
        if not isinstance(state.get(name), kind):
            raise CapstoneError(f"{damaged}: its {name} is missing or no {kind.__name__}.")
    loss = state.get("validation_loss", "")
    if not isinstance(loss, float | int | None) or (isinstance(loss, int) and abs(loss) > LARGEST_LOSS):
        raise CapstoneError(f"{damaged}: its validation_loss is missing or no number.")
    if state["step"] < 0 or not {MODEL, OPTIMIZER} <= set(state["files"]):
        raise CapstoneError(f"{damaged}: its step or its list of files is wrong.")
    _check_config(state["config"], state["vocabulary"], path)
    return state


def _check_config(config: Mapping[str, Any], vocabulary: str, path: Path) -> None:
    wrong = f"The config in {path} is wrong"
    for name, largest in MAX_CONFIG.items():
        value = config.get(name)
        if type(value) is not int or not 1 <= value <= largest:
            raise CapstoneError(f"{wrong}: {name} must be a number from 1 to {largest:,}.")
    if extra := sorted(set(config) - set(MAX_CONFIG)):
        raise CapstoneError(f"{wrong}: there is no {str(extra[0])[:40]!a}.")
    try:
        size = len(Vocabulary(vocabulary))
    except ValueError as error:
        raise CapstoneError(f"The vocabulary in {path} is wrong: {error}.") from error
    if size != config["vocab_size"]:
        raise CapstoneError(f"{wrong}: vocab_size is {config['vocab_size']}, and the vocabulary has {size} characters.")


def _read_tensors(path: Path, digest: object) -> dict[str, Tensor]:
    from safetensors import SafetensorError
    from safetensors.torch import load as parse

    data = _read(path, MAX_TENSORS)
    if data.startswith(_PICKLES):  # a safetensors file begins with the length of its header
        raise _pickle(path)
    try:
        tensors: dict[str, Tensor] = parse(data)
    except (SafetensorError, KeyError, ValueError) as error:
        raise CapstoneError(f"{path} is cut short or damaged: it is not a whole safetensors file.") from error
    if hashlib.sha256(data).hexdigest() != digest:
        raise CapstoneError(f"{path} was changed since it was written: its SHA-256 is not the one in {STATE}.")
    return tensors


def _read(path: Path, limit: int) -> bytes:
    try:
        with path.open("rb") as stream:
            info = os.fstat(stream.fileno())
            if not stat.S_ISREG(info.st_mode):
                raise CapstoneError(f"{path} is not a regular file.")
            if info.st_size > limit:
                raise CapstoneError(f"{path} has {info.st_size:,} bytes; at most {limit:,} are read.")
            return stream.read(limit + 1)
    except FileNotFoundError:
        raise CapstoneError(f"{path.parent} is not a whole checkpoint: {path.name} is missing.") from None
    except OSError as error:
        raise CapstoneError(f"{path} cannot be read: {error.strerror or error}.") from error


def _refuse_pickle(path: Path) -> None:
    if path.is_file():
        with path.open("rb") as stream:
            begins = stream.read(4)
        if path.suffix in _PICKLE_NAMES or begins.startswith(_PICKLES):
            raise _pickle(path)


def _pickle(path: Path) -> CapstoneError:
    return CapstoneError(
        f"{path} looks like a pickle (torch.save writes those). Opening one runs whatever code is in it, so this kit "
        "never does. Save weights with safetensors, or train with `workshop train`."
    )


def _write_tensors(path: Path, tensors: Mapping[str, Tensor]) -> str:
    from safetensors.torch import save as serialise

    # Copies: safetensors refuses tensors that share memory, as the two names of tied weights do.
    data = serialise({name: tensor.detach().to("cpu", copy=True).contiguous() for name, tensor in tensors.items()})
    _write(path, data)
    return hashlib.sha256(data).hexdigest()


def _write(path: Path, data: bytes) -> None:
    with path.open("wb") as stream:
        stream.write(data)
        stream.flush()
        os.fsync(stream.fileno())


def _flush_folder(folder: Path) -> None:
    """Flush the names in a folder to the disk, where the system can (Windows cannot open folders)."""
    if os.name == "posix":
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
