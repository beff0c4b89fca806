"""The pools of a cache of components, judged as the plain caches that they are as well."""

from __future__ import annotations

import functools
import operator
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import cast

from kvlitmus.spec.interface import Hit
from kvlitmus.spec.law.facts import UNKNOWN, Unknown
from kvlitmus.spec.law.lifted import Lifted
from kvlitmus.spec.prefix.calls import Alloc, Begin, Evict, Free, Grow, Insert, Match, Reset
from kvlitmus.spec.prefix.components.advance import looked_at
from kvlitmus.spec.prefix.components.calls import Holding, JointCall, PoolsSeen
from kvlitmus.spec.prefix.components.entries import without
from kvlitmus.spec.prefix.components.hierarchy import (
    Hierarchy,
    both_numbered,
    both_seen,
    hierarchies,
    leaves_alone,
    reached,
    steps_of,
    together,
)
from kvlitmus.spec.prefix.components.plain import (
    BESIDES,
    UNTOLD,
    Plain,
    besides,
    cached_in,
    cached_there,
    covers,
    heard,
    known,
    listens,
    mirror,
    numbered,
    plain_caches,
)
from kvlitmus.spec.prefix.components.plain_calls import PoolCall, paged, plain_calls
from kvlitmus.spec.prefix.components.plain_requests import (
    computed,
    served,
    serving,
    still_there,
    table_of,
    table_seen,
    written,
)
from kvlitmus.spec.prefix.components.state import at_first, tier_of
from kvlitmus.spec.prefix.components.steps import ComponentStep
from kvlitmus.spec.prefix.listener import DEVICE, HOST
from kvlitmus.spec.prefix.page import NO_DOUBT, At, Tier
from kvlitmus.spec.prefix.partial import doubting
from kvlitmus.spec.prefix.seen import Seen, TierSeen
from kvlitmus.spec.prefix.state import EventMirror, State, empty_state
from kvlitmus.spec.prefix.work_calls import EvictHost
from kvlitmus.spec.words.setting import Setting
from kvlitmus.spec.words.units import PageNo

Locks = Mapping[At, int]
"""How often each entry of a tier is protected."""


@functools.cache
def both(hidden: frozenset[str], more: frozenset[str]) -> frozenset[str]:
    """All of these names, as one object: by it a judge finds what it did in steps that are alike."""
    return hidden | more


def alike(some: Sequence[object], others: Sequence[object]) -> bool:
    """Whether these are the very same objects."""
    return len(some) == len(others) and all(map(operator.is_, some, others))


def listened(one: ComponentStep, call: PoolCall) -> PoolCall:
    """A call after which nobody may have listened yet."""
    return call if one.after.events is not None else call._replace(hidden=both(call.hidden, UNTOLD))


