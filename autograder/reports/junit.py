"""JUnit XML for CI servers: one test suite a student, one test case a check.

It satisfies the two schemas in use: Jenkins' junit-10.xsd and Maven Surefire's. Surefire asks for a time of each test
case; ours depend on no clock, and say 0.
"""

from __future__ import annotations

from collections import Counter
from xml.etree import ElementTree

from autograder.reports.graded import GradedClass, checks_of
from autograder.reports.marks import MARKS
from autograder.reports.plain import REPLACEMENT, clean
from autograder.verdict import CheckResult, Report, Verdict

#: Not run, or not begun: neither right nor wrong. A crash, a timeout and our own failure are errors, not failures.
_KIND: dict[Verdict, str] = {
    Verdict.FAILED: "failure",
    Verdict.CRASHED: "error",
    Verdict.TIMED_OUT: "error",
    Verdict.OUT_OF_MEMORY: "error",
    Verdict.FORBIDDEN: "error",
    Verdict.UNGRADABLE: "error",
    Verdict.NOT_ATTEMPTED: "skipped",
    Verdict.BLOCKED: "skipped",
}


def junit_xml(graded: GradedClass) -> str:
    """Return the class as one JUnit XML document."""
    root = ElementTree.Element("testsuites", {"name": xml_text(f"workshop {graded.track}")})
    totals: Counter[str] = Counter()
    for student in graded.students:
        suite = _suite(student.report)
        root.append(suite)
        totals.update({name: int(suite.attrib[name]) for name in ("tests", "failures", "errors", "skipped")})
    root.attrib.update({name: str(totals[name]) for name in ("tests", "failures", "errors", "skipped")})
    ElementTree.indent(root, " ")
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"


def _suite(report: Report) -> ElementTree.Element:
    checks = checks_of(report)
    kinds = Counter(_KIND.get(check.verdict, "passed") for check in checks)
    suite = ElementTree.Element("testsuite", {"name": xml_text(report.student), "tests": str(len(checks))})
    suite.attrib.update({f"{kind}s": str(kinds[kind]) for kind in ("failure", "error")})
    suite.attrib.update({"skipped": str(kinds["skipped"]), "time": "0"})
    properties = ElementTree.SubElement(suite, "properties")
    facts = {"score": report.score, "max_score": report.max_score, "verdict": report.verdict.value}
    for name, value in {**facts, "seed": report.seed, "kit_version": report.kit_version}.items():
        ElementTree.SubElement(properties, "property", {"name": name, "value": xml_text(str(value))})
    suite.extend(_case(report, check) for check in checks)
    notes = [report.error, *report.repairs, *report.warnings]
    if any(notes):
        ElementTree.SubElement(suite, "system-out").text = xml_text("\n".join(filter(None, notes)))
    return suite


def _case(report: Report, check: CheckResult) -> ElementTree.Element:
    part = report.parts[check.part].title if check.part in report.parts else check.part
    about = {"classname": xml_text(f"{report.track}.{part}"), "name": xml_text(check.title), "time": "0"}
    case = ElementTree.Element("testcase", about)
    kind = _KIND.get(check.verdict)
    if kind is not None:
        message = xml_text(check.message or MARKS[check.verdict].word)
        outcome = ElementTree.SubElement(case, kind, {"message": message})
        if kind != "skipped":
            outcome.attrib["type"] = check.verdict.value
            outcome.text = xml_text(check.look_at) or None
    return case


def xml_text(text: str) -> str:
    """Return `text` without the characters that XML 1.0 has no way to write (and those that act on a terminal)."""
    return clean(text, multiline=True).translate({0xFFFE: REPLACEMENT, 0xFFFF: REPLACEMENT})
