"""Calls on requests: begin, grow, publish, end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from kvlitmus.conformance import unseen
from kvlitmus.conformance.calls.text import key_text
from kvlitmus.conformance.judge import Running
from kvlitmus.conformance.observation import Observation
from kvlitmus.reference import tree as trees
from kvlitmus.spec.names import page_names
from kvlitmus.spec.units import Key, Name, PageNo, Slot, pages_in_order, pages_of

if TYPE_CHECKING:
    from kvlitmus.conformance.judge import Judge


def begin(judge: Judge, rid: int, key: Key) -> bool:
    """Begin a request; ``False`` when the cache refuses for want of memory."""
    names = judge.names_of(key)
    paged = page_names(names, judge.size)
    cap = judge.cap(len(names))
    certain, possible = judge.cached_range(paged)
    held = frozenset(judge.owners)
    answer = judge.call(f"begin({rid}, {key_text(key)})", "begin", rid, key)
    if answer is None:
        judge.trail[-1] += " → None"
        unseen.unsure(judge, judge.tree)
        judge.finish("refused_begin", {}, _touched_if_seen(judge, paged[: min(certain, cap // judge.size)]))
        return False
    row, cached = _begun(judge, answer)
    tokens = judge.token_names(key, names)
    found = judge.read(row[:cached])
    judge.write(row[cached : len(tokens)], tokens[cached : len(row)])
    judge.own(row[cached:])
    facts: dict[str, Any] = {
        "key_length": len(names),
        "key_names": names,
        "match_length": cached,
        "match_cap": cap,
        "match_slots": row[:cached],
        "found_names": found,
        "certain_length": min(certain * judge.size, cap),
        "possible_length": min(possible * judge.size, cap),
        "held_before": held,
        "granted_pages": pages_of(row[cached:], judge.size),
    }
    _row_facts(judge, facts, row, cached, tokens)
    covered = paged[: min(cached // judge.size, possible)]
    judge.tree = unseen.known(judge, judge.tree, covered, pages_in_order(row, judge.size))
    if cached < cap:
        judge.tree = unseen.gone(judge, judge.tree, paged[len(covered) :])
    at = covered[-1] if covered else judge.names.root(key.namespace)
    judge.requests[rid] = Running(key, names, row, cached, at)
    tree = trees.touch(judge.tree, covered, hits=int(judge.profile.hit_counts == "match"))
    tree = trees.lock(trees.split(tree, at, renews=judge.renews) if covered else tree, at)
    unseen.unsure(judge, tree, len(pages_of(row[cached:], judge.size)))
    tree = unseen.taken(judge, tree, pages_of(row[cached:], judge.size))
    _finish_shared(judge, "begin", facts, tree, row, paged[: cached // judge.size])
    return True


def grow(judge: Judge, rid: int, tokens: Sequence[int]) -> bool:
    """Grow a request by further tokens; ``False`` when refused."""
    running = judge.requests[rid]
    answer = judge.call(f"grow({rid}, {list(tokens)})", "grow", rid, list(tokens))
    if answer is None:
        judge.trail[-1] += " → None"
        unseen.unsure(judge, judge.tree)
        judge.finish("refused_grow", {}, judge.tree)
        return False
    new = judge.slots(answer)
    row, before = running.row + new, running.row
    key = running.key._replace(tokens=running.key.tokens + tuple(tokens))
    names = judge.names_of(key)
    all_names = judge.token_names(key, names)
    written = max(0, len(before) - 1) if key.bigram else len(before)
    judge.write(row[written : len(all_names)], all_names[written : len(row)])
    opened = (
        pages_of(new, judge.size) - pages_of(before[-1:], judge.size)
        if len(before) % judge.size
        else pages_of(new, judge.size)
    )
    judge.own([Slot(page * judge.size) for page in opened])
    running.key, running.names, running.row = key, names, row
    facts: dict[str, Any] = {
        "row_before": before,
        "last_slot": before[-1] if before else -1,
        "new_slots": new,
        "granted_pages": opened,
    }
    _row_facts(judge, facts, row, running.cached, all_names)
    unseen.unsure(judge, judge.tree, len(opened))
    judge.finish("grow", facts, unseen.taken(judge, judge.tree, opened))
    return True


def publish(judge: Judge, rid: int, *, chunked: bool, grouped: bool = False) -> None:
    """Publish what a request has computed so far; ``grouped`` in a free group, as schedulers do for a whole batch."""
    running = judge.requests[rid]
    size = judge.size
    before, own = running.row, running.row[running.cached :]
    paged = page_names(running.names, size)
    if grouped:
        judge.call("free_group_begin()", "free_group_begin")
    row, cached = _begun(judge, judge.call(f"publish({rid}, chunked={chunked})", "publish", rid, chunked=chunked))
    if grouped:
        judge.call("free_group_end()", "free_group_end")
    whole = len(paged) * size
    facts: dict[str, Any] = {
        "row_before": before,
        "key_length": len(running.names),
        "certain_length": whole,
        "request_pages": pages_of(own, size),
    }
    _row_facts(judge, facts, row, cached, judge.token_names(running.key, running.names))
    tree = _stored_tree(judge, running, paged, chunked=chunked)
    judge.inserted(() if chunked else paged)
    judge.disown(own)
    judge.own(row[cached:])
    at = paged[-1] if paged else judge.names.root(running.key.namespace)
    tree = trees.lock(trees.lock(tree, at), running.locked, -1)
    running.row, running.cached, running.locked = row, cached, at
    tree = unseen.known(judge, tree, paged, pages_in_order(row, size))
    _finish_shared(judge, "publish", facts, tree, row, paged[: cached // size])


def end(judge: Judge, rid: int, *, keep: bool) -> None:
    """Finish a request (``keep``), or abort or retract it."""
    running = judge.requests[rid]
    own = running.row[running.cached :]
    paged = page_names(running.names, judge.size) if keep else ()
    missing = [name for name in paged if name not in judge.tree.pages]
    offered = dict(zip(paged, _offered(judge, running, paged), strict=True))
    judge.call(f"end({rid}, keep={keep})", "end", rid, keep=keep)
    del judge.requests[rid]
    judge.disown(own)
    facts = {"request_pages": pages_of(own, judge.size), "missing_before": missing, "offered": offered}
    tree = _stored_tree(judge, running, paged, chunked=False) if keep else judge.tree
    judge.inserted(paged)
    doubtful = [name for name in paged if name in judge.maybe]
    tree = unseen.known(judge, tree, doubtful, [unseen.SOMEWHERE] * len(doubtful))
    judge.finish("end+finish" if keep else "end+abort", facts, trees.lock(tree, running.locked, -1))


def _stored_tree(judge: Judge, running: Running, paged: Sequence[Name], *, chunked: bool) -> trees.Tree:
    """The model after the request's whole pages were inserted."""
    offered = _offered(judge, running, paged)
    counts = judge.profile.hit_counts == "insert" and not chunked
    return trees.insert(
        judge.tree, judge.names.root(running.key.namespace), paged, offered, counts=counts, renews=judge.renews
    )[0]


