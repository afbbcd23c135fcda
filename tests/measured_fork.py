"""Run something in a forked process and bring back what it returns, and the coverage of what ran there.

For code that locks its process in for good: the measurement cannot be written to a file any more, and goes by a pipe.
"""

from __future__ import annotations

import base64
import json
import os
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

_CONFIG = str(Path(__file__).parents[1] / "pyproject.toml")


def in_fork(act: Callable[[], Any]) -> Any:
    """Return what `act` returns (JSON) when it is called in a forked process. Raises AssertionError when it fails."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        answer: dict[str, Any] = {}
        try:
            os.close(reading)
            collect = _start_measuring()
            try:
                answer["value"] = act()
            finally:
                answer["coverage"] = base64.b64encode(collect()).decode()
        except BaseException:
            answer["error"] = traceback.format_exc()
        finally:
            with open(writing, "w", encoding="utf-8") as stream:  # noqa: PTH123 (a descriptor)
                json.dump(answer, stream)
            os._exit(0)
    os.close(writing)
    with open(reading, encoding="utf-8") as stream:  # noqa: PTH123 (a descriptor)
        answer = json.loads(stream.read() or '{"error": "it died"}')
    os.waitpid(pid, 0)
    assert "error" not in answer, answer["error"]
    _add(base64.b64decode(answer["coverage"]))
    return answer["value"]


def _start_measuring() -> Callable[[], bytes]:
    try:
        import coverage
    except ImportError:
        return lambda: b""
    outer = coverage.Coverage.current()
    if outer is None:
        return lambda: b""
    outer.stop()
    inner = coverage.Coverage(data_file=None, config_file=_CONFIG)
    inner.start()

    def collect() -> bytes:
        inner.stop()
        return inner.get_data().dumps()

    return collect


def _add(blob: bytes) -> None:
    if not blob:
        return
    import coverage

    outer = coverage.Coverage.current()
    assert outer is not None
    data = coverage.CoverageData(no_disk=True)
    data.loads(blob)
    outer.get_data().update(data)
