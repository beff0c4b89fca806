"""A correct cache may choose: the judge accepts every legal choice and no other.

In every state of a small cache, every set of victims is tried for every eviction, and every set
of pages for every allocation and every request.  What is legal is worked out here once more, by
trying all orders, and not by the code that judges.
"""

from __future__ import annotations

import functools
import itertools
from collections import Counter
from collections.abc import Callable, Iterator

import pytest

from kvlitmus.conformance.checker.calls.prefix import pool, request, tree
from kvlitmus.conformance.checker.guard import Violation
from kvlitmus.reference.prefix import choose, perform
from kvlitmus.reference.prefix.perform import Choice
from kvlitmus.spec.prefix.effects import leaves
from kvlitmus.spec.prefix.state import Tier
from kvlitmus.spec.words.policies import POLICIES
from kvlitmus.spec.words.units import Key, Name, PageNo
from tests.proofs.support.explore import Explorer, Scope, State

pytestmark = pytest.mark.proof

SCOPES = {
    "lru": Scope(misuse=False, loans=1, receipts=1, requests=1),
    "fifo": Scope(policy="fifo", misuse=False, loans=1, requests=0),
    "slru": Scope(policy="slru", alphabet=(1,), misuse=False, loans=1, requests=0),
    "priority": Scope(policy="priority", misuse=False, loans=1, requests=0, receipts=0),
}


@functools.cache
def explored(name: str) -> Explorer:
    """A search that has seen every state of its scope."""
    search = Explorer(SCOPES[name])
    assert search.run().complete
    return search


def accepted(search: Explorer, state: State, choice: Choice, call: Callable[[], object]) -> bool:
    """Whether the judge accepts a call in a state when the cache chooses so; the reference itself must say the same."""
    found = []
    for refuse in (lambda text: None, choose.refuse):
        search.restore(state, None)
        search.checker.before = search.checker.observe_now()
        search.adapter.choice = choice
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(choose, "refuse", refuse)
            patch.setattr(perform, "refuse", refuse)
            try:
                call()
            except Violation:
                found.append(False)
            else:
                found.append(True)
    assert found[0] == found[1], (state, choice, search.checker.history)
    return found[0]


def legal_victims(tree_now: Tier, wanted: int, policy: str) -> set[frozenset[Name]]:
    """All sets of victims: always a least valuable unlocked leaf, until enough are gone or none is left."""
    pages = dict(tree_now.pages)
    candidates = [name for name in leaves(tree_now) if not pages[name].locks]
    if wanted <= 0 or not candidates:
        return {frozenset()}
    least = min(POLICIES[policy](pages[name]) for name in candidates)
    found = set()
    for name in candidates:
        if POLICIES[policy](pages[name]) == least:
            rest = Tier({other: page for other, page in pages.items() if other != name}, tree_now.clock, tree_now.doubt)
            found |= {victims | {name} for victims in legal_victims(rest, wanted - 1, policy)}
    return found


def subsets(of: Iterator[int] | tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """All subsets."""
    everything = tuple(of)
    return itertools.chain.from_iterable(
        itertools.combinations(everything, many) for many in range(len(everything) + 1)
    )


@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.nightly] * (name == "lru")) for name in SCOPES])
def test_the_judge_accepts_exactly_the_legal_victims(name: str) -> None:
    search = explored(name)
    tally: Counter[bool] = Counter()
    for state in search.states:
        pages = tuple(state.known.device.pages)
        for wanted in range(1, search.scope.pages + 1):
            legal = legal_victims(state.known.device, wanted, search.scope.policy)
            for victims in subsets(pages):
                choice = Choice(victims=tuple(map(Name, victims)))
                seen = accepted(search, state, choice, lambda n=wanted: tree.evict(search.checker, n))  # type: ignore[misc]
                assert seen == (frozenset(victims) in legal), (state, wanted, victims, legal, search.checker.history)
                tally[seen] += 1
    print(f"{name}: {len(search.states):,} states, {tally[True]:,} choices accepted, {tally[False]:,} refused")
    assert tally[True] > 50 and tally[False] > 50


@pytest.mark.nightly
def test_the_judge_accepts_exactly_the_free_pages() -> None:
    search = explored("lru")
    checker, usable = search.checker, tuple(range(1, search.scope.pages + 1))
    tally: Counter[bool] = Counter()
    for state in search.states[::2]:
        free = search.free(state)
        for asked in range(1, len(free) + 1):
            for pages in subsets(usable):
                legal = len(pages) == asked and free.issuperset(pages)
                choice = Choice(pages=tuple(map(PageNo, pages)))
                seen = accepted(search, state, choice, lambda n=asked: pool.alloc(checker, n))  # type: ignore[misc]
                assert seen == legal, (state, asked, pages, checker.history)
                tally[seen] += 1
    print(f"alloc: {len(search.states):,} states, {tally[True]:,} choices accepted, {tally[False]:,} refused")
    assert tally[True] > 50 and tally[False] > 50


@pytest.mark.nightly
def test_the_judge_accepts_exactly_the_free_pages_for_a_request() -> None:
    search = explored("lru")
    checker, usable = search.checker, tuple(range(1, search.scope.pages + 1))
    tally: Counter[bool] = Counter()
    for state in search.states:
        if state.known.requests:
            continue
        for key in search.keys:
            rows = legal_rows(search, state, key)
            if rows is None:
                continue
            opened, legal = rows
            for pages in itertools.combinations(usable, opened):
                choice = Choice(pages=tuple(map(PageNo, pages)))
                seen = accepted(search, state, choice, lambda key=key: request.begin(checker, 1, key))  # type: ignore[misc]
                assert seen == (frozenset(pages) in legal), (state, key, pages, checker.history)
                tally[seen] += 1
    print(f"begin: {len(search.states):,} states, {tally[True]:,} choices accepted, {tally[False]:,} refused")
    assert tally[True] > 50 and tally[False] > 50


def legal_rows(search: Explorer, state: State, key: Key) -> tuple[int, set[frozenset[int]]] | None:
    """How many pages a request opens, and the sets of them: free after room was made; ``None`` where it is refused."""
    search.restore(state, None)
    search.checker.before = search.checker.observe_now()
    if not request.begin(search.checker, 1, key):
        return None
    before = {page.page for page in state.known.device.pages.values()}
    after = {page.page for page in search.adapter.state.device.pages.values()}
    row = search.checker.requests[1]
    opened = len(row.row) - row.cached
    roomy = search.free(state) | (before - after)
    return opened, {frozenset(pages) for pages in itertools.combinations(sorted(roomy), opened)}
