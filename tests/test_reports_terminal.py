"""Claims about reports on a terminal: what a student and an instructor read there, and that nothing hostile acts."""

from __future__ import annotations

import io
import re
from dataclasses import replace

from rich.console import Console
from sample_reports import (
    HOSTILE,
    NO_MASK,
    NO_SCALE,
    PORTABLE,
    SCALE,
    TABLE,
    TEXT,
    V,
    report,
    sample_class,
    ungradable,
)

from autograder.reports.terminal import class_table, result_line, student_report
from autograder.verdict import Evidence, Report


def console(encoding: str = "utf-8", width: int = 80, **options: object) -> Console:
    return Console(file=io.TextIOWrapper(io.BytesIO(), encoding=encoding, errors="replace"), width=width, **options)  # type: ignore[arg-type]


def text_of(screen: Console) -> str:
    screen.file.flush()
    return screen.file.buffer.getvalue().decode(screen.file.encoding)  # type: ignore[attr-defined]


def shown(made: Report, encoding: str = "utf-8", **options: object) -> str:
    screen = console(encoding)
    student_report(made, screen, **options)  # type: ignore[arg-type]
    return text_of(screen)


def test_a_failed_check_is_told_with_evidence_and_what_to_look_at() -> None:
    out = shown(report("ada", NO_SCALE))
    for words in (SCALE, "largest error  0.8312", "model.py, line 41", "look at: the line that multiplies", "23 / 30"):
        assert words in out
    assert "10 of 11 checks passed" in out and "Total  93 / 100  failed" in out
    assert "Next: CausalSelfAttention in model.py: read the first message above" in out


def test_the_matrix_is_drawn_with_its_leaks_marked() -> None:
    out = shown(report("ada", NO_MASK))
    assert "██!" in out and " . . . . . ." in out and "must be empty: 7 are not" in out
    assert "blocked: 2 checks: needs attention.causal" in out


BARS = Evidence("bars", "Loss before training", {"rows": [["yours", 8.34], ["ln 65", 4.17], ["odd", "x"]]})


def test_figures_beside_each_other_are_bars_with_their_numbers() -> None:
    out = shown(report("ada", {"gpt.initial_loss": (V.FAILED, "It starts high.", "", (BARS,))}))
    long, short, none = (next(line for line in out.splitlines() if name in line) for name in ("yours", "ln 65", "odd"))
    assert long.count("█") == 30 and short.count("█") == 15 and none.count("█") == 0
    assert long.endswith("8.34") and short.endswith("4.17") and none.endswith("nan")


def test_pictures_of_what_passed_are_shown_when_asked() -> None:
    passing = report("ada", {"gpt.initial_loss": (V.PASSED, "", "", (BARS,))})
    assert "Loss before training" in shown(passing, verbose=True)
    assert "Loss before training" not in shown(passing)


def test_passed_checks_are_counted_and_listed_only_when_asked() -> None:
    title = "gradients is as the contract says"
    assert title not in shown(report("ada"))
    assert title in shown(report("ada"), verbose=True)


def test_an_untouched_stub_is_no_error() -> None:
    out = shown(report("ada", whole=lambda part: V.NOT_ATTEMPTED, assembled={}))
    assert out.count("not attempted") == 6 and "failed" not in out and "✗" not in out
    assert "Next: GPTConfig in model.py: fill in its stub, then run: workshop check config" in out


def test_what_was_graded_and_how_isolated_is_always_there() -> None:
    repaired = ("MLP is there 2 times.",)
    files = {f"f{i}.py": "" for i in range(10)}
    out = shown(report("ada", warnings=("It starts near 240.",), repairs=repaired, files=files))
    assert "repaired (costs nothing): MLP is there 2 times." in out
    for words in ("seed       20240611", "NOT ISOLATED (portable)", "f0.py", "and 2 more", "It starts near 240."):
        assert words in out
    assert "Your own parts, put together: All five classes" in out
    assert "isolated (linux)" in shown(report("ada", isolation={"level": "linux", "isolated": True}))


def test_a_failure_of_ours_is_not_blamed_on_the_student() -> None:
    out = shown(ungradable("ada"))
    assert "not your fault" in out and "no space left" in out and "Total" not in out
    assert len(out.splitlines()) < 25, "one line a part, not one a check"


