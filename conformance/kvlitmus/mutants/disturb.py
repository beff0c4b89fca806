"""Disturbances: foreign effects, done to a specimen behind a call that it has just answered.

They are the self-test of the table of actions (:mod:`kvlitmus.spec.actions`).  :data:`DISTURBANCES` has ways
to bring about each effect, on the specimen's own lists.  A :class:`DisturbingChecker` plays as usual; behind each call
it takes copies of the specimen, disturbs each in one way, and has the step judged as if the call had done that.  In a
cell that is *unchanged* the frame must be broken.  In a cell that is governed it depends: an effect without its cause,
too much of it, on the wrong subject.

These are no mutants: they are generated from the table, have no origin in a real cache, and are reported apart.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from kvlitmus.conformance.checker.checker import Checker
from kvlitmus.conformance.checker.guard import Violation
from kvlitmus.conformance.specimen.hierarchy import TieredSpecimen
from kvlitmus.conformance.specimen.tree import Node
from kvlitmus.conformance.specimen.works import TieredNode
from kvlitmus.spec.actions import ACTIONS, What
from kvlitmus.spec.explain import Look, causes_in, changes, explain
from kvlitmus.spec.on import On
from kvlitmus.spec.seen import Seen, TierSeen
from kvlitmus.spec.state import State
from kvlitmus.spec.units import Key

FOREIGN = 77_777
"""A token that no schedule draws."""

Disturb = Callable[[Any], bool]
"""Bring an effect about; whether that could be done."""


# -- ways to bring effects about -------------------------------------------------------------------


def nodes(cache: Any) -> Iterator[Any]:
    """All nodes of the tree, parents first; oldest use first within a parent."""
    stack = list(cache.tree.roots.values())
    while stack:
        node = stack.pop(0)
        children = sorted(node.children.values(), key=lambda one: (one.touched, one.serial))
        yield from children
        stack += children


def host_of(node: Node) -> list[int]:
    """The host pages of a node; none in a flat cache."""
    return node.host if isinstance(node, TieredNode) else []


def path_units(node: Node) -> tuple[Any, ...]:
    """The units of the whole prefix that a node ends."""
    units: tuple[Any, ...] = ()
    at: Node | None = node
    while at is not None:
        units = at.key + units
        at = at.parent
    return units


def place(cache: Any) -> bool:
    """A page that nobody inserted is cached in a free page."""
    units = ((FOREIGN, FOREIGN) if cache.config.bigram else FOREIGN,) * cache.config.page_size
    root = cache.tree.root(None)
    pages = None if cache.tree.child_key(units) in root.children else cache.pool.take(1)
    if pages is None:
        return False
    cache.tree.add_leaf(root, units, pages)
    return True


def restore(cache: Any) -> bool:
    """A page on the host alone is copied to the device, without a job."""
    for node in nodes(cache):
        if host_of(node) and not node.pages and (node.parent.pages or node.parent.parent is None):
            pages = cache.pool.take(len(node.host))
            if pages is None:
                continue
            cache.copier.to_device(node.host, pages)
            cache.tree.restore(node, pages)
            return True
    return False


def evictable(cache: Any, *, hosted: bool) -> list[Any]:
    """Unlocked leaves of the device with or without a host copy, the least recently used first."""
    found = [leaf for leaf in cache.tree.leaves if leaf.pages and bool(host_of(leaf)) == hosted]
    return sorted(found, key=lambda leaf: (leaf.touched, leaf.serial))


def trim(cache: Any, leaf: Any) -> None:
    """The last page of a leaf without a host copy is gone."""
    if isinstance(cache, TieredSpecimen):
        cache.tree.drop(leaf, 1)
    else:
        cache.tree.trim(leaf, 1)


def evict_oldest(cache: Any) -> bool:
    """The last page of the leaf that was used least recently is gone."""
    leaves = evictable(cache, hosted=False)
    if leaves:
        trim(cache, leaves[0])
    return bool(leaves)


def evict_newest(cache: Any) -> bool:
    """The last page of the leaf that was used most recently is gone."""
    leaves = evictable(cache, hosted=False)
    if leaves:
        trim(cache, leaves[-1])
    return bool(leaves)


def evict_all(cache: Any) -> bool:
    """Everything without a lock or a host copy leaves the device."""
    done = False
    while evict_oldest(cache):
        done = True
    return done


def demote_oldest(cache: Any) -> bool:
    """The last page of the backed leaf that was used least recently leaves the device."""
    leaves = evictable(cache, hosted=True)
    if leaves:
        cache.tree.demote(leaves[0], 1)
    return bool(leaves)


def demote_newest(cache: Any) -> bool:
    """The last page of the backed leaf that was used most recently leaves the device."""
    leaves = evictable(cache, hosted=True)
    if leaves:
        cache.tree.demote(leaves[-1], 1)
    return bool(leaves)


def demote_all(cache: Any) -> bool:
    """Everything that is backed and without a lock leaves the device."""
    done = False
    while demote_oldest(cache):
        done = True
    return done


def move(cache: Any) -> bool:
    """A cached page is copied to another page of the device."""
    for node in nodes(cache):
        pages = cache.pool.take(1) if node.pages else None
        if pages is not None:
            if isinstance(cache, TieredSpecimen):
                cache.copier.copy(cache.copier.device, node.pages[-1:], cache.copier.device, pages)
            cache.pool.give_back(node.pages[-1:])
            node.pages = [*node.pages[:-1], *pages]
            return True
    return False


def take(cache: Any) -> bool:
    """A free page of the device is nobody's."""
    return cache.pool.take(1) is not None


