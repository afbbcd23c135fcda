"""Archives are read in memory; every unsafe, damaged or bloated one is refused with a sentence."""

from __future__ import annotations

import gzip
import io
import lzma
import struct
import tarfile
import zipfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from submission_samples import MODEL, fill, read, tar_entry, tarred, zipped

from autograder.submission import Submission, limits, write_tree
from autograder.verdict import Verdict

MB = 1_000_000
quick = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def read_bytes(folder: Path, data: bytes, name: str = "ada.zip") -> Submission:
    (folder / name).write_bytes(data)
    return read(folder / name)


def zip_entry(name: str, mode: int = 0o100644, content: bytes = b"") -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as book:
        info = zipfile.ZipInfo(name)
        info.create_system, info.external_attr = 3, mode << 16
        book.writestr(info, content)
        book.writestr("block.py", "class Block: pass")
    return out.getvalue()


ESCAPES = [
    ("/etc/cron.d/x.py", "absolute path"),
    ("../x.py", "leads out of it"),
    ("a/../../x.py", "leads out of it"),
    ("a/..", "leads out of it"),
    ("..\\x.py", "backslash"),
    ("C:/x.py", "drive letter"),
    ("c:x.py", "drive letter"),
    ("//server/x.py", "absolute path"),
]


@pytest.mark.parametrize(("name", "words"), ESCAPES)
def test_a_path_out_of_the_archive_is_refused(tmp_path: Path, name: str, words: str) -> None:
    for data in (zipped({"model.py": MODEL, name: "x = 1"}), tarred({"model.py": MODEL, name: "x = 1"})):
        work = read_bytes(tmp_path, data)
        assert words in work.problem and work.verdict is Verdict.FORBIDDEN
        assert not work.tree


def test_a_nul_in_a_name_is_refused(tmp_path: Path) -> None:
    data = zipped({"model.py_evil": MODEL}).replace(b"model.py_", b"model.py\0")
    assert "NUL" in read_bytes(tmp_path, data).problem


def test_a_link_among_the_files_we_need_is_refused(tmp_path: Path) -> None:
    outside = "model.py is a link to a file outside the submission."
    inside = "model.py is a link to another file: hand in the file itself."
    for target, sentence in (("/etc/passwd", outside), ("../x.py", outside), ("block.py", inside)):
        for data in (
            zip_entry("model.py", 0o120777, target.encode()),
            tarred({"b": tar_entry("block.py", tarfile.REGTYPE), "m": tar_entry("model.py", tarfile.SYMTYPE, target)}),
            tarred({"b": tar_entry("block.py", tarfile.REGTYPE), "m": tar_entry("model.py", tarfile.LNKTYPE, target)}),
        ):
            work = read_bytes(tmp_path, data)
            assert (work.problem, work.verdict) == (sentence, Verdict.FORBIDDEN)


def test_a_link_that_nobody_needs_is_skipped(tmp_path: Path) -> None:
    for data in (
        tarred({"model.py": MODEL, "notes": tar_entry("notes", tarfile.SYMTYPE, "/etc")}),
        zip_entry("notes", 0o120777, b"/etc"),
    ):
        work = read_bytes(tmp_path, data)
        assert not work.problem
        assert work.warnings == ("notes is a link: it is not followed.",)


@pytest.mark.parametrize("kind", [tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE, tarfile.GNUTYPE_SPARSE])
def test_a_device_in_a_tar_is_refused(tmp_path: Path, kind: bytes) -> None:
    work = read_bytes(tmp_path, tarred({"model.py": MODEL, "x": tar_entry("dev/x", kind)}))
    assert work.problem == "The archive holds something that is not a regular file (dev/x)."
    assert work.verdict is Verdict.FORBIDDEN


def test_a_pipe_in_a_zip_is_refused(tmp_path: Path) -> None:
    work = read_bytes(tmp_path, zip_entry("x", 0o010644))
    assert work.problem == "The archive holds something that is not a regular file (x)."


