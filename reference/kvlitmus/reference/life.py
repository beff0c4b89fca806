"""The calls of a scheduler, and what each does to the whole hierarchy.

On the device every call does what it does without a host: the flat :mod:`~kvlitmus.reference.cache` and
:mod:`~kvlitmus.reference.request` are called for that.  Here it is said what follows on the host: pages that come back,
backups that are due, and who makes room.

A scheduler calls :func:`tick` once per step.  What has landed since takes effect there and nowhere else, so that
between two ticks nothing changes behind the scheduler's back.
"""

from __future__ import annotations

from collections.abc import Sequence

from kvlitmus.reference import backup, fetch, load, put, tier
from kvlitmus.reference import cache as caches
from kvlitmus.reference import request as requests
from kvlitmus.reference.cache import NO_PAGES, Request
from kvlitmus.reference.hierarchy import Hierarchy, empty_hierarchy
from kvlitmus.reference.perform import NO_CHOICE, Choice
from kvlitmus.spec.names import page_names
from kvlitmus.spec.units import Name, PageNo, Pages, RequestId, Slot, Tokens, pages_needed

# -- the cache's calls ------------------------------------------------------------------------------------


def insert(
    now: Hierarchy,
    root: Name,
    names: Sequence[Name],
    offered: Sequence[PageNo],
    *,
    protected: Pages = NO_PAGES,
    priority: int = 0,
    chunked: bool = False,
) -> tuple[Hierarchy, Pages, tuple[PageNo, ...]]:
    """Cache the whole pages of a key on the device; how many were resident, and which pages were brought in vain."""
    cache, already, vain = caches.insert(
        now.cache, root, names, offered, protected=protected, priority=priority, chunked=chunked
    )
    now = tier.adopt(now, cache, names)
    return (now if chunked else backup.used(now, names)), already, vain


def begin(
    now: Hierarchy, rid: RequestId, root: Name, names: Sequence[Name], tokens: int, choice: Choice = NO_CHOICE
) -> tuple[Hierarchy, Request | None]:
    """Start a request: see :func:`kvlitmus.reference.request.begin`.

    What has to be evicted for it depends on what is matched and locked, so that is looked at first; then the flat
    call is made with these victims as its choice.
    """
    if rid in now.cache.requests:
        raise ValueError(f"request {rid} is running already", rid)
    size = now.cache.pool.page_size
    matched, shared, _ = tier.match(now, page_names(names, size), len(names))
    end = names[len(shared) * size - 1] if shared else root
    protected = matched._replace(cache=caches.lock(matched.cache, end))
    wanted = Pages(pages_needed(tokens, size) - len(shared))
    roomy, victims = make_room(protected, wanted, choice.victims)
    cache, request = requests.begin(now.cache, rid, root, names, tokens, Choice(victims, choice.pages))
    return roomy._replace(cache=cache), request


def grow(
    now: Hierarchy, rid: RequestId, names: Sequence[Name], tokens: int, choice: Choice = NO_CHOICE
) -> tuple[Hierarchy, tuple[Slot, ...] | None]:
    """Slots for further tokens of a request: see :func:`kvlitmus.reference.request.grow`."""
    size = now.cache.pool.page_size
    before = pages_needed(len(now.cache.requests[rid].row), size)
    roomy, victims = make_room(now, Pages(pages_needed(tokens, size) - before), choice.victims)
    cache, new = requests.grow(now.cache, rid, names, tokens, Choice(victims, choice.pages))
    return roomy._replace(cache=cache), new


def publish(now: Hierarchy, rid: RequestId, *, chunked: bool, upto: Tokens | None = None) -> tuple[Hierarchy, Request]:
    """Cache what a request has computed: see :func:`kvlitmus.reference.request.publish`."""
    names = requests.computed_pages(now.cache.requests[rid], now.cache.pool.page_size, upto)
    cache, request = requests.publish(now.cache, rid, chunked=chunked, upto=upto)
    now = tier.adopt(now, cache, names)
    return (now if chunked else backup.used(now, names)), request


def end(now: Hierarchy, rid: RequestId, *, keep: bool, upto: Tokens | None = None) -> Hierarchy:
    """Finish or abort a request: see :func:`kvlitmus.reference.request.end`."""
    names = requests.computed_pages(now.cache.requests[rid], now.cache.pool.page_size, upto)
    cache = requests.end(now.cache, rid, keep=keep, upto=upto)
    return backup.used(tier.adopt(now, cache, names), names) if keep else now._replace(cache=cache)


def make_room(
    now: Hierarchy, wanted: Pages, choice: Sequence[Name] | None = None
) -> tuple[Hierarchy, tuple[Name, ...]]:
    """Evict what is missing for ``wanted`` free device pages, or what there is; the pages that left the device."""
    short = wanted - len(now.cache.pool.free)
    if short <= 0:
        return now, ()
    now, _, victims = tier.evict(now, Tokens(short * now.cache.pool.page_size), choice)
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
    pools, choices, settings = (now.cache.pool, now.host.pool), now.choices, now.cache.settings
    fresh = empty_hierarchy(
        len(pools[0].usable),
        len(pools[1].usable),
        pools[0].page_size,
        reserved=min(pools[0].usable, default=0),
        settings=settings,
        choices=choices,
    )
    return fresh._replace(storage=now.storage, now=now.now, serial=now.serial)
