"""Every accepted form of a submission ends as the same clean tree."""

from __future__ import annotations

import hashlib
import os
import stat
import sys
import unicodedata
from pathlib import Path

import pytest
from submission_samples import CLASSES, MODEL, STUBS, fill, read, tarred, zipped

from autograder.submission import Submission, write_tree

ALL_IN_MODEL = dict.fromkeys(CLASSES, "model.py")
IN_STUBS = dict(zip(CLASSES, STUBS, strict=True))


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def test_a_folder_with_model_py_gives_all_classes_from_it(tmp_path: Path) -> None:
    work = read(fill(tmp_path / "ada", {"model.py": MODEL, "README.md": "hello", "data/input.txt": "x"}))
    assert (work.student, work.problem, work.verdict) == ("ada", "", None)
    assert work.tree == {"model.py": MODEL.encode()}
    assert work.files == {"model.py": sha(MODEL.encode())}
    assert work.sources == ALL_IN_MODEL
    assert not work.warnings and not work.explanations and not work.lenient and not work.suspicious


def test_a_folder_with_the_stub_files_gives_each_class_from_its_own(tmp_path: Path) -> None:
    work = read(fill(tmp_path / "ada", STUBS))
    assert work.sources == IN_STUBS
    assert set(work.tree) == set(STUBS)


def test_stubs_that_are_not_there_are_left_out_of_the_sources(tmp_path: Path) -> None:
    work = read(fill(tmp_path, {"attention.py": STUBS["attention.py"]}))
    assert work.sources == {"CausalSelfAttention": "attention.py"}
    assert not work.problem


def test_a_stub_goes_before_model_py_and_the_student_is_told(tmp_path: Path) -> None:
    work = read(fill(tmp_path, {"model.py": MODEL, "mlp.py": STUBS["mlp.py"]}))
    assert work.sources == {**ALL_IN_MODEL, "MLP": "mlp.py"}
    assert work.warnings == ("MLP is in mlp.py and in model.py: the one in mlp.py is graded.",)


def test_a_stub_that_lacks_its_class_gives_way_to_model_py(tmp_path: Path) -> None:
    work = read(fill(tmp_path, {"model.py": MODEL, "mlp.py": "# class MLP is elsewhere\n"}))
    assert work.sources == ALL_IN_MODEL


@pytest.mark.parametrize(
    "text",
    [
        "from model import MLP\n",
        "from layers import (\n    Other,\n    MLP,\n)\n",
        "from layers import (\n    FeedForward as MLP\n)\n",
        "MLP = make()\n",
        "MLP: type = make()\n",
        "if True:\n\tclass MLP(nn.Module): pass\n",
        "x = 1\rclass MLP:\r    pass\r",
    ],
)
def test_a_stub_may_define_assign_or_import_its_class(tmp_path: Path, text: str) -> None:
    work = read(fill(tmp_path, {"model.py": MODEL, "mlp.py": text}))
    assert work.sources["MLP"] == "mlp.py"


def test_model_py_answers_for_a_class_that_is_nowhere(tmp_path: Path) -> None:
    assert read(fill(tmp_path, {"model.py": "x = 1\n"})).sources == ALL_IN_MODEL


def test_a_stub_answers_for_its_class_when_nothing_else_can(tmp_path: Path) -> None:
    assert read(fill(tmp_path, {"mlp.py": "class Mlp: pass\n"})).sources == {"MLP": "mlp.py"}


def test_everything_in_gpt_py_is_found(tmp_path: Path) -> None:
    assert read(fill(tmp_path, {"gpt.py": MODEL})).sources == dict.fromkeys(CLASSES, "gpt.py")


def test_a_single_file_is_graded_as_model_py_whatever_its_name(tmp_path: Path) -> None:
    fill(tmp_path, {"ada b.py": MODEL})
    work = read(tmp_path / "ada b.py")
    assert (work.student, work.sources, work.tree) == ("ada b", ALL_IN_MODEL, {"model.py": MODEL.encode()})
    assert work.files == {"ada b.py": sha(MODEL.encode())}


def test_a_single_stub_file_stays_what_it_is(tmp_path: Path) -> None:
    fill(tmp_path, {"mlp.py": STUBS["mlp.py"]})
    assert read(tmp_path / "mlp.py").sources == {"MLP": "mlp.py"}


def test_a_single_gpt_py_that_holds_all_is_graded_as_model_py(tmp_path: Path) -> None:
    fill(tmp_path, {"gpt.py": MODEL})
    assert read(tmp_path / "gpt.py").sources == ALL_IN_MODEL


