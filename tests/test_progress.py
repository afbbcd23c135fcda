"""Progress: one plain file that is never half written, never lost, and never believed blindly."""

from __future__ import annotations

import json
import multiprocessing
import os
import stat
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from sample_reports import HOSTILE, NO_SCALE, TRACK, report, ungradable

from autograder.progress import FILE_NAME, PartProgress, Progress, ProgressError, ProgressFile, holds_work
from autograder.verdict import Report, Verdict

NOON = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
LATER = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)


def work(graded: Report, digest: str) -> Report:
    """Return the report as one of other files."""
    return replace(graded, files={"model.py": digest}, modules={})


def stub() -> Report:
    return report(whole=lambda part: Verdict.NOT_ATTEMPTED)


def test_points_are_the_best_so_far_and_the_verdict_is_the_last() -> None:
    right, wrong = work(report(), "a"), work(report("ada", NO_SCALE), "b")
    progress = Progress().with_report(right, NOON).with_report(wrong, LATER)
    attention = progress.part("attention")
    assert (attention.points, attention.verdict) == (30, Verdict.FAILED)
    assert attention.first_passed == "2026-03-01T12:00:00Z"
    assert not progress.passed("attention") and progress.passed("mlp")
    assert list(attention.wrong) == ["attention.values"]
    again = progress.with_report(right, LATER).part("attention")
    assert again.first_passed == "2026-03-01T12:00:00Z" and again.wrong == {} and again.verdict is Verdict.PASSED


def test_an_attempt_is_a_check_of_changed_work_and_a_stub_is_none() -> None:
    wrong = report("ada", NO_SCALE)
    progress = Progress()
    for graded, attempts in [
        (work(stub(), "0"), 0),
        (work(wrong, "a"), 1),
        (work(wrong, "a"), 1),
        (work(wrong, "b"), 2),
        (work(stub(), "0"), 2),
    ]:
        progress = progress.with_report(graded)
        assert progress.part("attention").attempts == attempts


def test_only_a_change_of_its_own_file_is_an_attempt_at_a_part() -> None:
    files = {"attention.py": "1", "mlp.py": "1"}
    modules = {"CausalSelfAttention": "attention.py", "MLP": "mlp.py"}
    first = replace(report(), files=files, modules=modules)
    second = replace(first, files={**files, "mlp.py": "2"})
    progress = Progress().with_report(first).with_report(second)
    assert (progress.part("attention").attempts, progress.part("mlp").attempts) == (1, 2)


def test_our_own_failures_change_nothing() -> None:
    before = Progress().with_report(report())
    assert before.with_report(ungradable("ada")) == before


def test_hints_are_noted_once_and_survive_a_reset_with_all_that_was_reached() -> None:
    progress = Progress().with_report(report(), NOON)
    for rung in (2, 1, 2):
        progress = progress.with_hint("mlp", "gelu", rung)
    progress = progress.with_hint("mlp", "general", 1).with_reset("mlp")
    known = progress.part("mlp")
    assert known.hints == {"gelu": (1, 2), "general": (1,)} and known.hints_used == 3
    assert known.points == 10 and known.first_passed and known.verdict is None


def test_the_current_part_is_the_first_that_is_not_passed() -> None:
    assert Progress().current(TRACK) == "config"
    assert Progress().with_report(report("ada", NO_SCALE)).current(TRACK) == "attention"
    assert Progress().with_report(report()).current(TRACK) == "gpt"


def test_what_is_written_is_read_again_and_each_track_has_its_own(tmp_path: Path) -> None:
    file = ProgressFile(tmp_path, "gpt")
    assert file.read() == Progress()
    written = file.update(lambda before: before.with_report(report("ada", NO_SCALE), NOON))
    ProgressFile(tmp_path, "foundations").update(lambda before: before.with_hint("mlp", "general", 1))
    assert file.read() == written and file.notices == []
    assert ProgressFile(tmp_path, "foundations").read().part("mlp").hints_used == 1
    data = json.loads((tmp_path / FILE_NAME).read_text(encoding="utf-8"))
    assert data["schema"] == 1 and data["tracks"]["gpt"]["attention"]["points"] == 23
    assert [path.name for path in tmp_path.iterdir()] == [FILE_NAME]


def test_hostile_messages_go_in_and_out_unharmed(tmp_path: Path) -> None:
    wrong = {"mlp.values": HOSTILE}
    file = ProgressFile(tmp_path, "gpt")
    file.update(lambda before: Progress({"mlp": PartProgress(wrong=wrong)}))
    assert file.read().part("mlp").wrong == wrong
    assert (tmp_path / FILE_NAME).read_bytes().isascii()


