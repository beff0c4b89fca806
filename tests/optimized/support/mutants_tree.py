"""Mutants of pool, tree and locks."""

from __future__ import annotations

from typing import Any

import numpy as np

from kvlitmus.conformance.ports import Config
from tests.optimized.support.mutants import FLAT_PAGED, HITS, mutant, without
from tests.support.mutants import Original

# -- pool -----------------------------------------------------------------------------------------------------


@mutant(
    "refusal-keeps-pages", "pool:PagePool.take", like=("refusal-keeps-pages",), configs=(Config(page_size=4, pages=8),)
)
def refusal_keeps_pages(original: Original) -> Any:
    """An allocation that is refused has taken what there was."""

    def take(self: Any, count: int) -> Any:
        if count > self.free_count:
            original(self, self.free_count)
            return None
        return original(self, count)

    return take


@mutant(
    "short-is-success",
    "pool:PagePool.take",
    like=("short-is-success",),
    configs=(Config(page_size=4, pages=8),),
    more=("REQ-01", "REQ-02", "POOL-07", "POOL-08"),
)
def short_is_success(original: Original) -> Any:
    """An allocation takes what there is, and says that it succeeded."""

    def take(self: Any, count: int) -> Any:
        return original(self, min(count, self.free_count))

    return take


@mutant("page-number-as-slot", "pool:PagePool.slots", like=("page-number-as-slot",), configs=FLAT_PAGED)
def page_number_as_slot(original: Original) -> Any:
    """A page number is handed out where a slot is meant."""

    def slots(self: Any, pages: Any) -> Any:
        return original(self, pages) // self.page_size if self.page_size > 1 else original(self, pages)

    return slots


@mutant("group-does-not-wait", "pool:PagePool.group_begin", like=("group-does-not-wait",))
def group_does_not_wait(original: Original) -> Any:
    """Frees in a group take effect at once."""
    return lambda self: None


@mutant("misuse-is-swallowed", "pool:PagePool.give_back", like=("misuse-is-swallowed", "duplicates-in-one-free"))
def misuse_is_swallowed(original: Original) -> Any:
    """A page that is freed twice in bulk is ignored without a word."""

    def give_back(self: Any, pages: Any) -> None:
        try:
            original(self, pages)
        except ValueError:
            return

    return give_back


# -- tree -----------------------------------------------------------------------------------------------------


@mutant("keys-from-tokens-only", "paths:Paths.root", like=("keys-from-tokens-only",))
def keys_from_tokens_only(original: Original) -> Any:
    """The namespace is no part of what is looked up."""
    return lambda self, namespace: original(self, None)


@mutant("salt-cut-short", "paths:Paths.root", like=("salt-cut-short",))
def salt_cut_short(original: Original) -> Any:
    """Of a namespace only the beginning is kept: two tenants meet."""
    return lambda self, namespace: original(self, namespace and namespace[:6])


@mutant("first-token-of-a-run-tells", "paths:common", like=("weak-hash-without-comparison",))
def first_token_tells(original: Original) -> Any:
    """A match trusts the first token of a branch: the others are not compared."""

    def common(one: Any, start: int, end: int, other: Any, at: int) -> int:
        length = min(end - start, len(other) - at)
        return length if length and one[start] == other[at] else int(original(one, start, end, other, at))

    return common


@mutant(
    "child-by-its-first-token",
    "branch:Branch.key",
    "tree:Tree._hang",
    "paths:Paths.walk",
    like=("weak-hash-without-comparison",),
    configs=(Config(page_size=4),),
)
def child_by_its_first_token(original: Original) -> Any:
    """A branch is found by the first token of its first page instead of by all of them."""
    name = original.__name__

    def cut(units: Any, size: int) -> Any:
        found = units.copy()
        for start in range(0, len(found), size):
            found[start + 1 : start + size] = found[start]
        return found

    def key(self: Any, page_size: int) -> Any:
        return self.at, cut(self.units[:page_size], page_size).tobytes()

    def hang(self: Any, branch: Any, units: Any, **how: Any) -> Any:
        return original(self, branch, cut(units[: self.page_size], self.page_size), **how)

    def walk(self: Any, branch: Any, end: int, units: Any) -> Any:
        at = 0
        while True:
            before = branch, end
            children, branch.children = branch.children, None
            branch, end = original(self, branch, end, units[at:])
            before[0].children = children
            at += (branch.base + end - before[0].base - before[1]) * self.page_size
            first = units[at : at + self.page_size]
            child = None
            if branch.children is not None and len(first) == self.page_size:
                child = branch.children.get((end, cut(first, self.page_size).tobytes()))
            if child is None:
                return branch, end
            branch, end = child, 1
            at += self.page_size

    return {"key": key, "_hang": hang, "walk": walk}[name]


@mutant("memo-of-matches", "tree:Tree.match", like=("memo-of-matches",), more=("PORT-01",))
def memo_of_matches(original: Original) -> Any:
    """What a key once matched is remembered, and believed as long as its place has pages."""

    def match(self: Any, namespace: Any, units: Any) -> Any:
        memo = self.__dict__.setdefault("memo", {})
        known = memo.get((namespace, units.tobytes()))
        if known is not None and known.place.end <= known.place.branch.n and known.resident:
            self.clock += 1
            return known
        found = memo[namespace, units.tobytes()] = original(self, namespace, units)
        return found

    return match


