"""What the child does on request: load the submission, build a model, give it weights, call it, step it.

This is the whole vocabulary. It holds no expected value and makes no judgement: facts and raw tensors go back, and the
grader decides. Student code runs in the same process, so every reply is a claim that the grader cross-checks.
"""

from __future__ import annotations

import contextlib
import sys
import types
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from autograder.probe.constructing import (
    argument_names,
    constructed,
    make_config,
    plain_value,
    read_field,
    replaced_methods,
    uninitialised,
)
from autograder.probe.devices import DeviceWatch
from autograder.probe.facts import (
    GENERATOR,
    Named,
    changed,
    describe,
    fingerprint,
    gradients,
    named,
    outputs,
    random_state,
    seeded,
)
from autograder.probe.faults import describe_exception
from autograder.probe.functions import call_functions
from autograder.probe.handover import strided, switch_on, under
from autograder.probe.loading import Loaded, Substitutes, load_tree
from autograder.probe.stages import StudentFault, refuse, student_code
from autograder.probe.standing_in import place, standing_in
from autograder.probe.standins import standin_class
from autograder.probe.watch import Snapshot, Watch, snapshot

Result = tuple[dict[str, Any], dict[str, Tensor]]

DTYPES = {"float32": torch.float32, "float64": torch.float64}
#: To look at every function of the libraries costs as much as a small model: once for each class, then now and then.
LOOK_EVERY = 20


