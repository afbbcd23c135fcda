"""Claims about hostile text, marks, and the influence matrix: what every report builds on."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sample_reports import HOSTILE, LEAK, PORTABLE

from autograder.reports.bars import read_bars
from autograder.reports.marks import MARKS, isolation_sentence
from autograder.reports.matrix import read_matrix
from autograder.reports.plain import clean, number, points
from autograder.verdict import Verdict

BIDI = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f\u061c"


@given(st.text(alphabet=st.characters(exclude_categories=())))
def test_cleaned_text_can_act_on_nothing(text: str) -> None:
    out = clean(text)
    assert not any(unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp") or c in BIDI for c in out)
    out.encode("utf-8")


@given(st.text(alphabet=st.characters(exclude_categories=())))
def test_cleaning_twice_changes_nothing(text: str) -> None:
    assert clean(clean(text, multiline=True), multiline=True) == clean(text, multiline=True)


@pytest.mark.parametrize(
    "attack",
    [
        "\x1b[31mred\x1b[0m",
        "\x1b]0;title\x07red",
        "\x1b]8;;http://x\x1b\\red",
        "\x9b31mred",
        "\x1bPq...\x1b\\red",
        "\x1bcred",
    ],
)
def test_escape_sequences_vanish_whole(attack: str) -> None:
    assert clean(attack) == "red"


def test_what_deceives_stays_visible_as_a_replacement() -> None:
    assert clean("a\u202eb\x00c\ud800") == "a\ufffdb\ufffdc\ufffd"
    assert "\ufffd" in clean(HOSTILE) and "\x1b" not in clean(HOSTILE)


def test_ordinary_text_is_left_alone() -> None:
    for text in ("Zoë Müller", "o'neil (b)+1", "李雷", "👩‍💻 hi", "[bold] {{x}}", "नमस्ते"):
        assert clean(text) == text


def test_line_breaks_and_tabs_stay_only_in_multiline_text() -> None:
    assert clean("a\r\nb\tc\u2028d") == "a b c d"
    assert clean("a\r\n\tb", multiline=True) == "a\n    b"


def test_floods_are_cut() -> None:
    assert clean("x" * 10**7, limit=50) == "x" * 47 + "..."
    assert len(clean("\u0301" * 10**5)) <= 10
    assert clean("\x1b[0m" * 10**5 + "end", limit=100).endswith("...")


def test_numbers_read_as_people_write_them() -> None:
    assert [number(v) for v in (10_770_816, 0.8312, 1e-5, 2.0, float("nan"), float("-inf"), True, "(3C, C)")] == [
        "10,770,816", "0.8312", "1e-05", "2", "nan", "-inf", "True", "(3C, C)",
    ]  # fmt: skip
    assert [points(v) for v in (84.0, 3.5, 2.25, 0.0, 100)] == ["84", "3.5", "2.25", "0", "100"]


def test_every_verdict_has_its_own_symbol_and_word() -> None:
    assert set(MARKS) == set(Verdict)
    for attribute in ("symbol", "ascii", "word"):
        assert len({getattr(mark, attribute) for mark in MARKS.values()}) == len(Verdict)
    assert all(mark.ascii.isascii() and mark.word.isascii() for mark in MARKS.values())


def test_a_lack_of_isolation_is_said_loudly() -> None:
    assert "NOT ISOLATED" in isolation_sentence(PORTABLE)
    assert isolation_sentence({"level": "linux", "isolated": True}) == "isolated (linux)"
    assert isolation_sentence({}) == ""


def test_the_matrix_names_its_leaks() -> None:
    matrix = read_matrix(LEAK.data)
    assert len(matrix.leaks) == 7
    assert "7 of 28 cells that must be empty are not: row 0 column 1" in matrix.in_words()
    assert all(0.15 <= cell.strength <= 1 for cell in matrix.leaks)


def test_a_clean_matrix_says_so_and_a_plain_one_claims_nothing() -> None:
    lower = {"rows": [[1.0, 0.0], [0.5, 1.0]], "row_label": "r", "column_label": "c", "empty_above_diagonal": True}
    assert "All 1 cells above the diagonal are empty" in read_matrix(lower).in_words()
    plain = read_matrix({**lower, "empty_above_diagonal": False})
    assert "diagonal" not in plain.in_words() and not plain.leaks


def test_a_tiny_leak_still_shows_and_not_a_number_counts_as_influence() -> None:
    rows = [[1.0, 1e-30], ["nan", float("inf")], [None, -2.0]]
    matrix = read_matrix({"rows": rows, "row_label": "", "column_label": "", "empty_above_diagonal": True})
    assert matrix.cells[0][1].leak and matrix.cells[0][1].strength == 0.15
    assert matrix.cells[1][0].strength == matrix.cells[1][1].strength == matrix.cells[2][0].strength == 1


def test_shades_follow_the_values_where_that_is_asked_for() -> None:
    data = {"rows": [[1.0, 0.0], [0.5, 1e-9]], "empty_above_diagonal": True}
    assert [cell.strength for row in read_matrix({**data, "linear": True}).cells for cell in row] == [1, 0, 0.5, 0.15]
    assert read_matrix(data).cells[1][0].strength > 0.9


def test_bars_are_bounded_and_read_what_is_no_number() -> None:
    rows = [["a", 2], ["b", -1.0], ["c", float("inf")], ["d", None], *[["e", 1]] * 500]
    bars = read_bars({"rows": rows}).bars
    assert [bar.share for bar in bars[:5]] == [1, 0, 1, 0, 0.5] and len(bars) == 12
    assert read_bars({"rows": []}).in_words() == "Bars: ." and read_bars({"rows": [["a", 0]]}).bars[0].share == 0


def test_a_large_or_ragged_or_empty_matrix_is_bounded() -> None:
    data = {"rows": [[1.0] * 500] * 500, "row_label": "", "column_label": "", "empty_above_diagonal": True}
    matrix = read_matrix(data)
    assert len(matrix.cells) == matrix.columns == 64 and "first 64 of 500" in matrix.in_words()
    assert read_matrix({**data, "rows": [[1.0], []]}).columns == 1
    assert read_matrix({**data, "rows": []}).columns == 0
