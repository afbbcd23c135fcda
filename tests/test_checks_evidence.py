"""Measurements become a sentence with its numbers, an exception one with its line; a forgery is no error of ours."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from autograder.checks.evidence import (
    compare,
    describe_difference,
    future_leaks,
    influence_by_gradient,
    influence_by_touch,
    influence_evidence,
    numbers,
    same,
    shape_text,
    table,
)
from autograder.checks.faults import ADVICE, fault_outcome
from autograder.checks.registry import check
from autograder.checks.replies import read_answer, read_facts, read_fault, read_fields, read_model
from autograder.probe.client import ProbeFailure, Reply
from autograder.probe.faults import Fault
from autograder.verdict import Verdict

AXES = ("batch row", "position", "channel")
RIGHT = torch.linspace(1, 2, 4 * 5 * 6).reshape(4, 5, 6)

# -- differences ------------------------------------------------------------------------------------------------------


def spoiled(where: Any, value: float = 9.0) -> Tensor:
    wrong = RIGHT.clone()
    wrong[where] = value
    return wrong


def test_noise_is_no_difference_and_the_gap_is_in_units_of_the_largest_value() -> None:
    assert compare(RIGHT * (1 + 1e-6), RIGHT).ok
    difference = compare(RIGHT + 0.2, RIGHT)
    assert not difference.ok and difference.ratio == pytest.approx(0.1)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_is_not_finite_is_infinitely_wrong(value: float) -> None:
    difference = compare(spoiled((1, 2, 3), value), RIGHT)
    assert difference.ratio == math.inf and int(difference.wrong.sum()) == 1


def test_empty_tensors_are_equal() -> None:
    assert compare(torch.zeros(0), torch.zeros(0)).ok


@pytest.mark.parametrize(
    ("where", "pattern"),
    [
        ((slice(None), 0), "only position 0"),
        ((slice(None), slice(2, 4)), "only positions 2 to 3"),
        ((slice(1, None),), "only batch rows 1 to 3"),
        ((slice(None), [0, 1, 3, 4]), "every position but 2"),
        ((2, 3, 4), "only batch row 2, only position 3"),
    ],
)
def test_a_difference_says_where_it_keeps_to(where: Any, pattern: str) -> None:
    sentence, exhibit = describe_difference(compare(spoiled(where), RIGHT), AXES)
    assert sentence.endswith(f"; {pattern}") and ["pattern", pattern] in exhibit.data["rows"]


def test_a_difference_says_how_much_and_the_worst_of_it() -> None:
    sentence, exhibit = describe_difference(compare(spoiled((1, 2, 3), 100.0), RIGHT), AXES)
    assert sentence.startswith(
        "0.83 % of the values differ, most at batch row 1, position 2, channel 3 (100 instead of "
    )
    assert exhibit.kind == "numbers" and ["yours", "100"] in exhibit.data["rows"]
    assert describe_difference(compare(RIGHT + 5, RIGHT), AXES)[0].startswith("all of the values differ")
    assert describe_difference(compare(spoiled((slice(None), 0), math.nan), RIGHT), AXES)[0].startswith(
        "20 % of the values are NaN"
    )


def test_two_answers_of_the_same_code_are_the_same_even_where_they_are_nan() -> None:
    assert same(spoiled((0, 0, 0), math.nan), spoiled((0, 0, 0), math.nan))
    assert not same(RIGHT, RIGHT[:2]) and not same(RIGHT, RIGHT + 1e-3)


# -- influence --------------------------------------------------------------------------------------------------------


def test_the_influence_matrix_shows_who_sees_whom() -> None:
    length = 4
    untouched = torch.zeros(1, length, 2)
    touched = torch.zeros(length, length, 2)
    for position in range(length):
        touched[position, position:] = 1.0  # each position is seen from itself on
    matrix = influence_by_touch(torch.cat([untouched, touched]))
    assert torch.equal(matrix, torch.ones(4, 4, dtype=torch.float64).tril()) and future_leaks(matrix) == []
    touched[3, 1] = 0.5  # position 1 sees position 3
    touched[2, 0] = math.nan
    matrix = influence_by_touch(torch.cat([untouched, touched]))
    assert future_leaks(matrix) == [(0, 2), (1, 3)]


def test_leaks_by_gradient_come_with_the_strongest_first() -> None:
    gradient = torch.zeros(3, 3, 2)
    gradient[0, 1], gradient[0, 2], gradient[2, 2] = 0.1, -0.5, 1.0
    matrix = influence_by_gradient(gradient)
    assert future_leaks(matrix) == [(0, 2), (0, 1)] and future_leaks(matrix, threshold=0.2) == [(0, 2)]
    assert future_leaks(torch.zeros(3, 3)) == []


def test_exhibits_are_ready_for_json() -> None:
    exhibit = influence_evidence(torch.tensor([[1.0, math.inf], [0.1234567, 0.0]]), "Who sees whom")
    assert exhibit.data["rows"] == [[1.0, 1e9], [0.123457, 0.0]] and exhibit.data["empty_above_diagonal"]
    assert numbers("N", a_value=1.23456789, n=3).data == {"rows": [["a value", "1.23457"], ["n", "3"]]}
    assert table("T", ["a"], [[1], [None]]).data == {"columns": ["a"], "rows": [["1"], ["None"]]}
    assert shape_text((3, 4)) == "(3, 4)" and shape_text((3,)) == "(3,)" and shape_text(()) == "()"


# -- exceptions -------------------------------------------------------------------------------------------------------


def fault(message: str = "", **facts: Any) -> Fault:
    return Fault(**{"type": "RuntimeError", "message": message, "stage": "forward", **facts})


def test_an_exception_is_told_with_its_place_and_its_line() -> None:
    outcome = fault_outcome(fault("odd", file="mlp.py", line=7, source="x = y"), "MLP")
    assert outcome.message == "MLP.forward raises RuntimeError (line 7 of mlp.py): odd"
    assert outcome.verdict is Verdict.CRASHED and outcome.evidence[0].data == {
        "file": "mlp.py",
        "line": 7,
        "text": "x = y",
    }
    assert fault_outcome(fault(stage="build"), "MLP").message == "MLP.__init__ raises RuntimeError."
    assert fault_outcome(fault("a", stage="backward"), "MLP").message == "The backward pass raises RuntimeError: a"
    assert fault_outcome(fault("a", stage="import")).message == "import raises RuntimeError: a"


def test_an_open_stub_and_exhausted_memory_have_verdicts_of_their_own() -> None:
    assert fault_outcome(fault(not_implemented=True), "MLP").verdict is Verdict.NOT_ATTEMPTED
    assert fault_outcome(fault(memory=True), "MLP").verdict is Verdict.OUT_OF_MEMORY


@pytest.mark.parametrize("fragment", [fragment for fragment, _ in ADVICE])
def test_a_well_known_message_comes_with_advice(fragment: str) -> None:
    advice = fault_outcome(fault(f"Oh: {fragment.upper()} of 3")).look_at
    assert advice in [sentence for _, sentence in ADVICE]


def test_any_other_message_says_what_to_do_next() -> None:
    assert "traceback" in fault_outcome(fault("odd")).look_at
    assert "__init__ sets this attribute" in fault_outcome(fault("odd", type="AttributeError")).look_at


def test_a_check_without_a_title_is_refused() -> None:
    with pytest.raises(AssertionError, match="docstring"):
        check("config.nothing")(lambda exam, part: fault_outcome(fault()))


# -- forged replies ---------------------------------------------------------------------------------------------------

READERS: dict[str, Callable[[Any], object]] = {
    "facts": lambda data: read_facts(data),
    "fault": lambda data: read_fault({"error": data}),
    "model": lambda data: read_model(data),
    "fields": lambda data: read_fields(data),
    "answer": lambda data: read_answer(Reply(data, {})),
}
FORGERIES: list[Any] = [
    {"outputs": 3},
    {"outputs": {"items": [3], "sequence": False}},
    {"outputs": {"items": [{"kind": []}], "sequence": False}},
    {"MLP": {"found": True}},
    {"MLP": 4},
    {"parameters": [{"name": "a", "shape": ["x"]}]},
    {"parameters": {}, "handle": 1},
    {"fields": {"n_embd": {"type": "int", "value": [1]}}},
    {"fields": None},
    {"type": "E"},
]


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("data", FORGERIES, ids=str)
def test_a_reply_that_makes_no_sense_is_a_forgery(reader: str, data: Any) -> None:
    with pytest.raises(ProbeFailure) as caught:
        READERS[reader](data)
    assert caught.value.verdict is Verdict.FORBIDDEN and "in the grader's place" in caught.value.message
