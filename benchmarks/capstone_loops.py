"""Two ways to train a character GPT, step by step: nanoGPT's published recipe, written anew, and the kit's own.

The baseline is what the recipe says and no more: bias-free pre-norm blocks, scaled_dot_product_attention, tied head,
AdamW with cosine decay. Both see the same text; both are judged by all of its validation characters.
"""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from autograder.capstone.batches import Batches
from autograder.capstone.corpus import Corpus
from autograder.capstone.dropout import add_dropout
from autograder.capstone.hardware import Hardware
from autograder.capstone.learner import reference_learner
from autograder.capstone.optimizers import Optimizers
from autograder.capstone.presets import Settings
from autograder.capstone.processes import Processes
from autograder.capstone.validation import Validation
from autograder.track import load_track


@dataclass(frozen=True)
class Recipe:
    """nanoGPT's numbers for Shakespeare by characters (config/train_shakespeare_char.py and its README)."""

    n_layer: int = 4
    n_head: int = 4
    n_embd: int = 128
    block_size: int = 64
    batch_size: int = 12
    steps: int = 2000
    dropout: float = 0.0
    rate: float = 1e-3
    least_rate: float = 1e-4
    warmup: int = 100
    betas: tuple[float, float] = (0.9, 0.99)
    weight_decay: float = 0.1
    clip: float = 1.0


CPU = Recipe()
GPU = Recipe(n_layer=6, n_head=6, n_embd=384, block_size=256, batch_size=64, steps=5000, dropout=0.2)


class _Attention(nn.Module):
    def __init__(self, recipe: Recipe) -> None:
        super().__init__()
        self.heads, self.dropout = recipe.n_head, recipe.dropout
        self.c_attn = nn.Linear(recipe.n_embd, 3 * recipe.n_embd, bias=False)
        self.c_proj = nn.Linear(recipe.n_embd, recipe.n_embd, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        rows, length, width = x.shape
        q, k, v = (
            part.view(rows, length, self.heads, -1).transpose(1, 2) for part in self.c_attn(x).split(width, dim=2)
        )
        dropout = self.dropout if self.training else 0.0
        y = F.scaled_dot_product_attention(q, k, v, dropout_p=dropout, is_causal=True)  # (B, H, T, D)
        return F.dropout(self.c_proj(y.transpose(1, 2).reshape(rows, length, width)), self.dropout, self.training)


class _Block(nn.Module):
    def __init__(self, recipe: Recipe) -> None:
        super().__init__()
        self.ln_1 = nn.LayerNorm(recipe.n_embd, bias=False)
        self.attn = _Attention(recipe)
        self.ln_2 = nn.LayerNorm(recipe.n_embd, bias=False)
        self.c_fc = nn.Linear(recipe.n_embd, 4 * recipe.n_embd, bias=False)
        self.c_proj = nn.Linear(4 * recipe.n_embd, recipe.n_embd, bias=False)
        self.dropout = recipe.dropout

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attn(self.ln_1(x))
        return x + F.dropout(self.c_proj(F.gelu(self.c_fc(self.ln_2(x)))), self.dropout, self.training)


class BaselineGPT(nn.Module):
    """(idx, targets) -> (logits, loss), as the recipe has it."""

    def __init__(self, recipe: Recipe, vocab_size: int) -> None:
        super().__init__()
        self.wte = nn.Embedding(vocab_size, recipe.n_embd)
        self.wpe = nn.Embedding(recipe.block_size, recipe.n_embd)
        self.blocks = nn.ModuleList(_Block(recipe) for _ in range(recipe.n_layer))
        self.ln_f = nn.LayerNorm(recipe.n_embd, bias=False)
        self.lm_head = nn.Linear(recipe.n_embd, vocab_size, bias=False)
        self.wte.weight = self.lm_head.weight
        self.dropout = recipe.dropout
        for name, parameter in self.named_parameters():
            if parameter.dim() == 2:
                residual = name.endswith("c_proj.weight")
                nn.init.normal_(parameter, 0.0, 0.02 / math.sqrt(2 * recipe.n_layer) if residual else 0.02)

    def forward(self, idx: Tensor, targets: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        x = self.wte(idx) + self.wpe(torch.arange(idx.shape[1], device=idx.device))
        x = F.dropout(x, self.dropout, self.training)
        for block in self.blocks:
            x = block(x)
        logits = self.lm_head(self.ln_f(x))
        return logits, None if targets is None else F.cross_entropy(logits.flatten(0, 1), targets.flatten())


@dataclass
class Loop:
    """A run that is advanced step by step; `seconds` counts its training alone, not its validations."""

    name: str
    model: nn.Module
    steps: int
    characters: int  # a step
    advance: Callable[[int], object]  # does step N
    hardware: Hardware
    seconds: float = 0.0
    cpu_seconds: float = 0.0  # of this process: with one thread, what other programs do hardly changes it
    step: int = 0
    curve: list[tuple[int, float, float]] = field(default_factory=list)  # step, seconds, validation loss

    def run(self, steps: int) -> None:
        """Do up to `steps` more steps, on the clock."""
        self.model.train()
        self.hardware.wait()
        started, used = time.perf_counter(), time.process_time()
        for _ in range(min(steps, self.steps - self.step)):
            self.advance(self.step)
            self.step += 1
        self.hardware.wait()
        self.seconds += time.perf_counter() - started
        self.cpu_seconds += time.process_time() - used

    def validate(self, validation: Validation) -> float:
        """Measure, off the clock."""
        loss = validation.loss(self.model, self.hardware, Processes())
        self.curve.append((self.step, self.seconds, loss))
        return loss

    def seconds_to(self, target: float) -> float | None:
        """Return the training time after which a validation first was at `target` or below."""
        return next((seconds for _, seconds, loss in self.curve if loss <= target), None)

    @property
    def best(self) -> float:
        return min((loss for _, _, loss in self.curve), default=math.inf)

    @property
    def characters_per_second(self) -> float:
        return self.step * self.characters / max(self.seconds, 1e-9)


def baseline_loop(
    recipe: Recipe, corpus: Corpus, hardware: Hardware, *, seed: int = 1337, compiled: bool = False
) -> Loop:
    """Return the recipe as a loop."""
    torch.manual_seed(seed)
    model = BaselineGPT(recipe, len(corpus.vocabulary)).to(hardware.device)
    batches = Batches(corpus.split()[0], recipe.block_size, recipe.batch_size, seed, hardware.device)
    matrices = [p for p in model.parameters() if p.dim() >= 2]
    vectors = [p for p in model.parameters() if p.dim() < 2]
    groups: list[dict[str, Any]] = [
        {"params": matrices, "weight_decay": recipe.weight_decay},
        {"params": vectors, "weight_decay": 0.0},
    ]
    fused = hardware.device.type == "cuda"  # as nanoGPT chooses
    optimizer = torch.optim.AdamW(groups, lr=recipe.rate, betas=recipe.betas, fused=fused)
    forward: Callable[..., Any] = torch.compile(model) if compiled else model

    def advance(step: int) -> None:
        for group in optimizer.param_groups:
            group["lr"] = _cosine(step, recipe)
        for idx, targets in batches(step):
            with hardware.autocast():
                loss = forward(idx, targets)[1]
            loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), recipe.clip)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    name = f"baseline, {hardware.precision}{', compiled' if compiled else ''}"
    return Loop(name, model, recipe.steps, recipe.batch_size * recipe.block_size, advance, hardware)


