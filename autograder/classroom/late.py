"""Late marks: when a hand-in was due, how late it was, and what that takes. Pure: no clock and no files in here.

The penalty is always shown beside the raw score, never instead of it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta
from typing import Any, Literal

#: Years between which a date is believed: beyond them sums of dates and days overflow.
PLAUSIBLE = (1970, 9000)
_UNITS: dict[str, timedelta] = {"day": timedelta(days=1), "hour": timedelta(hours=1)}


@dataclass(frozen=True)
class HandIn:
    """When something was handed in, and how we know."""

    at: datetime  # with a time zone
    source: str  # "nbgrader's timestamp.txt"


@dataclass(frozen=True)
class Policy:
    """The rules of one assignment. Days and hours are spans of 24 hours and of 60 minutes from the due date on."""

    due: datetime  # with a time zone
    extensions: Mapping[str, datetime] = field(default_factory=dict)  # student -> a due date of their own
    submitted: Mapping[str, datetime] = field(default_factory=dict)  # student -> hand-in time, where no stamp says it
    grace: timedelta = timedelta()  # as late as this is on time; beyond it, lateness counts from the due date
    percent: float = 0.0  # taken for each unit that has begun
    per: Literal["day", "hour"] = "day"
    of: Literal["score", "max_score"] = "score"  # percent of what
    cap: float = 100.0  # percent taken at most, unless it is too late for any points
    zero_after_days: float | None = None


@dataclass(frozen=True)
class Late:
    """The late mark of one submission, as it stands in the reports. Times are ISO 8601 in the due date's zone."""

    submitted: str
    submitted_from: str  # how we know
    due: str
    late_by_hours: float  # 0 when it was in time
    penalty: float  # points
    score_after_penalty: float
    rule: str  # the rule that gave the penalty, in words

    def to_json(self) -> dict[str, Any]:
        """Return the field `late` of class.json."""
        return asdict(self)


def late_mark(policy: Policy, student: str, hand_in: HandIn, score: float, max_score: float) -> Late:
    """Return the late mark of a submission that earned `score` of `max_score` points."""
    due = policy.extensions.get(student, policy.due)
    late = max(timedelta(), hand_in.at - due)
    share, rule = _share(policy, late)
    base = max_score if policy.of == "max_score" and share < 1 else score
    penalty = round(min(score, share * base), 4)
    return Late(
        submitted=hand_in.at.astimezone(due.tzinfo).isoformat(timespec="seconds"),
        submitted_from=hand_in.source,
        due=due.isoformat(timespec="seconds"),
        late_by_hours=_hours(late),
        penalty=penalty,
        score_after_penalty=round(score - penalty, 4),
        rule=f"{rule} (extension)" if student in policy.extensions else rule,
    )


def _share(policy: Policy, late: timedelta) -> tuple[float, str]:
    """Return the share that is taken, from 0 to 1, and the rule in words."""
    if not late:
        return 0.0, "on time"
    if late <= policy.grace:
        return 0.0, f"on time: within {policy.grace / timedelta(minutes=1):g} minutes of grace"
    if policy.zero_after_days is not None and late > timedelta(days=policy.zero_after_days):
        return 1.0, f"more than {_count(policy.zero_after_days, 'day')} late: no points"
    if not policy.percent:
        return 0.0, "late, without a penalty"
    begun = math.ceil(late / _UNITS[policy.per])
    taken = policy.percent * begun
    what = "of the maximum" if policy.of == "max_score" else "of the score"
    rule = f"{policy.percent:g}% {what} for each {policy.per} begun: {_count(begun, policy.per)}, {taken:g}%"
    if taken > policy.cap:
        taken, rule = policy.cap, f"{rule}, at most {policy.cap:g}%"
    return taken / 100, rule


def _hours(late: timedelta) -> float:
    """Return hours to two digits; what is late at all never reads as 0."""
    return max(0.01, round(late / timedelta(hours=1), 2)) if late else 0.0


def _count(number: float, unit: str) -> str:
    return f"{number:g} {unit}{'' if number == 1 else 's'}"