class Pool:
    """One pool, with what was known and seen of it last: that is of use in the state that it was seen in (``after``).

    Most steps leave alone what is cached and what is protected: what is worked out of that is kept.
    """

    def __init__(self, plain: Plain, setting: Setting) -> None:
        self.plain, self.setting = plain, setting
        self.there: Tier
        self.cached: Sequence[object] = ()
        self.made: State = empty_state()
        self.others: Sequence[object] = ()
        self.looked: Sequence[object] = ()
        self.after: State | None = None
        self.state: State | None = None
        self.seen: Seen | None = None
        self.told: EventMirror | None = None
        self.told_of: Sequence[object] = ()

    def is_shown(self, after: PoolsSeen) -> bool:
        """Whether there is a look at this tier, where there is one at all."""
        if not self.setting.seen:
            return True
        return (after.held if self.plain.tier == DEVICE else after.host_held) is not None

    def passes_by(self, one: ComponentStep) -> None:
        """Nobody looked after a step: what was seen is of use as long as such steps leave this tier alone."""
        self.state = None
        idle = tier_of(one.before, one.call) != self.plain.tier and not isinstance(one.call, Reset)
        self.after = one.then if idle and one.before is self.after else None

    def mirror(self, state: State) -> EventMirror | None:
        """What is told of it."""
        if not listens(self.setting):
            return None
        told_of = [state.mirror(name) for name in self.plain.components]
        if self.told is None or not alike(told_of, self.told_of):
            self.told_of, self.told = told_of, mirror(self.plain, state)
        return self.told

    def known(self, state: State, locks: Locks) -> State:
        """What is known of it."""
        tiers = [state.tier(self.plain.tier, name) for name in self.plain.components]
        cached = [*[one.pages for one in tiers], *[one.doubt.unsure for one in tiers], locks]
        others = [state.owned, state.fetches, state.under_way, state.covers]
        if not alike(cached, self.cached):
            self.cached, self.there = cached, cached_there(self.plain, state, locks)
            if self.setting.seen:
                self.there = self.there._replace(doubt=NO_DOUBT)
            self.made = self.made._replace(device=self.there)
        if not alike(others, self.others):
            self.others, self.made = others, known(self.plain, state, self.setting, self.there)
        told = self.mirror(state)
        if self.made.told is not told:
            self.made = self.made._replace(told=told)
        return self.made

    def lifted(self, one: ComponentStep, locks: Locks) -> Iterator[Lifted[State, Seen]]:
        """A step, as those of this pool that it is; ``locks``: what is protected after it."""
        if one.before is not self.after:
            self.state = self.seen = None
        self.after, tier, before = one.then, self.plain.tier, one.before
        state = self.state or self.known(before, covers(before, tier))
        *others, last = plain_calls(self.plain, self.setting, one)
        for call in others:
            assert call.then is not None
            before = call.then
            then = self.known(before, covers(before, tier))
            if call.spared:
                guarded = Counter(covers(one.before, tier)) + Counter(call.spared)
                spared = cached_there(self.plain, one.before, guarded)
                state = state._replace(device=known(self.plain, one.before, self.setting, spared).device)
            call = call._replace(hidden=both(call.hidden, UNTOLD))
            yield self.step(state, then._replace(device=state.device), then, call, self.between(one.after, call))
            state = then
        if besides(one.then):
            last = last._replace(hidden=both(last.hidden, BESIDES))
        expected, then = self.ends(one, before, locks)
        if last.contents is not None:
            state = state._replace(contents=last.contents)
        yield self.step(state, expected, then, listened(one, last), self.sight(one))

    def ends(self, one: ComponentStep, before: State, locks: Locks) -> tuple[State, State]:
        """What is expected after a step, and known then; ``before``: what was known before its last part."""
        tier, names = self.plain.tier, self.plain.components
        then = self.known(one.then, locks)
        if all(one.expected.tier(tier, name).pages is one.then.tier(tier, name).pages for name in names):
            return then, then
        was, amid, due = (state.places(tier) for state in (one.before, before, one.expected))
        expected = without(
            one.expected, tier, {at for at, place in was.items() if at not in amid and due.get(at) == place}
        )
        there = known(self.plain, one.then, self.setting, cached_there(self.plain, expected, locks)).device
        return then._replace(device=there), then

    def between(self, after: PoolsSeen, call: PoolCall) -> Seen:
        """What could have been seen after a call that another one follows."""
        assert call.then is not None
        ends, later, back = self.count(after), tuple(map(PageNo, call.later)), frozenset(call.back)
        count = None if ends is None else ends + self.plain.tokens(len(later) - len(back))
        if not self.setting.seen:
            return Seen(count)
        free = tuple([page for page in self.free(after) if page not in back]) + later
        cached, self.looked = cached_in(self.plain, call.then.places(self.plain.tier), ()), ()
        return Seen(count, None, True, free, frozenset(free), cached.cached, cached.cached_listed, cached.parents)

    def count(self, after: PoolsSeen) -> int | None:
        """What the pool says it could hand out."""
        available = after.host_available if self.plain.tier == HOST else after.available
        return None if available is None else self.plain.tokens(available[self.plain.pool])

    def free(self, after: PoolsSeen) -> tuple[PageNo, ...]:
        """Its free list, as it was seen."""
        free = after.host_free if self.plain.tier == HOST else after.free
        return cast("tuple[PageNo, ...]", free[self.plain.pool])

    def sight(self, one: ComponentStep) -> Seen:
        """What was seen of it; what is as in the last look is the same object."""
        count, tier, sizes = self.count(one.after), self.plain.tier, self.plain.sizes(one.after)
        events = heard(self.plain, one.after.events) if one.after.events else ()
        if not self.setting.seen:
            return Seen(count, sizes, events=events)
        free, last = self.free(one.after), self.seen
        looked = [one.then.tier(tier, name).pages for name in self.plain.components]
        if last is None or one.then.copies or not alike(looked, self.looked):
            last = cached_in(self.plain, one.then.places(tier), one.then.copies if tier == DEVICE else ())
        self.looked = looked
        return Seen(
            count, sizes, True, free, frozenset(free), last.cached, last.cached_listed, last.parents, events=events
        )

    def step(
        self, state: State, expected: State | Unknown, then: State, call: PoolCall, after: Seen
    ) -> Lifted[State, Seen]:
        """A step of which this is known; what it leaves behind is remembered."""
        before: Seen | Unknown = self.seen or UNKNOWN
        if call.odd:
            then = doubting(then, then.device.doubt._replace(odd=tuple(call.odd)))
        self.state, self.seen = then, after
        self.plain = plain = numbered(self.plain, after, then)
        hidden = both(plain.hidden, call.hidden)
        if not self.setting.seen and not (plain.tree and plain.setting.table):
            expected = UNKNOWN
        return Lifted(plain.where, plain.setting, state, expected, then, call.call, call.answer, before, after, hidden)


