"""The @check decorator and the list of all checks. A check is a function; its docstring is its title."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from autograder.verdict import Evidence, Verdict

if TYPE_CHECKING:
    from autograder.checks.exam import Exam
    from autograder.track import Part


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


def check(*ids: str, needs: Sequence[str] = ()) -> Callable[[CheckFunction], CheckFunction]:
    """Register a function as the check `ids` ("attention.causal"); several ids share one function.

    `needs` names checks of the same part that must have passed ("shapes"), else this one is blocked. The points are in
    the track file.
    """

    def register(function: CheckFunction) -> CheckFunction:
        assert function.__doc__, f"{function.__name__}: the docstring is the title of a check"
        title = function.__doc__.strip().splitlines()[0].rstrip(".")
        for check_id in ids:
            part = check_id.split(".")[0]
            CHECKS[check_id] = Check(check_id, title, tuple(f"{part}.{need}" for need in needs), function)
        return function

    return register