@pytest.mark.parametrize("top", ["", "hand-in/", "a/b/"])
@pytest.mark.parametrize("suffix", [".zip", ".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz", ".ZIP"])
def test_an_archive_reads_as_the_folder_in_it(tmp_path: Path, suffix: str, top: str) -> None:
    files = {f"{top}{name}": text for name, text in {**STUBS, "helpers/__init__.py": "", "notes.txt": "x"}.items()}
    files |= {"__MACOSX/._model.py": "junk", ".DS_Store": "junk"}
    packing = {".tar.gz": "gz", ".tgz": "gz", ".tar.bz2": "bz2", ".tar.xz": "xz"}.get(suffix, "")
    data = zipped(files) if suffix.lower() == ".zip" else tarred(files, packing)
    path = tmp_path / f"ada{suffix}"
    path.write_bytes(data)
    work, plain = read(path), read(fill(tmp_path / "ada", {**STUBS, "helpers/__init__.py": ""}))
    assert work.problem == ""
    assert (work.student, work.tree, work.sources, work.files) == ("ada", plain.tree, plain.sources, plain.files)
    assert work.digest == plain.digest
    assert not work.warnings


def test_a_folder_that_holds_one_archive_is_what_is_in_the_archive(tmp_path: Path) -> None:
    work = read(fill(tmp_path / "Ada_123_file_", {"hw.zip": zipped({"hw/model.py": MODEL}), "comment.html": ""}))
    assert (work.student, work.sources) == ("Ada_123_file_", ALL_IN_MODEL)


def test_helper_modules_and_packages_stay_in_the_tree(tmp_path: Path) -> None:
    files = {"model.py": MODEL, "layers.py": "x = 1", "pkg/__init__.py": "", "pkg/deep/torch.py": "y = 2"}
    assert set(read(fill(tmp_path, files)).tree) == set(files)


@pytest.mark.parametrize(
    "data",
    [
        b"\xef\xbb\xbf" + MODEL.encode(),
        MODEL.replace("\n", "\r\n").encode(),
        MODEL.replace("\n", "\r").encode(),
        MODEL.replace("    ", "\t").encode(),
        b"# -*- coding: latin-1 -*-\nname = 'caf\xe9'\n" + MODEL.encode(),
        b"\n# vim: set fileencoding=latin-1 :\nname = 'caf\xe9'\n" + MODEL.encode(),
        b"# coding: latin-1\rname = 'caf\xe9'\r" + MODEL.replace("\n", "\r").encode(),
        ("from __future__ import annotations\nπ = 3\n" + MODEL).encode(),
        MODEL.rstrip().encode(),
    ],
    ids=["bom", "crlf", "cr", "tabs", "latin-1", "latin-1 line 2", "latin-1 cr", "future", "no final newline"],
)
def test_bytes_are_kept_as_they_are_and_compile(tmp_path: Path, data: bytes) -> None:
    work = read(fill(tmp_path, {"model.py": data}))
    assert work.tree["model.py"] == data
    assert work.sources == ALL_IN_MODEL and not work.explanations and not work.warnings
    compile(work.tree["model.py"], "model.py", "exec", dont_inherit=True)


def test_names_are_composed_as_import_looks_for_them(tmp_path: Path) -> None:
    work = read(fill(tmp_path, {"model.py": MODEL, unicodedata.normalize("NFD", "café.py"): "x = 1"}))
    assert unicodedata.normalize("NFC", "café.py") in work.tree


@pytest.mark.parametrize("student", ["Ada L", 'o\'neil "x"', "a+b@x.org", "李 Ünal", "a\nb", "-rf", "x" * 300, ""])
def test_a_student_id_is_kept_as_it_is(tmp_path: Path, student: str) -> None:
    assert read(fill(tmp_path, {"model.py": MODEL}), student).student == student


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux file systems keep names that are no text")
def test_an_undecodable_name_becomes_text(tmp_path: Path) -> None:
    path = tmp_path / os.fsdecode(b"ad\xe9.py")
    path.write_bytes(MODEL.encode())
    work = read(path)
    assert work.student == "ad\ufffd"
    assert not work.problem
    " ".join(work.files).encode()