ALONE = (Alloc, Free, Match, Insert, Evict, EvictHost)
"""Calls that are understood by what was cached before them, whatever is under way."""


def glimpsed(
    setting: Setting, before: PoolsSeen, call: JointCall, answer: object, after: PoolsSeen
) -> Iterator[Lifted[State, Seen]]:
    """A step of which nothing is known but the looks right before and after it, as one of each of the pools.

    Of a cache that serves requests by itself it isn't known which of its places these have.
    """
    if not isinstance(call, ALONE) or before.held is None or after.held is None or after.begun:
        return
    if "component_requests" in setting.capabilities:
        return
    first = at_first(empty_state(), setting)
    was, now = [looked_at(first, first, setting, call, look) for look in (before, after)]
    one, earlier = ComponentStep(was, call, answer, after, now, now), ComponentStep(first, call, None, before, was, was)
    for plain in plain_caches(setting):
        pool = Pool(plain, setting)
        if pool.is_shown(before) and pool.is_shown(after):
            made = plain_calls(plain, setting, one)
            if any(isinstance(each.call, Evict) for each in made[:-1]):
                continue  # what an insert may replace goes by what is protected, which nobody knows
            seen = Pool(plain, setting).sight(earlier)
            for each in made:
                sees = pool.sight(one) if each.then is None else pool.between(after, each)
                told = plain.where, plain.setting, UNKNOWN, UNKNOWN, UNKNOWN, each.call, each.answer
                yield Lifted(*told, seen, sees, plain.hidden | each.hidden)
                seen = sees


def said(setting: Setting, call: JointCall, answer: object) -> Iterator[Lifted[State, Seen]]:
    """What the answer alone tells of a request that begins: how long its hit is, as of a match on the KV."""
    if not isinstance(call, Begin) or not isinstance(answer, Holding):
        return
    for plain in plain_caches(setting):
        if plain.tree and plain.tier == DEVICE:
            match, hit = Match(paged(plain, call.path)), Hit(answer.length)
            yield Lifted(plain.where, plain.setting, call=match, answer=hit, hidden=plain.hidden)


