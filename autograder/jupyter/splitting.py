"""One notebook that holds several parts, split into a file for each: other files can then import from each of them.

Kept in one file, attention and GPT would go in a circle with a Block beside: it imports attention, and GPT imports it.
"""

from __future__ import annotations

import ast
import io
from collections.abc import Iterator, Mapping, Sequence

from autograder.track import Part, Track

_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def split(source: str, parts: Sequence[Part], track: Track) -> dict[str, str]:
    """Return, for each of `parts` by its file, what of `source` it needs; lines keep their numbers.

    A part's file holds its names and whatever those use, but for what another part defines: that is imported from
    there. `source` is Python, as `definitions` gives it.
    """
    homes = {name: part.file.removesuffix(".py") for part in track.every for name in part.names}
    body = ast.parse(source).body
    own = {name for part in parts for name in part.names}
    return {part.file: _of_one(source, body, part, own, homes) for part in parts}


def _of_one(source: str, body: Sequence[ast.stmt], part: Part, own: set[str], homes: Mapping[str, str]) -> str:
    stem = part.file.removesuffix(".py")
    foreign = {name for name in own if homes[name] != stem}
    wanted = _reached(body, set(part.names), foreign)
    lines = [line.rstrip("\n") for line in io.StringIO(source, newline=None)]  # as Python counts them
    kept = [""] * len(lines)
    stems = set(homes.values())
    for node in body:
        first = min([node.lineno, *(each.lineno for each in getattr(node, "decorator_list", ()))])
        last = node.end_lineno or node.lineno
        names = set(_bound(node))
        if isinstance(node, _DEFINITIONS) and node.name in foreign:
            if node.name in wanted:
                _put(kept, first, f"from {homes[node.name]} import {node.name}")
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module in stems:
            for alias in node.names:
                if (alias.asname or alias.name) in wanted:
                    home = homes.get(alias.name, node.module)
                    renamed = f" as {alias.asname}" if alias.asname else ""
                    _put(kept, first, f"from {home} import {alias.name}{renamed}")
        elif isinstance(node, ast.Import | ast.ImportFrom) or names & wanted or not (names or _read(node) & foreign):
            text = lines[first - 1 : last]  # but for what shares a line with it
            text[-1] = text[-1].encode()[: node.end_col_offset].decode()
            text[0] = text[0].encode()[0 if first < node.lineno else node.col_offset :].decode()
            _put(kept, first, text[0])
            kept[first:last] = text[1:]
    return "\n".join(kept) + "\n"


def _put(lines: list[str], number: int, statement: str) -> None:
    """Put a statement on a line, after what is there."""
    lines[number - 1] = f"{lines[number - 1]}; {statement}" if lines[number - 1] else statement


def _reached(body: Sequence[ast.stmt], names: set[str], foreign: set[str]) -> set[str]:
    """Return `names`, and what is used by the statements that give those a value, and so on; not through `foreign`."""
    reached: set[str] = set()
    ahead = set(names)
    while ahead:
        reached |= ahead
        follow = ahead - foreign
        ahead = {used for node in body if follow.intersection(_bound(node)) for used in _read(node)} - reached
    return reached


def _read(node: ast.stmt) -> set[str]:
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}


def _bound(node: ast.stmt) -> Iterator[str]:
    """Yield the names that a statement gives a value, or an attribute of which it sets."""
    if isinstance(node, _DEFINITIONS):
        yield node.name
    elif isinstance(node, ast.Import | ast.ImportFrom):
        yield from ((alias.asname or alias.name).split(".")[0] for alias in node.names)
    elif isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign):
        for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
            yield from (each.id for each in ast.walk(target) if isinstance(each, ast.Name))
    else:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.stmt):
                yield from _bound(child)
            elif isinstance(child, ast.ExceptHandler):
                for inner in child.body:
                    yield from _bound(inner)
