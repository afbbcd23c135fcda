"""Why a file will probably not load, in one plain sentence, found in its bytes and lines alone."""

from __future__ import annotations

import codecs
import itertools
import re
from collections.abc import Callable

from autograder.submission.lines import Line, scan, split_lines

#: How the foreign formats that turn up under a .py name begin.
_FOREIGN = (
    (b"\xd0\xcf\x11\xe0", "a Word document"),
    (b"{\\rtf", "a rich text document (RTF)"),
    (b"%PDF-", "a PDF"),
    (b"\x1f\x8b", "a gzip archive"),
    (b"Rar!", "a RAR archive"),
    (b"7z\xbc\xaf", "a 7z archive"),
)
_WIDE = (  # the longer mark first: UTF-32's begins with UTF-16's
    (codecs.BOM_UTF32_LE, "utf-32", "UTF-32"),
    (codecs.BOM_UTF32_BE, "utf-32", "UTF-32"),
    (codecs.BOM_UTF16_LE, "utf-16", "UTF-16"),
    (codecs.BOM_UTF16_BE, "utf-16", "UTF-16"),
)
_CODING = re.compile(rb"[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)")  # PEP 263
#: Bytes of a source that are looked at line by line: ten times a long answer, and a quarter of a second at worst.
_HEAD = 200_000
_NEWLINE = re.compile(rb"\r\n|\r|\n")
_HTML = re.compile(r"\s*<(?:!doctype html|html|head|body)\b", re.IGNORECASE)
_PRINT = re.compile(  # `print "x"`, `print x`; not `print(x)`, `print = log`, `print.x`, `print in names`
    r"(?:.*[:;])?\s*print\s+(?!(?:in|is|if|and|or|not|else|for)\b)[\w\"'%`-]"
)
_CONFLICT = re.compile(r"<{7}(?:\s|$)")
_FENCE = re.compile(r"\s*```")
_PROMPT = re.compile(r"\s*(>>>)(?:\s|$)|\s*(In \[\d+\]:)")
_LINE_NUMBER = re.compile(r"\s*(\d{1,5})(?:[:.|)]|\s|$)")
_CURLY = {**dict.fromkeys("“”„‟«»″", '"'), **dict.fromkeys("‘’‚‛′´", "'")}
_INVISIBLE = "\u00a0\u200b\u200c\u200d\u2060\u2028\u2029\ufeff\u202f\u3000"

Where = Callable[[int], str]


def line_number(number: int) -> str:
    """Return how a sentence says where line `number` is."""
    return f"line {number}"


def source_text(data: bytes) -> str:
    """Return the text of a source as well as it can be read; line ends become LF."""
    coding = next((name for mark, name, _ in _WIDE if data.startswith(mark)), "utf-8-sig")
    return "\n".join(split_lines(data.decode(coding, "replace")))


def explanation(name: str, data: bytes, where: Where = line_number) -> str:
    """Return the sentence for the source `name`, or "" when nothing looks wrong. `where` says a line's place."""
    return _by_bytes(name, data) or _by_lines(name, data, where)


def not_utf8_warning(data: bytes, where: Where = line_number) -> str:
    """Return the sentence for bytes that are not UTF-8 and stand in comments only, where CPython lets them pass."""
    sentence, in_comment = _not_utf8(data, where)
    return sentence if in_comment else ""


def _by_bytes(name: str, data: bytes) -> str:
    if not data:
        return f"{name} is empty."
    if data.startswith(b"PK\x03\x04"):
        what = "a Word document" if b"word/" in data[:8192] or b"[Content_Types]" in data[:8192] else "a zip archive"
        return f"{name} is {what}, not a Python file: save your code as plain text."
    for mark, what in _FOREIGN:
        if data.startswith(mark):
            return f"{name} is {what}, not a Python file: save your code as plain text."
    for mark, _, wide in _WIDE:
        if data.startswith(mark):
            return f"The file is saved as {wide}: save it as UTF-8."
    if b"\0" in data:
        if data.count(b"\0") > len(data) // 3:  # every second byte of Latin text in UTF-16 is 0
            return "The file is saved as UTF-16: save it as UTF-8."
        line = _line_of(data, data.index(b"\0"))
        return f"{name} contains a NUL byte (line {line}): the file is damaged, save it again."
    return ""


