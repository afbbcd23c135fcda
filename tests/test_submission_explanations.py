"""A file that will not load is explained in one sentence; a file that loads is never accused."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from submission_samples import MODEL, fill, notebook, read

from autograder.submission.explain import explanation, not_utf8_warning
from autograder.submission.lines import scan

WORD = b"PK\x03\x04\x14\x00word/document.xml"


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b"", "model.py is empty."),
        (b"\xef\xbb\xbf\n", "model.py contains no code."),
        (b"# a\n\n   # b\r\n\t\f\n", "model.py contains no code."),
        (MODEL.encode("utf-16"), "The file is saved as UTF-16: save it as UTF-8."),
        (MODEL.encode("utf-16-le"), "The file is saved as UTF-16: save it as UTF-8."),
        (b"\xfe\xff" + MODEL.encode("utf-16-be"), "The file is saved as UTF-16: save it as UTF-8."),
        (MODEL.encode("utf-32"), "The file is saved as UTF-32: save it as UTF-8."),
        (b"x = 1\r\ny\0 = 2", "model.py contains a NUL byte (line 2): the file is damaged, save it again."),
        (WORD, "model.py is a Word document, not a Python file: save your code as plain text."),
        (b"PK\x03\x04\x14\x00model.py", "model.py is a zip archive, not a Python file: save your code as plain text."),
        (b"{\\rtf1\\ansi", "model.py is a rich text document (RTF), not a Python file: save your code as plain text."),
        (b"%PDF-1.7", "model.py is a PDF, not a Python file: save your code as plain text."),
        (b"\n<!DOCTYPE html><html>", "model.py is a web page (HTML), not a Python file: download the raw file."),
        (
            notebook(MODEL).encode(),
            "This is a Jupyter notebook (JSON), not a Python file: export it as .py or submit the .ipynb itself.",
        ),
        (
            b"x = 1\n<<<<<<< HEAD\nx = 2\n=======\nx = 3\n>>>>>>> b\n",
            "The file has conflict markers (<<<<<<<) on line 2: resolve the merge.",
        ),
        (b"def f(x):\n    print x\n", "print needs parentheses in Python 3 (line 2)."),
        (b'if x: print "yes"\n', "print needs parentheses in Python 3 (line 1)."),
        (b"print 'a', b\n", "print needs parentheses in Python 3 (line 1)."),
        ("x = “hello”\n".encode(), 'The file has a typographic quote (“) on line 1: use " in code.'),
        ("x = ‘a’\n".encode(), "The file has a typographic quote (‘) on line 1: use ' in code."),
        (
            "def f():\n\u00a0   return 1\n".encode(),
            "The file has an invisible character (U+00A0) on line 2: delete the blanks there and type them again.",
        ),
        (b">>> x = 1\n>>> x\n1\n", "The prompt >>> was pasted along with the code (line 1): remove the prompts."),
        (b"In [3]: x = 1\n", "The prompt In [3]: was pasted along with the code (line 1): remove the prompts."),
        (
            b"Here you are:\n```python\nx = 1\n```\n",
            "The file has a Markdown fence (```) on line 2: keep only the code between the fences.",
        ),
        (
            b"1 import torch\n2 \n3 x = 1\n10 y = 2\n",
            "The lines begin with their numbers: remove the numbers, they are not part of the code.",
        ),
        (b"x = 1\nname = 'caf\xe9'\n", "The file is not UTF-8 (byte 0xe9 on line 2): save it as UTF-8."),
    ],
)
def test_each_reason_has_its_sentence(tmp_path: Path, data: bytes, sentence: str) -> None:
    work = read(fill(tmp_path, {"model.py": data}))
    assert work.problem == "" and work.tree == {"model.py": data}
    assert work.explanations == {"model.py": sentence}


@pytest.mark.parametrize(
    "source",
    [
        MODEL,
        'print("a"); print ("b")\nprint = log\nprint.x\ny = print if x else None\n',
        '"""Shows\n>>> print x\n```python\n<<<<<<< HEAD\n“quotes”\n"""\nx = 1\n',
        "'''doc'''\n",
        "x = '“typographic”'  # in a comment: ‘too’, print 'x'\n",
        "x = {\n1: 2,\n2: 3,\n}\n",
        "π = 3  # non-breaking\u00a0space\n",
        "# coding: utf-8\nx = 'é'\n",
        "s = 'a\\\nprint x'\n",
        "blueprint = 1\nx = f'{print!r}'\nlog(f'print {x}')\n",
        "...\nx = a[1:\n2]\n",
    ],
)
def test_sources_that_load_are_not_accused(source: str) -> None:
    compile(source, "model.py", "exec", dont_inherit=True)
    assert explanation("model.py", source.encode()) == ""
    assert not_utf8_warning(source.encode()) == ""


def test_latin_1_in_a_comment_is_a_warning_only(tmp_path: Path) -> None:
    work = read(fill(tmp_path, {"model.py": b"# caf\xe8\n" + MODEL.encode()}))
    assert work.warnings == ("The file is not UTF-8 (byte 0xe8 on line 1): save it as UTF-8.",)
    assert not work.explanations
    two = read(fill(tmp_path, {"helper.py": b"x = 1  # caf\xe8\n"}))
    assert len(two.warnings) == 2 and two.warnings[0].startswith(("model.py: ", "helper.py: "))


def test_a_declared_encoding_is_believed() -> None:
    for head in (b"# -*- coding: latin-1 -*-\n", b"#!/usr/bin/python\n# coding=latin-1\n", b"# coding: latin-1\r"):
        assert explanation("model.py", head + b"x = 'caf\xe9'\n") == ""
    late = b"x = 1\n# coding: latin-1\ny = 'caf\xe9'\n"
    assert explanation("model.py", late) == "The file is not UTF-8 (byte 0xe9 on line 3): save it as UTF-8."


def test_helpers_are_explained_too_while_they_are_few(tmp_path: Path) -> None:
    files = {"model.py": MODEL, "a.py": b"", **{f"h{i}.py": b"#\n" + b"# x\n" * 150_000 for i in range(2)}, "z.py": b""}
    work = read(fill(tmp_path, files))
    assert work.explanations == {"a.py": "a.py is empty."}


def test_a_file_is_named_as_the_student_named_it(tmp_path: Path) -> None:
    fill(tmp_path, {"ada.py": ""})
    assert read(tmp_path / "ada.py").explanations == {"model.py": "ada.py is empty."}


def test_hostile_nesting_is_only_text(tmp_path: Path) -> None:
    for data in (
        b"(" * 900_000,
        b"-" * 900_000 + b"1",
        b"x." * 400_000 + b"y",
        b'"""' * 300_000,
        b"\n" * 900_000 + b"x",
    ):
        assert not read(fill(tmp_path, {"model.py": data})).problem


def test_lines_are_seen_as_python_sees_them() -> None:
    lines = list(scan('x = (1,  # (\n \'a#b\')\ry = \'open\r\nz = """\n#\n"""; w'))
    assert [line.opens_statement for line in lines] == [True, False, True, True, False, False]
    assert [line.in_string for line in lines] == [False, False, False, False, True, True]
    assert lines[0].code == "x = (1,  " and lines[0].comment == 9
    assert lines[1].code == ' "")'
    assert lines[5].code == "; w"


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=200) | st.text(alphabet="ab\"'#\\\n\r()[]{}:= “\u00a0<>`123", max_size=120).map(str.encode))
def test_no_bytes_make_the_reader_raise(data: bytes) -> None:
    for sentence in (explanation("m.py", data), not_utf8_warning(data)):
        assert sentence == "" or sentence.endswith(".")
