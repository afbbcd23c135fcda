"""The foundations track: the same machine, other names; its faults are told, its right answers lose nothing."""

from __future__ import annotations

import importlib
import math
import shutil
import subprocess
import sys
import tomllib
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from answers import checks, rejecting, write
from conftest import STEMS
from mutants import Matrix, read_cases, run, stage
from test_kill_matrix import complaints
from typer.testing import CliRunner, Result

from autograder.authoring.build import stale
from autograder.authoring.canary import leaks, telling_lines
from autograder.checks.registry import find_check
from autograder.cli import app
from autograder.grading import grade
from autograder.hints import GENERAL, load_hints
from autograder.jupyter.influence import picture
from autograder.oracle.cases import full_shapes
from autograder.oracle.misconceptions import BANK
from autograder.oracle.reference import Reference, count
from autograder.sandbox import Nursery
from autograder.submission import read_submission
from autograder.track import load_track
from autograder.verdict import Verdict

TRACK = load_track("foundations")
ROOT = Path(__file__).parents[1]
CASES = Path(__file__).parent / "cases" / "foundations"
#: Of the cases the quick test takes one in so many, and grades only the class that is wrong there.
ONE_IN = 20
SEED = 5


def formula(n_embed: int, context: int, vocab: int, blocks: int) -> int:
    """Return the parameters of a Transformer, counted by hand."""
    heads = 3 * n_embed**2  # key, query and value of all heads together, without biases
    projection = n_embed**2 + n_embed
    mlp = 8 * n_embed**2 + 5 * n_embed
    norms = 4 * n_embed
    block = heads + projection + mlp + norms
    assert block == 12 * n_embed**2 + 10 * n_embed
    return vocab * n_embed + context * n_embed + blocks * block + 2 * n_embed + vocab * n_embed + vocab


@pytest.mark.parametrize(
    ("config", "total"),
    [
        ({"n_head": 6, "n_embd": 384, "block_size": 256, "vocab_size": 65, "n_layer": 6}, 10_788_929),
        # 13,142,656 is the model of this width with a context of 128; 384 more positions are 49,152 numbers more.
        ({"n_head": 8, "n_embd": 128, "block_size": 128, "vocab_size": 50_304, "n_layer": 1}, 13_142_656),
        ({"n_head": 8, "n_embd": 128, "block_size": 512, "vocab_size": 50_304, "n_layer": 1}, 13_191_808),
        ({"n_head": 3, "n_embd": 12, "block_size": 7, "vocab_size": 5, "n_layer": 2}, None),
    ],
)
def test_the_parameters_follow_from_a_formula(config: dict[str, int], total: int | None) -> None:
    part = TRACK.part("transformer")
    by_hand = formula(config["n_embd"], config["block_size"], config["vocab_size"], config["n_layer"])
    assert count(full_shapes(part, TRACK, config)) == by_hand
    assert total is None or by_hand == total
    if total is None:
        model = Reference(TRACK).build(part, config, stand_ins=False)
        assert sum(math.prod(parameter.shape) for parameter in model.parameters()) == by_hand


def test_it_is_worth_a_hundred_points_and_every_check_is_there() -> None:
    assert TRACK.max_score == 100 and TRACK.classes == ("Head", "MultiHeadAttention", "MLP", "Block", "Transformer")
    assert {part.name: part.max_score for part in TRACK.parts} == {
        "head": 25,
        "attention": 15,
        "mlp": 10,
        "block": 15,
        "transformer": 35,
    }
    for part in TRACK.parts:
        order = list(part.points)
        for check_id in order:
            needs = find_check(TRACK, part, check_id).needs
            assert all(need not in order or order.index(need) < order.index(check_id) for need in needs), check_id


def test_sentences_use_the_words_of_the_course() -> None:
    said = TRACK.in_words("n_embd = 16: transformer.wte, wte and x.n_embd_2; head_dim, block_size and my.block_size")
    assert said == (
        "n_embed = 16: token_embed, token_embed and x.n_embd_2; head_size, context_length and my.block_size"
    )
    titles = [find_check(TRACK, part, check_id).title for part in TRACK.parts for check_id in part.points]
    assert not [title for title in titles if any(word in title for word in ("n_embd", "block_size", "GPT", "wte"))]
    gpt = load_track("gpt")
    assert gpt.in_words("n_embd") == "n_embd" and find_check(gpt, gpt.part("mlp"), "mlp.values").id == "mlp.values"


def test_what_is_in_exercises_is_current() -> None:
    pytest.importorskip("jupytext", reason="the authoring extra is not installed")
    assert stale(ROOT, TRACK) == []


def test_every_part_has_hints_that_name_its_checks() -> None:
    hints = load_hints("foundations")
    for part in TRACK.parts:
        assert hints.of(part.name)[0].topic == GENERAL
        assert all(set(ladder.checks) <= set(part.points) for ladder in hints.of(part.name))
    assert hints.about("transformer", {"transformer.generates": "generate draws another id"}).topic == "generate"


