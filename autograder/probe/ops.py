"""What the child does on request: load the submission, build a model, give it weights, call it, step it.

This is the whole vocabulary. It holds no expected value and makes no judgement: facts and raw tensors go back, and the
grader decides. Student code runs in the same process, so every reply is a claim that the grader cross-checks.
"""

from __future__ import annotations

import contextlib
import inspect
import random
import types
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import numpy
import torch
from torch import Tensor, nn

from autograder.probe.devices import DeviceWatch
from autograder.probe.faults import describe_exception
from autograder.probe.loading import Loaded, fallback_config, load_tree
from autograder.probe.standins import standin_class
from autograder.probe.watch import Snapshot, Watch, snapshot

Result = tuple[dict[str, Any], dict[str, Tensor]]
#: The default model has 78 named tensors.
MAX_PARAMETERS = 2000
DTYPES = {"float32": torch.float32, "float64": torch.float64}


class StudentFault(Exception):
    """Student code raised: carries the stage in which it did."""

    def __init__(self, stage: str, error: BaseException) -> None:
        super().__init__(stage)
        self.stage, self.error = stage, error


@contextlib.contextmanager
def student_code(stage: str) -> Iterator[None]:
    """Mark a region that runs student code: whatever it raises is the student's."""
    try:
        yield
    except BaseException as error:  # SystemExit and KeyboardInterrupt in a forward are the student's too
        raise StudentFault(stage, error) from None


