"""The watch in the child process: says what was tried, undoes it, and never speaks of honest code."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from watch_attacks import TAMPERING
from watch_manners import HONEST, NOTICES, SIDE_EFFECTS

from autograder.probe.watch_callers import Callers
from autograder.probe.watch_log import MAX_LENGTH, MAX_SENTENCES, Log, listing
from autograder.probe.watch_paths import Paths, resolve

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="each scenario runs in a forked child")

LINUX_ONLY = pytest.mark.skipif(sys.platform != "linux", reason="needs /proc and Linux's calls")


def _scenario(text: str, look: str = "True", snapshot: bool = True, **files: str) -> dict[str, Any]:
    helpers = {"parts/__init__.py": "", "parts/helper.py": "class Thing: pass", **files}
    return {"files": {"model.py": text, **helpers}, "look": look, "snapshot": snapshot}


@functools.cache
def _results() -> dict[tuple[str, str], dict[str, Any]]:
    """Run every scenario once, all in one process that imports torch once."""
    jobs: dict[tuple[str, str], dict[str, Any]] = {}
    tables = {"tampering": TAMPERING, "side_effects": SIDE_EFFECTS, "notices": NOTICES}
    for kind, table in tables.items():
        jobs |= {(kind, name): _scenario(text, look) for name, (text, _, look) in table.items()}
    jobs |= {("honest", name): _scenario(text) for name, text in HONEST.items()}
    jobs |= SPECIAL
    here = Path(__file__).parent
    done = subprocess.run(
        [sys.executable, str(here / "watch_arena.py")],
        input=json.dumps(list(jobs.values())),
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "PYTHONPATH": str(here.parent), "OMP_NUM_THREADS": "1", "LC_ALL": "C"},
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return dict(zip(jobs, json.loads(done.stdout), strict=True))


_CHAIN = """
import os
depth = 0
first = os.getpid()
try:
    while depth < 20:
        if os.fork() != 0:
            os.wait()
            break
        depth += 1
except OSError: pass
if os.getpid() != first: os._exit(0)
"""
SPECIAL: dict[tuple[str, str], dict[str, Any]] = {
    ("special", "chain"): _scenario(_CHAIN),
    ("special", "no snapshot"): _scenario("import torch\ntorch.equal = None", snapshot=False),
    ("special", "helper"): _scenario("import spy", **{"spy.py": "import gc\ngc.get_objects()"}),
    ("special", "memory"): _scenario("open('/proc/self/environ').read()"),
    ("special", "descriptor"): _scenario(
        "import os, sys\nopen(1, 'w', closefd=False).write('x')\nos.listdir(os.open('.', 0))"
    ),
    ("special", "affinity"): _scenario(
        "import os\nos.sched_setaffinity(0, {min(os.sched_getaffinity(0))})", "len(os.sched_getaffinity(0))"
    ),
}


@pytest.mark.parametrize("name", TAMPERING)
def test_tampering_is_named_and_undone(name: str) -> None:
    result = _results()["tampering", name]
    assert any(TAMPERING[name][1] in sentence for sentence in result["tampering"]), result
    assert result["look"], result
    assert result["error"] == "" and not result["repeated"], result


@pytest.mark.parametrize("name", SIDE_EFFECTS)
def test_a_setting_left_changed_is_a_side_effect_and_is_undone(name: str) -> None:
    result = _results()["side_effects", name]
    assert len(result["side_effects"]) >= 1 and SIDE_EFFECTS[name][1] in result["side_effects"][0], result
    assert result["look"] is True and result["tampering"] == [], result
    assert not result["repeated"], result


@pytest.mark.parametrize("name", NOTICES)
def test_what_is_harmless_is_only_a_notice(name: str) -> None:
    result = _results()["notices", name]
    assert any(NOTICES[name][1] in sentence for sentence in result["notices"]), result
    assert result["tampering"] == result["side_effects"] == [], result
    assert result["look"] and result["error"] == "" and not result["repeated"], result


@pytest.mark.parametrize("name", HONEST)
def test_nothing_is_said_about_honest_code(name: str) -> None:
    result = _results()["honest", name]
    assert (result["tampering"], result["side_effects"], result["notices"], result["error"]) == ([], [], [], ""), result


def test_forks_are_counted_over_all_the_processes_that_a_submission_starts() -> None:
    assert any("many processes" in sentence for sentence in _results()["special", "chain"]["tampering"])


def test_a_watch_without_a_snapshot_takes_its_own() -> None:
    assert "functions of torch: equal" in _results()["special", "no snapshot"]["tampering"][0]


def test_a_helper_module_of_the_submission_is_student_code_too() -> None:
    assert "gc.get_objects" in _results()["special", "helper"]["tampering"][0]


@LINUX_ONLY
def test_reading_a_process_environment_through_proc_is_tampering() -> None:
    result = _results()["special", "memory"]
    assert "environment of a process" in result["tampering"][0] and "PermissionError" in result["error"]


def test_open_descriptors_are_not_files() -> None:
    result = _results()["special", "descriptor"]
    assert result["tampering"] == result["notices"] == [] and result["error"] == "", result


@LINUX_ONLY
def test_the_cpu_affinity_is_put_back() -> None:
    assert _results()["special", "affinity"]["look"] == len(os.sched_getaffinity(0))


def test_sentences_are_short_printable_unique_and_few() -> None:
    log = Log()
    for _ in range(2):
        for number in range(50):
            log.tamper(f"{number}\x1b[31m\n\u202e" + "x" * 1000)
    assert len(log.tampering) == len(set(log.tampering)) == MAX_SENTENCES
    assert all(len(sentence) <= MAX_LENGTH and sentence.isprintable() for sentence in log.tampering)


def test_a_long_list_of_names_says_how_many_more_there_are() -> None:
    assert listing(["a"]) == "a" and listing(["a", "b", "c"]) == "a, b and c"
    assert listing([str(i) for i in range(10)]) == "0, 1, 2, 3, 4, 5 and 4 more"


def test_a_working_directory_that_holds_the_grader_opens_nothing(tmp_path: Path) -> None:
    kit = tmp_path / "kit"
    paths = Paths(("/", str(tmp_path), str(tmp_path / "own")), str(kit))
    assert paths.kind(str(kit / "oracle" / "reference.py"), False) == "grader"
    assert paths.kind(str(kit / "__pycache__" / "grading.cpython-311.pyc"), False) == "grader"
    assert paths.kind(str(kit / "probe" / "host.py"), False) == ""
    assert paths.kind(str(tmp_path / "own" / "solutions" / "mine.py"), True) == ""
    assert paths.kind(str(tmp_path / "solutions"), False) == "grader"


def test_only_plain_paths_are_resolved(tmp_path: Path) -> None:
    class Hostile:
        def __fspath__(self) -> str:
            raise AssertionError("student code was run")

    assert resolve(Hostile()) is None and resolve(3) is None
    assert resolve(tmp_path) == resolve(str(tmp_path)) == resolve(os.fsencode(tmp_path)) == os.path.realpath(tmp_path)


def test_code_compiled_under_a_relative_name_is_known_by_the_files_of_the_submission(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text("")
    callers = Callers(str(tmp_path), "/nowhere")
    scope: dict[str, Any] = {}
    exec(compile("import functools\ndef f(): pass\ng = functools.partial(f)", "model.py", "exec"), scope)
    assert callers.made(scope["f"]) and callers.made(scope["g"]) and not callers.made(json.dumps)