def _offered(judge: Judge, running: Running, paged: Sequence[Name]) -> list[PageNo]:
    """The request's page for each whole page of its key; no page (-1) where its row is too short."""
    size, row = judge.size, running.row
    return [PageNo(row[at * size] // size if at * size < len(row) else -1) for at in range(len(paged))]


def _row_facts(
    judge: Judge, facts: dict[str, Any], row: tuple[Slot, ...], cached: int, tokens: tuple[Name, ...]
) -> None:
    """What the request's slots hold, beside what they should."""
    facts.update(row=row, row_cached=cached, row_names=judge.read(row), request_names=tokens)


def _finish_shared(
    judge: Judge, kinds: str, facts: dict[str, Any], tree: trees.Tree, row: Sequence[Slot], shared: Sequence[Name]
) -> None:
    """Finish a call after which the request shares pages with the tree."""

    def shared_as_cached(after: Observation, facts: dict[str, Any]) -> None:
        size = judge.size
        facts["unreachable_names"] = [
            name
            for at, name in enumerate(shared)
            if at * size >= len(row) or after.cached.get(name) != row[at * size] // size
        ]

    judge.finish(kinds, facts, tree, shared_as_cached)


def _touched_if_seen(judge: Judge, names: Sequence[Name]) -> trees.Tree:
    """A refused beginning has matched already: the match is a use."""
    tree = trees.touch(judge.tree, names, hits=int(judge.profile.hit_counts == "match"))
    return trees.split(tree, names[-1], renews=judge.renews) if names else tree


def _begun(judge: Judge, answer: object) -> tuple[tuple[Slot, ...], int]:
    """The answer of begin and publish, in the promised form."""
    listed, covered = judge.fields(answer, 2, "Begun(row, cached)")
    row = judge.slots(listed)
    cached = judge.count(covered, "the cached slots of the row")
    judge.trail[-1] += f", {cached} cached"
    return row, cached
