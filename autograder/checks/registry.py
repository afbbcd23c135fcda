"""The @check decorator and the list of all checks. A check is a function; its docstring is its title."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from autograder.verdict import Evidence, Verdict

if TYPE_CHECKING:
    from autograder.checks.exam import Exam
    from autograder.track import Part, Track


@dataclass(frozen=True)
class Outcome:
    """What a check found. `usable` marks a failure that need not stop the checks that depend on this one."""

    verdict: Verdict
    message: str = ""
    look_at: str = ""
    evidence: tuple[Evidence, ...] = ()
    usable: bool = False


class Stopped(Exception):
    """Raised inside a check when it cannot go on: carries the outcome (the student's code raised, say)."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(outcome.message)
        self.outcome = outcome


def passed(message: str = "", evidence: Sequence[Evidence] = ()) -> Outcome:
    return Outcome(Verdict.PASSED, message, "", tuple(evidence))


def failed(message: str, look_at: str = "", evidence: Sequence[Evidence] = (), *, usable: bool = False) -> Outcome:
    return Outcome(Verdict.FAILED, message, look_at, tuple(evidence), usable)


CheckFunction = Callable[["Exam", "Part"], Outcome]


@dataclass(frozen=True)
class Check:
    """A registered check of one part."""

    id: str
    title: str
    needs: tuple[str, ...]
    run: CheckFunction


CHECKS: dict[str, Check] = {}


def find_check(track: Track, part: Part, check_id: str) -> Check:
    """Return the check that `check_id` ("head.causal") is for `part`: by its role, in the words of the course.

    Raises KeyError with a sentence when there is none.
    """
    what = check_id.partition(".")[2]
    known = CHECKS.get(f"{part.role}.{what}") or CHECKS.get(f"*.{what}")
    if known is None or check_id != f"{part.name}.{what}":
        raise KeyError(f"track {track.name}: part {part.name} ({part.role}) has no check {check_id!r}")
    needs = tuple(f"{part.name}.{need.partition('.')[2]}" for need in known.needs)
    title = part.titles.get(check_id, track.in_words(known.title))
    return Check(check_id, title, needs, _in_words(track, known.run) if track.words else known.run)


def _in_words(track: Track, run: CheckFunction) -> CheckFunction:
    """Return a check that speaks in the words of the course."""

    def said(outcome: Outcome) -> Outcome:
        return replace(outcome, message=track.in_words(outcome.message), look_at=track.in_words(outcome.look_at))

    def run_in_words(exam: Exam, part: Part) -> Outcome:
        try:
            return said(run(exam, part))
        except Stopped as stopped:
            return said(stopped.outcome)

    return run_in_words


def check(*ids: str, needs: Sequence[str] = ()) -> Callable[[CheckFunction], CheckFunction]:
    """Register a function as the check `ids` ("attention.causal"): the role of a part, and what is checked of it.

    "*.causal" is for every role that has no such check of its own. `needs` names checks of the same part that must have
    passed ("shapes"), else this one is blocked. The points are in the track file.
    """

    def register(function: CheckFunction) -> CheckFunction:
        assert function.__doc__, f"{function.__name__}: the docstring is the title of a check"
        title = function.__doc__.strip().splitlines()[0].rstrip(".")
        for check_id in ids:
            role = check_id.split(".")[0]
            CHECKS[check_id] = Check(check_id, title, tuple(f"{role}.{need}" for need in needs), function)
        return function

    return register
