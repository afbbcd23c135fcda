"""Claims about `check`, `hint` and `picture` in a notebook, and about `workshop lab`."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from answers import changed, solutions
from sample_reports import NO_SCALE, report, ungradable
from typer.testing import CliRunner

from autograder.authoring.build import solved_notebooks
from autograder.cli import app
from autograder.hints import load_hints
from autograder.jupyter import check, checking, hint, import_parts, picture
from autograder.progress import Progress, ProgressFile
from autograder.reports.notebook import note_html, report_html, report_text, scoped_style
from autograder.track import load_track
from autograder.verdict import Report, Verdict

ROOT = Path(__file__).resolve().parent.parent
NOTEBOOKS = ROOT / "exercises" / "notebooks"
TRACK = load_track("gpt")


@pytest.fixture(autouse=True)
def here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    for part in TRACK.parts:
        sys.modules.pop(part.file.removesuffix(".py"), None)


@pytest.fixture
def running(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Set which cells were run in the notebook."""

    def run(*cells: str) -> None:
        monkeypatch.setattr(checking, "history", lambda: list(cells))

    return run


@pytest.fixture
def shown(capsys: pytest.CaptureFixture[str]) -> Callable[[], str]:
    return lambda: capsys.readouterr().out


# check


def test_a_wrong_class_is_told_its_mistake_and_progress_is_kept_beside_the_notebook(
    running: Callable[..., None], shown: Callable[[], str], here: Path
) -> None:
    (here / "attention.ipynb").write_text("{}", encoding="utf-8")
    running(changed("attention.py", " / math.sqrt(self.head_dim)", "")["attention.py"], "check(CausalSelfAttention)")
    check("attention", seed=7)
    told = shown()
    assert "not divided by sqrt(head_dim)" in told and "23 / 30" in told and "0 of 5 parts passed" in told
    known = ProgressFile(here, "gpt").read().part("attention")
    assert known.verdict is Verdict.FAILED and known.points == 23
    hint("attention")
    first = shown()
    hint("attention")
    assert "hint 1 of 3" in first and "hint 2 of 3" in shown()
    assert ProgressFile(here, "gpt").read().part("attention").hints_used == 2


def test_right_parts_from_this_notebook_and_from_beside_it_pass_together(
    running: Callable[..., None], shown: Callable[[], str], here: Path
) -> None:
    for name, text in solved_notebooks(ROOT, TRACK).items():
        (here / name).write_text(text, encoding="utf-8")
    running(solutions()["gpt.py"])
    check(seed=7)
    assert "100 of 100 points, 5 of 5 parts passed" in shown()


def test_an_untouched_stub_is_not_attempted(running: Callable[..., None], shown: Callable[[], str], here: Path) -> None:
    running((ROOT / "exercises" / "mlp.py").read_text(encoding="utf-8"))
    check("MLP")
    assert "MLP" in (told := shown()) and "not attempted" in told
    assert not list(here.iterdir()), "a folder without parts gets no file"


@pytest.mark.parametrize(
    ("thing", "message"),
    [
        ("attenton", "There is no part 'attenton'. Did you mean attention?"),
        (3, "takes a class or the name of a part, not int"),
        (dict, "There is no part 'dict'"),
        ("mlp", "There is no MLP here yet: run the cell that defines it"),
    ],
)
def test_what_cannot_be_checked_is_said_in_a_sentence(
    thing: Any, message: str, running: Callable[..., None], shown: Callable[[], str]
) -> None:
    running("x = 1")
    check(thing)
    assert message in shown()