class Workbench:
    """Handles the requests of one grading run, one at a time."""

    _originals: ClassVar[Snapshot | None] = None

    @classmethod
    def preload(cls) -> None:
        """Take the snapshot of torch once, in the warm process, before any student's code exists there."""
        launcher = sys.modules.get("_posixsubprocess")  # there is none on Windows
        for owner, name in ((torch, "from_file"), (torch.UntypedStorage, "from_file"), (launcher, "fork_exec")):
            if owner is not None:
                setattr(owner, name, refuse)
        cls._originals = snapshot()

    def __init__(self, tree: str) -> None:
        self._tree = tree
        self._watch = Watch(tree, self._originals)
        self._loaded: Loaded | None = None
        self._defaults: dict[str, int] = {}
        self._config_class = ""
        self._kinds: dict[str, str] = {}
        self._takes: dict[str, dict[str, str]] = {}  # class -> argument -> field, where it takes plain numbers
        self._widths: dict[str, str] = {}  # class -> field that is the width of its output
        self._fields: dict[str, int] = {}
        self._models: dict[int, nn.Module] = {}
        self._held: dict[int, dict[int, nn.Parameter]] = {}  # a model's parameters by their ids, as it was built
        self._kept: Tensor | None = None  # what the last call returned: a later call may not change it
        self._next = 0
        self._handled = 0  # requests
        self._inspected: set[tuple[str, str | None]] = set()

    def handle(self, op: str, args: dict[str, Any], tensors: dict[str, Tensor]) -> Result:
        """Carry out `op`. Returns (JSON-ready facts, tensors); a student's exception comes back as {"error": ...}."""
        operations: dict[str, Callable[[dict[str, Any], dict[str, Tensor]], Result]] = {
            "load": self._load,
            "config": self._config,
            "build": self._build,
            "trials": self._trials,
            "weights": self._weights,
            "call": self._call,
            "calls": self._calls,
            "step": self._step,
            "copy": self._copy,
            "forget": self._forget,
            "functions": self._functions,
        }
        try:
            data, out = operations[op](args, tensors)
        except StudentFault as fault:
            data, out = self._fault(fault), {}
        kind = (op, args.get("cls", args.get("name")))
        self._handled += 1
        if (op in ("load", "build", "functions") and kind not in self._inspected) or self._handled % LOOK_EVERY == 0:
            self._inspected.add(kind)
            self._watch.inspect()
        elif op in ("config", "build", "trials", "call", "calls", "functions"):
            self._watch.glance()
        data["watch"] = {
            "tampering": self._watch.tampering,
            "side_effects": self._watch.side_effects,
            "notices": self._watch.notices,
        }
        return data, out

    def _fault(self, fault: StudentFault) -> dict[str, Any]:
        return {"error": describe_exception(fault.error, self._tree, fault.stage).to_json()}

    # -- load ---------------------------------------------------------------------------------------------------------

    def _load(self, args: dict[str, Any], _: dict[str, Tensor]) -> Result:
        self._defaults, self._config_class, self._kinds = args["defaults"], args["config_class"], args["kinds"]
        self._takes, self._widths = args.get("takes", {}), args.get("widths", {})
        self._loaded = load_tree(
            self._tree,
            args["sources"],
            args["files"],
            frozenset(args["lenient"]),
            Substitutes(self._kinds, self._config_class, self._defaults, self._takes, self._widths),
        )
        return {"classes": self._loaded.report}, {}

    def _config(self, args: dict[str, Any], _: dict[str, Tensor]) -> Result:
        """Build the student's configuration with keyword arguments and read the fields back."""
        cls = self._class(self._config_class)
        with student_code("build"):
            config = cls(**args["values"])
            if args.get("then") is not None:  # another one may not change the first
                cls(**args["then"])
        fields = {}
        for name in self._defaults:
            try:
                value = getattr(config, name)
            except BaseException:
                continue
            fields[name] = plain_value(value)
        return {"fields": fields}, {}

    # -- build --------------------------------------------------------------------------------------------------------

    def _build(self, args: dict[str, Any], _: dict[str, Tensor]) -> Result:
        """Build a model.

        args: cls, config (values), fields (those, and what follows from them), arguments (plain numbers, for a class
        that takes no config), dtype, seed, interface, look (at the parameters' values), counted (its weights need no
        values), stand_ins (class -> kind: put in the class's place before the model is built), placed (sub-module path
        -> class: a stand-in for it is put there after it was built).
        """
        GENERATOR.manual_seed(args["seed"])
        cls = self._class(args["cls"])
        config_type = self._class(self._config_class) if self._config_class else types.SimpleNamespace
        config, origin = make_config(config_type, args["config"])
        built: list[str] = []
        width = int(args["config"]["n_embd"])
        self._fields = dict(args.get("fields", args["config"]))
        counted = uninitialised() if args.get("counted") else contextlib.nullcontext()
        assert self._loaded is not None, "load comes first"
        replaced = standing_in(
            self._loaded,
            args.get("stand_ins", {}),
            lambda kind, name, order: self._stand_in(kind, name, built, width, order),
        )
        with replaced, student_code("build"), counted:
            try:
                model = constructed(cls, config, args)
            except TypeError as error:
                data = {
                    "error": describe_exception(error, self._tree, "build").to_json(),
                    "arguments": argument_names(cls),
                }
                return data, {}
        if nn.Module not in type.__getattribute__(type(model), "__mro__"):  # isinstance() believes what __class__ says
            return {"not_module": True}, {}
        if "_parameters" not in vars(model):
            return {"no_super_init": True}, {}
        for path, name in args.get("placed", {}).items():
            with student_code("build"):
                place(model, path, self._stand_in(self._kinds[name], name, built, width)())
        parameters = named(model)
        odd = [
            f"{name[:100]} is {str(p.dtype).removeprefix('torch.')}"
            for name, p in parameters
            if p.dtype != torch.float32
        ]
        dtype = DTYPES[args.get("dtype", "float32")]
        held = [*(parameter for _, parameter in parameters), *nn.Module.buffers(model)]
        if any(tensor.is_floating_point() and tensor.dtype != dtype for tensor in held):
            nn.Module.to(model, dtype=dtype)
            parameters = named(model)
        self._models[self._next] = model
        self._next += 1
        own, hidden = replaced_methods(model)
        facts = {
            "handle": self._next - 1,
            "config_origin": origin,
            "config_changed": [name for name, value in args["config"].items() if read_field(config, name) != value],
            "reseeded": torch.initial_seed() != args["seed"],
            "stand_ins": len(built),
            "misled": sorted({line for line in built if line})[:3],
            "odd": odd[:3],
            "shared": self._shared(self._next - 1, parameters),
            "replaced": own,
            "hidden": hidden,
            "signature": argument_names(cls) if args.get("interface") == "arguments" else [],
        }
        return {**facts, **describe(model, parameters, bool(args.get("look")))}, {}

    def _shared(self, handle: int, parameters: Named) -> bool:
        """Whether another model that is alive was built with one of these parameters."""
        mine = {id(parameter): parameter for _, parameter in parameters}
        shared = any(mine.keys() & held.keys() for held in self._held.values())
        self._held[handle] = mine
        return shared

    def _trials(self, args: dict[str, Any], tensors: dict[str, Tensor]) -> Result:
        """Make several trials in one request. The tensors of trial k arrive as "k/...", and so do its outputs.

        A constructor that raises ends its own trial, and none of the others.
        """
        facts: list[dict[str, Any]] = []
        out: dict[str, Tensor] = {}
        for number, trial in enumerate(args["trials"]):
            self._watch.glance()
            try:
                data, found = self._trial(trial, under(f"{number}/", tensors))
            except StudentFault as fault:
                data, found = self._fault(fault), {}
            facts.append(data)
            out |= {f"{number}/{name}": value for name, value in found.items()}
        return {"trials": facts}, out

    def _trial(self, args: dict[str, Any], tensors: dict[str, Tensor]) -> Result:
        """Build a model, give it weights, call it: one request for what takes three or more.

        args: build (as for `build`), calls (each as for `call`), keep (whether the model stays). Weights arrive as
        "w/name", the tensors of call k as "k/name", and so do its outputs. A call that raises does not end the trial.
        """
        data, _ = self._build(args["build"], {})
        if "handle" not in data:
            return data, {}
        handle = {"handle": data["handle"]}
        self._weights(handle, under("w/", tensors))
        answers, out = self._calls({**args, **handle}, tensors)
        if not args["keep"]:
            self._forget(handle, {})
        return {**data, **answers}, out

    def _calls(self, args: dict[str, Any], tensors: dict[str, Tensor]) -> Result:
        """Make several calls of one model; the watch puts torch's settings right in between."""
        answers: list[dict[str, Any]] = []
        out: dict[str, Tensor] = {}
        for number, call in enumerate(args["calls"]):
            self._watch.restore()
            try:
                answer, found = self._call({**call, "handle": args["handle"]}, under(f"{number}/", tensors))
            except StudentFault as fault:
                answer, found = self._fault(fault), {}
            answers.append(answer)
            out |= {f"{number}/{name}": value for name, value in found.items()}
        return {"answers": answers}, out

    def _stand_in(self, kind: str, name: str, built: list[str], width: int, order: Sequence[str] = ()) -> type[Any]:
        """Return a stand-in class for the student's class `name`, whose arguments come in `order`."""
        takes, out = self._takes.get(name), self._widths.get(name, "n_embd")
        return standin_class(kind, name, built, width, self._fields, takes=takes, order=order, out=out)

    def _class(self, name: str) -> Any:
        assert self._loaded is not None, "load comes first"
        return self._loaded.classes.get(name) or self._loaded.substitutes[name]

    # -- use ----------------------------------------------------------------------------------------------------------

    def _weights(self, args: dict[str, Any], tensors: dict[str, Tensor]) -> Result:
        """Load tensors by state-dict name, where there is such a one; with `own`, return the parameter table after."""
        model = self._models[args["handle"]]
        own = {**dict(named(model)), **dict(nn.Module.named_buffers(model, remove_duplicate=False))}
        usable = {name: value for name, value in tensors.items() if name in own and own[name].shape == value.shape}
        with student_code("load_state_dict"):
            if args.get("own"):  # through the student's own method, if there is one
                model.load_state_dict(usable, strict=False)
            elif usable:  # as load_state_dict does, in a tenth of the time
                with torch.no_grad():
                    torch._foreach_copy_([own[name] for name in usable], list(usable.values()))
        return {"parameters": describe(model, named(model), look=True)["parameters"]} if args.get("own") else {}, {}

    def _call(self, args: dict[str, Any], tensors: dict[str, Tensor]) -> Result:
        """Call a model (or one of its sub-modules).

        args: handle, path, method (if not forward), inputs (tensor names, positional), numbers (plain, after them),
        keywords (argument -> tensor name), train, seed, backward (None, "loss", or the index of the output that
        `cotangent` belongs to), observe (return what a call may not change), moved (pretend that it all is on another
        device), strided (inputs that are not contiguous), switched (words: switch on what has one in its name).
        """
        model = self._models[args["handle"]]
        with student_code("forward"):
            target: Any = nn.Module.get_submodule(model, args.get("path", ""))
            target = getattr(target, args["method"]) if args.get("method") else target
        switches = switch_on(model, args["switched"]) if args.get("switched") else []
        nn.Module.train(model, bool(args.get("train", False)))
        backward = args.get("backward")
        given = dict(tensors)
        for name in args["inputs"]:
            if backward is not None and given[name].is_floating_point():
                given[name].requires_grad_(True)
        for parameter in nn.Module.parameters(model):
            parameter.grad = None
        before = fingerprint(model) if args.get("observe") else {}
        state = seeded(args["seed"])
        # Handed over as copies: a leaf that requires a gradient could not be changed in place, and changing it is a
        # fault that is to be seen, not an error.
        gradients_on = backward is not None or bool(args.get("grad"))
        with torch.set_grad_enabled(gradients_on):
            handed = {name: strided(value) if args.get("strided") else value.clone() for name, value in given.items()}
        watch: DeviceWatch | contextlib.nullcontext[None] = contextlib.nullcontext()
        if args.get("moved"):
            assert self._loaded is not None
            watch = DeviceWatch(model, list(handed.values()), [vars(module) for module in self._loaded.modules])
        with torch.set_grad_enabled(gradients_on), student_code("forward"), watch:
            positional = [*(handed[name] for name in args["inputs"]), *args.get("numbers", [])]
            keywords = {key: handed[name] for key, name in args.get("keywords", {}).items()}
            output = target(*positional, **keywords)
            mode_kept = torch.is_grad_enabled() == gradients_on and not torch.is_inference_mode_enabled()
        out: dict[str, Tensor] = {}
        data: dict[str, Any] = {"outputs": outputs(output, out)}
        data["grad_mode_changed"] = not mode_kept
        data["switches"] = switches
        if args.get("observe") and self._kept is not None:
            out["kept"] = self._kept.detach()
        first = output[0] if isinstance(output, tuple | list) and len(output) > 0 else output
        self._kept = first if type(first) is Tensor else None
        data["random"] = state != random_state()
        data["device_faults"] = watch.faults if isinstance(watch, DeviceWatch) else []
        if args.get("observe"):
            data["mode_changed"] = [
                name
                for name, module in nn.Module.named_modules(model)
                if module.training != bool(args.get("train", False))
            ][:5]
            data["changed"] = changed(before, fingerprint(model))
        if backward is not None:
            self._backward(args, output, given, out)
            data["gradients"] = gradients(model, given, out)
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

    def _copy(self, args: dict[str, Any], _: dict[str, Tensor]) -> Result:
        """Carry a model's weights to another by the student's own state_dict and strict load_state_dict."""
        source, target = self._models[args["source"]], self._models[args["target"]]
        with student_code("load_state_dict"):
            target.load_state_dict(source.state_dict())
        return {}, {}

    def _functions(self, args: dict[str, Any], tensors: dict[str, Tensor]) -> Result:
        """Call a function of the submission, or methods of a class: see functions.py."""
        return call_functions(self._class(args["name"]), args["calls"], tensors, self._tree, self._watch.glance)

    def _forget(self, args: dict[str, Any], _: dict[str, Tensor]) -> Result:
        self._models.pop(args["handle"], None)
        self._held.pop(args["handle"], None)
        return {}, {}
