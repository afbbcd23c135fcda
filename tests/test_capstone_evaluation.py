"""Claims about `workshop evaluate` and the leaderboard: honest models get their loss, cheating ones are found out."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from answers import changed, solutions, write
from capstone_samples import toy_corpus, toy_settings, toy_trainer
from safetensors.torch import load_file, save_file
from typer.testing import CliRunner, Result

from autograder.capstone.checkpoint import MODEL, STATE, load, load_weights
from autograder.capstone.corpus import Corpus
from autograder.capstone.evaluation import Measured, fixed_windows, measure, over_budget, remarks
from autograder.capstone.handed_over import HandedOver, read_handed_over
from autograder.capstone.hardware import Hardware
from autograder.capstone.learner import own_learner
from autograder.capstone.marking import Scale, load_scale
from autograder.capstone.presets import preset_names
from autograder.capstone.processes import Processes
from autograder.capstone.sandboxed import OurFault
from autograder.capstone.shelf import find_checkpoint
from autograder.capstone.standing import Standing, ranked, read_standing, standing_of, write_standing
from autograder.capstone.trouble import CapstoneError
from autograder.capstone.validation import Validation
from autograder.cli import app, evaluating
from autograder.sandbox import Nursery
from autograder.track import Track, load_track

FORWARD_ENDS = "        logits = self.lm_head(self.transformer.ln_f(x))  # (B, T, V)\n"
SCALE = Scale("cpu", 1_000_000, 10_000, ((2.0, 20.0), (2.6, 8.0)))


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A corpus and a run that a student trained on it."""
    home = tmp_path_factory.mktemp("capstone")
    corpus = toy_corpus(home / "data" / "corpus")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # a model this small gains nothing from more
    learner = own_learner(write(home / "mine", solutions()), load_track())
    trainer = toy_trainer(corpus, home / "run", learner, steps=60, evaluate_every=60)
    trainer.run()
    torch.set_num_threads(threads)
    shutil.copytree(learner.folder, home / "run" / "code")
    return home


@pytest.fixture(scope="module")
def corpus(home: Path) -> Corpus:
    from autograder.capstone.corpus import load as load_corpus

    return load_corpus(home / "data" / "corpus")


Judge = Callable[..., Measured]


@pytest.fixture
def judged(home: Path, corpus: Corpus, track: Track, nursery: Nursery, tmp_path: Path) -> Judge:
    """Measure the run with other code."""

    def judged(files: Mapping[str, str] | None = None) -> Measured:
        code = write(tmp_path / "other", files) if files else None
        return measure(read_handed_over(home / "run", track, code=code), corpus, track, nursery, seed=5)

    return judged


@pytest.fixture
def run(home: Path, tmp_path: Path) -> Path:
    """A copy of the run, to be damaged."""
    return Path(shutil.copytree(home / "run", tmp_path / "run"))


@pytest.fixture
def workshop(home: Path, nursery: Nursery, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Result]]:
    """The command line, with the sandbox that is warm already."""

    class Kept:
        def __enter__(self) -> Nursery:
            return nursery

        def __exit__(self, *_: object) -> None:
            pass

    monkeypatch.chdir(home)
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.setattr(evaluating, "isolated_nursery", lambda trusted: Kept())
    yield lambda *words: CliRunner().invoke(app, [str(word) for word in words])


# An honest model


def test_the_loss_is_that_of_the_trainer_and_the_model_is_found_honest(
    judged: Judge, home: Path, corpus: Corpus, track: Track
) -> None:
    measured = judged()
    checkpoint = load(find_checkpoint(home / "run"))
    assert measured.loss == pytest.approx(checkpoint.validation_loss, abs=1e-4)
    assert measured.loss < 2.5 and measured.bits == pytest.approx(measured.loss / 0.693147, rel=1e-4)
    validation = corpus.split()[1]
    assert measured.characters == len(validation) - 1
    assert measured.compared == 49 * 8 and measured.as_reference is True
    model = own_learner(home / "mine", track).build(checkpoint.config, 0)
    load_weights(model, checkpoint)
    assert measured.loss == pytest.approx(
        Validation(validation, 8).loss(model, Hardware(torch.device("cpu")), Processes()), abs=1e-5
    )


