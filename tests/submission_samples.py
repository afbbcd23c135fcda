"""Small submissions for the intake's tests, and the one way in which the tests read them."""

from __future__ import annotations

import io
import json
import tarfile
import zipfile
from collections.abc import Mapping
from pathlib import Path

from autograder.submission import Submission, read_submission
from autograder.track import load_track

TRACK = load_track("gpt")
CLASSES = TRACK.classes
STUBS = {part.file: f"class {part.class_name}:\n    pass\n" for part in TRACK.parts}
MODEL = "\n".join(STUBS.values())


def read(path: Path, student: str | None = None) -> Submission:
    return read_submission(path, TRACK, student)


def fill(folder: Path, files: Mapping[str, str | bytes]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    return folder


def zipped(files: Mapping[str, str | bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as book:
        for name, content in files.items():
            book.writestr(name, content)
    return out.getvalue()


def tarred(files: Mapping[str, str | bytes | tarfile.TarInfo], packing: str = "gz") -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode=f"w:{packing}") as book:
        for name, content in files.items():
            if isinstance(content, tarfile.TarInfo):
                book.addfile(content)
                continue
            data = content.encode() if isinstance(content, str) else content
            info = tarfile.TarInfo(name)
            info.size = len(data)
            book.addfile(info, io.BytesIO(data))
    return out.getvalue()


def tar_entry(name: str, kind: bytes, target: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


def notebook(*cells: str, **more: object) -> str:
    code = [{"cell_type": "code", "metadata": {}, "outputs": [], "source": cell.splitlines(True)} for cell in cells]
    prose = {"cell_type": "markdown", "metadata": {}, "source": ["class GPT is explained here"]}
    return json.dumps({"cells": [prose, *code], "metadata": {}, "nbformat": 4, "nbformat_minor": 5, **more})