def test_a_folder_called_model_py_is_refused(tmp_path: Path) -> None:
    for data in (
        zipped({"model.py/x.py": "", "a": ""}),
        tarred({"d": tar_entry("model.py", tarfile.DIRTYPE), "a": ""}),
    ):
        assert read_bytes(tmp_path, data).problem == "model.py is not a regular file."


def test_a_bomb_is_refused_by_its_ratio(tmp_path: Path) -> None:
    zeros = {"model.py": MODEL, "data.bin": bytes(12 * MB)}
    for data in (
        zipped(zeros),
        tarred(zeros, "gz"),
        tarred(zeros, "bz2"),
        tarred(zeros, "xz"),
        gzip.compress(bytes(12 * MB)),
    ):
        work = read_bytes(tmp_path, data)
        assert work.problem == "The archive unpacks to more than 200 times its size: it is not read."
        assert work.verdict is Verdict.FORBIDDEN


def test_a_bomb_is_refused_by_its_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_UNPACKED", 2 * MB)
    filler = b"".join(struct.pack("<I", number) for number in range(300_000))  # packs poorly: the ratio says nothing
    files = {"model.py": MODEL, "a.bin": filler, "b.bin": filler}
    for data in (zipped(files), tarred(files, "gz"), tarred(files, "xz"), tarred(files, "bz2")):
        assert read_bytes(tmp_path, data).problem.startswith("The archive unpacks to more than 2 MB")


def test_a_path_of_absurd_length_is_refused(tmp_path: Path) -> None:
    for data in (zipped({"_" * 60_000: ""}), tarred({"_" * 60_000: ""}, "gz")):
        assert read_bytes(tmp_path, data).problem.startswith("The archive holds a path of 60,000 characters")


def test_a_zip_that_lies_about_a_size_is_stopped_while_it_is_read(tmp_path: Path) -> None:
    data = zipped({"model.py": b"#" * (3 * MB)}).replace(struct.pack("<I", 3 * MB), struct.pack("<I", 100))
    work = read_bytes(tmp_path, data)
    assert work.problem and not work.tree


def test_an_honest_large_source_is_too_large(tmp_path: Path) -> None:
    for data in (zipped({"model.py": b"#" * (2 * MB)}), tarred({"model.py": b"#" * (2 * MB)})):
        assert read_bytes(tmp_path, data).problem == "model.py is too large (at most 1 MB)."


def test_too_many_files_are_refused(tmp_path: Path) -> None:
    many = {f"{number}.txt": "" for number in range(2001)}
    for data in (zipped(many), tarred(many)):
        assert read_bytes(tmp_path, data).problem.startswith("The archive holds more than 2,000 files")
    directory = b"PK\x01\x02" * 20_001  # a central directory that zipfile would turn into millions of objects
    assert read_bytes(tmp_path, b"PK" + directory).problem.startswith("The archive holds more than 2,000 files")


def test_folders_too_deep_are_refused(tmp_path: Path) -> None:
    deep = zipped({"model.py": MODEL, "/".join("123456789") + "/x.py": ""})
    assert read_bytes(tmp_path, deep).problem == "The archive holds folders more than 8 levels deep."


def test_an_encrypted_zip_is_said_to_be_so(tmp_path: Path) -> None:
    data = bytearray(zipped({"model.py": MODEL}))
    data[data.index(b"PK\x01\x02") + 8] |= 1
    work = read_bytes(tmp_path, bytes(data))
    assert (work.problem, work.verdict) == ("The archive is encrypted: pack it without a password.", Verdict.FAILED)


def test_an_unusual_packing_is_said_to_be_so(tmp_path: Path) -> None:
    work = read_bytes(tmp_path, zipped({"model.py": MODEL}, zipfile.ZIP_LZMA))
    assert work.problem == "model.py is packed in an unusual way (method 14): use plain zip."


