"""Claims about late marks: the rules, the policy file, where the hand-in time comes from."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sample_reports import report, ungradable

from autograder.classroom.handed_in import NEWEST, POLICY, STAMP, handed_in, mark_of, parse_stamp
from autograder.classroom.late import HandIn, Late, Policy, late_mark
from autograder.classroom.late_policy import PolicyError, parse_policy, read_policy, unknown_students

DUE = datetime(2025, 3, 14, 23, 59, tzinfo=timezone(timedelta(hours=1)))


def mark(late: timedelta, score: float = 80.0, student: str = "ada", **rules: object) -> Late:
    policy = Policy(DUE, **rules)  # type: ignore[arg-type]
    return late_mark(policy, student, HandIn(DUE + late, "a test"), score, 100.0)


@pytest.mark.parametrize(
    ("late", "rules", "after", "rule"),
    [
        (timedelta(hours=-3), {"percent": 10}, 80, "on time"),
        (timedelta(), {"percent": 10}, 80, "on time"),
        (timedelta(seconds=1), {"percent": 10}, 72, "10% of the score for each day begun: 1 day, 10%"),
        (timedelta(hours=24), {"percent": 10}, 72, "10% of the score for each day begun: 1 day, 10%"),
        (timedelta(hours=24, seconds=1), {"percent": 10}, 64, "10% of the score for each day begun: 2 days, 20%"),
        (
            timedelta(minutes=61),
            {"percent": 1, "per": "hour"},
            78.4,
            "1% of the score for each hour begun: 2 hours, 2%",
        ),
        (
            timedelta(days=1),
            {"percent": 10, "of": "max_score"},
            70,
            "10% of the maximum for each day begun: 1 day, 10%",
        ),
        (timedelta(days=20), {"percent": 10, "of": "max_score"}, 0, "10% of the maximum"),
        (timedelta(days=9), {"percent": 10, "cap": 50}, 40, "9 days, 90%, at most 50%"),
        (timedelta(minutes=10), {"percent": 10, "grace": timedelta(minutes=10)}, 80, "within 10 minutes of grace"),
        (timedelta(minutes=11), {"percent": 10, "grace": timedelta(minutes=10)}, 72, "1 day, 10%"),
        (timedelta(days=7), {"percent": 10, "cap": 50, "zero_after_days": 7}, 40, "at most 50%"),
        (timedelta(days=7, seconds=1), {"cap": 50, "zero_after_days": 7}, 0, "more than 7 days late: no points"),
        (timedelta(hours=5), {}, 80, "late, without a penalty"),
    ],
)
def test_each_rule_takes_what_it_says(late: timedelta, rules: dict[str, object], after: float, rule: str) -> None:
    found = mark(late, **rules)
    assert found.score_after_penalty == after and found.penalty == round(80 - after, 4)
    assert rule in found.rule
    assert found.late_by_hours == max(0.0, round(late / timedelta(hours=1), 2)) or found.late_by_hours == 0.01


def test_an_extension_moves_the_due_date_of_one_student() -> None:
    rules = {"percent": 10.0, "extensions": {"ada": DUE + timedelta(days=3)}}
    assert mark(timedelta(days=2), **rules).rule == "on time (extension)"
    assert mark(timedelta(days=2), student="bo", **rules).penalty == 16


def test_times_are_shown_in_the_zone_of_the_due_date() -> None:
    found = late_mark(Policy(DUE), "ada", HandIn(datetime(2025, 3, 14, 23, 30, tzinfo=UTC), "a test"), 80, 100)
    assert (found.submitted, found.due) == ("2025-03-15T00:30:00+01:00", "2025-03-14T23:59:00+01:00")
    assert found.late_by_hours == 0.52


@given(
    late=st.timedeltas(timedelta(days=-30), timedelta(days=400)),
    more=st.timedeltas(timedelta(), timedelta(days=30)),
    score=st.floats(0, 100),
    rules=st.fixed_dictionaries(
        {
            "percent": st.floats(0, 100),
            "per": st.sampled_from(["day", "hour"]),
            "of": st.sampled_from(["score", "max_score"]),
            "cap": st.floats(0, 100),
            "zero_after_days": st.none() | st.floats(0, 60),
            "grace": st.timedeltas(timedelta(), timedelta(days=2)),
        }
    ),
)
def test_a_penalty_never_exceeds_the_score_and_never_shrinks_with_time(
    late: timedelta, more: timedelta, score: float, rules: dict[str, object]
) -> None:
    early, later = mark(late, score, **rules), mark(late + more, score, **rules)
    assert 0 <= early.score_after_penalty <= score + 1e-4
    assert later.score_after_penalty <= early.score_after_penalty + 1e-3
    if late <= timedelta():
        assert early.penalty == 0 and early.late_by_hours == 0


FULL = """
due = 2025-03-14T23:59:00
time_zone = "Europe/Berlin"
grace_minutes = 15
[penalty]
percent = 10
per = "day"
cap = 50
zero_after_days = 7
[extensions]
"Zoë Müller" = 2025-03-20T12:00:00Z
[submitted]
bo = 2025-03-15T10:00:00
"""


def test_a_policy_file_is_read_whole(tmp_path: Path) -> None:
    (tmp_path / "policy.toml").write_text(FULL, encoding="utf-8")
    policy = read_policy(tmp_path / "policy.toml")
    assert policy.due == DUE and policy.due.utcoffset() == timedelta(hours=1)
    assert policy.extensions["Zoë Müller"] == datetime(2025, 3, 20, 12, tzinfo=UTC)
    assert policy.submitted["bo"] == datetime(2025, 3, 15, 9, tzinfo=UTC)
    assert (policy.percent, policy.per, policy.cap, policy.zero_after_days) == (10, "day", 50, 7)
    assert policy.grace == timedelta(minutes=15)
    assert unknown_students(policy, ["bo", "Zoé Müller"]) == [
        "The policy's extensions name Zoë Müller, of whom there is no submission here. Did you mean Zoé Müller?"
    ]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "no due date"),
        ("due = 2025-03-14T23:59:00", "due has no time zone"),
        ("due = 2025-03-14", "must be a date with a time"),
        ('due = "tomorrow"', "must be a date with a time"),
        ("due = 2025-02-30T10:00:00Z", "not TOML"),
        ("due = ", "not TOML"),
        ("due = 0001-01-01T00:00:00Z", "in the year 1"),
        ('due = 2025-03-14T23:59:00\ntime_zone = "Europe/Atlantis"', "is not known here"),
        ("due = 2025-03-14T23:59:00Z\nextention = 3", "Did you mean extensions?"),
        ("due = 2025-03-14T23:59:00Z\n[penalty]\npercents = 3", "Did you mean penalty.percent?"),
        ("due = 2025-03-14T23:59:00Z\n[penalty]\npercent = 300", "from 0 to 100"),
        ("due = 2025-03-14T23:59:00Z\n[penalty]\npercent = nan", "from 0 to 100"),
        ("due = 2025-03-14T23:59:00Z\n[penalty]\ncap = true", "from 0 to 100"),
        ('due = 2025-03-14T23:59:00Z\n[penalty]\nper = "week"', "'day' or 'hour'"),
        ("due = 2025-03-14T23:59:00Z\npenalty = 10", "must be a table"),
        ("due = 2025-03-14T23:59:00Z\n[extensions]\nada = 7", "extensions.ada must be a date"),
    ],
)
def test_what_is_wrong_with_a_policy_is_told(text: str, sentence: str) -> None:
    with pytest.raises(PolicyError, match=sentence.replace("?", r"\?").replace(".", r"\.")):
        parse_policy(text)


def test_a_policy_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    (tmp_path / "latin.toml").write_bytes(b"due = \xff")
    (tmp_path / "empty.toml").touch()
    for name, sentence in (("none.toml", "cannot be read"), ("latin.toml", "not UTF-8"), ("empty.toml", "no due date")):
        with pytest.raises(PolicyError, match=sentence):
            read_policy(tmp_path / name)


@pytest.mark.parametrize(
    ("stamp", "moment"),
    [
        (b"2025-03-14 22:59:00.250000 UTC\n", datetime(2025, 3, 14, 22, 59, 0, 250_000, UTC)),
        (b"2025-03-14 22:59:00", datetime(2025, 3, 14, 22, 59, tzinfo=UTC)),
        (b"2025-03-14 23:59:00 +0100", DUE),
        (b"2025-03-14 23:59:00 +01:00", DUE),
        (b"2025-03-14 23:59:00 Europe/Berlin", DUE),
    ],
)
def test_nbgraders_stamp_is_read(stamp: bytes, moment: datetime) -> None:
    assert parse_stamp(stamp) == moment


STRANGE = [b"", b"yesterday", b"2025-13-14 22:59:00", b"2025-03-14 22:59:00 XYZ", b"2025-03-14 22:59:00 ../../etc"]


@pytest.mark.parametrize("stamp", [*STRANGE, b"0001-01-01 00:00:00 UTC", b"\xff\xfe", b"2025-03-14 22:59:00 +9900"])
def test_a_strange_stamp_is_refused(stamp: bytes) -> None:
    with pytest.raises(ValueError):
        parse_stamp(stamp)


def test_the_time_comes_from_the_stamp_else_the_policy_else_the_newest_file(tmp_path: Path) -> None:
    work = tmp_path / "submitted" / "ada" / "ps1"
    (work / "deep").mkdir(parents=True)
    for name, age in (("model.py", 100), ("deep/old.py", 50)):
        (work / name).touch()
        os.utime(work / name, (age, 1_700_000_000 - age))
    policy = Policy(DUE, submitted={"bo": DUE})
    newest = HandIn(datetime.fromtimestamp(1_700_000_000 - 50, UTC), NEWEST)
    for root in (tmp_path, tmp_path / "submitted"):
        assert handed_in("ada", work, root, policy) == newest
        assert handed_in("bo", work, root, policy) == HandIn(DUE, POLICY)
    (work / "timestamp.txt").write_text("2025-03-14 22:59:00 UTC")
    assert handed_in("bo", work, tmp_path, policy) == HandIn(DUE, STAMP)
    (work / "timestamp.txt").write_text("long ago")
    found = handed_in("bo", work, tmp_path, policy)
    assert found is not None and found.source == f"{POLICY}; its timestamp.txt cannot be understood"


def test_a_stamp_in_a_plain_class_folder_is_the_students_own_and_does_not_count(tmp_path: Path) -> None:
    (tmp_path / "ada").mkdir()
    (tmp_path / "ada" / "timestamp.txt").write_text("1999-01-01 00:00:00 UTC")
    for root in (tmp_path, tmp_path / "ada"):
        found = handed_in("ada", tmp_path / "ada", root, Policy(DUE))
        assert found is not None and found.source == NEWEST and found.at.year > 2000


def test_a_link_is_not_followed_for_a_date(tmp_path: Path) -> None:
    (tmp_path / "c" / "ada" / "ps1").mkdir(parents=True)
    (tmp_path / "secret").write_text("1999-01-01 00:00:00 UTC")
    try:
        (tmp_path / "c" / "ada" / "ps1" / "timestamp.txt").symlink_to(tmp_path / "secret")
    except OSError:
        pytest.skip("links cannot be made here")
    assert handed_in("ada", tmp_path / "c" / "ada" / "ps1", tmp_path / "c", Policy(DUE)) is None


def test_a_date_that_no_calendar_has_is_no_date(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert handed_in("ada", tmp_path / "gone", tmp_path, Policy(DUE)) is None
    (tmp_path / "a.py").touch()
    monkeypatch.setattr("autograder.classroom.handed_in.UTC", None)
    monkeypatch.setattr("autograder.classroom.handed_in.max", lambda *_, **__: 1e20, raising=False)
    assert handed_in("ada", tmp_path / "a.py", tmp_path, Policy(DUE)) is None


def test_what_has_no_score_has_no_mark(tmp_path: Path) -> None:
    (tmp_path / "ada.py").touch()
    policy = Policy(DUE, percent=10)
    assert mark_of(ungradable("ada"), tmp_path / "ada.py", tmp_path, policy) is None
    assert mark_of(report("ada"), tmp_path / "gone.py", tmp_path, policy) is None
    found = mark_of(report("ada"), tmp_path / "ada.py", tmp_path, policy)
    assert found is not None and found.late_by_hours > 24
