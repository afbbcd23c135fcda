"""The optional parts (tokenizer, training, generation): graded where they are asked for, and nowhere else."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from pathlib import Path

import pytest
from answers import SOLUTIONS, checks, rejecting, solutions, write
from conftest import HandIn
from mutants import OPTIONAL, OWN, read_cases, run
from typer.testing import CliRunner

from autograder.cli import app
from autograder.submission import read_submission
from autograder.track import Track
from autograder.verdict import Verdict

CLI = CliRunner()
#: Of the cases, one in so many is graded here; the complete matrix grades all.
ONE_IN = 12


def optional(*names: str) -> dict[str, str]:
    return {f"{name}.py": (SOLUTIONS / f"{name}.py").read_text(encoding="utf-8") for name in names or OPTIONAL}


def changed(name: str, find: str, replace: str) -> dict[str, str]:
    (text,) = optional(name).values()
    assert text.count(find) == 1
    return {f"{name}.py": text.replace(find, replace)}


def test_the_track_is_worth_what_it_was_and_a_hundred_more_for_those_who_ask(track: Track) -> None:
    assert track.max_score == 100 and [part.name for part in track.parts] == [
        "config",
        "attention",
        "mlp",
        "block",
        "gpt",
    ]
    assert [part.name for part in track.optional] == list(OPTIONAL)
    assert sum(part.max_score for part in track.optional) == 100
    assert track.graded == track.parts and track.choosing(["training"]).graded == (track.part("training"),)
    assert track.part("training").title == "training.py" and track.part("tokenizer").title == "CharTokenizer"


def test_our_solutions_get_full_marks_in_each_optional_part(hand_in: HandIn) -> None:
    report = hand_in(optional(), parts=OPTIONAL)
    assert rejecting(report) == {} and list(report.parts) == list(OPTIONAL)
    assert (report.score, report.max_score, report.verdict) == (100, 100, Verdict.PASSED)
    assert report.modules["get_batch"] == "training.py" and report.assembled == {}


def test_without_names_only_the_required_parts_are_graded(hand_in: HandIn) -> None:
    wrong = {
        **solutions(),
        **changed("training", "data[places + 1]", "data[places]"),
        "generation.py": "import os; os._exit(3)",
    }
    report = hand_in(wrong)
    assert (
        list(report.parts) == ["config", "attention", "mlp", "block", "gpt"] and report.score == report.max_score == 100
    )


def test_required_and_optional_parts_are_graded_together_where_both_are_asked_for(hand_in: HandIn) -> None:
    report = hand_in({**solutions(), **optional("tokenizer")}, parts=["mlp", "tokenizer"])
    assert {name: part.score for name, part in report.parts.items()} == {"mlp": 10, "tokenizer": 20}
    assert report.score == 30 and report.max_score == 30


def test_a_broken_optional_part_leaves_the_others_alone(hand_in: HandIn) -> None:
    files = {**optional("tokenizer", "generation"), "training.py": "def get_batch(:\n"}
    report = hand_in(files, parts=OPTIONAL)
    assert report.parts["training"].verdict is Verdict.CRASHED and "line 1" in report.parts["training"].diagnosis
    assert report.parts["tokenizer"].score == 20 and report.parts["generation"].score == 30


def test_stubs_and_missing_files_are_not_attempted(hand_in: HandIn) -> None:
    stub = Path(__file__).parents[1] / "exercises" / "training.py"
    report = hand_in({"training.py": stub.read_text(encoding="utf-8"), **optional("tokenizer")}, parts=OPTIONAL)
    assert report.parts["training"].verdict is report.parts["generation"].verdict is Verdict.NOT_ATTEMPTED
    assert "There is no generation.py" in report.parts["generation"].diagnosis


def test_all_in_one_file_is_found_there(hand_in: HandIn) -> None:
    report = hand_in({"model.py": "\n\n".join(optional().values())}, parts=OPTIONAL)
    assert report.score == 100 and report.modules["generate"] == "model.py"


def test_one_missing_function_costs_its_own_points_alone(hand_in: HandIn) -> None:
    report = hand_in(changed("training", "def learning_rate(", "def get_lr("), parts=["training"])
    lost = {id: check.message for id, check in checks(report).items() if check.points < check.max_points}
    assert set(lost) == {"training.rate_warmup", "training.rate_cosine", "training.rate_after"}
    assert "no function learning_rate" in lost["training.rate_warmup"]


def test_another_interface_is_told_as_one(hand_in: HandIn) -> None:
    fewer = changed("training", "block_size: int, batch_size: int, generator", "block_size: int, generator")
    report = hand_in(fewer, parts=["training"])
    assert "The interface differs: get_batch()" in report.parts["training"].diagnosis


def test_a_wrong_gpt_costs_nothing_in_generation(hand_in: HandIn) -> None:
    report = hand_in({**optional("generation"), "gpt.py": "raise RuntimeError('not this one')"}, parts=["generation"])
    assert report.score == 30


@pytest.mark.parametrize(
    ("attack", "part"),
    [
        ("import torch\ntorch.equal = lambda *a: True\n", "training"),
        ("import autograder.probe.practice as p\np.PracticeModel.forward = lambda s, i, t=None: None\n", "generation"),
    ],
)
def test_who_changes_the_grader_or_torch_gets_nothing(hand_in: HandIn, attack: str, part: str) -> None:
    report = hand_in({f"{part}.py": attack + optional(part)[f"{part}.py"]}, parts=[part])
    assert report.parts[part].verdict is Verdict.FORBIDDEN and report.score == 0


ODD = "class Odd(float):\n    def __repr__(self):\n        raise SystemExit\n"


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("return None", "returns None"),
        ("return 'a rate'", "not a float"),
        ("return float('nan')", "nan"),
        ("return [10 ** 30]", "not a float"),
        ("return Odd(0.1)", "type Odd"),
        ("raise SystemExit('bye')", "SystemExit"),
        ("return learning_rate(it, max_lr, min_lr, warmup_iters, decay_iters)", "RecursionError"),
    ],
)
def test_odd_answers_are_told_and_end_nothing(hand_in: HandIn, body: str, says: str) -> None:
    text = ODD + f"def learning_rate(it, max_lr, min_lr, warmup_iters, decay_iters):\n    {body}\n"
    report = hand_in({"training.py": text}, parts=["training"])
    found = checks(report)["training.rate_warmup"]
    assert says in found.message and found.verdict in (Verdict.FAILED, Verdict.CRASHED)
    assert not any("stumbled" in warning for warning in report.warnings)


def test_what_a_function_returns_may_be_of_any_kind(hand_in: HandIn) -> None:
    text = "import numpy as np, torch\ndef vocabulary_cost(v, c, tied=True):\n    n = v * c * (1 if tied else 2)\n"
    for kind in ("np.int64(n)", "torch.tensor(n)", "float(n)", "np.float32(1) * 0 + np.float64(n)"):
        report = hand_in({"tokenizer.py": text + f"    return {kind}\n"}, parts=["tokenizer"])
        assert checks(report)["tokenizer.cost"].verdict is Verdict.PASSED, kind


def test_a_notebook_of_an_optional_part_is_read_by_its_name(track: Track, tmp_path: Path) -> None:
    cell = {"cell_type": "code", "source": optional("tokenizer")["tokenizer.py"], "metadata": {}, "outputs": []}
    book = {"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    folder = write(
        tmp_path / "ada", {**solutions(), "tokenizer.ipynb": json.dumps(book), "training.ipynb": "no notebook"}
    )
    submission = read_submission(folder, track)
    assert submission.sources["CharTokenizer"] == "tokenizer.py" and "tokenizer.py" in submission.lenient
    assert submission.problem == "" and any("training.ipynb" in warning for warning in submission.warnings)
    assert set(track.classes) < set(submission.sources)


def test_an_optional_file_by_itself_is_a_submission(track: Track, tmp_path: Path) -> None:
    folder = write(tmp_path / "ada", optional("training"))
    alone = read_submission(folder, track)
    assert alone.problem == "" and set(alone.sources) == set(track.part("training").names)
    single = read_submission(folder / "training.py", track)
    assert single.sources["train_step"] == "training.py"


def test_check_takes_optional_parts_by_name_by_function_and_all(tmp_path: Path) -> None:
    folder = write(tmp_path / "ada", optional("tokenizer"))
    for words in (["merge_pair"], ["tokenizer.py", "CharTokenizer"]):
        result = CLI.invoke(app, ["check", *words, "--path", str(folder), "--seed", "3"])
        assert result.exit_code == 0 and "20 / 20" in result.stdout, result.output
    every = CLI.invoke(app, ["check", "all", "--path", str(folder), "--seed", "3", "--json"])
    assert every.exit_code == 1 and len(json.loads(every.stdout)["parts"]) == 8
    status = CLI.invoke(app, ["status", "--path", str(folder)])
    assert "20 / 20*" in status.stdout and "optional parts: 20 of 100" in status.stdout
    wrong = CLI.invoke(app, ["check", "tokeniser", "--path", str(folder)])
    assert wrong.exit_code == 2 and "Did you mean tokenizer?" in " ".join(wrong.output.split())


def test_start_brings_all_stubs_and_hint_knows_the_optional_parts(tmp_path: Path) -> None:
    result = CLI.invoke(app, ["start", str(tmp_path / "my")])
    assert result.exit_code == 0
    assert {"tokenizer.py", "training.py", "generation.py"} <= {path.name for path in (tmp_path / "my").iterdir()}
    hint = CLI.invoke(app, ["hint", "generation", "--path", str(tmp_path / "my")])
    assert hint.exit_code == 0 and "how likely each next token" in " ".join(hint.stdout.split())


def test_a_class_is_graded_on_optional_parts_where_asked_and_told_of_them_where_not(tmp_path: Path) -> None:
    write(tmp_path / "class" / "ada", {**solutions(), **optional("tokenizer")})
    write(
        tmp_path / "class" / "bo",
        {"tokenizer.py": optional("tokenizer")["tokenizer.py"].replace("[self.id_of", "[1 + self.id_of")},
    )

    def grade(*options: str) -> tuple[str, Mapping[str, float], list[str]]:
        out = tmp_path / "grades"
        place = ["grade", str(tmp_path / "class"), "--out", str(out), "--seed", "5", "--trust-students"]
        result = CLI.invoke(app, [*place, *options])
        assert result.exit_code == 0, result.output
        rows = json.loads((out / "class.json").read_text(encoding="utf-8"))["submissions"]
        page = (out / "class.html").read_text(encoding="utf-8")
        assert ("not graded in this run" in page) is ("not graded in this run" in result.output)
        return " ".join(result.output.split()), {row["student"]: row["score"] for row in rows}, list(rows[0]["parts"])

    told, scores, parts = grade()
    assert scores == {"ada": 100, "bo": 0} and len(parts) == 5
    assert "not graded in this run, since these parts are optional: tokenizer (2). Add --parts all." in told
    told, scores, parts = grade("--parts", "tokenizer")
    assert scores["ada"] == 20 and 0 < scores["bo"] < 20 and parts == ["tokenizer"]
    assert "not graded in this run" not in told and "from an earlier run" not in told
    told, scores, parts = grade("--parts", "tokenizer")
    assert "2 of 2 from an earlier run" in told
    refused = CLI.invoke(app, ["grade", str(tmp_path / "class"), "--parts", "tokenizer,tranning"])
    assert refused.exit_code == 2 and "Did you mean training?" in " ".join(refused.output.split())


def test_of_a_choice_of_cases_no_fault_escapes_and_no_right_answer_is_hurt(tmp_path: Path) -> None:
    cases = [case for case in read_cases([OWN]) if set(case.verdict) <= set(OPTIONAL)]
    assert sum(case.kind == "faulty" for case in cases) >= 100
    for case in cases:
        if case.kind == "correct" or zlib.crc32(case.name.encode()) % ONE_IN == 0:
            write(tmp_path / case.kind / case.name, {path.name: path.read_bytes() for path in case.folder.iterdir()})
    matrix = run([tmp_path], jobs=1)
    assert len(matrix.of("correct")) == 8 and len(matrix.of("faulty")) >= 5
    assert matrix.survivors == matrix.hurt == matrix.broke == [] and matrix.differences == ()