def test_an_interrupt_ends_the_check_quietly(
    running: Callable[..., None], shown: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> Report:
        raise KeyboardInterrupt

    monkeypatch.setattr(checking, "grade_gathered", interrupted)
    running(solutions()["mlp.py"])
    check("mlp")
    assert "Interrupted" in shown()


def test_our_own_failure_is_not_the_student_s(
    running: Callable[..., None], shown: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> Report:
        raise RuntimeError("no disk")

    monkeypatch.setattr("autograder.grading.grade", broken)
    running(solutions()["mlp.py"])
    check("mlp")
    assert "The grader failed (RuntimeError: no disk)" in shown()


def test_progress_that_cannot_be_written_is_told_and_the_report_is_shown(
    running: Callable[..., None], shown: Callable[[], str], here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (here / "mlp.ipynb").write_text("{}", encoding="utf-8")
    (here / ".workshop-progress.json").mkdir()
    monkeypatch.setattr(checking, "grade_gathered", lambda *_: report("ada"))
    running(solutions()["mlp.py"])
    check("mlp")
    assert "not noted" in (told := shown()) and "MLP" in told
    hint("mlp")
    assert "not noted" in (told := shown()) and "hint 1 of 3" in told


def test_a_hint_without_a_part_is_for_the_first_that_is_not_passed(shown: Callable[[], str]) -> None:
    hint()
    assert shown().startswith("config")
    hint("nonsense")
    assert "There is no part 'nonsense'" in shown()


# The look


def test_the_report_is_html_with_evidence_hints_and_progress_and_everything_in_it_is_escaped() -> None:
    wrong = {
        "attention.values": (
            *NO_SCALE["attention.values"][:2],
            "<script>alert(1)</script>",
            NO_SCALE["attention.values"][3],
        )
    }
    graded = report("ada", wrong)  # type: ignore[arg-type]
    ladder = load_hints("gpt").ladder("attention", "general")
    assert ladder is not None
    parts = list(graded.parts.values())
    progress = Progress().with_report(graded)
    html = report_html(graded, parts, TRACK, progress, hints=[ladder], sources="<b>x</b>")
    assert "<b>x</b>" not in html and "<script" not in html and "&lt;script" in html and html.count("<style>") == 1
    assert "Hint 1 of 3" in html and "of 5 parts passed" in html
    for part in parts:
        assert part.title in html and part.title in report_text(graded, parts, TRACK, progress)
    ours = report_html(ungradable("ada"), [], TRACK, Progress())
    assert "Not your fault. The sandbox could not start" in ours
    assert "<i>" not in note_html("<i>") and "&lt;i&gt;" in note_html("<i>")


def test_our_style_stays_within_our_own_box() -> None:
    style = scoped_style()
    assert style.startswith(".gpt-workshop.gpt-workshop {") and style.count("{") == style.count("}")
    assert not any(line.startswith((":root", "body", "html")) for line in style.splitlines())


# picture


def test_pictures_show_the_triangle_the_diagonal_and_the_parameters(shown: Callable[[], str], here: Path) -> None:
    for name, text in solved_notebooks(ROOT, TRACK).items():
        (here / name).write_text(text, encoding="utf-8")
    import_parts("config", "gpt")
    for name, stem in (("CausalSelfAttention", "attention"), ("Block", "block"), ("GPT", "gpt")):
        picture(getattr(sys.modules[stem], name))
        assert f"Who hears whom in {name}" in (told := shown()) and "it must be empty: it is" in told
        assert ("Attention weights of head 0: each row adds up to 1" in told) == (name == "CausalSelfAttention")
        assert ("Loss before training" in told and "ln 65" in told) == (name == "GPT")
    picture(sys.modules["mlp"].MLP)  # type: ignore[attr-defined]
    assert "  7 " + 14 * " " + "██\n" in shown(), "the diagonal alone"
    picture(sys.modules["config"].GPTConfig)  # type: ignore[attr-defined]
    assert "10,770,816" in shown()


def test_a_leak_shows_in_the_picture(shown: Callable[[], str]) -> None:
    from torch import Tensor, nn

    class CausalSelfAttention(nn.Module):
        def __init__(self, config: Any) -> None:
            super().__init__()

        def forward(self, x: Tensor) -> Tensor:
            return x + x.mean(1, keepdim=True)

    picture(CausalSelfAttention)
    assert "28 are not" in shown()


def test_what_cannot_be_drawn_is_said_in_a_sentence(shown: Callable[[], str]) -> None:
    class MLP:
        def __init__(self, config: object) -> None:
            raise NotImplementedError

    class Block:
        def __init__(self, config: object) -> None:
            raise TypeError("<oops>")

    picture(MLP)
    assert "Nothing to draw yet: MLP is still to be written." in shown()
    picture(Block)
    assert "Nothing to draw: TypeError: <oops>." in shown()
    picture("mlp")  # type: ignore[arg-type]
    assert "takes the class itself: picture(MLP)" in shown()
    picture("nonsense")  # type: ignore[arg-type]
    assert "There is no part" in shown()


# In a kernel


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[Any]]:
    """Make this process look like a kernel in which cells were run; return what is displayed."""
    import IPython
    import IPython.display

    def start(*cells: str) -> list[Any]:
        shell = SimpleNamespace(kernel=True, history_manager=SimpleNamespace(input_hist_raw=["", *cells]))
        displayed: list[Any] = []
        monkeypatch.setattr(IPython, "get_ipython", lambda: shell)
        monkeypatch.setattr(IPython.display, "display", lambda thing, raw=False: displayed.append(thing))
        monkeypatch.setattr(checking, "grade_gathered", lambda *_: report("ada", NO_SCALE))
        return displayed

    return start


def test_in_a_kernel_the_report_is_html_with_a_button_that_gives_one_hint_after_the_other(
    kernel: Callable[..., list[Any]], here: Path
) -> None:
    (here / "attention.ipynb").write_text("{}", encoding="utf-8")
    displayed = kernel("%matplotlib inline", solutions()["attention.py"])
    check("attention")
    output, box = displayed
    assert "gpt-workshop" in output["text/html"] and "scale" in output["text/plain"]
    assert "Hint 1 of 3" not in output["text/html"], "hints are behind the button"
    button, place = box.children
    button.click()
    first = place.value
    button.click()
    assert "hint 1 of 3" in first and "hint 2 of 3" in place.value


def test_without_widgets_the_hints_unfold_in_the_page(
    kernel: Callable[..., list[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    displayed = kernel(solutions()["attention.py"])
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    check("attention")
    (output,) = displayed
    assert output["text/html"].count("<summary>Hint") == 3 and "</details>" in output["text/html"]


def execute(folder: Path, name: str) -> str:
    """Run a notebook from its top to its end in a kernel of its own; return all that it shows, as plain text."""
    import nbformat
    from nbclient import NotebookClient

    book = nbformat.read(folder / name, 4)
    client = NotebookClient(book, timeout=120, kernel_name="python3", resources={"metadata": {"path": str(folder)}})
    client.execute()
    outputs = [output for cell in book.cells for output in cell.get("outputs", [])]
    assert not any(output.output_type == "error" for output in outputs)
    return "\n".join(output["data"]["text/plain"] for output in outputs if "data" in output)


@pytest.mark.slow  # starts a kernel
def test_a_stub_notebook_runs_to_its_end_and_is_not_attempted(here: Path) -> None:
    assert CliRunner().invoke(app, ["build", "--check"]).exit_code == 0
    for book in NOTEBOOKS.glob("*.ipynb"):
        (here / book.name).write_bytes(book.read_bytes())
    told = execute(here, "block.ipynb")
    assert "not attempted" in told and "Hint for block" in told and "Nothing to draw yet" in told


@pytest.mark.slow  # starts a kernel
def test_the_solution_notebooks_pass(here: Path) -> None:
    for name, text in solved_notebooks(ROOT, TRACK).items():
        (here / name).write_text(text, encoding="utf-8")
    told = execute(here, "gpt.ipynb")  # its last cell checks all five
    assert "5 of 5 parts passed" in told and "Hint for" not in told and "Who hears whom in GPT" in told


# workshop lab


@pytest.fixture
def laboratory(tmp_path: Path) -> dict[str, str]:
    """The environment of a machine with a JupyterLab that only says how it was started."""
    package = tmp_path / "packages" / "jupyterlab"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "__main__.py").write_text(
        "import json, os, sys\n"
        "print(json.dumps([sys.executable, os.environ['JUPYTER_PREFER_ENV_PATH'], *sys.argv[1:]]))\nsys.exit(5)\n",
        encoding="utf-8",
    )
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(package.parent), str(ROOT)])}


def lab(environment: dict[str, str], *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "autograder", "lab", *words]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=60)


