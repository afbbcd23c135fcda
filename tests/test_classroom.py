"""Claims about grading a class: order, jobs, failures of ours, interruption."""

from __future__ import annotations

import sys
import threading
import time
import weakref
from pathlib import Path

import fake_grader
import pytest

from autograder.classroom import failure_report, grade_class, usable_cores
from autograder.classroom.local import _WAITING, OnResult
from autograder.track import load_track
from autograder.verdict import Report, Verdict

TRACK = load_track("gpt")
LIMITS = fake_grader.Limits()


@pytest.fixture(autouse=True)
def stand_ins(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, module in fake_grader.install({}).items():
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setattr(fake_grader.Nursery, "made", 0)
    monkeypatch.setattr(fake_grader.Nursery, "broken", False)
    fake_grader.log.clear()
    fake_grader.gate.clear()


def entries(folder: Path, **behaviours: str) -> list[tuple[str, Path]]:
    return fake_grader.find_submissions(fake_grader.submit(folder, **behaviours), TRACK)


def run(todo: list[tuple[str, Path]], on_result: OnResult | None = None, **options: object) -> list[Report]:
    """Return the reports in the order of `todo`; `on_result` is called too."""
    reports: dict[str, Report] = {}

    def keep(report: Report, done: int, total: int) -> None:
        reports[report.student] = report
        if on_result is not None:
            on_result(report, done, total)

    grade_class(todo, TRACK, seed=7, limits=LIMITS, on_result=keep, **options)  # type: ignore[arg-type]
    return [reports[student] for student, _ in todo]


def test_the_reports_are_the_same_for_any_number_of_jobs_and_any_order(tmp_path: Path) -> None:
    todo = entries(tmp_path, ada="pass", bo="fail", cy="pass", di="ours", ed="fail")
    alone = run(todo, jobs=1)
    assert [report.student for report in alone] == ["ada", "bo", "cy", "di", "ed"]
    assert run(todo, jobs=3) == alone
    assert run(todo[::-1], jobs=2) == alone[::-1]


def test_each_report_arrives_as_soon_as_it_is_done(tmp_path: Path) -> None:
    todo = entries(tmp_path, ada="wait", bo="pass")
    seen: list[tuple[str, int, int]] = []

    def on_result(report: Report, done: int, total: int) -> None:
        seen.append((report.student, done, total))
        fake_grader.gate.set()  # ada is let go only after bo has been reported

    reports = run(todo, jobs=2, on_result=on_result)
    assert seen == [("bo", 1, 2), ("ada", 2, 2)]
    assert [report.student for report in reports] == ["ada", "bo"]


def test_memory_does_not_grow_with_the_class(tmp_path: Path) -> None:
    alive: list[weakref.ref[Report]] = []
    most = 0

    def on_result(report: Report, done: int, total: int) -> None:
        nonlocal most
        alive.append(weakref.ref(report))
        most = max(most, sum(known() is not None for known in alive))

    todo = entries(tmp_path, **{f"s{number:02}": "fail" for number in range(40)})
    grade_class(todo, TRACK, seed=7, limits=LIMITS, on_result=on_result, jobs=2)
    assert len(alive) == 40 and most <= 2


def test_workers_wait_for_results_to_be_written(tmp_path: Path) -> None:
    graded_when_told: list[int] = []

    def on_result(report: Report, done: int, total: int) -> None:
        if done == 1:
            time.sleep(0.1)  # they could do all 40 in it
        graded_when_told.append(sum(line.startswith("grade ") for line in fake_grader.log) - done)

    run(entries(tmp_path, **{f"s{number:02}": "pass" for number in range(40)}), on_result=on_result, jobs=2)
    assert max(graded_when_told) <= _WAITING + 2 + 2


def test_results_are_told_in_the_calling_thread(tmp_path: Path) -> None:
    threads: set[int] = set()
    run(entries(tmp_path, a="pass", b="pass"), on_result=lambda *_: threads.add(threading.get_ident()))
    assert threads == {threading.get_ident()}


def test_an_exception_of_ours_is_one_ungradable_report_and_the_batch_goes_on(tmp_path: Path) -> None:
    reports = run(entries(tmp_path, ada="pass", bo="raise", cy="pass"), jobs=1)
    assert [report.verdict for report in reports] == [Verdict.PASSED, Verdict.UNGRADABLE, Verdict.PASSED]
    assert "crystal ball" in reports[1].error
    assert fake_grader.Nursery.made == 2, "after a failure the next submission gets a fresh sandbox"


def test_a_sandbox_that_cannot_start_makes_every_report_ungradable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fake_grader.Nursery, "broken", True)
    reports = run(entries(tmp_path, ada="pass", bo="pass"), jobs=2)
    assert {report.verdict for report in reports} == {Verdict.UNGRADABLE}
    assert "no processes left" in reports[0].error


def test_one_sandbox_serves_many_submissions_and_starts_before_grading_is_imported(tmp_path: Path) -> None:
    run(entries(tmp_path, **{f"s{i}": "pass" for i in range(6)}), jobs=2)
    assert 1 <= fake_grader.Nursery.made <= 2
    assert fake_grader.log.index("nursery started") < fake_grader.log.index("grading imported")


def test_an_interruption_stops_the_workers_and_keeps_what_is_done(tmp_path: Path) -> None:
    todo = entries(tmp_path, ada="pass", bo="stay", cy="pass", di="pass")
    kept: list[str] = []

    def on_result(report: Report, done: int, total: int) -> None:
        kept.append(report.student)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(todo, jobs=1, on_result=on_result)
    assert kept == ["ada"]
    assert "grade di" not in " ".join(fake_grader.log)


def test_an_empty_class_is_an_empty_list() -> None:
    assert run([]) == []


def test_our_failure_lists_every_check_with_the_reason_and_costs_nothing_silently() -> None:
    report = failure_report("ada", TRACK, 7, "no space left")
    checks = [check for part in report.parts.values() for check in part.checks]
    assert {check.id for check in checks} == {name for part in TRACK.parts for name in part.points}
    assert {check.verdict for check in checks} == {Verdict.UNGRADABLE}
    assert {check.message for check in checks} == {"no space left"}
    assert report.max_score == TRACK.max_score


def test_there_is_a_core() -> None:
    assert usable_cores() >= 1
