"""When, and how often, each entry of a cache of components was used: no less than this, and no more than that.

A hit uses what it names, and an insert, a commit or a request what it brings.  Whether a call uses what else is on its path,
and whether a lock, a copy or the end of a request is a use, each cache says in its own way, and how it counts.  So there are two
bounds: what is certain by any of these readings, which is the tier's own account of an entry, and what is possible by one of them,
which is the other account that its doubt has (``vague``).  Nobody gives an entry of a component a priority.

An insert uses what it brings duplicates of once more, where inserts count, and a hit what it names, where these do; of an entry that is
cached twice nobody knows which.  An entry may have the age and the number of uses of what else is cached for its prefix when it
comes.  Each tier has its own bounds: what a copy brings may have been used last when what it reads was, as that was known when
the copy began, or just now, and may be counted anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from kvlitmus.spec.prefix.calls import Begin, End, Grow, Insert, Lock, Match, Path, Unlock
from kvlitmus.spec.prefix.components.calls import ComponentHit, Holding, JointCall
from kvlitmus.spec.prefix.components.state import fresh_of, needed_by, path_to, pool_places, stored_by
from kvlitmus.spec.prefix.listener import DEVICE, HOST
from kvlitmus.spec.prefix.page import At, Page, Tier
from kvlitmus.spec.prefix.state import State
from kvlitmus.spec.prefix.work_calls import Abandon, BackUp, Commit, Copied, Detach, Fetched, Found, LoadBack, Written
from kvlitmus.spec.words.names import NO_NAME
from kvlitmus.spec.words.policies import Order, Worth
from kvlitmus.spec.words.setting import Setting
from kvlitmus.spec.words.units import Name, PageNo, Tick

Uses = tuple[Page, Page]
"""Two accounts of the use of an entry: what is certain, and what is possible."""

BRINGING = (Insert, Commit, Begin, Grow)
"""The calls whose entries are used when they come; what copies bring was there before."""


def is_ordered(setting: Setting) -> bool:
    """Whether evictions go by a policy that can be judged: it is declared, entries go one by one, and snapshots show which."""
    profile = setting.profile
    return setting.seen and profile.component_order == "policy" and profile.evict_granularity == "page"


def with_uses(state: State, then: State, setting: Setting, call: JointCall, answer: object) -> State:
    """What is known after a call, with what it says of the use of what is cached."""
    if not is_ordered(setting):
        return then
    tick = Tick(state.device.clock + 1)
    touched = on_path_of(setting, state, call)
    doubled = {at for at, _ in state.copies | then.copies}
    named = named_by(setting, call, answer) - doubled
    again = brought_twice(setting, state, call, answer) - doubled
    anew = come_again(setting, state, then, call, answer)
    change = Change(tick, touched, named, again, anew, setting.profile.hit_counts)
    began = copied_from(state, then, call)
    if isinstance(call, BackUp | LoadBack) and call.number in then.under_way:
        copy = then.under_way[call.number]._replace(uses=began)
        then = then._replace(under_way={**then.under_way, call.number: copy})
    changed = touched.union([name for _, name in named | again | anew])
    for tier in (DEVICE, HOST):
        brings = tier == DEVICE and isinstance(call, BRINGING)
        changes = change.on_device if tier == DEVICE else change.on_host
        known = {}
        for component, there in then.on(tier):
            before, uses = state.tier(tier, component), dict[Name, Uses]()
            for name, page in there.pages.items():
                if name not in before.pages:
                    uses[name] = new(state, (component, name), tick, began, brought=brings)
                elif name in changed or page is not before.pages[name]:
                    uses[name] = changes((component, name), *uses_of(before, name))
            if uses or len(there.pages) < len(before.pages):
                known[component] = with_accounts(there, uses)
        then = then.put(tier, known) if known else then
    return then._replace(device=then.device._replace(clock=tick))


class Change(NamedTuple):
    """What a call says of uses: at which ``tick`` of which prefixes, what it names, brings duplicates of, or brings anew, and how often these count."""

    tick: Tick
    touched: frozenset[Name]
    named: frozenset[At]
    again: frozenset[At]
    anew: frozenset[At]
    counts: str

    def on_host(self, at: At, least: Page, most: Page) -> Uses:
        """What is known of an entry there: it may have been used."""
        return (least, used(most, self.tick)) if at[1] in self.touched else (least, most)

    def on_device(self, at: At, least: Page, most: Page) -> Uses:
        """What is known of an entry there: it may have been used, or was for certain."""
        least, most = self.on_host(at, least, most)
        if at in self.named:
            least = used(least, self.tick, self.counts == "match")
        if at in self.again:
            least = used(least, least.touched, self.counts == "insert")
        if at in self.anew:
            least, most = least._replace(hits=0), most._replace(created=self.tick)
        return least, most


def used(page: Page, tick: Tick, hits: int = 1) -> Page:
    """An entry that was used at a tick."""
    return page._replace(touched=tick, hits=page.hits + hits)


def uses_of(there: Tier, name: Name) -> Uses:
    """What is certain of the use of an entry, and what is possible."""
    page = there.pages[name]
    return page, there.doubt.vague.get(name, page)


def worths(there: Tier, name: Name, order: Order) -> tuple[Worth, Worth]:
    """The least and the most that an entry can be worth: of all that a policy looks at it wants more, or of all less."""
    low, high = map(order, uses_of(there, name))
    return min(low, high), max(low, high)


def with_accounts(there: Tier, uses: Mapping[Name, Uses]) -> Tier:
    """A tier of some of whose entries this is known, wherever they are; of the others what was known, while they are there."""
    least = {name: as_used(there.pages[name], use) for name, (use, _) in uses.items()}
    most = {name: as_used(least[name], use) for name, (_, use) in uses.items()}
    pages = there.pages
    if any(page is not pages[name] for name, page in least.items()):
        pages = {**pages, **least}
    vague = {
        name: page for name, page in {**there.doubt.vague, **most}.items() if name in pages and page is not pages[name]
    }
    return there._replace(pages=pages, doubt=there.doubt._replace(vague=vague))


def as_used(page: Page, use: Page) -> Page:
    """An entry that was used like another one."""
    if (page.touched, page.created, page.hits) == (use.touched, use.created, use.hits):
        return page
    if use.page == page.page and use.parent == page.parent:
        return use
    return page._replace(touched=use.touched, created=use.created, hits=use.hits)


def copied_from(state: State, then: State, call: JointCall) -> Mapping[At, Page]:
    """How what a copy reads was used for certain when it began: one that begins with this call, or has ended with it."""
    if isinstance(call, Copied):
        return state.under_way[call.number].uses
    if not isinstance(call, BackUp | LoadBack) or call.number not in then.under_way:
        return {}
    copy = then.under_way[call.number]
    source = HOST if copy.load else DEVICE
    reads = copy.places.keys() | copy.landing | copy.host
    return {at: page for at in reads if (page := state.tier(source, at[0]).pages.get(at[1]))}


def new(state: State, at: At, tick: Tick, began: Mapping[At, Page], *, brought: bool) -> Uses:
    """What is known of an entry that has come to a tier by a call: as new, or as old as what there is for its prefix.

    ``began``: of what a copy reads, as it was when that began.
    """
    name = at[1]
    beside = [uses_of(there, name) for tier in (DEVICE, HOST) for _, there in state.on(tier) if name in there.pages]
    least = Page(NO_NAME, PageNo(0), Tick(0), Tick(0))
    most = least._replace(touched=tick, created=tick, hits=max([one.hits for _, one in beside], default=0) + 1)
    if not brought:
        return began.get(at, least)._replace(hits=0), most
    return least._replace(touched=tick, created=min([one.created for one, _ in beside], default=tick)), most


def named_by(setting: Setting, call: JointCall, answer: object) -> frozenset[At]:
    """What a hit names on the device."""
    if isinstance(call, Match):
        assert isinstance(answer, ComponentHit)
        return needed_by(setting, call.path, answer.length)
    if isinstance(call, Begin) and isinstance(answer, Holding):
        return needed_by(setting, call.path, answer.length)
    return frozenset()


def brought_twice(setting: Setting, state: State, call: JointCall, answer: object) -> frozenset[At]:
    """What an insert brought for what is cached, and left to the caller."""
    if not isinstance(call, Insert):
        return frozenset()
    assert isinstance(answer, Mapping)
    layout, left = setting.layout, pool_places(setting.layout, answer)
    return frozenset(
        at
        for at, place in call.slots.items()
        if at[1] in state.tier(DEVICE, at[0]).pages and (layout.named(at[0]).pool, place) in left
    )


def come_again(setting: Setting, state: State, then: State, call: JointCall, answer: object) -> frozenset[At]:
    """What was cached, and is new in its place: KV that an insert has replaced, and what a request got by this call.

    What a request holds in such a place may have gone for it, and come again.
    """
    if isinstance(call, Insert):
        before, after = state.places(DEVICE), then.places(DEVICE)
        return frozenset(at for at, place in call.slots.items() if after.get(at) == place != before.get(at))
    if not isinstance(call, Begin | Grow) or not isinstance(answer, Holding):
        return frozenset()
    fresh = frozenset(fresh_of(setting.layout, state, call, answer))
    pools = {one.name: one.pool for one in setting.layout.components}
    return frozenset(at for at, place in stored_by(then.requests[call.rid]) if (pools[at[0]], place) in fresh)


def on_path_of(setting: Setting, state: State, call: JointCall) -> frozenset[Name]:
    """The prefixes that a call goes through, or has to do with: it may use what is cached for them."""
    path: Path | None = getattr(call, "path", None)
    if path is not None:
        return frozenset(path.names)
    if isinstance(call, Lock):
        return frozenset(path_to(setting, call.at).names)
    if isinstance(call, Unlock):
        return names_of(state.covers.get(call.receipt, frozenset()))
    if isinstance(call, Grow | End):
        return frozenset(state.requests[call.rid].path.names)
    if isinstance(call, Found | Fetched | Commit | Abandon):
        return frozenset(state.fetches[call.rid].path.names)
    if isinstance(call, Detach):
        return frozenset[Name]().union(*[one.path.names for one in state.fetches.values()])
    if isinstance(call, Copied | Written):
        copy = state.under_way[call.number]
        return names_of(copy.needs | copy.device | copy.host | copy.landing | copy.places.keys())
    return frozenset()


def names_of(entries: Iterable[At]) -> frozenset[Name]:
    """The prefixes that entries are cached for."""
    return frozenset(name for _, name in entries)
