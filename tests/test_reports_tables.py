"""Claims about class.json, class.csv, file names and the folder of grades."""

from __future__ import annotations

import csv
import io
import json
import os
import stat
import unicodedata
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sample_reports import HOSTILE, PORTABLE, report, sample_class, ungradable

from autograder.reports import folder as folder_module
from autograder.reports.folder import FolderError, GradesFolder, check_folder, write_atomic
from autograder.reports.html import ClassMeta
from autograder.reports.tables import (
    class_csv,
    class_json,
    common_isolation,
    csv_text,
    file_name,
    file_names,
    json_text,
    student_json,
)
from autograder.verdict import Report, Verdict

META = ClassMeta("gpt", "0.1.0", 5, PORTABLE, "Write a GPT", ("config", "attention", "mlp", "block", "gpt"))


def as_json(reports: list[Report]) -> str:
    return json_text(class_json(reports, track="gpt", kit_version="0.1.0", seed=5, isolation=PORTABLE))


def rows(reports: list[Report]) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(class_csv(reports))))


def test_class_json_is_what_is_documented() -> None:
    data = json.loads(as_json(sample_class()))
    assert list(data) == ["schema", "track", "kit_version", "seed", "isolation", "submissions"]
    assert (data["schema"], data["track"], data["seed"], data["isolation"]) == (1, "gpt", 5, PORTABLE)
    entry = next(e for e in data["submissions"] if e["student"] == "no_scale")
    assert set(entry) == {"student", "score", "max_score", "verdict", "parts", "warnings", "files", "seed"}
    assert entry["seed"] != data["seed"], "a result of an earlier run says where it differs from the header"
    same = next(iter(json.loads(as_json([replace(sample_class()[0], seed=5)]))["submissions"]))
    assert "seed" not in same and "kit_version" not in same
    assert list(entry["parts"]) == ["config", "attention", "mlp", "block", "gpt"]
    assert set(entry["parts"]["attention"]) == {"score", "max_score", "verdict", "diagnosis"}


def test_the_same_reports_in_any_order_give_the_same_bytes() -> None:
    reports = sample_class()
    assert as_json(reports) == as_json(reports[::-1])
    assert class_csv(reports) == class_csv(reports[::-1])
    one = report(files={"b.py": "1", "a.py": "2"})
    other = report(files={"a.py": "2", "b.py": "1"})
    assert json_text(student_json(one)) == json_text(student_json(other))


def test_json_is_strict_and_ascii_and_comes_back_as_the_report() -> None:
    for made in sample_class():
        text = json_text(student_json(made))
        assert text.isascii() and "\x1b" not in text
        data = json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
        back = Report.from_json(data)
        assert (back.student, back.verdict, back.score) == (made.student, made.verdict, made.score)


def test_the_csv_has_a_row_a_student_and_numbers_stay_numbers() -> None:
    table = {row["student"]: row for row in rows(sample_class())}
    assert table["ada"]["score"] == "100" and table["ada"]["percent"] == "100"
    assert table["no_scale"]["attention_score"] == "23" and table["no_scale"]["attention_verdict"] == "failed"
    assert float(table["renamed"]["percent"]) == 97
    assert "loss of 240" in table["o'neil (b)+1"]["warnings"]


def test_a_failure_of_ours_is_no_zero_in_the_csv() -> None:
    row = next(row for row in rows([report(), ungradable("unlucky")]) if row["student"] == "unlucky")
    assert (row["score"], row["percent"], row["gpt_score"], row["verdict"]) == ("", "", "", "ungradable")


def test_a_report_without_parts_keeps_the_columns_of_the_others() -> None:
    bare = replace(report("bare"), parts={}, score=0.0, max_score=0.0)
    row = next(row for row in rows([bare, report("ada")]) if row["student"] == "bare")
    assert (row["attention_score"], row["attention_verdict"], row["percent"]) == ("", "", "")


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t=", "\r=", " =", "＝", "\x00="])
def test_no_cell_is_a_formula(start: str) -> None:
    name = start + 'HYPERLINK("http://x")'
    cell = rows([report(name, warnings=(name,))])[0]
    for text in (cell["student"], cell["warnings"]):
        assert text.startswith("'") or text.lstrip(" \ufffd")[0] not in "=+-@＝"
    assert csv_text("ada") == "ada"


