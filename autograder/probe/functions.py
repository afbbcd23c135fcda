"""Calls of a submission's functions, with values, tensors, generators, and models of ours. No judgement."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy
import torch
from torch import Tensor, nn

from autograder.probe.facts import MAX_OUTPUT_BYTES, random_state
from autograder.probe.faults import describe_exception
from autograder.probe.practice import PracticeModel, defer_dynamo, parameter_holder, practice_optimizer

#: Longer texts are cut: none that is asked for has a tenth of this.
MAX_TEXT = 20_000
#: torch.manual_seed would also prepare for GPUs that are not there.
_GENERATOR = torch.default_generator


def call_functions(
    thing: Any, calls: list[dict[str, Any]], tensors: dict[str, Tensor], tree: str, glance: Callable[[], None]
) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Make `calls` of a function, or of methods of a class; return what each gave, its tensors as "k/name".

    A call: args and kwargs (each a spec, see `_Bench.value`), of a class also init (the constructor's arguments), and
    method or attribute. model, optimizer: ours, made anew for it; after: what to do with an optimizer that came back.
    """
    defer_dynamo()
    answers: list[dict[str, Any]] = []
    out: dict[str, Tensor] = {}
    for number, call in enumerate(calls):
        glance()
        prefix = f"{number}/"
        given = {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}
        found: dict[str, Tensor] = {}
        answers.append(_Bench(call, given).run(thing, tree, found))
        out |= {prefix + name: value for name, value in found.items()}
    return {"answers": answers}, out


class _Bench:
    """One call, with what it is given."""

    def __init__(self, call: dict[str, Any], tensors: dict[str, Tensor]) -> None:
        self._call, self._tensors = call, tensors
        self._model = self._made(call.get("model"))
        self._optimizer: torch.optim.Optimizer | None = None
        self._rates: list[list[float]] = []
        if call.get("optimizer"):
            assert self._model is not None
            self._optimizer, self._rates = practice_optimizer(self._model, float(call["optimizer"]))

    def _made(self, wanted: dict[str, Any] | None) -> nn.Module | None:
        if wanted is None:
            return None
        weights = self._under("model.")
        if wanted["kind"] == "parameters":
            return parameter_holder(weights, wanted["tied"], wanted["frozen"])
        model = PracticeModel(weights, int(wanted["block_size"]), float(wanted["gain"]))
        for name, value in self._under("stale.").items():
            model.get_parameter(name).grad = value.clone()
        return model.train(bool(wanted["training"]))

    def _under(self, prefix: str) -> dict[str, Tensor]:
        return {n.removeprefix(prefix): value for n, value in self._tensors.items() if n.startswith(prefix)}

    def value(self, spec: dict[str, Any]) -> Any:
        """Return the argument that `spec` stands for: {"value": 3}, {"tensor": "x"}, {"generator": seed}, ..."""
        ((kind, what),) = spec.items()
        if kind == "tensor":
            return self._tensors[what]
        if kind == "generator":
            return torch.Generator().manual_seed(what)
        if kind == "batches":
            return [(self._tensors[f"x{number}"], self._tensors[f"y{number}"]) for number in range(what)]
        if kind == "pair":
            return tuple(what)
        return {"value": what, "model": self._model, "optimizer": self._optimizer}[kind]

    def run(self, thing: Any, tree: str, out: dict[str, Tensor]) -> dict[str, Any]:
        """Make the call; return facts about what came of it."""
        args = [self.value(spec) for spec in self._call.get("args", [])]
        named = {name: self.value(spec) for name, spec in self._call.get("kwargs", {}).items()}
        _GENERATOR.manual_seed(int(self._call.get("seed", 0)))
        before = random_state()
        data: dict[str, Any] = {}
        with torch.enable_grad():
            try:
                result = self._result(thing, args, named)
            except BaseException as error:  # SystemExit in a function is the student's too
                stage = self._call["stage"]
                data["error"] = describe_exception(error, tree, stage).to_json()
                names = [cls.__name__ for cls in type.__getattribute__(type(error), "__mro__") if _builtin(cls)]
                data["raised"] = names[:10]
            else:
                data["result"] = described(result, out, "result")
                if "after" in self._call:
                    data["optimizer"] = self._after(result, tree)
            data["grad_mode"] = torch.is_grad_enabled() and not torch.is_inference_mode_enabled()
        data["random"] = before != random_state()
        out |= {f"after.{name}": value.detach() for name, value in self._tensors.items() if "." not in name}
        self._tell_model(data, out)
        return data

    def _result(self, thing: Any, args: list[Any], named: dict[str, Any]) -> Any:
        if "init" not in self._call:
            return thing(*args, **named)
        made = thing(*[self.value(spec) for spec in self._call["init"]])
        if "attribute" in self._call:
            return getattr(made, self._call["attribute"])
        return getattr(made, self._call["method"])(*args, **named)

    def _after(self, optimizer: Any, tree: str) -> dict[str, Any]:
        """Take steps with the optimizer that a function returned, under the gradients "g0.NAME", "g1.NAME", ..."""
        wanted, model = self._call["after"], self._model
        assert model is not None
        names = {id(value): name for name, value in nn.Module.named_parameters(model)}
        try:
            groups = [
                {
                    "names": [names.get(id(p), "?") for p in group["params"]][:50],
                    "weight_decay": repr(group.get("weight_decay"))[:40],
                    "lr": repr(group.get("lr"))[:40],
                }
                for group in list(optimizer.param_groups)[:50]
            ]
            for number in range(int(wanted["steps"])):
                if number == wanted["steps"] - 1 and "lr" in wanted:
                    for group in optimizer.param_groups:
                        group["lr"] = wanted["lr"]
                grads = self._under(f"g{number}.")
                for name, value in nn.Module.named_parameters(model):
                    value.grad = grads[name].clone() if name in grads else None
                optimizer.step()
        except BaseException as error:
            return {"error": describe_exception(error, tree, "optimizer.step").to_json()}
        return {"groups": groups, "type": str(type.__getattribute__(type(optimizer), "__name__"))[:60]}

    def _tell_model(self, data: dict[str, Any], out: dict[str, Tensor]) -> None:
        model = self._model
        if model is None:
            return
        for name, value in nn.Module.named_parameters(model):
            out[f"weight.{name}"] = value.detach()
            if value.grad is not None:
                out[f"grad.{name}"] = value.grad.detach()
        if isinstance(model, PracticeModel):
            modes = [model.training, model.inner.training]
            data["model"] = {"calls": model.noted, "count": model.count, "modes": modes}
        if self._optimizer is not None:
            data["rates"] = self._rates[:20]


