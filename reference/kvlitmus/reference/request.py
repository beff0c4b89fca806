"""The life of a request: begin, grow, publish, end.

Who owns what, at every moment: the first ``cached`` slots of the row are the tree's, shared and
locked; the rest are the request's alone.  Each function here says what moves where.
"""

from __future__ import annotations

from collections.abc import Sequence

from kvlitmus.reference import cache as caches
from kvlitmus.reference import pool as pools
from kvlitmus.reference.cache import Cache, Request, own_pages
from kvlitmus.reference.perform import NO_CHOICE, Choice
from kvlitmus.spec.names import page_names
from kvlitmus.spec.units import Name, PageNo, Pages, RequestId, Slot, Tokens, pages_needed


def begin(
    cache: Cache, rid: RequestId, root: Name, names: Sequence[Name], tokens: int, choice: Choice = NO_CHOICE
) -> tuple[Cache, Request | None]:
    """Start a request of ``tokens`` tokens whose key has the prefixes ``names`` (one fewer for bigrams).

    The cached prefix is locked *before* room is made, so that making room can't take it.  Without
    enough memory the lock is given back and there is no request (REQ-10).

    Raises ``ValueError`` when the id is in use.
    """
    if rid in cache.requests:
        raise ValueError(f"request {rid} is running already", rid)
    size = cache.pool.page_size
    cache, shared = caches.match(cache, page_names(names, size), len(names))
    locked = names[len(shared) * size - 1] if shared else root
    cache = caches.lock(cache, locked)
    wanted = Pages(pages_needed(tokens, size) - len(shared))
    roomy = caches.make_room(cache, wanted, choice.victims)
    if roomy is None:
        return caches.unlock(_after_room(cache, wanted, choice), locked), None
    taken = pools.allocate(roomy.pool, Tokens(wanted * size), choice.pages)
    assert taken is not None
    pool, own = taken
    row = pools.slots_of((*shared, *own), size)[:tokens]
    request = Request(root, tuple(names), row, Tokens(len(shared) * size), locked)
    return roomy._replace(pool=pool, requests={**cache.requests, rid: request}), request


def grow(
    cache: Cache, rid: RequestId, names: Sequence[Name], tokens: int, choice: Choice = NO_CHOICE
) -> tuple[Cache, tuple[Slot, ...] | None]:
    """Slots for further tokens: ``tokens`` and ``names`` are the request's new totals.

    The last page is filled first (REQ-05).  Without enough memory nothing changes but what was
    evicted (REQ-10).
    """
    request = cache.requests[rid]
    size = cache.pool.page_size
    before = len(request.row)
    wanted = Pages(pages_needed(tokens, size) - pages_needed(before, size))
    roomy = caches.make_room(cache, wanted, choice.victims)
    if roomy is None:
        return _after_room(cache, wanted, choice), None
    last = request.row[-1] if request.row else Slot(-1)
    extended = pools.extend(roomy.pool, before, tokens, last, choice.pages)
    assert extended is not None
    pool, new = extended
    grown = request._replace(names=tuple(names), row=request.row + new)
    return roomy._replace(pool=pool, requests={**cache.requests, rid: grown}), new


def publish(cache: Cache, rid: RequestId, *, chunked: bool, upto: Tokens | None = None) -> tuple[Cache, Request]:
    """Cache the whole pages computed so far; the request goes on with the tree's slots (REQ-03, REQ-04).

    Computed are the first ``upto`` units, or all of them: what is behind stays the request's own (REQ-12,
    REQ-13).  Pages that another request cached first were computed in vain and are freed; the lock moves to
    the end of what is cached now.

    Raises ``ValueError`` when ``upto`` is less than what is cached, or more than the request has.
    """
    request = cache.requests[rid]
    size = cache.pool.page_size
    names = computed_pages(request, size, upto)
    cache, vain = _store(cache, request, names, chunked=chunked)
    cache = caches.free(cache, vain)
    shared = [cache.tree.pages[name].page for name in names]
    locked = names[-1] if names else request.root
    cache = caches.unlock(caches.lock(cache, locked), request.locked)
    kept = Tokens(len(names) * size)
    row = pools.slots_of(shared, size) + request.row[kept:]
    published = request._replace(row=row, cached=kept, locked=locked)
    return cache._replace(requests={**cache.requests, rid: published}), published


def end(cache: Cache, rid: RequestId, *, keep: bool, upto: Tokens | None = None) -> Cache:
    """Finish a request (``keep``) or abort or retract it: it owns nothing afterwards (REQ-07).

    Finishing caches its whole pages (REQ-08), of the first ``upto`` units where no more was computed (REQ-13);
    the tail that fills no page, what was not computed, and what was computed in vain, is freed.  Aborting
    caches nothing (REQ-09).

    Raises ``ValueError`` when ``upto`` is less than what is cached, or more than the request has.
    """
    request = cache.requests[rid]
    own = own_pages(cache, request)
    if keep:
        names = computed_pages(request, cache.pool.page_size, upto)
        cache, _ = _store(cache, request, names, chunked=False)
        own -= {cache.tree.pages[name].page for name in names}
    cache = caches.unlock(caches.free(cache, sorted(own)), request.locked)
    return cache._replace(requests={other: kept for other, kept in cache.requests.items() if other != rid})


def computed_pages(request: Request, page_size: int, upto: Tokens | None) -> tuple[Name, ...]:
    """The names of the whole pages among the first ``upto`` units of a request, or among all of them.

    Raises ``ValueError`` when ``upto`` is less than what is cached, or more than the request has.
    """
    if upto is None:
        return page_names(request.names, page_size)
    if not request.cached <= upto <= len(request.row):
        raise ValueError(f"computed are between {request.cached} and {len(request.row)} units (got {upto})", upto)
    return page_names(request.names[:upto], page_size)


def _store(cache: Cache, request: Request, names: Sequence[Name], *, chunked: bool) -> tuple[Cache, tuple[PageNo, ...]]:
    """Insert the request's whole pages; returns the pages that were brought in vain."""
    size = cache.pool.page_size
    offered = pools.whole_pages(request.row[: len(names) * size], size)
    cache, _, vain = caches.insert(
        cache, request.root, names, offered, protected=Pages(request.cached // size), chunked=chunked
    )
    return cache, vain


def _after_room(cache: Cache, wanted: Pages, choice: Choice) -> Cache:
    """The cache after a vain attempt to make room: what could be evicted is gone."""
    size = cache.pool.page_size
    return caches.evict(cache, Tokens((wanted - len(cache.pool.free)) * size), choice.victims)[0]
