"""What is known below the device of a hierarchy that shows no snapshot.

The suite leads every job on, and the storage is its own.  So at any depth it knows what is under way, what it copies or
reads, and what storage was asked and given.  A step is folded as with a snapshot (:mod:`kvlitmus.spec.prefix.work_advance`),
with these differences:

* a copy that begins shows that its path is on the device; what a failed load was to bring may be there or not;
* a load back that is granted says where its pages are, and one that is declined may have made room for nothing;
* what a prefetch adds is known as a range: nobody sees what of it was there already;
* nothing is known of how recently and how often pages on the host were used.

A backup that begins, a commit of what was read and a match that counts the host's pages say that copies are there.  The
host makes room when it is asked to, and for what comes to it; then a copy is certain no more, unless something protects
it: its page is on the device for certain, or work under way reads it or writes it.  What may be there stays so until an answer
says that it isn't, or the host says that nothing is there.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

from kvlitmus.spec.interface import Hit
from kvlitmus.spec.interface.tiers import BACKUP, LOAD, PUT, QUERY, Loaded
from kvlitmus.spec.prefix import calls, effects, partial, windows, work_calls
from kvlitmus.spec.prefix.page import Tier, copy_of, empty_tier
from kvlitmus.spec.prefix.prefetch_advance import ending, perhaps_used, put, tiers_of
from kvlitmus.spec.prefix.seen import Put, TierSeen
from kvlitmus.spec.prefix.state import State
from kvlitmus.spec.prefix.storage_advance import last_of
from kvlitmus.spec.prefix.work import COPIES, Prefetched
from kvlitmus.spec.prefix.work_advance import EXPECT, INPUTS_OF, conclude, note_begun, note_ended, stirred
from kvlitmus.spec.prefix.work_calls import PlainCall
from kvlitmus.spec.words.names import NO_NAME, page_names
from kvlitmus.spec.words.policies import WRITE_BACK
from kvlitmus.spec.words.setting import Setting
from kvlitmus.spec.words.units import Name, PageNo, Slot, page_slots, pages_in_order, pages_of

Fold = Callable[..., State]


def follow_unseen(
    state: State, expected: State, setting: Setting, call: PlainCall, answer: object, before: TierSeen, after: TierSeen
) -> tuple[State, State]:
    """What is expected after a call, and what is known then; ``expected``: what it amounts to on the device."""
    expected = stirred(noted(expected, setting, after.record.puts), call)
    own = OWN.get(type(call))
    if own is not None:
        expected = own(expected, setting, call, answer)
    elif (below := EXPECT.get(type(call))) is not None:
        step = {"state": expected, "setting": setting, "call": call, "answer": answer, "before": before, "after": after}
        expected = below(*[step[name] for name in INPUTS_OF[type(call)]])
    expected = note_ended(expected, setting, after, forgot=type(call) is calls.Reset)
    then = begun(failed(expected, setting), setting, after)
    then = conclude(state, then, setting, call, answer, before, after)
    return expected, then._replace(host=host_then(state, then, setting, call, answer, before, after))


# -- the calls -------------------------------------------------------------------------------------


def load_back(state: State, setting: Setting, call: work_calls.LoadBack, answer: Loaded) -> State:
    """Room was made, perhaps; what was loaded is on the device from now on, in the slots that were told."""
    size, path = setting.size, call.path
    slots = tuple(map(Slot, answer.slots or ()))
    start, end = answer.before // size, (answer.before + len(slots)) // size
    names = path.pages[start:end]
    state = partial.tried(state, setting, len(names), path.pages)
    state = perhaps_used(partial.gone(partial.taken(state, setting, pages_of(slots, size)), setting, names), path.pages)
    above = path.pages[start - 1] if names and start else path.root
    if (
        not names
        or any(name in state.device.pages for name in names)
        or not (start == 0 or above in state.device.pages)
    ):
        return state  # rules say what is wrong with it
    state = partial.certain(state, setting, path.pages[:start])
    tree = effects.touch(state.device, path.pages[:start])
    tree = effects.place(tree, above, names, pages_in_order(slots, size)[: len(names)])
    state = partial.certain(state._replace(device=tree), setting, names)
    units = path.names[start * size : end * size]
    return state._replace(contents=effects.write(state.contents, slots[: len(units)], units))


def out_of_memory(state: State, setting: Setting, call: work_calls.OutOfMemory, answer: None) -> State:
    """The call may have made room, and nothing else."""
    assert answer is None
    return perhaps_used(partial.tried(state, setting, 0, call.path.pages), call.path.pages)


OWN: dict[type, Fold] = {work_calls.LoadBack: load_back, work_calls.OutOfMemory: out_of_memory}
"""The calls that amount to something else without a snapshot, of what may have left the device."""


# -- what is under way -----------------------------------------------------------------------------


def failed(state: State, setting: Setting) -> State:
    """What a load that failed was to bring is on the device or not, once it has ended."""
    if any(work.failed and work.job.kind == LOAD for work in tiers_of(state).ended):
        return partial.doubted(state, setting, 0, len(state.device.pages), ordered=False)
    return state


def begun(state: State, setting: Setting, after: TierSeen) -> State:
    """Copies that have begun show that their paths are on the device, and protect them."""
    tiers = tiers_of(state)
    fresh = [job for number, job in after.jobs.items() if number not in tiers.work]
    for job in fresh:
        if job.kind in COPIES:
            names = setting.names.of(job.key.namespace, job.key.units)
            state = resident(state, setting, setting.names.root(job.key.namespace), page_names(names, setting.size))
    state = note_begun(state, setting, after)
    tiers = tiers_of(state)
    if not tiers.begun:
        return state
    below = [name for work in tiers.begun if work.job.kind != LOAD for name in work.names]
    return put(state, tiers._replace(below_once=tiers.below_once.union(below)))


def resident(state: State, setting: Setting, root: Name, paged: Sequence[Name]) -> State:
    """These pages of one path are on the device for certain, those of which nobody knew somewhere."""
    known = effects.cached_prefix(state.device, paged)
    if known < len(paged):
        above = paged[known - 1] if known else root
        fresh = [name for name in paged[known:] if name not in state.device.pages]
        tree = effects.place(state.device, above, fresh, [partial.SOMEWHERE] * len(fresh))
        state = state._replace(device=effects.blur(tree, fresh))
    return partial.certain(state, setting, paged)


def filling(state: State, setting: Setting, places: Mapping[Name, PageNo]) -> dict[Slot, Name]:
    """What slots will hold that a load is filling.  ``places``: where pages are by what was just answered."""
    found: dict[Slot, Name] = {}
    for work in tiers_of(state).work.values():
        for name in work.names if work.job.kind == LOAD and not work.landed else ():
            page = places.get(
                name, partial.SOMEWHERE if name not in state.device.pages else state.device.pages[name].page
            )
            if page != partial.SOMEWHERE:
                slots = map(Slot, page_slots(page, setting.size))
                found.update(zip(slots, units_of(setting, name), strict=False))
    return found


# -- the host --------------------------------------------------------------------------------------

LOOKING = (calls.Match, calls.Lock, calls.Unlock, work_calls.Poll, work_calls.TellLoaded, work_calls.Settled)
"""Calls that make room on no tier."""


def host_then(
    state: State, then: State, setting: Setting, call: PlainCall, answer: object, before: TierSeen, after: TierSeen
) -> Tier:
    """What is known of the host after a step from ``state`` to ``then``."""
    host, tiers = then.host, tiers_of(then)
    if after.host_available == setting.config.host_pages * setting.size or type(call) is calls.Reset:
        return empty_tier() if host.pages else host
    if setting.config.write == WRITE_BACK:  # what leaves the device comes to the host, or not
        spilled = [*state.device.pages, *[name for name in then.device.pages if name not in state.device.pages]]
        host = perhaps_on(host, setting, [name for name in spilled if name not in host.pages])
    if host.pages and makes_room(state, then, setting, call, before):
        host = perhaps_on(host, setting, sorted(partial.surely(host) - protected(state, then, setting)))
    lost = [name for work in tiers.ended if work.failed and work.job.kind == BACKUP for name in work.names]
    if lost:
        host = perhaps_on(host, setting, sorted(partial.surely(host).intersection(lost)))
    fresh = [name for work in tiers.begun if work.job.kind in (BACKUP, LOAD, PUT) for name in work.names]
    host = certainly_on(host, setting, fresh)
    for one in committed_by(state, setting, call, answer):
        read = one.names[: one.got // setting.size]
        host = perhaps_on(host, setting, [name for name in read if name not in host.pages])
    if type(call) is calls.Match and isinstance(answer, Hit) and answer.host is not None:
        start, end = answer.length // setting.size, (answer.length + answer.host) // setting.size
        host = certainly_on(host, setting, call.path.pages[start:end])
        if setting.profile.match_ends == "page" and end < setting.cap(len(call.path.names)) // setting.size:
            host = gone_from(host, call.path.pages[end : end + 1])
    return host


def placed_on(tier: Tier, setting: Setting, names: Sequence[Name]) -> Tier:
    """The tier with these pages too, those of which nobody knew, nobody knows where."""
    fresh = {
        name: copy_of(setting.names.above(name, setting.size), partial.SOMEWHERE)
        for name in names
        if name not in tier.pages
    }
    return tier._replace(pages={**tier.pages, **fresh}) if fresh else tier


def certainly_on(tier: Tier, setting: Setting, names: Sequence[Name]) -> Tier:
    """These pages are there."""
    if not names:
        return tier
    tier = placed_on(tier, setting, names)
    return tier._replace(doubt=windows.present(tier.doubt, frozenset(names))) if tier.doubt.unsure else tier


def perhaps_on(tier: Tier, setting: Setting, names: Sequence[Name]) -> Tier:
    """These pages are there or not, whatever was before."""
    if not names:
        return tier
    tier = placed_on(tier, setting, names)
    return tier._replace(doubt=windows.left_open(tier.doubt, names))


def gone_from(tier: Tier, names: Sequence[Name]) -> Tier:
    """These pages are not there."""
    lost = [name for name in names if name in tier.pages]
    return effects.remove(tier, lost)._replace(doubt=windows.absent(tier.doubt, lost)) if lost else tier


def makes_room(state: State, then: State, setting: Setting, call: PlainCall, before: TierSeen) -> bool:
    """Whether the host may have dropped copies in this step."""
    late, inserts = setting.profile.reserve == "hit", isinstance(call, calls.INSERTS)
    if not inserts and any(work.job.kind == BACKUP for work in tiers_of(then).begun):
        return True
    if isinstance(call, LOOKING):
        return False
    if setting.config.write == WRITE_BACK or isinstance(call, work_calls.EvictHost | work_calls.OutOfMemory):
        return True
    if isinstance(call, work_calls.Tick):
        return late or bool(ending(state, setting)) or bool(tiers_of(state).paths)
    if isinstance(call, work_calls.Advance):
        return late and tiers_of(state).work[call.job].job.kind == QUERY
    if isinstance(call, calls.OF_REQUESTS):
        return not has_room(state, setting, before, state.requests[call.rid].path.pages)
    return isinstance(call, calls.Insert | work_calls.Prefetch) and not has_room(
        state, setting, before, call.path.pages
    )


def has_room(state: State, setting: Setting, before: TierSeen, paged: Sequence[Name]) -> bool:
    """Whether the host had room for all of these pages, so that it makes none."""
    tiers, profile = tiers_of(state), setting.profile
    least = before.host_available is not None and before.host_available >= len(paged) * setting.size
    as_due = profile.evict_amount == "lack" and not profile.evict_slack
    return least and as_due and tiers.fault is None and not tiers.starved


def protected(state: State, then: State, setting: Setting) -> set[Name]:
    """The pages whose host copies stay though the host makes room."""
    tiers = tiers_of(then)
    kinds = (BACKUP, LOAD, PUT) if tiers.attached else (BACKUP, LOAD)
    works = [work for work in tiers.work.values() if work.job.kind in kinds and not work.failed]
    held = {name for work in works for name in work.names}
    if setting.profile.host_duplicates != "reclaimed" or setting.config.write != WRITE_BACK:
        held |= partial.surely(state.device) & partial.surely(then.device)
    return held


def committed_by(state: State, setting: Setting, call: PlainCall, answer: object) -> Iterator[Prefetched]:
    """The prefetches that a poll or a tick has committed."""
    fetches = tiers_of(state).prefetches
    if type(call) is work_calls.Poll and answer and call.rid in fetches.running:
        yield fetches.by_number[fetches.running[call.rid]]
    elif type(call) is work_calls.Tick:
        yield from (fetches.by_number[number] for number in ending(state, setting))


# -- what storage saw ------------------------------------------------------------------------------


def noted(state: State, setting: Setting, puts: Collection[Put]) -> State:
    """Of the pages that were put, what units they have: by their names, as nobody saw them in a tree."""
    tiers = tiers_of(state)
    known, fresh = tiers.stored.units_of, {}
    for one in puts:
        last = last_of(one.contents)
        if last not in known and setting.names.knows(last):
            units = units_of(setting, last)
            if len(units) == setting.size:
                fresh[last] = units
    if not fresh:
        return state
    return put(state, tiers._replace(stored=tiers.stored._replace(units_of={**known, **fresh})))


def units_of(setting: Setting, last: Name) -> tuple[Name, ...]:
    """The names of the units of the page that ends with this one; none where no page does."""
    found: list[Name] = []
    while setting.names.parent(last) != NO_NAME:
        found.append(last)
        last = setting.names.parent(last)
    return tuple(reversed(found[: setting.size])) if len(found) % setting.size == 0 else ()
