"""A child with the real workbench in it, spoken to directly; branch coverage of what runs there is saved at its end."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import torch
from answers import write

from autograder.probe.client import Probe, Reply
from autograder.sandbox import Limits, Nursery

DEFAULTS = {"vocab_size": 65, "block_size": 256, "n_layer": 6, "n_head": 6, "n_embd": 384}
SMALL = {"vocab_size": 11, "block_size": 9, "n_layer": 2, "n_head": 2, "n_embd": 8}
FILES = {
    "GPTConfig": "config.py",
    "CausalSelfAttention": "attention.py",
    "MLP": "mlp.py",
    "Block": "block.py",
    "GPT": "gpt.py",
}
KINDS = {"CausalSelfAttention": "attention", "MLP": "mlp", "Block": "block"}

#: A child starts with an environment of its own in a folder of its own and ends by a signal: coverage is started, told
#: where all is, and saved by hand.
_COVERAGE = """
import coverage
_coverage = coverage.Coverage(data_file={data_file!r}, data_suffix=True, config_file={config!r}, source=[{source!r}])
_coverage.start()
save_coverage = _coverage.save
"""
_WORKBENCH = """
from autograder.probe.ops import Workbench


class Measured(Workbench):
    def handle(self, op, args, tensors):
        if op == "save":
            globals().get("save_coverage", lambda: None)()
            return {}, {}
        return super().handle(op, args, tensors)
"""


def write_measured_workbench(folder: Path) -> str:
    """Put the workbench into `folder`; coverage starts before the real one is imported. Return its spec."""
    (folder / "measured.py").write_text(_prelude() + _WORKBENCH, encoding="utf-8")
    return f"{folder / 'measured.py'}:Measured"


def _prelude() -> str:
    try:
        import coverage
    except ImportError:
        return ""
    running = coverage.Coverage.current()
    if running is None:
        return ""
    root = Path(__file__).parents[1]
    data_file = Path(running.config.data_file).absolute()
    return _COVERAGE.format(
        data_file=str(data_file), config=str(root / "pyproject.toml"), source=str(root / "autograder")
    )


class Child:
    """A submission loaded in a child. A context manager; `call` returns the facts of a reply, `ask` the whole of it."""

    def __init__(self, nursery: Nursery, folder: Path, files: Mapping[str, str | bytes]) -> None:
        self.tree = write(folder, files).resolve()
        self._probe: Probe[Limits] = Probe(nursery, self.tree, Limits(wall_s=60.0))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._probe.alive:
            self._probe.call("save")
        self._probe.close()

    def ask(self, op: str, tensors: Mapping[str, torch.Tensor] | None = None, **args: Any) -> Reply:
        return self._probe.call(op, args, tensors)

    def call(self, op: str, tensors: Mapping[str, torch.Tensor] | None = None, **args: Any) -> dict[str, Any]:
        return self.ask(op, tensors, **args).data

    def run(self, handle: int, tensors: Mapping[str, torch.Tensor], **how: Any) -> Reply:
        """Call a model on `x` or `idx`, whichever is there."""
        given = [name for name in ("x", "idx") if name in tensors]
        return self.ask("call", tensors, **{"handle": handle, "inputs": given, "seed": 0, **how})

    def load(self, sources: Mapping[str, str] | None = None, lenient: tuple[str, ...] = ()) -> dict[str, Any]:
        """Load the files (all five classes from model.py when it is there); return the facts by class."""
        if sources is None:
            single = (self.tree / "model.py").exists()
            sources = dict.fromkeys(FILES, "model.py") if single else FILES
        answer = self.call(
            "load",
            sources=dict(sources),
            files=FILES,
            lenient=list(lenient),
            kinds=KINDS,
            config_class="GPTConfig",
            defaults=DEFAULTS,
        )
        return dict(answer["classes"])

    def build(self, cls: str, config: Mapping[str, int] = SMALL, **how: Any) -> dict[str, Any]:
        return self.call("build", cls=cls, config=dict(config), **{"seed": 1, **how})


def module(body: str, name: str = "MLP") -> dict[str, str]:
    """Return a submission with one nn.Module whose methods are `body`."""
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    return {"model.py": f"import torch, types\nfrom torch import nn\n\nclass {name}(nn.Module):\n{lines}"}


def load_one(child: Child, name: str = "MLP", **how: Any) -> dict[str, Any]:
    child.load({name: "model.py"})
    return child.build(name, look=True, **how)


def forward(body: str) -> dict[str, str]:
    return module(f"def forward(self, x):\n    {body}")
