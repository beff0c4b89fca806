"""Calls on requests: begin, grow, publish, end; and what is computed in between, of which the cache hears nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from kvlitmus.conformance.checker import partial as unseen
from kvlitmus.conformance.checker.calls.text import key_text
from kvlitmus.conformance.checker.checker import Running
from kvlitmus.conformance.checker.observation import Observation
from kvlitmus.reference import tree as trees
from kvlitmus.spec.names import page_names
from kvlitmus.spec.units import Key, Name, PageNo, Slot, pages_in_order, pages_of

if TYPE_CHECKING:
    from kvlitmus.conformance.checker.checker import Judge


def begin(judge: Judge, rid: int, key: Key, *, ahead: bool = False) -> bool:
    """Begin a request; ``False`` when the cache refuses for want of memory.

    What isn't cached is computed at once; or, if its slots are taken ``ahead``, by later calls of :func:`compute`.
    """
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
    computed = min(cached, len(row)) if ahead else len(row)
    judge.write(row[cached:computed][: len(tokens)], tokens[cached:computed])
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
    _row_facts(judge, facts, row, cached, tokens, computed if ahead else None)
    covered = paged[: min(cached // judge.size, possible)]
    judge.tree = unseen.known(judge, judge.tree, covered, pages_in_order(row, judge.size))
    if cached < cap:
        judge.tree = unseen.gone(judge, judge.tree, paged[len(covered) :])
    at = covered[-1] if covered else judge.names.root(key.namespace)
    running = judge.requests[rid] = Running(key, names, row, cached, at)
    running.computed = computed
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
    upto = running.upto
    if upto is None:
        written = max(0, len(before) - 1) if key.bigram else len(before)
        judge.write(row[written : len(all_names)], all_names[written : len(row)])
        running.computed = len(row)
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
    _row_facts(judge, facts, row, running.cached, all_names, upto)
    unseen.unsure(judge, judge.tree, len(opened))
    judge.finish("grow", facts, unseen.taken(judge, judge.tree, opened))
    return True


def compute(judge: Judge, rid: int, units: int) -> None:
    """Compute the next slots of a request that took them ahead; the cache isn't told."""
    running = judge.requests[rid]
    start, end = running.computed, min(running.computed + units, len(running.row))
    tokens = judge.token_names(running.key, running.names)
    judge.write(running.row[start:end][: len(tokens)], tokens[start:end])
    running.computed = end


def publish(judge: Judge, rid: int, *, chunked: bool, grouped: bool = False, upto: int | None = None) -> None:
    """Publish what a request has computed so far; ``grouped`` in a free group, as schedulers do for a whole batch.

    ``upto``: how many units that is, where it isn't all of the request.
    """
    running = judge.requests[rid]
    size = judge.size
    before, own = running.row, running.row[running.cached :]
    paged = page_names(running.names[:upto], size)
    if grouped:
        judge.call("free_group_begin()", "free_group_begin")
    if upto is None:
        answer = judge.call(f"publish({rid}, chunked={chunked})", "publish", rid, chunked=chunked)
    else:
        text = f"publish_upto({rid}, {upto}, chunked={chunked})"
        answer = judge.call(text, "publish_upto", rid, upto, chunked=chunked)
    row, cached = _begun(judge, answer)
    if grouped:
        judge.call("free_group_end()", "free_group_end")
    facts: dict[str, Any] = {"row_before": before, "request_pages": pages_of(own, size)}
    if upto is None:
        facts["key_length"], facts["certain_length"] = len(running.names), len(paged) * size
    else:
        _part_facts(judge, facts, running, paged, upto)
    _row_facts(judge, facts, row, cached, judge.token_names(running.key, running.names), upto)
    tree = _stored_tree(judge, running, paged, chunked=chunked)
    judge.inserted(() if chunked else paged)
    judge.disown(own)
    judge.own(row[cached:])
    at = paged[-1] if paged else judge.names.root(running.key.namespace)
    tree = trees.lock(trees.lock(tree, at), running.locked, -1)
    running.row, running.cached, running.locked = row, cached, at
    tree = unseen.known(judge, tree, paged, pages_in_order(row, size))
    kinds = "publish" if upto is None else "publish+publish_upto"
    _finish_shared(judge, kinds, facts, tree, row, paged[: cached // size])


def end(judge: Judge, rid: int, *, keep: bool, upto: int | None = None) -> None:
    """Finish a request (``keep``), or abort or retract it; ``upto``: how many units of it are computed, if not all."""
    running = judge.requests[rid]
    own = running.row[running.cached :]
    paged = page_names(running.names[:upto], judge.size) if keep else ()
    missing = [name for name in paged if name not in judge.tree.pages]
    offered = dict(zip(paged, _offered(judge, running, paged), strict=True))
    kinds = "end+finish" if keep else "end+abort"
    facts: dict[str, Any] = {
        "request_pages": pages_of(own, judge.size),
        "missing_before": missing,
        "offered": offered,
    }
    if keep and upto is not None:
        kinds += "+end_upto"
        judge.call(f"end_upto({rid}, {upto})", "end_upto", rid, upto)
        _part_facts(judge, facts, running, paged, upto)
    else:
        judge.call(f"end({rid}, keep={keep})", "end", rid, keep=keep)
    del judge.requests[rid]
    judge.disown(own)
    tree = _stored_tree(judge, running, paged, chunked=False) if keep else judge.tree
    judge.inserted(paged)
    doubtful = [name for name in paged if name in judge.maybe]
    tree = unseen.known(judge, tree, doubtful, [unseen.SOMEWHERE] * len(doubtful))
    judge.finish(kinds, facts, trees.lock(tree, running.locked, -1))


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
    judge: Judge, facts: dict[str, Any], row: tuple[Slot, ...], cached: int, tokens: tuple[Name, ...], upto: int | None
) -> None:
    """What the request's slots hold, beside what they should; ``upto`` there, where not everything is computed."""
    facts.update(row=row, row_cached=cached, row_names=judge.read(row[:upto]))
    facts.update(request_names=tokens, computed_names=tokens[:upto])


def _part_facts(judge: Judge, facts: dict[str, Any], running: Running, paged: Sequence[Name], upto: int) -> None:
    """How much of a request is computed, and in which of its own pages not every slot is."""
    facts["computed_length"] = min(upto, len(running.names))
    facts["uncomputed_pages"] = pages_of(running.row[max(running.cached, len(paged) * judge.size) :], judge.size)


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