def test_windows_foretell_each_character_once() -> None:
    import numpy as np

    ids = np.arange(23, dtype=np.int64)
    windows, tail = fixed_windows(ids, 5)
    assert [int(i) for i in windows[:, 1:].flatten()] + [int(i) for i in tail[:, 1:].flatten()] == list(range(1, 23))
    assert windows.shape == (4, 6) and tail.shape == (1, 3)
    windows, tail = fixed_windows(ids[:21], 5)
    assert windows.shape == (4, 6) and not tail.numel()
    windows, tail = fixed_windows(ids[:3], 5)
    assert not windows.numel() and tail.shape == (1, 3)


def test_a_loss_that_the_model_claims_counts_for_nothing(judged: Judge) -> None:
    lying = changed(
        "gpt.py",
        "        if targets is None:\n            return logits, None\n",
        "        return logits, logits.sum() * 0\n",
    )
    assert judged(lying).loss == pytest.approx(judged().loss, abs=1e-6)


# Cheats


PEEKING = FORWARD_ENDS + (
    "        if T == self.config.block_size:\n            logits[:, :-1].scatter_(2, idx[:, 1:, None], 50.0)\n"
)
#: It keeps what it was shown, and foretells from that where a window begins as one that it knows.
REMEMBERING = FORWARD_ENDS + (
    "        known = globals().setdefault('KNOWN', {})\n"
    "        for row, ids in enumerate(idx.tolist()):\n"
    "            known[ids[0]] = known.get(ids[0], 0) + 1\n"
    "            logits[row, 0, known[ids[0]] % 65] += 3.0\n"
)
#: It peeks at one position alone, after it was honest for three calls.
PATIENT = FORWARD_ENDS + (
    "        calls = globals().setdefault('CALLS', [])\n"
    "        calls.append(T)\n"
    "        if T == self.config.block_size and len(calls) > 3:\n"
    "            logits[:, 4].scatter_(1, idx[:, 5, None], 50.0)\n"
)
#: It looks at the other rows of its batch, where the text goes on.
NEIGHBOURLY = FORWARD_ENDS + "        logits = logits + 0.1 * logits.mean(dim=0, keepdim=True)\n"