def _by_lines(name: str, data: bytes, where: Where) -> str:
    text = source_text(_head(data))
    start = text[:1000].lstrip()
    if start.startswith("{") and '"nbformat"' in text and ('"cells"' in text or '"worksheets"' in text):
        return "This is a Jupyter notebook (JSON), not a Python file: export it as .py or submit the .ipynb itself."
    if _HTML.match(start):
        return f"{name} is a web page (HTML), not a Python file: download the raw file."
    lines = list(scan(text))
    if len(data) <= _HEAD and not any(line.code.strip() or line.in_string for line in lines):
        return f"{name} contains no code."
    if _numbered(lines):
        return "The lines begin with their numbers: remove the numbers, they are not part of the code."
    # in order of how much they explain: a conflict or a fence breaks all that follows
    for find in (_conflict, _fence, _prompt, _print, _odd_character):
        for line in lines:
            if sentence := find(line, where):
                return sentence
    sentence, in_comment = _not_utf8(data, where)
    return "" if in_comment else sentence


def _conflict(line: Line, where: Where) -> str:
    if not line.in_string and _CONFLICT.match(line.text):
        return f"The file has conflict markers (<<<<<<<) on {where(line.number)}: resolve the merge."
    return ""


def _fence(line: Line, where: Where) -> str:
    if not line.in_string and _FENCE.match(line.text):
        return f"The file has a Markdown fence (```) on {where(line.number)}: keep only the code between the fences."
    return ""


def _prompt(line: Line, where: Where) -> str:
    if not line.in_string and (found := _PROMPT.match(line.text)):
        prompt = found[1] or found[2]
        return f"The prompt {prompt} was pasted along with the code ({where(line.number)}): remove the prompts."
    return ""


def _print(line: Line, where: Where) -> str:
    if line.opens_statement and _PRINT.match(line.code):
        return f"print needs parentheses in Python 3 ({where(line.number)})."
    return ""


def _odd_character(line: Line, where: Where) -> str:
    if line.in_string or line.code.isascii():
        return ""
    for char in line.code:
        if char in _CURLY:
            return f"The file has a typographic quote ({char}) on {where(line.number)}: use {_CURLY[char]} in code."
        if char in _INVISIBLE:
            return (
                f"The file has an invisible character (U+{ord(char):04X}) on {where(line.number)}: "
                "delete the blanks there and type them again."
            )
    return ""


def _numbered(lines: list[Line]) -> bool:
    """Does (nearly) every line begin with a number that grows from line to line?"""
    texts = [line.text for line in lines if line.text.strip()]
    numbers = [int(found[1]) for found in map(_LINE_NUMBER.match, texts) if found]
    growing = all(low < high for low, high in itertools.pairwise(numbers))
    return len(numbers) >= 3 and len(numbers) >= 0.8 * len(texts) and growing


def _not_utf8(data: bytes, where: Where) -> tuple[str, bool]:
    """Return the sentence about the first byte that is not UTF-8 ("" if there is none), and: only in comments?"""
    try:
        data.decode("utf-8")
        return "", False
    except UnicodeDecodeError as error:
        start = error.start
    if any(data.startswith(mark) for mark, _, _ in _WIDE) or _declares_coding(data):
        return "", False
    sentence = f"The file is not UTF-8 (byte 0x{data[start]:02x} on {where(_line_of(data, start))}): save it as UTF-8."
    lines = scan(_head(data).decode("utf-8", "surrogateescape"))
    in_code = any("\udc80" <= char <= "\udcff" for line in lines for char in line.text[: line.comment])
    return sentence, not in_code


def _head(data: bytes) -> bytes:
    """Return the whole lines at the beginning of `data` that are looked at one by one."""
    return data if len(data) <= _HEAD else data[: data.rfind(b"\n", 0, _HEAD) + 1 or _HEAD]


def _line_of(data: bytes, start: int) -> int:
    return len(split_lines(data[:start].decode("latin-1")))


def _declares_coding(data: bytes) -> bool:
    first, second = (*_NEWLINE.split(data, 2), b"")[:2]
    blank = not first.strip() or first.lstrip().startswith(b"#")
    return bool(_CODING.match(first) or (blank and _CODING.match(second)))
