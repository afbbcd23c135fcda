"""The model that is trained: the student's own classes, read as `workshop check` reads them, or our solutions.

This runs the code in the caller's process: it is for one's own code, at one's own terminal.
"""

from __future__ import annotations

import atexit
import hashlib
import math
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from autograder.capstone.trouble import CapstoneError, disk_trouble
from autograder.probe.faults import Fault, describe_exception
from autograder.probe.loading import Substitutes, load_tree
from autograder.submission import Submission, read_submission, write_tree
from autograder.track import Part, Track

#: Where a run keeps the code that it trains.
CODE = "code"
#: GPT-2's: small enough that the first guesses are nearly uniform, large enough that the blocks differ.
INITIAL_STD = 0.02


@dataclass(frozen=True)
class Code:
    """Whose classes a run trains: recorded in each checkpoint, with the SHA-256 of every file."""

    kind: str  # "student" or "reference"
    files: dict[str, str]  # path in the folder -> SHA-256
    sources: dict[str, str]  # class -> file
    lenient: tuple[str, ...] = ()  # files made from notebooks: only their definitions are run

    def to_json(self) -> dict[str, Any]:
        return {"kind": self.kind, "files": self.files, "sources": self.sources, "lenient": list(self.lenient)}

    @staticmethod
    def from_json(data: dict[str, Any]) -> Code:
        """Return the code that a checkpoint names. Raises CapstoneError when it names none."""
        try:
            code = Code(data["kind"], dict(data["files"]), dict(data["sources"]), tuple(data["lenient"]))
        except (KeyError, TypeError, ValueError) as error:
            raise CapstoneError("The checkpoint does not say whose classes it was trained with.") from error
        texts = [code.kind, *code.files, *code.files.values(), *code.sources, *code.sources.values(), *code.lenient]
        if not all(isinstance(text, str) for text in texts):
            raise CapstoneError("The checkpoint does not say whose classes it was trained with.")
        return code


@dataclass(frozen=True)
class Learner:
    """The classes that training needs, and where they come from."""

    config_class: Any  # None in a course whose model takes plain numbers
    model_class: Any
    code: Code
    folder: Path
    part: Part  # the model's, which says what its constructor takes

    def build(self, config: dict[str, int], seed: int) -> nn.Module:
        """Return a new model with GPT-2's initial weights, drawn from `seed`. Raises CapstoneError when it crashes."""
        torch.manual_seed(seed)
        name = self.part.class_name
        made = None if self.config_class is None else self._config(config)
        try:
            model = self.model_class(**self.part.arguments(config)) if made is None else self.model_class(made)
        except Exception as error:
            raise broken(describe_exception(error, str(self.folder), "build"), f"Building {name}") from error
        if not isinstance(model, nn.Module):
            raise CapstoneError(f"{name} does not make an nn.Module: run `workshop check {self.part.name}` first.")
        initialise(model, config["n_layer"])
        return model

    def _config(self, config: dict[str, int]) -> Any:
        try:
            return self.config_class(**config)
        except Exception as error:
            fields = ", ".join(config)
            raise CapstoneError(
                f"GPTConfig does not take {fields}: finish GPTConfig first: workshop check config"
            ) from error


def initialise(model: nn.Module, n_layer: int) -> None:
    """Draw the weights anew, as GPT-2 does: N(0, 0.02), what adds to the residual stream smaller, biases zero.

    (Radford et al. 2019, section 2.3: residual layers by 1/sqrt(number of residual layers), here 2 a block.)
    """
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() >= 2:
                into_stream = name.endswith("proj.weight")  # GPT-2's c_proj, and what other courses call it
                nn.init.normal_(parameter, 0.0, INITIAL_STD / math.sqrt(2 * n_layer) if into_stream else INITIAL_STD)
            elif name.endswith("bias"):
                nn.init.zeros_(parameter)


def own_learner(path: Path, track: Track) -> Learner:
    """Read the classes at `path` (folder, model.py, notebook, archive) and load them from a copy of their own.

    Raises CapstoneError when there is nothing to train. The copy goes when the process does.
    """
    return learner_of(_read(path, track), str(path), track)