class Workbench:
    """Handles the requests of one grading run, one at a time."""

    _originals: ClassVar[Snapshot | None] = None

    @classmethod
    def preload(cls) -> None:
        """Take the snapshot of torch once, in the warm process, before any student's code exists there."""
        cls._originals = snapshot()

    def __init__(self, tree: str) -> None:
        self._tree = tree
        self._watch = Watch(tree, self._originals)
        self._loaded: Loaded | None = None
        self._defaults: dict[str, int] = {}
        self._config_class = ""
        self._kinds: dict[str, str] = {}
        self._models: dict[int, nn.Module] = {}
        self._next = 0

    def handle(self, op: str, args: dict[str, Any], tensors: dict[str, Tensor]) -> Result:
        """Carry out `op`. Returns (JSON-ready facts, tensors); a student's exception comes back as {"error": ...}."""
        operations: dict[str, Callable[[dict[str, Any], dict[str, Tensor]], Result]] = {
            "load": self._load,
            "config": self._config,
            "build": self._build,
            "weights": self._weights,
            "call": self._call,
            "step": self._step,
            "forget": self._forget,
        }
        try:
            data, out = operations[op](args, tensors)
        except StudentFault as fault:
            data, out = {"error": describe_exception(fault.error, self._tree, fault.stage).to_json()}, {}
        if op in ("load", "config", "build", "call"):
            self._watch.inspect()
        data["watch"] = {
            "tampering": self._watch.tampering,
            "side_effects": self._watch.side_effects,
            "notices": self._watch.notices,
        }
        return data, out

    # -- load ---------------------------------------------------------------------------------------------------------

    def _load(self, args: dict[str, Any], _: dict[str, Tensor]) -> Result:
        self._defaults, self._config_class, self._kinds = args["defaults"], args["config_class"], args["kinds"]
        self._loaded = load_tree(
            self._tree, args["sources"], args["lenient"], self._kinds, self._config_class, self._defaults
        )
        return {"classes": self._loaded.report}, {}

    def _config(self, args: dict[str, Any], _: dict[str, Tensor]) -> Result:
        """Build the student's configuration with keyword arguments and read the fields back."""
        cls = self._class(self._config_class)
        with student_code("build"):
            config = cls(**args["values"])
        fields = {}
        for name in self._defaults:
            try:
                value = getattr(config, name)
            except BaseException:
                continue
            kind = type(value).__name__ if type(value) in (int, float, str, bool, type(None)) else "other"
            fields[name] = {
                "type": kind,
                "value": value if kind in ("int", "float", "bool") else str(value)[:50] if kind == "str" else None,
            }
        return {"fields": fields}, {}

    # -- build --------------------------------------------------------------------------------------------------------

    def _build(self, args: dict[str, Any], _: dict[str, Tensor]) -> Result:
        """Build a model. args: cls, config (values), stand_ins (class -> kind), dtype, seed, interface."""
        torch.manual_seed(args["seed"])
        cls = self._class(args["cls"])
        config, origin = self._make_config(args["config"])
        built: list[str] = []
        width = int(args["config"]["n_embd"])
        with self._stand_ins(args.get("stand_ins", {}), built, width), student_code("build"):
            try:
                if args.get("interface") == "keywords":
                    model = cls(**self._keywords(cls, args["config"]))
                elif args.get("interface") == "positional":
                    model = cls(*self._keywords(cls, args["config"]).values())
                else:
                    model = cls(config)
            except TypeError as error:
                data = {
                    "error": describe_exception(error, self._tree, "build").to_json(),
                    "signature": self._signature(cls),
                }
                return data, {}
        if nn.Module not in type.__getattribute__(type(model), "__mro__"):  # isinstance() believes what __class__ says
            return {"not_module": True}, {}
        if "_parameters" not in vars(model):
            return {"no_super_init": True}, {}
        nn.Module.to(model, dtype=DTYPES[args.get("dtype", "float32")])
        self._models[self._next] = model
        self._next += 1
        facts = {
            "handle": self._next - 1,
            "config_origin": origin,
            "config_changed": [name for name, value in args["config"].items() if _read(config, name) != value],
            "reseeded": torch.initial_seed() != args["seed"],
            "stand_ins": len(built),
        }
        return {**facts, **describe(model)}, {}

    def _class(self, name: str) -> Any:
        assert self._loaded is not None, "load comes first"
        return self._loaded.classes.get(name) or fallback_config(name, self._defaults)

    def _make_config(self, values: dict[str, Any]) -> tuple[Any, str]:
        """Return the student's config when it can hold these values, else one of ours that answers for it."""
        cls = self._class(self._config_class)
        refused: BaseException | None = None
        try:
            config = cls(**values)
            if all(getattr(config, name, None) == value for name, value in values.items()):
                return config, "student"
        except (ValueError, AssertionError) as error:
            refused = error
        except BaseException as error:  # a config that cannot be built loses its own points, not those of the others
            del error
        return self._substitute(cls, values), "refused" if refused is not None else "substitute"

    def _substitute(self, cls: Any, values: dict[str, Any]) -> Any:
        """Return a plain object with `values` and whatever else the student's own class declares."""
        guesses = {"float": 0.0, "int": 0, "bool": True, float: 0.0, int: 0, bool: True}
        extra: dict[str, Any] = {}
        for base in reversed(type.__getattribute__(cls, "__mro__") if isinstance(cls, type) else ()):
            for name, kind in dict(vars(base).get("__annotations__", {})).items():
                extra[name] = guesses.get(kind)
            plain = (int, float, str, bool)
            extra |= {
                name: value for name, value in vars(base).items() if not name.startswith("_") and type(value) in plain
            }
        return types.SimpleNamespace(**{**extra, **values})

    def _signature(self, cls: Any) -> dict[str, Any]:
        """Return the names that a constructor requires, to tell another interface from a mistake."""
        try:
            parameters = list(inspect.signature(cls.__init__).parameters.values())[1:]
        except (TypeError, ValueError):
            return {"required": [], "all": []}
        named = [p for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
        return {"required": [p.name for p in named if p.default is p.empty], "all": [p.name for p in named]}

    def _keywords(self, cls: Any, values: dict[str, int]) -> dict[str, int]:
        """Return the configuration fields that a constructor with plain arguments asks for, by its own names."""
        synonyms = {
            "n_embed": "n_embd", "embed_dim": "n_embd", "d_model": "n_embd", "dim": "n_embd", "hidden_size": "n_embd",
            "emb_dim": "n_embd", "d_in": "n_embd", "d_out": "n_embd", "width": "n_embd", "channels": "n_embd", "C": "n_embd",
            "num_heads": "n_head", "n_heads": "n_head", "heads": "n_head", "H": "n_head",
            "context_length": "block_size", "max_len": "block_size", "seq_len": "block_size", "ctx_len": "block_size",
            "num_layers": "n_layer", "n_layers": "n_layer", "depth": "n_layer", "vocab": "vocab_size", "V": "vocab_size",
        }  # fmt: skip
        derived = {
            **values,
            "head_size": values["n_embd"] // values["n_head"],
            "head_dim": values["n_embd"] // values["n_head"],
        }
        found = {}
        for name in self._signature(cls)["all"]:
            known = synonyms.get(name, name)
            if known in derived:
                found[name] = derived[known]
        return found

    @contextlib.contextmanager
    def _stand_ins(self, kinds: dict[str, str], built: list[str], width: int) -> Iterator[None]:
        """Put stand-ins in place of the student's classes, wherever the submission's modules refer to them."""
        assert self._loaded is not None
        undo: list[tuple[Any, str, Any]] = []
        for name, kind in kinds.items():
            original = self._loaded.classes.get(name)
            fake = standin_class(kind, name, built, width)
            for module in self._loaded.modules:
                for key, value in list(vars(module).items()):
                    # By name as well: a class may be there twice, once in its own file and once in model.py.
                    if key == name or (original is not None and value is original):
                        undo.append((module, key, value))
                        setattr(module, key, fake)
        try:
            yield
        finally:
            for module, key, value in undo:
                setattr(module, key, value)

    # -- use ----------------------------------------------------------------------------------------------------------

    def _weights(self, args: dict[str, Any], tensors: dict[str, Tensor]) -> Result:
        """Load tensors by state-dict name, where the model has such a one; with `own`, return the parameter table after."""
        model = self._models[args["handle"]]
        own = nn.Module.state_dict(model)
        usable = {
            name: value.to(own[name].dtype)
            for name, value in tensors.items()
            if name in own and own[name].shape == value.shape
        }
        with student_code("load_state_dict"):
            if args.get("own"):  # through the student's own method, if there is one
                model.load_state_dict(usable, strict=False)
            else:
                nn.Module.load_state_dict(model, usable, strict=False)
        return {"parameters": describe(model)["parameters"]} if args.get("own") else {}, {}

    def _call(self, args: dict[str, Any], tensors: dict[str, Tensor]) -> Result:
        """Call a model (or one of its sub-modules).

        args: handle, path, inputs (tensor names, positional), keywords (argument -> tensor name), train, seed, backward (None, "loss", or the index of the output that `cotangent` belongs to),
        observe (return what a call may not change), moved (pretend that the model and its inputs are on another device).
        """
        model = self._models[args["handle"]]
        with student_code("forward"):
            target = nn.Module.get_submodule(model, args.get("path", ""))
        nn.Module.train(model, bool(args.get("train", False)))
        backward = args.get("backward")
        given = dict(tensors)
        for name in args["inputs"]:
            if backward is not None and given[name].is_floating_point():
                given[name].requires_grad_(True)
        for parameter in nn.Module.parameters(model):
            parameter.grad = None
        before = _fingerprint(model) if args.get("observe") else {}
        torch.manual_seed(args["seed"])
        random.seed(args["seed"])
        numpy.random.seed(args["seed"] % 2**32)
        state = _random_state()
        # Handed over as copies: a leaf that requires a gradient could not be changed in place, and changing it is a
        # fault that is to be seen, not an error.
        with torch.set_grad_enabled(backward is not None):
            handed = {name: value.clone() for name, value in given.items()}
        watch = DeviceWatch(model, list(handed.values())) if args.get("moved") else contextlib.nullcontext()
        with torch.set_grad_enabled(backward is not None), student_code("forward"), watch:
            positional = [handed[name] for name in args["inputs"]]
            keywords = {key: handed[name] for key, name in args.get("keywords", {}).items()}
            output = target(*positional, **keywords)
        out: dict[str, Tensor] = {}
        data: dict[str, Any] = {"outputs": _outputs(output, out)}
        data["random"] = state != _random_state()
        data["device_faults"] = watch.faults if isinstance(watch, DeviceWatch) else []
        if args.get("observe"):
            data["mode_changed"] = [
                name
                for name, module in nn.Module.named_modules(model)
                if module.training != bool(args.get("train", False))
            ][:5]
            data["changed"] = _changed(before, _fingerprint(model))
        if backward is not None:
            self._backward(args, output, given, out)
            data["gradients"] = _gradients(model, given, out)
        if args.get("observe"):
            out |= {f"after.{name}": value.detach() for name, value in handed.items() if name != "cotangent"}
        return data, out

    def _backward(self, args: dict[str, Any], output: Any, given: dict[str, Tensor], out: dict[str, Tensor]) -> None:
        flat = list(output) if isinstance(output, tuple | list) else [output]
        with student_code("backward"):
            if args["backward"] == "loss":
                flat[1].backward()
            else:
                # Not output.backward(cotangent): that way torch imports sympy, which takes half a second.
                (flat[args["backward"]] * given["cotangent"]).sum().backward()

    def _step(self, args: dict[str, Any], _: dict[str, Tensor]) -> Result:
        """Take one step of plain SGD on every parameter that has a gradient; return the tensors asked for."""
        model = self._models[args["handle"]]
        with torch.no_grad():
            for parameter in nn.Module.parameters(model):
                if parameter.grad is not None:
                    parameter.sub_(parameter.grad, alpha=args["lr"])
        state = nn.Module.state_dict(model)
        return {}, {name: state[name] for name in args["names"] if name in state}

    def _forget(self, args: dict[str, Any], _: dict[str, Tensor]) -> Result:
        self._models.pop(args["handle"], None)
        return {}, {}


def _read(config: Any, name: str) -> Any:
    """Return a field of a configuration, be it an object or a dict; None when it cannot be read."""
    try:
        return config[name] if isinstance(config, dict) else getattr(config, name)
    except BaseException:
        return None


def describe(model: nn.Module) -> dict[str, Any]:
    """Return the parameter table of a model: each name, shape, dtype, identity group, and a look at its values."""
    groups: dict[int, int] = {}
    storages: dict[int, int] = {}
    rows: list[dict[str, Any]] = []
    for name, parameter in nn.Module.named_parameters(model, remove_duplicate=False):
        if len(rows) >= MAX_PARAMETERS:
            return {"parameters": [], "claimed": None, "too_many": True}
        rows.append(
            {
                "name": name[:200],
                "shape": list(parameter.shape),
                "trainable": bool(parameter.requires_grad),
                "group": groups.setdefault(id(parameter), len(groups)),
                "storage": storages.setdefault(parameter.data_ptr(), len(storages)),
                "plain": type(parameter) is nn.Parameter,
                "std": 0.0 if parameter.numel() == 0 else float(parameter.detach().double().std(unbiased=False)),
                "zero": not bool(parameter.detach().any()),
                "finite": bool(torch.isfinite(parameter.detach()).all()),
            }
        )
    return {"parameters": rows, "claimed": _claimed_count(model)}


def _claimed_count(model: nn.Module) -> int | None:
    """Return what the model's own parameters() adds up to: it differs from the truth only when it was overridden."""
    try:
        return sum(int(parameter.numel()) for parameter in model.parameters())
    except BaseException:
        return None


def _outputs(output: Any, out: dict[str, Tensor]) -> dict[str, Any]:
    """Put the plain tensors of a reply into `out`; say what the rest is without asking it."""
    sequence = type(output) in (tuple, list)
    items = list(output)[:8] if sequence else [output]
    kinds: list[dict[str, Any]] = []
    for index, item in enumerate(items):
        cls = type(item)
        if cls is Tensor or cls is nn.Parameter:
            fact = {
                "kind": "tensor",
                "shape": list(item.shape),
                "dtype": str(item.dtype).removeprefix("torch."),
                "grad": bool(item.requires_grad),
            }
            if item.numel() * item.element_size() <= 64 * 2**20:
                out[f"out.{index}"] = item.detach()
            kinds.append(fact)
        elif item is None:
            kinds.append({"kind": "none"})
        else:
            is_tensor = Tensor in type.__getattribute__(cls, "__mro__")
            name = str(type.__getattribute__(cls, "__name__"))[:60]
            kinds.append({"kind": "tensor subclass" if is_tensor else "other", "type": name})
    return {"sequence": sequence, "items": kinds}


def _gradients(model: nn.Module, given: dict[str, Tensor], out: dict[str, Tensor]) -> list[str]:
    """Put the gradients of inputs and parameters into `out`; return the names that have none."""
    missing = []
    for name, tensor in given.items():
        if tensor.requires_grad and tensor.grad is not None:
            out[f"grad.input.{name}"] = tensor.grad
        elif tensor.requires_grad:
            missing.append(f"input.{name}")
    for name, parameter in nn.Module.named_parameters(model, remove_duplicate=False):
        if parameter.grad is None:
            missing.append(name[:200])
        else:
            out[f"grad.{name}"] = parameter.grad
    return missing


def _random_state() -> tuple[object, ...]:
    """Return the state of every global generator that a forward might draw from."""
    return random.getstate(), str(numpy.random.get_state()), torch.get_rng_state().numpy().tobytes()


def _fingerprint(model: nn.Module) -> dict[str, Tensor]:
    return {name: value.clone() for name, value in nn.Module.state_dict(model).items()}


def _changed(before: dict[str, Tensor], after: dict[str, Tensor]) -> list[str]:
    """Return the saved tensors whose values a forward changed; a buffer that grew or is new is no change of value."""
    return [
        name
        for name, value in before.items()
        if name in after and after[name].shape == value.shape and not torch.equal(after[name], value)
    ][:10]
