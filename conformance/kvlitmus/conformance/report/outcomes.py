"""What each verdict means to those who know tests only: pytest, and readers of JUnit files.

One test per rule, and one for the run itself, so that an item that failed outside of any judged
call, or an interruption, can't go unseen behind rules that passed.

==================  =====================================================================
verdict             outcome
==================  =====================================================================
passed              passed
violated            failed, with the counterexample, if it stands for a cause; else skipped: it follows from one that
                    fails; *known* where the baseline knows it
warned              warned: passed, and said; skipped likewise
not applicable      skipped, with what the target lacks
blocked             skipped, with the rule that is in the way (which fails by itself; if it was not chosen, an error)
not exercised       an error in a full run; skipped in a shortened one, where it does not fail
inconclusive        an error
harness error       an error
==================  =====================================================================

A rule whose baseline entry is stale or expired fails whatever its verdict.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import NamedTuple

from kvlitmus.conformance.report.form import EMPTY, Report, RuleRow
from kvlitmus.conformance.report.saved import counterexample, explained
from kvlitmus.conformance.report.terminal import Stated
from kvlitmus.conformance.run.verdicts import NOT_WHOLE, main_rule
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
    reason = harmless(f"{verdict.replace('_', ' ')}: {rule['reason']}".rstrip(": "), 2_000)
    baseline = report.get("baseline") or EMPTY
    for what, why in (("stale", "was not met: take the entry out"), ("expired", "has expired")):
        entries = [harmless(one["cause"], 40) for one in baseline[what] if one["rule"] == id]  # type: ignore[literal-required]
        if entries:
            return CaseOutcome("failed", f"{', '.join(entries)} is in the baseline for {harmless(id, 40)}, but {why}")
    if verdict in ("violated", "warned"):
        known = rule.get("known")
        if known:
            explanation = "\n".join(explained(report, rule))
            return CaseOutcome(
                "known", f"known: {harmless(known.get('reason'))} ({harmless(known.get('link'))})", explanation
            )
        causes = headlines(report)
        mine = [at for at, (main, _) in causes.items() if main == id]
        if not mine:
            return CaseOutcome("skipped", follows_from(report, rule, causes))
        broken = {one["id"] for one in report["rules"] if one["verdict"] == "violated" and not one.get("known")}
        kind = "failed" if any(not broken.isdisjoint(causes[at][1]) for at in mine) else "warned"
        ids = ", ".join(harmless(report["findings"][at]["cause"]["id"], 40) for at in mine)
        text = "\n\n".join(cause_text(report, at, causes[at][1]) for at in mine)
        return CaseOutcome(kind, f"{harmless(id, 40)} {verdict}: {Stated.by_id(id).title} (cause {ids})", text)
    if verdict == "passed":
        return CaseOutcome("passed", f"{rule['evaluations']:,} evaluations")
    if verdict == "inconclusive" and report["options"].get("first") and report["findings"]:
        return CaseOutcome("skipped", reason)  # the run stopped at the first cause, which fails
    if verdict in UNDECIDED and (verdict != "not_exercised" or report["options"].get("full", True)):
        return CaseOutcome("error", reason, reason)
    if verdict == "blocked" and not any(one["verdict"] in ("violated", "warned") for one in report["rules"]):
        return CaseOutcome("error", reason, reason)  # what is in the way was not chosen, and fails nowhere else
    return CaseOutcome("skipped", reason)


def headlines(report: Report) -> dict[int, tuple[str, set[str]]]:
    """The causes that no baseline knows, by their numbers: the rule that stands for each, and all that it breaks."""
    found = {
        at: (main_rule(one["rules"]), set(one["rules"]))
        for at, one in enumerate(report["findings"])
        if one["headline"] and not one["known"]
    }
    for one in report["findings"]:
        head = one.get("follows")
        if head in found:
            found[head][1].update(one["rules"])
    return found


def follows_from(report: Report, rule: RuleRow, causes: Mapping[int, tuple[str, set[str]]]) -> str:
    """Why a broken rule fails nothing by itself: the causes that it probably follows from fail."""
    heads = [at for at, (_, rules) in causes.items() if rule["id"] in rules]
    told = [f"{report['findings'][at]['cause']['id']}, told of by {causes[at][0]}" for at in heads]
    return harmless(f"{rule['verdict']}, probably by the cause {' or '.join(told)}", 2_000)


def cause_text(report: Report, at: int, rules: Set[str]) -> str:
    """A cause in full: its counterexample, and what else probably follows from it."""
    more = sorted(rules - set(report["findings"][at]["rules"]))
    also = [f"  also broken, probably by the same cause: {', '.join(harmless(id, 40) for id in more)}"] if more else []
    return "\n".join([*counterexample(report, at), *also])


def left(report: Report) -> str:
    """Of a run that isn't whole how much of it there is, in words."""
    totals, meaning = report["totals"], report["exit_meaning"]
    many = f"{totals['items']} of {totals['items_planned']} items"
    return f"{harmless(meaning)}; {many} are there" if meaning.startswith(NOT_WHOLE) else f"interrupted after {many}"


def of_run(report: Report) -> CaseOutcome:
    """The outcome of the run itself: whether it came to its end, and every item was judged."""
    totals = report["totals"]
    failed = report["failed"]
    if report["partial"]:
        return CaseOutcome("error", left(report))
    if failed:
        lines = [f"{harmless(one['item'])}: {harmless(one['error'], 2_000)}" for one in failed[:20]]
        more = [f"and {len(failed) - 20} more"] if len(failed) > 20 else []
        return CaseOutcome("error", f"{len(failed)} of {totals['items']} items failed", "\n".join([*lines, *more]))
    if not report["rules"]:
        return CaseOutcome("error", "nothing was judged: no rule applies to this target in this run")
    return CaseOutcome("passed", f"{totals['steps']:,} steps in {totals['items']} items")
