"""What cannot be graded is refused with one sentence; nothing outside the submission is read, nothing hangs."""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path

import pytest
from submission_samples import MODEL, STUBS, fill, notebook, read, zipped

from autograder.submission import Submission, folder
from autograder.verdict import Verdict

posix = pytest.mark.skipif(os.name != "posix", reason="needs links, pipes and permissions as POSIX has them")


@pytest.fixture(params=[True, False], ids=["held folders", "by path"])
def either_walk(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Walk as on Linux and macOS, and as on Windows, where folders cannot be held open."""
    monkeypatch.setattr(folder, "HOLDS_FOLDERS", folder.HOLDS_FOLDERS and request.param)


def refused(work: Submission, sentence: str, verdict: Verdict) -> None:
    assert (work.problem, work.verdict) == (sentence, verdict)
    assert work.tree == {} == work.sources


@pytest.mark.parametrize(
    ("files", "sentence", "verdict"),
    [
        ({"README.md": "x"}, "There is no model.py in the submission (found: README.md).", Verdict.NOT_ATTEMPTED),
        ({}, "There is no model.py in the submission (it is empty).", Verdict.NOT_ATTEMPTED),
        (
            {f"{letter}.txt": "" for letter in "abcdefg"},
            "There is no model.py in the submission (found: a.txt, b.txt, c.txt, d.txt, e.txt and 2 more).",
            Verdict.NOT_ATTEMPTED,
        ),
        ({"Model.py": MODEL}, "The file must be called model.py (yours is Model.py).", Verdict.FAILED),
        ({"model.PY": MODEL}, "The file must be called model.py (yours is model.PY).", Verdict.FAILED),
        ({"model (1).py": MODEL}, "The file must be called model.py (yours is model (1).py).", Verdict.FAILED),
        ({"model.py.txt": MODEL}, "The file must be called model.py (yours is model.py.txt).", Verdict.FAILED),
        ({"Attention.py": MODEL}, "The file must be called attention.py (yours is Attention.py).", Verdict.FAILED),
        ({"solution.py": MODEL}, "The file must be called model.py (yours is solution.py).", Verdict.FAILED),
        (
            {"solution.py": MODEL, "layers.py": "x = 1"},
            "The file must be called model.py (yours is solution.py).",
            Verdict.FAILED,
        ),
        (
            {"one.py": "class MLP: pass", "two.py": "class GPT: pass"},
            "There is no model.py in the submission, and none of config.py, attention.py, mlp.py, block.py, gpt.py "
            "(found: one.py, two.py).",
            Verdict.FAILED,
        ),
        (
            {"a.py": "x = 1", "b.py": "y = 2"},
            "There is no model.py in the submission (found: a.py, b.py).",
            Verdict.NOT_ATTEMPTED,
        ),
        (
            {"scratchpad/model.py": MODEL, "meta.toml": ""},
            "model.py is in the sub-folder scratchpad: submit the folder that contains it.",
            Verdict.FAILED,
        ),
        (
            {"a/b/config.py": MODEL, "a/b/gpt.py": MODEL, "main.py": "x = 1"},
            "config.py is in the sub-folder a/b: submit the folder that contains it.",
            Verdict.FAILED,
        ),
        (
            {"work/hw.ipynb": notebook(MODEL)},
            "hw.ipynb is in the sub-folder work: submit the folder that contains it.",
            Verdict.FAILED,
        ),
    ],
)
def test_a_folder_without_the_file_says_what_is_there(
    tmp_path: Path, files: dict[str, str], sentence: str, verdict: Verdict
) -> None:
    refused(read(fill(tmp_path / "ada", files)), sentence, verdict)


def test_a_misnamed_stub_beside_good_ones_is_a_warning(tmp_path: Path) -> None:
    files = {"Mlp.py" if name == "mlp.py" else name: text for name, text in STUBS.items()}
    work = read(fill(tmp_path, files))
    assert not work.problem and "MLP" not in work.sources
    assert "The file must be called mlp.py (yours is Mlp.py)." in work.warnings


def test_what_is_no_submission_at_all_is_said(tmp_path: Path) -> None:
    fill(tmp_path, {"essay.docx": "x"})
    sentence = "essay.docx is nothing that can be graded: submit model.py, a notebook or a .zip."
    refused(read(tmp_path / "essay.docx"), sentence, Verdict.FAILED)
    refused(read(tmp_path / "nobody"), "There is nothing called nobody.", Verdict.NOT_ATTEMPTED)


@posix
@pytest.mark.usefixtures("either_walk")
class TestIrregularFiles:
    @pytest.mark.parametrize("target", ["/etc/passwd", "../outside.py", "sub/../../outside.py", "/nowhere/at/all"])
    def test_a_link_out_is_refused_and_its_target_not_read(self, tmp_path: Path, target: str) -> None:
        fill(tmp_path, {"outside.py": "secret = 'do not show'"})
        (fill(tmp_path / "ada", {}) / "model.py").symlink_to(target)
        work = read(tmp_path / "ada")
        refused(work, "model.py is a link to a file outside the submission.", Verdict.FORBIDDEN)
        assert not work.files and "secret" not in repr(work)

    def test_a_link_inside_is_refused_too(self, tmp_path: Path) -> None:
        ada = fill(tmp_path / "ada", {"mine.py": MODEL})
        for target in ("mine.py", ada / "mine.py"):
            (ada / "model.py").symlink_to(target)
            refused(read(ada), "model.py is a link to another file: hand in the file itself.", Verdict.FORBIDDEN)
            (ada / "model.py").unlink()

    def test_a_required_stub_that_is_a_link_is_refused(self, tmp_path: Path) -> None:
        ada = fill(tmp_path / "ada", {"model.py": MODEL})
        (ada / "gpt.py").symlink_to("/etc/passwd")
        refused(read(ada), "gpt.py is a link to a file outside the submission.", Verdict.FORBIDDEN)

    def test_a_pipe_does_not_hang(self, tmp_path: Path) -> None:
        os.mkfifo(tmp_path / "model.py")
        refused(read(tmp_path), "model.py is not a regular file.", Verdict.FORBIDDEN)
        refused(read(tmp_path / "model.py"), "model.py is not a regular file.", Verdict.FORBIDDEN)

    def test_a_folder_called_model_py_is_refused(self, tmp_path: Path) -> None:
        refused(read(fill(tmp_path, {"model.py/x.py": ""})), "model.py is not a regular file.", Verdict.FORBIDDEN)

    def test_a_socket_is_refused(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)  # a socket's path may have 107 bytes only
        with socket.socket(socket.AF_UNIX) as server:
            server.bind("model.py")
            refused(read(tmp_path), "model.py is not a regular file.", Verdict.FORBIDDEN)
            refused(read(tmp_path / "model.py"), "model.py is not a regular file.", Verdict.FORBIDDEN)

    def test_links_and_pipes_that_nobody_needs_are_skipped(self, tmp_path: Path) -> None:
        fill(tmp_path, {"outside/secret.py": "x = 1"})
        ada = fill(tmp_path / "ada", {"model.py": MODEL})
        (ada / "notes").symlink_to("/etc")
        (ada / "pkg").symlink_to(tmp_path / "outside")
        (ada / "loop").symlink_to(".")
        (ada / "helper.py").symlink_to("../outside/secret.py")
        os.mkfifo(ada / "pipe")
        work = read(ada)
        assert set(work.tree) == {"model.py"} and not work.problem
        assert "notes is a link: it is not followed." in work.warnings
        assert "helper.py is a link: it is not followed." in work.warnings
        assert "pipe is not a regular file: it is left out." in work.warnings

    def test_a_submission_that_is_itself_a_link_is_refused(self, tmp_path: Path) -> None:
        fill(tmp_path / "bob", {"model.py": MODEL})
        for name, target in (("ada", "bob"), ("ada.py", "bob/model.py")):
            (tmp_path / name).symlink_to(target)
            refused(read(tmp_path / name), f"{name} is a link: hand in the file or folder itself.", Verdict.FORBIDDEN)

    def test_a_notebook_that_is_a_link_is_refused(self, tmp_path: Path) -> None:
        (tmp_path / "hw.ipynb").symlink_to("/etc/passwd")
        refused(read(tmp_path), "hw.ipynb is a link to a file outside the submission.", Verdict.FORBIDDEN)

    def test_helpers_are_read_below_folders(self, tmp_path: Path) -> None:
        work = read(fill(tmp_path, {"model.py": MODEL, "a/b/c.py": "deep = 1"}))
        assert work.tree["a/b/c.py"] == b"deep = 1"

    def test_a_folder_exchanged_for_a_link_meanwhile_is_not_followed(self, tmp_path: Path) -> None:
        fill(tmp_path / "outside", {"x.py": "secret = 1"})
        listing = folder.Folder(fill(tmp_path / "ada", {"pkg/x.py": "mine = 1"}))
        (entry,) = [entry for entry in listing.entries if entry.kind == "file"]
        (tmp_path / "ada" / "pkg" / "x.py").unlink()
        (tmp_path / "ada" / "pkg").rmdir()
        (tmp_path / "ada" / "pkg").symlink_to(tmp_path / "outside")
        with pytest.raises(folder.Refused, match=r"x\.py"):
            listing.read(entry, 1000)

    def test_a_file_exchanged_for_a_link_meanwhile_is_not_followed(self, tmp_path: Path) -> None:
        listing = folder.Folder(fill(tmp_path / "ada", {"model.py": MODEL}))
        (tmp_path / "ada" / "model.py").unlink()
        (tmp_path / "ada" / "model.py").symlink_to("/etc/passwd")
        with pytest.raises(folder.Refused, match=r"model\.py is a link"):
            listing.read(listing.entries[0], 1000)


def test_without_nofollow_a_link_is_still_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "O_NOFOLLOW", raising=False)
    fill(tmp_path, {"other.py": MODEL})
    try:
        (tmp_path / "model.py").symlink_to("other.py")
    except OSError:
        pytest.skip("this user may not make links here")
    with pytest.raises(folder.Refused, match="is a link"):
        folder.read_regular(tmp_path, ("model.py",), 1000)


@posix
@pytest.mark.skipif(hasattr(os, "geteuid") and os.geteuid() == 0, reason="root may read everything")
def test_what_the_system_does_not_let_us_read_is_our_trouble(tmp_path: Path) -> None:
    (fill(tmp_path, {"model.py": MODEL}) / "model.py").chmod(0)
    refused(read(tmp_path), "model.py cannot be read (Permission denied).", Verdict.UNGRADABLE)


def test_an_error_of_the_file_system_is_our_trouble(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise OSError(5, "Input/output error")

    fill(tmp_path / "ada", {"model.py": MODEL})
    monkeypatch.setattr(os, "scandir", broken)
    refused(read(tmp_path / "ada"), "ada cannot be read (Input/output error).", Verdict.UNGRADABLE)


def test_too_much_is_refused_by_size_before_it_is_read(tmp_path: Path) -> None:
    for name, limit in (("model.py", "1 MB"), ("hw.ipynb", "64 MB"), ("ada.zip", "100 MB")):
        with (tmp_path / name).open("wb") as stream:
            stream.truncate(101_000_000)
        refused(read(tmp_path / name), f"{name} is too large (at most {limit}).", Verdict.FORBIDDEN)
    refused(read(tmp_path), "model.py is too large (at most 1 MB).", Verdict.FORBIDDEN)


def test_too_many_sources_together_are_refused(tmp_path: Path) -> None:
    fill(tmp_path, {"model.py": MODEL, **{f"h{i}.py": b"#" * 999_999 for i in range(21)}})
    refused(read(tmp_path), "The Python files are too large together (at most 20 MB).", Verdict.FORBIDDEN)


def test_too_many_files_are_refused(tmp_path: Path) -> None:
    fill(tmp_path, {"model.py": MODEL, **{f"data/{i}": "" for i in range(2000)}})
    sentence = "The submission holds more than 2,000 files: hand in your own files only."
    refused(read(tmp_path), sentence, Verdict.FORBIDDEN)


def test_eight_levels_are_read_and_nine_refused(tmp_path: Path) -> None:
    files = {"model.py": MODEL, "1/2/3/4/5/6/7/8/x.py": ""}
    assert set(read(fill(tmp_path, files)).tree) == set(files)
    fill(tmp_path, {"1/2/3/4/5/6/7/8/9/x.py": ""})
    refused(read(tmp_path), "The submission holds folders more than 8 levels deep.", Verdict.FORBIDDEN)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows allows no control characters in names")
def test_a_hostile_name_is_shown_on_one_line(tmp_path: Path) -> None:
    work = read(fill(tmp_path, {"x\n\x1b[31m<b>\u202e.txt": "", "y" * 200: ""}))
    assert work.problem.isprintable() and len(work.problem) < 300


def test_an_archive_in_an_archive_is_not_opened(tmp_path: Path) -> None:
    (tmp_path / "ada.zip").write_bytes(zipped({"inner.zip": zipped({"model.py": MODEL})}))
    sentence = "There is no model.py in the submission (found: inner.zip)."
    refused(read(tmp_path / "ada.zip"), sentence, Verdict.NOT_ATTEMPTED)
