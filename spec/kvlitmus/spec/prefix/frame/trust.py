"""Trust: what was known of a cache and contradicts what is seen of it, once it has broken a rule.

After a broken rule the tree, and what is free, are what the snapshot shows.  Who owns a page, what is locked, and which
host pages the work under way reads from isn't shown, or shown in part: it is what the calls so far amount to.  Where the
snapshot contradicts that, nobody can say which of the two is right; a rule that needs it would accuse a cache of the
consequences of what it was accused of already.  It is *blocked*: not judged any more.

Which rules that are, nobody has to declare: they are judged on a state of which what can't be trusted can't be read.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from typing import Any

from kvlitmus.spec.law.facts import UNKNOWN, Facts
from kvlitmus.spec.law.plan import value_of
from kvlitmus.spec.law.rule import Rule
from kvlitmus.spec.prefix.late_locks import late_locks
from kvlitmus.spec.prefix.page import Page
from kvlitmus.spec.prefix.seen import Seen, TierSeen
from kvlitmus.spec.prefix.state import State
from kvlitmus.spec.prefix.work import Tiers, counted_tree
from kvlitmus.spec.words.names import NO_NAME
from kvlitmus.spec.words.setting import Setting
from kvlitmus.spec.words.units import Name

OWNERS, LOCKS, WORK = "who owns a page", "what is locked", "what work under way reads from"
"""What may turn out to be contradicted."""

CACHED = "what is cached, and where"
"""What else state and cache may disagree on; then the snapshot is believed."""

UNREADABLE: Mapping[str, frozenset[str]] = {
    OWNERS: frozenset({"owners", "requests", "contents", "found", "row_found"}),
    LOCKS: frozenset({"requests", "receipts", "locks", "unlocking"}),
    WORK: frozenset({"work"}),
}
"""What it makes unreadable: fields of the state, of its pages and of what is below the device, and inputs.

Where two own a page, both write there, and what it holds says nothing.
"""


class DistrustedError(Exception):
    """Something was asked of the state that can't be trusted."""


def contradicted(known: State, seen: Seen, setting: Setting) -> frozenset[str]:
    """What of the state contradicts the snapshot; nothing where there is none."""
    if not seen.seen:
        return frozenset()
    lost = rests_on_what_is_gone(known, setting)
    found = {
        OWNERS: lost or owns_what_is_not_its(known, seen, setting),
        LOCKS: lost or shows_other_locks(known, seen, setting),
    }
    if isinstance(seen, TierSeen) and known.tiers is not None:
        found[WORK] = any(
            seen.hosted.get(name) != page
            for page_of in map(_sources, known.tiers.work.values())
            for name, page in page_of
        )
    return frozenset(what for what, is_so in found.items() if is_so)


def parted(expected: State, known: State, seen: Seen, setting: Setting) -> list[str]:
    """On what state and cache disagree after a call, for a reader: it need not be wrong of the cache.

    That pages are gone is no disagreement, nor what came back from below.
    """
    found = set(contradicted(known, seen, setting))
    if seen.seen and not isinstance(seen, TierSeen) and setting.profile.duplicates != "kept":
        pages = expected.device.pages
        if any(name not in pages or pages[name].page != page for name, page in seen.cached.items()):
            found.add(CACHED)
    return sorted(found)


def _sources(work: Any) -> Iterable[tuple[Name, Any]]:
    return () if work.over else work.sources.items()


def owns_what_is_not_its(known: State, seen: Seen, setting: Setting) -> bool:
    """Whether a page has two homes: it is owned, cached or free more than once, or two of these."""
    if len(seen.listed) > len(seen.free) or not seen.free.isdisjoint(known.owners):
        return True
    if setting.profile.duplicates == "kept":
        return False
    if len(seen.cached_listed) > len(set(seen.cached_listed)) or not seen.free.isdisjoint(seen.cached_listed):
        return True
    return any(times > 1 for times in known.owners.values()) or not known.owners.keys().isdisjoint(seen.cached.values())


def rests_on_what_is_gone(known: State, setting: Setting) -> bool:
    """Whether a path that a receipt or a request protects is not all cached: a row may name slots that are others' now."""
    pages = known.device.pages

    def lost(at: Name) -> bool:
        while at in pages:
            at = pages[at].parent
        return setting.names.parent(at) != NO_NAME

    return any(map(lost, {*known.receipts.values(), *(running.locked for running in known.requests.values())}))


def shows_other_locks(known: State, seen: Seen, setting: Setting) -> bool:
    """Whether a node shows another number of locks than protect it; in a block table, where each page has its own."""
    if setting.table:
        shown = [(page, node.locks) for node in seen.nodes for page in node.info.pages if node.locks is not None]
        return any(locks != known.table[page].holders for page, locks in shown if page in known.table)
    pages = counted_tree(known.device, known.tiers, setting).pages
    ends = [(node.info.names[-1], node.locks) for node in seen.nodes if node.info.names and node.locks is not None]
    late = late_locks(known, known.device)
    return any(not 0 <= locks - pages[end].locks <= late.get(end, 0) for end, locks in ends if end in pages)


def blocked(rules: Iterable[Rule], inputs: Mapping[str, Any], distrusted: frozenset[str]) -> frozenset[str]:
    """Those of these rules that would have to read what can't be trusted."""
    hidden = Hidden(
        {name: distrusting(one, distrusted) if isinstance(one, State) else one for name, one in inputs.items()}
    )
    hidden.names = unreadable_of(distrusted)
    known: Facts = {}
    found = set()
    for rule in rules:
        try:
            values = {name: value_of(name, hidden, known) for name in rule.facts}
            if not any(value is UNKNOWN for value in values.values()):
                rule.predicate(**values)
        except DistrustedError:
            found.add(rule.id)
    return frozenset(found)


class Hidden(dict[str, Any]):
    """The inputs of a step, some of which can't be read."""

    names: frozenset[str] = frozenset()

    def get(self, name: str, default: Any = None) -> Any:
        """One of them."""
        if name in self.names:
            raise DistrustedError
        return super().get(name, default)


def unreadable_of(distrusted: frozenset[str]) -> frozenset[str]:
    """What can't be read."""
    return frozenset().union(*(UNREADABLE[what] for what in distrusted))


def distrusting(state: State, distrusted: frozenset[str]) -> State:
    """A state of which nothing can be read that can't be trusted: whoever tries gets a :class:`DistrustedError`."""
    names = unreadable_of(distrusted)
    if "locks" in names:
        pages = {name: unreadable(Page, frozenset({"locks"}))(*page) for name, page in state.device.pages.items()}
        state = state._replace(device=state.device._replace(pages=pages))
    if "work" in names and state.tiers is not None:
        state = state._replace(tiers=unreadable(Tiers, frozenset({"work"}))(*state.tiers))
    hidden: State = unreadable(State, names & frozenset(State._fields))(*state)
    return hidden


@functools.cache
def unreadable(kind: Any, names: frozenset[str]) -> Any:
    """A kind of tuple of which some fields can't be read by name."""

    def refuse(_: object) -> None:
        raise DistrustedError

    return type(kind.__name__, (kind,), {"__slots__": (), **dict.fromkeys(names, property(refuse))})
