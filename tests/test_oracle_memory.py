"""What a class shares: the same numbers as without, drawn and computed once, and never those of a changed tensor."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from autograder.grading import grade
from autograder.oracle import memory as memories
from autograder.oracle.cases import Draws, own_and_standin_shapes
from autograder.oracle.expected import Expected
from autograder.oracle.memory import Memory
from autograder.oracle.reference import Reference
from autograder.sandbox import Nursery
from autograder.submission import read_submission
from autograder.track import load_track

ROOT = Path(__file__).parents[1]
TRACK = load_track()
SEED = 11


def _question(draws: Draws) -> tuple[dict[str, int], dict[str, Tensor], dict[str, Tensor]]:
    part, sizes = TRACK.part("attention"), draws.sizes("memory", length=7)
    weights = draws.weights("memory", own_and_standin_shapes(part, TRACK, sizes.config))
    return sizes.config, weights, {"x": draws.normal("memory x", (2, 7, sizes.config["n_embd"]))}


def _same(first: Expected, second: Expected) -> bool:
    (a, *_), (b, *_) = first.outputs, second.outputs
    assert a is not None and b is not None
    return torch.equal(a, b)


def test_what_is_kept_is_what_would_be_drawn() -> None:
    kept, fresh = Memory(SEED).draws, Draws(SEED)
    for _ in range(2):
        assert _question(kept)[0] == _question(fresh)[0]
        for mine, right in zip(_question(kept)[1:], _question(fresh)[1:], strict=True):
            assert mine.keys() == right.keys()
            assert all(torch.equal(mine[name], right[name]) for name in right)
        assert torch.equal(kept.tokens("ids", (3, 5), 19), fresh.tokens("ids", (3, 5), 19))


def test_the_reference_computes_once_what_is_asked_twice(monkeypatch) -> None:
    asked = []
    original = Reference.evaluate

    def counted(self, *args, **how):
        asked.append(1)
        return original(self, *args, **how)

    monkeypatch.setattr(Reference, "evaluate", counted)
    memory, part = Memory(SEED), TRACK.part("attention")
    first = memory.reference(TRACK).evaluate(part, *_question(memory.draws))
    again = memory.reference(TRACK).evaluate(part, *_question(memory.draws))
    assert len(asked) == 1
    assert _same(first, again)
    assert _same(first, Reference(TRACK).evaluate(part, *_question(Draws(SEED))))


def test_a_tensor_that_was_written_to_is_drawn_anew_and_answered_anew() -> None:
    memory, part = Memory(SEED), TRACK.part("attention")
    reference = memory.reference(TRACK)
    config, weights, inputs = _question(memory.draws)
    first = reference.evaluate(part, config, weights, inputs)
    inputs["x"].mul_(2)
    weights["c_attn.weight"].add_(1)
    assert not _same(first, reference.evaluate(part, config, weights, inputs))
    assert _same(first, reference.evaluate(part, *_question(memory.draws)))


def test_other_numbers_than_the_drawn_ones_get_their_own_answer() -> None:
    memory, part = Memory(SEED), TRACK.part("attention")
    reference = memory.reference(TRACK)
    config, weights, inputs = _question(memory.draws)
    first = reference.evaluate(part, config, weights, inputs)
    other = {"x": inputs["x"] + 1}
    assert _same(
        reference.evaluate(part, config, weights, other), Reference(TRACK).evaluate(part, config, weights, other)
    )
    assert _same(first, reference.evaluate(part, config, weights, inputs))


def test_memory_ends_somewhere(monkeypatch) -> None:
    monkeypatch.setattr(memories, "MOST", 3)
    draws = Memory(SEED).draws
    drawn = [draws.normal(f"purpose {number}", (2, 2)) for number in range(5)]
    assert [draws.drew(tensor) for tensor in drawn] == [True, True, True, False, False]
    assert torch.equal(draws.normal("purpose 4", (2, 2)), drawn[4])


def test_grading_with_a_memory_says_what_grading_without_one_says() -> None:
    submission = read_submission(ROOT / "solutions", TRACK)
    memory = Memory(SEED)
    with Nursery() as nursery:
        reports = [
            grade(submission, TRACK, nursery, seed=SEED, parts=["attention", "mlp"], memory=shared).to_json()
            for shared in (None, memory, memory)
        ]
    assert reports[0] == reports[1] == reports[2]
    assert reports[0]["score"] == reports[0]["max_score"]
