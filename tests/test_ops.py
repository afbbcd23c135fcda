"""The child's vocabulary: build, give weights, call, step. Facts and raw tensors come back, whatever the code does."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from answers import single_file, solutions
from conftest import OpenChild
from torch.nn import functional as F
from workbench_child import SMALL, forward, load_one, module

from autograder.probe.client import ProbeFailure
from autograder.verdict import Verdict

X = torch.linspace(-1, 1, 2 * 3 * 8).reshape(2, 3, 8)
IDX = torch.tensor([[0, 5, 10], [1, 2, 3]])


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


def test_an_unknown_request_ends_the_conversation_as_a_crash_of_the_child(open_child: OpenChild) -> None:
    with open_child(solutions()) as child, pytest.raises(ProbeFailure) as caught:
        child.call("judge")
    assert caught.value.verdict is Verdict.CRASHED
