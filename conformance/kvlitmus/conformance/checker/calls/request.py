"""Calls on requests: begin, grow, publish, end; and what is computed in between, of which the cache hears nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from kvlitmus.conformance.checker import partial
from kvlitmus.conformance.checker.calls.text import key_text
from kvlitmus.conformance.checker.checker import Running
from kvlitmus.conformance.checker.observation import Observation
from kvlitmus.reference import tree as trees
from kvlitmus.spec.names import page_names
from kvlitmus.spec.units import Key, Name, PageNo, Slot, pages_in_order, pages_of

if TYPE_CHECKING:
    from kvlitmus.conformance.checker.checker import Checker


def begin(checker: Checker, rid: int, key: Key, *, ahead: bool = False) -> bool:
    """Begin a request; ``False`` when the cache refuses for want of memory.

    What isn't cached is computed at once; or, if its slots are taken ``ahead``, by later calls of :func:`compute`.
    """
    names = checker.names_of(key)
    paged = page_names(names, checker.size)
    cap = checker.cap(len(names))
    certain, possible = checker.cached_range(paged)
    held = frozenset(checker.owners)
    answer = checker.call(f"begin({rid}, {key_text(key)})", "begin", rid, key)
    if answer is None:
        checker.history[-1] += " → None"
        partial.unsure(checker, checker.tree)
        checker.finish("refused_begin", {}, _touched_if_seen(checker, paged[: min(certain, cap // checker.size)]))
        return False
    row, cached = _begun(checker, answer)
    tokens = checker.token_names(key, names)
    found = checker.read(row[:cached])
    computed = min(cached, len(row)) if ahead else len(row)
    checker.write(row[cached:computed][: len(tokens)], tokens[cached:computed])
    checker.own(row[cached:])
    facts: dict[str, Any] = {
        "key_length": len(names),
        "key_names": names,
        "match_length": cached,
        "match_cap": cap,
        "match_slots": row[:cached],
        "found_names": found,
        "certain_length": min(certain * checker.size, cap),
        "possible_length": min(possible * checker.size, cap),
        "held_before": held,
        "granted_pages": pages_of(row[cached:], checker.size),
    }
    _row_facts(checker, facts, row, cached, tokens, computed if ahead else None)
    covered = paged[: min(cached // checker.size, possible)]
    checker.tree = partial.known(checker, checker.tree, covered, pages_in_order(row, checker.size))
    if cached < cap:
        checker.tree = partial.gone(checker, checker.tree, paged[len(covered) :])
    at = covered[-1] if covered else checker.names.root(key.namespace)
    running = checker.requests[rid] = Running(key, names, row, cached, at)
    running.computed = computed
    tree = trees.touch(checker.tree, covered, hits=int(checker.profile.hit_counts == "match"))
    tree = trees.lock(trees.split(tree, at, renews=checker.renews) if covered else tree, at)
    partial.unsure(checker, tree, len(pages_of(row[cached:], checker.size)))
    tree = partial.taken(checker, tree, pages_of(row[cached:], checker.size))
    _finish_shared(checker, "begin", facts, tree, row, paged[: cached // checker.size])
    return True


def grow(checker: Checker, rid: int, tokens: Sequence[int]) -> bool:
    """Grow a request by further tokens; ``False`` when refused."""
    running = checker.requests[rid]
    answer = checker.call(f"grow({rid}, {list(tokens)})", "grow", rid, list(tokens))
    if answer is None:
        checker.history[-1] += " → None"
        partial.unsure(checker, checker.tree)
        checker.finish("refused_grow", {}, checker.tree)
        return False
    new = checker.slots(answer)
    row, before = running.row + new, running.row
    key = running.key._replace(tokens=running.key.tokens + tuple(tokens))
    names = checker.names_of(key)
    all_names = checker.token_names(key, names)
    upto = running.upto
    if upto is None:
        written = max(0, len(before) - 1) if key.bigram else len(before)
        checker.write(row[written : len(all_names)], all_names[written : len(row)])
        running.computed = len(row)
    opened = (
        pages_of(new, checker.size) - pages_of(before[-1:], checker.size)
        if len(before) % checker.size
        else pages_of(new, checker.size)
    )
    checker.own([Slot(page * checker.size) for page in opened])
    running.key, running.names, running.row = key, names, row
    facts: dict[str, Any] = {
        "row_before": before,
        "last_slot": before[-1] if before else -1,
        "new_slots": new,
        "granted_pages": opened,
    }
    _row_facts(checker, facts, row, running.cached, all_names, upto)
    partial.unsure(checker, checker.tree, len(opened))
    checker.finish("grow", facts, partial.taken(checker, checker.tree, opened))
    return True


def compute(checker: Checker, rid: int, units: int) -> None:
    """Compute the next slots of a request that took them ahead; the cache isn't told."""
    running = checker.requests[rid]
    start, end = running.computed, min(running.computed + units, len(running.row))
    tokens = checker.token_names(running.key, running.names)
    checker.write(running.row[start:end][: len(tokens)], tokens[start:end])
    running.computed = end