@mutant("reset-keeps-the-tree", "cache:FlatCache.plant", like=("weights-change-cache-stays",))
def reset_keeps_the_tree(original: Original) -> Any:
    """After new weights the cache still has the KV of the old ones."""

    def plant(self: Any, tree: Any) -> None:
        original(self, self.tree if hasattr(self, "tree") else tree)

    return plant


@mutant("hits-never-counted", "levels:Nodes.count", like=("hits-never-counted",), configs=HITS)
def hits_never_counted(original: Original) -> Any:
    """No use is counted."""
    return lambda self, start, end: None


@mutant("chunks-count-as-hits", "tree:Tree._count", like=("chunks-count-as-hits",), configs=HITS)
def chunks_count_as_hits(original: Original) -> Any:
    """What one long prompt used chunk by chunk looks popular."""

    def count(self: Any, branch: Any, end: int, already: int, priority: int, counts: bool) -> None:
        original(self, branch, end, already, priority, True)

    return count


@mutant(
    "retreat-forgets-hits", "levels:Nodes.trim", like=("split-forgets-priority", "hits-never-counted"), configs=HITS
)
def retreat_forgets_hits(original: Original) -> Any:
    """When the tip of a branch goes, the hits that were counted up to there go with it."""

    def trim(self: Any, end: int) -> None:
        before = len(self.counts)
        total = sum(self.counts[len(self.counts) - 1 :])
        original(self, end)
        if len(self.counts) < before:
            self.counts[-1] -= total

    return trim


@mutant(
    "priority-never-raised",
    "levels:raise_prefix",
    like=("split-forgets-priority",),
    configs=(Config(page_size=4, policy="priority"),),
)
def priority_never_raised(original: Original) -> Any:
    """What was marked as important later stays as unimportant as it was."""
    return lambda level, end, value, n: level


@mutant("match-touches-the-rest", "tree:Tree._touch", like=("split-renews-the-rest",))
def match_touches_the_rest(original: Original) -> Any:
    """A match of the beginning renews the whole branch: LRU keeps what nobody asked for."""

    def touch(self: Any, branch: Any, end: int) -> None:
        original(self, branch, end)
        original(self, branch, branch.n)

    return touch


@mutant(
    "bigrams-of-single-tokens",
    "hashing:pack_bigrams",
    "cache:pack_bigrams",
    "request:pack_bigrams",
    like=("single-tokens-in-speculative-mode", "hash-tokens-for-bigrams"),
    configs=(Config(page_size=4, bigram=True), Config(page_size=1, bigram=True)),
)
def bigrams_of_single_tokens(original: Original) -> Any:
    """The second token of a bigram is forgotten."""
    return lambda tokens: original(tokens) & np.int64(-1 << 32)


# -- locks ----------------------------------------------------------------------------------------------------


@mutant(
    "lock-moves-no-counters",
    "tree:Tree.lock",
    "tree:Tree.unlock",
    like=("locked-yet-evictable", "parent-leaves-the-counter"),
)
def lock_moves_no_counters(original: Original) -> Any:
    """Locked pages are counted as evictable."""

    def call(self: Any, place: Any) -> None:
        sizes = self.evictable, self.protected
        original(self, place)
        self.evictable, self.protected = sizes

    return call


@mutant(
    "lock-stays-in-its-branch",
    "tree:Tree.lock",
    "tree:Tree.unlock",
    like=("split-forgets-locks", "early-release-of-the-rest"),
)
def lock_stays_in_its_branch(original: Original) -> Any:
    """A lock protects the branch that it is on, and not those above it."""

    def call(self: Any, place: Any) -> None:
        parent = place.branch.parent
        if parent is None or parent.parent is None:
            original(self, place)
            return
        above = parent.parent
        parent.parent = None
        try:
            original(self, place)
        finally:
            parent.parent = above

    return call


@mutant("one-lock-for-all", "tree:Tree.lock", like=("two-owners-of-one-pin",), more=("LOCK-03", "PORT-01"))
def one_lock_for_all(original: Original) -> Any:
    """Two locks of one place are one, which the first unlock takes away."""

    def lock(self: Any, place: Any) -> None:
        if 2 * place.end + 1 not in (place.branch.locks or ()):
            original(self, place)

    return lock


@mutant(
    "unlock-takes-all",
    "tree:Tree.unlock",
    like=("early-release-of-the-rest", "two-owners-of-one-pin"),
    more=("LOCK-03", "LOCK-01"),
)
def unlock_takes_all(original: Original) -> Any:
    """An unlock takes all locks of the same place with it."""

    def unlock(self: Any, place: Any) -> None:
        if place.end == 0 or place.branch.locks is None:
            return
        while 2 * place.end + 1 in (place.branch.locks or ()):
            original(self, place)

    return unlock


@mutant("unlock-does-not-offer", "tree:Tree.unlock", like=("unpin-does-not-look-again",))
def unlock_does_not_offer(original: Original) -> Any:
    """What is unlocked doesn't come back to the heap of victims."""

    def unlock(self: Any, place: Any) -> None:
        with without(self.victims, "offer"):
            original(self, place)

    return unlock
