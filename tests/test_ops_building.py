"""The child builds what is asked for, around stand-ins or not, from a config or from plain numbers; or says why not."""

from __future__ import annotations

import pytest
import torch
from answers import changed, line_of, single_file, solutions
from conftest import OpenChild
from workbench_child import DEFAULTS, SMALL, load_one, module

X = torch.linspace(-1, 1, 2 * 3 * 8).reshape(2, 3, 8)


# -- build ------------------------------------------------------------------------------------------------------------


def test_the_parameter_table_names_shapes_sharing_and_freezing(open_child: OpenChild) -> None:
    with open_child(changed("block.py", "self.mlp = MLP(config)", "self.mlp = MLP(config).requires_grad_(False)")) as c:
        c.load()
        rows = {row["name"]: row for row in c.build("GPT", look=True)["parameters"]}
    table, head = rows["transformer.wte.weight"], rows["lm_head.weight"]
    assert table["shape"] == [11, 8] and table["group"] == head["group"] and table["storage"] == head["storage"]
    assert rows["transformer.h.0.mlp.c_fc.bias"]["trainable"] is False and table["trainable"] is True
    assert len({row["group"] for row in rows.values()}) == len(rows) - 1
    assert rows["transformer.ln_f.weight"]["std"] == 0.0 and 0.0 < head["std"] < 1.0 and head["finite"]


def test_stand_ins_take_the_place_of_sub_classes_for_one_build_only(open_child: OpenChild) -> None:
    with open_child({"model.py": single_file()}) as child:
        child.load()
        wired = child.build("GPT", stand_ins={"Block": "block"})
        real = child.build("GPT")
    assert wired["stand_ins"] == 2 and real["stand_ins"] == 0
    assert "transformer.h.1.standin_block" in {row["name"] for row in wired["parameters"]}
    assert "transformer.h.1.ln_1.weight" in {row["name"] for row in real["parameters"]}


def test_the_same_seed_builds_the_same_weights_in_the_dtype_asked_for(open_child: OpenChild) -> None:
    with open_child(solutions()) as child:
        child.load()
        models = [child.build("MLP", seed=seed, dtype="float64")["handle"] for seed in (1, 1, 2)]
        outputs = [child.run(m, {"x": X.double()}).tensors["out.0"] for m in models]
    assert outputs[0].dtype == torch.float64
    assert torch.equal(outputs[0], outputs[1]) and not torch.equal(outputs[0], outputs[2])


@pytest.mark.parametrize(
    ("text", "fact"),
    [
        ("class MLP:\n    def __init__(self, config): pass", "not_module"),
        ("class MLP:\n    __class__ = None\n    def __init__(self, config): pass", "not_module"),
        ("def MLP(config): return 3", "not_module"),
        ("from torch import nn\nclass MLP(nn.Module):\n    def __init__(self, config): pass", "no_super_init"),
    ],
)
def test_what_is_no_module_is_said_to_be_none(text: str, fact: str, open_child: OpenChild) -> None:
    with open_child({"model.py": text}) as child:
        assert load_one(child)[fact] is True


def test_an_exception_of_a_constructor_is_told_with_its_line(open_child: OpenChild) -> None:
    with open_child(changed("mlp.py", "4 * config.n_embd)", "4 * config.n_emb)")) as child:
        child.load()
        fault = child.build("MLP")["error"]
    number = line_of(solutions()["mlp.py"], "self.c_fc = nn.Linear")
    assert (fault["type"], fault["stage"], fault["file"], fault["line"]) == (
        "AttributeError",
        "build",
        "mlp.py",
        number,
    )
    assert "n_emb" in fault["message"] and fault["source"].startswith("self.c_fc = nn.Linear")


SIZES = "def __init__(self, {}):\n    super().__init__()\n    self.p = nn.Parameter(torch.zeros({}))"


@pytest.mark.parametrize(
    ("arguments", "shape", "expected"),
    [
        ("n_embd, n_head", "(n_embd, n_head)", [8, 2]),
        ("d_model, num_heads, max_len=3", "(d_model, num_heads, max_len)", [8, 2, 9]),
        ("dim, head_size, dropout=0.0", "(dim, head_size)", [8, 4]),
        ("*, vocab, depth, head_dim", "(vocab, depth, head_dim)", [11, 2, 4]),
    ],
)
def test_a_constructor_that_takes_plain_sizes_is_served_by_its_own_names(
    arguments: str, shape: str, expected: list[int], open_child: OpenChild
) -> None:
    with open_child(module(SIZES.format(arguments, shape))) as child:
        assert load_one(child, interface="keywords")["parameters"][0]["shape"] == expected
        positional = child.build("MLP", interface="positional")
        assert ("error" in positional) == arguments.startswith("*")
        refused = child.build("MLP")
    assert "error" in refused or refused["parameters"] == []
    if "error" in refused:
        assert [f" {name}" in f" {arguments}" for name in refused["arguments"]] == [True] * len(refused["arguments"])
        assert len(refused["arguments"]) >= 2


def test_a_constructor_without_a_signature_asks_for_nothing(open_child: OpenChild) -> None:
    with open_child({"model.py": "MLP = 3"}) as child:
        assert load_one(child)["arguments"] == []


