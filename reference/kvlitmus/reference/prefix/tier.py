"""What is on which tier: matching over both, evicting from each.

The pages of a path are, from the root on, first *resident* ones (on the device, with a host copy or without),
then pages on the host alone.  Matching sees all of them and uses all of them; only the resident ones have
slots to compute with.

**Evicting from the device** takes leaves among the resident pages.  A page with a host copy is *demoted*: its
device slots are free, and everything else about it lives on.  A page without one is deleted; under write-back
it is first copied to the host, within the call, and where the host has no room it stays.

**Evicting from the host** takes pages that are there alone, that nothing hangs below and nothing is pinned
to.  A page that is resident too keeps its host copy: dropping it would gain little and lose the backup.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile

from kvlitmus.reference.prefix.choose import Choice, Names, hand_out, make_room, refuse
from kvlitmus.reference.prefix.hierarchy import begins, works_of
from kvlitmus.reference.prefix.put import start_puts
from kvlitmus.spec.interface.tiers import SPILL, SPILLED
from kvlitmus.spec.prefix import effects
from kvlitmus.spec.prefix.advance import matched, used
from kvlitmus.spec.prefix.own_work import Transfer
from kvlitmus.spec.prefix.page import copy_of
from kvlitmus.spec.prefix.state import State
from kvlitmus.spec.words.policies import WRITE_BACK
from kvlitmus.spec.words.setting import Setting
from kvlitmus.spec.words.units import Name, PageNo, Pages

# -- looking ----------------------------------------------------------------------------------------------


def known_prefix(state: State, names: Sequence[Name]) -> tuple[Pages, Pages]:
    """How many of a key's pages are resident, and how many follow on the host alone."""
    there = effects.cached_prefix(state.device, names)
    return there, effects.cached_prefix(state.host, names[there:])


