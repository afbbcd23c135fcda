"""Loading a submission inside the child: import each file once, find the classes, and survive what is missing."""

from __future__ import annotations

import ast
import dataclasses
import importlib.util
import linecache
import sys
import types
from pathlib import Path
from typing import Any

from torch import nn

from autograder.probe.faults import Fault, describe_exception
from autograder.probe.standins import standin_class


@dataclasses.dataclass
class Loaded:
    """What was found in the tree."""

    classes: dict[str, Any]  # class name -> the student's object, whatever it is
    report: dict[str, dict[str, Any]]  # class name -> JSON-ready facts about it
    modules: list[types.ModuleType]


def load_tree(
    tree: str,
    sources: dict[str, str],
    lenient: list[str],
    kinds: dict[str, str],
    config_class: str,
    defaults: dict[str, int],
) -> Loaded:
    """Import the files of `sources` (class -> path in tree) in their order; return what each holds.

    A file or class that is missing or does not load is replaced by a stand-in for those that come after it and import
    it, so that one broken file does not take the others down. `kinds` maps a class to its stand-in kind.
    """
    sys.path.insert(0, tree)
    sys.dont_write_bytecode = True
    by_path: dict[str, list[str]] = {}
    for name, path in sources.items():
        by_path.setdefault(path, []).append(name)
    loaded = Loaded({}, {}, [])
    for path, names in by_path.items():
        module, fault = _import_file(tree, path, path in lenient)
        if fault is not None:
            for name in names:
                loaded.report[name] = {"found": False, "file": path, "error": fault.to_json()}
            module = _stub_module(path, names, kinds, config_class, defaults)
            sys.modules[module.__name__] = module
            continue
        assert module is not None
        loaded.modules.append(module)
        for name in names:
            thing = vars(module).get(name)
            loaded.report[name] = {**_facts(thing, tree), "file": path}
            if thing is None:
                setattr(module, name, _stand_in(name, kinds, config_class, defaults))
            else:
                loaded.classes[name] = thing
    loaded.modules += [module for module in _tree_modules(tree) if module not in loaded.modules]
    return loaded


def fallback_config(class_name: str, defaults: dict[str, int]) -> type:
    """Return a plain configuration dataclass with the contract's fields and defaults."""
    fields = [(name, int, dataclasses.field(default=value)) for name, value in defaults.items()]
    return dataclasses.make_dataclass(class_name, fields)


def _import_file(tree: str, path: str, lenient: bool) -> tuple[types.ModuleType | None, Fault | None]:
    full = str(Path(tree) / path)
    name = Path(path).stem
    try:
        source = Path(full).read_bytes()
        module = types.ModuleType(name)
        module.__file__ = full
        module.__spec__ = spec = importlib.util.spec_from_file_location(name, full)
        vars(spec)["_initializing"] = True  # so that Python itself says "partially initialized" of a circular import
        sys.modules[name] = module
        if lenient:
            _run_definitions(source, full, module)
        else:
            exec(compile(source, full, "exec", dont_inherit=True), vars(module))
    except BaseException as error:  # student code may raise anything, SystemExit included
        sys.modules.pop(name, None)
        return None, describe_exception(error, tree, "import")
    vars(spec)["_initializing"] = False
    return module, None


def _run_definitions(source: bytes, full: str, module: types.ModuleType) -> None:
    """Run a notebook's imports, definitions and constants; leave out the calls, plots and loops around them."""
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
    for statement in ast.parse(source, full).body:
        if not isinstance(statement, kept):
            continue
        code = compile(ast.Module([statement], []), full, "exec", dont_inherit=True)
        if isinstance(statement, ast.Assign | ast.AnnAssign | ast.Try):
            try:
                exec(code, vars(module))
            except Exception:
                continue  # a line such as `text = open("input.txt").read()` is no part of the classes
        else:
            exec(code, vars(module))


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
    """Whether a class body defines nothing: `pass`, `...` or a docstring. What @dataclass adds does not count."""
    if vars(cls).get("__annotations__"):
        return False
    return not any(
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


def _stand_in(name: str, kinds: dict[str, str], config_class: str, defaults: dict[str, int]) -> type:
    return fallback_config(name, defaults) if name == config_class else standin_class(kinds.get(name, "mlp"), name)


def _stub_module(
    path: str, names: list[str], kinds: dict[str, str], config_class: str, defaults: dict[str, int]
) -> types.ModuleType:
    module = types.ModuleType(Path(path).stem)
    for name in names:
        setattr(module, name, _stand_in(name, kinds, config_class, defaults))
    return module


def _tree_modules(tree: str) -> list[types.ModuleType]:
    """Return the helper modules that the submission's files imported from beside them."""
    found = []
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        if isinstance(module, types.ModuleType) and isinstance(file, str) and file.startswith(tree):
            found.append(module)
    return found
