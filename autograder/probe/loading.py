"""Loading a submission inside the child: import each file once, find the classes, and survive what is missing."""

from __future__ import annotations

import ast
import dataclasses
import importlib.util
import itertools
import linecache
import re
import sys
import types
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from torch import nn

from autograder.probe.faults import Fault, describe_exception
from autograder.probe.standins import standin_class

#: What stands above each cell of a notebook's source (see submission/notebook.py).
_CELL = re.compile(r"# %% (?:(?:text )?cell \d+|added cell)")


@dataclasses.dataclass
class Loaded:
    """What was found in the tree."""

    classes: dict[str, Any]  # class name -> the student's object, whatever it is
    report: dict[str, dict[str, Any]]  # class name -> JSON-ready facts about it
    modules: list[types.ModuleType]
    substitutes: dict[str, type]  # class name -> ours, for those that are missing or do not load


@dataclasses.dataclass(frozen=True)
class Substitutes:
    """How to stand in for a class that is missing: by a stand-in layer, or by a plain config."""

    kinds: dict[str, str]  # class name -> kind of stand-in
    config_class: str
    defaults: dict[str, int]
    takes: dict[str, dict[str, str]] = dataclasses.field(default_factory=dict)  # class name -> argument -> field
    widths: dict[str, str] = dataclasses.field(default_factory=dict)  # class name -> field: how wide its output is

    def make(self, name: str) -> type:
        if name == self.config_class:
            return fallback_config(name, self.defaults)
        kind, out = self.kinds.get(name, "mlp"), self.widths.get(name, "n_embd")
        return standin_class(kind, name, takes=self.takes.get(name), out=out)


def load_tree(
    tree: str, sources: dict[str, str], files: dict[str, str], lenient: frozenset[str], substitutes: Substitutes
) -> Loaded:
    """Import the files of `sources` (class -> path in tree) in their order; return what each holds.

    A file or class that is missing or does not load is replaced by a stand-in for those that come after it and import
    it, so that one of them does not take the others down. `files` maps each class to its usual file.
    """
    sys.path.insert(0, tree)
    sys.dont_write_bytecode = True
    loaded = Loaded({}, {}, [], {name: substitutes.make(name) for name in files})
    for name, file in files.items():
        if name not in sources and not (Path(tree) / file).exists():
            _stub_module(file, [name], loaded)
    by_path: dict[str, list[str]] = {}
    for name, path in sources.items():
        by_path.setdefault(path, []).append(name)
    for path, names in by_path.items():
        faults: dict[str, Fault] = {}
        spare = {name: loaded.substitutes[name] for name in names}
        module, fault = _import_file(tree, path, (spare, faults) if path in lenient else None)
        if module is None:
            facts = {"found": False, "file": path, "error": fault.to_json() if fault is not None else None}
            loaded.report.update(dict.fromkeys(names, facts))
            _stub_module(path, names, loaded)
            continue
        loaded.modules.append(module)
        for name in names:
            thing = vars(module).get(name)
            if thing is spare[name]:
                thing = None
            loaded.report[name] = {**_facts(thing, tree), "file": path}
            if thing is None and name in faults:
                loaded.report[name]["error"] = faults[name].to_json()
            if thing is None:
                setattr(module, name, loaded.substitutes[name])
            else:
                loaded.classes[name] = thing
    loaded.modules += [module for module in _tree_modules(tree) if module not in loaded.modules]
    return loaded


def fallback_config(class_name: str, defaults: dict[str, int]) -> type:
    """Return a plain configuration dataclass with the contract's fields and defaults."""
    fields = [(name, int, dataclasses.field(default=value)) for name, value in defaults.items()]
    return dataclasses.make_dataclass(class_name, fields)


def _import_file(
    tree: str, path: str, notebook: tuple[dict[str, type], dict[str, Fault]] | None
) -> tuple[types.ModuleType | None, Fault | None]:
    full = str(Path(tree) / path)
    name = Path(path).stem
    try:
        source = Path(full).read_bytes()
        module = types.ModuleType(name)
        module.__file__ = full
        module.__spec__ = spec = importlib.util.spec_from_file_location(name, full)
        vars(spec)["_initializing"] = True  # so that Python itself says "partially initialized" of a circular import
        sys.modules[name] = module
        if notebook is not None:
            _run_definitions(source, full, module, *notebook)
        else:
            exec(compile(source, full, "exec", dont_inherit=True), vars(module))
    except BaseException as error:  # student code may raise anything, SystemExit included
        sys.modules.pop(name, None)
        return None, describe_exception(error, tree, "import")
    vars(spec)["_initializing"] = False
    return module, None


def _run_definitions(
    source: bytes, full: str, module: types.ModuleType, spare: dict[str, type], faults: dict[str, Fault]
) -> None:
    """Run a notebook's imports, definitions and constants; leave out the calls, plots and loops around them.

    A class of `spare` whose cell is no Python, or which raises when it is defined, does not take the others down:
    `faults` then says why, and its substitute stands for it where others name it.
    """
    kept = (
        ast.Import,
        ast.ImportFrom,
        ast.ClassDef,
        ast.FunctionDef,
        ast.AsyncFunctionDef,
        ast.Assign,
        ast.AnnAssign,
        ast.Try,
    )
    tree = str(Path(full).parent)
    vars(module).update(spare)
    for statement in _statements(source, full, spare, faults):
        if not isinstance(statement, kept):
            continue
        if isinstance(statement, ast.ClassDef):
            _drop_body_stub(statement)
        code = compile(ast.Module([statement], []), full, "exec", dont_inherit=True)
        if isinstance(statement, ast.Assign | ast.AnnAssign | ast.Try):
            try:
                exec(code, vars(module))
            except Exception:
                continue  # a line such as `text = open("input.txt").read()` is no part of the classes
        elif isinstance(statement, ast.ClassDef) and statement.name in spare:
            try:
                exec(code, vars(module))
            except Exception as error:
                faults[statement.name] = describe_exception(error, tree, "import")
        else:
            exec(code, vars(module))


