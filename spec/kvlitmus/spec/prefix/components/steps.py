"""The steps of a call on a cache of components: the call itself, and the backups that the cache has begun with it.

With write-back these come before the call, which evicts what they have saved, and otherwise after it.  What was seen was
seen when all was over.  So only the last step is looked at in full: of those before, the host counts what the answers
say, and what was told of the host belongs to the last of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, cast

from kvlitmus.spec.interface.tiers import LOAD
from kvlitmus.spec.prefix.components.advance import expect_components, looked_at
from kvlitmus.spec.prefix.components.calls import Begun, JointCall, PoolsSeen, Taken
from kvlitmus.spec.prefix.components.state import (
    by_pool,
    copied_to,
    given_back,
    needed_by,
    pool_places,
    spared_for,
    tier_of,
)
from kvlitmus.spec.prefix.components.uses import with_uses
from kvlitmus.spec.prefix.listener import DEVICE, HOST
from kvlitmus.spec.prefix.state import State
from kvlitmus.spec.prefix.work import Copy
from kvlitmus.spec.prefix.work_calls import BackUp, Copied, EvictHost, LoadBack
from kvlitmus.spec.words.policies import WRITE_BACK
from kvlitmus.spec.words.setting import Setting


class ComponentStep(NamedTuple):
    """A call and its answer with what was seen after it, what was known before, what it amounts to, and what is known then.

    ``judged``: whether rules apply to it.
    """

    before: State
    call: JointCall
    answer: object
    after: PoolsSeen
    expected: State
    then: State
    judged: bool = True


def component_steps(
    state: State, setting: Setting, call: JointCall, answer: object, look: PoolsSeen
) -> Iterator[ComponentStep]:
    """The steps of a call that was answered so, with which backups have begun (``look.begun``)."""
    if not look.begun:
        yield step(state, setting, call, answer, look)
    elif setting.config.write == WRITE_BACK:
        guard = guard_of(state, setting, call, answer)
        state = state._replace(under_way={**state.under_way, **guard})
        for one in before_eviction(state, setting, look.begun, judged=bool(guard) or not isinstance(call, LoadBack)):
            state = one.then
            yield one
        under_way = {number: one for number, one in state.under_way.items() if number not in guard}
        yield step(state._replace(under_way=under_way), setting, call, answer, look)
    else:
        yield from with_backups_after(state, setting, call, answer, look)


def step(state: State, setting: Setting, call: JointCall, answer: object, after: PoolsSeen) -> ComponentStep:
    """One step."""
    expected = expect_components(state, setting, call, answer)
    then = looked_at(state, expected, setting, call, after)
    surprised = any(one is not then.tier(tier, name) for tier in (DEVICE, HOST) for name, one in expected.on(tier))
    used = with_uses(state, then, setting, call, answer)
    if surprised:
        expected = with_uses(state, expected, setting, call, answer)
    else:
        expected = expected._replace(device=used.device, host=used.host, beside=used.beside)
    return ComponentStep(state, call, answer, after, expected, used)


def unseen(state: State, setting: Setting, call: JointCall, answer: object) -> ComponentStep:
    """A step after which nobody could look: the device is as it was, and the host counts what the answer says."""
    counted = host_free(setting, state, call, answer)
    return step(state, setting, call, answer, PoolsSeen(state.free.get(DEVICE), host_available=counted, events=None))


def host_free(setting: Setting, state: State, call: JointCall, answer: object) -> Mapping[str, int] | None:
    """The free places of the host's pools after a call that was answered so; ``None`` where nobody knows."""
    before, layout = state.free.get(HOST), setting.layout
    if before is None or tier_of(state, call) != HOST:
        return before
    free = Counter(before)
    if isinstance(answer, Taken):
        free.update(by_pool(layout, answer.freed))
        free.subtract(by_pool(layout, {name: len(some) for name, some in (answer.places or {}).items()}))
    elif isinstance(call, EvictHost):
        free.update(by_pool(layout, cast("Mapping[str, int]", answer)))
    else:
        free.update(pool for pool, _ in pool_places(layout, given_back(call, answer)))
    return dict(free)


def before_eviction(state: State, setting: Setting, begun: Sequence[Begun], *, judged: bool) -> Iterator[ComponentStep]:
    """The backups of what a call is about to evict; ``judged``: those that found too little room too.

    They make no room with what a load back that evicts needs from the host.  Of a refused one nobody is told what it
    would have needed, so a backup that was refused during it, or stopped earlier, is not judged.
    """
    for backup, given in calls_of(begun):
        one = unseen(state, setting, backup, given)
        yield one._replace(judged=judged or not found_no_room(state, setting, backup, given))
        state = one.then


def found_no_room(state: State, setting: Setting, call: JointCall, given: object) -> bool:
    """Whether a backup was refused, or stopped before its boundary."""
    if not isinstance(call, BackUp) or not isinstance(given, Taken):
        return False
    brought = copied_to(call.path, given).keys()
    stopped = setting.profile.component_extent == "path" and (
        not needed_by(setting, call.path, call.length) <= brought | state.places(HOST).keys()
    )
    return given.places is None or stopped


def guard_of(state: State, setting: Setting, call: JointCall, answer: object) -> Mapping[int, Copy]:
    """What a load back that was granted needs from the host, as a copy that protects it, and what else it may protect."""
    if not isinstance(call, LoadBack) or not isinstance(answer, Taken) or answer.refused:
        return {}
    needs = needed_by(setting, call.path, answer.boundary) | copied_to(call.path, answer).keys()
    spared = spared_for(setting, call.path, answer.boundary)
    return {call.number: Copy(LOAD, {}, device=frozenset(), host=needs & state.places(HOST).keys(), needs=spared)}


def calls_of(begun: Sequence[Begun]) -> Sequence[tuple[BackUp | Copied, object]]:
    """Backups that a cache has begun by itself, as calls with their answers; what was waited for has ended too."""
    found: list[tuple[BackUp | Copied, object]] = []
    for one in begun:
        found.append((one.call, one.answer))
        if one.ended:
            found.append((Copied(one.call.number, ok=True), {}))
    return found


def with_backups_after(
    state: State, setting: Setting, call: JointCall, answer: object, look: PoolsSeen
) -> Iterator[ComponentStep]:
    """A call, and after it the backups that it has begun: the host was seen after the last of them."""
    events = look.events or ()
    device = tuple([one for one in events if one.tier != "host"])
    host = tuple([one for one in events if one.tier == "host"])
    count = host_free(setting, state, call, answer)
    above = look._replace(host_available=count, host_free={}, host_held=None, events=device, sizes=None)
    one = step(state, setting, call, answer, above)
    yield one
    *others, (backup, given) = calls_of(look.begun)
    for other, told in others:
        one = unseen(one.then, setting, other, told)
        yield one
    yield step(one.then, setting, backup, given, look._replace(events=host, begun=()))
