"""The calls of a scheduler, and what each does to the whole hierarchy.

On the device every call does what it does without a host: that is :func:`~kvlitmus.reference.perform.perform`.  Here it
is said what follows on the host: pages that come back, backups that are due, and who makes room.

A scheduler calls :func:`tick` once per step.  What has landed since takes effect there and nowhere else, so that
between two ticks nothing changes behind the scheduler's back.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kvlitmus.reference import backup, fetch, load, put, tier
from kvlitmus.reference.hierarchy import Hierarchy, empty_hierarchy, lock
from kvlitmus.reference.perform import NO_CHOICE, Choice, perform
from kvlitmus.spec import effects
from kvlitmus.spec.advance import computed_pages
from kvlitmus.spec.calls import Begin, End, Grow, Insert, Publish
from kvlitmus.spec.interface import Begun, Stored
from kvlitmus.spec.units import Name, Pages, Slot, Tokens, pages_needed

# -- the cache's calls ------------------------------------------------------------------------------------


def device(now: Hierarchy, call: Any, choice: Choice = NO_CHOICE) -> tuple[Hierarchy, Any]:
    """A call that concerns the device alone; and its answer."""
    step = perform(now.cache, now.setting, call, choice)
    return now._replace(cache=step.after), step.answer


def insert(now: Hierarchy, call: Insert) -> tuple[Hierarchy, Stored]:
    """Cache the whole pages of a key on the device: how much was resident, and what was brought in vain."""
    step = perform(now.cache, now.setting, call)
    now = tier.adopt(now, step.after, call.path.pages)
    return (now if call.chunked else backup.used(now, call.path.pages)), step.answer


def begin(now: Hierarchy, call: Begin, choice: Choice = NO_CHOICE) -> tuple[Hierarchy, Begun | None]:
    """Start a request.

    What has to be evicted for it depends on what is matched and locked, so that is looked at first; then the flat
    call is made on a device without these pages.
    """
    matched, shared, _ = tier.match(now, call.path.pages, len(call.path.names))
    wanted = Pages(pages_needed(len(call.path.key.tokens), now.setting.size) - len(shared))
    roomy, victims = make_room(lock(matched, call.path.end(len(shared))), wanted, choice.victims)
    return _in_room(now, roomy, victims, call, choice)


def grow(now: Hierarchy, call: Grow, choice: Choice = NO_CHOICE) -> tuple[Hierarchy, tuple[Slot, ...] | None]:
    """Slots for further tokens of a request."""
    size, row = now.setting.size, now.cache.requests[call.rid].row
    wanted = Pages(pages_needed(len(row) + len(call.tokens), size) - pages_needed(len(row), size))
    roomy, victims = make_room(now, wanted, choice.victims)
    return _in_room(now, roomy, victims, call, choice)


def _in_room(
    now: Hierarchy, roomy: Hierarchy, victims: Sequence[Name], call: Begin | Grow, choice: Choice
) -> tuple[Hierarchy, Any]:
    """Make a flat call that needs no more room: the host is as ``roomy`` has it, the device lacks the ``victims``."""
    left = now.cache._replace(tree=effects.remove(now.cache.tree, frozenset(victims)))
    step = perform(left, now.setting, call, Choice((), choice.pages))
    return roomy._replace(cache=step.after), step.answer


def publish(now: Hierarchy, call: Publish) -> tuple[Hierarchy, Begun]:
    """Cache what a request has computed."""
    names = computed_pages(now.cache.requests[call.rid], now.setting, call.upto)
    step = perform(now.cache, now.setting, call)
    now = tier.adopt(now, step.after, names)
    return (now if call.chunked else backup.used(now, names)), step.answer


def end(now: Hierarchy, call: End) -> Hierarchy:
    """Finish or abort a request."""
    names = computed_pages(now.cache.requests[call.rid], now.setting, call.upto)
    step = perform(now.cache, now.setting, call)
    if not call.keep:
        return now._replace(cache=step.after)
    return backup.used(tier.adopt(now, step.after, names), names)


def make_room(
    now: Hierarchy, wanted: Pages, choice: Sequence[Name] | None = None
) -> tuple[Hierarchy, tuple[Name, ...]]:
    """Evict what is missing for ``wanted`` free device pages, or what there is; the pages that left the device."""
    short = wanted - len(now.free)
    if short <= 0:
        return now, ()
    now, _, victims = tier.evict(now, Tokens(short * now.setting.size), choice)
    return now, victims


# -- the scheduler's step, and the lives of cache and storage --------------------------------------------


def tick(now: Hierarchy) -> Hierarchy:
    """Take note of what has landed, and let go of what is over."""
    now = load.acknowledge_loads(backup.acknowledge_backups(now))
    now = tier.free(now._replace(release=()), now.release)
    return put.acknowledge_puts(fetch.settle(now))


def attach(now: Hierarchy) -> tuple[Hierarchy, bool]:
    """Use a storage from now on; refused while there is one."""
    return (now, False) if now.storage else (now._replace(storage=True), True)


def detach(now: Hierarchy) -> tuple[Hierarchy, bool]:
    """Use no storage any more: prefetches and puts end here; what is cached on device and host stays."""
    if not now.storage:
        return now, False
    return put.drop_puts(fetch.end_all(now))._replace(storage=False), True


def reset(now: Hierarchy) -> Hierarchy:
    """Everything fresh, whatever is under way; what stays is the time, the attached storage, and that no job's number
    comes again.
    """
    fresh = empty_hierarchy(now.setting, now.choices)
    return fresh._replace(storage=now.storage, now=now.now, serial=now.serial)
