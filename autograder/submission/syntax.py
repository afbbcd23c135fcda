"""A cell's text as Python statements, parsed where that is safe; what statements bind, and what they need at once."""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

#: Text that is parsed for one submission, in characters: half a second's work, many times what a long notebook needs.
BUDGET = 2_000_000
_EACH = 200  # what a parse costs at least, in characters
#: What people write stays far below these; what lies above could exhaust the parser's stack, and is left alone.
_MAX_DEPTH = 60  # brackets in brackets
_MAX_LINE = 4_000  # characters
_MAX_INDENT = 120  # columns
_MAX_LEVELS = 120  # of the tree of statements; a sum of a hundred terms is as deep
_BRACKET = re.compile(r"[\[({\])}]")
#: Parsed as two plain characters: an escape that Python does not know must not print a warning of ours.
_ESCAPE = re.compile(r"\\[^\n]")

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
#: The statements of a notebook that are run when it is graded (see probe/loading.py): no calls, plots and loops.
RUN = (ast.Import, ast.ImportFrom, ast.ClassDef, *_FUNCTIONS, ast.Assign, ast.AnnAssign, ast.Try)
_BUILTINS = frozenset(dir(builtins))


@dataclass
class Parser:
    """Parses until its budget is used up; then it knows nothing more, and repairs end."""

    left: int = BUDGET

    def parse(self, text: str) -> list[ast.stmt] | None:
        """Return the statements of `text`; None when it is no Python, or nothing that should be parsed here."""
        self.left -= len(text) + _EACH
        if self.left < 0 or not _is_tame(text):
            return None
        try:
            tree = ast.parse(_ESCAPE.sub("__", text))
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None
        return tree.body if _is_shallow(tree) else None

    def judges(self, text: str) -> bool:
        """Tell whether a None for `text` means that it is no Python, and not that it was not looked at."""
        return self.left >= 0 and _is_tame(text)


def _is_tame(text: str) -> bool:
    if any(len(line) > _MAX_LINE or len(line) - len(line.lstrip()) > _MAX_INDENT for line in text.split("\n")):
        return False
    depth = 0
    for mark in _BRACKET.finditer(text):
        depth += 1 if mark[0] in "([{" else -1
        if depth > _MAX_DEPTH:
            return False
    return True


def _is_shallow(tree: ast.AST) -> bool:
    """Tell whether functions that call themselves for each level, as those below do, get to the bottom of `tree`."""
    level: list[ast.AST] = [tree]
    for _ in range(_MAX_LEVELS):
        level = [child for node in level for child in ast.iter_child_nodes(node)]
        if not level:
            return True
    return False


def bound(body: Iterable[ast.stmt]) -> Iterator[str]:
    """Yield the names that a notebook's definitions give a value when they are run."""
    for node in body:
        if isinstance(node, (*_FUNCTIONS, ast.ClassDef)):
            yield node.name
        elif isinstance(node, ast.Import | ast.ImportFrom):
            yield from ((alias.asname or alias.name).split(".")[0] for alias in node.names)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if isinstance(node, ast.Assign) or node.value is not None:
                yield from (each.id for target in targets for each in ast.walk(target) if isinstance(each, ast.Name))
        elif isinstance(node, ast.Try):
            yield from bound(node.body)


def needed(node: ast.AST) -> set[str]:
    """Return the names that must have a value when `node` is run: not those in the bodies of its functions."""
    if isinstance(node, _FUNCTIONS):
        arguments = node.args
        at_once: list[ast.AST | None] = [*node.decorator_list, *arguments.defaults, *arguments.kw_defaults]
        every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
        at_once += [argument.annotation for argument in every if argument is not None]
        return _all_needed([*at_once, node.returns])
    if isinstance(node, ast.Lambda):
        return _all_needed([*node.args.defaults, *node.args.kw_defaults])
    if isinstance(node, ast.ClassDef):
        names = _all_needed([*node.decorator_list, *node.bases, *node.keywords])
        inside: set[str] = set()
        for statement in node.body:
            names |= needed(statement) - inside
            inside |= set(bound([statement]))
        return names
    if isinstance(node, ast.Name):
        return {node.id} if isinstance(node.ctx, ast.Load) and node.id not in _BUILTINS else set()
    names = _all_needed(ast.iter_child_nodes(node))
    if isinstance(node, ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp):
        names -= {each.id for part in node.generators for each in ast.walk(part.target) if isinstance(each, ast.Name)}
    return names


def _all_needed(nodes: Iterable[ast.AST | None]) -> set[str]:
    return {name for node in nodes if node is not None for name in needed(node)}


def unbound(bodies: Iterable[Sequence[ast.stmt]]) -> set[str]:
    """Return the names that are used somewhere in `bodies` and get a value nowhere; none if one is imported by `*`."""
    used: set[str] = set()
    known: set[str] = set(_BUILTINS)
    for body in bodies:
        for statement in body:
            for node in ast.walk(statement):
                if isinstance(node, ast.Name):
                    (used if isinstance(node.ctx, ast.Load) else known).add(node.id)
                elif isinstance(node, ast.arg):
                    known.add(node.arg)
                elif isinstance(node, (*_FUNCTIONS, ast.ClassDef)):
                    known.add(node.name)
                elif isinstance(node, ast.Import | ast.ImportFrom):
                    known |= {(alias.asname or alias.name).split(".")[0] for alias in node.names}
                elif isinstance(node, ast.ExceptHandler) and node.name:
                    known.add(node.name)
    return set() if "*" in known else used - known


def is_complete(node: ast.ClassDef) -> bool:
    """Tell whether a class is written: it has a body, and neither it nor __init__ nor forward gives up."""
    rest = [statement for statement in node.body if not _is_filler(statement)]
    if not rest or any(_gives_up(statement) for statement in rest):
        return False
    methods = [each for each in rest if isinstance(each, _FUNCTIONS) and each.name in ("__init__", "forward")]
    return not any(_is_open(method) for method in methods)


def _is_open(method: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    rest = [statement for statement in method.body if not _is_filler(statement)]
    return not rest or any(_gives_up(statement) for statement in rest)


def _is_filler(node: ast.stmt) -> bool:
    return isinstance(node, ast.Pass) or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))


def _gives_up(node: ast.stmt) -> bool:
    """`raise NotImplementedError`, with or without words: how our stubs end."""
    if not isinstance(node, ast.Raise):
        return False
    what = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
    return isinstance(what, ast.Name) and what.id == "NotImplementedError"
