"""The table of provenance agrees with what the rules say of themselves."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from kvlitmus.spec.rule import Rule
from tools.evidence import ordered_rules
from tools.provenance import PROPOSAL, TABLE, renewed, sources

TEXT = TABLE.read_text(encoding="utf-8")
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
    *("BACKUP-10", "LOAD-08", "LOAD-09", "LOAD-10"),
    *(f"FRAME-{number:02}" for number in range(1, 8)),
    *("MISUSE-11", "MISUSE-12", "MISUSE-13"),
    "SPARSE-22",
    "CREQ-05",
    *("RANKS-17", "RANKS-18", "RANKS-20", "RANKS-22", "RANKS-24", "RANKS-25"),
)
"""Rules that come from no proposal; the page says so."""


def rows(text: str) -> list[list[str]]:
    """The rows about single proposals: id, what about, fate, rules, reason."""
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
    for proposal, _, fate, told, reason in rows(text):
        wanted = named.pop(proposal, [])
        listed = [] if told == "–" else told.split(", ")
        if listed != wanted:
            found.append(f"{proposal}: the rules that name it are {', '.join(wanted) or '–'} (the table has {told})")
        if fate not in FATES or FATES[fate] != bool(listed) or (not reason and fate != "taken"):
            found.append(f"{proposal}: {fate!r} with {len(listed)} rules and the reason {reason!r}")
    return found + [f"{proposal} is named by {', '.join(ids)} and not in the table" for proposal, ids in named.items()]


def test_table_and_rules_agree() -> None:
    assert complaints(TEXT, RULES) == []


def test_no_proposal_is_left_out_or_told_twice() -> None:
    told = [cells[0] for cells in rows(TEXT)]
    assert told == [f"{pack}-{number:02}" for pack, many in PACKS.items() for number in range(1, many + 1)]


UNSEEN = "The ports of ranks don't show who writes to storage; that all acknowledge is RANKS-10 and RANKS-11."
"""The reason of a row."""


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("| taken | POOL-06 |", "| taken | POOL-07 |", "R-DEV-02: the rules that name it are POOL-06"),
        ("| taken | POOL-06 |", "| adopted | POOL-06 |", "R-DEV-02: 'adopted'"),
        ("| taken | POOL-06 |", "| dropped | POOL-06 |", "R-DEV-02: 'dropped'"),
        ("| one rank writes | postponed |", "| one rank writes | taken |", "R-BK-07: 'taken'"),
        (f"| postponed | – | {UNSEEN} |", "| postponed | – | |", "R-BK-07: 'postponed'"),
        ("| R-DEV-11 |", "| R-DEV-12 |", "R-DEV-12: the rules"),
    ],
)
def test_a_planted_slip_is_found(old: str, new: str, expected: str) -> None:
    assert TEXT.count(old) == 1
    assert complaints(TEXT.replace(old, new), RULES)[0].startswith(expected)


def test_the_column_of_rules_can_be_renewed() -> None:
    assert renewed(TEXT, RULES) == TEXT
    assert renewed(TEXT.replace("| taken | POOL-06 |", "| taken | – |"), RULES) == TEXT
