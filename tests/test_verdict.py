"""A report survives JSON unchanged, and a whole shows the most telling verdict of its pieces."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autograder.verdict import (
    PRECEDENCE,
    SCHEMA,
    CheckResult,
    Evidence,
    PartResult,
    Report,
    Verdict,
    combine,
)

VERDICTS = st.sampled_from(Verdict)
TEXT = st.text(max_size=30)
POINTS = st.floats(0, 100)
KINDS = st.sampled_from(["text", "numbers", "table", "matrix", "code"])
DATA = st.dictionaries(TEXT, st.one_of(TEXT, st.integers(), POINTS, st.lists(st.lists(TEXT, max_size=2), max_size=2)))
EVIDENCE = st.builds(Evidence, KINDS, TEXT, DATA)
CHECK = st.builds(
    CheckResult, TEXT, TEXT, TEXT, VERDICTS, POINTS, POINTS, TEXT, TEXT, st.lists(EVIDENCE, max_size=2).map(tuple)
)
PART = st.builds(
    PartResult, TEXT, TEXT, VERDICTS, POINTS, POINTS, TEXT, st.lists(CHECK, max_size=2).map(lambda made: tuple(made))
)
REPORT = st.builds(
    Report,
    student=TEXT,
    track=TEXT,
    kit_version=TEXT,
    seed=st.integers(0, 2**64),
    isolation=st.fixed_dictionaries({"level": TEXT, "isolated": st.booleans()}),
    verdict=VERDICTS,
    score=POINTS,
    max_score=POINTS,
    parts=st.dictionaries(TEXT, PART, max_size=2),
    warnings=st.lists(TEXT, max_size=3).map(tuple),
    files=st.dictionaries(TEXT, TEXT, max_size=2),
    assembled=st.dictionaries(TEXT, st.one_of(st.none(), st.booleans(), TEXT), max_size=2),
    modules=st.dictionaries(TEXT, TEXT, max_size=2),
    checks_run=st.integers(0, 60),
    error=TEXT,
)


@given(REPORT)
def test_a_report_comes_back_from_json_as_it_was(report: Report) -> None:
    assert Report.from_json(json.loads(json.dumps(report.to_json()))) == report


@given(REPORT)
def test_the_summary_is_json_and_holds_the_row_of_the_class(report: Report) -> None:
    row: dict[str, Any] = json.loads(json.dumps(report.summary()))
    assert list(row) == ["student", "score", "max_score", "verdict", "parts", "warnings", "files"]
    assert (row["student"], row["score"], row["verdict"]) == (report.student, report.score, report.verdict)
    for name, part in report.parts.items():
        assert row["parts"][name] == {
            "score": part.score,
            "max_score": part.max_score,
            "verdict": part.verdict,
            "diagnosis": part.diagnosis,
        }


@given(st.lists(VERDICTS))
def test_a_whole_passed_only_when_every_piece_did(verdicts: list[Verdict]) -> None:
    whole = combine(verdicts)
    assert (whole is Verdict.PASSED) == all(verdict is Verdict.PASSED for verdict in verdicts)
    assert whole is Verdict.PASSED or whole in verdicts
    assert combine(reversed(verdicts)) is whole


def test_our_own_failure_outweighs_everything_and_every_verdict_has_its_rank() -> None:
    assert combine(Verdict) is Verdict.UNGRADABLE
    assert combine([Verdict.BLOCKED, Verdict.FAILED, Verdict.NOT_ATTEMPTED]) is Verdict.FAILED
    assert set(PRECEDENCE) == set(Verdict) - {Verdict.PASSED}


@pytest.mark.parametrize("schema", [None, 0, SCHEMA + 1, "1"])
def test_a_report_of_another_schema_is_refused(schema: object) -> None:
    with pytest.raises(ValueError, match="this kit reads schema"):
        Report.from_json({"schema": schema})
