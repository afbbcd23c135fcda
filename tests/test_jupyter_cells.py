"""Claims about what a running notebook stands for: which definitions count, and where the other parts come from."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from answers import solutions
from submission_samples import notebook

from autograder.authoring.build import solved_notebooks
from autograder.jupyter import import_parts
from autograder.jupyter.cells import definitions
from autograder.jupyter.checking import grade_gathered
from autograder.jupyter.gathering import STUDENT, gather
from autograder.jupyter.splitting import split
from autograder.sandbox import Nursery
from autograder.submission import read_submission
from autograder.track import load_track

ROOT = Path(__file__).resolve().parent.parent
TRACK = load_track("gpt")
MODULES = ("config", "attention", "mlp", "block", "gpt")


@pytest.fixture(autouse=True)
def own_modules(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in MODULES:
        monkeypatch.delitem(sys.modules, name, raising=False)
    yield
    for name in MODULES:
        sys.modules.pop(name, None)


@pytest.fixture(scope="session")
def solved() -> dict[str, str]:
    return solved_notebooks(ROOT, TRACK)


def fill(folder: Path, texts: dict[str, str]) -> Path:
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    return folder


def test_the_newest_definition_of_a_name_counts() -> None:
    cells = ["import torch", "class A:\n    x = 1", "class A:\n    x = 2", "print(A)", "A()"]
    assert definitions(cells) == "import torch\n\nclass A:\n    x = 2\n"


def test_running_a_cell_again_or_calling_things_changes_nothing() -> None:
    once = ["import torch", "class A:\n    x = 1"]
    assert definitions([*once, "check(A)", *once, "2 + 2", ""]) == definitions(once)


def test_a_cell_that_was_no_python_is_left_out_and_the_last_good_one_stays() -> None:
    assert definitions(["class A:\n    x = 1", "class A:\n    x = (", "1 +", "\ud800 = 1"]) == "class A:\n    x = 1\n"


def test_a_method_put_into_a_class_later_counts_until_the_class_is_defined_anew() -> None:
    patched = ["class A:\n    pass", "A.forward = lambda self: 1"]
    assert "A.forward" in definitions(patched)
    assert "A.forward" not in definitions([*patched, patched[0]])


def test_a_cell_stays_while_one_of_its_names_is_still_its_own() -> None:
    cells = ["a, b = 1, 2\nc: int = 3\ntry:\n    import d\nexcept ImportError:\n    pass", "a = 4", "b = c = 5"]
    assert (
        definitions(cells).startswith("a, b = 1, 2")
        and definitions([*cells, "import d"]) == "a = 4\n\nb = c = 5\n\nimport d\n"
    )


def test_magics_shell_lines_and_our_own_imports_are_never_code() -> None:
    cell = "%matplotlib inline\n!rm -rf x\nfrom autograder.jupyter import check, hint\nx = 1"
    text = definitions([cell, "%%bash\nrm -rf y", "%%time\ny = 2"])
    assert [line for line in text.splitlines() if line and not line.startswith("#")] == ["x = 1", "y = 2"]


def test_a_lone_class_is_graded_under_the_name_of_its_part(tmp_path: Path) -> None:
    found = gather(TRACK, [solutions()["attention.py"]], tmp_path)
    assert found.places == {"CausalSelfAttention": "this notebook"}
    assert set(found.submission.tree) == found.submission.lenient == {"attention.py"}
    assert not found.submission.problem and list(tmp_path.iterdir()) == []


def test_parts_that_the_notebook_lacks_come_from_beside_it(tmp_path: Path, solved: dict[str, str]) -> None:
    fill(tmp_path, {name: solved[name] for name in ("attention.ipynb", "block.ipynb")})
    fill(tmp_path, {"mlp.py": solutions()["mlp.py"], "attention.py": "class CausalSelfAttention: ..."})
    found = gather(TRACK, [solutions()["gpt.py"]], tmp_path)
    assert found.places == {
        "GPT": "this notebook",
        "CausalSelfAttention": "attention.ipynb",
        "MLP": "mlp.py",
        "Block": "block.ipynb",
    }
    assert found.submission.lenient == {"gpt.py", "attention.py", "block.py"}
    assert b"softmax" in found.submission.tree["attention.py"]


def test_what_is_in_the_notebook_goes_before_what_was_saved(tmp_path: Path, solved: dict[str, str]) -> None:
    fill(tmp_path, {"mlp.ipynb": solved["mlp.ipynb"]})
    found = gather(TRACK, ["class MLP:\n    now = True"], tmp_path)
    assert found.places["MLP"] == "this notebook" and b"now = True" in found.submission.tree["mlp.py"]


def test_a_notebook_with_several_classes_serves_the_saved_ones_that_import_them(
    tmp_path: Path, solved: dict[str, str]
) -> None:
    fill(tmp_path, {"block.ipynb": solved["block.ipynb"]})
    found = gather(TRACK, [solutions()["attention.py"], solutions()["mlp.py"]], tmp_path)
    own = {part: found.submission.tree[f"{part}.py"] for part in ("attention", "mlp")}
    assert b"class CausalSelfAttention" in own["attention"] and b"class MLP" not in own["attention"]
    assert b"class MLP" in own["mlp"] and found.submission.sources["Block"] == "block.py"
    assert found.submission.shown_as == {"attention.py": STUDENT, "mlp.py": STUDENT, "block.py": "block.ipynb"}


def test_a_notebook_that_a_saved_one_imports_from_and_is_imported_by_goes_in_no_circle(
    tmp_path: Path, solved: dict[str, str], nursery: Nursery
) -> None:
    fill(tmp_path, {name: solved[name] for name in ("config.ipynb", "mlp.ipynb", "block.ipynb")})
    cells = [solutions()["attention.py"], "WIDE = 2", solutions()["gpt.py"], "CausalSelfAttention.WIDE = WIDE"]
    found = gather(TRACK, cells, tmp_path)
    report = grade_gathered(found, TRACK, 7, [], nursery)
    assert report.score == 100, [part.diagnosis for part in report.parts.values()]
    attention = found.submission.tree["attention.py"].decode()
    assert "CausalSelfAttention.WIDE" in attention and "WIDE = 2" in attention and "Block" not in attention


def test_what_a_part_does_not_need_of_the_notebook_is_not_in_its_file() -> None:
    source = (
        "import math; from block import Block\n@decorated\nclass MLP:\n    act = bend\n\ndef bend(x):\n    return x\n"
        "class GPT:\n    layer = Block\n    head = MLP\ntry:\n    speed = 3\nexcept ValueError:\n    speed = 4\n"
    )
    files = split(source, [TRACK.part("mlp"), TRACK.part("gpt")], TRACK)
    assert files["mlp.py"].splitlines() == [
        *("import math", "@decorated", "class MLP:", "    act = bend"),
        *("", "def bend(x):", "    return x", *[""] * 7),
    ]
    assert files["gpt.py"].startswith("import math; from block import Block\nfrom mlp import MLP\n")
    assert "bend" not in files["gpt.py"]


@pytest.mark.parametrize("text", ["no JSON", "[]", '{"cells": 3}'])
def test_a_damaged_notebook_beside_it_is_told_and_takes_nothing_else_down(tmp_path: Path, text: str) -> None:
    fill(tmp_path, {"mlp.ipynb": text})
    found = gather(TRACK, [solutions()["attention.py"]], tmp_path)
    assert "mlp.ipynb is not a notebook" in found.notices[0] and set(found.places) == {"CausalSelfAttention"}


def test_five_notebooks_handed_in_together_are_one_submission(tmp_path: Path, solved: dict[str, str]) -> None:
    submission = read_submission(fill(tmp_path, solved), TRACK)
    text = submission.tree["model.py"].decode()
    optional = {name: part.file for part in TRACK.optional for name in part.names}
    assert not submission.problem and submission.sources == dict.fromkeys(TRACK.classes, "model.py") | optional
    assert "# from attention import CausalSelfAttention" in text and "# from autograder.jupyter import" in text
    assert "\nfrom attention" not in text


def test_an_import_from_a_stub_that_is_there_stays_and_a_long_one_goes_whole(tmp_path: Path) -> None:
    cell = "from attention import (\n    CausalSelfAttention,\n)\nfrom mlp import MLP\nclass Block: ..."
    fill(tmp_path, {"w.ipynb": notebook(cell), "mlp.py": "class MLP: ..."})
    text = read_submission(tmp_path, TRACK).tree["model.py"].decode()
    assert [line for line in text.splitlines() if line and not line.lstrip().startswith(("#", "pass"))] == [
        "from mlp import MLP",
        "class Block: ...",
    ]


# import_parts


def test_a_part_is_imported_from_its_notebook_with_the_parts_that_it_uses(
    tmp_path: Path, solved: dict[str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(fill(tmp_path, solved))
    import_parts("block")
    from block import Block  # type: ignore[import-not-found]

    assert Block.__module__ == "block" and sys.modules["mlp"].MLP is sys.modules["block"].MLP
    assert capsys.readouterr().out == ""


def test_what_cannot_be_imported_is_said_in_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    book = {"cells": [{"cell_type": "code", "source": "x = 1 / 0\nclass MLP(nm.Module): ..."}]}
    monkeypatch.chdir(fill(tmp_path, {"mlp.ipynb": json.dumps(book), "gpt.ipynb": "no"}))
    import_parts("mlp", "attention", "nonsense", "gpt")
    told = capsys.readouterr().out
    assert "mlp.ipynb does not run (NameError: name 'nm' is not defined)" in told
    assert "There is no attention.ipynb" in told and "There is no part 'nonsense'" in told
    assert "gpt.ipynb is not a notebook" in told and "mlp" not in sys.modules
