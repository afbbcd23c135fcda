"""Faults: an exception of a student's code as short, plain, JSON-ready facts. Trusts nothing that it says."""

from __future__ import annotations

import dataclasses
import re
import traceback
from pathlib import Path
from typing import Any

#: The folders that hold a submission and its scratch files, as submission/ and sandbox/ name them; installed packages;
#: addresses. They differ from run to run and from machine to machine, and tell a student nothing.
PLACES = (
    (re.compile(r"(/[^\s'\"]*)?/workshop-[^/\s]+/(submission|scratch-[^/\s'\"]+)/?"), ""),
    (re.compile(r"(/[^\s'\"]*)?/(site-packages|dist-packages|lib/python3\.\d+)/"), ""),
    (re.compile(r"0x[0-9a-fA-F]{6,}"), "0x..."),
)
#: How torch's own NotImplementedError begins, when it has no kernel for a dtype or device: the stub is not to blame.
TORCH_LACKS = ("Could not run 'aten::", '"')
MAX_MESSAGE = 600  # a message longer than this helps nobody, and 20 MB ones exist


@dataclasses.dataclass(frozen=True)
class Fault:
    """What went wrong, and on which line of the submission."""

    type: str
    message: str
    stage: str  # "import", "build", "forward", "backward"
    file: str = ""
    line: int = 0
    source: str = ""
    not_implemented: bool = False
    memory: bool = False

    def to_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)


def describe_exception(error: BaseException, tree: str, stage: str) -> Fault:
    """Return the facts of `error`: its type, a bounded message, and the last line in the submission that it passed."""
    file, line, source = _where(error, tree)
    message = _text(error, tree)
    return Fault(
        type=str(type.__getattribute__(type(error), "__name__"))[:100],
        message=message,
        stage=stage,
        file=file,
        line=line,
        source=source,
        not_implemented=_is_unwritten(error) and not message.startswith(TORCH_LACKS),
        memory=isinstance(error, MemoryError) or "can't allocate memory" in message or "bad_alloc" in message,
    )


def _is_unwritten(error: BaseException) -> bool:
    """A stub's NotImplementedError, or nn.Module's own for a missing forward; not torch's for a missing kernel."""
    if not isinstance(error, NotImplementedError):
        return False
    last = error.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    if last is None:
        return True
    name = last.tb_frame.f_code.co_name
    return "site-packages" not in last.tb_frame.f_code.co_filename or name == "_forward_unimplemented"


def _text(error: BaseException, tree: str) -> str:
    if isinstance(error, SyntaxError):
        text = str(error.msg)  # the line is told beside it
    else:
        try:
            text = str(error)
        except BaseException:  # a student's __str__ may raise anything
            return "(the message cannot be shown)"
    text = _without_places(text[: 2 * MAX_MESSAGE], tree)
    return text[:MAX_MESSAGE].encode("utf-8", "replace").decode("utf-8")


def _without_places(text: str, tree: str) -> str:
    text = text.replace(tree.rstrip("/") + "/", "")
    for pattern, instead in PLACES:
        text = pattern.sub(instead, text)
    return text


def _where(error: BaseException, tree: str) -> tuple[str, int, str]:
    if isinstance(error, SyntaxError) and error.filename and str(error.filename).startswith(tree):
        text = str(error.text or "").strip()
        return _relative(str(error.filename), tree), int(error.lineno or 0), text[:200]
    try:
        frames = traceback.extract_tb(error.__traceback__)
    except Exception:
        return "", 0, ""
    for frame in reversed(frames):
        if frame.filename.startswith(tree):
            return _relative(frame.filename, tree), int(frame.lineno or 0), (frame.line or "").strip()[:200]
    return "", 0, ""


def _relative(path: str, tree: str) -> str:
    return Path(path).relative_to(tree).as_posix()