# -- the student's config ---------------------------------------------------------------------------------------------

READS = "def __init__(self, config):\n    super().__init__()\n    self.p = nn.Parameter(torch.zeros({}))"


@pytest.mark.parametrize(
    ("config", "origin"),
    [
        ("from dataclasses import make_dataclass\nGPTConfig = make_dataclass('GPTConfig', FIELDS)", "student"),
        ("class GPTConfig:\n    n_embd: int = 1\n    extra: float\n    other: str\n    depth = 7", "substitute"),
        ("class GPTConfig:\n    def __init__(self, **kw): vars(self).update(kw); self.n_embd = 9", "substitute"),
        ("class GPTConfig:\n    def __init__(self, **kw): raise ValueError('odd')", "refused"),
        ("GPTConfig = 'no class'", "substitute"),
    ],
)
def test_a_config_that_cannot_hold_the_values_is_replaced_for_the_other_classes(
    config: str, origin: str, open_child: OpenChild
) -> None:
    fields = f"FIELDS = {list(SMALL)!r}\n"
    files = module(READS.format("(config.n_embd, config.n_layer)"))
    with open_child({"model.py": fields + config + "\n" + files["model.py"]}) as child:
        child.load({"GPTConfig": "model.py", "MLP": "model.py"})
        built = child.build("MLP")
    assert built["config_origin"] == origin and built["parameters"][0]["shape"] == [8, 2]


def test_a_substitute_config_has_what_the_students_own_declares(open_child: OpenChild) -> None:
    config = (
        "class Base:\n    bias: 'bool'\nclass GPTConfig(Base):\n    dropout: float\n    name: object\n    depth = 7\n"
    )
    reads = READS.format("(config.n_embd, config.depth, config.bias + int(config.dropout))")
    with open_child({"model.py": config + module(reads)["model.py"]}) as child:
        child.load({"GPTConfig": "model.py", "MLP": "model.py"})
        assert child.build("MLP")["parameters"][0]["shape"] == [8, 7, 1]


def test_the_fields_of_a_config_come_back_with_their_types(open_child: OpenChild) -> None:
    config = (
        "class GPTConfig:\n    vocab_size = 'many' * 40\n    block_size = 2.5\n    n_head = True\n    n_embd = [1]\n"
        "    @property\n    def n_layer(self): raise SystemExit\n"
    )
    with open_child({"model.py": config}) as child:
        child.load({"GPTConfig": "model.py"})
        fields = child.call("config", values={})["fields"]
        refused = child.call("config", values={"n_head": 3})["error"]
    assert fields == {
        "vocab_size": {"type": "str", "value": ("many" * 40)[:50]},
        "block_size": {"type": "float", "value": 2.5},
        "n_head": {"type": "bool", "value": True},
        "n_embd": {"type": "list", "value": None},
    }
    assert refused["type"] == "TypeError"


def test_a_missing_config_falls_back_to_the_contracts_defaults(open_child: OpenChild) -> None:
    with open_child({"model.py": "pass"}) as child:
        child.load({})
        fields = child.call("config", values={"n_head": 3})["fields"]
    assert {name: field["value"] for name, field in fields.items()} == {**DEFAULTS, "n_head": 3}


def test_what_a_model_claims_of_its_size_is_reported_beside_the_truth(open_child: OpenChild) -> None:
    lie = "def parameters(self, recurse=True):\n    {}\n" + READS.format("3")
    for text, claimed in (("return iter([torch.zeros(5)])", 5), ("raise SystemExit", None)):
        with open_child(module(lie.format(text))) as child:
            built = load_one(child)
        assert built["claimed"] == claimed and built["parameters"][0]["shape"] == [3]


def test_a_table_without_end_is_refused_and_an_empty_parameter_is_no_error(open_child: OpenChild) -> None:
    body = "def __init__(self):\n    super().__init__()\n    self.none = nn.Parameter(torch.empty(0))\n"
    with open_child(module(body)) as child:
        (row,) = load_one(child, interface="keywords")["parameters"]
    assert (row["shape"], row["std"], row["finite"]) == ([0], 0.0, True)
    body += "    self.many = nn.ParameterList([nn.Parameter(torch.ones(1)) for _ in range(2100)])"
    with open_child(module(body)) as child:
        built = load_one(child, interface="keywords")
    assert built["too_many"] and built["parameters"] == []


def test_a_model_that_is_only_counted_has_its_tensors_and_leaves_torch_as_it_was(open_child: OpenChild) -> None:
    body = (
        "def __init__(self):\n    super().__init__()\n    self.p = nn.Parameter(torch.zeros(3, 5).normal_())\n"
        "def forward(self, x):\n    return x + torch.zeros(2).uniform_(1.0, 2.0)"
    )
    with open_child(module(body)) as child:
        counted = load_one(child, interface="keywords", counted=True)
        drawn = child.build("MLP", interface="keywords", look=True)
    assert counted["parameters"][0]["shape"] == [3, 5] and counted["parameters"][0]["zero"] is True
    assert drawn["parameters"][0]["zero"] is False and drawn["watch"]["tampering"] == []
