"""A tensor left on the CPU betrays itself on a pretended device, and code that follows its device does not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from autograder.probe.devices import PRETENDED, DeviceWatch
from autograder.probe.standins import WEIGHT_NAMES, apply_standin, find_width, running_mean, standin_class


class Layer(nn.Module):
    """One weight, one buffer, and a forward that the test gives."""

    def __init__(self, function: Callable[[Any, Tensor], Any]) -> None:
        super().__init__()
        self.function = function
        self.weight = nn.Parameter(torch.ones(4))
        self.register_buffer("mask", torch.ones(3, 4))
        self.plain = torch.ones(3, 4)

    def forward(self, x: Tensor) -> Any:
        return self.function(self, x)


def faults(function: Callable[[Any, Tensor], Any]) -> list[str]:
    layer, x = Layer(function), torch.ones(2, 3, 4)
    watch = DeviceWatch(layer, [x])
    with watch:
        layer(x)
    return watch.faults


FOLLOWS: dict[str, Callable[[Any, Tensor], Any]] = {
    "weights and buffers": lambda m, x: x * m.weight + m.mask,
    "made on the device of x": lambda m, x: x + torch.arange(4, device=x.device),
    "moved to the device of x": lambda m, x: x + m.plain.to(x.device),
    "made like x": lambda m, x: x + torch.zeros_like(x) + x.new_ones(4),
    "numbers": lambda m, x: x * 2.0 + torch.tensor(0.5),
    "indices from the CPU": lambda m, x: x[:, torch.tensor([0, 1])],
    "lists of tensors": lambda m, x: torch.cat([x, x], dim=0).chunk(2)[0] + m.mask,
    "a dictionary of tensors": lambda m, x: torch.where(condition=m.mask > 0, input=x, other=x),
    "back to the CPU": lambda m, x: x.cpu() + m.plain,
    "back to the CPU by name": lambda m, x: x.to("cpu") + m.plain,
    "a device by text": lambda m, x: x.to(str(x.device)) + m.mask,
    "a value read out": lambda m, x: x * x.sum().item() + len(x.tolist()),
    "its device compared": lambda m, x: x if x.device == m.weight.device else 1 / 0,
}
STAYS: dict[str, tuple[Callable[[Any, Tensor], Any], str]] = {
    "a tensor made inside": (lambda m, x: x + torch.arange(4), "gets a CPU tensor of shape (4,)"),
    "a plain attribute": (lambda m, x: m.plain * x, "gets a CPU tensor of shape (3, 4)"),
    "in a list": (lambda m, x: torch.stack([x, torch.zeros(2, 3, 4)]), "stack gets a CPU tensor of shape (2, 3, 4)"),
    "by keyword": (lambda m, x: torch.where(m.mask > 0, input=x, other=m.plain), "where gets a CPU tensor"),
    "made on the CPU by name": (lambda m, x: x + torch.ones(4, device="cpu"), "shape (4,)"),
    "mixed after leaving": (lambda m, x: x + x.cpu(), "gets a CPU tensor of shape (2, 3, 4)"),
    "numpy": (lambda m, x: x.detach().numpy(), "numpy() cannot read a tensor of another device"),
}


@pytest.mark.parametrize("name", FOLLOWS)
def test_code_that_follows_its_device_has_no_faults(name: str) -> None:
    assert faults(FOLLOWS[name]) == []


@pytest.mark.parametrize("name", STAYS)
def test_what_stays_on_the_cpu_is_named(name: str) -> None:
    function, words = STAYS[name]
    assert words in faults(function)[0]


def test_faults_are_few_and_the_device_is_only_pretended() -> None:
    assert len(faults(lambda m, x: [x + m.plain for _ in range(20)])) == 5
    seen: list[torch.device] = []
    assert faults(lambda m, x: seen.extend([x.device, m.plain.device])) == []
    assert seen == [PRETENDED, torch.device("cpu")] and torch.ones(1).device.type == "cpu"


# -- stand-ins --------------------------------------------------------------------------------------------------------


def test_a_running_mean_sees_the_past_alone() -> None:
    x = torch.arange(24.0).reshape(2, 3, 4)
    assert torch.allclose(running_mean(x)[:, 1], (x[:, 0] + x[:, 1]) / 2)
    assert torch.equal(running_mean(x)[:, 0], x[:, 0])


@pytest.mark.parametrize("kind", WEIGHT_NAMES)
def test_a_stand_in_has_one_weight_keeps_the_shape_and_tells_that_it_was_built(kind: str) -> None:
    built: list[str] = []
    layer = standin_class(kind, "Whatever", built)(8)
    assert type(layer).__name__ == "Whatever" and built == [""]
    ((name, weight),) = layer.named_parameters()
    assert name == WEIGHT_NAMES[kind] and weight.shape == (8, 8)
    x = torch.randn(2, 3, 8)
    assert (
        torch.equal(layer(x, "ignored", also="ignored"), apply_standin(kind, x, weight)) and layer(x).shape == x.shape
    )
    assert not torch.allclose(layer(layer(x)), layer(x))  # calling it twice shows


class Config:
    n_embd = 12


@pytest.mark.parametrize(
    ("args", "kwargs", "width"),
    [
        ((Config(),), {}, 12),
        ((), {"config": Config()}, 12),
        (({"n_embd": 6},), {}, 6),
        ((2, 8), {}, 8),
        ((), {"n_embd": 4, "block_size": 99}, 4),
        ((True, 5), {}, 5),
        ((), {"name": "nothing to go by"}, 7),
    ],
)
def test_a_stand_in_finds_its_width_in_whatever_a_constructor_is_given(
    args: tuple[Any, ...], kwargs: dict[str, Any], width: int
) -> None:
    assert find_width(args, kwargs, default=7) == width
