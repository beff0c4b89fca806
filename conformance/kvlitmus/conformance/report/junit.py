"""The report as JUnit XML, in the form that Jenkins, GitLab and most other readers agree on (``junit-10.xsd``).

A test suite per pack, a test case per rule, and the suite ``run`` for the run itself;
:mod:`~kvlitmus.conformance.report.outcomes` says what each verdict becomes.  Rules are judged
together, so no rule has a time of its own: the test case of the run has all of it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from xml.etree import ElementTree as ET

from kvlitmus.conformance.report.form import Report, rows
from kvlitmus.conformance.report.outcomes import RUN, CaseOutcome, of_rule, of_run
from kvlitmus.conformance.run.cause import pack_of
from kvlitmus.conformance.support.text import harmless

ELEMENTS = {"failed": "failure", "error": "error", "skipped": "skipped", "known": "skipped"}
"""The element inside a test case that did not pass; a warning passes, and is told in ``system-out``."""

ILLEGAL = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""What XML 1.0 can't hold, not even escaped."""


def legal(text: str) -> str:
    """A text that XML can hold: each character that it can't is shown as its code."""
    return ILLEGAL.sub(lambda found: f"\\u{ord(found.group()):04x}", text)


def render(report: Report) -> str:
    """The whole file."""
    target = report["stamps"]["target"]
    name = legal(harmless(f"kvlitmus {target['name']}", 200))
    packs: dict[str, list[tuple[str, CaseOutcome]]] = {}
    for rule in rows(report):
        packs.setdefault(pack_of(rule["id"]), []).append((harmless(rule["id"], 40), of_rule(report, rule)))
    run = of_run(report)
    suites = [("run", [(RUN, run)]), *packs.items()]
    outcomes = Counter(outcome.kind for _, cases in suites for _, outcome in cases)
    seconds = f"{report['totals']['seconds']:.3f}"
    top = ET.Element(
        "testsuites",
        name=name,
        tests=str(outcomes.total()),
        failures=str(outcomes["failed"]),
        errors=str(outcomes["error"]),
        time=seconds,
    )
    for pack, cases in suites:
        _suite(top, name, pack, cases, report, seconds if pack == "run" else "0.000")
    ET.indent(top, " ")
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(top, encoding="unicode") + "\n"


def _suite(
    top: ET.Element, name: str, pack: str, cases: Sequence[tuple[str, CaseOutcome]], report: Report, seconds: str
) -> None:
    counted = Counter(outcome.kind for _, outcome in cases)
    suite = ET.SubElement(
        top,
        "testsuite",
        name=legal(pack),
        tests=str(len(cases)),
        failures=str(counted["failed"]),
        errors=str(counted["error"]),
        skipped=str(counted["skipped"] + counted["known"]),
        time=seconds,
        timestamp=legal(harmless(report["stamps"]["date"], 40).removesuffix("Z")),
    )
    if pack == "run":
        properties = ET.SubElement(suite, "properties")
        stamps = report["stamps"]
        told = {
            "target": stamps["target"]["name"],
            "target version": stamps["target"]["version"],
            "kvlitmus": stamps["kvlitmus"],
            "python": stamps["python"],
            "platform": stamps["platform"],
            "exit code": f"{report['exit_code']}: {report['exit_meaning']}",
        }
        for key, text in told.items():
            ET.SubElement(properties, "property", name=key, value=legal(harmless(text)))
    for id, outcome in cases:
        _case(suite, f"{name}.{pack}", id, outcome, seconds)


def _case(suite: ET.Element, classname: str, id: str, outcome: CaseOutcome, seconds: str) -> None:
    case = ET.SubElement(suite, "testcase", name=legal(id), classname=legal(classname), time=seconds)
    if outcome.kind in ELEMENTS:
        inner = ET.SubElement(case, ELEMENTS[outcome.kind], message=legal(outcome.message), type=outcome.kind)
        inner.text = legal(outcome.text) or None
    elif outcome.kind == "warned":
        ET.SubElement(case, "system-out").text = legal(f"{outcome.message}\n{outcome.text}")
