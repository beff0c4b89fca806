"""Calls on a cache of components that the contract forbids: each of its pools is judged by the pack ``misuse``.

The cache is looked at right before such a call and right after it, and nothing is followed.  A call that is about the
places of some pools is that call there, and on each other pool one that has to change nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from kvlitmus.conformance.checker.calls.components import tree
from kvlitmus.conformance.checker.calls.components.answers import entries_text, read_entries
from kvlitmus.conformance.checker.calls.components.plain import Pool
from kvlitmus.conformance.checker.calls.components.snapshot import glimpse, pools_of
from kvlitmus.conformance.checker.calls.misuse import Granted, Grants, attempted, beyond, refill, refused
from kvlitmus.spec.law.facts import UNKNOWN
from kvlitmus.spec.law.lifted import Lifted
from kvlitmus.spec.misuse.calls import (
    Aftermath,
    Beyond,
    DoubleFree,
    Forbidden,
    Found,
    Lookups,
    MisuseCall,
    RepeatedFree,
    Scribble,
    StaleUnlock,
)
from kvlitmus.spec.misuse.rules import taken_after
from kvlitmus.spec.prefix.calls import Free
from kvlitmus.spec.prefix.components.advance import expect_components
from kvlitmus.spec.prefix.components.calls import PoolsSeen
from kvlitmus.spec.prefix.components.plain import Plain, cached_in, covers
from kvlitmus.spec.prefix.listener import DEVICE, HOST
from kvlitmus.spec.prefix.seen import Seen
from kvlitmus.spec.prefix.state import State
from kvlitmus.spec.words.setting import Setting
from kvlitmus.spec.words.shapes import Window
from kvlitmus.spec.words.units import Key, PageNo, Tokens

if TYPE_CHECKING:
    from kvlitmus.conformance.checker.checker import Checker

Given = Mapping[str, Sequence[int]]
Told = Callable[[Pool, State, Seen], tuple[MisuseCall, Aftermath | Lookups] | None]
"""What the call is to a pool, and what came of it; ``None``: it has nothing to say there."""


def forbidden(
    checker: Checker, method: str, text: str, wrong: str, make: Callable[[], object], *also: MisuseCall
) -> None:
    """Make a call that the contract forbids, which ``also`` is these.  The suite goes on as if it had not."""
    before = looked(checker)
    answer = Aftermath(refused(checker, f"{text}  # {wrong}", method, make), True, (), True)
    after = looked(checker)
    for call in (Forbidden(method, wrong), *also):
        judge(checker, before, after, everywhere(call, answer))


def everywhere(call: MisuseCall, answer: Aftermath) -> Told:
    """What is the same to every pool."""
    return lambda *_: (call, answer)


def stale_unlock(checker: Checker, token: object, receipt: int) -> None:
    """Give a receipt back that was given back already; what is counted as protected is looked at, too."""
    text, stale = f"unlock(receipt {receipt})", StaleUnlock(receipt)
    unlock = partial(checker.adapter.component_unlock, token)
    forbidden(checker, "component_unlock", text, "given back already", unlock, stale)


def double_free(checker: Checker, given: Given) -> None:
    """Free places that were freed already, in one call more."""
    _free(checker, given, given, "freed already", DoubleFree)


def repeated_free(checker: Checker, given: Given) -> None:
    """Free the suite's own places, naming them twice in one call."""
    twice = {name: [*some, *some] for name, some in given.items()}
    raised = _free(checker, twice, given, "each named twice", RepeatedFree)
    if not raised and checker.profile.misuse == "undefined":
        owned = Free({name: tuple(some) for name, some in given.items()})
        checker.state = expect_components(checker.state, checker.setting, owned, None)


def _free(
    checker: Checker, passed: Given, given: Given, wrong: str, kind: type[DoubleFree] | type[RepeatedFree]
) -> bool:
    """Free these places, look, and allocate from each pool of theirs until it is refused; whether the free raised."""
    method, own = "component_free", {name: list(some) for name, some in passed.items()}
    before = looked(checker)
    raised = refused(
        checker, f"free({entries_text(own)})  # {wrong}", method, lambda: checker.adapter.component_free(own)
    )

    def told(pool: Pool, state: State, seen: Seen) -> tuple[MisuseCall, Aftermath]:
        plain = pool.plain
        slots = plain.slots(plain.places({name: tuple(some) for name, some in given.items()}))
        if not slots or plain.tier != DEVICE or "pool" not in plain.setting.capabilities:
            return Forbidden(method, wrong), Aftermath(raised, True, (), True)
        return kind(slots), Aftermath(raised, True, *_refill(checker, plain, state, seen))

    judge(checker, before, looked(checker), told)
    return raised


