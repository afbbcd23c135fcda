"""A late policy read from its TOML file. What is misspelt, or has no time zone, is told and not guessed."""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Mapping
from datetime import datetime, timedelta, tzinfo
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from autograder.classroom.late import PLAUSIBLE, Policy

_TOP = ("due", "time_zone", "grace_minutes", "penalty", "extensions", "submitted")
_PENALTY = ("percent", "per", "of", "cap", "zero_after_days")


class PolicyError(Exception):
    """The policy file cannot be used; the text says why and what to write."""


def read_policy(path: Path) -> Policy:
    """Return the policy in `path`. Raises PolicyError."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise PolicyError(f"{path} cannot be read: {error.strerror or error}.") from error
    except UnicodeDecodeError as error:
        raise PolicyError(f"{path} is not UTF-8 text.") from error
    try:
        return parse_policy(text)
    except PolicyError as error:
        raise PolicyError(f"{path}: {error}") from error


def parse_policy(text: str) -> Policy:
    """Return the policy that `text` (TOML) holds. Raises PolicyError."""
    try:
        data = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, ValueError) as error:  # ValueError: a date such as 2025-02-30
        raise PolicyError(f"this is not TOML: {error}.") from error
    _known(data, _TOP, "")
    rules = _table(data, "penalty")
    _known(rules, _PENALTY, "penalty.")
    zone = _zone(data.get("time_zone"))
    if "due" not in data:
        raise PolicyError("it has no due date. Write: due = 2025-03-14T23:59:00+01:00")
    return Policy(
        due=_moment("due", data["due"], zone),
        extensions=_moments(data, "extensions", zone),
        submitted=_moments(data, "submitted", zone),
        grace=timedelta(minutes=_number(data, "grace_minutes", 0.0, most=525_600)),  # a year
        percent=_number(rules, "percent", 0.0, "penalty.", most=100),
        per=_choice(rules, "per", ("day", "hour")),  # type: ignore[arg-type]
        of=_choice(rules, "of", ("score", "max_score")),  # type: ignore[arg-type]
        cap=_number(rules, "cap", 100.0, "penalty.", most=100),
        zero_after_days=_number(rules, "zero_after_days", 0.0, "penalty.", most=3650)
        if "zero_after_days" in rules
        else None,
    )


def unknown_students(policy: Policy, students: list[str]) -> list[str]:
    """Return a sentence for each student named in the policy who is not among `students`."""
    sentences = []
    for table, names in (("extensions", policy.extensions), ("submitted", policy.submitted)):
        for name in sorted(set(names) - set(students)):
            near = difflib.get_close_matches(name, students, 1)
            hint = f" Did you mean {near[0]}?" if near else ""
            sentences.append(f"The policy's {table} name {name}, of whom there is no submission here.{hint}")
    return sentences


def _known(table: Mapping[str, Any], names: tuple[str, ...], where: str) -> None:
    for key in table:
        if key not in names:
            near = difflib.get_close_matches(key, names, 1)
            hint = f" Did you mean {where}{near[0]}?" if near else ""
            raise PolicyError(f"there is no setting {where}{key}.{hint} The settings are: {', '.join(names)}.")


def _table(data: Mapping[str, Any], name: str) -> dict[str, Any]:
    table = data.get(name, {})
    if not isinstance(table, dict):
        raise PolicyError(f"{name} must be a table: write [{name}] on a line of its own, and its settings below.")
    return table


def _zone(name: object) -> tzinfo | None:
    if name is None:
        return None
    try:
        return ZoneInfo(str(name))
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise PolicyError(
            f"time_zone {str(name)!r} is not known here. Write a name such as Europe/Berlin "
            "(on Windows, pip install tzdata brings the names), or give each date its offset: ...T23:59:00+01:00."
        ) from error


def _moments(data: Mapping[str, Any], name: str, zone: tzinfo | None) -> dict[str, datetime]:
    return {student: _moment(f"{name}.{student}", value, zone) for student, value in _table(data, name).items()}


def _moment(name: str, value: object, zone: tzinfo | None) -> datetime:
    if not isinstance(value, datetime):
        raise PolicyError(f"{name} must be a date with a time, without quotes: 2025-03-14T23:59:00+01:00")
    if value.tzinfo is None and zone is None:
        raise PolicyError(
            f'{name} has no time zone: write {value.isoformat()}+01:00, or time_zone = "Europe/Berlin" at the top.'
        )
    moment = value if value.tzinfo is not None else value.replace(tzinfo=zone)
    if not PLAUSIBLE[0] < moment.year < PLAUSIBLE[1]:
        raise PolicyError(f"{name} lies in the year {moment.year}.")
    return moment


def _number(table: Mapping[str, Any], name: str, default: float, where: str = "", *, most: float) -> float:
    value = table.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= most:
        raise PolicyError(f"{where}{name} must be a number from 0 to {most:g}, not {value!r}.")
    return float(value)


def _choice(table: Mapping[str, Any], name: str, words: tuple[str, ...]) -> str:
    value = table.get(name, words[0])
    if value not in words:
        raise PolicyError(f"penalty.{name} must be {' or '.join(map(repr, words))}, not {value!r}.")
    return str(value)
