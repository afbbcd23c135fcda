"""Other names, other cuts: the likely correspondences are tried; weights and gradients go through them unharmed."""

from __future__ import annotations

import pytest
import torch

from autograder.checks.names import MAX_CANDIDATES, Names, candidates, exact
from autograder.checks.replies import Model, Parameter
from autograder.track import Shape

C = 4
ATTENTION: dict[str, Shape] = {
    "c_attn.weight": (3 * C, C),
    "c_attn.bias": (3 * C,),
    "c_proj.weight": (C, C),
    "c_proj.bias": (C,),
}
MLP: dict[str, Shape] = {
    "c_fc.weight": (4 * C, C),
    "c_fc.bias": (4 * C,),
    "c_proj.weight": (C, 4 * C),
    "c_proj.bias": (C,),
}
TABLES: dict[str, Shape] = {"transformer.wte.weight": (7, C), "lm_head.weight": (7, C)}


def model(tensors: dict[str, Shape], shared: tuple[str, ...] = ()) -> Model:
    """Return a model's table; the tensors in `shared` are one and the same parameter."""
    rows = []
    for index, (name, shape) in enumerate(tensors.items()):
        group = 99 if name in shared else index
        values = {"std": 1.0, "finite": True, "zero": False}
        known = {key: value for key, value in values.items() if key in Parameter.__dataclass_fields__}
        rows.append(Parameter(name=name, shape=shape, trainable=True, group=group, storage=group, **known))  # type: ignore[arg-type]
    extra = {"config_origin": "student", "claimed": None, "stand_ins": 0, "handle": 0}
    return Model(parameters=tuple(rows), **{k: v for k, v in extra.items() if k in Model.__dataclass_fields__})  # type: ignore[arg-type]


def pairs(names: Names) -> dict[str, str]:
    return {take.student: take.source for take in names.takes}


def first(tensors: dict[str, Shape], shapes: dict[str, Shape]) -> Names:
    return next(candidates(model(tensors), shapes))


def test_equal_names_correspond_and_a_partial_match_is_not_identical() -> None:
    whole = exact(model({**ATTENTION, "extra": (3,)}), ATTENTION)
    assert whole.identical and whole.covered == set(ATTENTION)
    partial = exact(model({**ATTENTION, "c_attn.bias": (5,)}), ATTENTION)
    assert not partial.identical and partial.covered == set(ATTENTION) - {"c_attn.bias"}


def test_layers_by_other_names_are_matched_by_shape_and_last_word() -> None:
    found = pairs(first({"fc1.weight": (16, 4), "fc1.bias": (16,), "fc2.weight": (4, 16), "fc2.bias": (4,)}, MLP))
    assert found == {
        "fc1.weight": "c_fc.weight",
        "fc1.bias": "c_fc.bias",
        "fc2.weight": "c_proj.weight",
        "fc2.bias": "c_proj.bias",
    }


def test_norms_are_tried_in_both_orders_but_a_gain_is_never_taken_for_a_bias() -> None:
    shapes: dict[str, Shape] = {f"ln_{i}.{leaf}": (C,) for i in (1, 2) for leaf in ("weight", "bias")}
    own: dict[str, Shape] = {f"norm{i}.{leaf}": (C,) for i in (1, 2) for leaf in ("weight", "bias")}
    options = [pairs(option) for option in candidates(model(own), shapes)]
    assert {option["norm1.weight"] for option in options} == {"ln_1.weight", "ln_2.weight"}
    assert all(
        student.split(".")[1] == source.split(".")[1] for option in options for student, source in option.items()
    )


@pytest.mark.parametrize(
    "names", [("query", "key", "value"), ("q_proj", "k_proj", "v_proj"), ("attn.wq", "attn.wk", "attn.wv")]
)
@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1)])
def test_separate_query_key_value_layers_are_stacked_by_their_role(
    names: tuple[str, ...], order: tuple[int, ...]
) -> None:
    own: dict[str, Shape] = {}
    for index in order:
        own |= {f"{names[index]}.weight": (C, C), f"{names[index]}.bias": (C,)}
    own |= {"out.weight": (C, C), "out.bias": (C,)}
    option = first(own, ATTENTION)
    rows = {take.student: (take.source, take.start, take.stop) for take in option.takes}
    for place, name in enumerate(names):
        assert rows[f"{name}.weight"] == ("c_attn.weight", place * C, (place + 1) * C)
        assert rows[f"{name}.bias"] == ("c_attn.bias", place * C, (place + 1) * C)
    assert rows["out.weight"] == ("c_proj.weight", 0, C)