@pytest.mark.parametrize("suffix", ["rar", "7z", "tar.zst"])
def test_a_foreign_archive_is_said_to_be_so(tmp_path: Path, suffix: str) -> None:
    work = read_bytes(tmp_path, b"Rar!\x1a\x07", f"ada.{suffix}")
    assert work.problem == f"ada.{suffix} is of a kind that cannot be opened: submit a .zip or a .tar.gz."
    assert work.verdict is Verdict.FAILED


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"not an archive",
        b"PK\x03\x04 and then nothing",
        zipped({"model.py": MODEL})[:-30],
        zipped({"model.py": MODEL}, zipfile.ZIP_STORED).replace(b"class MLP", b"class XXX"),
        tarred({"model.py": MODEL}, "gz")[:-40],
        tarred({"model.py": MODEL}, "xz")[:-40],
        tarred({"model.py": MODEL}, "bz2")[:-40],
        tarred({"model.py": MODEL * 20}, "")[:1024],
        gzip.compress(b"x = 1", mtime=0),
        tarred({"model.py": MODEL}, "gz") + b"more",
        lzma.compress(b"x", preset=9, filters=None, format=lzma.FORMAT_XZ)[:20],
    ],
)
def test_a_damaged_archive_is_said_to_be_so(tmp_path: Path, data: bytes) -> None:
    work = read_bytes(tmp_path, data)
    assert work.problem == "ada.zip is damaged and cannot be opened: pack it again."
    assert work.verdict is Verdict.FAILED


def test_what_it_is_counts_and_not_how_it_is_called(tmp_path: Path) -> None:
    for data, name in ((tarred({"model.py": MODEL}), "a.zip"), (zipped({"model.py": MODEL}), "a.tar.gz")):
        assert read_bytes(tmp_path, data, name).tree == {"model.py": MODEL.encode()}


def test_streams_packed_one_after_the_other_are_one_archive(tmp_path: Path) -> None:
    plain = tarred({"model.py": MODEL}, "")
    data = gzip.compress(plain[:700]) + gzip.compress(plain[700:]) + bytes(512)
    assert read_bytes(tmp_path, data, "a.tgz").tree == {"model.py": MODEL.encode()}
    endless = gzip.compress(b"", mtime=0) * 2_001
    assert "times its size" in read_bytes(tmp_path, endless, "a.tgz").problem


def test_an_endless_header_in_a_tar_is_refused(tmp_path: Path) -> None:
    info = tarfile.TarInfo("x")
    info.type, info.size = tarfile.XHDTYPE, 5 * MB
    data = info.tobuf(tarfile.USTAR_FORMAT) + b"a" * (5 * MB)
    work = read_bytes(tmp_path, data, "a.tar")
    assert work.problem == "The archive is not built as an honest tar is (an endless header)."
    assert work.verdict is Verdict.FORBIDDEN


def test_of_two_entries_with_one_name_the_last_counts(tmp_path: Path) -> None:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as book, pytest.warns(UserWarning, match="Duplicate"):
        book.writestr("model.py", "old = 1")
        book.writestr("model.py", MODEL)
    two = tarred({"model.py": "old = 1", "./model.py": MODEL})
    for data in (out.getvalue(), two):
        work = read_bytes(tmp_path, data)
        assert work.tree == {"model.py": MODEL.encode()}
        assert work.warnings == ("model.py is in the archive twice: the last one counts.",)


def test_names_packed_by_macos_and_by_windows_are_read(tmp_path: Path) -> None:
    unmarked = zipped({"model.py": MODEL, "caf??.py": "x = 1"}).replace(b"caf??.py", "café.py".encode())
    dos = zipped({"model.py": MODEL, "caf?.py": "x = 1"}).replace(b"caf?.py", "café.py".encode("cp437"))
    for data in (unmarked, dos, zipped({"model.py": MODEL, "café.py": "x = 1"})):
        assert set(read_bytes(tmp_path, data).tree) == {"model.py", "café.py"}


