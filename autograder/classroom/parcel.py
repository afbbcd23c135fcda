"""What travels between the grader and a worker of a cluster: plain data as JSON bytes, never a student's object.

A parcel holds one submission and the terms to grade it on; an answer holds its report, or why there is none.
"""

from __future__ import annotations

import base64
import json
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Literal

from autograder.classroom.ledger import Terms
from autograder.sandbox import Limits
from autograder.submission import Submission
from autograder.verdict import Report, Verdict

#: report     the JSON of a Report
#: failed     a sentence: this submission could not be graded, for a reason of ours
#: exposed    the layers that hold on that worker: student code cannot be kept apart there
#: different  a sentence: that worker has another kit or course, and its grades would not be the same
Kind = Literal["report", "failed", "exposed", "different"]


@dataclass(frozen=True)
class Parcel:
    """One submission, and on what terms it is to be graded."""

    submission: Submission
    terms: Terms
    seed: int
    limits: Limits
    trusted: bool  # grade even where student code cannot be isolated
    parts: tuple[str, ...] = ()  # the parts to grade, where they were chosen

    def pack(self) -> bytes:
        """Return it as JSON; student ids and paths may hold what is no text, and come out the same."""
        submission = {entry.name: getattr(self.submission, entry.name) for entry in fields(Submission)}
        submission |= {
            "origin": str(self.submission.origin),
            "tree": {path: base64.b64encode(data).decode() for path, data in self.submission.tree.items()},
            "lenient": sorted(self.submission.lenient),
        }
        terms, limits = asdict(self.terms), asdict(self.limits)
        how = {"seed": self.seed, "limits": limits, "terms": terms, "trusted": self.trusted, "parts": self.parts}
        return _packed({"submission": submission, **how})

    @classmethod
    def unpack(cls, data: bytes) -> Parcel:
        """Return what `pack` packed."""
        found = json.loads(data)
        inner = found["submission"]
        inner |= {
            "origin": Path(inner["origin"]),
            "tree": {path: base64.b64decode(text) for path, text in inner["tree"].items()},
            "lenient": frozenset(inner["lenient"]),
            "warnings": tuple(inner["warnings"]),
            "repairs": tuple(inner["repairs"]),
            "suspicious": tuple(inner["suspicious"]),
            "verdict": Verdict(inner["verdict"]) if inner["verdict"] is not None else None,
        }
        terms, limits = Terms(**found["terms"]), Limits(**found["limits"])
        return cls(Submission(**inner), terms, found["seed"], limits, found["trusted"], tuple(found["parts"]))


@dataclass(frozen=True)
class Answer:
    """What a worker says about one parcel."""

    kind: Kind
    content: Any  # by kind, see above

    @classmethod
    def of(cls, report: Report) -> Answer:
        """Return the answer that carries `report`."""
        return cls("report", report.to_json())

    def pack(self) -> bytes:
        """Return it as JSON."""
        return _packed({"kind": self.kind, "content": self.content})

    @classmethod
    def unpack(cls, data: bytes) -> Answer:
        """Return what `pack` packed, a report as a Report."""
        found = json.loads(data)
        kind, content = found["kind"], found["content"]
        return cls(kind, Report.from_json(content) if kind == "report" else content)


def _packed(data: dict[str, Any]) -> bytes:
    return json.dumps(data, separators=(",", ":")).encode("ascii")  # half a surrogate pair stays an escape
