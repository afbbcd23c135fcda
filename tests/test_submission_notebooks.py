"""A notebook is graded by the code in its cells; magics and shell lines are never code."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from submission_samples import CLASSES, MODEL, STUBS, fill, notebook, read, zipped

from autograder.submission import Submission
from autograder.submission.book import read_book
from autograder.submission.limits import Refused
from autograder.submission.notebook import cell_of, to_python
from autograder.verdict import Verdict


def code_cells(data: bytes, name: str) -> list[str]:
    return [cell.text for cell in read_book(data, name).cells if cell.kind == "code"]


def read_notebook(folder: Path, text: str | bytes) -> Submission:
    return read(fill(folder, {"hw.ipynb": text}) / "hw.ipynb")


def test_code_cells_are_joined_in_order(tmp_path: Path) -> None:
    work = read_notebook(tmp_path, notebook("import torch", STUBS["mlp.py"]))
    assert work.tree["model.py"].decode() == f"# %% cell 1\nimport torch\n\n# %% cell 2\n{STUBS['mlp.py']}\n"
    assert (work.student, set(work.files), work.lenient) == ("hw", {"hw.ipynb"}, frozenset({"model.py"}))
    assert work.sources == dict.fromkeys(CLASSES, "model.py")


def test_nbformat_3_is_read(tmp_path: Path) -> None:
    cells = [{"cell_type": "code", "input": MODEL, "language": "python"}, {"cell_type": "markdown", "source": "x"}]
    work = read_notebook(tmp_path, json.dumps({"worksheets": [{"cells": cells}], "nbformat": 3}))
    assert MODEL in work.tree["model.py"].decode()


def test_a_notebook_in_a_folder_or_an_archive_is_found(tmp_path: Path) -> None:
    files = {"hw.ipynb": notebook(MODEL), "helper.py": "x = 1", ".ipynb_checkpoints/hw-checkpoint.ipynb": "{}"}
    (tmp_path / "ada.zip").write_bytes(zipped({f"top/{name}": text for name, text in files.items()}))
    for work in (read(fill(tmp_path / "ada", files)), read(tmp_path / "ada.zip")):
        assert set(work.tree) == {"model.py", "helper.py"} and work.lenient == {"model.py"}
        assert set(work.files) == {"hw.ipynb", "helper.py"}


def test_model_py_goes_before_a_notebook(tmp_path: Path) -> None:
    work = read(fill(tmp_path, {"model.py": MODEL, "hw.ipynb": "not even JSON"}))
    assert work.tree == {"model.py": MODEL.encode()} and not work.lenient and not work.warnings


def test_a_notebook_fills_in_for_the_stubs_that_are_missing(tmp_path: Path) -> None:
    work = read(fill(tmp_path, {"mlp.py": STUBS["mlp.py"], "hw.ipynb": notebook(STUBS["gpt.py"])}))
    assert work.sources["MLP"] == "mlp.py" and work.sources["GPT"] == "model.py"
    alone = read(fill(tmp_path / "b", {**STUBS, "play.ipynb": notebook(MODEL)}))
    assert set(alone.tree) == set(STUBS)
    beside = read(fill(tmp_path / "c", {"mlp.py": STUBS["mlp.py"], "play.ipynb": notebook("from mlp import MLP")}))
    assert set(beside.tree) == set(beside.files) == {"mlp.py"}


def test_of_several_notebooks_those_that_define_the_classes_count(tmp_path: Path) -> None:
    files: dict[str, str | bytes] = {
        "1.ipynb": notebook(STUBS["mlp.py"]),
        "2.ipynb": notebook("import torch"),
        "3.ipynb": notebook(STUBS["gpt.py"], "a = 1"),
        "4.ipynb": notebook("from model import GPT"),
        "5.ipynb": "broken",
    }
    work = read(fill(tmp_path, files))
    source = work.tree["model.py"].decode()
    assert "class MLP" in source and "class GPT" in source and "# %% cell 2 of 3.ipynb\na = 1" in source
    assert "torch" not in source and "from model" not in source
    assert set(work.files) == {"1.ipynb", "3.ipynb"}
    assert any("5.ipynb is not a notebook" in warning for warning in work.warnings)


def test_several_notebooks_about_something_else_are_not_an_answer(tmp_path: Path) -> None:
    work = read(fill(tmp_path, {"a.ipynb": notebook("x = 1"), "b.ipynb": notebook("y = 1")}))
    assert work.problem == f"None of the notebooks (a.ipynb, b.ipynb) defines {', '.join(CLASSES)}."
    assert work.verdict is Verdict.NOT_ATTEMPTED


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        ("%matplotlib inline\nx = 1", "# %matplotlib inline\nx = 1"),
        ("!pip install torch\nx = 1", "# !pip install torch\nx = 1"),
        ("!pip install \\\n  torch\nx = 1", "# !pip install \\\npass  # torch\nx = 1".replace("pass  #", "  pass  #")),
        ("files = !ls\nt = %timeit f()", "# files = !ls\n# t = %timeit f()"),
        ("?print\nGPT?\nnn.Linear??\n?", "# ?print\n# GPT?\n# nn.Linear??\n# ?"),
        ("%%bash\nrm -rf /\necho", "# %%bash\n# rm -rf /\n# echo"),
        ("\n%%writefile model.py\nx = 1", "# \n# %%writefile model.py\n# x = 1"),
        ("%%time\nx = 1", "# %%time\nx = 1"),
        ("if True:\n    !ls\ny = 1", "if True:\n    pass  # !ls\ny = 1"),
        ("a = (5\n  %b)", "a = (5\n  %b)"),
        ("a = 5 \\\n%b", "a = 5 \\\n%b"),
        ('s = """\n%time\n!ls\n"""\n!ls', 's = """\n%time\n!ls\n"""\n# !ls'),
        ("!echo \"it's (\nx = 1\n%time", "# !echo \"it's (\nx = 1\n# %time"),
        ("s = 'it\\'s'  # what's (\n%time", "s = 'it\\'s'  # what's (\n# %time"),
        ("print(x if y != z else w)\nx %= 2", "print(x if y != z else w)\nx %= 2"),
    ],
)
def test_magics_and_shell_lines_become_comments(cell: str, expected: str) -> None:
    assert to_python([cell]) == f"# %% cell 1\n{expected}\n"


def test_code_around_magics_still_compiles(tmp_path: Path) -> None:
    work = read_notebook(tmp_path, notebook("%%capture\n!pip install torch", "for i in range(3):\n    %time\n", MODEL))
    compile(work.tree["model.py"], "model.py", "exec")


def test_half_a_surrogate_pair_does_not_stop_the_reader(tmp_path: Path) -> None:
    work = read_notebook(tmp_path, notebook("s = '\ud83d'\n"))
    assert b"'\\ud83d'" in work.tree["model.py"]


@pytest.mark.parametrize(
    ("text", "words", "verdict"),
    [
        ("my GPT", "hw.ipynb is not a notebook (not valid JSON)", Verdict.FAILED),
        ("Mine:\n```\nclass GPT: ...\n```", "hw.ipynb is not a notebook but text with code between", Verdict.FAILED),
        ("", "hw.ipynb is not a notebook (not valid JSON)", Verdict.FAILED),
        (b"\xff\xfe\xfd{}", "hw.ipynb is not a notebook (not valid JSON)", Verdict.FAILED),
        ('{"cells": ' + "9" * 5000 + "}", "hw.ipynb is not a notebook (not valid JSON)", Verdict.FAILED),
        ("[1, 2]", "hw.ipynb is not a notebook (it has no cells)", Verdict.FAILED),
        ('{"cells": 3}', "hw.ipynb is not a notebook (it has no cells)", Verdict.FAILED),
        ("[" * 300_000, "hw.ipynb is nested too deeply", Verdict.FORBIDDEN),
        ("[" + "[]," * 2_100_000, "hw.ipynb holds too much", Verdict.FORBIDDEN),
        (notebook("#" * 1_000_001), "The code in hw.ipynb is too large", Verdict.FORBIDDEN),
    ],
)
def test_what_is_no_notebook_is_said(tmp_path: Path, text: str | bytes, words: str, verdict: Verdict) -> None:
    for path in (tmp_path, tmp_path / "hw.ipynb"):
        work = read(path) if fill(tmp_path, {"hw.ipynb": text}) and path.exists() else None
        assert work is not None and work.problem.startswith(words) and work.verdict is verdict


def test_a_notebook_that_is_too_large_is_refused(tmp_path: Path) -> None:
    with (tmp_path / "hw.ipynb").open("wb") as stream:
        stream.truncate(65_000_000)
    assert read(tmp_path).problem == "hw.ipynb is too large (at most 64 MB)."


def test_odd_cells_are_passed_over() -> None:
    cells = [
        None,
        3,
        {"cell_type": "code"},
        {"cell_type": "code", "source": ["a", 3, "b"]},
        {"cell_type": "code", "source": 7},
    ]
    assert code_cells(json.dumps({"cells": cells}).encode(), "x.ipynb") == ["", "ab", ""]
    sheets = {"worksheets": [None, {"cells": 3}, {"cells": [{"cell_type": "code", "input": "x"}]}]}
    assert code_cells(json.dumps(sheets).encode(), "x.ipynb") == ["x"]


def test_a_line_is_placed_in_its_cell(tmp_path: Path) -> None:
    lines = to_python(["a", "b\nc"]).split("\n")
    assert cell_of(lines, lines.index("c") + 1) == "line 2 of code cell 2"
    assert cell_of(["a", "b"], 2) == "line 2"
    work = read_notebook(tmp_path, notebook("a = 1", "b = 2\nprint 'x'"))
    assert work.explanations == {"model.py": "print needs parentheses in Python 3 (line 2 of code cell 2)."}


def test_a_notebook_without_code_is_named_by_its_own_name(tmp_path: Path) -> None:
    assert read_notebook(tmp_path, notebook()).explanations == {"model.py": "hw.ipynb is empty."}
    assert read_notebook(tmp_path, notebook("# later")).explanations == {"model.py": "hw.ipynb contains no code."}


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["cells", "worksheets", "cell_type", "source", "input", "code"]), inner, max_size=4
        )
    ),
    max_leaves=12,
)


@settings(max_examples=80, deadline=None)
@given(json_values)
def test_no_json_makes_the_reader_raise(value: object) -> None:
    try:
        cells = code_cells(json.dumps({"cells": value}).encode(), "x.ipynb")
    except Refused as refusal:
        assert refusal.sentence.startswith("x.ipynb")
    else:
        assert all(isinstance(cell, str) for cell in cells)


@settings(max_examples=80, deadline=None)
@given(st.text(alphabet="%!?ab= \n\r\\\"'()#", max_size=60))
def test_no_line_of_a_cell_is_lost(cell: str) -> None:
    lines = cell.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    made = to_python([cell]).split("\n")[1:-1]
    assert len(made) == len(lines)
    assert all(line.strip() in out for line, out in zip(lines, made, strict=True))
