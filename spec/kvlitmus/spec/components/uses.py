"""When, and how often, each entry of a cache of components was used: no less than this, and no more than that.

A hit uses what it names, and an insert, a commit or a request what it brings.  Whether a call uses what else is on its path,
and whether a lock, a copy or the end of a request is a use, each cache says in its own way, and how it counts.  So there are two
bounds (:class:`~kvlitmus.spec.components.state.Uses`): what is certain by any of these readings, and what is possible by one of them.

An insert uses what it brings in vain once more, where inserts count, and a hit what it names, where these do; of an entry that is
cached twice nobody knows which.  An entry may have the age and the number of uses of what else is cached for its prefix when it
comes.  Each tier has its own bounds: what a copy brings may have been used last when what it reads was, as that was known when
the copy began, or just now, and may be counted anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kvlitmus.spec.components.calls import (
    At,
    ComponentAbort,
    ComponentBackUp,
    ComponentCall,
    ComponentCommit,
    ComponentCopied,
    ComponentDetach,
    ComponentFinish,
    ComponentFound,
    ComponentGrow,
    ComponentHit,
    ComponentInsert,
    ComponentLoad,
    ComponentMatch,
    ComponentSettled,
    ComponentStart,
    ComponentUnlock,
    ComponentWritten,
    Holding,
)
from kvlitmus.spec.components.state import ComponentState, Use, Uses, fresh_places, needed_by, pool_places, stored_by
from kvlitmus.spec.prefix.calls import Path
from kvlitmus.spec.words.setting import Setting
from kvlitmus.spec.words.units import Name

BRINGING = (ComponentInsert, ComponentCommit, ComponentStart, ComponentGrow)
"""The calls whose entries are used when they come; what copies bring was there before."""


def is_ordered(setting: Setting) -> bool:
    """Whether evictions go by a policy that can be judged: it is declared, entries go one by one, and snapshots show which."""
    profile = setting.profile
    return setting.seen and profile.component_order == "policy" and profile.evict_granularity == "page"


def with_uses(
    state: ComponentState, then: ComponentState, setting: Setting, call: ComponentCall, answer: object
) -> ComponentState:
    """What is known after a call, with what it says of the use of what is cached."""
    if not is_ordered(setting):
        return then
    tick = state.ticks + 1
    touched = on_path_of(state, call)
    doubled = {at for at, _ in state.copies | then.copies}
    named = named_by(setting, call, answer) - doubled
    again = brought_in_vain(setting, state, call, answer) - doubled
    counts = setting.profile.hit_counts
    anew = come_again(setting, state, then, call, answer)
    changed = named | again | anew
    device = kept(state.device.uses, then.device.places)
    for at, (least, most) in device.items():
        if at[1] not in touched and at not in changed:
            continue
        if at[1] in touched:
            most = most._replace(touched=tick, hits=most.hits + 1)
        if at in named:
            least = least._replace(touched=tick, hits=least.hits + (counts == "match"))
        if at in again:
            least = least._replace(hits=least.hits + (counts == "insert"))
        if at in anew:
            least, most = least._replace(hits=0), most._replace(created=tick)
        device[at] = Uses(least, most)
    host = kept(state.host.uses, then.host.places)
    for at, (least, most) in host.items():
        if at[1] in touched:
            host[at] = Uses(least, most._replace(touched=tick, hits=most.hits + 1))
    began = copied_from(state, then, call)
    brings = isinstance(call, BRINGING)
    came = {at: new(state, at, tick, began, brought=brings) for at in then.device.places.keys() - device.keys()}
    landed = {at: new(state, at, tick, began, brought=False) for at in then.host.places.keys() - host.keys()}
    if isinstance(call, ComponentBackUp | ComponentLoad) and call.number in then.under_way:
        copy = then.under_way[call.number]._replace(uses=began)
        then = then._replace(under_way={**then.under_way, call.number: copy})
    return then._replace(
        ticks=tick,
        device=then.device._replace(uses={**device, **came}),
        host=then.host._replace(uses={**host, **landed}),
    )


def kept(uses: Mapping[At, Uses], there: Mapping[At, int]) -> dict[At, Uses]:
    """What is known of what is still there."""
    return {at: old for at, old in uses.items() if at in there}


def copied_from(state: ComponentState, then: ComponentState, call: ComponentCall) -> Mapping[At, Uses]:
    """What was known of the use of what a copy reads, when it began: of one that begins with this call, or has ended with it."""
    if isinstance(call, ComponentCopied):
        return state.under_way[call.number].uses
    if not isinstance(call, ComponentBackUp | ComponentLoad) or call.number not in then.under_way:
        return {}
    copy = then.under_way[call.number]
    source = state.host.uses if copy.load else state.device.uses
    return {at: source[at] for at in copy.places.keys() | copy.landing | copy.host if at in source}


def new(state: ComponentState, at: At, tick: int, began: Mapping[At, Uses], *, brought: bool) -> Uses:
    """What is known of an entry that has come to a tier by a call: as new, or as old as what there is for its prefix.

    ``began``: of what a copy reads, as it was when that began.
    """
    beside = [one for uses in (state.device.uses, state.host.uses) for other, one in uses.items() if other[1] == at[1]]
    most = Use(tick, tick, max([one.most.hits for one in beside], default=0) + 1)
    if not brought:
        least = began[at].least if at in began else Use()
        return Uses(least._replace(hits=0), most)
    return Uses(Use(tick, min([one.least.created for one in beside], default=tick)), most)


def named_by(setting: Setting, call: ComponentCall, answer: object) -> frozenset[At]:
    """What a hit names on the device."""
    if isinstance(call, ComponentMatch):
        assert isinstance(answer, ComponentHit)
        return needed_by(setting, call.path, answer.length)
    if isinstance(call, ComponentStart) and isinstance(answer, Holding):
        return needed_by(setting, call.path, answer.length)
    return frozenset()


def brought_in_vain(setting: Setting, state: ComponentState, call: ComponentCall, answer: object) -> frozenset[At]:
    """What an insert brought for what is cached, and left to the caller."""
    if not isinstance(call, ComponentInsert):
        return frozenset()
    assert isinstance(answer, Mapping)
    layout, left = setting.layout, pool_places(setting.layout, answer)
    return frozenset(
        at
        for at, place in call.brought.items()
        if at in state.device.places and (layout.named(at[0]).pool, place) in left
    )


def come_again(
    setting: Setting, state: ComponentState, then: ComponentState, call: ComponentCall, answer: object
) -> frozenset[At]:
    """What was cached, and is new in its place: KV that an insert has replaced, and what a request got by this call.

    What a request holds in such a place may have gone for it, and come again.
    """
    if isinstance(call, ComponentInsert):
        return frozenset(
            at
            for at, place in call.brought.items()
            if then.device.places.get(at) == place != state.device.places.get(at)
        )
    if not isinstance(call, ComponentStart | ComponentGrow) or not isinstance(answer, Holding):
        return frozenset()
    before = state.running[call.receipt].held if isinstance(call, ComponentGrow) else {}
    fresh = frozenset(fresh_places(setting.layout, before, answer))
    pools = {one.name: one.pool for one in setting.layout.components}
    return frozenset(at for at, place in stored_by(then.running[call.receipt]) if (pools[at[0]], place) in fresh)


def on_path_of(state: ComponentState, call: ComponentCall) -> frozenset[Name]:
    """The prefixes that a call goes through, or has to do with: it may use what is cached for them."""
    path: Path | None = getattr(call, "path", None)
    if path is not None:
        return frozenset(path.names)
    if isinstance(call, ComponentUnlock):
        return names_of(state.receipts.get(call.receipt, frozenset()))
    if isinstance(call, ComponentGrow | ComponentFinish):
        return frozenset(state.running[call.receipt].path.names)
    if isinstance(call, ComponentFound | ComponentSettled | ComponentCommit | ComponentAbort):
        return frozenset(state.fetches[call.number].path.names)
    if isinstance(call, ComponentDetach):
        return frozenset[Name]().union(*[one.path.names for one in state.fetches.values()])
    if isinstance(call, ComponentCopied):
        copy = state.under_way[call.number]
        return names_of(copy.needs | copy.device | copy.host | copy.places.keys())
    if isinstance(call, ComponentWritten):
        write = state.writes[call.number]
        return names_of(write.needs | write.host | write.takes)
    return frozenset()


def names_of(entries: Iterable[At]) -> frozenset[Name]:
    """The prefixes that entries are cached for."""
    return frozenset(name for _, name in entries)