def _statements(source: bytes, full: str, names: Iterable[str], faults: dict[str, Fault]) -> list[ast.stmt]:
    """Return the statements of a notebook's source; if it does not parse, those of the cells that do.

    Raises SyntaxError when there are no cells in it.
    """
    try:
        return ast.parse(source, full).body
    except SyntaxError:
        lines = source.decode("utf-8", "replace").split("\n")
        starts = [number for number, line in enumerate(lines) if _CELL.match(line)]
        if not starts:
            raise
    body: list[ast.stmt] = []
    for start, end in itertools.pairwise([*starts, len(lines)]):
        text = "\n".join(lines[start:end])
        try:
            body += ast.parse("\n" * start + text, full).body
        except SyntaxError as error:
            for name in names:
                if re.search(rf"^[ \t]*class[ \t]+{name}\b", text, re.MULTILINE):
                    faults[name] = describe_exception(error, str(Path(full).parent), "import")
    return body


def _drop_body_stub(node: ast.ClassDef) -> None:
    """Take out the `raise NotImplementedError()` that nbgrader puts into a class body: the class is only unwritten."""
    written = [line for line in node.body if not (isinstance(line, ast.Raise) and _gives_up(line))]
    node.body = written or [ast.copy_location(ast.Pass(), node)]


def _facts(thing: Any, tree: str) -> dict[str, Any]:
    """Return what the grader wants to know about a name: is it a class, a module, are its methods written?"""
    if thing is None:
        return {"found": False}
    is_class = isinstance(thing, type)
    return {
        "found": True,
        "is_class": is_class,
        "is_module": is_class and nn.Module in type.__getattribute__(thing, "__mro__"),
        "is_dataclass": is_class and "__dataclass_fields__" in dir(thing),
        "lies": is_class and "__class__" in vars(thing),
        "stub": {method: _is_stub(thing, method) for method in ("__init__", "forward")} if is_class else {},
        "empty": is_class and _is_empty(thing, tree),
    }


def _is_empty(cls: type, tree: str) -> bool:
    """Whether a class, with those of the submission that it inherits from, defines nothing but `pass` or `...`."""
    if vars(cls).get("__dataclass_fields__"):
        return False
    return not any(_defines(base, tree) for base in type.__getattribute__(cls, "__mro__"))


def _defines(cls: type, tree: str) -> bool:
    """Whether the submission wrote something in this very class; what @dataclass adds does not count."""
    module = sys.modules.get(str(vars(cls).get("__module__")))
    if not str(getattr(module, "__file__", "")).startswith(tree):
        return False
    if vars(cls).get("__annotations__"):
        return True
    return any(
        value.__code__.co_filename.startswith(tree)
        if isinstance(value, types.FunctionType)
        else not (key.startswith("__") and key.endswith("__"))
        for key, value in vars(cls).items()
    )


def _is_stub(cls: type, method: str) -> bool:
    """Whether a method is missing from the class or begins with `pass`, `...`, `return None` or NotImplementedError.

    Looks at the source text of the function; an unreadable source counts as written.
    """
    for base in type.__getattribute__(cls, "__mro__"):
        if base in (nn.Module, object):
            return method == "forward"
        function = vars(base).get(method)
        if isinstance(function, types.FunctionType):
            return _body_is_stub(function)
        if function is not None:
            return False
    return False


def _body_is_stub(function: types.FunctionType) -> bool:
    code = function.__code__
    try:
        parsed = ast.parse("".join(linecache.getlines(code.co_filename)))
    except Exception:
        return False
    for node in ast.walk(parsed):
        if isinstance(node, ast.FunctionDef) and node.name == code.co_name and _first_line(node) == code.co_firstlineno:
            return _is_stub_body(node.body)
    return False


def _first_line(node: ast.FunctionDef) -> int:
    return min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])


def _is_stub_body(body: list[ast.stmt]) -> bool:
    """Whether nothing is written, or the body gives up before its end; a bare return at the very end is a mistake."""
    rest = [node for node in body if not _is_filler(node)]
    return not rest or any(_gives_up(node) for node in rest[:-1]) or (len(rest) == 1 and _gives_up(rest[0]))


def _gives_up(node: ast.stmt) -> bool:
    if isinstance(node, ast.Return):
        return node.value is None or (isinstance(node.value, ast.Constant) and node.value.value in (None, ...))
    return isinstance(node, ast.Raise) and node.exc is not None and "NotImplementedError" in ast.dump(node.exc)


def _is_filler(node: ast.stmt) -> bool:
    """A docstring, `...`, `pass`, or the call of super().__init__()."""
    if isinstance(node, ast.Pass):
        return True
    if not isinstance(node, ast.Expr):
        return False
    if isinstance(node.value, ast.Constant):
        return True
    call = node.value
    return isinstance(call, ast.Call) and not call.args and ast.unparse(call.func) == "super().__init__"


def _stub_module(path: str, names: list[str], loaded: Loaded) -> None:
    """Put a module of substitutes where others will import it from."""
    module = types.ModuleType(Path(path).stem)
    for name in names:
        setattr(module, name, loaded.substitutes[name])
    sys.modules.setdefault(module.__name__, module)


def _tree_modules(tree: str) -> list[types.ModuleType]:
    """Return the helper modules that the submission's files imported from beside them."""
    found = []
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        if isinstance(module, types.ModuleType) and isinstance(file, str) and file.startswith(tree):
            found.append(module)
    return found
