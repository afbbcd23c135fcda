"""The student kit: it grades as the live oracle does, holds no answer, and comes out the same each time."""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from answers import SOLUTIONS, solutions, write
from filelock import FileLock
from grade_cases import table
from typer.testing import CliRunner

from autograder.authoring import dictation
from autograder.authoring import release as authoring
from autograder.authoring.canary import leaks, telling_lines
from autograder.authoring.release import Kit, ReleaseError, release
from autograder.cli import app
from autograder.sandbox import Nursery
from autograder.track import load_track

SEED = 11
ROOT = Path(__file__).parents[1]
CASES = ROOT / "tests" / "cases"
#: One of each kind of question to the oracle: a known mistake, a wrong loss, no logits, a leak, missing biases, shared
#: norms, other names, gradients.
HANDED = (
    "faulty/attn_no_scale",
    "faulty/gpt_loss_sum",
    "faulty/gpt_returns_probs",
    "faulty/attn_mask_missing",
    "faulty/attn_two_no_mask_no_scale",
    "faulty/attn_c_proj_no_bias",
    "faulty/mlp_no_biases_flag",
    "faulty/block_post_norm",
    "faulty/block_shared_ln",
    "renamed/separate_qkv",
    "faulty/attn_detach_weights",
    "faulty/mlp_gelu_detached_gate",
    "faulty/block_stream_detached",
    "faulty/gpt_padding_idx",
    "faulty/gpt_loss_first_half_detached",
)


@pytest.fixture(scope="session")
def whole_kit(tmp_path_factory: pytest.TempPathFactory) -> Kit:
    return release(load_track("gpt"), tmp_path_factory.mktemp("whole"), (SEED,))


@pytest.fixture(scope="session")
def kit(tmp_path_factory: pytest.TempPathFactory) -> Kit:
    """A kit of one seed, from two witnesses alone: built once for all workers of a test run, and quickly."""
    shared = tmp_path_factory.getbasetemp()
    shared = shared.parent if os.environ.get("PYTEST_XDIST_WORKER") else shared
    kept = shared / "kit.json"
    with FileLock(shared / "kit.lock"):
        if not kept.exists():
            all_of_them = dictation.witnesses
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(dictation, "witnesses", lambda *given: list(all_of_them(*given))[:2])
                patch.setattr(dictation, "PAIR_CASES", 1)
                made = release(load_track("gpt"), shared / "kits", (SEED,))
            kept.write_text(json.dumps([made.version, str(made.folder), str(made.archive), made.size, made.files]))
    version, folder, archive, size, files = json.loads(kept.read_text())
    return Kit(version, Path(folder), Path(archive), size, files)


