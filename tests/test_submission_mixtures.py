"""Claims about notebooks with any mixture of damages: intake never fails, and loses nothing that is still there."""

from __future__ import annotations

import random
from collections.abc import Callable

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from notebook_damage import DAMAGES, FORMS, Group, as_json, damaged, healthy, remaining
from repaired_notebooks import graded, read_book

Damage = Callable[[list[Group], random.Random], None]
#: Bounded, the same in every run, and without the search for a smaller example: that one can be done by hand.
BOUNDED = settings(
    deadline=None, derandomize=True, phases=[Phase.generate], suppress_health_check=list(HealthCheck), database=None
)


@settings(BOUNDED, max_examples=60)
@given(st.lists(st.sampled_from(DAMAGES), max_size=6), st.integers(0, 2**32), st.sampled_from(FORMS))
def test_no_mixture_of_damages_loses_a_definition_that_is_still_there(
    damages: list[Damage], seed: int, form: str
) -> None:
    groups = damaged(damages, random.Random(seed))
    work = read_book(as_json(groups, form))
    there = remaining(groups)
    assert not there or not work.problem
    assert there <= graded(work), work.repairs


@settings(BOUNDED, max_examples=30)
@given(st.lists(st.text(alphabet="<=>|` \n:()[]\"'#%@!\\aclsdefMLP", max_size=40), max_size=6), st.sampled_from(FORMS))
def test_whatever_is_in_the_cells_reading_them_ends_in_a_submission(cells: list[str], form: str) -> None:
    work = read_book(as_json([Group([("code", cell), ("markdown", cell)]) for cell in cells], form))
    assert work.problem or work.tree


@settings(BOUNDED, max_examples=30)
@given(st.integers(0, 3000), st.sampled_from(FORMS), st.binary(max_size=3))
def test_a_file_that_is_cut_or_overwritten_anywhere_is_read_or_refused_in_a_sentence(
    place: int, form: str, noise: bytes
) -> None:
    whole = as_json(healthy(), form)
    at = place * len(whole) // 3000
    for data in (whole[:at], whole[:at] + noise + whole[at + len(noise) :]):
        work = read_book(data)
        assert work.problem.startswith("hw.ipynb ") or work.tree
