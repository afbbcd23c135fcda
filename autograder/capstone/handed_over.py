"""A run as it is handed over: checkpoint and code, read and compared with the contract. Nothing of it is run."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import torch

from autograder.capstone.checkpoint import MODEL, Checkpoint, load
from autograder.capstone.learner import CODE, Code
from autograder.capstone.shelf import FOLDER, find_checkpoint
from autograder.capstone.trouble import CapstoneError
from autograder.oracle.cases import full_shapes
from autograder.oracle.reference import SolutionsNotFound, find_solutions
from autograder.submission import Submission, read_submission
from autograder.submission.folder import read_regular
from autograder.submission.limits import MAX_FILES, MAX_SOURCE, Refused
from autograder.submission.names import is_plain
from autograder.track import Track

#: What weights and buffers are made of; other kinds of numbers are no part of the contract.
DTYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.bool)
#: Values of a causal mask, which some models save beside their weights: they teach a model nothing.
_MASK_VALUES = (0.0, 1.0, float("-inf"))


@dataclass(frozen=True)
class HandedOver:
    """A checkpoint, and the code of the model that it belongs to."""

    place: Path
    checkpoint: Checkpoint
    submission: Submission
    weights_sha256: str  # of model.safetensors

    @property
    def parameters(self) -> int:
        """Number of trained values, counted in the file: tied tables once, masks not at all."""
        weights = self.checkpoint.weights
        head, table = weights["lm_head.weight"], weights["transformer.wte.weight"]
        tied = head.numel() if torch.equal(head, table) else 0
        return sum(tensor.numel() for tensor in weights.values() if not _is_mask(tensor)) - tied


def read_handed_over(
    path: Path, track: Track, *, code: Path | None = None, reference: bool = False, name: str = ""
) -> HandedOver:
    """Read the run, or the checkpoint, at `path`; its code from `code`, the kit's solutions, or the run's own copy.

    Raises CapstoneError when something is missing, damaged, a pickle, or not of the contract's names and shapes.
    """
    place = find_checkpoint(path)
    checkpoint = load(place)
    refuse_other_weights(checkpoint, place, track)
    name = name or path.resolve().name
    if reference:
        submission = _solutions(track, name)
    elif code is not None:
        submission = _own(code, track, name)
    else:
        submission = _kept(Code.from_json(checkpoint.code), place.resolve().parent.parent, track, name)
    return HandedOver(place, checkpoint, submission, hashlib.sha256((place / MODEL).read_bytes()).hexdigest())


def refuse_other_weights(checkpoint: Checkpoint, place: Path, track: Track) -> None:
    """Raise CapstoneError unless every tensor of the contract is there in its shape."""
    wanted = full_shapes(track.parts[-1], track, checkpoint.config)
    for name, shape in wanted.items():
        if name not in checkpoint.weights:
            raise CapstoneError(f"{place / MODEL} lacks {name}, which a model of its config has.")
        found = tuple(checkpoint.weights[name].shape)
        if found != shape:
            raise CapstoneError(f"{place / MODEL}: {name} has the shape {found}, and its config means {shape}.")
        if not checkpoint.weights[name].is_floating_point():
            raise CapstoneError(f"{place / MODEL}: {name} does not hold numbers of floating point.")
    for name, tensor in checkpoint.weights.items():
        if tensor.dtype not in DTYPES:
            kind = str(tensor.dtype).removeprefix("torch.")
            raise CapstoneError(f"{place / MODEL}: {name[:100]!a} holds {kind}: save float32.")


def _kept(code: Code, run: Path, track: Track, name: str) -> Submission:
    """Return the code that a run keeps, each file as it was when the checkpoint was written."""
    if code.kind == "reference":
        return _solutions(track, name, code.files)
    folder = run / CODE
    if not folder.is_dir():
        raise CapstoneError(
            f"There is no {CODE}/ beside {FOLDER}/ in {run}: hand over the whole run, or name the code with --path."
        )
    if not set(track.classes) <= set(code.sources) or not set(code.sources.values()) <= set(code.files):
        raise CapstoneError("The checkpoint does not say whose classes it was trained with.")
    if len(code.files) > MAX_FILES:
        raise CapstoneError(f"The checkpoint names {len(code.files):,} files of code; at most {MAX_FILES} are read.")
    tree: dict[str, bytes] = {}
    for file, digest in code.files.items():
        data = _source(folder, file)
        if data is None or hashlib.sha256(data).hexdigest() != digest:
            raise CapstoneError(
                f"{str(folder / file)!a} is not the file that this run was trained with: name the code with --path."
            )
        tree[file] = data
    return Submission(
        student=name,
        origin=folder,
        tree=tree,
        files=dict(code.files),
        sources=dict(code.sources),
        lenient=frozenset(code.lenient),
    )


def _source(folder: Path, file: str) -> bytes | None:
    """Return a file below `folder`, followed through no link; None where there is none that could be a source."""
    if not file.isprintable() or not all(is_plain(part) for part in file.split("/")):
        return None
    try:
        return read_regular(folder, PurePosixPath(file).parts, MAX_SOURCE)
    except (Refused, OSError, ValueError):
        return None


def _own(code: Path, track: Track, name: str) -> Submission:
    if not code.exists():
        raise CapstoneError(f"{code} is not there: name the folder or file with the code by --path.")
    submission = read_submission(code.resolve(), track, name)
    missing = [cls for cls in track.classes if cls not in submission.sources]
    if submission.problem or missing:
        raise CapstoneError(f"{code}: {submission.problem or 'it has no ' + ', '.join(missing) + '.'}")
    return submission


def _solutions(track: Track, name: str, trained: dict[str, str] | None = None) -> Submission:
    try:
        folder = find_solutions()
    except SolutionsNotFound as error:
        raise CapstoneError(f"This run was trained with the kit's solutions: {error}.") from None
    tree = {part.file: (folder / part.file).read_bytes() for part in track.parts}
    files = {file: hashlib.sha256(data).hexdigest() for file, data in tree.items()}
    if trained is not None and trained != files:
        raise CapstoneError("The solutions are not those that this run was trained with: start a new run.")
    sources = {part.class_name: part.file for part in track.parts}
    return Submission(student=name, origin=folder, tree=tree, files=files, sources=sources)


def _is_mask(tensor: torch.Tensor) -> bool:
    if tensor.dtype is torch.bool:
        return True
    known = torch.isin(tensor.double(), torch.tensor(_MASK_VALUES, dtype=torch.float64))
    return tensor.dim() >= 2 and bool(known.all())
