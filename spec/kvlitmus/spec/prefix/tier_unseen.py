"""What is known below the device of a hierarchy that shows no snapshot.

The suite leads every job on, and the storage is its own.  So at any depth it knows what is under way, what it copies or
reads, and what storage was asked and given.  A step is folded as with a snapshot (:mod:`kvlitmus.spec.prefix.tier_advance`),
with these differences:

* a copy that begins shows that its path is on the device; what a failed load was to bring may be there or not;
* a load back that is granted says where its pages are, and one that is declined may have made room for nothing;
* what a prefetch adds is known as a range: nobody sees what of it was there already;
* nothing is known of how recently and how often pages on the host were used.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from kvlitmus.spec.interface.tiers import LOAD, Loaded
from kvlitmus.spec.prefix import calls, effects, partial, tier_calls
from kvlitmus.spec.prefix.host_known import hosted_then
from kvlitmus.spec.prefix.prefetch_advance import put, tiers_of
from kvlitmus.spec.prefix.seen import Put, TierSeen
from kvlitmus.spec.prefix.state import State
from kvlitmus.spec.prefix.storage_advance import last_of
from kvlitmus.spec.prefix.tier_advance import EXPECT, INPUTS_OF, conclude, note_begun, note_ended, stirred
from kvlitmus.spec.prefix.tier_state import COPIES
from kvlitmus.spec.words.names import NO_NAME, page_names
from kvlitmus.spec.words.setting import Setting
from kvlitmus.spec.words.units import Name, PageNo, Slot, page_slots, pages_in_order, pages_of

Fold = Callable[..., State]


def follow_unseen(
    state: State, expected: State, setting: Setting, call: Any, answer: Any, before: TierSeen, after: TierSeen
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
    tiers, hosted = tiers_of(then), hosted_then(state, then, setting, call, answer, before, after)
    return expected, then if hosted is tiers.hosted else put(then, tiers._replace(hosted=hosted))


# -- the calls -------------------------------------------------------------------------------------


def load_back(state: State, setting: Setting, call: tier_calls.LoadBack, answer: Loaded) -> State:
    """Room was made, perhaps; what was loaded is on the device from now on, in the slots that were told."""
    size, path = setting.size, call.path
    slots = tuple(map(Slot, answer.slots or ()))
    start, end = answer.before // size, (answer.before + len(slots)) // size
    names = path.pages[start:end]
    state = partial.tried(state, setting, len(names), path.pages[:start])
    state = partial.gone(partial.taken(state, setting, pages_of(slots, size)), setting, names)
    above = path.pages[start - 1] if names and start else path.root
    if not names or any(name in state.tree.pages for name in names) or not (start == 0 or above in state.tree.pages):
        return state  # rules say what is wrong with it
    state = partial.certain(state, setting, path.pages[:start])
    tree = effects.place(effects.touch(state.tree, ()), above, names, pages_in_order(slots, size)[: len(names)])
    state = partial.certain(state._replace(tree=tree), setting, names)
    units = path.names[start * size : end * size]
    return state._replace(contents=effects.write(state.contents, slots[: len(units)], units))


def out_of_memory(state: State, setting: Setting, call: tier_calls.OutOfMemory, answer: None) -> State:
    """The call may have made room, and nothing else."""
    assert answer is None
    return partial.tried(state, setting, 0, call.path.pages)


OWN: dict[type, Fold] = {tier_calls.LoadBack: load_back, tier_calls.OutOfMemory: out_of_memory}
"""The calls that amount to something else without a snapshot, of what may have left the device."""


# -- what is under way -----------------------------------------------------------------------------


def failed(state: State, setting: Setting) -> State:
    """What a load that failed was to bring is on the device or not, once it has ended."""
    if any(work.failed and work.job.kind == LOAD for work in tiers_of(state).ended):
        return partial.doubted(state, setting, 0, len(state.tree.pages))
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
    known = effects.cached_prefix(state.tree, paged)
    if known < len(paged):
        above = paged[known - 1] if known else root
        fresh = [name for name in paged[known:] if name not in state.tree.pages]
        state = state._replace(tree=effects.place(state.tree, above, fresh, [partial.SOMEWHERE] * len(fresh)))
    return partial.certain(state, setting, paged)


def filling(state: State, setting: Setting, places: Mapping[Name, PageNo]) -> dict[Slot, Name]:
    """What slots will hold that a load is filling.  ``places``: where pages are by what was just answered."""
    found: dict[Slot, Name] = {}
    for work in tiers_of(state).work.values():
        for name in work.names if work.job.kind == LOAD and not work.landed else ():
            page = places.get(name, partial.SOMEWHERE if name not in state.tree.pages else state.tree.pages[name].page)
            if page != partial.SOMEWHERE:
                slots = map(Slot, page_slots(page, setting.size))
                found.update(zip(slots, units_of(setting, name), strict=False))
    return found


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