@given(st.text(alphabet=st.characters(exclude_categories=()), min_size=0, max_size=300))
def test_a_file_name_is_safe_everywhere(student: str) -> None:
    name = file_name(student)
    assert 0 < len(name) <= 100 and len(name.encode()) <= 200
    assert not set(name) & set('<>:"/\\|?*%#')
    assert not any(unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp") for c in name)
    assert name[0] not in " .-~" and name[-1] not in " ."
    assert name.split(".")[0].casefold() not in {"con", "nul", "aux", "prn", "com1", "lpt9"}


@given(st.lists(st.text(alphabet="aAbB .:é\u0301-", max_size=4), unique=True, max_size=12))
def test_file_names_differ_on_disks_that_ignore_case(students: list[str]) -> None:
    names = file_names(students)
    assert len({name.casefold() for name in names.values()}) == len(students)
    assert names == file_names(students[::-1])


def test_safe_ids_stay_as_they_are() -> None:
    for student in ("ada", "Zoë Müller", "o'neil (b)+1", "李雷", "s_12-3"):
        assert file_name(student) == student


def test_altered_and_clashing_ids_get_a_hash() -> None:
    assert file_name("a/b") != file_name("a:b") and file_name("a/b").startswith("a_b-")
    assert file_name("CON").startswith("student_CON-") and file_name("").startswith("student_")
    names = file_names(["Ada", "ada", "bo"])
    assert names["bo"] == "bo" and names["Ada"] != "Ada" and names["ada"] != "ada"
    trap = file_name("a/b")
    assert len(set(file_names(["a/b", trap]).values())) == 2


def test_the_weakest_isolation_speaks_for_the_class() -> None:
    strong = {"level": "linux", "isolated": True}
    assert common_isolation([report("a", isolation=strong), report("b")]) == PORTABLE
    assert common_isolation([report("a", isolation=strong), report("b", isolation={})]) == strong
    assert common_isolation([]) == {}


def test_the_folder_holds_every_file_and_links_lead_to_pages(tmp_path: Path) -> None:
    reports = sample_class()
    grades = GradesFolder(tmp_path / "new" / "grades", [r.student for r in reports])
    grades.prepare()
    assert all(grades.write_student(r) for r in reports)
    text = grades.write_class(reports, META)
    assert {p.name for p in grades.path.iterdir()} == {"class.json", "class.csv", "class.html", "students"}
    assert (grades.path / "class.json").read_text(encoding="utf-8") == text
    stems = {p.name for p in (grades.path / "students").iterdir()}
    assert stems == {f"{name}.{kind}" for name in grades.names.values() for kind in ("json", "html")}
    assert grades.names["Zoë Müller"] == "Zoë Müller"


def test_files_of_others_stay_and_ours_are_rewritten(tmp_path: Path) -> None:
    (tmp_path / "students").mkdir()
    (tmp_path / "students" / "bo.json").write_text("earlier", encoding="utf-8")
    (tmp_path / "students" / "ada.json").write_text("earlier", encoding="utf-8")
    grades = GradesFolder(tmp_path, ["ada"])
    grades.prepare()
    grades.write_student(report("ada"))
    assert (tmp_path / "students" / "bo.json").read_text(encoding="utf-8") == "earlier"
    assert json.loads((tmp_path / "students" / "ada.json").read_text(encoding="utf-8"))["score"] == 100


def test_a_failure_of_ours_never_replaces_an_earlier_grade(tmp_path: Path) -> None:
    grades = GradesFolder(tmp_path, ["ada"])
    grades.prepare()
    assert grades.write_student(ungradable("ada", "first")), "nothing was there: the reason is written"
    assert grades.write_student(ungradable("ada", "second")), "an earlier failure of ours is no grade"
    assert grades.write_student(report("ada"))
    assert not grades.write_student(ungradable("ada"))
    assert json.loads((tmp_path / "students" / "ada.json").read_text(encoding="utf-8"))["verdict"] == "passed"


def test_an_unfit_folder_is_refused_with_advice(tmp_path: Path) -> None:
    work = tmp_path / "submissions"
    work.mkdir()
    file = tmp_path / "file"
    file.touch()
    for out in (file, work, work / "grades"):
        with pytest.raises(FolderError, match="name a folder"):
            check_folder(out, work)
    (tmp_path / "students").mkdir()
    with pytest.raises(FolderError, match="next time"):
        check_folder(tmp_path, tmp_path / "students")
    check_folder(tmp_path / "grades", work)
    (tmp_path / "submitted").mkdir()
    check_folder(tmp_path / "grades", tmp_path)  # nbgrader's course folder: only submitted/ is read
    with pytest.raises(FolderError):
        check_folder(tmp_path / "submitted" / "grades", tmp_path)


def test_a_folder_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(FolderError, match="cannot be written"):
        GradesFolder(tmp_path / "file" / "deeper", []).prepare()


def test_a_write_that_breaks_leaves_the_old_file_and_no_litter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "class.json"
    write_atomic(target, "old")

    def interrupted(self: Path, target: Path) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(folder_module.Path, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_atomic(target, "new")
    assert target.read_text(encoding="utf-8") == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_files_are_readable_by_others_on_posix_only_where_the_folder_is(tmp_path: Path) -> None:
    write_atomic(tmp_path / "x", "text\n")
    if os.name == "posix":
        assert stat.S_IMODE((tmp_path / "x").stat().st_mode) == 0o644
    assert (tmp_path / "x").read_bytes() == b"text\n"


def test_hostile_students_are_rows_like_others() -> None:
    table = rows([report(HOSTILE), report("ada")])
    assert len(table) == 2 and all(row["verdict"] == Verdict.PASSED.value for row in table)
