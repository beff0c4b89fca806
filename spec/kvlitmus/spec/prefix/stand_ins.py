"""With less to see: which rules say, of answers and counters, what others say of a snapshot.

Most rules need a snapshot.  Without one their sentence may still be said: in a sum in the place of a set, or of what is
found and missed afterwards in the place of what is there.  A rule **stands for** another where both demand the same
thing of the same pages, and the first needs less to be judged.  That a fault breaks both in the end is not enough: what
follows from a lost page breaks many rules that aren't about lost pages.

Each pair has been shown by a mutant: calls that break the one break the other where they are seen whole.  No verdict
depends on the table.  It says where to look at a lesser depth of observation, and by it is counted how much less
observation costs (``tests/conformance/power.py``): there a rule counts for another only where the very same calls, seen whole, break
that one.
"""

from __future__ import annotations

from typing import NamedTuple


class Said(NamedTuple):
    """What a rule says with less.

    of: the rules whose sentences it says, in whole or in part; how: by what it says so.
    """

    rule: str
    of: tuple[str, ...]
    how: str


SAID: tuple[Said, ...] = (
    Said("POOL-04", ("POOL-05",), "what somebody holds is not on the free list"),
    Said("POOL-04", ("LOCK-01", "EVICT-03"), "a page that is handed out is no longer where its lock keeps it"),
    Said(
        "POOL-14", ("POOL-12", "LOCK-02", "FRAME-02"), "in sums: what is free, cached and owned makes up the capacity"
    ),
    Said("POOL-15", ("POOL-12",), "of the pages that requests and callers own"),
    Said("TREE-02", ("FRAME-01",), "what was certainly cached is missed by a match, or what wasn't is found"),
    Said("LOCK-07", ("TREE-04",), "in sums: a page that went is no longer counted"),
    Said("TREE-19", ("POOL-11", "POOL-12", "FRAME-02"), "in numbers: what is neither free nor owned is cached"),
    Said(
        "TREE-19",
        ("TREE-08", "REQ-07", "REQ-09", "REQ-11"),
        "in numbers: after an insert, a publication or an end as many pages are cached as it adds, and none is lost",
    ),
    Said("TREE-20", ("LOCK-01", "EVICT-03"), "what is locked is found"),
    Said("TREE-22", ("TREE-04",), "in numbers: as much is free as before"),
    Said("TREE-23", ("REQ-10",), "in numbers: at least as much is free as before"),
    Said("TREE-24", ("LOCK-02", "LOCK-04"), "in sums: as much is counted as protected as receipts protect"),
    Said("EVICT-20", ("EVICT-05", "EVICT-06"), "what is found or missed afterwards shows what went, and how much"),
    Said("EVICT-20", ("EVICT-02", "EVICT-04"), "what is found or handed out afterwards has to fit what was reported"),
    Said("EVICT-20", ("TREE-13", "TREE-14"), "hits and priorities show in what goes first"),
    Said("EVICT-20", ("POOL-20", "FRAME-01"), "what nothing can have taken is missed"),
    Said("EVICT-21", ("EVICT-01", "EVICT-02", "EVICT-06"), "what is reported lies between what must go and what may"),
    Said("EVICT-21", ("LOCK-04", "LOCK-06"), "what no receipt protects goes when it is asked for"),
    Said("EVICT-23", ("EVICT-06",), "in numbers: no more pages went than were lacking"),
    Said("EVICT-24", ("POOL-20",), "in numbers: no more became available than was handed out"),
    Said("BACKUP-06", ("TIER-08",), "what a host copy holds shows when it is put into storage"),
    Said(
        "TIER-10",
        ("TIER-11", "TIER-13", "EVICT-03", "EVICT-06", "LOAD-09"),
        "a match reports as on the host what nothing may have dropped",
    ),
    Said(
        "EVENT-03",
        ("TIER-13", "EVICT-06", "TIER-41", "FETCH-14", "FRAME-03"),
        "by the events there is on the host what nothing may have dropped",
    ),
    Said(
        "EVENT-03",
        ("TIER-42", "FETCH-12"),
        "by the events there is nothing on the host that can't be there",
    ),
    Said("FETCH-16", ("FETCH-12",), "in numbers: what was added is told"),
    Said("TIER-15", ("LIFE-08",), "what nothing holds goes when it is asked for"),
    Said("TIER-15", ("EVICT-06",), "in numbers: no more went from the host than was asked for"),
    Said("TIER-17", ("EVICT-04",), "in numbers: what was dropped became available"),
    Said("TIER-32", ("POOL-12",), "in numbers: with nothing on the host, all of it is available, once"),
    Said("TIER-32", ("LIFE-01", "LIFE-08", "LIFE-16"), "in numbers: with nothing under way, nothing is held"),
    Said("TIER-33", ("FETCH-14", "FRAME-03", "FRAME-04"), "in numbers: as much of the host is available as before"),
    Said("FETCH-19", ("FRAME-07",), "after calls that look and copies between device and host"),
)
"""The table, in no order that matters."""


def standing_for(id: str) -> tuple[Said, ...]:
    """What says with less what this rule says."""
    return tuple(one for one in SAID if id in one.of)


def meant_by(id: str) -> tuple[Said, ...]:
    """What this rule says with less."""
    return tuple(one for one in SAID if one.rule == id)
