"""Claims about grading on a Dask cluster: workers are other processes, and may die; same ledger, same files."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import fake_worker
import pytest
from distributed import Client, LocalCluster
from fake_worker import submit
from test_ledger_kills import SAMPLES, files, ledger
from typer.testing import CliRunner, Result

from autograder.cli import app
from autograder.cli import engine as cli_engine
from autograder.cli.class_run import ClassRun
from autograder.verdict import Report

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="kills a process as POSIX systems do")

HERE = Path(__file__).resolve().parent


def local_cluster(*preload: str, workers: int = 1) -> LocalCluster:
    """Return a cluster of processes, which their nannies start again when they die; as one that was there before."""
    return LocalCluster(
        n_workers=workers,
        threads_per_worker=1,
        processes=True,
        memory_limit=0,
        dashboard_address="127.0.0.1:0",
        silence_logs=60,
        preload=list(preload),
    )


@pytest.fixture(scope="module")
def quick() -> Iterator[LocalCluster]:
    """A cluster whose one worker has stand-ins."""
    with local_cluster(str(HERE / "fake_worker.py")) as running:
        yield running


@pytest.fixture
def stand_ins(monkeypatch: pytest.MonkeyPatch) -> None:
    fake_worker.install(monkeypatch)


def workshop(*words: str | Path) -> Result:
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def same(out: Path, undisturbed: Path) -> bool:
    assert ledger(out) == ledger(undisturbed)
    assert files(out) == files(undisturbed)
    return len(files(out)) > 3


# the real thing


def samples(folder: Path, *students: str) -> Path:
    for student in students:
        shutil.copytree(SAMPLES / student, folder / student)
    return folder


def test_real_sandboxes_on_a_worker_find_what_they_find_here(tmp_path: Path) -> None:
    work = samples(tmp_path / "work", "farah", "goran", "ines")
    words = ("grade", work, "--seed", "7", "--out")
    assert workshop(*words, tmp_path / "here", "--jobs", "1").exit_code == 0
    with local_cluster() as cluster:
        there = workshop(*words, tmp_path / "there", "--scheduler", cluster.scheduler_address)
    assert there.exit_code == 0 and "isolation: " in there.output, there.output
    assert same(tmp_path / "there", tmp_path / "here")


@pytest.mark.slow
def test_a_real_worker_killed_in_the_middle_changes_nothing(tmp_path: Path) -> None:
    work, said = samples(tmp_path / "work", "ada", "farah", "goran", "ines"), ""
    words = ["grade", str(work), "--seed", "7", "--out"]
    assert workshop(*words, tmp_path / "here").exit_code == 0
    with local_cluster() as cluster:
        command = [sys.executable, "-u", "-m", "autograder", *words, str(tmp_path / "there")]
        command += ["--scheduler", cluster.scheduler_address]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as run:
            assert run.stdout is not None
            for line in run.stdout:
                said += line
                if line.startswith("[1/4]"):
                    with Client(cluster.scheduler_address, set_as_default=False) as client:
                        (number,) = client.run(os.getpid).values()
                    os.kill(number, signal.SIGKILL)
    assert run.returncode == 0 and "Traceback" not in said, said
    assert same(tmp_path / "there", tmp_path / "here")


# with stand-ins


@pytest.mark.usefixtures("stand_ins")
def test_a_worker_that_dies_in_the_middle_changes_nothing(quick: LocalCluster, tmp_path: Path) -> None:
    died = tmp_path / "died"
    work = submit(tmp_path / "work", ada="pass", bo=f"die {died}", cy="fail", di="pass", ed="raise")
    words = ("grade", work, "--seed", "7", "--out")
    there = workshop(*words, tmp_path / "there", "--scheduler", quick.scheduler_address)
    assert died.exists() and there.exit_code == 3, there.output  # for ed, who is our fault
    assert "bo: 100 / 100" in there.output and "lost its crystal ball" in there.output
    assert workshop(*words, tmp_path / "here").exit_code == 3
    assert same(tmp_path / "there", tmp_path / "here")


@pytest.mark.usefixtures("stand_ins")
def test_what_no_worker_survives_is_our_failure_and_never_a_zero(
    quick: LocalCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quick.scheduler, "allowed_failures", 0)
    work, out = submit(tmp_path / "work", bo="pass"), tmp_path / "out"
    words = ("grade", work, "--seed", "7", "--out", out, "--scheduler", quick.scheduler_address)
    assert workshop(*words).exit_code == 0
    (work / "bo" / "model.py").write_text("# die\n", encoding="utf-8")
    result = workshop(*words)
    assert result.exit_code == 3, result.output
    assert "An earlier grade stays: bo: The workers that had this submission died" in result.output
    assert '"score": 100' in (out / "class.json").read_text(encoding="utf-8")


@pytest.mark.usefixtures("stand_ins")
def test_a_regrade_runs_there_too_and_what_is_known_is_not_sent(quick: LocalCluster, tmp_path: Path) -> None:
    work = submit(tmp_path / "work", ada="pass", bo="fail")
    words = (work, "--out", tmp_path / "out", "--scheduler", quick.scheduler_address)
    assert workshop("grade", *words).exit_code == 0
    assert "2 of 2 from an earlier run" in workshop("grade", *words).output
    assert "0 changed, 2 as before" in workshop("regrade", *words).output


@pytest.mark.usefixtures("stand_ins")
def test_a_lost_scheduler_stops_the_run_and_what_is_done_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    take = ClassRun._take

    def take_and_lose(run: ClassRun, report: Report) -> None:
        take(run, report)
        doomed.close()

    work = submit(tmp_path / "work", **{f"s{number:02}": "pass" for number in range(30)})
    words = ("grade", work, "--seed", "7", "--out", tmp_path / "out")
    with local_cluster(str(HERE / "fake_worker.py")) as doomed, monkeypatch.context() as patch:
        patch.setattr(ClassRun, "_take", take_and_lose)
        result = workshop(*words, "--scheduler", doomed.scheduler_address)
    assert result.exit_code == 3 and "of 30 were graded. Give the same command again to go on." in result.output
    assert "Interrupted" in (tmp_path / "out" / "class.html").read_text(encoding="utf-8")
    end = workshop("grade", work, "--out", tmp_path / "out")
    assert end.exit_code == 0 and "Going on with 30 with seed 7" in end.output, end.output
    assert workshop("grade", work, "--seed", "7", "--out", tmp_path / "here").exit_code == 0
    assert same(tmp_path / "out", tmp_path / "here")


@pytest.mark.usefixtures("stand_ins")
def test_a_cluster_of_its_own_is_started_behind_a_key_and_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import dask

    from autograder.classroom import cluster as room

    started: list[LocalCluster] = []
    asked: dict[str, object] = {}

    def start(**how: object) -> LocalCluster:
        asked.update(how)
        started.append(LocalCluster(**how))
        return started[0]

    monkeypatch.setattr(room, "LocalCluster", start)
    work = submit(tmp_path / "work", ada="pass", bo="fail", cy="pass")
    words = ("grade", work, "--seed", "7", "--out")
    with dask.config.set({"distributed.worker.preload": [str(HERE / "fake_worker.py")]}):
        result = workshop(*words, tmp_path / "there", "--engine", "dask", "--jobs", "2")
    assert result.exit_code == 0, result.output
    assert started[0].scheduler_address.startswith("tls://") and started[0].status.name == "closed"
    assert asked["n_workers"] == 2
    workshop(*words, tmp_path / "here")
    assert same(tmp_path / "there", tmp_path / "here")


# what is told instead of graded


def test_a_scheduler_that_does_not_answer_is_a_usage_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from autograder.classroom import cluster as room

    monkeypatch.setattr(room, "_CONNECT_S", 0.2)
    work = submit(tmp_path / "work", ada="pass")
    result = workshop("grade", work, "--out", tmp_path / "out", "--scheduler", "tcp://127.0.0.1:9")
    assert result.exit_code == 2
    assert "No scheduler answers at tcp://127.0.0.1:9" in result.output and "Nothing was graded" in result.output
    assert not (tmp_path / "out" / "class.json").exists()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--scheduler", "tcp//node1"], "look like tcp://"),
        (["--scheduler", "file:///etc/passwd"], "look like tcp://"),
        (["--scheduler", "tcp://node1:8786", "--jobs", "2"], "leave out --jobs"),
        (["--scheduler", "tcp://node1:8786", "--engine", "local"], "leave out --engine local"),
        (["--engine", "ray"], "'local', 'dask'"),
    ],
)
@pytest.mark.parametrize("command", ["grade", "regrade"])
def test_contradictions_are_usage_errors(command: str, words: list[str], says: str, tmp_path: Path) -> None:
    work = submit(tmp_path / "work", ada="pass")
    result = workshop(command, work, "--out", tmp_path / "out", *words)
    assert result.exit_code == 2 and says in " ".join(result.output.split())
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("missing", "words"),
    [
        ("distributed", ["--engine", "dask"]),
        ("distributed", ["--scheduler", "tcp://node1:8786"]),
        ("cryptography", ["--engine", "dask"]),
    ],
)
def test_without_dask_it_is_said_how_to_install_it(
    missing: str, words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cli_engine.importlib.util, "find_spec", lambda name: None if name == missing else object())
    work = submit(tmp_path / "work", ada="pass")
    result = workshop("grade", work, "--out", tmp_path / "out", *words)
    said = " ".join(result.output.split())
    assert result.exit_code == 2 and 'pip install "gpt-workshop-kit[cluster]"' in said and missing in said
