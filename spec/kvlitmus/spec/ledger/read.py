"""The ledger whole, and what follows from it: depths, gaps, and what is wrong with it.

Which cell a rule stands in is written down; whether it can answer there is checked against the rule: that it exists, and is
judged behind a step of that call.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kvlitmus.spec.interface.ports import PORTS
from kvlitmus.spec.law.on import On
from kvlitmus.spec.law.rule import Kind, Rule
from kvlitmus.spec.ledger import components, pools, prefix, ranks
from kvlitmus.spec.ledger.cells import Cell, Column, Family, Freedom, Line
from kvlitmus.spec.prefix.stand_ins import standing_for

LEDGER: tuple[Line, ...] = (*prefix.LINES, *pools.LINES, *components.LINES, *ranks.LINES)
"""All rows, family by family."""

FREEDOMS: Mapping[str, Freedom] = {
    one.name: one
    for one in (
        Freedom("which page", "any free page may be handed out"),
        Freedom("which of equals", "of what is worth the same anything may go first"),
        Freedom("room at begin", "room is made by the call, or left to its caller, who evicts and asks again"),
        Freedom("flushes an idle cache", "while anybody has anything on the device a flush may be refused"),
        Freedom("room on the host", "how many retracted requests the host has room for"),
        Freedom("waits for a load", "a request whose pages a load is still filling may have to run on"),
        Freedom("shares what is cached", "a resumed request may share what is cached, or bring all of its row back"),
        Freedom("ahead", "more room is made than is lacking", "evict_slack"),
        Freedom("own filter", "a page that is due may be declined", "backup_filter", "own"),
        Freedom("worth a load", "what is shorter than the threshold is not loaded back", "load_threshold"),
        Freedom("when noted", "what has landed is noted by a later tick"),
        Freedom("full", "a store may have no room", "store_room"),
        Freedom("which sparse page", "any free page of a sparse host pool may be taken"),
        Freedom("which device slot", "any free slot of the device may be taken"),
        Freedom("how many are admitted", "a request that could be admitted may have to wait while others run"),
        Freedom("which place", "any free place of a pool may be taken"),
        Freedom("own order of components", "the order of evictions is the cache's own", "component_order", "own"),
        Freedom("all or nothing", "what was read is cached whole, or given back whole"),
        Freedom("own order", "the order in which pages go is the cache's own", "evict_order", "own"),
        Freedom("batches", "pages go in batches, of which the last may be more than is lacking", "evict_batch"),
        Freedom("watermark", "a request that would leave little room may be refused when it begins", "watermark"),
        Freedom("aborted", "what an aborted request has computed may be cached", "aborted", "kept"),
        Freedom("admission", "what a request leaves may end at an earlier page", "admission", "own"),
        Freedom("expiry", "what is old may go when somebody looks", "expiry", "lookup"),
        Freedom("reclaimed", "what is given back may wait for whoever takes memory", "release_moment", "taken"),
        Freedom("late unlock", "a lock that was given back may protect for some calls more", "unlock_delay"),
        Freedom(
            "spare pages", "a request may take pages beside its row, or be refused for want of them", "spare_pages"
        ),
        Freedom(
            "inside a page", "what is found may end inside a page that begins like the key", "match_ends", "inside"
        ),
        Freedom("all or nothing on ranks", "a prefetch that some rank has no room for isn't begun"),
    )
}
"""What is a cache's own affair, by name."""

NO_CALLS: Mapping[On, str] = {
    On.AGAIN: "it compares two runs",
    On.FLAT_CALL: "it is said of every call on a flat cache",
    On.BATCH: "nobody is called: somebody listens",
    On.MISUSE: "the contract is broken: the pack `misuse` says what is expected, call by call",
    **dict.fromkeys(
        (On.DOUBLE_FREE, On.REPEATED_FREE, On.PARTIAL_FREE, On.STALE_UNLOCK, On.SCRIBBLE, On.ODD_ALLOC, On.FORBIDDEN),
        "the contract is broken: the pack `misuse` says what is expected, call by call",
    ),
}
"""Occasions of no row, each with the reason."""


OF_POOLS = (Family.COMPONENTS, Family.REQUESTS)
"""The families of caches each of whose pools is a flat cache."""