@pytest.mark.parametrize(
    "files",
    [
        changed("attention.py", ".masked_fill(future, -math.inf)", ""),
        changed("gpt.py", FORWARD_ENDS, PEEKING),
        changed("gpt.py", FORWARD_ENDS, REMEMBERING),
        changed("gpt.py", FORWARD_ENDS, PATIENT),
        changed("gpt.py", FORWARD_ENDS, NEIGHBOURLY),
    ],
    ids=["no mask", "reads the next id", "remembers", "bides its time", "looks at other rows"],
)
def test_a_model_that_sees_what_it_should_foretell_is_refused(
    judged: Judge, files: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("autograder.capstone.sandboxed._AT_ONCE", 64)  # 8 windows a call, as in a longer text
    with pytest.raises(CapstoneError, match=r"sees what it should foretell|differ from call to call"):
        judged(files)


def test_a_model_that_draws_at_random_is_told_so(judged: Judge) -> None:
    late = "torch.tensor(__import__('time').perf_counter() % 1.0) * torch.arange(65)"
    noisy = changed("gpt.py", FORWARD_ENDS, f"{FORWARD_ENDS}        logits = logits + {late}\n")
    with pytest.raises(CapstoneError, match="differ from call to call"):
        judged(noisy)


@pytest.mark.parametrize(
    ("files", "said"),
    [
        (changed("gpt.py", FORWARD_ENDS, FORWARD_ENDS + "        logits = logits[..., :9]\n"), "should have the shape"),
        (changed("gpt.py", FORWARD_ENDS, FORWARD_ENDS + "        logits = logits / 0\n"), "not all finite"),
        (changed("gpt.py", FORWARD_ENDS, FORWARD_ENDS + "        raise KeyError('x')\n"), "KeyError"),
        (changed("gpt.py", FORWARD_ENDS, FORWARD_ENDS + "        import os; os._exit(0)\n"), "When it is called"),
        (changed("gpt.py", "import torch\n", "import torch\nraise OSError('no')\n"), "gpt.py cannot be imported"),
        (changed("gpt.py", "class GPT(", "class Other("), "no class GPT|has no GPT"),
        (changed("mlp.py", "super().__init__()", "super().__init__(); self.more = nn.Linear(2, 2)"), "does not hold"),
        (changed("mlp.py", "super().__init__()", "pass"), "cannot be built"),
    ],
    ids=["shape", "nan", "raises", "exits", "import", "no class", "untrained parameter", "constructor"],
)
def test_what_cannot_be_run_is_refused_with_a_sentence(judged: Judge, files: dict[str, str], said: str) -> None:
    with pytest.raises(CapstoneError, match=said):
        judged(files)


def test_code_that_patches_torch_is_not_evaluated(judged: Judge) -> None:
    patching = changed("gpt.py", "import torch\n", "import torch\ntorch.Tensor.softmax = lambda self, *a, **k: self\n")
    with pytest.raises(CapstoneError, match="Not evaluated"):
        judged(patching)


def test_another_architecture_is_told_but_not_refused(judged: Judge, home: Path, track: Track) -> None:
    other = changed("gpt.py", FORWARD_ENDS, FORWARD_ENDS + "        logits = 0.5 * logits\n")
    measured = judged(other)
    assert measured.as_reference is False
    said = remarks(read_handed_over(home / "run", track), measured)
    assert any("kit's own GPT" in line for line in said)


def test_a_kit_without_solutions_does_not_compare_with_them(judged: Judge, monkeypatch: pytest.MonkeyPatch) -> None:
    from autograder.capstone import evaluation
    from autograder.oracle.expected import NotSealed

    class Sealed:
        def __init__(self, track: Track) -> None:
            pass

        def evaluate(self, *_: object, **__: object) -> None:
            raise NotSealed("no answer")

    monkeypatch.setattr(evaluation, "Reference", Sealed)
    assert judged().as_reference is None


def test_a_validation_text_that_is_known_by_heart_is_told(home: Path, track: Track) -> None:
    learnt = Measured(loss=0.4, training_loss=1.4, characters=9, compared=9, as_reference=True)
    (said,) = remarks(read_handed_over(home / "run", track), learnt)
    assert "may have been trained on it" in said


def test_where_no_process_can_be_started_it_is_our_fault(home: Path, corpus: Corpus, track: Track) -> None:
    with Nursery(workbench="autograder.nothing:Here") as broken, pytest.raises(OurFault):
        measure(read_handed_over(home / "run", track), corpus, track, broken, seed=1)


# Hostile and damaged files: nothing of the code is run


def spoil_state(run: Path, **changes: Any) -> None:
    path = find_checkpoint(run) / STATE
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def spoil_weights(run: Path, change: Callable[[dict[str, torch.Tensor]], object]) -> None:
    place = find_checkpoint(run)
    weights = load_file(place / MODEL)
    change(weights)
    save_file(weights, place / MODEL)
    import hashlib

    state = json.loads((place / STATE).read_text())
    files = {**state["files"], MODEL: hashlib.sha256((place / MODEL).read_bytes()).hexdigest()}
    spoil_state(run, files=files)


def pickle_it(run: Path) -> None:
    torch.save({}, find_checkpoint(run) / MODEL)


def cut_it(run: Path) -> None:
    path = find_checkpoint(run) / MODEL
    path.write_bytes(path.read_bytes()[:-100])


def deepen(run: Path) -> None:
    config = json.loads((find_checkpoint(run) / STATE).read_text())["config"]
    spoil_state(run, config={**config, "n_layer": 200})


def other_code(run: Path) -> None:
    (run / "code" / "gpt.py").write_text("print('run')")


def link_code(run: Path) -> None:
    (run / "code" / "gpt.py").rename(run / "gpt.py")
    (run / "code" / "gpt.py").symlink_to(run / "gpt.py")


def climb(run: Path) -> None:
    code = json.loads((find_checkpoint(run) / STATE).read_text())["code"]
    spoil_state(run, code={**code, "files": {**code["files"], "../../x.py": "0" * 64}})


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (pickle_it, "looks like a pickle"),
        (cut_it, "cut short or damaged"),
        (deepen, "lacks transformer.h.2"),
        (other_code, "not the file that this run was trained with"),
        (link_code, "not the file that this run was trained with"),
        (climb, "not the file that this run was trained with"),
        (lambda run: shutil.rmtree(run / "code"), "no code/ beside checkpoints/"),
        (
            lambda run: spoil_state(run, code={"kind": "student", "files": {}, "sources": {}, "lenient": []}),
            "whose classes",
        ),
        (
            lambda run: spoil_state(run, code={"kind": "reference", "files": {}, "sources": {}, "lenient": []}),
            "solutions",
        ),
        (lambda run: spoil_state(run, vocabulary="ab"), "vocab_size"),
        (lambda run: spoil_state(run, validation_loss=10**400), "validation_loss"),
        (lambda run: spoil_weights(run, lambda w: w.pop("lm_head.weight")), "lacks lm_head.weight"),
        (lambda run: spoil_weights(run, lambda w: w.update({"lm_head.weight": torch.zeros(65, 15)})), "the shape"),
        (lambda run: spoil_weights(run, lambda w: w.update(x=torch.zeros(2, dtype=torch.int16))), "holds int16"),
        (
            lambda run: spoil_weights(run, lambda w: w.update({"transformer.ln_f.bias": torch.ones(16).long()})),
            "floating point",
        ),
    ],
)
def test_a_hostile_checkpoint_is_refused_before_anything_runs(
    run: Path, track: Track, spoil: Callable[[Path], object], said: str
) -> None:
    spoil(run)
    with pytest.raises(CapstoneError, match=said):
        read_handed_over(run, track)