def described(value: Any, out: dict[str, Tensor], name: str, depth: int = 0) -> dict[str, Any]:
    """Say what a value is without asking a method of the student's; put its numbers into `out` under `name`."""
    cls = type(value)
    if value is None:
        return {"kind": "none"}
    if cls is Tensor or cls is nn.Parameter:
        if value.numel() * value.element_size() <= MAX_OUTPUT_BYTES:
            out[name] = value.detach()
        return {"kind": "tensor", "grad": bool(value.requires_grad)}
    if cls in (bool, int, float, str):
        return {"kind": cls.__name__, "text": (value if cls is str else repr(value))[:MAX_TEXT]}
    if isinstance(value, numpy.generic) and value.dtype.kind in "iufb":
        return {"kind": "float" if value.dtype.kind == "f" else "int", "text": repr(value.item())}
    if cls is numpy.ndarray and value.dtype.kind in "iuf":
        out[name] = torch.from_numpy(numpy.ascontiguousarray(value).copy())
        return {"kind": "array", "grad": False}
    if isinstance(value, list | tuple):
        items = list(tuple.__iter__(value) if isinstance(value, tuple) else list.__iter__(value))
        if all(type(item) is int and abs(item) < 2**62 for item in items):
            out[name] = torch.tensor(items, dtype=torch.int64)
            return {"kind": "list"}
        if depth < 2:
            inner = [described(item, out, f"{name}.{n}", depth + 1) for n, item in enumerate(items[:8])]
            return {"kind": "sequence", "items": inner, "length": len(items)}
    return {"kind": "other", "type": str(type.__getattribute__(cls, "__name__"))[:60]}


def _builtin(cls: type) -> bool:
    return vars(cls).get("__module__") == "builtins" or cls in (KeyError, ValueError, IndexError, AssertionError)