def test_every_known_mistake_has_a_hint_of_its_own_in_the_words_of_the_course() -> None:
    hints, seen = load_hints("foundations"), 0
    for part in TRACK.parts:
        for entry in (entry for entry in BANK if entry.part == part.mistakes):
            check = "values" if entry.shows == "outputs" else "gradients"
            ladder = hints.about(part.name, {f"{part.name}.{check}": TRACK.in_words(entry.sentence)})
            assert ladder is not None and ladder.topic != GENERAL, entry.sentence
            assert (ladder.topic == "gradients") is (check == "gradients"), entry.sentence
            seen += 1
    assert seen > 140


def test_weights_are_carried_over_to_a_gpt_with_matching_options(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "solutions" / "foundations"))
    for name in STEMS:
        sys.modules.pop(name, None)
    convert = importlib.import_module("convert")
    sizes = {"n_head": 3, "n_embed": 12, "context_length": 9, "vocab_size": 17, "N_BLOCKS": 2}
    mine = importlib.import_module("transformer").Transformer(**sizes)
    carried = convert.to_gpt(mine.state_dict())
    idx = torch.randint(17, (4, 9), generator=torch.Generator().manual_seed(1))
    given = convert.GPTStyle(**sizes)
    given.load_state_dict(carried)
    # The GPT of the other course, with ReLU and a head of its own in their places.
    config = {"n_head": 3, "n_embd": 12, "block_size": 9, "vocab_size": 17, "n_layer": 2}
    track = load_track("gpt")
    other = Reference(track).build(track.part("gpt"), config, stand_ins=False).float()
    other.lm_head = torch.nn.Linear(12, 17)
    monkeypatch.setattr(torch.nn.functional, "gelu", lambda x, approximate="none": torch.relu(x))
    other.load_state_dict(carried)
    with torch.no_grad():
        logits = mine(idx)[0]
        assert float((given(idx) - logits).abs().max()) < 1e-5
        assert float((other(idx)[0] - logits).abs().max()) < 1e-5


def test_pictures_need_no_config(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "solutions" / "foundations"))
    for name in STEMS:
        sys.modules.pop(name, None)
    shown: list[str] = []
    monkeypatch.setattr("autograder.jupyter.influence.show", lambda html, text: shown.append(text))
    for module, name in (("head", "Head"), ("transformer", "Transformer")):
        picture(getattr(importlib.import_module(module), name), track="foundations")
    assert "Who hears whom in Head" in shown[0] and "Who hears whom in Transformer" in shown[1]
    assert "Loss before training" in shown[2] and len(shown) == 3


def test_no_file_that_students_get_holds_a_line_of_the_answers() -> None:
    files = [*(part.file for part in TRACK.every), *TRACK.extras]
    folders = [ROOT / folder / "foundations" for folder in ("solutions", "exercises")]
    answers, stubs = ([(folder / file).read_text(encoding="utf-8") for file in files] for folder in folders)
    given = [*folders[1].rglob("*.py"), *folders[1].rglob("*.ipynb"), *(ROOT / "workshop_guide").glob("*.md")]
    given += (ROOT / "autograder" / "tracks").glob("foundations*.toml")
    members = {path.relative_to(ROOT).as_posix(): path.read_bytes() for path in given}
    assert list(leaks(members, telling_lines(answers, stubs))) == []


def test_what_is_carried_over_is_told_and_a_stub_says_not_yet() -> None:
    for folder, says in (("solutions", "they are equal"), ("exercises", "Not yet: Transformer.__init__ is still")):
        command = [sys.executable, "convert.py"]
        done = subprocess.run(command, cwd=ROOT / folder / "foundations", capture_output=True, text=True, check=False)
        assert says in done.stdout and done.stderr == ""
        assert done.returncode == (0 if folder == "solutions" else 1)
        assert folder == "exercises" or "weights alone cannot carry" in done.stdout


def fused(carried: dict[str, torch.Tensor]) -> list[str]:
    return [name for name in carried if name.endswith("c_attn.weight")]


def exchange(carried: dict[str, torch.Tensor], first: str, second: str) -> None:
    carried[first], carried[second] = carried[second], carried[first]


def keys_first(carried: dict[str, torch.Tensor]) -> None:
    for name in fused(carried):
        q, k, v = carried[name].chunk(3)
        carried[name] = torch.cat([k, q, v])


def heads_backwards(carried: dict[str, torch.Tensor]) -> None:
    for name in fused(carried):
        carried[name] = torch.cat([part.flip(0) for part in carried[name].chunk(3)])


def turned(carried: dict[str, torch.Tensor]) -> None:
    for name in fused(carried):
        carried[name] = carried[name].T