def learner_of(submission: Submission, where: str, track: Track) -> Learner:
    """Load the classes of a submission that is the caller's own; `where` says where it was read, to people.

    Raises CapstoneError when there is nothing to train. The copy that is loaded goes when the process does.
    """
    if submission.problem:
        raise CapstoneError(f"{where}: {submission.problem}")
    missing = [name for name in track.classes if name not in submission.sources]
    if missing:
        raise CapstoneError(f"{where} has no {', '.join(missing)}: training needs all of {', '.join(track.classes)}.")
    files = {name: hashlib.sha256(data).hexdigest() for name, data in submission.tree.items()}
    code = Code("student", files, dict(submission.sources), tuple(sorted(submission.lenient)))
    folder = Path(tempfile.mkdtemp(prefix="workshop-own-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)  # code may import its other files until the end
    try:
        write_tree(submission, folder / CODE)
    except OSError as error:
        raise disk_trouble(f"The copy of your code in {folder}", error) from error
    return _load(code, folder / CODE, track)


def keep_code(learner: Learner, folder: Path) -> None:
    """Copy the student's code into `folder`, so that the run can go on, and write, without the original."""
    if learner.code.kind == "reference":
        return  # a run may be handed to a student
    try:
        for name in learner.code.files:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(learner.folder / name, folder / name)
    except OSError as error:
        raise disk_trouble(f"The copy of your code in {folder}", error) from error


def reference_learner(track: Track) -> Learner:
    """Return our own solutions. Raises CapstoneError where they are not (a student kit)."""
    from autograder.oracle.reference import SolutionsNotFound, find_solutions

    try:
        folder = find_solutions(track)
    except SolutionsNotFound as error:
        raise CapstoneError(f"--reference: {error}.") from None
    files = {part.file: hashlib.sha256((folder / part.file).read_bytes()).hexdigest() for part in track.parts}
    return _load(Code("reference", files, {part.class_name: part.file for part in track.parts}), folder, track)


def kept_learner(code: Code, run: Path, track: Track) -> Learner:
    """Return the classes that a run was trained with, from its own copy. Raises CapstoneError if they changed."""
    if code.kind == "reference":
        learner = reference_learner(track)
        if learner.code.files != code.files:
            raise CapstoneError("The solutions are not those that this run was trained with: start a new run.")
        return learner
    folder = run / CODE
    for name, digest in code.files.items():
        path = folder / name
        inside = path.resolve().is_relative_to(folder.resolve())
        if not inside or not path.is_file() or hashlib.sha256(path.read_bytes()).hexdigest() != digest:
            raise CapstoneError(f"{path} is not the file that this run was trained with: name your code with --path.")
    if not set(code.sources.values()) <= set(code.files):
        raise CapstoneError("The checkpoint does not say whose classes it was trained with.")
    return _load(code, folder, track)


def broken(fault: Fault, doing: str) -> CapstoneError:
    """Return what to say about code that raised: what, where, and what to do next."""
    where = f" ({fault.file}, line {fault.line}: {fault.source})" if fault.file else ""
    if fault.not_implemented:
        return CapstoneError(f"{doing} stops at an unfinished part{where}. Write it first: workshop check")
    said = f"{fault.type}: {fault.message}" if fault.message else fault.type
    return CapstoneError(f"{doing} raised {said}{where}. Find out more: workshop check")


def _read(path: Path, track: Track) -> Submission:
    if not path.exists():
        raise CapstoneError(f"{path} is not there: name the folder or file with your code by --path.")
    submission = read_submission(path.resolve(), track)
    if submission.problem:
        raise CapstoneError(f"{path}: {submission.problem}")
    return submission


def _load(code: Code, folder: Path, track: Track) -> Learner:
    kinds = {part.class_name: part.name for part in track.parts}
    model_part, config_part = track.parts[-1], track.config_part
    config_name = config_part.class_name if config_part else ""
    files = {part.class_name: part.file for part in track.parts}
    ordered = {name: code.sources[name] for name in track.classes if name in code.sources}
    loaded = load_tree(
        str(folder.resolve()), ordered, files, frozenset(code.lenient), Substitutes(kinds, config_name, track.config)
    )
    for name in track.classes:
        facts = loaded.report.get(name, {})
        if facts.get("error"):
            raise broken(Fault(**facts["error"]), f"Importing {facts.get('file', name)}")
        if name not in loaded.classes:
            raise CapstoneError(f"{facts.get('file', folder)} defines no {name}. Find out more: workshop check")
    return Learner(
        loaded.classes[config_name] if config_name else None,
        loaded.classes[model_part.class_name],
        code,
        folder.resolve(),
        model_part,
    )
