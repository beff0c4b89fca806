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
from kvlitmus.spec.components.plain_calls import plain_call
from kvlitmus.spec.components.state import ComponentState
from kvlitmus.spec.components.steps import ComponentStep
from kvlitmus.spec.law.facts import UNKNOWN, Unknown
from kvlitmus.spec.law.lifted import Lifted
from kvlitmus.spec.prefix.calls import Match
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
        plain, setting = self.plain, self.setting
        state = self.state or self.known(one.before, covers(one.before))
        before: Seen | Unknown = self.seen or UNKNOWN
        locks = covers(one.expected)
        expected: State | Unknown = UNKNOWN
        if setting.seen:
            expected = state if one.expected is one.before else self.known(one.expected, locks)
        self.state = then = self.known(one.then, locks)
        self.seen = after = sight(plain, one.after.available, one.after.view, self.seen)
        self.plain = plain = numbered(plain, after, then)
        call, answer, hidden = plain_call(plain, setting, one.before, one.call, one.after.answer)
        if plain.tree and isinstance(call, Match):
            state = state._replace(contents=contents(plain, one.before))
        return Lifted(
            plain.where, plain.setting, state, expected, then, call, answer, before, after, hidden | plain.hidden
        )


class Pools:
    """All pools of one cache of components; what was seen of them is of use after the state that it was seen in."""

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self.pools = [Pool(one, setting) for one in plain_caches(setting)]
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