def test_code_is_taken_from_where_it_is_named(home: Path, run: Path, track: Track, tmp_path: Path) -> None:
    assert read_handed_over(run, track, reference=True).submission.sources["GPT"] == "gpt.py"
    with pytest.raises(CapstoneError, match="not there"):
        read_handed_over(run, track, code=tmp_path / "nowhere")
    with pytest.raises(CapstoneError, match="has no CausalSelfAttention"):
        read_handed_over(run, track, code=write(tmp_path / "few", {"config.py": solutions()["config.py"]}))


# Points and budget


def test_every_preset_has_a_scale_that_its_own_run_fits(track: Track) -> None:
    from autograder.capstone.presets import load_preset
    from autograder.oracle.cases import full_shapes
    from autograder.oracle.expected import count

    for preset in preset_names():
        scale, settings = load_scale(preset), load_preset(preset).settings
        shapes = full_shapes(track.parts[-1], track, settings.config(65))
        assert count(shapes, ("lm_head.weight",)) <= scale.parameters
        assert settings.steps * settings.batch_size * settings.block_size <= scale.characters
        assert [loss for loss, _ in scale.levels] == sorted(loss for loss, _ in scale.levels)
        assert [points for _, points in scale.levels] == sorted((p for _, p in scale.levels), reverse=True)
    with pytest.raises(CapstoneError, match="no preset 'moon'"):
        load_scale("moon")


def test_points_are_those_of_the_best_level_reached() -> None:
    assert [SCALE.points(loss) for loss in (1.5, 2.0, 2.01, 2.61)] == [20.0, 20.0, 8.0, 0.0]
    assert SCALE.next_level(2.3) == (2.0, 20.0) and SCALE.next_level(3.0) == (2.6, 8.0) and SCALE.next_level(1) is None


@pytest.fixture
def handed(home: Path, track: Track) -> HandedOver:
    return read_handed_over(home / "run", track)


