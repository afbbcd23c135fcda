"""Claims about what travels to a worker of a cluster, what the worker makes of it, and what the grader is told."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import fake_worker
import pytest
from distributed import LocalCluster
from fake_worker import Nursery, submit

from autograder.classroom import worker as room
from autograder.classroom.cluster import grade_on_cluster
from autograder.classroom.ledger import Terms
from autograder.classroom.parcel import Answer, Parcel
from autograder.classroom.refusals import ClusterError, NotIsolated
from autograder.classroom.worker import Sandboxes
from autograder.sandbox import Isolation, Limits
from autograder.submission import Submission, find_submissions, read_submission
from autograder.track import load_track
from autograder.verdict import Report, Verdict

TRACK, LIMITS = load_track("gpt"), Limits(wall_s=3.5)
TERMS = Terms.of(TRACK, LIMITS)


@pytest.fixture(autouse=True)
def stand_ins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Nursery, "open", [])
    fake_worker.install(monkeypatch)


def parcel(folder: Path, word: str = "pass", **how: object) -> Parcel:
    submission = read_submission(submit(folder, ada=word) / "ada", TRACK, "ada")
    return replace(Parcel(submission, TERMS, 7, LIMITS, trusted=False), **how)  # type: ignore[arg-type]


def ask(sandboxes: Sandboxes, wanted: Parcel) -> Answer:
    return Answer.unpack(sandboxes.grade(wanted.pack()))


# parcels


def test_a_submission_arrives_as_it_was_sent() -> None:
    odd = Submission(
        student="zoë \udcff\ud800 \x00 ada",
        origin=Path("/class/\udcffada"),
        tree={"model.py": bytes(range(256)), "sub/x.py": b""},
        files={"model.py": "0" * 64},
        sources={"GPT": "model.py"},
        lenient=frozenset({"model.py"}),
        warnings=("one", "two"),
        explanations={"model.py": "no"},
        problem="It is odd.",
        verdict=Verdict.FORBIDDEN,
        suspicious=("conftest.py",),
    )
    sent = Parcel(odd, TERMS, 2**70, LIMITS, trusted=True)
    assert Parcel.unpack(sent.pack()) == sent
    assert Parcel.unpack(sent.pack()).submission.digest == odd.digest
    json.loads(sent.pack().decode("ascii"))


# a worker's sandboxes


def test_a_sandbox_is_kept_for_the_next_submission_and_one_of_other_limits_is_its_own(tmp_path: Path) -> None:
    sandboxes = Sandboxes()
    wanted = parcel(tmp_path)
    reports = [ask(sandboxes, wanted).content for _ in range(3)]
    assert all(report.score == 100 for report in reports) and len(Nursery.open) == 1
    other = Limits(wall_s=1.0)
    assert ask(sandboxes, replace(wanted, limits=other, terms=Terms.of(TRACK, other))).kind == "report"
    assert len(Nursery.open) == 2
    sandboxes.close()
    assert not Nursery.open
    assert "run has ended" in ask(sandboxes, wanted).content


def test_our_failure_is_an_answer_and_its_sandbox_is_not_used_again(tmp_path: Path) -> None:
    sandboxes = Sandboxes()
    answer = ask(sandboxes, parcel(tmp_path / "a", "raise"))
    assert answer.kind == "failed" and "crystal ball" in answer.content and not Nursery.open
    assert Answer.unpack(sandboxes.grade(b"garbage")).kind == "failed"
    assert ask(sandboxes, parcel(tmp_path / "b")).kind == "report"


def test_idle_sandboxes_end_by_themselves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ended = threading.Event()
    monkeypatch.setattr(room, "_IDLE_S", 0.01)
    monkeypatch.setattr(Nursery, "close", lambda nursery: ended.set())
    sandboxes = Sandboxes()
    assert ask(sandboxes, parcel(tmp_path)).kind == "report"
    assert ended.wait(10), "a grader that was killed cannot end them"


def test_a_sandbox_that_does_not_hold_is_refused_unless_the_students_are_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Nursery, "isolation", Isolation("portable", False, ("paper",)))
    sandboxes, wanted = Sandboxes(), parcel(tmp_path)
    assert ask(sandboxes, wanted) == Answer("exposed", ["paper"])
    assert ask(sandboxes, replace(wanted, trusted=True)).kind == "report"


@pytest.mark.parametrize(
    ("changes", "says"),
    [({"kit_version": "0.0.1"}, "not 0.0.1"), ({"kit_code": "?"}, "other code"), ({"course": "?"}, "other checks")],
)
def test_a_worker_with_another_kit_or_course_grades_nothing(changes: dict[str, str], says: str, tmp_path: Path) -> None:
    answer = ask(Sandboxes(), parcel(tmp_path, terms=replace(TERMS, **changes)))
    assert answer.kind == "different" and says in answer.content and not Nursery.open


# the grader's side, with a worker in this process


@pytest.fixture(scope="module")
def scheduler() -> Iterator[str]:
    with LocalCluster(
        n_workers=1, threads_per_worker=2, processes=False, dashboard_address="127.0.0.1:0", silence_logs=60
    ) as cluster:
        yield cluster.scheduler_address


def run(work: Path, scheduler: str, **how: object) -> dict[str, Report]:
    reports: dict[str, Report] = {}
    how.setdefault("on_result", lambda report, done, total: reports.update({report.student: report}))
    entries = find_submissions(work, TRACK)
    grade_on_cluster(entries, TRACK, seed=7, limits=LIMITS, scheduler=scheduler, **how)  # type: ignore[arg-type]
    return reports


def test_each_result_is_told_in_the_calling_thread_and_the_sandboxes_end_with_the_run(
    tmp_path: Path, scheduler: str
) -> None:
    threads: list[int] = []
    work = submit(tmp_path, **{f"s{number:02}": "pass" for number in range(12)})
    run(work, scheduler, on_result=lambda *_: threads.append(threading.get_ident()))
    assert threads == [threading.get_ident()] * 12
    assert not Nursery.open


def test_what_is_known_or_cannot_be_read_is_not_sent(tmp_path: Path, scheduler: str) -> None:
    work = submit(tmp_path, ada="raise", bo="pass", cy="pass")
    known = fake_worker.report("ada")

    def recall(submission: Submission) -> Report | None:
        if submission.student == "bo":
            raise OSError("the disk has gone")
        return known if submission.student == "ada" else None

    reports = run(work, scheduler, recall=recall)
    assert reports["ada"] is known and reports["cy"].score == 100
    assert reports["bo"].verdict is Verdict.UNGRADABLE and "the disk has gone" in reports["bo"].error


def test_a_worker_that_cannot_isolate_stops_the_run(
    tmp_path: Path, scheduler: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Nursery, "isolation", Isolation("portable", False, ("paper",)))
    work = submit(tmp_path, ada="pass")
    with pytest.raises(NotIsolated, match="paper"):
        run(work, scheduler)
    reports = run(work, scheduler, trust_students=True)
    assert reports["ada"].score == 100 and not reports["ada"].isolation["isolated"]


def test_a_worker_with_another_kit_stops_the_run_with_a_sentence(
    tmp_path: Path, scheduler: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = type("Old", (), {"of": lambda track, limits: replace(TERMS, kit_version="0.0.1")})
    monkeypatch.setattr(room, "Terms", old)
    with pytest.raises(ClusterError, match=r"has kit 0\.0\.1.*Install the same kit everywhere"):
        run(submit(tmp_path, ada="pass"), scheduler)


def test_an_interruption_ends_the_sandboxes_on_the_workers(tmp_path: Path, scheduler: str) -> None:
    def on_result(*_: object) -> None:
        raise KeyboardInterrupt

    work = submit(tmp_path, **{f"s{number:02}": "pass" for number in range(12)})
    with pytest.raises(KeyboardInterrupt):
        run(work, scheduler, on_result=on_result)
    assert not Nursery.open


def test_a_cluster_without_workers_is_waited_for_and_that_is_said(tmp_path: Path) -> None:
    said: list[str] = []
    with LocalCluster(n_workers=0, processes=False, dashboard_address="127.0.0.1:0", silence_logs=60) as empty:

        def tell(sentence: str) -> None:
            said.append(sentence)
            empty.scale(1)

        reports = run(submit(tmp_path, ada="pass"), empty.scheduler_address, tell=tell)
    assert reports["ada"].score == 100
    assert len(said) == 1 and "no workers yet" in said[0]
