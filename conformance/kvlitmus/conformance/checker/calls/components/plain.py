"""The pools of a cache of components, judged as the plain caches that they are as well."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kvlitmus.spec.components.calls import At
from kvlitmus.spec.components.plain import (
    Plain,
    contents,
    covers,
    known,
    numbered,
    plain_caches,
    sight,
    tree_of,
)
from kvlitmus.spec.components.plain_calls import PlainCall, plain_call
from kvlitmus.spec.components.plain_requests import computed, served, still_there, table_of, table_seen, written
from kvlitmus.spec.components.state import ComponentState
from kvlitmus.spec.components.steps import ComponentStep
from kvlitmus.spec.law.facts import UNKNOWN, Unknown
from kvlitmus.spec.law.lifted import Lifted
from kvlitmus.spec.prefix.calls import Begin, Grow, Match
from kvlitmus.spec.prefix.page import Tree
from kvlitmus.spec.prefix.seen import Seen
from kvlitmus.spec.prefix.state import State
from kvlitmus.spec.words.setting import Setting


class Pool:
    """One pool, with what was known and seen of it last.

    Most steps leave alone what is cached and what is protected: what is worked out of that is kept.
    """

    def __init__(self, plain: Plain, setting: Setting) -> None:
        self.plain, self.setting = plain, setting
        self.places: Mapping[At, int] | None = None
        self.locks: Mapping[At, int] = {}
        self.tree: Tree
        self.state: State | None = None
        self.seen: Seen | None = None

    def forget(self) -> None:
        """What was known and seen is of use no more."""
        self.state = self.seen = None

    def known(self, state: ComponentState, locks: Mapping[At, int]) -> State:
        """What is known of it."""
        if state.places != self.places or locks != self.locks:
            self.places, self.locks, self.tree = state.places, locks, tree_of(self.plain, state, locks)
        return known(self.plain, state, self.setting, self.tree)

    def lifted(self, one: ComponentStep) -> Lifted[State, Seen]:
        """A step, as one of this pool."""
        locks = covers(one.expected)
        state = self.state or self.known(one.before, covers(one.before))
        expected: State | Unknown = UNKNOWN
        if self.setting.seen:
            expected = state if one.expected is one.before else self.known(one.expected, locks)
        then = self.known(one.then, locks)
        after = sight(self.plain, one.after.available, one.after.view, self.seen)
        call = plain_call(self.plain, self.setting, one.before, one.call, one.after.answer)
        if self.plain.tree and isinstance(call.call, Match):
            state = state._replace(contents=contents(self.plain, one.before))
        return self.step(state, expected, then, call, after)

    def step(
        self, state: State, expected: State | Unknown, then: State, call: PlainCall, after: Seen
    ) -> Lifted[State, Seen]:
        """A step of which this is known; what it leaves behind is remembered."""
        before: Seen | Unknown = self.seen or UNKNOWN
        self.state, self.seen = then, after
        self.plain = plain = numbered(self.plain, after, then)
        hidden = plain.hidden | call.hidden
        return Lifted(plain.where, plain.setting, state, expected, then, call.call, call.answer, before, after, hidden)


class Table(Pool):
    """A pool of a cache that serves requests by itself."""

    def lifted(self, one: ComponentStep) -> Lifted[State, Seen]:
        """A step, as one of this pool."""
        plain, setting, view, was = self.plain, self.setting, one.after.view, one.before.stored
        state = table_of(plain, one.before, was, setting)
        expected = table_of(plain, one.expected, still_there(plain, setting, one), setting)
        then = table_of(plain, one.then, one.then.stored, setting)
        after = Seen() if view is None else table_seen(plain, view, one.then)
        call = served(plain, setting, one, state, expected)
        if plain.tree:
            held = written(plain, one.before)
            state = state._replace(contents=held)
            if isinstance(call.call, Begin | Grow) and call.answer is not None:
                expected = expected._replace(contents=computed(state, expected, call.call, call.answer))
        return self.step(state, expected if setting.seen or plain.tree else UNKNOWN, then, call, after)


class Pools:
    """All pools of one cache of components; what was seen of them is of use after the state that it was seen in."""

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        kind = Table if "component_requests" in setting.capabilities else Pool
        self.pools = [kind(one, setting) for one in plain_caches(setting)]
        self.state: ComponentState | None = None

    def lifted(self, one: ComponentStep) -> Iterator[Lifted[State, Seen]]:
        """A step, as one of each of the pools; none where nobody could look, and the device is as it was."""
        known = one.before is self.state
        if self.setting.seen and one.after.view is None:
            self.state = one.then if known else None
            return
        self.state = one.then
        for pool in self.pools:
            if not known:
                pool.forget()
            yield pool.lifted(one)
