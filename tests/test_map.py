"""The table of provenance agrees with what the rules say of themselves."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from kvlitmus.spec.law.rule import Rule
from tests.test_layout import ROOT
from tools.matrix import PROPOSAL, ordered_rules, sources, with_rules

TEXT = (ROOT / "docs" / "map.md").read_text(encoding="utf-8")
RULES = ordered_rules()
FATES = {"taken": True, "split": True, "merged": True, "postponed": False, "dropped": False}
"""Each fate, and whether there are rules then."""
PACKS = {
    "R-DEV": 11,
    "R-HOST": 10,
    "R-TR": 11,
    "R-LK": 8,
    "R-EV": 9,
    "R-HASH": 8,
    "R-PF": 12,
    "R-HT": 3,
    "R-WB": 8,
    "R-LB": 8,
    "R-L3": 10,
    "R-PFT": 8,
    "R-PFC": 9,
    "R-BK": 7,
    "R-LIFE": 5,
    "R-EVT": 2,
    "R-SP": 14,
    "R-SC": 7,
    "R-SWA": 8,
    "R-MA": 7,
    "R-MR": 8,
}
"""The packs whose proposals are all in the table, and how many proposals each has."""
OF_ITS_OWN = (
    *("PORT-01", "PORT-02", "PORT-03", "PORT-04", "STORE-15", "STORE-17", "STORE-18"),
    *("REQ-16", "REQ-17", "REQ-18", "REQ-19", "EVICT-25", "EVICT-26"),
    *("LOAD-08", "LOAD-09", "LOAD-10"),
    *(f"FRAME-{number:02}" for number in range(1, 8)),
    *("MISUSE-11", "MISUSE-12", "MISUSE-13"),
    "SPARSE-22",
    "CREQ-05",
    *("RANKS-18", "RANKS-24", "RANKS-25"),
)
"""Rules that come from no proposal; the page says so."""


def rows(text: str) -> list[list[str]]:
    """The rows about single proposals: id, what about, fate, reason."""
    lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line[:1] == "|"]
    return [cells for cells in lines if PROPOSAL.fullmatch(cells[0])]


def complaints(text: str, rules: Mapping[str, Rule]) -> list[str]:
    """Where the table and the sources of the rules differ, and rows that lack something."""
    named = sources(rules)
    found = [
        f"{rule.id} comes from no proposal"
        for rule in rules.values()
        if not PROPOSAL.search(rule.source) and rule.id not in OF_ITS_OWN
    ]
    for proposal, _, fate, reason in rows(text):
        listed = named.pop(proposal, [])
        if fate not in FATES or FATES[fate] != bool(listed) or (not reason and fate != "taken"):
            found.append(f"{proposal}: {fate!r} with {len(listed)} rules and the reason {reason!r}")
    return found + [f"{proposal} is named by {', '.join(ids)} and not in the table" for proposal, ids in named.items()]


def test_table_and_rules_agree() -> None:
    assert complaints(TEXT, RULES) == []


def test_no_proposal_is_left_out_or_told_twice() -> None:
    told = [cells[0] for cells in rows(TEXT)]
    assert told == [f"{pack}-{number:02}" for pack, many in PACKS.items() for number in range(1, many + 1)]


UNSEEN = "The ports of ranks don't show who writes to storage; that all acknowledge is RANKS-10."
"""The reason of a row."""


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (
            "| R-DEV-02 | the reserved unit | taken |",
            "| R-DEV-02 | the reserved unit | adopted |",
            "R-DEV-02: 'adopted'",
        ),
        (
            "| R-DEV-02 | the reserved unit | taken |",
            "| R-DEV-02 | the reserved unit | dropped |",
            "R-DEV-02: 'dropped'",
        ),
        ("| one rank writes | postponed |", "| one rank writes | taken |", "R-BK-07: 'taken'"),
        (f"| postponed | {UNSEEN} |", "| postponed | |", "R-BK-07: 'postponed'"),
        ("| R-DEV-11 |", "| R-DEV-12 |", "R-DEV-12: 'taken' with 0 rules"),
    ],
)
def test_a_planted_slip_is_found(old: str, new: str, expected: str) -> None:
    assert TEXT.count(old) == 1
    assert complaints(TEXT.replace(old, new), RULES)[0].startswith(expected)


def test_the_site_adds_the_rules_of_each_proposal() -> None:
    page = with_rules(TEXT)
    assert "| proposal | what it is about | fate | rules | reason |\n|---|---|---|---|---|\n" in page
    assert "| R-DEV-02 | the reserved unit | taken | POOL-06 | |" in page
    assert f"| one rank writes | postponed | – | {UNSEEN} |" in page
    assert with_rules("a | b\n| c | d |\n") == "a | b\n| c | d |\n"
