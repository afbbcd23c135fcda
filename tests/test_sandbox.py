"""The portable sandbox from outside: what a child is given, what it is not, how it starts and ends. Real processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import pytest
import torch
from sandbox_toy import wait_until, write_workbench

from autograder.probe.client import Probe, ProbeFailure
from autograder.sandbox import Limits, Nursery
from autograder.verdict import Verdict

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the warm supervisor is for Linux only")

LIMITS = Limits(wall_s=20.0, memory_mb=2048)


@pytest.fixture(scope="module")
def workbench(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_workbench(tmp_path_factory.mktemp("bench"))


@pytest.fixture(scope="module")
def nursery(workbench: str) -> Iterator[Nursery]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GRADER_SECRET", "hunter2")
        with Nursery(LIMITS, workbench=workbench, layers=()) as nursery:
            yield nursery


@pytest.fixture
def probe(nursery: Nursery, tmp_path: Path) -> Iterator[Probe[Limits]]:
    with Probe(nursery, tmp_path, LIMITS) as probe:
        yield probe
        if probe.alive:
            probe.call("save")


def value(probe: Probe[Limits], code: str) -> Any:
    return probe.call("eval", {"code": code}).data["value"]


def run(probe: Probe[Limits], code: str, wall_s: float | None = None) -> None:
    probe.call("run", {"code": code}, wall_s=wall_s)


# -- a conversation ---------------------------------------------------------------------------------------------------


def test_facts_and_tensors_go_there_and_back(probe: Probe[Limits], tmp_path: Path) -> None:
    sent = {"x": torch.randn(3, 4), "n": torch.arange(5)}
    assert probe.call("ping", {"a": [1, "ü\ud800"]}).data == {"a": [1, "ü\ud800"]}
    reply = probe.call("echo", tensors=sent)
    assert all(torch.equal(reply.tensors[name], tensor) for name, tensor in sent.items())
    assert probe.call("tree").data == {"tree": str(tmp_path)}
    assert probe.alive
    assert probe.events == []


def test_a_whole_model_goes_through_in_one_message(probe: Probe[Limits]) -> None:
    sent = torch.randn(10_770_816)
    assert torch.equal(probe.call("echo", tensors={"x": sent}).tensors["x"], sent)


def test_state_lasts_from_call_to_call_and_not_from_child_to_child(nursery: Nursery, tmp_path: Path) -> None:
    with Probe(nursery, tmp_path, LIMITS) as first, Probe(nursery, tmp_path, LIMITS) as second:
        run(first, "kept = 1")
        assert value(first, "kept") == 1
        assert value(second, "'kept' in globals()") is False


def test_output_is_counted_and_its_head_is_kept(probe: Probe[Limits]) -> None:
    run(probe, "print('hello'); import sys; sys.stderr.write('w\\udcff'); print('x' * 3_000_000)")
    assert probe.output_head.startswith("hello\n") or probe.output_head.startswith("w")
    assert 3_000_007 <= probe.output_bytes <= 3_000_020
    assert len(probe.output_head) <= 4096


def test_an_exception_that_the_workbench_lets_through_is_a_crash_with_its_name(probe: Probe[Limits]) -> None:
    with pytest.raises(ProbeFailure, match="The call ended with ZeroDivisionError: division by zero") as caught:
        value(probe, "1 / 0")
    assert caught.value.verdict is Verdict.CRASHED
    assert not probe.alive
    with pytest.raises(ProbeFailure, match="ZeroDivisionError"):
        probe.call("ping")


def test_a_closed_probe_makes_no_calls(nursery: Nursery, tmp_path: Path) -> None:
    probe = Probe(nursery, tmp_path, LIMITS)
    probe.close()
    assert not probe.alive
    with pytest.raises(ValueError, match="closed"):
        probe.call("ping")


# -- what a child is given --------------------------------------------------------------------------------------------


def test_the_grader_s_environment_does_not_reach_the_child(probe: Probe[Limits]) -> None:
    seen = value(probe, "(dict(__import__('os').environ), open('/proc/self/environ').read())")
    assert os.environ["GRADER_SECRET"] == "hunter2"
    assert "hunter2" not in str(seen)
    assert seen[0]["OMP_NUM_THREADS"] == "1"


def test_the_child_has_no_descriptor_but_its_own(probe: Probe[Limits]) -> None:
    numbers = sorted(int(n) for n in value(probe, "__import__('os').listdir('/proc/self/fd')"))
    assert numbers[:4] == [0, 1, 2, 3]
    assert sum(number > 1024 for number in numbers) == 1  # the channel
    assert len(numbers) == 6  # and the listing's own
    assert value(probe, "__import__('sys').stdin.read()") == ""


def test_two_children_have_their_channels_at_different_numbers(nursery: Nursery, tmp_path: Path) -> None:
    seen = set()
    for _ in range(4):
        with Probe(nursery, tmp_path, LIMITS) as probe:
            seen.add(max(int(n) for n in value(probe, "__import__('os').listdir('/proc/self/fd')")))
    assert len(seen) > 1


def test_limits_are_set(probe: Probe[Limits]) -> None:
    code = "{n: __import__('resource').getrlimit(getattr(__import__('resource'), 'RLIMIT_' + n)) for n in %r}"
    seen = value(probe, code % (["AS", "CPU", "FSIZE", "NOFILE", "CORE"],))
    soft, hard = seen.pop("AS")  # on top of what torch has mapped, which differs from build to build
    assert soft == hard > 2048 << 20
    assert seen == {
        "CPU": [120, 122],
        "FSIZE": [16 << 20] * 2,
        "NOFILE": [128] * 2,
        "CORE": [0, 0],
    }


def test_the_child_finds_nothing_of_ours_beside_the_probe(probe: Probe[Limits]) -> None:
    seen = value(probe, "(__import__('sys').path, __import__('sys').argv)")
    assert "" not in seen[0]
    assert str(Path(__file__).parents[1]) not in seen[0]
    assert seen[1] == [""]
    run(
        probe,
        "import importlib\n"
        "for name in ('solutions', 'autograder.grading', 'autograder.oracle', 'autograder.checks', 'tests'):\n"
        "    try: importlib.import_module(name)\n"
        "    except ImportError: continue\n"
        "    raise AssertionError(name)\n",
    )


def test_the_child_s_random_generators_start_alike(nursery: Nursery, tmp_path: Path) -> None:
    code = (
        "(__import__('random').random(), __import__('torch').rand(1).item(), "
        "__import__('numpy').random.rand(), hash('x'))"
    )
    seen = []
    for _ in range(2):
        with Probe(nursery, tmp_path, LIMITS) as probe:
            seen.append(value(probe, code))
    assert seen[0] == seen[1]


def test_the_child_works_in_a_scratch_folder_that_is_gone_afterwards(nursery: Nursery, tmp_path: Path) -> None:
    with Probe(nursery, tmp_path, LIMITS) as probe:
        run(
            probe,
            "import os, tempfile\n"
            "where = os.getcwd()\n"
            "assert tempfile.gettempdir() == where == os.environ['HOME']\n"
            "os.mkdir('locked'); open('locked/file', 'w').close(); os.chmod('locked', 0)\n"
            "for i in range(2000): os.mkdir('d'); os.chdir('d')\n",
        )
        scratch = Path(value(probe, "where"))
        assert scratch.is_dir()
    assert not scratch.exists()


def test_writing_beyond_the_file_limit_is_refused(probe: Probe[Limits]) -> None:
    with pytest.raises(ProbeFailure, match="File too large"):
        run(probe, "open('big', 'wb').write(b'x' * (17 << 20))")


def test_torch_is_imported_once_for_all_children(nursery: Nursery, tmp_path: Path) -> None:
    begun, spawns = time.monotonic(), 10
    for _ in range(spawns):
        nursery.spawn(tmp_path, LIMITS).end(0.0)
    assert (time.monotonic() - begun) / spawns < 0.5  # an import of torch takes over a second
    with Probe(nursery, tmp_path, LIMITS) as probe:
        assert value(probe, "('torch' in __import__('sys').modules, 'torch._dynamo' in __import__('sys').modules)") == [
            True,
            False,
        ]


def test_isolation_says_which_layers_held(nursery: Nursery) -> None:
    isolation = nursery.isolation.to_json()
    assert isolation["level"] == "portable"
    assert isolation["isolated"] is False
    assert {"memory limit", "no new privileges", "scratch folder"} <= set(isolation["layers"])


# -- life and death ---------------------------------------------------------------------------------------------------


def test_importing_the_sandbox_imports_no_torch() -> None:
    code = "import sys, autograder.sandbox; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).parents[1])


def test_start_returns_before_torch_is_imported_and_close_leaves_nothing(workbench: str, tmp_path: Path) -> None:
    begun = time.monotonic()
    nursery = Nursery(LIMITS, workbench=workbench, layers=()).start()
    assert time.monotonic() - begun < 0.5
    nursery.close()
    nursery.close()
    with nursery, Probe(nursery, tmp_path, LIMITS) as probe:  # and it can be opened again
        child = value(probe, "__import__('os').getpid()")
        parent = value(probe, "__import__('os').getppid()")
        root = Path(value(probe, "__import__('os').getcwd()")).parent
    assert not any(Path(f"/proc/{pid}").exists() for pid in (child, parent))
    assert not root.exists()


def test_children_end_when_the_grader_is_killed(workbench: str, tmp_path: Path) -> None:
    code = (
        "import sys, os, time\n"
        "from pathlib import Path\n"
        "from autograder.sandbox import Nursery\n"
        "from autograder.probe.client import Probe\n"
        "nursery = Nursery(workbench=sys.argv[1], layers=()); probe = Probe(nursery, Path('.'), nursery.limits)\n"
        'code = \'(__import__("os").getpid(), __import__("os").getppid())\'\n'
        "print(*probe.call('eval', {'code': code}).data['value'], os.getcwd(), flush=True)\n"
        "os.kill(os.getpid(), 9)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, workbench],
        stdout=subprocess.PIPE,
        text=True,
        check=False,
        cwd=Path(__file__).parents[1],
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    assert done.returncode == -signal.SIGKILL
    pids = [int(word) for word in done.stdout.split()[:2]]
    assert wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids))


def test_a_killed_supervisor_is_replaced(workbench: str, tmp_path: Path) -> None:
    with Nursery(LIMITS, workbench=workbench, layers=()) as nursery:
        with Probe(nursery, tmp_path, LIMITS) as probe:
            run(probe, "import os")
            old = value(probe, "os.getppid()")
            os.kill(old, signal.SIGKILL)
            with pytest.raises(ProbeFailure, match="killed the process that supervises it") as caught:
                run(probe, "import time; time.sleep(30)")
            assert caught.value.verdict is Verdict.FORBIDDEN
        with Probe(nursery, tmp_path, LIMITS) as probe:
            assert value(probe, "__import__('os').getppid()") != old


def test_a_supervisor_killed_between_two_children_is_not_noticed(workbench: str, tmp_path: Path) -> None:
    with Nursery(LIMITS, workbench=workbench, layers=()) as nursery:
        with Probe(nursery, tmp_path, LIMITS) as probe:
            supervisor = value(probe, "__import__('os').getppid()")
        os.kill(supervisor, signal.SIGKILL)
        with Probe(nursery, tmp_path, LIMITS) as probe:
            assert probe.call("ping", {"a": 1}).data == {"a": 1}


@pytest.mark.parametrize("method", ["zygote", "fresh"])
def test_a_process_that_cannot_start_is_ours_and_says_why(method: Literal["zygote", "fresh"], tmp_path: Path) -> None:
    (tmp_path / "toy.py").write_text("raise RuntimeError('no such workbench')\n")
    with Nursery(LIMITS, start_method=method, layers=(), workbench=f"{tmp_path}/toy.py:Toy") as nursery:
        probe = Probe(nursery, tmp_path, LIMITS)
        with pytest.raises(ProbeFailure, match="The grader failed, not the code") as caught:
            probe.call("ping")
        assert caught.value.verdict is Verdict.UNGRADABLE
        assert not probe.alive
        if method == "zygote":
            assert "no such workbench" in caught.value.message


def test_a_full_disk_is_ours(nursery: Nursery, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> Path:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("autograder.sandbox.nursery.new_folder", full)
    with pytest.raises(ProbeFailure, match="No space left") as caught:
        Probe(nursery, tmp_path, LIMITS).call("ping")
    assert caught.value.verdict is Verdict.UNGRADABLE


def test_a_fresh_process_serves_as_a_forked_one_does(workbench: str, tmp_path: Path) -> None:
    with Nursery(LIMITS, start_method="fresh", workbench=workbench) as nursery:
        with Probe(nursery, tmp_path, LIMITS) as probe:
            sent = torch.randn(100_000)
            assert torch.equal(probe.call("echo", tensors={"x": sent}).tensors["x"], sent)
            run(
                probe,
                "import os\n"
                "pid = os.fork()\n"
                "if pid == 0:\n"
                "    os.setsid()\n"
                "    import time; time.sleep(60)\n"
                "for number in range(3, 41):\n"
                "    try: os.write(number, b'forged')\n"
                "    except OSError: pass\n",
            )
            stray = value(probe, "pid")
            assert "hunter2" not in str(value(probe, "dict(os.environ)"))
            assert probe.events == ["The code writes to descriptors that do not belong to it."]
            probe.call("save")
            with pytest.raises(ProbeFailure, match="segmentation fault"):
                run(probe, "import ctypes; ctypes.string_at(0)")
        assert wait_until(lambda: not Path(f"/proc/{stray}").exists())
        assert nursery.isolation.level == "portable"
