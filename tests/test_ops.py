"""The child's vocabulary: build, give weights, call, step. Facts and raw tensors come back, whatever the code does."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from answers import changed, line_of, single_file, solutions
from conftest import OpenChild
from torch.nn import functional as F
from workbench_child import DEFAULTS, SMALL, Child

from autograder.probe.client import ProbeFailure
from autograder.verdict import Verdict

X = torch.linspace(-1, 1, 2 * 3 * 8).reshape(2, 3, 8)
IDX = torch.tensor([[0, 5, 10], [1, 2, 3]])


def module(body: str, name: str = "MLP") -> dict[str, str]:
    """Return a submission with one nn.Module whose methods are `body`."""
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    return {"model.py": f"import torch, types\nfrom torch import nn\n\nclass {name}(nn.Module):\n{lines}"}


def load_one(child: Child, name: str = "MLP", **how: Any) -> dict[str, Any]:
    child.load({name: "model.py"})
    return child.build(name, **how)


def forward(body: str) -> dict[str, str]:
    return module(f"def forward(self, x):\n    {body}")


# -- build ------------------------------------------------------------------------------------------------------------


def test_the_parameter_table_names_shapes_sharing_and_freezing(open_child: OpenChild) -> None:
    with open_child(changed("block.py", "self.mlp = MLP(config)", "self.mlp = MLP(config).requires_grad_(False)")) as c:
        c.load()
        rows = {row["name"]: row for row in c.build("GPT")["parameters"]}
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
        assert set(refused["signature"]["required"]) <= set(refused["signature"]["all"])


def test_a_constructor_without_a_signature_asks_for_nothing(open_child: OpenChild) -> None:
    with open_child({"model.py": "MLP = 3"}) as child:
        assert load_one(child)["signature"] == {"required": [], "all": []}


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
        "n_embd": {"type": "other", "value": None},
    }
    assert refused["type"] == "TypeError"


def test_a_missing_config_falls_back_to_the_contracts_defaults(open_child: OpenChild) -> None:
    with open_child({"model.py": "pass"}) as child:
        child.load({})
        fields = child.call("config", values={"n_head": 3})["fields"]
    assert {name: field["value"] for name, field in fields.items()} == {**DEFAULTS, "n_head": 3}


# -- weights and calls ------------------------------------------------------------------------------------------------


def test_weights_go_in_and_outputs_and_gradients_come_out(open_child: OpenChild) -> None:
    weights = {
        "c_fc.weight": torch.full((32, 8), 0.1),
        "c_fc.bias": torch.linspace(-1, 1, 32),
        "c_proj.weight": torch.full((8, 32), 0.2),
        "c_proj.bias": torch.arange(8.0),
    }
    with open_child(solutions()) as child:
        child.load()
        handle = child.build("MLP")["handle"]
        strange = {"c_fc.weight": torch.ones(3), "nobody": torch.ones(1)}
        child.call("weights", weights, handle=handle)
        child.call("weights", strange, handle=handle)  # neither has a place
        cotangent = torch.ones(2, 3, 8)
        reply = child.run(handle, {"x": X, "cotangent": cotangent}, backward=0)
    x = X.clone().requires_grad_(True)
    hidden = F.gelu(x @ weights["c_fc.weight"].T + weights["c_fc.bias"], approximate="tanh")
    y = hidden @ weights["c_proj.weight"].T + weights["c_proj.bias"]
    y.sum().backward()  # type: ignore[no-untyped-call]
    assert torch.allclose(reply.tensors["out.0"], y, atol=1e-5) and reply.data["gradients"] == []
    assert torch.allclose(reply.tensors["grad.input.x"], x.grad, atol=1e-5)  # type: ignore[arg-type]
    assert torch.equal(reply.tensors["grad.c_proj.bias"], torch.full((8,), 6.0))


def test_the_loss_is_taken_back_and_a_step_moves_tied_weights_together(open_child: OpenChild) -> None:
    names = ["transformer.wte.weight", "lm_head.weight", "nobody"]
    with open_child(solutions()) as child:
        child.load()
        handle = child.build("GPT")["handle"]
        before = child.ask("step", handle=handle, names=names, lr=0.5).tensors
        how: dict[str, Any] = {"keywords": {"targets": "targets"}, "backward": "loss"}
        reply = child.run(handle, {"idx": IDX, "targets": IDX}, **how)
        after = child.ask("step", handle=handle, names=names, lr=0.5).tensors
    assert [item["shape"] for item in reply.data["outputs"]["items"]] == [[2, 3, 11], []]
    assert set(before) == set(after) == set(names[:2])
    assert not torch.equal(before["lm_head.weight"], after["lm_head.weight"])
    assert torch.equal(after["lm_head.weight"], after["transformer.wte.weight"])


def test_a_sub_module_can_be_called_alone_and_a_missing_one_is_the_students_error(open_child: OpenChild) -> None:
    with open_child(solutions()) as child:
        child.load()
        handle = child.build("Block")["handle"]
        assert child.run(handle, {"x": X}, path="mlp").tensors["out.0"].shape == X.shape
        fault = child.run(handle, {"x": X}, path="ffn").data["error"]
        assert fault["stage"] == "forward" and "ffn" in fault["message"]
        child.call("forget", handle=handle)
        child.call("forget", handle=handle)
        with pytest.raises(ProbeFailure):
            child.run(handle, {"x": X})


@pytest.mark.parametrize(
    ("body", "items", "sequence"),
    [
        ("return x", [{"kind": "tensor", "shape": [2, 3, 8], "dtype": "float32", "grad": False}], False),
        ("return None", [{"kind": "none"}], False),
        ("return [x[0, 0], None]", None, True),
        ("return {'y': x}", [{"kind": "other", "type": "dict"}], False),
        ("return x.tolist()[0][0][0]", [{"kind": "other", "type": "float"}], False),
        (
            "return x.as_subclass(type('Liar', (torch.Tensor,), {}))",
            [{"kind": "tensor subclass", "type": "Liar"}],
            False,
        ),
        ("return torch.zeros(1).expand(2**26)", None, False),
        ("return (x,) * 20", None, True),
    ],
)
def test_whatever_a_forward_returns_is_described_without_asking_it(
    body: str, items: list[Any] | None, sequence: bool, open_child: OpenChild
) -> None:
    with open_child(forward(body)) as child:
        handle = load_one(child, interface="keywords")["handle"]
        reply = child.run(handle, {"x": X})
    outputs = reply.data["outputs"]
    assert outputs["sequence"] is sequence and len(outputs["items"]) <= 8
    assert items is None or outputs["items"] == items
    assert ("out.0" in reply.tensors) == (outputs["items"][0]["kind"] == "tensor" and "2**26" not in body)


def test_a_call_with_observation_tells_what_it_changed(open_child: OpenChild) -> None:
    body = (
        "def __init__(self):\n    super().__init__()\n    self.register_buffer('seen', torch.zeros(2))\n"
        "    self.register_buffer('grown', torch.zeros(1))\n    self.inner = nn.Identity()\n"
        "def forward(self, x):\n    self.seen.add_(1)\n    self.grown = torch.zeros(5)\n    self.inner.train()\n"
        "    torch.rand(1)\n    x.mul_(2)\n    return x"
    )
    with open_child(module(body)) as child:
        handle = load_one(child, interface="keywords")["handle"]
        reply = child.run(handle, {"x": X}, observe=True, seed=3)
        quiet = child.run(handle, {"x": X}, train=True)
    assert reply.data["changed"] == ["seen"] and reply.data["mode_changed"] == ["inner"] and reply.data["random"]
    assert torch.equal(reply.tensors["after.x"], 2 * X)
    assert "changed" not in quiet.data and "after.x" not in quiet.tensors


def test_tensors_without_a_gradient_are_named(open_child: OpenChild) -> None:
    body = "def __init__(self):\n    super().__init__()\n    self.p = nn.Parameter(torch.ones(8))\n"
    with open_child(module(body + "def forward(self, x):\n    return x.detach() * self.p")) as child:
        handle = load_one(child, interface="keywords")["handle"]
        reply = child.run(handle, {"x": X, "cotangent": X}, backward=0, observe=True)
    assert reply.data["gradients"] == ["input.x", "cotangent"] or reply.data["gradients"] == ["input.x"]
    assert torch.allclose(reply.tensors["grad.p"], (X * X).sum((0, 1))) and "after.cotangent" not in reply.tensors


@pytest.mark.parametrize("backward", [0, "loss"])
def test_an_exception_of_the_backward_pass_is_told_as_such(backward: int | str, open_child: OpenChild) -> None:
    with open_child(forward("return x.detach(), x.detach().sum()")) as child:
        handle = load_one(child, interface="keywords")["handle"]
        answer = child.run(handle, {"x": X, "cotangent": X}, backward=backward).data
    assert answer["error"]["stage"] == "backward" and "does not require grad" in answer["error"]["message"]


@pytest.mark.parametrize("kind", ["SystemExit", "KeyboardInterrupt", "GeneratorExit", "RecursionError"])
def test_whatever_a_forward_raises_is_the_students_and_the_child_lives_on(kind: str, open_child: OpenChild) -> None:
    with open_child(forward(f"raise {kind}('enough')")) as child:
        handle = load_one(child, interface="keywords")["handle"]
        fault = child.run(handle, {"x": X}).data["error"]
        assert (fault["type"], fault["message"], fault["line"]) == (kind, "enough", 6)
        assert "handle" in child.build("MLP", interface="keywords")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("raise type('Odd', (Exception,), {'__str__': lambda s: 1 / 0})()", "(the message cannot be shown)"),
        ("raise ValueError('\\ud800' + 'x' * 10**6)", "?" + "x" * 599),
        ("raise NotImplementedError", ""),
        ("return self.missing", "'MLP' object has no attribute 'missing'"),
    ],
)
def test_a_message_is_short_and_readable_whatever_it_holds(line: str, message: str, open_child: OpenChild) -> None:
    with open_child(forward(line)) as child:
        handle = load_one(child, interface="keywords")["handle"]
        fault = child.run(handle, {"x": X}).data["error"]
    assert fault["message"] == message
    assert fault["not_implemented"] is (line == "raise NotImplementedError") and fault["memory"] is False


@pytest.mark.parametrize(
    ("line", "unwritten", "memory"),
    [
        ("return torch.empty(10**14)", False, True),
        ("raise MemoryError", False, True),
        ("return nn.Module.forward(self, x)", True, False),
        ("return torch.ones(2, 2).to_sparse().logit()", False, False),
    ],
)
def test_open_stubs_and_exhausted_memory_are_told_from_other_errors(
    line: str, unwritten: bool, memory: bool, open_child: OpenChild
) -> None:
    with open_child(forward(line)) as child:
        handle = load_one(child, interface="keywords")["handle"]
        fault = child.run(handle, {"x": X}).data["error"]
    assert (fault["not_implemented"], fault["memory"]) == (unwritten, memory), fault


def test_a_device_fault_is_seen_only_when_the_model_is_moved(open_child: OpenChild) -> None:
    with open_child(forward("return x + torch.zeros(8)")) as child:
        handle = load_one(child, interface="keywords")["handle"]
        still = child.run(handle, {"x": X}).data
        moved = child.run(handle, {"x": X}, moved=True).data
    assert still["device_faults"] == [] and "shape (8,)" in moved["device_faults"][0]


def test_what_the_watch_saw_comes_with_every_reply_and_settings_are_put_back(open_child: OpenChild) -> None:
    with open_child({"model.py": "import torch\ntorch.set_default_dtype(torch.float64)\n" + single_file()}) as child:
        child.load()
        answer = child.call("build", cls="MLP", config=SMALL, seed=1)
    assert "default dtype" in answer["watch"]["side_effects"][0] and answer["watch"]["tampering"] == []


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


def test_an_unknown_request_ends_the_conversation_as_a_crash_of_the_child(open_child: OpenChild) -> None:
    with open_child(solutions()) as child, pytest.raises(ProbeFailure) as caught:
        child.call("judge")
    assert caught.value.verdict is Verdict.CRASHED
