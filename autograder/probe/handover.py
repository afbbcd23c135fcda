"""What is put into a student's model, handed to it and switched on before it is called."""

from __future__ import annotations

from torch import Tensor, nn


def strided(value: Tensor) -> Tensor:
    """Return a copy whose numbers lie in memory as a transpose's do: view(-1) refuses it, reshape(-1) does not."""
    return value.transpose(0, 1).contiguous().transpose(0, 1) if value.dim() == 2 else value.clone()


def switch_on(model: nn.Module, words: str) -> list[str]:
    """Set to True what the model keeps as True or False under a name that holds one of `words`; return the names."""
    held = [name for name, value in vars(model).items() if type(value) is bool]
    names = [name for name in held if any(word in name.lower() for word in words.split())]
    for name in names:
        vars(model)[name] = True
    return [name[:60] for name in names]


def under(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}
