"""Published formats as rules of our own: Gradescope's results.json, and JUnit XML as Jenkins and Surefire read it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from xml.etree.ElementTree import Element

_NUMBER = (int, float)
_VISIBILITY = {"hidden", "after_due_date", "after_published", "visible"}
_FORMAT = {"text", "html", "simple_format", "md", "ansi"}
_TOP: dict[str, Any] = {
    "score": _NUMBER,
    "execution_time": _NUMBER,
    "output": str,
    "output_format": _FORMAT,
    "test_output_format": _FORMAT,
    "test_name_format": _FORMAT,
    "visibility": _VISIBILITY,
    "stdout_visibility": _VISIBILITY,
    "extra_data": dict,
    "tests": list,
    "leaderboard": list,
}
_TEST: dict[str, Any] = {
    "score": _NUMBER,
    "max_score": _NUMBER,
    "status": {"passed", "failed"},
    "name": str,
    "name_format": _FORMAT,
    "number": str,
    "output": str,
    "output_format": _FORMAT,
    "tags": list,
    "visibility": _VISIBILITY,
    "extra_data": dict,
}
_ROW: dict[str, Any] = {"name": str, "value": (int, float, str), "order": {"asc", "desc"}}

#: element -> (attributes that must be there, attributes that may be there, children in order)
_JUNIT: dict[str, tuple[set[str], set[str], list[str]]] = {
    "testsuites": (set(), {"name", "tests", "failures", "errors", "skipped", "time"}, ["testsuite"]),
    "testsuite": (
        {"name", "tests", "failures", "errors", "skipped"},
        {"time", "timestamp", "hostname"},
        ["properties", "testcase", "system-out", "system-err"],
    ),
    "properties": (set(), set(), ["property"]),
    "property": ({"name", "value"}, set(), []),
    "testcase": ({"name", "time"}, {"classname"}, ["skipped", "error", "failure", "system-out", "system-err"]),
    "failure": ({"type"}, {"message"}, []),
    "error": ({"type"}, {"message"}, []),
    "skipped": (set(), {"message"}, []),
    "system-out": (set(), set(), []),
}


def gradescope_problems(results: dict[str, Any]) -> list[str]:
    """Return in what `results` is not a results.json."""
    return [
        *_fields("top", results, _TOP),
        *([] if "score" in results or all("score" in test for test in results["tests"]) else ["no score"]),
        *(problem for test in results.get("tests", []) for problem in _fields("test", test, _TEST)),
        *(problem for row in results.get("leaderboard", []) for problem in _fields("row", row, _ROW)),
    ]


def _fields(where: str, data: dict[str, Any], known: dict[str, Any]) -> Iterator[str]:
    for name, value in data.items():
        rule = known.get(name)
        if rule is None:
            yield f"{where}: unknown field {name}"
        elif value not in rule if isinstance(rule, set) else not isinstance(value, rule) or isinstance(value, bool):
            yield f"{where}: {name} is {value!r}"


def junit_problems(root: Element) -> list[str]:
    """Return in what a document is not JUnit XML, and where its counts are not those of its test cases."""
    problems = [] if root.tag == "testsuites" else ["the root is not testsuites"]
    for element in root.iter():
        if element.tag not in _JUNIT:
            problems.append(f"unknown element {element.tag}")
            continue
        needed, allowed, children = _JUNIT[element.tag]
        problems += [f"{element.tag} lacks {name}" for name in needed - set(element.attrib)]
        problems += [f"{element.tag} has {name}" for name in set(element.attrib) - needed - allowed]
        order = [children.index(child.tag) if child.tag in children else -1 for child in element]
        problems += [] if order == sorted(order) and -1 not in order else [f"children of {element.tag}: {order}"]
    for suite in root:
        cases = suite.findall("testcase")
        for name, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
            if int(suite.attrib[name]) != sum(case.find(tag) is not None for case in cases):
                problems.append(f"{name} of {suite.attrib['name']!r}")
        if int(suite.attrib["tests"]) != len(cases):
            problems.append(f"tests of {suite.attrib['name']!r}")
    return problems
