"""The validation loss: over *all* validation characters, in fixed windows: one number, not an estimate."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from autograder.capstone.corpus import Ids
from autograder.capstone.hardware import Hardware
from autograder.capstone.processes import Processes
from autograder.capstone.trouble import CapstoneError

#: Characters in a forward pass. Logits of this many take 4 MB, and a pass of a small model fills two cores.
CHARACTERS_AT_ONCE = 16_384


class Validation:
    """The validation text in windows of block_size that do not overlap; the last may be shorter."""

    def __init__(self, ids: Ids, block_size: int) -> None:
        if len(ids) < 2:
            raise CapstoneError("The validation text (the last 10%) is empty: take a longer text.")
        text = torch.from_numpy(ids)
        count = len(text) - 1  # characters with one before them
        whole = count // block_size
        idx, targets = text[:-1], text[1:]
        at_once = max(1, CHARACTERS_AT_ONCE // block_size)
        body = slice(0, whole * block_size)
        self._windows: list[tuple[Tensor, Tensor]] = []
        if whole:
            rows, answers = idx[body].view(whole, block_size), targets[body].view(whole, block_size)
            self._windows += [(rows[i : i + at_once], answers[i : i + at_once]) for i in range(0, whole, at_once)]
        if count > whole * block_size:
            self._windows.append((idx[None, whole * block_size :], targets[None, whole * block_size :]))
        self._count = count

    def loss(self, model: nn.Module, hardware: Hardware, processes: Processes) -> float:
        """Return the mean cross-entropy in nats per character; `model` is back in its mode, with no gradients left."""
        was_training = model.training
        model.eval()
        total = 0.0
        try:
            with torch.no_grad():
                for idx, targets in self._windows[processes.rank :: processes.count]:
                    with hardware.autocast():
                        logits = model(idx.to(hardware.device))[0]
                    flat = logits.float().flatten(0, 1)  # (B*T, V)
                    total += float(F.cross_entropy(flat, targets.to(hardware.device).flatten(), reduction="sum"))
        finally:
            model.train(was_training)
        return processes.sum(total) / self._count