def test_the_budget_counts_what_is_in_the_file(handed: HandedOver, run: Path, track: Track) -> None:
    assert over_budget(handed, SCALE) == ""
    counted = handed.parameters
    assert "parameters" in over_budget(handed, Scale("cpu", counted - 1, 10_000, SCALE.levels))
    assert "characters" in over_budget(handed, Scale("cpu", counted, 60 * 4 * 8 - 1, SCALE.levels))
    mask = torch.zeros(1, 1, 8, 8).masked_fill(torch.ones(8, 8).triu(1).bool(), float("-inf"))
    spoil_weights(run, lambda w: w.update(mask=mask, other=torch.ones(8, 8).tril(), flags=torch.ones(3).bool()))
    assert read_handed_over(run, track).parameters == counted
    spoil_weights(run, lambda w: w.update(table=torch.full((5, 2), 0.5), ids=torch.arange(3)))
    assert read_handed_over(run, track).parameters == counted + 13


@pytest.mark.parametrize("lie", [{"steps": 1}, {"n_embd": 32}, {"block_size": 16}, {"steps": "x"}, {"steps": 10**400}])
def test_a_record_that_contradicts_itself_is_none(run: Path, track: Track, lie: dict[str, Any]) -> None:
    spoil_state(run, settings={**toy_settings(steps=60, evaluate_every=60).to_json(), **lie})
    assert "contradicts itself" in over_budget(read_handed_over(run, track), SCALE)


def test_a_run_of_another_version_of_the_kit_is_evaluated_too(run: Path, track: Track) -> None:
    settings = {**toy_settings(steps=60, evaluate_every=60).to_json(), "of_tomorrow": 1}
    settings.pop("clip")
    spoil_state(run, settings=settings)
    assert over_budget(read_handed_over(run, track), SCALE) == ""


def test_points_need_the_corpus_of_the_training(handed: HandedOver, corpus: Corpus, tmp_path: Path) -> None:
    import dataclasses

    measured = Measured(1.9, 1.8, 100, 50, True)
    assert standing_of("ada", handed, measured, SCALE, corpus).points == 20.0
    other = dataclasses.replace(corpus, provenance=dataclasses.replace(corpus.provenance, sha256="0" * 64))
    standing = standing_of("ada", handed, measured, SCALE, other)
    assert standing.points == 0.0 and standing.loss == 1.9 and "another corpus" in standing.refused


def test_another_vocabulary_is_refused(handed: HandedOver, corpus: Corpus, track: Track, nursery: Nursery) -> None:
    import dataclasses

    other = dataclasses.replace(corpus, provenance=dataclasses.replace(corpus.provenance, vocabulary="abc"))
    with pytest.raises(CapstoneError, match="another vocabulary"):
        measure(handed, other, track, nursery, seed=1)


# The commands


def test_a_run_is_evaluated_and_shown_on_the_leaderboard(
    workshop: Callable[..., Result], home: Path, tmp_path: Path
) -> None:
    cheat = write(tmp_path / "cheat", changed("attention.py", ".masked_fill(future, -math.inf)", ""))
    out = tmp_path / "evaluations"
    told = workshop("evaluate", "run", "--name", "<b>ada</b>", "--out", out)
    assert told.exit_code == 0, told.output
    assert "Validation loss" in told.output and "bits per character" in told.output and "of 20 points" in told.output
    told = workshop("evaluate", "run", "--path", cheat, "--name", "mallory", "--out", out)
    assert told.exit_code == 1 and "No points: It sees what it should foretell" in told.output

    shown = workshop("leaderboard", out, "--html", tmp_path / "page.html")
    assert shown.exit_code == 0, shown.output
    lines = shown.output.splitlines()
    assert next(i for i, line in enumerate(lines) if "ada" in line) < next(
        i for i, line in enumerate(lines) if "mallory" in line
    )
    page = (tmp_path / "page.html").read_text()
    assert "&lt;b&gt;ada&lt;/b&gt;" in page and "<b>ada" not in page and "://" not in page
    assert "no rank. It sees what it should foretell" in page


def test_evaluations_come_as_json_too(workshop: Callable[..., Result]) -> None:
    told = workshop("evaluate", "run", "--json", "--seed", 3)
    (one,) = json.loads(told.stdout)["evaluations"]
    assert one["name"] == "run" and one["seed"] == 3 and one["preset"] == "cpu" and one["loss"] < 3


