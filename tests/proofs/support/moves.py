"""Every call that a lawful caller can make in a state, and the forbidden ones that a cache has to withstand."""

from __future__ import annotations

from collections.abc import Iterator

from kvlitmus.conformance.checker.calls import misuse
from kvlitmus.conformance.checker.calls.prefix import pool, request, tree
from kvlitmus.reference.prefix.pool import slots_of
from kvlitmus.spec.words.names import page_names
from kvlitmus.spec.words.units import Key, PageNo, Slot, pages_needed
from tests.proofs.support.explore import Explorer, Loan, Move, State


def moves(search: Explorer, state: State) -> Iterator[Move]:
    """All calls from a state."""
    yield from pool_moves(search, state)
    yield from tree_moves(search, state)
    yield from insert_moves(search, state)
    yield from request_moves(search, state)
    if search.scope.retracts:
        yield from retraction_moves(search, state)
    if search.scope.misuse:
        yield from misuse_moves(search, state)


def pool_moves(search: Explorer, state: State) -> Iterator[Move]:
    """Allocate, free, extend, decode, groups, reset, flush; a flush is refused, too, where it may be."""
    checker, size, loan = search.checker, search.scope.page_size, state.loan

    def alloc(pages: int) -> Loan:
        got = pool.alloc(checker, pages * size)
        return loan if got is None else (*loan, *_pages(got, size))

    def free(many: int) -> Loan:
        pool.free(checker, slots_of(loan[:many], size))
        return loan[many:]

    def grouped() -> Loan:
        pool.free_grouped(checker, [slots_of((page,), size) for page in loan])
        return ()

    def extend(unused: int, further: int, decode: bool) -> Loan:
        used = slots_of(loan, size)
        used = used[: len(used) - unused]
        got = pool.extend(checker, used, further, decode=decode)
        return loan if got is None else (*loan, *[page for page in _pages(got, size) if page not in loan])

    def reset() -> Loan:
        pool.reset(checker)
        return ()

    def flush(*, refused: bool) -> Loan:
        search.decline(refused)
        pool.flush(checker)
        return loan

    for pages in range(search.scope.loans - len(loan) + 1):
        yield f"alloc {pages} pages", lambda pages=pages: alloc(pages)  # type: ignore[misc]
    for many in range(1, len(loan) + 1):
        yield f"free {many} pages", lambda many=many: free(many)  # type: ignore[misc]
    if loan:
        yield "free all in a group", grouped
    for unused in range(size if loan else 1):
        for further in range(1, size + 2):
            opened = -(-(further - unused) // size)
            if len(loan) + opened <= search.scope.loans:
                yield f"extend by {further} after {unused} unused", lambda u=unused, f=further: extend(u, f, False)  # type: ignore[misc]
                if further == 1:
                    yield f"decode after {unused} unused", lambda u=unused: extend(u, 1, True)  # type: ignore[misc]
    yield "reset", reset
    if "flush" not in checker.capabilities:
        return
    yield "flush", lambda: flush(refused=False)
    if state.known.requests or state.receipts or state.known.owners:
        yield "flush, refused", lambda: flush(refused=True)


def tree_moves(search: Explorer, state: State) -> Iterator[Move]:
    """Match, lock, unlock, evict."""
    checker, size, loan = search.checker, search.scope.page_size, state.loan

    def match(key: Key) -> Loan:
        tree.match(checker, key)
        return loan

    def lock(key: Key) -> Loan:
        tree.lock(checker, tree.match(checker, key), key, len(state.receipts) + 1)
        return loan

    def unlock(receipt: int) -> Loan:
        tree.unlock(checker, receipt)
        return loan

    def evict(slots: int) -> Loan:
        tree.evict(checker, slots)
        return loan

    for key in search.keys:
        yield f"match {key.tokens}", lambda key=key: match(key)  # type: ignore[misc]
        if len(state.receipts) < search.scope.receipts:
            yield f"lock {key.tokens}", lambda key=key: lock(key)  # type: ignore[misc]
    for at, name in enumerate(state.receipts, 1):
        if name not in state.receipts[: at - 1]:
            yield f"unlock {name}", lambda at=at: unlock(at)  # type: ignore[misc]
    for slots in sorted({1, size, size + 1, search.scope.pages * size}):
        yield f"evict {slots}", lambda slots=slots: evict(slots)  # type: ignore[misc]


def insert_moves(search: Explorer, state: State) -> Iterator[Move]:
    """Insert each key: all in the caller's own pages, or after a locked prefix in the tree's."""
    checker, size, loan = search.checker, search.scope.page_size, state.loan
    cached = state.known.device.pages
    counted = search.scope.policy in ("lfu", "slru")
    priorities = (0, 1) if search.scope.policy == "priority" else (0,)

    def insert(key: Key, shared: Loan, priority: int, chunked: bool) -> Loan:
        names = page_names(checker.names_of(key), size)
        offered = (*shared, *loan[: len(names) - len(shared)])
        kept = {page for name, page in zip(names, offered, strict=True) if name in cached}
        tree.insert(
            checker, key, slots_of(offered, size), protected=len(shared) * size, priority=priority, chunked=chunked
        )
        adopted = set(offered) - kept
        return tuple(page for page in loan if page not in adopted)

    for key in search.keys:
        names = page_names(checker.names_of(key), size)
        locked = 0
        while locked < len(names) and names[locked] in cached and cached[names[locked]].locks:
            locked += 1
        for many in range(locked + 1):
            if len(names) - many <= len(loan):
                shared = tuple(cached[name].page for name in names[:many])
                for priority in priorities:
                    for chunked in (False, True) if counted else (False,):
                        yield (
                            f"insert {key.tokens} after {many}",
                            lambda k=key, s=shared, p=priority, c=chunked: insert(k, s, p, c),  # type: ignore[misc]
                        )


def request_moves(search: Explorer, state: State) -> Iterator[Move]:
    """Begin, fork, grow, take back, publish, finish, abort; these two also up to each unit that is not cached."""
    checker, scope = search.checker, search.scope
    longest = scope.units + scope.bigram
    running = dict(zip(state.known.requests, state.keys, strict=True))
    many_there = len(running) + len(state.known.retracted.requests)

    def begin(key: Key) -> Loan:
        request.begin(checker, many_there + 1, key)
        return state.loan

    def grow(rid: int, tokens: tuple[int, ...]) -> Loan:
        request.grow(checker, rid, tokens)
        return state.loan

    def take_back(rid: int, many: int) -> Loan:
        request.take_back(checker, rid, many)
        return state.loan

    def fork(of: int) -> Loan:
        request.fork(checker, many_there + 1, of)
        return state.loan

    def publish(rid: int, chunked: bool, upto: int | None = None) -> Loan:
        request.publish(checker, rid, chunked=chunked, upto=upto)
        return state.loan

    def end(rid: int, keep: bool, upto: int | None = None) -> Loan:
        request.end(checker, rid, keep=keep, upto=upto)
        return state.loan

    if many_there < scope.requests:
        for key in search.keys:
            yield f"begin {key.tokens}", lambda key=key: begin(key)  # type: ignore[misc]
        for rid, key in running.items() if "fork" in checker.capabilities else ():
            yield f"fork {key.tokens}", lambda r=rid: fork(r)  # type: ignore[misc]
    for rid, key in running.items():
        room = longest - len(key.tokens)
        for token in scope.alphabet:
            for many in range(1, min(room, scope.page_size + 1) + 1):
                tokens = (token,) * many
                yield f"grow {key.tokens} by {tokens}", lambda r=rid, t=tokens: grow(r, t)  # type: ignore[misc]
        for many in range(1, request.most_to_take_back(state.known.requests[rid]) + 1):
            yield f"take {many} back of {key.tokens}", lambda r=rid, m=many: take_back(r, m)  # type: ignore[misc]
        for chunked in (False, True) if scope.policy in ("lfu", "slru") else (False,):
            yield f"publish {key.tokens}", lambda r=rid, c=chunked: publish(r, c)  # type: ignore[misc]
        yield f"finish {key.tokens}", lambda r=rid: end(r, True)  # type: ignore[misc]
        yield f"abort {key.tokens}", lambda r=rid: end(r, False)  # type: ignore[misc]
        now = state.known.requests[rid]
        for upto in range(now.cached, len(now.row)):
            yield f"publish {upto} of {key.tokens}", lambda r=rid, u=upto: publish(r, False, u)  # type: ignore[misc]
            yield f"finish {upto} of {key.tokens}", lambda r=rid, u=upto: end(r, True, u)  # type: ignore[misc]


def retraction_moves(search: Explorer, state: State) -> Iterator[Move]:
    """Retract with a copy, which is refused, too, where the host may be full; resume, discard."""
    checker, parked = search.checker, state.known.retracted

    def retract(rid: int, *, refused: bool) -> Loan:
        search.decline(refused)
        request.retract(checker, rid)
        return state.loan

    def resume(rid: int) -> Loan:
        request.resume(checker, rid)
        return state.loan

    def discard(rid: int) -> Loan:
        request.discard(checker, rid)
        return state.loan

    size = search.scope.page_size
    for rid, one in state.known.requests.items():
        yield f"retract {one.path.key.tokens}", lambda r=rid: retract(r, refused=False)  # type: ignore[misc]
        if parked.pages(size) + pages_needed(len(one.row), size) > parked.most:
            yield f"retract {one.path.key.tokens}, refused", lambda r=rid: retract(r, refused=True)  # type: ignore[misc]
    for rid, one in parked.requests.items():
        yield f"resume {one.path.key.tokens}", lambda r=rid: resume(r)  # type: ignore[misc]
        yield f"discard {one.path.key.tokens}", lambda r=rid: discard(r)  # type: ignore[misc]


def misuse_moves(search: Explorer, state: State) -> Iterator[Move]:
    """What a caller must not do; nothing follows from these."""
    checker, size, loan = search.checker, search.scope.page_size, state.loan
    free = sorted(search.free(state))
    if free:
        yield "free what is free", lambda: misuse.double_free(checker, page_slots_of(free[0], size))
        yield "overwrite what was returned", lambda: misuse.scribble(checker, size)
    if loan:
        yield "free one page twice at once", lambda: misuse.repeated_free(checker, page_slots_of(loan[0], size))
        if size > 1:
            yield "free part of a page", lambda: misuse.partial_free(checker, page_slots_of(loan[0], size))
    spent = len(state.receipts) + 1
    yield "give a spent receipt back", lambda: misuse.stale_unlock(checker, spent, spent)


def page_slots_of(page: PageNo, size: int) -> tuple[Slot, ...]:
    """The slots of one page."""
    return slots_of((page,), size)


def _pages(slots: tuple[Slot, ...], size: int) -> Loan:
    return tuple(dict.fromkeys(PageNo(slot // size) for slot in slots))