def match(state: State, setting: Setting, names: Sequence[Name], units: int) -> tuple[State, Pages, Pages]:
    """How many pages are resident of what a key has cached, and how many follow on the host alone.

    All of them were used now, at the same tick.  Where a match leaves a unit to compute it covers fewer pages than are
    cached; see :func:`match_all`.
    """
    there, behind = known_prefix(state, names[: setting.cap(units) // setting.size])
    state = state._replace(device=matched(state.device, setting, names[:there]))
    hits = int(setting.profile.hit_counts == "match")
    return use_alone(state, setting, names[there : there + behind], hits=hits), there, behind


def match_all(state: State, setting: Setting, names: Sequence[Name]) -> tuple[State, Pages, Pages]:
    """All that a key has cached was used now: what is moved between tiers need not be computed, and isn't a hit yet."""
    there, behind = known_prefix(state, names)
    state = state._replace(device=used(state.device, setting, names[:there]))
    return use_alone(state, setting, names[there : there + behind]), there, behind


def use_alone(state: State, setting: Setting, names: Sequence[Name], *, hits: int = 0) -> State:
    """Note a use of these pages of one path, all on the host alone, at the present tick."""
    if not names:
        return state
    return state._replace(host=used(state.host, setting, names, hits=hits, now=state.device.clock))


def cut(state: State, name: Name) -> State:
    """End a node at this page, on whichever tier it is: see :func:`kvlitmus.spec.prefix.effects.split`."""
    state = state._replace(host=effects.split(state.host, name))
    return state._replace(device=effects.split(state.device, name)) if name in state.device.pages else state


def adopt(before: State, state: State, setting: Setting, names: Sequence[Name]) -> State:
    """After an insert of these pages: those that were on the host alone ``before`` are resident now.

    They have taken the caller's slots, and keep what was known of them; whether the insert that brings a page back
    is counted as a hit is a choice.
    """
    back = [name for name in names if name in state.host.pages and name not in before.device.pages]
    if not back:
        return state
    host = effects.split(state.host, back[-1])
    tree, host = effects.promote(state.device, host, back, counts=setting.profile.restored_counts)
    pages = dict(tree.pages)
    for name in names[names.index(back[-1]) + 1 :][:1]:
        pages[name] = pages[name]._replace(first=True)
    return state._replace(device=tree._replace(pages=pages), host=host)


# -- the host's memory ------------------------------------------------------------------------------------


def allocate(
    state: State, names: Sequence[Name], choice: Choice, *, reused: bool = False
) -> tuple[State, tuple[PageNo, ...] | None]:
    """Host pages for the copies of these pages, or ``None`` when too few are free or when a fault says so.

    ``reused``: a chosen page that isn't free is passed over.  An eviction that writes back may drop what it has just
    written and use its page again, so where a copy ends says nothing of where it was first.
    """
    works = works_of(state)
    if works.fault is not None:
        works = works._replace(fault=works.fault - 1 if works.fault else None)
        failed, state = not works_of(state).fault, state._replace(works=works)
        if failed:
            return state, None
    chosen = choice.host_pages or {}
    wanted = {
        name: chosen[name]
        for name in names[: len(works.free)]
        if name in chosen and (not reused or chosen[name] in works.free)
    }
    left = iter(sorted(works.free.difference(wanted.values()), key=lambda page: (page in chosen.values(), page)))
    places = [wanted[name] if name in wanted else next(left) for name in names[: len(works.free)]]
    pages = hand_out(works.free, len(names), tuple(places))
    if pages is None:
        return state, None
    return state._replace(works=works._replace(free=works.free.difference(pages))), pages


def allocate_or_evict(
    state: State, setting: Setting, names: Sequence[Name], choice: Choice, *, reused: bool = False
) -> tuple[State, tuple[PageNo, ...] | None]:
    """Host pages; where there are too few, room is made as the profile says, once, and the allocation tried again.

    In an order of the cache's own nobody saw which victim went first, and so whose page was free first.
    """
    reused = reused or setting.own_order
    state, got = allocate(state, names, choice, reused=reused)
    if got is not None:
        return state, got
    whole = setting.profile.evict_amount == "need"
    state, _ = evict_host(state, setting, len(names) - (0 if whole else len(works_of(state).free)), choice)
    return allocate(state, names, choice, reused=reused)


def free(state: State, pages: Sequence[PageNo]) -> State:
    """Take host pages back; raises ``ValueError`` for one that is free already or named twice."""
    works = works_of(state)
    if len(set(pages)) < len(pages) or not works.free.isdisjoint(pages):
        raise ValueError(f"host pages {sorted(pages)} are freed twice", tuple(pages))
    return state._replace(works=works._replace(free=works.free.union(pages))) if pages else state


def back(state: State, names: Sequence[Name], pages: Sequence[PageNo], *, settled: bool, stored: bool) -> State:
    """Give these pages of the device host copies in these host pages."""
    resident = state.device.pages
    copies = {name: copy_of(resident[name].parent, page) for name, page in zip(names, pages, strict=True)}
    state = state._replace(host=state.host._replace(pages={**state.host.pages, **copies}))
    return marked(state, names, settled=settled, stored=stored)


def marked(state: State, names: Sequence[Name], *, settled: bool, stored: bool) -> State:
    """Of these pages, which have just come to the host, whether their contents are there, and in storage."""
    works = works_of(state)
    return state._replace(
        works=works._replace(
            settled=works.settled.union(names) if settled else works.settled,
            stored=works.stored.union(names) if stored else works.stored,
        )
    )


def unback(state: State, names: Sequence[Name]) -> State:
    """Take the host copies of these pages away."""
    host, works = state.host, works_of(state)
    gone = [host.pages[name].page for name in names]
    works = works._replace(settled=works.settled.difference(names), stored=works.stored.difference(names))
    return free(state._replace(host=effects.remove(host, names), works=works), gone)


def again(state: State, failed: Transfer) -> State:
    """Begin a copy that failed once more, behind all others; where it can't begin it is left for the next tick."""
    state, can = begins(state, failed.kind)
    works = works_of(state)
    if can:
        works = works._replace(serial=works.serial + 1)
        failed = Transfer(works.serial, failed.kind, failed.names)
    return state._replace(works=works._replace(transfers=(*works.transfers, failed)))


# -- eviction ---------------------------------------------------------------------------------------------


def evict(state: State, setting: Setting, wanted: int, choice: Choice) -> tuple[State, Names]:
    """Make room for ``wanted`` device pages; and the pages that left the device, in order.

    Backed leaves are demoted, others deleted; under write-back these are copied to the host first, and where that
    fails they stay and are passed over.  What is chosen may be more than what is wanted, and less only where nothing
    else can go; the policy's order is kept in any case.
    """
    chosen = choice.victims

    def let_go(now: State, run: Names) -> tuple[State, Names]:
        if chosen is not None and run[0] in chosen:
            run = tuple(takewhile(lambda name: name in chosen, run))
        copies = now.host.pages
        run = tuple(takewhile(lambda name: (name in copies) == (run[0] in copies), run))
        if run[0] not in copies and setting.config.write == WRITE_BACK:
            end = run
            now, run = write_back(now, setting, end, choice)
            if not run:
                return give_up(now, tuple(takewhile(lambda name: name in choice.given_up, end)))
        if chosen is not None and not set(run) <= set(chosen):
            refuse(f"expected {list(run)} to leave the device, {sorted(chosen)} did")
        return (leave_device(now, run), run) if run else (now, run)

    most = max(wanted, len(chosen or ()))
    state, victims = make_room(state, most, setting, lambda now: now.device, let_go, first=chosen or ())
    if chosen is not None and len(victims) < len(chosen):
        refuse(f"{sorted(set(chosen).difference(victims))} can't leave the device: locked, or the host has no room")
    return state, victims


def give_up(state: State, run: Names) -> tuple[State, Names]:
    """The end of a branch, last page first, is lost; with it goes what is below it on the host, which is out of reach.

    Raises ``ValueError`` where something below it is pinned.
    """
    if not run:
        return state, ()
    below = effects.below(state.host, run) - set(run)
    pinned = sorted(name for name in below if state.host.pages[name].locks)
    if pinned:
        refuse(f"{list(run)} are given up, and {pinned} below them are pinned")
    state = unback(state, sorted(below))
    return state._replace(device=effects.remove(state.device, run)), run


def leave_device(state: State, run: Sequence[Name]) -> State:
    """Free the device slots of the end of a branch, last page first: it is demoted if it has host copies, else gone."""
    if run[0] not in state.host.pages:
        return state._replace(device=effects.remove(state.device, run))
    tree, host = effects.demote(state.device, state.host, run)
    return state._replace(device=tree, host=host)


def write_back(state: State, setting: Setting, run: Names, choice: Choice) -> tuple[State, Names]:
    """Copy the end of a branch, last page first, to the host within this call; which of it there was room for.

    Where there isn't room for all of it, the last pages go; of a node that must go as one, none do.  Where the copy
    fails, nothing of it is on the host, and all of it stays.
    """
    state, pages = allocate_or_evict(state, setting, run[::-1], choice, reused=True)
    if pages is None and setting.profile.evict_granularity == "page":
        run = run[: len(works_of(state).free)]
        state, pages = allocate(state, run[::-1], choice, reused=True)
    if not pages:
        return state, ()
    for stage in (SPILL, SPILLED):
        state, can = begins(state, stage)
        if not can:
            return free(state, pages), ()
    state = back(state, run[::-1], pages, settled=True, stored=False)
    return start_puts(state, run[::-1]), run


def evict_host(state: State, setting: Setting, wanted: int, choice: Choice) -> tuple[State, Pages]:
    """Delete pages that are on the host alone, childless and unpinned, until ``wanted`` host pages became free.

    Returns how many became free; fewer where there is no more.  Copies of what is on the device too go where that is
    chosen, and the profile allows it.
    """
    reclaimed = reclaimed_by(state, setting, choice)
    if reclaimed:
        state, wanted = unback(state, reclaimed), wanted - len(reclaimed)

    def let_go(now: State, run: Names) -> tuple[State, Names]:
        return unback(now, run), run

    spared = set(state.host.pages.keys() & state.device.pages.keys())
    if choice.host_victims is not None:
        spared |= state.host.pages.keys() - set(choice.host_victims)
        if wanted > 0:
            wanted = setting.in_batches(wanted)
    state, victims = make_room(state, wanted, setting, lambda now: now.host, let_go, spared)
    return state, Pages(len(victims) + len(reclaimed))


def reclaimed_by(state: State, setting: Setting, choice: Choice) -> Names:
    """The pages on the device whose host copies are chosen to go: under write-back a profile may allow it."""
    if setting.profile.host_duplicates != "reclaimed" or setting.config.write != WRITE_BACK:
        return ()
    tree, copies = state.device, state.host.pages
    return tuple(
        name for name in choice.host_victims or () if name in tree.pages and name in copies and not copies[name].locks
    )