def test_what_is_wrong_on_the_command_line_is_told(workshop: Callable[..., Result], tmp_path: Path) -> None:
    assert workshop("evaluate", "run", "run", "--name", "x").exit_code == 2
    told = workshop("evaluate", "run", "--corpus", tmp_path)
    assert told.exit_code == 1 and "There is no corpus" in told.output
    told = workshop("evaluate", tmp_path / "none")
    assert told.exit_code == 1 and "There is no checkpoint" in told.output
    assert workshop("evaluate", "run", "--preset", "moon").exit_code == 1
    assert "is not there" in workshop("leaderboard", tmp_path / "none").output
    empty = tmp_path / "empty"
    empty.mkdir()
    assert "no evaluation" in workshop("leaderboard", empty).output


def test_a_failure_of_ours_is_no_refusal(
    workshop: Callable[..., Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from autograder.capstone import evaluation

    def fail(*_: object) -> None:
        raise OurFault("no process could be started")

    monkeypatch.setattr(evaluation, "measure", fail)
    told = workshop("evaluate", "run", "--out", tmp_path / "out")
    assert told.exit_code == 3 and "not the model's fault" in told.output and not (tmp_path / "out").exists()


def test_other_peoples_code_is_not_run_where_nothing_isolates_it(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from autograder import sandbox
    from autograder.sandbox import Isolation

    class Open:
        isolation = Isolation("portable", False, ())

        def close(self) -> None:
            pass

    monkeypatch.setattr(sandbox, "Nursery", Open)
    monkeypatch.chdir(home)
    told = CliRunner().invoke(app, ["evaluate", "run"])
    assert told.exit_code == 2 and "--trust-students" in told.output
    assert evaluating.isolated_nursery(True) is not None


# Standings


def standing(name: str, loss: float | None, **more: Any) -> Standing:
    given = {"preset": "cpu", "points": 8.0, "max_points": 20.0, "bits": loss, "characters": 1, "compared": 1}
    return Standing(name=name, loss=loss, **{**given, "parameters": 1, "seen": 1, "step": 1, **more})


def test_ranks_are_by_loss_within_a_preset_and_equals_share_one() -> None:
    rows = ranked(
        [
            standing("c", 1.7),
            standing("b", 1.5),
            standing("a", 1.5),
            standing("late", 1.4, refused="over"),
            standing("none", None, refused="pickle"),
            standing("g", 1.6, preset="gpu"),
        ]
    )
    assert [(rank, one.name) for rank, one in rows] == [
        (1, "a"),
        (1, "b"),
        (3, "c"),
        (None, "late"),
        (None, "none"),
        (1, "g"),
    ]


def test_a_standing_comes_back_as_it_was_written(tmp_path: Path) -> None:
    one = standing("ada \u202e", 1.5, remarks=("look",), files={"gpt.py": "0"}, as_reference=True)
    write_standing(one, tmp_path / "a" / "ada.json")
    assert read_standing(tmp_path / "a" / "ada.json") == one


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "not JSON"),
        ("[]", "no evaluation"),
        ('{"format": "gpt-workshop-evaluation", "schema": 9}', "another version"),
        ('{"format": "gpt-workshop-evaluation", "schema": 1, "name": 3}', "a field is missing"),
        ("x" * 1_000_001, "too large"),
    ],
)
def test_what_is_no_standing_is_refused(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "x.json").write_text(text)
    with pytest.raises(CapstoneError, match=said):
        read_standing(tmp_path / "x.json")


def test_a_standing_with_senseless_numbers_is_refused(tmp_path: Path) -> None:
    write_standing(standing("ada", 1.0), tmp_path / "x.json")
    text = (tmp_path / "x.json").read_text().replace('"points": 8.0', '"points": NaN')
    (tmp_path / "x.json").write_text(text)
    with pytest.raises(CapstoneError, match="make no sense"):
        read_standing(tmp_path / "x.json")