def publish(checker: Checker, rid: int, *, chunked: bool, grouped: bool = False, upto: int | None = None) -> None:
    """Publish what a request has computed so far; ``grouped`` in a free group, as schedulers do for a whole batch.

    ``upto``: how many units that is, where it isn't all of the request.
    """
    running = checker.requests[rid]
    size = checker.size
    before, own = running.row, running.row[running.cached :]
    paged = page_names(running.names[:upto], size)
    if grouped:
        checker.call("free_group_begin()", "free_group_begin")
    if upto is None:
        answer = checker.call(f"publish({rid}, chunked={chunked})", "publish", rid, chunked=chunked)
    else:
        text = f"publish_upto({rid}, {upto}, chunked={chunked})"
        answer = checker.call(text, "publish_upto", rid, upto, chunked=chunked)
    row, cached = _begun(checker, answer)
    if grouped:
        checker.call("free_group_end()", "free_group_end")
    facts: dict[str, Any] = {"row_before": before, "request_pages": pages_of(own, size)}
    if upto is None:
        facts["key_length"], facts["certain_length"] = len(running.names), len(paged) * size
    else:
        _part_facts(checker, facts, running, paged, upto)
    _row_facts(checker, facts, row, cached, checker.token_names(running.key, running.names), upto)
    tree = _stored_tree(checker, running, paged, chunked=chunked)
    checker.inserted(() if chunked else paged)
    checker.disown(own)
    checker.own(row[cached:])
    at = paged[-1] if paged else checker.names.root(running.key.namespace)
    tree = trees.lock(trees.lock(tree, at), running.locked, -1)
    running.row, running.cached, running.locked = row, cached, at
    tree = partial.known(checker, tree, paged, pages_in_order(row, size))
    kinds = "publish" if upto is None else "publish+publish_upto"
    _finish_shared(checker, kinds, facts, tree, row, paged[: cached // size])


def end(checker: Checker, rid: int, *, keep: bool, upto: int | None = None) -> None:
    """Finish a request (``keep``), or abort or retract it; ``upto``: how many units of it are computed, if not all."""
    running = checker.requests[rid]
    own = running.row[running.cached :]
    paged = page_names(running.names[:upto], checker.size) if keep else ()
    missing = [name for name in paged if name not in checker.tree.pages]
    offered = dict(zip(paged, _offered(checker, running, paged), strict=True))
    kinds = "end+finish" if keep else "end+abort"
    facts: dict[str, Any] = {
        "request_pages": pages_of(own, checker.size),
        "missing_before": missing,
        "offered": offered,
    }
    if keep and upto is not None:
        kinds += "+end_upto"
        checker.call(f"end_upto({rid}, {upto})", "end_upto", rid, upto)
        _part_facts(checker, facts, running, paged, upto)
    else:
        checker.call(f"end({rid}, keep={keep})", "end", rid, keep=keep)
    del checker.requests[rid]
    checker.disown(own)
    tree = _stored_tree(checker, running, paged, chunked=False) if keep else checker.tree
    checker.inserted(paged)
    doubtful = [name for name in paged if name in checker.maybe]
    tree = partial.known(checker, tree, doubtful, [partial.SOMEWHERE] * len(doubtful))
    checker.finish(kinds, facts, trees.lock(tree, running.locked, -1))


def _stored_tree(checker: Checker, running: Running, paged: Sequence[Name], *, chunked: bool) -> trees.Tree:
    """The model after the request's whole pages were inserted."""
    offered = _offered(checker, running, paged)
    counts = checker.profile.hit_counts == "insert" and not chunked
    return trees.insert(
        checker.tree, checker.names.root(running.key.namespace), paged, offered, counts=counts, renews=checker.renews
    )[0]


def _offered(checker: Checker, running: Running, paged: Sequence[Name]) -> list[PageNo]:
    """The request's page for each whole page of its key; no page (-1) where its row is too short."""
    size, row = checker.size, running.row
    return [PageNo(row[at * size] // size if at * size < len(row) else -1) for at in range(len(paged))]


def _row_facts(
    checker: Checker,
    facts: dict[str, Any],
    row: tuple[Slot, ...],
    cached: int,
    tokens: tuple[Name, ...],
    upto: int | None,
) -> None:
    """What the request's slots hold, beside what they should; ``upto`` there, where not everything is computed."""
    facts.update(row=row, row_cached=cached, row_names=checker.read(row[:upto]))
    facts.update(request_names=tokens, computed_names=tokens[:upto])


def _part_facts(checker: Checker, facts: dict[str, Any], running: Running, paged: Sequence[Name], upto: int) -> None:
    """How much of a request is computed, and in which of its own pages not every slot is."""
    facts["computed_length"] = min(upto, len(running.names))
    facts["uncomputed_pages"] = pages_of(running.row[max(running.cached, len(paged) * checker.size) :], checker.size)


def _finish_shared(
    checker: Checker, kinds: str, facts: dict[str, Any], tree: trees.Tree, row: Sequence[Slot], shared: Sequence[Name]
) -> None:
    """Finish a call after which the request shares pages with the tree."""

    def shared_as_cached(after: Observation, facts: dict[str, Any]) -> None:
        size = checker.size
        facts["unreachable_names"] = [
            name
            for at, name in enumerate(shared)
            if at * size >= len(row) or after.cached.get(name) != row[at * size] // size
        ]

    checker.finish(kinds, facts, tree, shared_as_cached)


def _touched_if_seen(checker: Checker, names: Sequence[Name]) -> trees.Tree:
    """A refused beginning has matched already: the match is a use."""
    tree = trees.touch(checker.tree, names, hits=int(checker.profile.hit_counts == "match"))
    return trees.split(tree, names[-1], renews=checker.renews) if names else tree


def _begun(checker: Checker, answer: object) -> tuple[tuple[Slot, ...], int]:
    """The answer of begin and publish, in the promised form."""
    listed, covered = checker.fields(answer, 2, "Begun(row, cached)")
    row = checker.slots(listed)
    cached = checker.count(covered, "the cached slots of the row")
    checker.history[-1] += f", {cached} cached"
    return row, cached
