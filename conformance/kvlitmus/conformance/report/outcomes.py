"""What each verdict means to those who know tests only: pytest, and readers of JUnit files.

One test per rule, and one for the run itself, so that an item that failed outside of any judged
call, or an interruption, can't go unseen behind rules that passed.

==================  =====================================================================
verdict             outcome
==================  =====================================================================
passed              passed
violated            failed, with the counterexample; *known* where the baseline knows it
warned              warned: passed, and said
not applicable      skipped, with what the target lacks
blocked             skipped, with the rule that is in the way (which fails by itself; if it was not chosen, an error)
not exercised       an error in a full run; skipped in a shortened one, where it does not fail
inconclusive        an error
harness error       an error
==================  =====================================================================

A rule whose baseline entry is stale or expired fails whatever its verdict.
"""

from __future__ import annotations

from typing import NamedTuple

from kvlitmus.conformance.report.form import EMPTY, Report, RuleRow
from kvlitmus.conformance.report.saved import explained
from kvlitmus.conformance.report.terminal import Stated
from kvlitmus.conformance.support.text import harmless

RUN = "RUN"
"""What the test of the run itself is called, beside the ids of rules."""


class CaseOutcome(NamedTuple):
    """What a test says: ``kind`` is ``passed``, ``warned``, ``known``, ``skipped``, ``failed`` or ``error``.

    ``message`` is one line, ``text`` everything there is to say; both are harmless.
    """

    kind: str
    message: str = ""
    text: str = ""


UNDECIDED = {"not_exercised", "inconclusive", "harness_error"}


def of_rule(report: Report, rule: RuleRow) -> CaseOutcome:
    """The outcome of one rule of a report."""
    id, verdict = rule["id"], rule["verdict"]
    told = "\n".join(explained(report, rule))
    reason = harmless(f"{verdict.replace('_', ' ')}: {rule['reason']}".rstrip(": "), 2_000)
    baseline = report.get("baseline") or EMPTY
    if id in baseline["stale"]:
        return CaseOutcome("failed", f"{harmless(id, 40)} is in the baseline, but it holds now: take the entry out")
    if id in baseline["expired"]:
        return CaseOutcome("failed", f"the baseline's entry for {harmless(id, 40)} has expired", told)
    if verdict in ("violated", "warned"):
        known = rule.get("known")
        if known:
            return CaseOutcome("known", f"known: {harmless(known.get('reason'))} ({harmless(known.get('link'))})", told)
        kind = "failed" if verdict == "violated" else "warned"
        return CaseOutcome(kind, f"{harmless(id, 40)} {verdict}: {Stated.by_id(id).title}", told)
    if verdict == "passed":
        return CaseOutcome("passed", f"{rule['evaluations']:,} evaluations")
    if verdict in UNDECIDED and (verdict != "not_exercised" or report["options"].get("full", True)):
        return CaseOutcome("error", reason, reason)
    if verdict == "blocked" and not any(one["verdict"] in ("violated", "warned") for one in report["rules"]):
        return CaseOutcome("error", reason, reason)  # what is in the way was not chosen, and fails nowhere else
    return CaseOutcome("skipped", reason)


def of_run(report: Report) -> CaseOutcome:
    """The outcome of the run itself: whether it came to its end, and every item was judged."""
    totals = report["totals"]
    failed = report["failed"]
    if report["partial"]:
        return CaseOutcome("error", f"interrupted after {totals['items']} of {totals['items_planned']} items")
    if failed:
        lines = [f"{harmless(one['item'])}: {harmless(one['error'], 2_000)}" for one in failed[:20]]
        more = [f"and {len(failed) - 20} more"] if len(failed) > 20 else []
        return CaseOutcome("error", f"{len(failed)} of {totals['items']} items failed", "\n".join([*lines, *more]))
    if not report["rules"]:
        return CaseOutcome("error", "nothing was judged: no rule applies to this target in this run")
    return CaseOutcome("passed", f"{totals['steps']:,} steps in {totals['items']} items")
