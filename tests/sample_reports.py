"""A class of reports as the grader would make them: every verdict, every kind of evidence, and hostile text."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from autograder.track import Part, Track
from autograder.verdict import CheckResult, Evidence, PartResult, Report, Verdict, combine

V = Verdict


def _points(part: str, **worth: float) -> dict[str, float]:
    return {f"{part}.{name}": points for name, points in worth.items()}


#: The course as these samples know it: a copy, so that new checks in the kit's track change no sample.
TRACK = Track(
    "gpt",
    "Write a GPT",
    "model.py",
    {"vocab_size": 65, "block_size": 256, "n_layer": 6, "n_head": 6, "n_embd": 384},
    tuple(
        Part(name, class_name, f"{name}.py", _points(name, **worth), {}, {})
        for name, class_name, worth in (
            ("config", "GPTConfig", {"defaults": 2, "keywords": 2, "types": 1}),
            (
                "attention",
                "CausalSelfAttention",
                {"builds": 1, "parameters": 3, "shapes": 2, "causal": 6, "mask_is_hard": 2, "values": 7}
                | {"gradients": 3, "train_mode": 1, "pure": 2, "follows": 2, "divisibility": 1},
            ),
            (
                "mlp",
                "MLP",
                {"builds": 0.5, "parameters": 2, "shapes": 1, "values": 3.5, "gradients": 1}
                | {"train_mode": 0.5, "pure": 0.5, "follows": 1},
            ),
            (
                "block",
                "Block",
                {"builds": 1, "parameters": 3, "shapes": 1, "values": 8, "norm_epsilon": 1, "gradients": 3}
                | {"train_mode": 1, "pure": 1, "follows": 1},
            ),
            (
                "gpt",
                "GPT",
                {
                    "builds": 1,
                    "parameters": 4,
                    "layers": 2,
                    "tying": 4,
                    "shapes": 2,
                    "lengths": 1,
                    "values": 7,
                    "loss": 5,
                }
                | {"gradients": 4, "train_mode": 1, "pure": 1, "initial_loss": 1, "follows": 1, "imports_cleanly": 1},
            ),
        )
    ),
)
HOSTILE = (
    '</script><script>alert(1)</script><img src=x onerror="alert(2)">'
    "\x1b[31mred\x1b]0;title\x07\x9b2J \u202egnp.exe\u2066 [bold]markup[/bold] {{ 7*7 }} **md** \x00\x08\ud800 end"
)
PORTABLE = {"level": "portable", "isolated": False, "layers": ["process", "rlimits"]}

LEAK = Evidence(
    "matrix",
    "Influence of each input position on each output position",
    {
        "rows": [[0.5 if j <= i else (0.02 if j == i + 1 else 0.0) for j in range(8)] for i in range(8)],
        "row_label": "output position",
        "column_label": "input position",
        "empty_above_diagonal": True,
    },
)
NUMBERS = Evidence(
    "numbers",
    "Difference",
    {"rows": [["largest error", 0.8312], ["tolerance", 1e-5], ["first at", "(0, 3, 12)"], ["none", float("nan")]]},
)
TABLE = Evidence(
    "table",
    "Parameters by name",
    {
        "columns": ["tensor", "expected", "found", "count"],
        "rows": [
            ["c_attn.weight", "(1152, 384)", "missing", 442368],
            ["q.weight", "-", "(384, 384)", 147456],
        ],
    },
)
CODE = Evidence(
    "code", "The line", {"file": "model.py", "line": 41, "text": "    att = att.softmax(dim=-2)\n    # why?"}
)
TEXT = Evidence("text", "What it printed", {"text": "Traceback (most recent call last):\n  ValueError: no"})

Finding = tuple[Verdict, str, str, tuple[Evidence, ...]]


def report(
    student: str = "ada",
    wrong: Mapping[str, Finding] | None = None,
    *,
    whole: Callable[[str], Verdict | None] = lambda part: None,
    seed: int = 20_240_611,
    track: Track = TRACK,
    **changes: object,
) -> Report:
    """Return the report of a submission in which `wrong` says what each named check found; the others passed."""
    wrong = dict(wrong or {})
    parts: dict[str, PartResult] = {}
    for part in track.parts:
        checks = []
        for id_, worth in part.points.items():
            verdict, message, look_at, evidence = wrong.get(id_, (whole(part.name) or V.PASSED, "", "", ()))
            if verdict is V.BLOCKED and not message:
                message = f"needs {part.name}.builds, which did not pass"
            title = id_.split(".")[1].replace("_", " ") + " is as the contract says"
            gained = worth if verdict is V.PASSED else 0.0
            checks.append(CheckResult(id_, part.name, title, verdict, gained, worth, message, look_at, evidence))
        verdict = combine(check.verdict for check in checks)
        first = next((c.message for c in checks if c.verdict not in (V.PASSED, V.BLOCKED) and c.message), "")
        parts[part.name] = PartResult(
            part.name, part.class_name, verdict, sum(c.points for c in checks), part.max_score, first, tuple(checks)
        )
    made = Report(
        student=student,
        track=track.name,
        kit_version="0.1.0",
        seed=seed,
        isolation=PORTABLE,
        verdict=combine(part.verdict for part in parts.values()),
        score=sum(part.score for part in parts.values()),
        max_score=track.max_score,
        parts=parts,
        files={"model.py": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"},
        assembled={"message": "All five classes together compute the reference model.", "verdict": "passed"},
        modules={part.class_name: "model.py" for part in track.parts},
        checks_run=41,
    )
    return replace(made, **changes)  # type: ignore[arg-type]


def ungradable(student: str, reason: str = "The sandbox could not start: no space left on device.") -> Report:
    """Return the report of a submission that we failed to grade."""
    empty = report(student, whole=lambda part: V.UNGRADABLE)
    return replace(empty, verdict=V.UNGRADABLE, error=reason, checks_run=0, assembled={})


SCALE = "Your output equals attention without the 1/sqrt(head_dim) scale."
NO_SCALE: dict[str, Finding] = {
    "attention.values": (
        V.FAILED,
        SCALE,
        "the line that multiplies q by k: what keeps its variance at 1?",
        (NUMBERS, CODE),
    ),
}
NO_MASK: dict[str, Finding] = {
    "attention.causal": (V.FAILED, "Position 3 sees position 4, which lies in its future.", "the mask", (LEAK,)),
    "attention.mask_is_hard": (V.BLOCKED, "needs attention.causal, which did not pass", "", ()),
    "attention.values": (V.BLOCKED, "needs attention.causal, which did not pass", "", ()),
}


def sample_class() -> list[Report]:
    """Return twelve reports that show every verdict and every kind of evidence."""
    names = "Names differ: expected c_attn.weight (3C, C), found q.weight, k.weight, v.weight."
    untied = {
        "gpt.tying": (
            V.FAILED,
            "lm_head.weight is a copy of wte.weight, not the same tensor.",
            "where they are tied",
            (),
        )
    }
    return [
        report("ada"),
        report("no_scale", NO_SCALE),
        report("Zoë Müller", NO_SCALE | untied),
        report(
            "o'neil (b)+1", NO_MASK, warnings=("The output head starts near a loss of 240: tie the other way round.",)
        ),
        report("renamed", {"attention.parameters": (V.FAILED, names, "the names in the contract", (TABLE,))}),
        report("stub", whole=lambda part: None if part == "config" else V.NOT_ATTEMPTED, assembled={}),
        report(
            "loops", {"gpt.values": (V.TIMED_OUT, "The call did not finish within 10 s.", "the loop in forward", ())}
        ),
        report(
            "syntax",
            {
                "config.defaults": (
                    V.CRASHED,
                    "model.py does not load: '(' was never closed (line 41).",
                    "line 41",
                    (CODE, TEXT),
                )
            },
            whole=lambda part: V.BLOCKED,
            assembled={},
        ),
        report(
            "hog",
            {"block.values": (V.OUT_OF_MEMORY, "It used more than 4096 MB of memory.", "the list that grows", ())},
        ),
        report(
            "cheat",
            {"gpt.values": (V.FORBIDDEN, "It tries to read the grader's files.", "", ())},
            verdict=V.FORBIDDEN,
            score=0.0,
            error="It tries to read the grader's files.",
        ),
        ungradable("unlucky"),
        report(
            HOSTILE,
            {
                "mlp.values": (
                    V.FAILED,
                    HOSTILE,
                    HOSTILE,
                    (replace(CODE, title=HOSTILE, data={"file": HOSTILE, "line": 1, "text": HOSTILE}),),
                )
            },
        ),
    ]
