"""Checks of GPTConfig: five numbers with defaults, set by keyword."""

from __future__ import annotations

from autograder.checks.evidence import table
from autograder.checks.exam import Exam
from autograder.checks.registry import Outcome, check, failed, passed
from autograder.checks.replies import Field
from autograder.track import Part
from autograder.verdict import Verdict

#: A large model's configuration: nothing is capped.
LARGE = {"vocab_size": 128256, "block_size": 2048, "n_layer": 48, "n_head": 25, "n_embd": 1600}
#: Each field by itself, in values that fit the other defaults: small ones, one of each, a padded vocabulary.
ALONE = (
    ("vocab_size", 101),
    ("vocab_size", 50304),
    ("block_size", 64),
    ("n_layer", 2),
    ("n_layer", 1),
    ("n_head", 3),
    ("n_head", 1),
    ("n_embd", 96),
    ("n_embd", 6 * 7),
)


@check("config.defaults")
def config_has_the_defaults(exam: Exam, part: Part) -> Outcome:
    """GPTConfig() has the five fields with their defaults."""
    name, wanted = part.class_name, exam.track.config
    if exam.student.facts_of(part).empty:
        return Outcome(Verdict.NOT_ATTEMPTED, f"{name} has no fields yet.", f"Write the fields: {_fields(wanted)}.")
    fields, fault = exam.student.build_config({})
    if fault is not None:
        return failed(
            f"{name}() cannot be built without arguments: {fault.message}",
            "Give every field a default, so that GPTConfig() works.",
            fault.evidence,
            usable=True,
        )
    rows = [[field, value, _shown(fields.get(field))] for field, value in wanted.items()]
    exhibit = table("Defaults", ["field", "expected", "yours"], rows)
    missing = [field for field in wanted if field not in fields]
    if missing:
        wants = ", ".join(f"{field}: int = {wanted[field]}" for field in missing)
        return failed(
            f"{name} lacks {', '.join(missing)}.",
            f"Add {wants} (with its type: a dataclass ignores the rest).",
            [exhibit],
            usable=True,
        )
    wrong = [f for f, value in wanted.items() if not _equal(fields[f], value)]
    if wrong:
        first = wrong[0]
        return failed(
            f"{name}().{first} is {_shown(fields[first])}, not {wanted[first]}.",
            "Compare the defaults with the contract in the stub.",
            [exhibit],
            usable=True,
        )
    return passed()


@check("config.keywords")
def config_takes_keywords(exam: Exam, part: Part) -> Outcome:
    """Each field can be set by keyword, alone and with the others."""
    name = part.class_name
    if exam.student.facts_of(part).empty:
        return Outcome(Verdict.NOT_ATTEMPTED, f"{name} has no fields yet.")
    sizes = exam.draws.sizes("config").config
    before, unbuildable = exam.student.build_config({})
    known = [field for field in sizes if unbuildable is not None or field in before]
    full = {field: exam.track.config[field] for field in known}
    trials = [{field: sizes[field] for field in known}, {**full, **{f: v for f, v in LARGE.items() if f in known}}]
    for field, value in ALONE:
        if field in known:
            trials += [{**full, field: value}] + ([{field: value}] if unbuildable is None else [])
    for values in trials:
        fields, fault = exam.student.build_config(values, then=full)
        call = f"{name}({', '.join(f'{k}={v}' for k, v in values.items())})"
        if fault is not None:
            return failed(
                f"{call} is refused: {fault.message}",
                "Keyword arguments need @dataclass above the class, and a type after each field's name.",
                fault.evidence,
                usable=True,
            )
        for field, value in values.items():
            if not _equal(fields.get(field), value):
                return failed(
                    f"{call}.{field} is {_shown(fields.get(field))}, not {value}.", "Keep what was given.", usable=True
                )
        rest = [f for f in fields if f not in values and f in before and fields[f] != before[f]]
        if rest:
            return failed(
                f"{call} changes {rest[0]} to {_shown(fields[rest[0]])}.", "Each field stands alone.", usable=True
            )
    uneven = {**full, "n_embd": 16, "n_head": 3}
    fields, fault = exam.student.build_config(uneven)
    if fault is None and any(field in fields and not _equal(fields[field], uneven[field]) for field in known):
        return failed(
            f"{name}(n_embd=16, n_head=3) is changed without a word.",
            "Refuse what does not fit, or leave it to the attention; do not repair it.",
            usable=True,
        )
    after, _ = exam.student.build_config({})
    if after != before:
        return failed(
            f"After building other configurations {name}() has other defaults.",
            "Do not share state between instances.",
            usable=True,
        )
    return passed()


@check("config.types")
def config_fields_are_integers(exam: Exam, part: Part) -> Outcome:
    """The five fields are integers."""
    name = part.class_name
    if exam.student.facts_of(part).empty:
        return Outcome(Verdict.NOT_ATTEMPTED, f"{name} has no fields yet.")
    fields, fault = exam.student.build_config(exam.track.config)
    defaults, default_fault = exam.student.build_config({})
    for found in (defaults if default_fault is None else {}, fields if fault is None else {}):
        for field in exam.track.config:
            kind = found[field].type if field in found else "int"
            if kind != "int":
                return failed(
                    f"{name}().{field} is of type {kind}, not int: {_shown(found[field])}.",
                    f"Write {field} as a plain number.",
                    usable=True,
                )
    if not exam.student.facts_of(part).is_dataclass:
        exam.warnings.append(
            f"{name} is no dataclass: it behaves like one here, but dataclasses.replace() and asdict() fail."
        )
    if fault is not None and default_fault is not None:
        return failed(f"No {name} could be built to look at: {fault.message}", "", fault.evidence, usable=True)
    return passed()


def _equal(field: Field | None, value: int) -> bool:
    """Whether a field holds this number, be it as a float or as text: its type costs points in one check only."""
    return field is not None and (field.value == value or field.value == str(value))


def _shown(field: Field | None) -> str:
    if field is None:
        return "missing"
    return repr(field.value) if field.value is not None else f"of type {field.type}"


def _fields(wanted: dict[str, int]) -> str:
    return ", ".join(f"{name}: int = {value}" for name, value in wanted.items())
