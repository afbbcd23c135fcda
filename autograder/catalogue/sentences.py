"""Which strings of a Python file are for people: sentences, f-strings as templates, titles of checks, labels."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass

#: Two words in a row: what makes a string a sentence, and not a name.
_WORDS = re.compile(r"[A-Za-z]{2,}[,:;.)'\"`]* [(\"'`]?(?:a |[A-Za-z]{2,})")
_WORD = re.compile(r"[A-Za-z]{2,}")
#: Text of other languages than English: SQL, HTML, shell, Python.
_FOREIGN = re.compile(
    r"^(?:bold |workshop |SELECT|INSERT|UPDATE|DELETE|CREATE|PRAGMA|DROP|ALTER|BEGIN|<|#!)"
    r"|^(?:import |from \w+ import|def )|<\w+ "
)
#: Calls whose strings are read by people even where they are one word: which arguments; None is all, and the keywords.
_LABELS: dict[str, tuple[int, ...] | None] = {
    "Mark": (2,),
    "Evidence": None,
    "numbers": None,
    "table": None,
    "bars": None,
    "add_column": (0,),
    "say": (0,),
    "word": (0,),
}
#: What a label may stand in, inside of such a call.
_HOLDERS = ast.List | ast.Tuple | ast.IfExp | ast.BinOp | ast.ListComp | ast.Starred
#: Calls whose strings nobody reads: patterns, attributes, names of files.
_SILENT = frozenset(
    {
        "compile",
        "match",
        "fullmatch",
        "search",
        "sub",
        "findall",
        "getattr",
        "setattr",
        "encode",
        "specimen",
        "inputs",
        "draw_targets",
    }
)


@dataclass(frozen=True)
class Found:
    """One message of a file; with `fields` it is a template."""

    message: str
    fields: bool = False


def sentences(source: str) -> Iterator[Found]:
    """Yield the messages of a Python file, in its order. Raises SyntaxError."""
    yield from _Reader().read(ast.parse(source))


class _Reader:
    """Walks over a file and keeps what people read."""

    def read(self, node: ast.AST, label: bool = False) -> Iterator[Found]:
        """Yield what people read below `node`; with `label` single words count, too."""
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef() | ast.Module():
                yield from self._scope(node)
            case ast.JoinedStr():
                yield from self._template(node, label)
            case ast.Constant(value=str() as text):
                if _is_text(text) or (label and _WORD.search(text)):
                    yield Found(_bare(text))
            case ast.Compare() | ast.Assert():
                yield from ()  # what is compared is said elsewhere; what is asserted is for us
            case ast.Call():
                yield from self._call(node, label)
            case ast.Dict() if label:
                for value in node.values:
                    yield from self.read(value, label)
            case ast.Assign(targets=[ast.Name(id=name)]) if name.endswith(("AXES", "RUNGS")):
                yield from self.read(node.value, True)
            case ast.Subscript():
                yield from self.read(node.value)
                if _called(node.value) == "Annotated":  # the help of an option
                    yield from self.read(node.slice)
            case _:
                for child in ast.iter_child_nodes(node):
                    yield from self.read(child, label and isinstance(node, _HOLDERS))

    def _scope(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Module) -> Iterator[Found]:
        body = list(node.body)
        if ast.get_docstring(node) is not None:
            text = inspect.cleandoc(ast.get_docstring(node) or "")
            if _decorated(node, "check"):
                yield Found(text.splitlines()[0].rstrip("."))  # as checks/registry.py makes a title of it
            elif _is_command(node):
                yield Found(text)
            body = body[1:]
        if not isinstance(node, ast.Module | ast.ClassDef):
            yield from self.read(node.args)
        for child in body:
            yield from self.read(child)

    def _call(self, node: ast.Call, label: bool) -> Iterator[Found]:
        name = _called(node.func)
        if name in _SILENT or ast.unparse(node.func).startswith("exam.draws."):
            return  # what is drawn has a name, too
        yield from self.read(node.func)
        wanted = _LABELS.get(name, ())
        for place, argument in enumerate(node.args):
            read = name in _LABELS and (wanted is None or place in wanted)
            if name == "Evidence" and place == 0:
                continue  # the kind
            yield from self.read(argument, read)
        for keyword in node.keywords:
            if wanted is None and name == "numbers" and keyword.arg:
                yield Found(keyword.arg.replace("_", " "))
            yield from self.read(keyword.value, name in _LABELS and wanted is None)

    def _template(self, node: ast.JoinedStr, label: bool) -> Iterator[Found]:
        names: list[tuple[str, str]] = []
        message, bare = "", ""
        for value in node.values:
            if isinstance(value, ast.Constant):
                message += str(value.value).replace("{", "{{").replace("}", "}}")
                bare += str(value.value)
            elif isinstance(value, ast.FormattedValue):
                name = _unique(_name(value.value), names, ast.unparse(value.value))
                if message.endswith("}") and not message.endswith("}}"):
                    continue  # two fields in a row cannot be told apart: the first stands for both
                message += f"{{{name}}}"
                bare += "\0"
        told = _is_text(bare) or len(_WORD.findall(bare)) >= (1 if label else 2) or _anchored(bare)
        if told and not _FOREIGN.search(bare):
            yield Found(_bare(message), fields=True) if names else Found(_bare(bare))
        for value in node.values:
            if isinstance(value, ast.FormattedValue):
                yield from self.read(value.value, False)


def _bare(text: str) -> str:
    """Return a message without what joins it to one before it."""
    return text.strip().lstrip(";,").lstrip()


def _is_text(text: str) -> bool:
    return bool(_WORDS.search(text)) and not _FOREIGN.search(text)


def _anchored(bare: str) -> bool:
    """Whether a template begins or ends with a word: "crashed: {reason}"."""
    return bool(re.match(r"[A-Za-z]{4,}", bare) or re.search(r"[a-z]{4,}\W?$| [a-z]{5,} ", bare)) and " " in bare


def _called(function: ast.expr) -> str:
    return (
        function.id if isinstance(function, ast.Name) else function.attr if isinstance(function, ast.Attribute) else ""
    )


def _decorated(node: ast.AST, name: str) -> bool:
    decorators = getattr(node, "decorator_list", [])
    return any(isinstance(each, ast.Call) and _called(each.func) == name for each in decorators)


def _is_command(node: ast.AST) -> bool:
    """Whether a function is a command: its docstring is what --help says."""
    return isinstance(node, ast.FunctionDef) and "typer." in ast.unparse(node.args)


def _name(node: ast.expr) -> str:
    """Return the name of a field after the expression in it: `len(leaks)` is leaks, `part.title` is title."""
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(attr=name):
            return name
        case ast.Call(args=[first, *_]) if not isinstance(first, ast.GeneratorExp | ast.Constant):
            return _name(first)
        case ast.Call(func=function):
            return _called(function) or "value"
        case ast.Subscript(value=value) | ast.UnaryOp(operand=value) | ast.Starred(value=value):
            return _name(value)
        case ast.BinOp(left=left, right=right):
            return _name(right if isinstance(left, ast.Constant) else left)
        case ast.IfExp(body=body):
            return "more" if isinstance(body, ast.Constant | ast.JoinedStr) else _name(body)
    return "value"


def _unique(name: str, names: list[tuple[str, str]], expression: str) -> str:
    """Return a name that stands for this expression alone in this message."""
    name = name.strip("_") or "value"
    made, number = name, 1
    while any(known == made and other != expression for known, other in names):
        number += 1
        made = f"{name}_{number}"
    names.append((made, expression))
    return made