def test_layers_without_a_telling_name_are_tried_in_every_order() -> None:
    own: dict[str, Shape] = {f"l{i}.weight": (C, C) for i in range(4)} | {"l3.bias": (C,)}
    shapes = {name: shape for name, shape in ATTENTION.items() if name != "c_attn.bias"}
    starts = [
        {take.student: take.start for take in o.takes if take.stop <= 3 * C} for o in candidates(model(own), shapes)
    ]
    assert len({(s["l0.weight"], s["l1.weight"], s["l2.weight"]) for s in starts if "l2.weight" in s}) >= 6


def test_one_layer_a_head_is_stacked_head_by_head() -> None:
    own: dict[str, Shape] = {}
    for head in range(2):
        own |= {f"heads.{head}.{kind}.weight": (C // 2, C) for kind in ("key", "query", "value")}
    own |= {"proj.weight": (C, C), "proj.bias": (C,)}
    rows = {take.student: take.start for take in first(own, ATTENTION).takes}
    assert [rows[f"heads.{h}.{kind}.weight"] for kind in ("query", "key", "value") for h in (0, 1)] == [
        0,
        2,
        4,
        6,
        8,
        10,
    ]


def test_matrices_that_lie_the_other_way_round_are_turned() -> None:
    own = {name: shape[::-1] for name, shape in MLP.items()}
    weights = {name: torch.randn(shape) for name, shape in MLP.items()}
    for option in candidates(model(own), MLP):
        loaded = option.to_student(weights)
        assert {name: tuple(value.shape) for name, value in loaded.items()} == own
        if torch.equal(loaded["c_fc.weight"], weights["c_fc.weight"].t()):
            return
    pytest.fail("no correspondence turns c_fc.weight")


def test_a_tied_table_stands_for_the_head_too() -> None:
    own: dict[str, Shape] = {"emb.weight": (7, C), "head.weight": (7, C)}
    tied = next(candidates(model(own, shared=("emb.weight", "head.weight")), TABLES))
    assert pairs(tied) == {"emb.weight": "lm_head.weight"}
    assert set(pairs(next(candidates(model(own), TABLES)))) == set(own)


def test_weights_and_gradients_go_there_and_back() -> None:
    own: dict[str, Shape] = {
        f"{n}.{leaf}": (C, C)[: 2 - (leaf == "bias")] for n in "qkvo" for leaf in ("weight", "bias")
    }
    option = first(own, ATTENTION)
    weights = {name: torch.randn(shape) for name, shape in ATTENTION.items()}
    there = option.to_student(weights)
    assert {name: tuple(value.shape) for name, value in there.items()} == own
    back = option.to_contract(there, ATTENTION)
    assert all(torch.equal(back[name], weights[name]) for name in ATTENTION)
    assert option.to_student({}) == {} and option.to_contract({}, ATTENTION) == {}


def test_a_gradient_of_another_shape_is_left_out_and_not_believed() -> None:
    names = exact(model(MLP), MLP)
    assert not bool(names.to_contract({"c_proj.bias": torch.ones(3)}, MLP)["c_proj.bias"].any())


@pytest.mark.parametrize(
    "own",
    [
        {},
        {"a.weight": (5, 5)},
        {"c_attn.weight": (3 * C, C), "c_proj.weight": (C, C), "more.weight": (C, C)},
        {f"l{i}.weight": (9, 9) for i in range(30)},
    ],
)
def test_what_cannot_correspond_is_not_proposed_without_end(own: dict[str, Shape]) -> None:
    assert len(list(candidates(model(own), ATTENTION))) <= MAX_CANDIDATES


def test_proposals_are_different_and_bounded() -> None:
    own: dict[str, Shape] = {f"n{i}.scale": (C,) for i in range(9)}
    shapes: dict[str, Shape] = {f"ln_{i}.weight": (C,) for i in range(9)}
    options = list(candidates(model(own), shapes))
    assert 1 <= len(options) <= MAX_CANDIDATES
    assert len({frozenset(option.takes) for option in options}) == len(options)