class TwoTiers:
    """A pool with places on both tiers, judged as the plain hierarchy that it is, after each of its tiers."""

    def __init__(self, one: Hierarchy, setting: Setting, device: Pool, host: Pool) -> None:
        self.one, self.setting, self.device, self.host = one, setting, device, host
        self.seen: TierSeen | None = None
        self.state: State | None = None
        self.after: State | None = None

    def lifted(self, step: ComponentStep) -> Iterator[Lifted[State, Seen]]:
        """A step, as one of this hierarchy."""
        device, host = self.device, self.host
        if not (device.is_shown(step.after) and host.is_shown(step.after)):
            self.after = None
            return
        assert device.seen is not None and host.seen is not None
        known = step.before is self.after
        if known and self.seen is not None and leaves_alone(step, self.seen, device.seen, host.seen):
            self.after = step.then
            return
        before, state = (self.seen, self.state) if known else (None, None)
        self.one = one = both_numbered(self.one, device.plain, host.plain)
        assert device.state is not None and host.state is not None
        owned = [place for pool, place in step.then.owned if pool == one.device.pool]
        seen = both_seen(one, device.seen, host.seen, self.seen, owned)
        then = together(device.state.device, host.state.device)
        made = None
        for made in steps_of(one, self.setting, step, (state, then), (before or UNKNOWN, seen)):
            yield made
        assert made is not None and made.then is not UNKNOWN
        self.seen, self.after, self.state = seen, step.then, made.then


class Table(Pool):
    """A pool of a cache that serves requests by itself; ``table``: what was known of it last."""

    table: State

    def lifted(self, one: ComponentStep, locks: Locks) -> Iterator[Lifted[State, Seen]]:
        """A step, as one of this pool."""
        plain, setting, was = self.plain, self.setting, one.before.stored
        if one.before is not self.after:
            self.seen, self.table = None, table_of(plain, one.before, was, setting)
        state, self.after = self.table, one.then
        expected = table_of(plain, one.expected, still_there(plain, setting, one), setting)
        self.table = table_of(plain, one.then, one.then.stored, setting)
        then = self.table._replace(told=self.mirror(one.then))
        after = Seen() if one.after.held is None else table_seen(plain, one.after, one.then)
        if one.after.events:
            after.events = heard(plain, one.after.events)
        for of_it, part in serving(plain, setting, one):
            hidden = both(plain.hidden, part.hidden)
            yield Lifted(plain.where, plain.setting, of_it, call=part.call, answer=part.answer, hidden=hidden)
        call = served(plain, setting, one, state, expected)
        if call.contents is not None:
            state = state._replace(contents=call.contents)
        elif plain.tree:
            held = written(plain, one.before)
            state = state._replace(contents=held)
            if isinstance(call.call, Begin | Grow) and call.answer is not None:
                expected = expected._replace(contents=computed(state, expected, call.call, call.answer))
        yield self.step(state, expected, then, listened(one, call), after)


class Pools:
    """All pools of one cache of components; how often entries are protected is worked out once for all of a tier."""

    def __init__(self, setting: Setting) -> None:
        kind = Table if "component_requests" in setting.capabilities else Pool
        self.pools = [kind(one, setting) for one in plain_caches(setting)]
        by_place = {one.plain.where: one for one in self.pools}
        self.both = [
            TwoTiers(one, setting, by_place[one.device.where], by_place[one.host.where])
            for one in hierarchies(setting, [one.plain for one in self.pools])
        ]
        hosted = "component_host" in setting.capabilities
        self.bases = [one for one in self.pools if hosted and one.plain.tree and one.plain.tier == DEVICE]
        self.setting = setting
        self.holds: tuple[object, ...] = ()
        self.locks: dict[str, Locks] = {}

    def lifted(self, one: ComponentStep) -> Iterator[Lifted[State, Seen]]:
        """A step, as those of each of the pools that it is; none of what nobody could look at."""
        then = one.then
        holds = then.covers, then.fetches, then.under_way
        if len(self.holds) != len(holds) or any(a is not b for a, b in zip(self.holds, holds, strict=True)):
            self.holds, self.locks = holds, {tier: covers(then, tier) for tier in (DEVICE, HOST)}
        for pool in self.pools:
            if pool.is_shown(one.after):
                yield from pool.lifted(one, self.locks[pool.plain.tier])
            else:
                pool.passes_by(one)
        for pool in self.bases:
            yield from reached(pool.plain, self.setting, one)
        for hierarchy in self.both:
            yield from hierarchy.lifted(one)