def release_cached(cache: Any) -> bool:
    """A page that is cached is free, too."""
    for node in nodes(cache):
        if node.pages and cache.pool.group is None:
            cache.pool.give_back(node.pages[-1:])
            return True
    return False


def release_owned(cache: Any) -> bool:
    """A page that a request owns is free, too."""
    if cache.pool.group is not None:
        return False
    size = cache.config.page_size
    for running in cache.requests.running.values():
        own = [slot // size for slot in running.row[running.cached :: size]]
        if own and not cache.pool.is_free[own[0]]:
            cache.pool.give_back(own[:1])
            return True
    return False


def back(cache: Any) -> bool:
    """A page gets a host copy, without a job."""
    for node in nodes(cache):
        above = node.parent
        if node.pages and not node.host and (above.parent is None or above.host):
            pages = cache.host.take(len(node.pages))
            if pages is None:
                continue
            cache.copier.to_host(node.pages, pages)
            node.host = pages
            return True
    return False


def host_leaves(cache: Any) -> list[Any]:
    """What may leave the host, the least recently used first."""
    return sorted(cache.tree.host_leaves, key=lambda leaf: (leaf.touched, leaf.serial))


def drop_oldest(cache: Any) -> bool:
    """The last page of what is on the host alone and was used least recently is gone."""
    leaves = host_leaves(cache)
    if leaves:
        cache.tree.trim_host(leaves[0], 1)
    return bool(leaves)


def drop_newest(cache: Any) -> bool:
    """The last page of what is on the host alone and was used most recently is gone."""
    leaves = host_leaves(cache)
    if leaves:
        cache.tree.trim_host(leaves[-1], 1)
    return bool(leaves)


def drop_all(cache: Any) -> bool:
    """Everything that is on the host alone is gone."""
    done = False
    while drop_oldest(cache):
        done = True
    return done


def drop_copy(cache: Any) -> bool:
    """A page that is on the device too loses its host copy."""
    for node in nodes(cache):
        below = any(child.host for child in node.children.values())
        if node.pages and node.host and not node.pins and not node.works and not below:
            pages, node.host = node.host, []
            cache.host.give_back(pages)
            return True
    return False


def move_copy(cache: Any) -> bool:
    """A host copy is copied to another page of the host."""
    for node in nodes(cache):
        pages = cache.host.take(1) if node.host and not node.works else None
        if pages is not None:
            cache.copier.copy(cache.copier.host, node.host[-1:], cache.copier.host, pages)
            cache.host.give_back(node.host[-1:])
            node.host = [*node.host[:-1], *pages]
            return True
    return False


def host_take(cache: Any) -> bool:
    """A free page of the host is nobody's."""
    return cache.host.take(1) is not None


def host_release(cache: Any) -> bool:
    """A page with a host copy in it is free, too."""
    for node in nodes(cache):
        if node.host:
            cache.host.give_back(node.host[-1:])
            return True
    return False


def host_release_early(cache: Any) -> bool:
    """What a prefetch holds is free, too."""
    pages = list(cache.fetches.holding())[:1]
    if pages and not cache.host.is_free[pages[0]]:
        cache.host.give_back(pages)
        return True
    return False


def pin(cache: Any) -> bool:
    """A host copy is protected once more."""
    for node in nodes(cache):
        if node.host:
            cache.tree.pin(node)
            return True
    return False


def unpin(cache: Any) -> bool:
    """A host copy is protected once less."""
    for node in nodes(cache):
        if node.pins:
            cache.tree.unpin(node)
            return True
    return False


def begin_job(kind: str) -> Disturb:
    """A job of this kind begins that nobody has asked for."""

    def begin(cache: Any) -> bool:
        for node in nodes(cache):
            if node.pages and node.host and not cache.config.bigram:
                units = path_units(node)
                cache.works.add(kind, Key(node.namespace, units), len(units) - len(node.key))
                return True
        return False

    begin.__doc__ = f"A {kind} begins that nobody has asked for."
    return begin


def go_on(cache: Any) -> bool:
    """A job that nobody advances goes on to its end."""
    for work in cache.works.works.values():
        if not work.landed:
            work.landed = True
            return True
    return False


def end_job(cache: Any) -> bool:
    """A job that is under way is listed no more."""
    for work in list(cache.works.works.values()):
        if not work.landed:
            cache.works.remove(work)
            return True
    return False


def ask(cache: Any) -> bool:
    """Storage is asked for a page."""
    if cache.store is None:
        return False
    cache.store.exists(["0" * 64])
    return True


def read(cache: Any) -> bool:
    """A page is read from storage."""
    if cache.store is None:
        return False
    cache.store.get("0" * 64)
    return True


def put(cache: Any) -> bool:
    """A page is put into storage under the name that it has there already."""
    for name, contents in list(getattr(cache.store, "contents", {}).items()):
        cache.store.put(name, contents)
        return True
    return False


FLAT: dict[What, tuple[Disturb, ...]] = {
    What.PLACE: (place,),
    What.EVICT: (evict_oldest, evict_newest, evict_all),
    What.MOVE: (move,),
    What.TAKE: (take,),
    What.RELEASE: (release_cached, release_owned),
}
"""Ways to bring about the effects that any cache can have."""

TIERED: dict[What, tuple[Disturb, ...]] = {
    What.RESTORE: (restore,),
    What.DEMOTE: (demote_oldest, demote_newest, demote_all),
    What.BACK: (back,),
    What.DROP: (drop_oldest, drop_newest, drop_all, drop_copy),
    What.MOVE_COPY: (move_copy,),
    What.HOST_TAKE: (host_take,),
    What.HOST_RELEASE: (host_release, host_release_early),
    What.PIN: (pin,),
    What.UNPIN: (unpin,),
    What.BEGIN_JOB: tuple(begin_job(kind) for kind in ("backup", "load", "query", "fetch", "put")),
    What.GO_ON: (go_on,),
    What.END_JOB: (end_job,),
    What.ASK: (ask,),
    What.READ: (read,),
    What.PUT: (put,),
}
"""Ways to bring about those that only a hierarchy can have."""

DISTURBANCES = {**FLAT, **TIERED}

LEFT_OUT: dict[What, str] = {
    What.SPLIT: "how pages are grouped into nodes is the cache's own affair",
    What.USE: "how recently a page was used can't be seen; what goes first shows it (EVICT-05)",
    What.COUNT: "hits are sums, and what they must be is worked out for each step (TREE-13)",
    What.RAISE: "priorities are what they must be after each step (TREE-14)",
    What.LOCK: "locks are sums, and what they must be is worked out for each step (LOCK-02)",
    What.UNLOCK: "locks are sums, and what they must be is worked out for each step (LOCK-02)",
    What.TELL: "what events must tell is said by EVENT-01 to EVENT-03",
}
"""Effects that are not brought about, each with the reason."""

UNREACHED: dict[On, str] = {
    On.GROUP_CLOSED: "it is the end of a free group in a recorded trace; no cache is there to be disturbed",
    On.COMMIT: "the specimen commits when a request polls, not at a tick",
    On.SETTLED: "it is no call: it sums up the ticks before it, and nothing can happen meanwhile",
}
"""Occasions on which no specimen can be disturbed, each with the reason."""


# -- disturbing ------------------------------------------------------------------------------------

UNCHANGED, NO_CAUSE, TOO_MUCH = "unchanged", "without a cause", "too much"
"""The cases of a disturbance: the call may not have the effect; it may, but had no cause; it had it already."""


class Trial(NamedTuple):
    """One disturbance behind one kind of call: the occasion, the effect, how it was brought about, and the case."""

    on: On
    what: What
    how: str
    case: str


class Findings:
    """How often each trial was made, by which rules it was noticed, and calls after which it wasn't."""

    def __init__(self) -> None:
        self.made: Counter[Trial] = Counter()
        self.noticed: dict[Trial, Counter[str]] = {}
        self.silent: dict[Trial, list[str]] = {}

    def note(self, trial: Trial, rules: tuple[str, ...], calls: list[str]) -> None:
        """A trial was made, and these rules were broken."""
        self.made[trial] += 1
        self.noticed.setdefault(trial, Counter()).update(rules)
        if not rules:
            self.silent.setdefault(trial, calls)


def trials(look: Look, *, tiered: bool) -> Iterator[tuple[Trial, Disturb]]:
    """The disturbances that can be tried behind a step."""
    rows = [on for on in look.occasions if on in ACTIONS]
    causes = causes_in(look.occasions, look.setting.profile)
    seen = {one.what for one in explain(look)}
    for what, ways in (DISTURBANCES if tiered else FLAT).items():
        case = UNCHANGED if what not in causes else TOO_MUCH if what in seen else NO_CAUSE
        for way in ways:
            yield Trial(rows[-1], what, (way.__doc__ or "").strip(), case), way


def subjects(look: Look, what: What) -> set[Any]:
    """What an effect was seen to happen to."""
    return {one for found, many in changes(look, what.group) if found is what for one in many}


def disturbing(findings: Findings, *, most: int = 2) -> type[Checker]:
    """A checker that disturbs copies of the specimen behind its calls, each trial ``most`` times."""

    class DisturbingChecker(Checker):
        def _observe(self, call: Any, answer: Any, expected: State, found: Any, row_found: Any) -> None:
            adapter, state, before = self.adapter, self.state, self.before
            untouched = self.copied(adapter)
            step = (call, answer, expected, found, row_found)
            super()._observe(*step)
            then, after = self.state, self.before
            kept = (then, after, self.tally, self.not_judged)
            look = Look(self.setting, state, expected, then, call, answer, before, after)
            for trial, disturb in trials(look, tiered=self.store is not None):
                if findings.made[trial] >= most:
                    continue
                self.adapter, self.state, self.before = self.copied(untouched), state, before
                self.tell_again(after)
                if disturb(self.adapter):
                    rules = self.broken_by(*step)
                    shown = Look(self.setting, state, expected, then, call, answer, before, self.before)
                    if subjects(shown, trial.what) - subjects(look, trial.what):
                        findings.note(trial, rules, self.history[-6:])
            if self.store is not None:
                self.store.record()
            self.adapter = adapter
            self.state, self.before, self.tally, self.not_judged = kept

        def copied(self, adapter: Any) -> Any:
            """A copy of a specimen, with the same storage."""
            return copy.deepcopy(adapter, {id(self.store): self.store})

        def tell_again(self, after: Seen) -> None:
            """Storage shows once more what the call has asked it."""
            if self.store is not None and isinstance(after, TierSeen):
                self.store.record()
                self.store.asked += after.record.asked
                self.store.got += after.record.got
                self.store.puts += after.record.puts

        def broken_by(self, *step: Any) -> tuple[str, ...]:
            """The rules that are broken when the step is judged as it was disturbed."""
            try:
                super()._observe(*step)
            except Violation as violation:
                return violation.rules
            return ()

    return DisturbingChecker