def kit_loop(
    settings: Settings, corpus: Corpus, hardware: Hardware, *, dropout: float = 0.0, compiled: bool = False
) -> Loop:
    """Return the kit's training of its own solutions as a loop: what `workshop train` does, without its files."""
    learner = reference_learner(load_track())
    model = learner.build(settings.config(len(corpus.vocabulary)), settings.seed).to(hardware.device)
    add_dropout(model, dropout)
    batches = Batches(corpus.split()[0], settings.block_size, settings.batch_size, settings.seed, hardware.device)
    optimizers = Optimizers(model, settings)
    forward: Callable[..., Any] = torch.compile(model) if compiled else model

    def advance(step: int) -> None:
        optimizers.set_step(step)
        optimizers.zero_grad()
        for idx, targets in batches(step):
            with hardware.autocast():
                loss = forward(idx, targets)[1]
            loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), settings.clip)
        optimizers.step()

    name = f"kit, {settings.optimizer}, {hardware.precision}{', compiled' if compiled else ''}"
    return Loop(name, model, settings.steps, settings.batch_size * settings.block_size, advance, hardware)


def race(
    loops: Sequence[tuple[Loop, int, int]], validation: dict[int, Validation], *, limit_s: float = math.inf
) -> None:
    """Run the loops by turns, so that a busy moment hits all: (loop, steps a turn, first step to validate at).

    `validation` is by context. A loop ends with its steps, or `limit_s` seconds.
    """
    running = list(loops)
    while running:
        for one in list(running):
            loop, turn, first = one
            loop.run(turn)
            done = loop.step >= loop.steps or loop.seconds >= limit_s
            if loop.step >= first or done:
                loop.validate(validation[_context(loop.model)])
            if done:
                running.remove(one)


def matmul_peak(hardware: Hardware, sizes: Sequence[int] = (512, 1024, 2048), seconds: float = 0.5) -> float:
    """Return the most FLOP/s that square matrix products reach here, in the precision of `hardware`."""
    dtype = torch.bfloat16 if hardware.precision == "bf16" else torch.float32
    best = 0.0
    for size in sizes:
        one, other = (torch.randn(size, size, device=hardware.device, dtype=dtype) for _ in range(2))
        one @ other
        hardware.wait()
        started, count = time.perf_counter(), 0
        while time.perf_counter() - started < seconds:
            for _ in range(10 if hardware.device.type == "cuda" else 1):
                one @ other
                count += 1
            hardware.wait()
        best = max(best, 2 * size**3 * count / (time.perf_counter() - started))
    return best


def flops_a_character(model: nn.Module, n_layer: int, n_embd: int, block_size: int) -> float:
    """Return the multiplications and additions of a training step, a character (Chowdhery et al. 2022, appendix B)."""
    parameters = sum(p.numel() for name, p in model.named_parameters() if not name.endswith("wpe.weight"))
    return 6.0 * parameters + 12.0 * n_layer * n_embd * block_size


def with_steps(settings: Settings, **changes: Any) -> Settings:
    """Return the settings with other numbers."""
    return dataclasses.replace(settings, **changes)


def _cosine(step: int, recipe: Recipe) -> float:
    if step < recipe.warmup:
        return recipe.rate * (step + 1) / (recipe.warmup + 1)
    done = (step - recipe.warmup) / max(1, recipe.steps - recipe.warmup)
    return recipe.least_rate + 0.5 * (1 + math.cos(math.pi * done)) * (recipe.rate - recipe.least_rate)


def _context(model: nn.Module) -> int:
    return next(p.shape[0] for name, p in model.named_parameters() if name.endswith("wpe.weight"))
