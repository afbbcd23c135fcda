"""The kill matrix: no fault gets full marks, no right answer loses a point, and the right parts are blamed."""

from __future__ import annotations

import shutil
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from mutants import OWN, Case, Graded, Matrix, read_cases, run

from tests.diagnoses import diagnosed, figures

#: Of the faulty and correct cases the quick test takes one in so many; of the others, which are few, more.
ONE_IN = 40
#: Cases that end by a limit (of time, mostly), so that each takes ten seconds or more: the complete test grades them.
LONG = {
    "infinite_loop_import",
    "sleeps_at_import",
    "trains_at_import",
    "busy_loop_forward",
    "freezes_the_clock",
    "memory_in_forward",
    "million_parameters_list",
    "swallow_sigterm",
    "infinite_outputs",
    "fork_loop_50",
    "subprocess_sleeper",
}
#: Percent of (case, part) pairs; the rest are differences of opinion that the notes in meta.toml explain.
AGREEMENT = 97.0


def quick(case: Case) -> bool:
    """Whether the quick test grades this case: chosen by its name alone, the same ones on every machine."""
    number = zlib.crc32(case.name.encode()) % ONE_IN
    some = {"renamed": ONE_IN // 2, "broken": ONE_IN // 4, "hostile": 5}.get(case.kind, 1)
    chosen = number < some
    return chosen and case.name not in LONG


def complaints(matrix: Matrix) -> Iterator[str]:
    def named(graded: list[Graded], what: str) -> Iterator[str]:
        yield from (f"{each.case.kind}/{each.case.name} {what} {each.error}".rstrip() for each in graded)

    yield from named(matrix.survivors, "is wrong and got full marks")
    yield from named(matrix.broke, "made the grader itself fail")
    for each in matrix.hurt:
        lost = "; ".join(f"{check} ({message})" for check, message, _ in each.lost())
        yield f"correct/{each.case.name} lost points: {lost}"
    for gap in matrix.differences:
        if gap.expected in ("names differ", "interface differs"):
            yield f"{gap.case.kind}/{gap.case.name} {gap.part} is not told that its {gap.expected}: {gap.message}"


def judge(matrix: Matrix) -> None:
    assert list(complaints(matrix)) == []
    gaps = [f"{gap.case.kind}/{gap.case.name} {gap.part}: {gap.expected}, got {gap.got}" for gap in matrix.differences]
    assert matrix.agreement >= AGREEMENT, gaps


def test_the_quick_choice_has_cases_of_every_kind_and_of_every_part() -> None:
    cases = [case for case in read_cases([OWN]) if quick(case)]
    assert 50 <= len(cases) <= 120
    assert {case.name for case in read_cases([OWN])} >= LONG
    faulty = [case.wrong_class for case in cases if case.kind == "faulty"]
    assert {"GPTConfig", "CausalSelfAttention", "MLP", "Block", "GPT"} <= set(faulty) and len(faulty) >= 12
    assert all(sum(case.kind == kind for case in cases) >= 4 for kind in ("correct", "renamed", "broken", "hostile"))


def test_of_a_fixed_choice_of_cases_no_fault_escapes_and_no_right_answer_is_hurt(tmp_path: Path) -> None:
    for case in read_cases([OWN]):
        if quick(case):
            shutil.copytree(case.folder, tmp_path / case.kind / case.folder.name, symlinks=True)
    judge(run([tmp_path]))


@pytest.mark.slow
def test_of_all_cases_no_fault_escapes_no_right_answer_is_hurt_and_faults_are_named() -> None:
    matrix = run([OWN])
    judge(matrix)
    right, wrong, _ = figures(list(diagnosed(matrix)))
    assert right >= 90 and wrong <= 2
