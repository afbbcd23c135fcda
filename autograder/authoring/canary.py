"""The canary: no line of a solution may be in what students get, plain, packed or compiled."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterable, Iterator, Mapping

#: What belongs in a kit. Compiled code, pickles and archives do not: nobody can read what is in them.
KINDS = (
    ".py",
    ".ipynb",
    ".toml",
    ".md",
    ".po",
    ".txt",
    ".json",
    ".safetensors",
    ".html",
    ".css",
    ".js",
    ".j2",
    ".svg",
    ".typed",
    "",
)
#: Shorter lines are any Python's; longer ones tell.
TELLING = 20
#: Lines of the solutions that the guide and the advice teach as they are.
QUOTED = frozenset({"self.transformer.wte.weight = self.lm_head.weight"})
#: Lines that every program which trains or samples holds, the kit's own as well.
IDIOMS = frozenset(
    {
        "with torch.no_grad():",
        "optimizer.zero_grad()",
        "for group in optimizer.param_groups:",
        "if temperature == 0:",
    }
)


def telling_lines(solutions: Iterable[str], stubs: Iterable[str]) -> list[str]:
    """Return the lines inside the solution regions that a student must write, without comments and outer spaces."""
    given = {_plain(line) for text in stubs for line in text.splitlines()}
    lines: dict[str, None] = {}
    for text in solutions:
        inside = False
        for line in text.splitlines():
            if "### BEGIN SOLUTION" in line or "### END SOLUTION" in line:
                inside = "BEGIN" in line
            elif inside and len(_plain(line)) >= TELLING and _plain(line) not in given | QUOTED | IDIOMS:
                lines[_plain(line)] = None
    return list(lines)


def leaks(members: Mapping[str, bytes], lines: Iterable[str]) -> Iterator[str]:
    """Yield a sentence for each thing in `members` (path -> content) that must not be handed out."""
    wanted = list(lines)
    for path, data in members.items():
        name = path.rpartition("/")[2]
        kind = name[name.rindex(".") :] if "." in name[1:] else ""
        if kind == ".zip":
            with zipfile.ZipFile(io.BytesIO(data)) as archive:
                yield from leaks({f"{path}!{inner}": archive.read(inner) for inner in archive.namelist()}, wanted)
            continue
        if kind not in KINDS:
            yield f"{path} is of a kind that nobody can read ({kind})."
        text = " ".join(data.decode("utf-8", "replace").split())
        for line in wanted:
            if line in text or line.encode() in data:
                yield f"{path} holds a line of the solutions: {line}"


def _plain(line: str) -> str:
    return " ".join(line.partition("  #")[0].split())
