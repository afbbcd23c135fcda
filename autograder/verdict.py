"""What a grade is: Verdict, Evidence, CheckResult, PartResult, Report. Plain data, JSON in and out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any, Literal

SCHEMA = 1


class Verdict(StrEnum):
    """How a check, a part or a whole submission came out."""

    PASSED = "passed"
    FAILED = "failed"
    CRASHED = "crashed"
    TIMED_OUT = "timed_out"
    OUT_OF_MEMORY = "out_of_memory"
    NOT_ATTEMPTED = "not_attempted"
    BLOCKED = "blocked"
    FORBIDDEN = "forbidden"
    UNGRADABLE = "ungradable"


#: Most telling first: of several verdicts below it, a part or a submission shows this one.
PRECEDENCE = (
    Verdict.UNGRADABLE,
    Verdict.FORBIDDEN,
    Verdict.OUT_OF_MEMORY,
    Verdict.TIMED_OUT,
    Verdict.CRASHED,
    Verdict.FAILED,
    Verdict.NOT_ATTEMPTED,
    Verdict.BLOCKED,
)


def combine(verdicts: Iterable[Verdict]) -> Verdict:
    """Return the verdict of a whole from those of its pieces: `passed` only when every piece passed."""
    seen = set(verdicts)
    return next((verdict for verdict in PRECEDENCE if verdict in seen), Verdict.PASSED)


@dataclass(frozen=True)
class Evidence:
    """One exhibit of a check result; every report renders the same few kinds.

    kind "text":    data = {"text": str}
    kind "numbers": data = {"rows": [[name, value], ...]}             (values are numbers or short strings)
    kind "table":   data = {"columns": [str, ...], "rows": [[...], ...]}
    kind "matrix":  data = {"rows": [[float, ...], ...], "row_label": str, "column_label": str,
                            "empty_above_diagonal": bool}             (the T x T influence matrix)
                            with "linear": True shades follow the values, else their logarithms
    kind "bars":    data = {"rows": [[name, number], ...]}            (figures beside each other, the student's first)
    kind "code":    data = {"file": str, "line": int, "text": str}    (a line of the student's own source)
    """

    kind: Literal["text", "numbers", "table", "matrix", "bars", "code"]
    title: str
    data: dict[str, Any]


@dataclass(frozen=True)
class CheckResult:
    """The outcome of one check.

    `message` is one sentence for the student, `look_at` what to reread or try next (empty when it passed); `reason`
    is filled when the check did not run. Text here may quote student code: every report escapes it.
    """

    id: str  # "attention.causal"
    part: str  # "attention"
    title: str  # a sentence: "future tokens do not leak"
    verdict: Verdict
    points: float
    max_points: float
    message: str = ""
    look_at: str = ""
    evidence: tuple[Evidence, ...] = ()


@dataclass(frozen=True)
class PartResult:
    """One part (one class of the contract): its checks, its points, and the one sentence that explains it."""

    name: str  # "attention"
    title: str  # "CausalSelfAttention"
    verdict: Verdict
    score: float
    max_score: float
    diagnosis: str = ""
    checks: tuple[CheckResult, ...] = ()


@dataclass(frozen=True)
class Report:
    """The grade of one submission, with all that is needed to explain and to replay it."""

    student: str
    track: str
    kit_version: str
    seed: int
    isolation: dict[str, Any]  # {"level": "portable", "layers": [...], "isolated": False}
    verdict: Verdict
    score: float
    max_score: float
    parts: dict[str, PartResult]
    warnings: tuple[str, ...] = ()
    files: dict[str, str] = field(default_factory=dict)  # path in the submission -> SHA-256
    assembled: dict[str, Any] = field(default_factory=dict)  # is the whole model, put together, right? costs no points
    modules: dict[str, str] = field(default_factory=dict)  # class -> the file that it was imported from
    checks_run: int = 0
    error: str = ""  # why nothing could be graded, when nothing could
    repairs: tuple[str, ...] = ()  # what was put right in a damaged notebook before it was graded; costs nothing

    def summary(self) -> dict[str, Any]:
        """Return the row of `class.json`: everything but the checks and their evidence."""
        return {
            "student": self.student,
            "score": self.score,
            "max_score": self.max_score,
            "verdict": self.verdict.value,
            "parts": {
                name: {
                    "score": part.score,
                    "max_score": part.max_score,
                    "verdict": part.verdict.value,
                    "diagnosis": part.diagnosis,
                }
                for name, part in self.parts.items()
            },
            "warnings": list(self.warnings),
            "files": dict(self.files),
        }

    def to_json(self) -> dict[str, Any]:
        """Return the whole report as JSON-ready data (the student's file)."""
        return {"schema": SCHEMA, **asdict(self)}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Report:
        """Rebuild a report from `to_json`. Raises ValueError on an unknown schema; leaves fields of others."""
        if data.get("schema") != SCHEMA:
            raise ValueError(f"this report has schema {data.get('schema')!r}; this kit reads schema {SCHEMA}")
        fields = {key: value for key, value in data.items() if key in cls.__dataclass_fields__}
        fields["verdict"] = Verdict(fields["verdict"])
        fields["warnings"] = tuple(fields["warnings"])
        fields["repairs"] = tuple(fields.get("repairs", ()))
        fields["parts"] = {name: _part(part) for name, part in fields["parts"].items()}
        return cls(**fields)


def _part(data: dict[str, Any]) -> PartResult:
    checks = tuple(_check(check) for check in data["checks"])
    return PartResult(**{**data, "verdict": Verdict(data["verdict"]), "checks": checks})


def _check(data: dict[str, Any]) -> CheckResult:
    evidence = tuple(Evidence(**exhibit) for exhibit in data["evidence"])
    return CheckResult(**{**data, "verdict": Verdict(data["verdict"]), "evidence": evidence})