def test_lab_opens_jupyterlab_on_copies_and_overwrites_nothing(here: Path, laboratory: dict[str, str]) -> None:
    first = lab(laboratory, "mine", "--no-browser")
    started = json.loads(first.stdout.splitlines()[-1])
    assert first.returncode == 5 and started[:2] == [sys.executable, "1"]
    assert started[2:] == [f"--ServerApp.root_dir={here / 'mine'}", str(here / "mine" / "config.ipynb"), "--no-browser"]
    names = sorted(path.name for path in (here / "mine").iterdir())
    assert names == sorted(path.name for path in NOTEBOOKS.glob("*.ipynb"))
    (here / "mine" / "mlp.ipynb").write_text("my work", encoding="utf-8")
    (here / "mine" / "gpt.ipynb").unlink()
    second = lab(laboratory, "mine", "--", "--port", "9000")
    assert json.loads(second.stdout.splitlines()[-1])[-2:] == ["--port", "9000"]
    assert (here / "mine" / "mlp.ipynb").read_text(encoding="utf-8") == "my work"
    assert "Written to mine: gpt.ipynb" in second.stdout and "Left as they are in mine: config.ipynb" in second.stdout


def test_lab_says_what_to_install_where_there_is_no_jupyterlab(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    result = CliRunner().invoke(app, ["lab", "mine"])
    assert result.exit_code == 2 and 'pip install "gpt-workshop-kit[notebook]"' in result.stderr
    assert not (here / "mine").exists()


def test_ctrl_c_ends_lab_quietly(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name)
    monkeypatch.setattr(subprocess, "run", interrupted)
    result = CliRunner().invoke(app, ["lab", "mine"])
    assert result.exit_code == 0 and "Written to mine: config.ipynb" in result.stdout


def test_lab_says_where_it_cannot_write(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name)
    (here / "mine").write_text("a file", encoding="utf-8")
    result = CliRunner().invoke(app, ["lab", "mine"])
    assert result.exit_code == 2 and "mine cannot be written" in result.stderr