def test_only_the_parts_that_were_asked_for_are_shown() -> None:
    out = shown(report("ada", NO_SCALE), only=["mlp"])
    assert "CausalSelfAttention" not in out and "Total  10 / 10" in out and "Next" not in out
    out = shown(report("ada", NO_SCALE), only=["attention"], command="workshop check --path x")
    assert "workshop check --path x attention" in out.replace("\n", "")


def test_the_same_crash_in_every_check_is_told_once() -> None:
    found = {
        f"mlp.{name}": (V.CRASHED, "forward raised ValueError: no", "", (TEXT,))
        for name in ("values", "shapes", "pure")
    }
    out = shown(report("ada", found))
    assert out.count("forward raised ValueError") == 1 and "and 2 more checks, for the same reason" in out


def test_long_tables_and_texts_are_cut() -> None:
    table = replace(TABLE, data={"columns": ["n"], "rows": [[i] for i in range(500)]})
    text = Evidence("text", "Printed", {"text": "line\n" * 500})
    out = shown(report("ada", {"mlp.values": (V.FAILED, "no", "", (table, text))}))
    assert "and 488 more rows" in out and "488 more lines" in out


def test_it_fits_in_80_columns_without_colour() -> None:
    for made in sample_class():
        for line in shown(made).splitlines():
            assert len(line) <= 80, line
    screen = console()
    class_table(sample_class(), screen)
    assert "\x1b" not in text_of(screen) and all(len(line) <= 80 for line in text_of(screen).splitlines())


def test_ascii_terminals_get_ascii_marks() -> None:
    out = shown(report("Zoë", NO_MASK | NO_SCALE | {"mlp.parameters": (V.FAILED, "names", "", (TABLE,))}), "ascii")
    assert out.isascii() and "x CausalSelfAttention" in out and "+ GPTConfig" in out
    assert shown(report("ada"), "ascii").count("?") == 0
    screen = console("ascii")
    class_table(sample_class(), screen)
    assert "100" in text_of(screen)


def test_hostile_text_neither_acts_nor_is_markup() -> None:
    screen = console(force_terminal=True, color_system="truecolor", no_color=False)
    made = sample_class()[-1]
    student_report(made, screen, verbose=True)
    class_table([made], screen)
    screen.print(result_line(made), markup=False)
    out = text_of(screen)
    own = re.sub(r"\x1b\[[\d;]*m", "", out)  # rich's own colours
    assert "\x1b" not in own and "\x9b" not in own and "\u202e" not in own and "\x07" not in own
    assert "[bold]markup[/bold]" in own and HOSTILE not in own


def test_the_class_table_shows_every_student_and_what_is_common() -> None:
    screen = console()
    class_table(sample_class(), screen)
    out = text_of(screen)
    for words in (
        "ada",
        "Zoë Müller",
        "out of memory",
        "timed out",
        "not graded",
        "11 graded: mean",
        "2 x  attention:",
    ):
        assert words in out
    assert "Not graded, our fault: unlucky: The sandbox could not start" in out.replace("\n", " ")
    lines = out.splitlines()
    assert lines.index(next(x for x in lines if x.startswith("ada"))) < lines.index(
        next(x for x in lines if x.startswith("Zoë"))
    )


def test_a_report_without_parts_and_an_empty_class_are_fine() -> None:
    bare = replace(report("bare"), parts={}, error="There is no model.py in the submission.", verdict=V.NOT_ATTEMPTED)
    assert "There is no model.py" in shown(bare)
    screen = console()
    class_table([], screen)
    class_table([bare, report("ada")], screen)
    assert "bare" in text_of(screen)


def test_a_part_shows_its_diagnosis_when_no_check_says_it() -> None:
    made = report("ada", {"mlp.values": (V.FAILED, "off by 1", "", ())})
    part = replace(made.parts["mlp"], diagnosis="names differ")
    out = shown(replace(made, parts={**made.parts, "mlp": part}))
    assert "names differ" in out and "off by 1" in out


def test_a_result_line_reads_as_a_sentence() -> None:
    assert result_line(report("ada", NO_SCALE)) == "ada: 93 / 100  failed"
    assert result_line(ungradable("bo")) == "bo: not graded (our fault)"
    assert PORTABLE["isolated"] is False