def depths(rule: Rule, rules: Mapping[str, Rule]) -> tuple[int, ...]:
    """The depths at which what a rule says is judged, by itself or by one that says it from less, the least first."""
    said = [rule, *(rules[one.rule] for one in standing_for(rule.id))]
    return tuple(sorted({one.depth for one in said}))


def saying(cell: Cell, rules: Mapping[str, Rule], depth: int) -> tuple[str, ...]:
    """The rules of a cell that are judged at this depth, and those that say the same from less."""
    found: dict[str, None] = {}
    for id in (*cell.rules, *cell.later):
        found |= dict.fromkeys(
            one for one in (id, *(said.rule for said in standing_for(id))) if rules[one].depth <= depth
        )
    return tuple(found)


IDLE = (On.FLAT_CALL, On.FREE)
"""What each call on a cache of pools is to one that it asks for nothing: as if nothing were given back."""


def judged_on(rule: Rule, line: Line) -> bool:
    """Whether a rule is judged behind a step of a row: after each call, by the call itself, or on one of its occasions."""
    occasions = (*line.occasions, *line.plain, *(IDLE if line.family in OF_POOLS else ()))
    return not rule.on or rule.kind is Kind.PROCEDURE or not set(rule.on).isdisjoint(occasions)


def also(line: Line, rules: Mapping[str, Rule]) -> tuple[str, ...]:
    """The rules about a step of this row that answer none of the questions: what is answered is true, and well formed."""
    named = {id for cell in line.cells.values() for id in (*cell.rules, *cell.later)}
    return tuple(id for id, one in rules.items() if id not in named and one.on and judged_on(one, line))


def gaps() -> Iterator[tuple[Line, Column, str]]:
    """What no rule says, though it should."""
    for line in LEDGER:
        for column, cell in line.cells.items():
            if cell.gap:
                yield line, column, cell.gap


def faults(rules: Mapping[str, Rule]) -> Iterator[str]:
    """What is wrong with the ledger: calls without a row, cells that answer nothing, rules that can't answer there."""
    calls = {line.call for line in LEDGER}
    methods = {method for port in PORTS.values() for method in port}
    yield from (f"{call} has no row" for call in sorted(methods - calls))
    yield from (f"{call} is no method of any port" for call in sorted(calls - methods))
    names = [(line.family, line.name) for line in LEDGER]
    yield from (f"{name[1]} has two rows" for name in dict.fromkeys(names) if names.count(name) > 1)
    told = {on for line in LEDGER for on in line.occasions}
    yield from (f"the occasion {on} is of no row" for on in On if on not in told and on not in NO_CALLS)
    yield from (f"the occasion {on} is of a row" for on in NO_CALLS if on in told and on is not On.FLAT_CALL)
    used = {name for line in LEDGER for cell in line.cells.values() for name in cell.free}
    yield from (f"nobody uses the freedom {name!r}" for name in FREEDOMS if name not in used)
    for line in LEDGER:
        yield from wrong_cells(line, rules)


def wrong_cells(line: Line, rules: Mapping[str, Rule]) -> Iterator[str]:
    """What is wrong with one row."""
    for column, cell in line.cells.items():
        where = f"{line.name}, {column.value}"
        if not any(cell):
            yield f"{where}: it answers nothing"
        if cell.without and any(cell[:4]):
            yield f"{where}: it has an answer, and says that the question doesn't arise"
        yield from (f"{where}: there is no freedom {name!r}" for name in cell.free if name not in FREEDOMS)
        for id in cell.rules:
            if id not in rules:
                yield f"{where}: there is no rule {id}"
            elif not judged_on(rules[id], line):
                yield f"{where}: {id} isn't judged there"
        family = [one for one in LEDGER if one.family is line.family]
        for id in cell.later:
            if id not in rules:
                yield f"{where}: there is no rule {id}"
            elif not any(judged_on(rules[id], one) for one in family):
                yield f"{where}: {id} is judged behind no call of {line.family.value}"
    if bool(line.cells[Column.REFUSED].without) != (line.refusal.name == "NEVER") and line.call != "page_hashes":
        yield f"{line.name}: its refusal and its cell don't agree"
