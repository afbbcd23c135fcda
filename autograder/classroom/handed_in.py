"""When a submission was handed in: nbgrader's stamp, else the policy file, else the date of its newest file."""

from __future__ import annotations

import os
import re
import stat
from datetime import UTC, datetime, tzinfo
from pathlib import Path
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from autograder.classroom.late import PLAUSIBLE, HandIn, Late, Policy, late_mark
from autograder.submission.folder import read_regular
from autograder.submission.limits import MAX_FILES, Refused
from autograder.verdict import Report, Verdict

STAMP = "nbgrader's timestamp.txt"
POLICY = "the policy file"
NEWEST = "the date of the newest file, which a copy may have changed"

#: A stamp is one line of some 30 characters.
_STAMP_BYTES = 1000
#: `2025-03-14 22:10:05.123456 UTC`, nbgrader's own form; zone names and offsets too.
_STAMP = re.compile(r"(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d:\d\d)(\.\d{1,6})? *([A-Za-z0-9_+:/-]*)")
_OFFSET = re.compile(r"[+-]\d\d:?\d\d")


def mark_of(report: Report, path: Path, submissions: Path, policy: Policy) -> Late | None:
    """Return the late mark of what was handed in at `path`; None where there is no score, or nothing tells the time."""
    if report.verdict is Verdict.UNGRADABLE:
        return None
    hand_in = handed_in(report.student, path, submissions, policy)
    return late_mark(policy, report.student, hand_in, report.score, report.max_score) if hand_in is not None else None


def handed_in(student: str, path: Path, submissions: Path, policy: Policy) -> HandIn | None:
    """Return when the submission at `path` was handed in; None when nothing tells.

    `submissions` is what the instructor named. A `timestamp.txt` counts only in nbgrader's own layout,
    `<student>/<assignment>/`, where nbgrader writes it: in a plain class folder it is the student's own file.
    """
    root, broken = submissions.resolve(), ""
    if path.parent not in (root, root / "submitted", root.parent):
        try:
            return HandIn(parse_stamp(read_regular(path, ("timestamp.txt",), _STAMP_BYTES)), STAMP)
        except Refused:  # there is none, or it is a link
            pass
        except ValueError:
            broken = "; its timestamp.txt cannot be understood"
    if student in policy.submitted:
        return HandIn(policy.submitted[student], POLICY + broken)
    newest = _newest(path)
    return HandIn(newest, NEWEST + broken) if newest is not None else None


def parse_stamp(data: bytes) -> datetime:
    """Return the moment in a timestamp.txt; without a zone it is UTC, as nbgrader has it. Raises ValueError."""
    match = _STAMP.fullmatch(data.decode("utf-8").strip())
    if match is None:
        raise ValueError("not a time stamp")
    day, time, fraction, zone = match.groups()
    moment = datetime.fromisoformat(f"{day}T{time}{fraction or ''}").replace(tzinfo=_zone(zone))
    if not PLAUSIBLE[0] < moment.year < PLAUSIBLE[1]:
        raise ValueError(f"a hand-in in the year {moment.year}")
    return moment


def _zone(name: str) -> tzinfo:
    if name in ("", "UTC", "GMT", "Z"):
        return UTC
    if _OFFSET.fullmatch(name):
        zone = datetime.strptime(name, "%z").tzinfo
        assert zone is not None
        return zone
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, OSError) as error:
        raise ValueError(f"unknown time zone {name}") from error


def _newest(path: Path) -> datetime | None:
    """Return the date of the newest regular file, following no link; None where there is none."""
    times: list[float] = []
    folders = [path]
    while folders and len(times) < MAX_FILES:
        place = folders.pop()
        try:
            info = os.lstat(place)
            if stat.S_ISREG(info.st_mode):
                times.append(info.st_mtime)
            elif stat.S_ISDIR(info.st_mode):
                folders += sorted(place.iterdir())[:MAX_FILES]
        except OSError:  # gone, or closed to us: the others tell
            continue
    try:
        return datetime.fromtimestamp(max(times), UTC) if times else None
    except (ValueError, OverflowError, OSError):  # a date that no calendar has
        return None
