"""Verdicts as JUnit XML, which most tools that collect test results can read."""

import xml.etree.ElementTree as ET
from collections.abc import Iterable

from attncourse.grading.sanitize import escape_hidden, truncate
from attncourse.grading.verdict import Verdict


def comment(verdict: Verdict) -> str:
    """The status and its reason, in one line."""
    reason = verdict.diagnosis or (verdict.findings[0] if verdict.findings else "")
    return f"{verdict.status}{': ' if reason else ''}{reason}"


def suite_of(name: str, group: str, verdicts: Iterable[Verdict], problems: Iterable[str]):
    """A suite with one test case per exercise; less than all points is a failure.

    Args:
        name: of the suite: a notebook or a student.
        group: the class name of its test cases.
        problems: become the output of the suite. Without any verdict they are also an error, as
            tools do not show a suite without cases.
    """
    verdicts, problems = list(verdicts), [_line(problem) for problem in problems]
    failed = [v for v in verdicts if v.points < v.out_of]
    broken = bool(problems) and not verdicts
    suite = ET.Element("testsuite", name=escape_hidden(name))
    counts = {"tests": len(verdicts) + broken, "failures": len(failed), "errors": int(broken)}
    for what, count in counts.items():
        suite.set(what, str(count))
    for verdict in verdicts:
        case = ET.SubElement(suite, "testcase", classname=escape_hidden(group), name=verdict.name)
        if verdict in failed:
            failure = ET.SubElement(case, "failure", message=_line(comment(verdict)))
            failure.text = "\n".join(_line(finding) for finding in verdict.findings)
    if broken:
        case = ET.SubElement(suite, "testcase", classname=escape_hidden(group), name="notebook")
        ET.SubElement(case, "error", message=problems[0])
    if problems:
        ET.SubElement(suite, "system-out").text = "\n".join(problems)
    return suite


def _line(text: str) -> str:
    return truncate(text, keep="\n\t")