def biases_of_one(carried: dict[str, torch.Tensor]) -> None:
    for name in fused(carried):
        carried[name.replace("weight", "bias")] += 1.0


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        (keys_first, "The logits differ by"),
        (heads_backwards, "The logits differ by"),
        (biases_of_one, "The logits differ by"),
        (lambda c: exchange(c, "transformer.h.0.ln_1.weight", "transformer.h.0.ln_2.weight"), "The logits differ by"),
        (lambda c: exchange(c, "transformer.h.0.ln_1.weight", "transformer.ln_f.weight"), "The logits differ by"),
        (lambda c: c["transformer.wpe.weight"].zero_(), "changes the weights that it was given"),
        (lambda c: c.update({"lm_head.bias": torch.zeros_like(c["lm_head.bias"])}), "The logits differ by"),
        (lambda c: c.update({"lm_head.weight": c["transformer.wte.weight"]}), "The logits differ by"),
        (lambda c: c.pop("lm_head.bias"), "Names differ: no lm_head.bias (of 1)"),
        (lambda c: c.update(tril=torch.ones(2)), "Names differ: extra tril (of 1)"),
        (None, "does not return a dict of tensors"),
        (turned, "transformer.h.0.attn.c_attn.weight has shape (24, 72); expected (72, 24)"),
    ],
)
def test_a_wrong_conversion_is_told(
    fault: Callable[[dict[str, torch.Tensor]], object] | None,
    says: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "solutions" / "foundations"))
    for name in STEMS:
        sys.modules.pop(name, None)
    convert = importlib.import_module("convert")
    right = convert.to_gpt

    def wrong(state: dict[str, torch.Tensor]) -> dict[str, torch.Tensor] | None:
        carried: dict[str, torch.Tensor] = right(state)
        return None if fault is None else (fault(carried), carried)[1]

    monkeypatch.setattr(convert, "to_gpt", wrong)
    assert convert.main() == 1
    assert says in capsys.readouterr().out


def test_start_check_and_hint_work_with_the_track(tmp_path: Path) -> None:
    work = tmp_path / "mine"
    started = ran("start", str(work), "--track", "foundations")
    assert started.exit_code == 0 and "workshop watch --track foundations" in started.output
    assert sorted(path.name for path in work.iterdir()) == sorted(["convert.py", *(part.file for part in TRACK.parts)])
    shutil.copy(ROOT / "solutions" / "foundations" / "mlp.py", work)
    checked = ran("check", "mlp", "--track", "foundations", "--path", str(work), "--seed", "3")
    assert checked.exit_code == 0 and "10" in checked.output
    assert (
        "workshop hint head --track foundations"
        in ran("hint", "head", "--track", "foundations", "--path", str(work)).output
    )


def ran(*words: str) -> Result:
    return CliRunner().invoke(app, list(words))


def test_a_stub_is_not_attempted_and_scores_nothing(nursery: Nursery, tmp_path: Path) -> None:
    stubs = {part.file: (ROOT / "exercises" / "foundations" / part.file).read_bytes() for part in TRACK.parts}
    report = grade(read_submission(write(tmp_path / "work", stubs), TRACK, "ada"), TRACK, nursery, seed=SEED)
    assert report.score == 0 and {part.verdict for part in report.parts.values()} == {Verdict.NOT_ATTEMPTED}


def test_a_tied_head_is_a_mistake_here(nursery: Nursery, tmp_path: Path) -> None:
    case = next(case for case in read_cases([CASES]) if case.name == "tr_tied_head")
    work = read_submission(stage(case, tmp_path), TRACK, "ada")
    report = grade(work, TRACK, nursery, seed=SEED, parts=["transformer"])
    assert list(rejecting(report)) == ["transformer.untied"]
    assert "lm_head.weight is token_embed.weight" in checks(report)["transformer.untied"].message


def test_the_cases_are_what_they_say() -> None:
    cases = read_cases([CASES])
    kinds = [case.kind for case in cases]
    assert kinds.count("faulty") >= 45 and kinds.count("correct") >= 12 and kinds.count("renamed") >= 4
    classes = {part.class_name: part.name for part in TRACK.parts}
    for case in cases:
        data = tomllib.loads((case.folder / "meta.toml").read_text(encoding="utf-8"))
        assert data["name"] == case.folder.name and data["planted"] and data["verdict"]["diagnosis"]
        failing = [name for name, word in case.verdict.items() if word != "pass"]
        assert list(case.verdict) == [part.name for part in TRACK.parts]
        assert failing == ([] if case.kind == "correct" else [classes[case.wrong_class]])


def test_of_a_fixed_choice_no_fault_escapes_and_no_right_class_is_hurt(nursery: Nursery, tmp_path: Path) -> None:
    names = {part.class_name: part.name for part in TRACK.parts}
    chosen = [case for case in read_cases([CASES]) if zlib.crc32(case.name.encode()) % ONE_IN == 0]
    assert len(chosen) >= 7 and {case.kind for case in chosen} >= {"faulty", "correct"}
    for case in chosen:
        part = names.get(case.wrong_class, case.name.split("_")[0].replace("tr", "transformer"))
        part = part if part in names.values() else "attention"
        work = read_submission(stage(case, tmp_path / case.kind), TRACK, "ada")
        report = grade(work, TRACK, nursery, seed=SEED, parts=[part])
        assert (report.score == report.max_score) is (case.kind == "correct"), (case.name, rejecting(report))


@pytest.mark.slow
def test_of_all_cases_no_fault_escapes_no_right_answer_is_hurt() -> None:
    matrix: Matrix = run([CASES], course="foundations")
    assert list(complaints(matrix)) == []
    assert matrix.agreement >= 97.0, matrix.differences
