"""The Linux sandbox by attack: each is stopped, by each layer that is said to stop it alone, and works without them."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from linux_attacks import ATTACKS, Attack, Targets
from measured_fork import in_fork
from sandbox_toy import wait_until, write_workbench

if sys.platform != "linux":
    pytest.skip("landlock, seccomp and namespaces are Linux's", allow_module_level=True)

from autograder.probe.client import Probe, ProbeFailure
from autograder.sandbox import (
    Limits,
    Nursery,
    linux,
    linux_files,
    linux_landlock,
    linux_numbers,
    linux_seccomp,
    linux_spaces,
    linux_user,
)
from autograder.sandbox.policy import LAYERS
from autograder.verdict import Verdict

LIMITS = Limits(wall_s=30.0)
ROOT = os.geteuid() == 0
Open = Callable[..., Nursery]


@pytest.fixture(scope="module")
def place() -> Iterator[Path]:
    """A folder that other users may enter: student code runs as one where we are root."""
    with tempfile.TemporaryDirectory(prefix="workshop-test-") as folder:
        path = Path(folder).resolve()
        path.chmod(0o755)
        (path / "tree").mkdir()
        (path / "tree" / "model.py").write_text("answer = 42\n")
        yield path


@pytest.fixture(scope="module")
def warm(place: Path) -> Iterator[Open]:
    """Return the warm nursery with the layers that are named."""
    with ExitStack() as stack:
        found: dict[tuple[str, ...], Nursery] = {}
        bench = write_workbench(place)

        def get(*layers: str) -> Nursery:
            if layers not in found:
                found[layers] = stack.enter_context(Nursery(LIMITS, workbench=bench, layers=layers))
            return found[layers]

        yield get


@pytest.fixture(scope="module")
def targets() -> Iterator[Targets]:
    with Targets() as targets:
        yield targets


@pytest.fixture(scope="module")
def full(warm: Open) -> Nursery:
    return warm(*LAYERS)


def value(probe: Probe[Limits], code: str) -> Any:
    return probe.call("eval", {"code": code}).data["value"]


def run(probe: Probe[Limits], code: str) -> None:
    probe.call("run", {"code": code})


def attack(nursery: Nursery, place: Path, targets: Targets, code: str) -> tuple[bool, str]:
    """Return whether the attack worked in a child of `nursery`, and what stopped it; beside it lives another child."""
    with Probe(nursery, place / "tree", LIMITS) as sibling, Probe(nursery, place / "tree", LIMITS) as probe:
        run(sibling, "import ctypes; anchor = ctypes.create_string_buffer(8)")
        more = {"SIBLING": value(sibling, "__import__('os').getpid()")}
        more["ANCHOR"] = value(sibling, "ctypes.addressof(anchor)")
        run(probe, targets.code(code, **more))
        worked, why = value(probe, "[worked, why]")
        assert sibling.call("ping", {"well": True}).data == {"well": True}
    return worked, why


def layers_of(nursery: Nursery) -> str:
    return " ".join(nursery.isolation.layers)


ALONE = [pytest.param(e, layer, id=f"{name}: {layer}") for name, e in ATTACKS.items() for layer in e.stopped_by]


@pytest.mark.parametrize("each", ATTACKS.values(), ids=ATTACKS)
def test_every_attack_is_stopped_by_all_layers_together(
    each: Attack, full: Nursery, place: Path, targets: Targets
) -> None:
    worked, _ = attack(full, place, targets, each.code)
    assert not worked and targets.untouched()


@pytest.mark.parametrize("each", ATTACKS.values(), ids=ATTACKS)
def test_every_attack_works_where_no_layer_is(each: Attack, warm: Open, place: Path, targets: Targets) -> None:
    if each.root and not ROOT:
        pytest.skip("another user than root cannot do this at all")
    worked, why = attack(warm(), place, targets, each.code)
    targets.restore()
    if why in ("ENOSYS", "EPERM", "EACCES") and not ROOT:
        pytest.skip(f"this machine refuses it to an ordinary user anyway ({why})")
    assert worked, why


@pytest.mark.parametrize(("each", "layer"), ALONE)
def test_every_attack_is_stopped_by_each_layer_that_is_meant_to(
    each: Attack, layer: str, warm: Open, place: Path, targets: Targets
) -> None:
    nursery = warm(layer)
    if layer not in layers_of(nursery) and not (layer == "user" and "capabilities" in layers_of(nursery)):
        pytest.skip(f"this machine has no {layer}")
    if layer == "landlock" and linux_landlock.abi() < each.abi:
        pytest.skip(f"this kernel's landlock ({linux_landlock.abi()}) is older than {each.abi}")
    worked, _ = attack(nursery, place, targets, each.code)
    assert not worked and targets.untouched()


# -- what holds altogether --------------------------------------------------------------------------------------------


def test_all_layers_isolate_and_few_do_not(full: Nursery, warm: Open) -> None:
    if not linux_landlock.abi():
        pytest.skip("without landlock it depends on the machine's namespaces")
    assert full.isolation.isolated and full.isolation.level == "linux"
    assert warm("landlock", "seccomp", "user").isolation.isolated  # a container that refuses namespaces
    for layers in (("landlock",), ("seccomp",), ("user",), ()):
        assert not warm(*layers).isolation.isolated, layers
    assert warm().isolation.level == "portable"


def test_the_same_layers_are_named_for_every_child(full: Nursery, place: Path) -> None:
    first = full.isolation
    full.spawn(place / "tree").end(0.0)
    assert full.isolation == first


@pytest.mark.skipif(not ROOT, reason="only root can become another user")
def test_root_s_children_are_nobody(full: Nursery, warm: Open, place: Path) -> None:
    for nursery in (full, warm("landlock", "seccomp", "user")):
        with Probe(nursery, place / "tree", LIMITS) as probe:
            run(probe, "import os, ctypes\nlibc = ctypes.CDLL(None)")
            if "a user of its own" in layers_of(nursery):
                assert min(value(probe, "os.getresuid() + os.getresgid()")) >= 1_900_000_000
                assert value(probe, "os.getgroups()") == []
            assert value(probe, "[libc.prctl(23, n, 0, 0, 0) for n in range(41)]") == [0] * 41  # the bounding set


def test_nothing_survives_a_child(full: Nursery, place: Path, targets: Targets) -> None:
    with Probe(full, place / "tree", LIMITS) as probe:
        run(
            probe,
            "import os, time, ctypes\n"
            "ctypes.CDLL(None).prctl(36, 1)\n"
            "for _ in range(10):\n"
            "    if os.fork() == 0:\n"
            "        os.setsid()\n"
            "        if os.fork(): os._exit(0)\n"
            "        time.sleep(60)\n",
        )
        home = _home(full)
        assert len(_processes(home)) >= 10
        begun = time.monotonic()
    assert time.monotonic() - begun < 5
    assert wait_until(lambda: len(_processes(home)) <= 2)  # the supervisor, and who waits for it


def test_a_bomb_of_processes_does_not_go_far(full: Nursery, place: Path) -> None:
    with Probe(full, place / "tree", Limits(wall_s=2.0)) as probe:
        with pytest.raises(ProbeFailure) as caught:
            run(probe, "import os, time\nwhile True:\n    try: os.fork()\n    except OSError: pass\n")
        assert caught.value.verdict in (Verdict.TIMED_OUT, Verdict.FORBIDDEN)
    with Probe(full, place / "tree", LIMITS) as after:
        assert after.call("ping", {"a": 1}).data == {"a": 1}
    assert wait_until(lambda: len(_processes(_home(full))) <= 2)


def test_a_killed_supervisor_takes_everything_with_it_and_is_replaced(place: Path, warm: Open) -> None:
    with Nursery(LIMITS, workbench=write_workbench(place), layers=LAYERS) as nursery:
        with Probe(nursery, place / "tree", LIMITS) as probe:
            run(probe, "import os, time\nif os.fork() == 0: time.sleep(60)")
            home = _home(nursery)
            os.kill(min(_processes(home)), 9)
            with pytest.raises(ProbeFailure, match="killed the process that supervises it"):
                run(probe, "time.sleep(30)")
        assert wait_until(lambda: not _processes(home))
        with Probe(nursery, place / "tree", LIMITS) as probe:
            assert probe.call("ping", {"a": 1}).data == {"a": 1}


def _home(nursery: Nursery) -> bytes:
    assert nursery._zygote is not None
    return b"HOME=" + os.fsencode(nursery._zygote.home)


def _processes(home: bytes) -> list[int]:
    return [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if home in _environment(pid)]  # noqa: PTH208


def _environment(pid: int) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return []


# -- honest code goes on working --------------------------------------------------------------------------------------


def test_honest_code_finds_its_files_libraries_threads_and_a_place_to_write(full: Nursery, place: Path) -> None:
    with Probe(full, place / "tree", LIMITS) as probe:
        tree = probe.call("tree").data["tree"]
        assert value(probe, f"open({tree + '/model.py'!r}).read()") == "answer = 42\n"
        run(
            probe,
            "import os, signal, tempfile, threading, time, zoneinfo, email.mime.text, sqlite3\n"
            "import torch, torch._dynamo, torch.utils.data, numpy\n"
            "torch.optim.AdamW([torch.zeros(2, requires_grad=True)]).step()\n"
            "torch.save(torch.zeros(3), 'weights.pt'); assert torch.load('weights.pt').sum() == 0\n"
            "with tempfile.TemporaryDirectory() as folder: open(folder + '/x', 'w').write('x')\n"
            "seen = []\n"
            "thread = threading.Thread(target=lambda: seen.append(torch.ones(2) @ torch.ones(2))); thread.start()\n"
            "thread.join(); assert seen\n"
            "signal.signal(signal.SIGUSR1, lambda *_: seen.append(1)); os.kill(os.getpid(), signal.SIGUSR1)\n"
            "os.rename('weights.pt', 'moved.pt'); os.remove('moved.pt'); os.mkdir('folder'); os.rmdir('folder')\n"
            "open('/dev/null', 'w').write('x'); assert len(open('/dev/urandom', 'rb').read(4)) == 4\n",
        )


def test_a_few_forks_are_allowed(full: Nursery, place: Path) -> None:
    if "a user of its own" not in layers_of(full) and ROOT:
        pytest.skip("root's processes cannot be counted here, so that there are none")
    with Probe(full, place / "tree", LIMITS) as probe:
        run(probe, "import os\npid = os.fork()\nif pid == 0: os._exit(3)")
        assert value(probe, "os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])") == 3


def test_what_is_refused_is_an_ordinary_error(full: Nursery, place: Path) -> None:
    with Probe(full, place / "tree", LIMITS) as probe, pytest.raises(ProbeFailure, match="PermissionError"):
        run(probe, "import subprocess; subprocess.run(['/bin/true'])")


def test_every_refused_call_is_refused_and_clone3_is_unknown(full: Nursery, place: Path, targets: Targets) -> None:
    if not linux_numbers.machine():
        pytest.skip("no filter for this machine")
    table = linux_numbers.numbers(linux_numbers.machine())
    refused = [name for text in linux_numbers.REFUSED.values() for name in linux_numbers.names(text) if name in table]
    code = (
        "def tried(name):\n    try: return raw(name, -1, -1, -1, -1, -1, -1) and 0\n"
        "    except OSError as error: return error.errno\n"
    )
    with Probe(full, place / "tree", LIMITS) as probe:
        run(probe, targets.code("0") + code)
        assert value(probe, f"{{n: tried(n) for n in {refused!r}}}") == dict.fromkeys(refused, 1)
        assert value(probe, "tried('clone3')") == 38
    assert len(refused) > 90


# -- the supervisor's and the child's steps, one by one ---------------------------------------------------------------


def _steps(place: Path, wanted: frozenset[str]) -> dict[str, Any]:
    """Do in this process what supervisor and child do, and return how it went."""
    home = place / "home"
    home.mkdir(exist_ok=True)
    os.chdir(home)
    spaces = linux_spaces.enter(lambda: None) if "namespaces" in wanted else ()
    plan = linux.prepare(wanted, spaces, home)
    cell = plan.cell(str(place / "tree"), str(home))
    cell.enter(1)
    cell.shut(Limits(), os.getppid())
    broken_out = [name for name, attempt in linux._ATTEMPTS.items() if linux._succeeds(attempt)]
    return {
        "first": os.getpid() == 1,
        "spaces": spaces,
        "held": sorted(cell.held),
        "isolated": cell.isolated,
        "broken out": broken_out,
        "files": sorted(os.listdir(cell.tree)),  # noqa: PTH208
    }


def test_the_steps_of_all_layers_in_a_process_of_our_own(place: Path, full: Nursery) -> None:
    seen = in_fork(lambda: _steps(place, frozenset(LAYERS)))
    words = layers_of(full)
    assert seen["first"] == ("pid" in seen["spaces"])
    assert [layer for layer in ("landlock", "seccomp") if layer in words] == [
        layer for layer in ("landlock", "seccomp") if layer in seen["held"]
    ]
    assert (seen["isolated"], seen["broken out"] == []) == (full.isolation.isolated, full.isolation.isolated)
    assert seen["files"] == ["model.py"]


def test_the_steps_without_namespaces(place: Path) -> None:
    seen = in_fork(lambda: _steps(place, frozenset({"seccomp", "user"})))
    assert not seen["isolated"] and "reads the machine" in seen["broken out"]
    assert "signals others" not in seen["broken out"]


@pytest.mark.parametrize("refuse", ["unshare", "mount", "landlock_create_ruleset", "seccomp", "prctl"])
def test_a_layer_that_the_kernel_refuses_is_left_out(refuse: str, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from autograder.sandbox import linux_calls

    def call(name: str, *arguments: int | bytes | None) -> int:
        if name == refuse:
            raise OSError(1, "Operation not permitted")
        return linux_calls.call(name, *arguments)

    for room in (linux_spaces, linux_landlock, linux_seccomp, linux_user):
        monkeypatch.setattr(room, "call", call)
    seen = in_fork(lambda: _steps(place, frozenset(LAYERS)))
    layer = {"unshare": "namespaces", "landlock_create_ruleset": "landlock"}.get(refuse, refuse)
    assert layer not in seen["held"] and "mount" not in (seen["spaces"] if refuse == "mount" else ())
    assert "model.py" in seen["files"]
    # The first process of a world has no parent there, and reaches itself.
    assert seen["isolated"] == (not set(seen["broken out"]) - ({"signals others"} if seen["first"] else set()))


def test_where_no_trial_child_lives_no_layer_is_used(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linux, "_try_out", lambda plan, home: None)
    plan = in_fork(lambda: [list(x) if isinstance(x, frozenset) else x for x in _plain(place)])
    assert plan == [[], 0, {}, False]


def _plain(place: Path) -> list[Any]:
    plan = linux.prepare(frozenset(LAYERS), (), place)
    return [plan.wanted, plan.landlock, plan.filters, plan.isolated]


# -- pieces -----------------------------------------------------------------------------------------------------------


def _decide(code: bytes, arch: int, number: int, *arguments: int) -> int:
    """Run the filter as the kernel does; return its verdict without the error number."""
    words = struct.pack("<IIQ6Q", number, arch, 0, *(*arguments, *[0] * (6 - len(arguments))))
    at, accumulator = 0, 0
    while True:
        what, yes, no, constant = struct.unpack_from("HBBI", code, 8 * at)
        at += 1
        if what == 0x20:
            accumulator = struct.unpack_from("<I", words, constant)[0]
        elif what == 0x54:
            accumulator &= constant
        elif what == 0x06:
            return int(constant)
        else:
            holds = {0x15: accumulator == constant, 0x35: accumulator >= constant, 0x45: bool(accumulator & constant)}
            at += yes if holds[what] else no


@pytest.mark.parametrize("name", ["x86_64", "aarch64"])
@pytest.mark.parametrize("forks", [True, False])
def test_the_filter_decides_as_it_should_on_both_machines(name: str, forks: bool) -> None:
    table, arch = linux_numbers.numbers(name), linux_numbers.AUDIT_ARCH[name]
    code = linux_seccomp.assemble(name, 77, forks)
    assert len(code) // 8 < 4096  # the kernel's limit

    def allowed(call: str, *arguments: int) -> bool:
        verdict = _decide(code, arch, table[call], *arguments)
        assert verdict in (0x7FFF0000, 0x00050001)
        return verdict == 0x7FFF0000

    assert not any(
        allowed(n) for text in linux_numbers.REFUSED.values() for n in linux_numbers.names(text) if n in table
    )
    assert allowed("kill", 77, 9) and not allowed("kill", 78, 9) and not allowed("kill", 0xFFFFFFFF, 9)
    assert not allowed("kill", 0, 9) and allowed("tgkill", 77, 78, 9) and not allowed("tkill", 1, 9)
    assert allowed("prlimit64", 0) and allowed("sched_setaffinity", 77) and not allowed("prlimit64", 1)
    assert allowed("clone", 0x00010F00) and allowed("clone", 17) == forks and not allowed("clone", 0x10000011)
    assert allowed("fcntl", 3, 1030) and not allowed("fcntl", 3, 8) and not allowed("fcntl", 3, 10)
    assert allowed("ioctl", 0, 0x5401) and not allowed("ioctl", 0, 0x5412)
    assert allowed("socketpair", 1, 0x80001) and not allowed("socketpair", 1, 2)
    assert allowed("sendto", 5, 1, 1, 0, 0) and not allowed("sendto", 5, 1, 1, 0, 1 << 40)
    assert not allowed("sendto", 5, 1, 1, 0, 4)
    assert _decide(code, arch, table["clone3"]) == 0x00050000 | 38
    assert _decide(code, 0x40000003, 1) == 0x80000000  # 32-bit calls end the process
    assert _decide(code, arch, 0) == 0x7FFF0000
    if name == "x86_64":
        assert _decide(code, arch, 0x40000000 | 41) == 0x00050001
        assert allowed("fork") == forks and allowed("vfork") == forks


def test_the_answers_are_carved_out_of_what_may_be_read(tmp_path: Path) -> None:
    packages = tmp_path / "venv" / "lib" / "site-packages"
    for folder in ("torch", "autograder/_solutions", "numpy"):
        (packages / folder).mkdir(parents=True)
    (packages / "link").symlink_to(packages / "autograder")
    (tmp_path / "venv" / "bin").mkdir()
    found = linux_files.without([str(tmp_path / "venv"), "/usr"], [str(packages / "autograder")])
    assert set(found) == {
        "/usr",
        *(str(path) for path in (tmp_path / "venv/bin", packages / "torch", packages / "numpy")),
    }
    assert linux_files.without([str(packages / "autograder" / "_solutions")], [str(packages / "autograder")]) == []


def test_the_kit_and_its_answers_are_hidden_and_python_is_not() -> None:
    hidden, readable = linux_files.hidden_paths(), linux_files.readable_paths()
    kit = Path(__file__).resolve().parents[1]
    assert str(kit / "autograder") in hidden and str(kit / "solutions") in hidden
    assert str(kit) not in readable and sys.prefix in readable and "/usr" in readable


@pytest.mark.skipif(not ROOT, reason="only root can try to be another user")
def test_trying_to_be_another_user_leaves_us_as_we_were(tmp_path: Path) -> None:
    before = (os.getresuid(), os.getresgid(), os.getgroups())
    closed = tmp_path / "closed"
    closed.mkdir(0o700)
    slot = linux_user.pick_slot()
    assert slot is not None
    assert linux_user.can_live_as(slot, ["/usr"])
    assert not linux_user.can_live_as(slot, ["/usr", str(closed)])
    assert (os.getresuid(), os.getresgid(), os.getgroups()) == before


@pytest.mark.skipif(not ROOT, reason="this is an ordinary user already")
def test_all_of_this_holds_for_an_ordinary_user_too() -> None:
    command = [sys.executable, "-m", "pytest", __file__, "-q", "-p", "no:cacheprovider", "-p", "no:randomly"]
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("as_ordinary_user.py")), *command],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parents[1],
        timeout=500,
    )
    if done.returncode == 77:
        pytest.skip(done.stdout.strip())
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
    assert done.stdout.count(".") > 100  # most of it can be shown there