def test_a_tar_of_the_current_folder_is_read(tmp_path: Path) -> None:
    files = {".": tar_entry("./", tarfile.DIRTYPE), "./model.py": MODEL, "./pkg/x.py": ""}
    assert set(read_bytes(tmp_path, tarred(files)).tree) == {"model.py", "pkg/x.py"}


def test_an_archive_with_more_than_one_top_is_not_unwrapped(tmp_path: Path) -> None:
    work = read_bytes(tmp_path, zipped({"README.md": "", "src/model.py": MODEL}))
    assert work.problem == "model.py is in the sub-folder src: submit the folder that contains it."
    assert read_bytes(tmp_path, zipped({"empty/": ""})).verdict is Verdict.NOT_ATTEMPTED
    assert "it is empty" in read_bytes(tmp_path, zipped({})).problem


def test_a_file_that_is_also_a_folder_is_settled(tmp_path: Path) -> None:
    work = read_bytes(tmp_path, zipped({"model.py": MODEL, "x.py": "", "x.py/y.py": "", "X.PY/z.py": ""}))
    assert set(work.tree) == {"model.py", "x.py"}
    write_tree(work, tmp_path / "out")


names = st.lists(
    st.one_of(
        st.sampled_from(
            ["..", ".", "", "model.py", "x.py", "pkg", "C:", "\\", "..\\x.py", "é.py", "e\u0301.py", "CON"]
        ),
        st.text(max_size=6),
        st.text(max_size=4).map("{}.py".format),
    ),
    min_size=1,
    max_size=5,
).map("/".join)


@quick
@given(st.dictionaries(names, st.binary(max_size=20), max_size=6), st.booleans())
def test_no_name_in_an_archive_leads_out_of_the_tree(
    tmp_path_factory: pytest.TempPathFactory, files: dict[str, bytes], as_zip: bool
) -> None:
    folder = tmp_path_factory.mktemp("names")
    try:
        data = zipped(files) if as_zip else tarred({**files}, "")
    except (UnicodeEncodeError, ValueError, IndexError):  # cannot be packed, so cannot be handed in
        return
    work = read_bytes(folder, data)
    for path in work.tree:
        assert not path.startswith("/") and "\\" not in path and ":" not in path
        assert not {"..", ".", ""} & set(path.split("/"))
    assert work.problem.isprintable() and all(warning.isprintable() for warning in work.warnings)
    write_tree(work, folder / "out" / "tree")
    written = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    assert written == {"ada.zip", *(f"out/tree/{path}" for path in work.tree)}


@quick
@given(
    st.binary(max_size=300),
    st.sampled_from([b"", b"PK\x03\x04", b"PK\x05\x06", b"\x1f\x8b\x08", b"BZh9", b"\xfd7zXZ\0"]),
)
def test_no_bytes_make_the_reader_raise(tmp_path: Path, data: bytes, start: bytes) -> None:
    assert read_bytes(tmp_path, start + data).problem


@quick
@given(st.sampled_from(["zip", "tar", "gz"]), st.integers(0, 3000), st.integers(0, 255))
def test_no_changed_byte_makes_the_reader_raise(tmp_path: Path, kind: str, place: int, value: int) -> None:
    files = {"hw/model.py": MODEL, "hw/pkg/x.py": "x = 1"}
    data = bytearray(zipped(files) if kind == "zip" else tarred(files, "gz" if kind == "gz" else ""))
    data[place % len(data)] = value
    work = read_bytes(tmp_path, bytes(data))
    assert bool(work.problem) != bool(work.tree)


def test_nothing_is_ever_unpacked_to_the_disk(tmp_path: Path) -> None:
    read_bytes(tmp_path, zipped({"hw/model.py": MODEL, "hw/x.py": ""}))
    assert [path.name for path in tmp_path.rglob("*")] == ["ada.zip"]


def test_a_folder_of_one_damaged_archive_says_so(tmp_path: Path) -> None:
    work = read(fill(tmp_path / "ada", {"hw.zip": b"PK nothing"}))
    assert work.problem == "hw.zip is damaged and cannot be opened: pack it again."