@pytest.mark.parametrize(
    "damage",
    ["", "{", "[1]", '{"schema": 1}', '{"schema": "x", "tracks": {}}', "[" * 100_000, " " * 1_100_000, "\xff\x00"],
)
def test_a_damaged_file_is_kept_beside_and_told(tmp_path: Path, damage: str) -> None:
    (tmp_path / ".workshop-progress.damaged-1.json").write_text("older", encoding="utf-8")
    (tmp_path / FILE_NAME).write_text(damage, encoding="latin-1")
    file = ProgressFile(tmp_path, "gpt")
    assert file.update(lambda before: before.with_hint("mlp", "general", 1)).part("mlp").hints_used == 1
    assert (tmp_path / ".workshop-progress.damaged-2.json").read_text(encoding="latin-1") == damage
    assert (tmp_path / ".workshop-progress.damaged-1.json").read_text(encoding="utf-8") == "older"
    assert "damaged-2" in file.notices[0]
    assert ProgressFile(tmp_path, "gpt").read().part("mlp").hints_used == 1


def test_fields_that_somebody_changed_count_as_not_there(tmp_path: Path) -> None:
    fields = {
        "points": 10**400,
        "attempts": -3,
        "verdict": "splendid",
        "first_passed": 7,
        "hints": {"general": [1, "2", [3], 2**70], "x": 5},
        "work": None,
        "wrong": [],
    }
    parts = {"mlp": fields, "block": 3, "gpt": {"points": float("nan"), "hints": 1}}
    data = {"schema": 1, "tracks": {"gpt": parts, "other": 4}}
    (tmp_path / FILE_NAME).write_text(json.dumps(data), encoding="utf-8")
    progress = ProgressFile(tmp_path, "gpt").read()
    assert progress.part("mlp") == PartProgress(hints={"general": (1,), "x": ()})
    assert progress.part("gpt") == progress.part("block") == PartProgress()


def test_a_file_of_a_newer_kit_is_left_as_it_is(tmp_path: Path) -> None:
    text = '{"schema": 2, "tracks": {}}'
    (tmp_path / FILE_NAME).write_text(text, encoding="utf-8")
    with pytest.raises(ProgressError, match="newer kit"):
        ProgressFile(tmp_path, "gpt").update(lambda before: before)
    assert (tmp_path / FILE_NAME).read_text(encoding="utf-8") == text


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no pipes with names")
def test_what_is_no_plain_file_is_neither_waited_for_nor_followed(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / FILE_NAME)
    with pytest.raises(ProgressError, match="not a plain file"):
        ProgressFile(tmp_path, "gpt").read()
    (tmp_path / FILE_NAME).unlink()
    (tmp_path / FILE_NAME).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ProgressError, match="not a plain file"):
        ProgressFile(tmp_path, "gpt").update(lambda before: before)
    assert not (tmp_path / "elsewhere").exists()


def test_a_write_that_fails_leaves_the_file_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = ProgressFile(tmp_path, "gpt")
    before = file.update(lambda before: before.with_hint("mlp", "general", 1))

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ProgressError, match="No space left"):
        file.update(lambda before: before.with_hint("mlp", "general", 2))
    assert file.read() == before and [path.name for path in tmp_path.iterdir()] == [FILE_NAME]


def test_a_folder_that_is_gone_is_told(tmp_path: Path) -> None:
    with pytest.raises(ProgressError, match="not noted"):
        ProgressFile(tmp_path / "gone", "gpt").update(lambda before: before)


def _read_ten_rungs(folder: str, part: str) -> None:
    for rung in range(1, 10):
        ProgressFile(Path(folder), "gpt").update(lambda before, rung=rung: before.with_hint(part, "general", rung))


@pytest.mark.skipif(os.name != "posix", reason="folders have no locks here")
def test_two_programs_at_once_lose_nothing(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    writers = [context.Process(target=_read_ten_rungs, args=(str(tmp_path), part)) for part in ("mlp", "gpt")]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    progress = ProgressFile(tmp_path, "gpt").read()
    assert [progress.part(part).hints_used for part in ("mlp", "gpt")] == [9, 9]
    assert stat.S_IMODE((tmp_path / FILE_NAME).stat().st_mode) == 0o644


def test_progress_belongs_into_a_folder_with_work(tmp_path: Path) -> None:
    assert not holds_work(tmp_path, TRACK) and not holds_work(tmp_path / "gone", TRACK)
    (tmp_path / "notes.py").touch()
    assert not holds_work(tmp_path, TRACK)
    (tmp_path / "model.py").touch()
    assert holds_work(tmp_path, TRACK)
