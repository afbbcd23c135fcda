"""Dropout around the contract's modules, by hooks: the classes that a student writes have none, and need none."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn
from torch.nn import functional as F

from autograder.capstone.trouble import CapstoneError


def add_dropout(model: nn.Module, share: float) -> None:
    """Drop `share` of what each attention and MLP adds to the residual stream, and of the embeddings, in train mode.

    These are GPT-2's places but for the attention weights, which a module keeps to itself. Saved weights stay the
    same. Raises CapstoneError when `share` is no share, or the model has other modules.
    """
    if not 0 <= share < 1:
        raise CapstoneError(f"Dropout is a share from 0 to below 1, not {share}.")
    if share == 0:
        return
    blocks = [module for name, module in model.named_modules() if name.startswith("transformer.h.") and _is_block(name)]
    if not blocks or not all(hasattr(block, "attn") and hasattr(block, "mlp") for block in blocks):
        raise CapstoneError("Dropout needs the contract's modules: transformer.h.N.attn and .mlp.")

    def drop(module: nn.Module, _: Any, output: Tensor) -> Tensor:
        return F.dropout(output, share, module.training)

    def drop_input(module: nn.Module, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        return (F.dropout(inputs[0], share, module.training), *inputs[1:])

    for block in blocks:
        block.get_submodule("attn").register_forward_hook(drop)
        block.get_submodule("mlp").register_forward_hook(drop)
    blocks[0].register_forward_pre_hook(drop_input)


def _is_block(name: str) -> bool:
    return name.removeprefix("transformer.h.").isdigit()
