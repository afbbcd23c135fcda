"""Sealed answers: what is stored comes back, a mistake is known by its print, another case has no answer."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import Tensor

from autograder.cli import screen
from autograder.oracle import released as kits
from autograder.oracle import sealed
from autograder.oracle.case_key import expected_key, gradient_mistake_key, mistake_key
from autograder.oracle.cases import Draws, own_and_standin_shapes
from autograder.oracle.expected import Expected, NotSealed, SolutionsNotFound
from autograder.oracle.fingerprints import compared, gradient_row, matching, pack, print_of
from autograder.oracle.reference import Reference
from autograder.oracle.released import Released, released
from autograder.oracle.sealed_file import Reader, Writer, rounded
from autograder.track import Track

DRAWS = Draws(5)
CONFIG = {"vocab_size": 19, "block_size": 31, "n_layer": 1, "n_head": 2, "n_embd": 8}


@pytest.fixture
def case(track: Track) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    shapes = own_and_standin_shapes(track.part("mlp"), track, CONFIG)
    return DRAWS.weights("w", shapes), {"x": DRAWS.normal("x", (2, 3, 8))}


@pytest.fixture
def fresh() -> Iterator[None]:
    """Forget what was read of a kit, before and after."""
    remembered = (released, sealed._readers, sealed._words)
    for each in remembered:
        each.cache_clear()
    yield
    for each in remembered:
        each.cache_clear()


@pytest.fixture
def kit(
    fresh: None,
    track: Track,
    case: tuple[dict[str, Tensor], dict[str, Tensor]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Released:
    """A kit that knows one case of the MLP, with one mistake."""
    weights, inputs = case
    part, writer = track.part("mlp"), Writer()
    given = Reference(track).evaluate(part, CONFIG, weights, inputs)
    how = {"stand_ins": True, "cotangent": None, "loss": False}
    writer.add(expected_key("mlp", CONFIG, weights, inputs, **how), given)  # type: ignore[arg-type]
    right = given.outputs[0]
    assert right is not None
    writer.add_prints(mistake_key("mlp", CONFIG, weights, inputs), pack([((), right), ((0,), right * 2)]))
    (tmp_path / "seed-5.safetensors").write_bytes(writer.data())
    (tmp_path / "mistakes.json").write_text(json.dumps([{"says": "It is doubled.", "look_at": "Halve it."}]))
    made = Released(tmp_path, (5,), "1")
    monkeypatch.setattr(sealed, "released", lambda: made)
    return made


def test_a_stored_case_is_answered_as_the_live_reference_does(
    kit: Released, track: Track, case: tuple[dict[str, Tensor], dict[str, Tensor]]
) -> None:
    weights, inputs = case
    live = Reference(track).evaluate(track.part("mlp"), CONFIG, weights, inputs).outputs[0]
    stored = sealed.SealedReference(track).evaluate(track.part("mlp"), CONFIG, weights, inputs).outputs[0]
    assert live is not None and stored is not None and stored.dtype == torch.float64
    assert torch.allclose(live, stored, rtol=1e-8, atol=0)


def test_another_case_has_no_answer(
    kit: Released, track: Track, case: tuple[dict[str, Tensor], dict[str, Tensor]]
) -> None:
    weights, inputs = case
    oracle, part = sealed.SealedReference(track), track.part("mlp")
    lacking = {name: value for name, value in weights.items() if name != "c_fc.bias"}
    swapped = {**weights, "c_proj.bias": weights["c_proj.bias"].flip(0)}
    for other_weights, other_inputs in ((lacking, inputs), (swapped, inputs), (weights, {"x": inputs["x"] * 2})):
        with pytest.raises(NotSealed):
            oracle.evaluate(part, CONFIG, other_weights, other_inputs)
    with pytest.raises(NotSealed):
        oracle.evaluate(part, CONFIG, weights, inputs, loss=True)
    assert sealed.recognise("mlp", inputs, lacking, CONFIG, inputs["x"]) == ()


def test_a_mistake_is_known_by_its_print_and_the_right_answer_is_none(
    kit: Released, track: Track, case: tuple[dict[str, Tensor], dict[str, Tensor]]
) -> None:
    weights, inputs = case
    right = Reference(track).evaluate(track.part("mlp"), CONFIG, weights, inputs).outputs[0]
    assert right is not None
    (known,) = sealed.recognise("mlp", inputs, weights, CONFIG, (right * 2).float())
    assert (known.sentence, known.look_at) == ("It is doubled.", "Halve it.")
    for output in (right.float(), right * 2.01, right[:, :1] * 2, torch.full_like(right, torch.nan)):
        assert sealed.recognise("mlp", inputs, weights, CONFIG, output) == ()


def test_a_mistake_of_the_gradients_is_known_by_its_print(
    kit: Released, track: Track, case: tuple[dict[str, Tensor], dict[str, Tensor]]
) -> None:
    weights, inputs = case
    part, cotangent = track.part("mlp"), DRAWS.normal("cotangent", (2, 3, 8))
    right = Reference(track).evaluate(part, CONFIG, weights, inputs, cotangent=cotangent).gradients
    names = compared(inputs, weights, right)
    mistaken = {**right, "c_fc.bias": right["c_fc.bias"] * 3}
    row = gradient_row(mistaken, right, names)
    assert row is not None
    writer = Writer()
    writer.add_prints(gradient_mistake_key("mlp", CONFIG, weights, inputs, cotangent), pack([((0,), row)]))
    (kit.folder / "seed-5.safetensors").write_bytes(writer.data())

    def said(mine: dict[str, Tensor], along: Tensor | None = cotangent) -> list[str]:
        found = sealed.recognise_gradients("mlp", inputs, weights, CONFIG, mine, right, along)
        return [known.sentence for known in found]

    assert said({name: value.float() for name, value in mistaken.items()}) == ["It is doubled."]
    assert said(dict(right)) == []
    assert said({**mistaken, "c_fc.bias": torch.zeros(1)}) == []
    assert said({**mistaken, "c_fc.bias": mistaken["c_fc.bias"] * torch.inf}) == []
    assert said(mistaken, along=None) == [], "the gradients of another question have no answer here"


def test_noise_of_float32_does_not_change_a_print_and_one_wrong_row_does() -> None:
    output = DRAWS.normal("output", (3, 40, 8)).double()
    prints = pack([((3, 7), output)])
    noise = DRAWS.normal("noise", (3, 40, 8)).double() * 1e-6
    assert matching(prints, output + noise) == (3, 7)
    wrong = output.clone()
    wrong[1, 5] += 0.2
    assert matching(prints, wrong) == ()
    holes = output.clone()
    holes[0, 0, 0] = torch.nan
    assert print_of(holes)[1] != print_of(output)[1]


def test_large_tensors_logits_and_twins_come_back_from_little_room(tmp_path: Path) -> None:
    head = DRAWS.normal("head", (50, 4))
    logits = DRAWS.normal("hidden", (2, 30, 4)).double() @ head.double().T
    large, shift = DRAWS.normal("large", (40, 60)).double(), DRAWS.normal("shift", (60,)).double()
    writer = Writer()
    first = Expected((logits, None), {"a": large, "b": large})
    writer.add("one", first, head)
    size = len(writer.data())
    writer.add("one", Expected((large, None)), head)  # what is there stays
    writer.add("two", Expected((large, None)))
    writer.add("three", Expected((large + shift, None)), None, {"one": first, "two": Expected((large, None))})
    assert size < (2 * 30 * 4 + 40 * 60) * 8 + 2_000
    assert len(writer.data()) < size + 60 * 8 + 500
    (tmp_path / "file").write_bytes(writer.data())
    reader = Reader(tmp_path / "file")
    one, three = reader.expected("one", head), reader.expected("three", None)
    assert one is not None and three is not None
    assert torch.allclose(one.outputs[0], logits, atol=1e-6) and one.outputs[1] is None  # type: ignore[arg-type]
    assert torch.allclose(one.gradients["b"], large, atol=1e-6)
    assert torch.allclose(three.outputs[0], large + shift, atol=1e-6)  # type: ignore[arg-type]
    assert reader.expected("four", None) is None


def test_rounding_stays_far_below_every_tolerance() -> None:
    values = DRAWS.normal("values", (1000,)).double() * 1e-3
    assert float(((rounded(values) - values) / values).abs().max()) < 1e-8
    assert rounded(torch.zeros(2)).tolist() == [0.0, 0.0]


def test_files_that_cannot_be_read_are_told(tmp_path: Path) -> None:
    (tmp_path / "seed-1.safetensors").write_bytes(b"nonsense")
    with pytest.raises(ValueError, match="damaged"):
        Reader(tmp_path / "seed-1.safetensors")
    with pytest.raises(OSError):
        Reader(tmp_path / "missing")


def test_the_checkout_is_no_kit(fresh: None) -> None:
    assert released() is None
    with pytest.raises(SolutionsNotFound):
        sealed.SealedReference(None)  # type: ignore[arg-type]
    with pytest.raises(SolutionsNotFound):
        sealed.find_solutions()


def test_a_kit_draws_its_own_seeds_and_a_damaged_one_says_so(
    fresh: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(screen, "released", lambda: Released(tmp_path, (4, 9), "1"))
    assert {screen.seed_or_fresh() for _ in range(50)} == {4, 9}
    assert screen.seed_or_fresh(9) == 9
    with pytest.raises(screen.typer.BadParameter, match="4, 9 alone"):
        screen.seed_or_fresh(5)
    monkeypatch.undo()
    monkeypatch.setattr(kits.autograder, "__file__", str(tmp_path / "__init__.py"))
    (tmp_path / "_sealed").mkdir()
    for text in ("{", '{"seeds": 4}', "{}"):
        (tmp_path / "_sealed" / "release.json").write_text(text)
        with pytest.raises(screen.typer.Exit):
            screen.seed_or_fresh()
    (tmp_path / "_sealed" / "release.json").write_text('{"seeds": [4], "version": "1"}')
    assert screen.seed_or_fresh() == 4
    assert kits.released() == Released(tmp_path / "_sealed", (4,), "1")