@pytest.fixture(scope="session")
def unpacked(kit: Kit, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The kit as a student has it: out of the zip, without a checkout."""
    return unpack(kit, tmp_path_factory.mktemp("student"))


def unpack(kit: Kit, folder: Path) -> Path:
    with zipfile.ZipFile(kit.archive) as archive:
        archive.extractall(folder)
    return folder / kit.folder.name


def run(unpacked: Path, *words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(unpacked), "PYTHONDONTWRITEBYTECODE": "1"}
    environment.pop("WORKSHOP_SOLUTIONS", None)
    return subprocess.run(
        [sys.executable, *words], cwd=cwd, env=environment, capture_output=True, text=True, timeout=300, check=False
    )


def agree(unpacked: Path, folders: list[str], nursery: Nursery, cwd: Path) -> dict[str, Any]:
    """Return what the kit says of the folders, once it is the same as what live grading says."""
    done = run(unpacked, str(ROOT / "tests" / "grade_cases.py"), str(SEED), *folders, cwd=cwd)
    assert done.returncode == 0, done.stderr
    said: dict[str, Any] = json.loads(done.stdout)
    assert said == json.loads(json.dumps(table(SEED, folders, nursery)))
    return said


def test_a_kit_gives_the_points_and_sentences_of_the_live_grading(
    unpacked: Path, nursery: Nursery, tmp_path: Path
) -> None:
    agree(unpacked, [str(CASES / name) for name in HANDED[:1]], nursery, tmp_path)


@pytest.mark.slow
def test_a_whole_kit_agrees_on_every_way_to_ask(whole_kit: Kit, nursery: Nursery, tmp_path: Path) -> None:
    two = solutions()
    for find, change in ((" / math.sqrt(self.head_dim)", ""), ("return self.c_proj(y)", "return y")):
        two["attention.py"] = two["attention.py"].replace(find, change)
    folders = [str(SOLUTIONS), str(write(tmp_path / "two_mistakes", two)), *(str(CASES / name) for name in HANDED)]
    said = agree(unpack(whole_kit, tmp_path / "kit"), folders, nursery, tmp_path)
    assert said[folders[0]]["score"] == 100.0
    assert "Two mistakes at once" in json.dumps(said[folders[1]])
    assert "its gate is detached" in json.dumps(said[str(CASES / "faulty/mlp_gelu_detached_gate")])
    assert "padding_idx=0" in json.dumps(said[str(CASES / "faulty/gpt_padding_idx")])
    assert "the first half of the positions" in json.dumps(said[str(CASES / "faulty/gpt_loss_first_half_detached")])


def test_check_in_a_kit_draws_the_kits_seed_and_names_the_mistake(unpacked: Path, tmp_path: Path) -> None:
    shutil.copytree(CASES / "faulty" / "attn_no_scale", tmp_path / "work")
    done = run(unpacked, "-m", "autograder", "check", "attention", "--json", "--path", "work", cwd=tmp_path)
    report = json.loads(done.stdout)
    assert done.returncode == 1
    assert report["seed"] == SEED
    assert "not divided by sqrt(head_dim)" in done.stdout


def test_a_kit_refuses_a_seed_that_it_has_no_answers_for(unpacked: Path, tmp_path: Path) -> None:
    done = run(unpacked, "-m", "autograder", "check", "--seed", "12", "--path", str(SOLUTIONS), cwd=tmp_path)
    assert done.returncode == 2
    assert "11 alone" in done.stderr


def test_a_kit_says_its_version_and_builds_no_kits(kit: Kit, unpacked: Path, tmp_path: Path) -> None:
    assert kit.version in run(unpacked, "-m", "autograder", "--version", cwd=tmp_path).stdout
    done = run(unpacked, "-m", "autograder", "release", cwd=tmp_path)
    assert done.returncode == 3
    assert "student kit itself" in done.stderr


def test_a_damaged_kit_says_so(kit: Kit, tmp_path: Path) -> None:
    shutil.copytree(kit.folder, tmp_path / "kit")
    (tmp_path / "kit" / "autograder" / "_sealed" / "release.json").write_text("{")
    done = run(tmp_path / "kit", "-m", "autograder", "check", "--path", str(SOLUTIONS), cwd=tmp_path)
    assert done.returncode == 3
    assert "damaged" in done.stderr
    assert "Traceback" not in done.stderr


def test_what_the_kit_has_no_answer_to_is_left_to_the_instructor_and_costs_no_verdict(
    unpacked: Path, tmp_path: Path
) -> None:
    files = solutions()
    files["gpt.py"] = files["gpt.py"].replace(
        '"ln_f": nn.LayerNorm(config.n_embd)', '"ln_f": nn.LayerNorm(config.n_embd, bias=False)'
    )
    files["block.py"] = files["block.py"].replace(
        "self.ln_1 = nn.LayerNorm(config.n_embd)", "self.ln_1 = nn.LayerNorm(config.n_embd, bias=False)"
    )
    work = write(tmp_path / "work", files)
    done = run(unpacked, str(ROOT / "tests" / "grade_cases.py"), str(SEED), str(work), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    (graded,) = json.loads(done.stdout).values()
    values = graded["checks"]["block.values"]
    assert values[0] == "blocked"
    assert "instructor" in values[2]
    assert any("instructor" in warning for warning in graded["warnings"])
    assert graded["checks"]["gpt.values"][0] == "passed"


def test_no_member_of_a_kit_holds_a_line_of_the_solutions(kit: Kit) -> None:
    wanted = set()
    for file, text in solutions().items():
        stub = (ROOT / "exercises" / file).read_text()
        for region in text.split("### BEGIN SOLUTION")[1:]:
            for line in region.split("### END SOLUTION")[0].splitlines():
                code = line.split("  #")[0].strip()
                if len(code) >= 20 and code not in stub and "wte.weight = self.lm_head" not in code:
                    wanted.add(code)
    assert len(wanted) > 25
    with zipfile.ZipFile(kit.archive) as archive:
        for name in archive.namelist():
            data = archive.read(name)
            assert not [line for line in wanted if line.encode() in data], name
            assert not name.endswith((".pyc", ".pkl", ".pt", ".zip", "variants.py", "misconceptions.toml")), name
            if name.endswith(".py") and "/exercises/" not in name:
                classes = {node for node in compile(data, name, "exec").co_consts if hasattr(node, "co_name")}
                assert not {code.co_name for code in classes} & {"CausalSelfAttention", "MLP", "Block", "GPT"}, name


def test_a_kit_is_small_sorted_and_of_one_time(kit: Kit) -> None:
    assert kit.archive.stat().st_size == kit.size < 5_000_000
    with zipfile.ZipFile(kit.archive) as archive:
        names = archive.namelist()
        assert names == sorted(names)
        assert len(names) == kit.files
        assert {info.date_time for info in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}
        assert {name.split("/")[0] for name in names} == {kit.folder.name}
        for name in names:
            assert (kit.folder.parent / name).read_bytes() == archive.read(name)


def test_a_kit_can_be_installed_as_it_is(kit: Kit) -> None:
    project = (kit.folder / "pyproject.toml").read_text()
    assert "_solutions" not in project
    for name in ("README.md", "LICENSE", "exercises/gpt.py", "constraints.txt", "workshop_guide/README.md"):
        assert (kit.folder / name).is_file(), name
    assert kit.version in (kit.folder / "README.md").read_text()
    assert "instructors.md" not in (kit.folder / "workshop_guide" / "README.md").read_text()


@pytest.mark.slow
def test_the_same_course_and_seed_give_the_same_bytes(whole_kit: Kit, tmp_path: Path) -> None:
    again = release(load_track("gpt"), tmp_path, (SEED,))
    assert again.archive.read_bytes() == whole_kit.archive.read_bytes()
    assert again.size < 5_000_000


def test_the_canary_finds_a_line_in_text_in_an_archive_and_in_what_is_compiled() -> None:
    text = "### BEGIN SOLUTION\n    scores = q @ k.transpose(-2, -1)  # why\n    x = 1\n    ### END SOLUTION\n"
    (line,) = lines = telling_lines([text], ["def f():\n    raise NotImplementedError\n"])
    assert line == "scores = q @ k.transpose(-2, -1)"
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("inner.py", line)
    members = {"a.md": f"so:   {line}".encode(), "b.zip": packed.getvalue(), "c.pyc": b"", "d.py": b"x = 1"}
    assert [sentence.split()[0] for sentence in leaks(members, lines)] == ["a.md", "b.zip!inner.py", "c.pyc"]


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Kit]:
    """Build kits whose sealed answers are a few bytes."""

    def build(out: Path, *, passed: bool = True, size: int = 4) -> Kit:
        verdict = authoring.Verdict.PASSED if passed else authoring.Verdict.FAILED
        report = SimpleNamespace(verdict=verdict, parts={}, error="the sandbox is gone")
        data = os.urandom(size) if size > 4 else b"1234"
        monkeypatch.setattr(authoring, "dictate", lambda *_: (data, {"plain": report}))
        return release(load_track("gpt"), out, (1,))

    return build


def test_a_kit_that_is_there_already_is_kept_and_one_that_was_changed_is_not_overwritten(
    quick: Callable[..., Kit], tmp_path: Path
) -> None:
    first = quick(tmp_path)
    assert quick(tmp_path) == first
    for name in ("gpt.py", "notebooks/gpt.ipynb"):
        assert f"# gpt-workshop-kit {first.version} " in (first.folder / "exercises" / name).read_text()
    (first.folder / "README.md").write_text("mine")
    with pytest.raises(ReleaseError, match="was changed"):
        quick(tmp_path)
    assert (first.folder / "README.md").read_text() == "mine"
    assert not list(tmp_path.glob(".kit-*"))


def test_no_kit_is_built_from_solutions_that_fail_nor_one_too_large_nor_where_nothing_can_be_written(
    quick: Callable[..., Kit], tmp_path: Path
) -> None:
    with pytest.raises(ReleaseError, match="do not pass every check under seed 1"):
        quick(tmp_path / "out", passed=False)
    with pytest.raises(ReleaseError, match="fewer seeds"):
        quick(tmp_path / "out", size=6_000_000)
    assert not (tmp_path / "out").exists()
    (tmp_path / "file").write_text("")
    with pytest.raises(ReleaseError, match="cannot be written"):
        quick(tmp_path / "file")


def test_a_solution_in_the_guide_stops_the_release(
    quick: Callable[..., Kit], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(authoring, "_REFERENCE", solutions()["attention.py"])
    with pytest.raises(ReleaseError, match="must not see"):
        quick(tmp_path / "out")


def test_release_tells_what_it_built_and_why_it_did_not(
    quick: Callable[..., Kit], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    quick(tmp_path / "kits")
    done = CliRunner().invoke(app, ["release", "--out", str(tmp_path / "kits"), "--seed", "1"])
    assert done.exit_code == 0, done.output
    assert "MB packed" in done.output
    monkeypatch.setenv("WORKSHOP_SOLUTIONS", str(tmp_path))
    monkeypatch.setattr(authoring, "find_stubs", lambda *_: (_ for _ in ()).throw(authoring.StubError("No stubs.")))
    done = CliRunner().invoke(app, ["release", "--out", str(tmp_path / "kits")])
    assert done.exit_code == 3
    assert "No kit was built. No stubs." in done.output