@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("torch.py", "torch"),
        ("torch/__init__.py", "torch"),
        ("numpy.py", "numpy"),
        ("random.py", "random"),
        ("autograder/grading.py", "autograder"),
        ("conftest.py", "conftest.py"),
        ("pkg/conftest.py", "conftest.py"),
        ("tests/test_it.py", "tests"),
        (".git/hook.py", ".git"),
        (".hidden.py", ".hidden.py"),
        ("__pycache__/model.cpython-311.pyc", "__pycache__"),
        ("model.pyc", "model.pyc"),
        ("fast.so", "fast.so"),
        ("fast.pyd", "fast.pyd"),
        ("MODEL.py", "MODEL.py"),
        ("bad\x07name.py", "left out"),
        ("trailing./x.py", "left out"),
    ],
)
def test_what_does_not_belong_is_left_out_with_a_warning(tmp_path: Path, name: str, word: str) -> None:
    for form in ("folder", "zip"):
        files = {"model.py": MODEL, name: "x = 1"}
        path = tmp_path / "ada.zip"
        path.write_bytes(zipped(files))
        work = read(path if form == "zip" else fill(tmp_path / "ada", files))
        assert set(work.tree) == {"model.py"} == set(work.files)
        assert any(word in warning for warning in work.warnings), form
        assert all(warning.isprintable() for warning in work.warnings)
        assert not work.suspicious


@pytest.mark.parametrize("name", ["sitecustomize.py", "usercustomize.py", "evil.pth", "sitecustomize/__init__.py"])
def test_files_that_run_before_the_grader_are_suspicious(tmp_path: Path, name: str) -> None:
    work = read(fill(tmp_path, {"model.py": MODEL, name: "x = 1"}))
    expected = f"The submission brings its own {name}, which only serves to run code before the grader."
    assert work.suspicious == (expected,)
    assert expected in work.warnings
    assert set(work.tree) == {"model.py"}


def test_a_large_file_that_is_no_source_costs_nothing(tmp_path: Path) -> None:
    fill(tmp_path, {"model.py": MODEL})
    with (tmp_path / "checkpoint.pt").open("wb") as stream:
        stream.truncate(101_000_000)
    assert read(tmp_path).sources == ALL_IN_MODEL


def test_a_helper_that_is_too_large_is_left_out(tmp_path: Path) -> None:
    work = read(fill(tmp_path, {"model.py": MODEL, "big.py": b"#" * 1_000_001}))
    assert set(work.tree) == {"model.py"}
    assert work.warnings == ("big.py is too large (at most 1 MB): it is left out.",)


def test_thousands_of_oddities_make_a_short_list(tmp_path: Path) -> None:
    files = {"model.py": MODEL, **{f"d{i}/conftest.py": "" for i in range(200)}}
    work = read(fill(tmp_path, files))
    assert len(work.warnings) == 20
    assert work.warnings[-1] == "... and 181 more like these."


def test_the_digest_tells_submissions_apart_and_ignores_where_they_lie(tmp_path: Path) -> None:
    one = read(fill(tmp_path / "a", {"model.py": MODEL}))
    same = read(fill(tmp_path / "b", {"model.py": MODEL, "README.md": "x"}))
    other = read(fill(tmp_path / "c", {"model.py": MODEL + "\n"}))
    moved = read(fill(tmp_path / "d", {"gpt.py": MODEL}))
    assert one.digest == same.digest
    assert len({one.digest, other.digest, moved.digest}) == 3
    assert len(one.digest) == 64


def test_the_tree_is_written_as_fresh_plain_files(tmp_path: Path) -> None:
    work = read(fill(tmp_path / "in", {"model.py": MODEL, "pkg/a.py": "x = 1", "pkg/b.py": "y = 2"}))
    before = os.umask(0o077)
    try:
        write_tree(work, tmp_path / "out")
    finally:
        os.umask(before)
    written = {path.relative_to(tmp_path / "out").as_posix(): path for path in (tmp_path / "out").rglob("*.py")}
    assert {name: path.read_bytes() for name, path in written.items()} == work.tree
    if os.name == "posix":
        assert {stat.S_IMODE(path.stat().st_mode) for path in written.values()} == {0o644}
        assert stat.S_IMODE((tmp_path / "out" / "pkg").stat().st_mode) == 0o755
    with pytest.raises(FileExistsError):
        write_tree(work, tmp_path / "out")


@pytest.mark.parametrize("path", ["../x.py", "/x.py", "a/../../x.py", "a\\b.py", "C:x.py", "", "a//b.py", "./x.py"])
def test_a_tree_that_leads_out_is_not_written(tmp_path: Path, path: str) -> None:
    with pytest.raises(ValueError, match="not a path below"):
        write_tree(Submission("ada", tmp_path, tree={path: b""}), tmp_path / "out")
    assert not (tmp_path / "out").exists() and not (tmp_path / "x.py").exists()


def test_writing_does_not_go_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "out" / "pkg").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(FileExistsError):
        write_tree(Submission("ada", tmp_path, tree={"pkg/a.py": b""}), tmp_path / "out")
    assert not list((tmp_path / "elsewhere").iterdir())