def scribble(checker: Checker, wants: Mapping[str, int]) -> None:
    """Allocate, and overwrite the very sequences that were returned, unless a copy of them was."""
    raw = checker.call(f"alloc({entries_text(wants)})", "component_alloc", dict(wants))
    if tree.granted(checker, wants, raw) is None:
        return
    before = looked(checker)
    checker.history.append("overwrite the returned sequences in place")
    for some in raw.values() if type(raw) is dict else ():
        if type(some) is list:
            some[:] = [0] * len(some)

    def told(pool: Pool, state: State, seen: Seen) -> tuple[MisuseCall, Aftermath] | None:
        plain = pool.plain
        many = plain.pages(wants)
        if not many or plain.tier != DEVICE or "pool" not in plain.setting.capabilities:
            return None
        return Scribble(plain.tokens(many)), Aftermath(False, True, *_refill(checker, plain, state, seen))

    judge(checker, before, looked(checker), told)


def match_beyond(checker: Checker, key: Key, token: int) -> None:
    """Match a key twice: as it is, and with a first token that no key has (MISUSE-13)."""
    lawful, _ = tree.match(checker, key)
    odd, text = beyond(key, token)
    before = looked(checker)
    answer, raised = attempted(checker, text, "component_match", lambda: checker.adapter.component_match(odd))
    found = 0 if raised else tree.read_hit(checker, answer)[0].length
    lookups = Lookups(raised, Found(Tokens(found), None), Found(Tokens(lawful), None))

    def told(pool: Pool, _state: State, _seen: Seen) -> tuple[MisuseCall, Lookups] | None:
        return (Beyond(token), lookups) if pool.plain.tree and pool.plain.tier == DEVICE else None

    judge(checker, before, looked(checker), told)


def looked(checker: Checker) -> PoolsSeen:
    """What is seen of the cache now; what it tells of it by events is heard after the next lawful call."""
    checker.kept.clear()
    return glimpse(checker)


def judge(checker: Checker, before: PoolsSeen, after: PoolsSeen, told: Told) -> None:
    """Judge a call that breaks the contract, as one on each pool; nothing is expected, and nothing followed."""
    state = checker.state
    checker.own_judge.broken = ()  # nothing says the same first
    for pool in pools_of(checker).pools:
        if not (pool.is_shown(before) and pool.is_shown(after)):
            continue
        plain = pool.plain
        known = pool.known(state, covers(state, plain.tier))
        seen, sees = (sight(plain, checker.setting, look) for look in (before, after))
        said = told(pool, known, seen)
        if said is None:
            continue
        call, answer = said
        setting = plain.setting if "usable" not in plain.hidden else anywhere(plain, known, seen, answer)
        checker.lifted(Lifted(plain.where, setting, known, UNKNOWN, known, call, answer, seen, sees, plain.hidden))


def sight(plain: Plain, setting: Setting, look: PoolsSeen) -> Seen:
    """What a look shows of a pool."""
    host = plain.tier == HOST
    counts = look.host_available if host else look.available
    count = None if counts is None else plain.tokens(counts[plain.pool])
    sizes = plain.sizes(look)
    if not setting.seen or look.held is None:
        return Seen(count, sizes)
    free: tuple[PageNo, ...] = tuple(map(PageNo, (look.host_free if host else look.free)[plain.pool]))
    held = look.host_held or {} if host else look.held
    cached = cached_in(plain, held, frozenset() if host else look.copies)
    return Seen(count, sizes, True, free, frozenset(free), cached.cached, cached.cached_listed, cached.parents)


def anywhere(plain: Plain, known: State, before: Seen, answer: Aftermath | Lookups) -> Setting:
    """The pool's own setting, where nobody knows by which numbers its places go: any that it hands out may be one."""
    handed = answer.grants if isinstance(answer, Aftermath) else ()
    size = plain.setting.size
    places = {PageNo(grant[0] // size) for grant in handed if grant}
    return replace(plain.setting, places=frozenset(places | taken_after(known, before)))


def _refill(checker: Checker, plain: Plain, state: State, before: Seen) -> tuple[Grants, bool]:
    """Allocate place by place.  Where windows come with KV, one of that is asked for as well."""
    one = next(iter(plain.components.values()))
    wants = {one.name: 1}
    if isinstance(one.shape, Window) and checker.profile.component_grants != "each":
        wants = {checker.setting.layout.base.name: 1, **wants}

    def read(got: object) -> Granted:
        places, setting = read_entries(checker, got).get(one.name, ()), plain.setting
        if "usable" in plain.hidden:
            setting = replace(setting, places=frozenset(map(PageNo, places)))
        return Granted(plain.slots(places), places, setting)

    text, pages, taken = f"alloc({entries_text(wants)})", plain.setting.config.pages, taken_after(state, before)
    return refill(
        checker, pages, taken, text, "component_alloc", lambda: checker.adapter.component_alloc({**wants}), read
    )
