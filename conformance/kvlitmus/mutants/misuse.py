"""Misuse mutants: caches that say they reject what the contract forbids, and don't.

The pack ``misuse`` reaches them: forbidden calls are no part of ordinary schedules.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence

from kvlitmus.conformance.ports import Begun, Hit
from kvlitmus.conformance.ports.arrays import whole_numbers
from kvlitmus.conformance.specimen.flat import Receipt, Specimen
from kvlitmus.conformance.specimen.hierarchy import TieredSpecimen
from kvlitmus.conformance.specimen.prefix.pool import PagedPool
from kvlitmus.conformance.specimen.prefix.tree import Node
from kvlitmus.mutants.hosted import HOSTED
from kvlitmus.mutants.prefix.pool import BelievingPool
from kvlitmus.mutants.registry import PAGED, PLAIN, mutant
from kvlitmus.spec.interface import Outcome, Prefetched, Stored
from kvlitmus.spec.words.units import Key


@mutant(
    "double-free-makes-memory",
    bugs=("L01",),
    links=("https://github.com/LMCache/LMCache/issues/987", "https://github.com/LMCache/LMCache/pull/993"),
    kills=("MISUSE-01", "MISUSE-02", "MISUSE-03"),
)
class DoubleFreeMakesMemory(BelievingPool):
    """More is available than there is, and one page goes to two requests.

    Two paths free the same memory, and the pool puts on its free list whatever comes.
    """


@mutant(
    "duplicates-in-one-free",
    bugs=("D02",),
    links=("https://github.com/ai-dynamo/dynamo/pull/13398",),
    kills=("MISUSE-02", "MISUSE-03"),
)
class DuplicatesInOneFree(PagedPool):
    """The number of free blocks is too high after a free that names a block twice.

    The whole batch is looked at first and then queued, so the second naming finds the page still in use.
    """

    def give_back(self, pages: Sequence[int]) -> None:
        if any(self.is_free[page] for page in pages):
            raise ValueError(f"a page of {list(pages)} is not in use")
        for page in pages:
            self.is_free[page] = True
        (self.free_list if self.group is None else self.group).extend(pages)


@mutant(
    "part-of-a-page-frees-it",
    bugs=("S110",),
    links=("https://github.com/sgl-project/sglang/pull/31218",),
    kills=("MISUSE-02", "MISUSE-04"),
    configs=(PAGED,),
)
class PartOfAPageFreesIt(PagedPool):
    """Live tokens lose their page.

    What is counted in pages is treated as counted in tokens: any slot stands for its page.  Upstream: rows of a
    side buffer that are moved; here: slots that are freed.
    """

    def free(self, slots: Sequence[int]) -> None:
        self.give_back(list(dict.fromkeys(slot // self.page_size for slot in slots)))


@mutant(
    "lent-by-handle",
    bugs=("S28",),
    links=("https://github.com/sgl-project/sglang/pull/17191", "https://github.com/sgl-project/sglang/pull/20130"),
    kills=("MISUSE-05",),
)
class LentByHandle(PagedPool):
    """A caller that works on the sequence it was given changes the pool.

    What is free is whatever lies in none of the sequences handed out, and those are kept, not copied.
    """

    def __init__(self, pages: int, page_size: int, reserved: int) -> None:
        super().__init__(pages, page_size, reserved)
        self.lent: list[list[int]] = []

    def alloc(self, n: int) -> list[int] | None:
        """Lend, after a look at what others still have."""
        self.collect()
        slots = super().alloc(n)
        if slots:
            self.lent.append(slots)
        return slots

    def available(self) -> int:
        self.collect()
        return super().available()

    def give_back(self, pages: Sequence[int]) -> None:
        """Take the pages out of the sequences."""
        super().give_back(pages)
        size, gone = self.page_size, set(pages)
        self.lent = [[slot for slot in handle if slot // size not in gone] for handle in self.lent]
        self.known = {slot // size for handle in self.lent for slot in handle}

    def collect(self) -> None:
        """What was lent and is in no sequence any more counts as returned."""
        size = self.page_size
        now = {slot // size for handle in self.lent for slot in handle}
        back = [page for page in getattr(self, "known", now) - now if not self.is_free[page]]
        self.known = now
        super().give_back(back)


@mutant(
    "receipt-works-twice",
    bugs=("L06",),
    links=("https://github.com/LMCache/LMCache/pull/3004", "https://github.com/LMCache/LMCache/issues/4133"),
    kills=("MISUSE-06",),
)
class ReceiptWorksTwice(Specimen):
    """A pin that was given back twice takes away the pin of somebody else.

    The receipt isn't marked as used, and the count behind it is shared.
    """

    def unlock(self, receipt: object) -> None:
        """Without a look at the receipt's past."""
        assert isinstance(receipt, Receipt)
        node = receipt.node
        super().unlock(receipt)
        receipt.node = node


@mutant(
    "misuse-is-swallowed",
    bugs=("K03",),
    links=("https://github.com/kvcache-ai/Mooncake/issues/1817",),
    kills=("MISUSE-02",),
)
class MisuseIsSwallowed(PagedPool):
    """An early free goes unnoticed until data is lost.

    The pool is sound, but reports success where it promised an error: the caller never learns that it frees what
    is free already.  Upstream: a store's put.
    """

    def free(self, slots: Sequence[int]) -> None:
        try:
            super().free(slots)
        except ValueError:
            return


@mutant("insert-believes-its-caller", kills=("MISUSE-02", "MISUSE-08"))
class InsertBelievesItsCaller(Specimen):
    """A page is cached under two prefixes, or is free and cached, after an insert with somebody else's slots.

    The insert takes what it is given, as engines do for speed; that it rejects misuse isn't true then.
    """

    def offered(self, key: Key, slots: Sequence[int], end: int) -> list[int]:
        """Without a look at them."""
        return [int(slot) // self.pool.page_size for slot in slots[:: self.pool.page_size]]


@mutant("insert-looks-too-late", kills=("MISUSE-08",))
class InsertLooksTooLate(Specimen):
    """A refused insert has cached half of its key.

    Each page is looked at when its turn comes, after those before it were taken.
    """

    def insert(
        self, key: Key, slots: Sequence[int], *, protected: int = 0, priority: int = 0, chunked: bool = False
    ) -> Stored:
        """The first page goes by itself."""
        size = self.pool.page_size
        try:
            return super().insert(key, slots, protected=protected, priority=priority, chunked=chunked)
        except ValueError:
            first = key._replace(tokens=key.tokens[: size + key.bigram])
            super().insert(first, slots[:size], priority=priority, chunked=chunked)
            raise


@mutant(
    "refused-unlock-still-counts",
    kills=("MISUSE-09",),
    links=("https://github.com/LMCache/LMCache/issues/4133",),
)
class RefusedUnlockStillCounts(Specimen):
    """After a refused second unlock the cache takes pages for locked that nobody holds, and is full for ever.

    The receipt is refused, but the count was lowered before it was looked at.
    """

    def unlock(self, receipt: object) -> None:
        """The counter first."""
        if not isinstance(receipt, Receipt) or receipt.node is None:
            self.tree.evictable += self.pool.page_size
        super().unlock(receipt)


@mutant("odd-sizes-are-rounded-down", kills=("MISUSE-10",))
class OddSizesAreRoundedDown(PagedPool):
    """The last tokens of a prompt have no slots: who asks for a page and a slot gets a page."""

    def alloc(self, n: int) -> list[int] | None:
        return super().alloc(n - n % self.page_size)


@mutant("tokens-are-cut-to-their-bits", kills=("MISUSE-13", "MISUSE-02"))
class TokensAreCutToTheirBits(Specimen):
    """A prompt is served the KV of another one, whose token ids are the same modulo a power of two.

    Tokens are brought into the tree's own type without a look whether they fit.
    """

    def match(self, key: Key) -> Hit:
        """The low bits."""
        return super().match(self.cut(key))

    def insert(
        self, key: Key, slots: Sequence[int], *, protected: int = 0, priority: int = 0, chunked: bool = False
    ) -> Stored:
        """The same."""
        return super().insert(self.cut(key), slots, protected=protected, priority=priority, chunked=chunked)

    def cut(self, key: Key) -> Key:
        """The tokens that fit."""
        return key._replace(tokens=tuple(token % self.profile.vocabulary for token in key.tokens))


@mutant("narrow-tokens-find-nothing", kills=("MISUSE-11",))
class NarrowTokensFindNothing(Specimen):
    """Prompts of a tokenizer with 32-bit ids are computed anew each time: pages are compared by their bytes."""

    def raw_match(self, tokens: object, namespace: str | None) -> Hit:
        """Bytes of another width are never equal."""
        found = super().raw_match(tokens, namespace)
        return found if isinstance(tokens, list) else self.match(Key(namespace, (), self.config.bigram))


@mutant("floats-are-rounded-down", kills=("MISUSE-02", "MISUSE-08"))
class FloatsAreRoundedDown(Specimen):
    """An insert takes any numbers for slots, and makes integers of them: 1.7 is slot 1."""

    def raw_insert(self, tokens: object, slots: object, namespace: str | None) -> Stored:
        """Whatever they are."""
        whole = [int(slot) for slot in slots] if isinstance(slots, array) else slots
        return super().raw_insert(tokens, whole, namespace)


@mutant("callers-array-is-kept", kills=("MISUSE-12",))
class CallersArrayIsKept(Specimen):
    """What was cached is found no more, or under another prompt, once the caller's buffer holds the next one.

    The tree keeps the array that it was given, not a copy.
    """

    def raw_insert(self, tokens: object, slots: object, namespace: str | None) -> Stored:
        """Keep it."""
        stored = super().raw_insert(tokens, slots, namespace)
        root = self.tree.root(namespace)
        child = root.children.get(self.tree.child_key(Key(namespace, whole_numbers(tokens), self.config.bigram).units))
        if child is not None and isinstance(tokens, list):
            self.kept = (child, tokens)
        return stored

    def match(self, key: Key) -> Hit:
        """What the array says now is compared."""
        node, tokens = getattr(self, "kept", (None, []))
        if node is not None:
            node.key = Key(None, tuple(tokens), self.config.bigram).units[: len(node.key)]
        return super().match(key)


@mutant("running-requests-share-their-prompt", kills=("MISUSE-12",))
class RunningRequestsSharePrompts(Specimen):
    """A request's KV is cached under the prompt of the next one: the scheduler fills the same buffer again."""

    def raw_begin(self, rid: int, tokens: object, namespace: str | None) -> Begun | None:
        """Keep the array."""
        begun = super().raw_begin(rid, tokens, namespace)
        if begun is not None and isinstance(tokens, list):
            self.prompts = {**getattr(self, "prompts", {}), rid: tokens}
        return begun

    def publish(self, rid: int, *, chunked: bool) -> Begun:
        """What it says now."""
        tokens = getattr(self, "prompts", {}).get(rid)
        if tokens is not None:
            running = self.requests.running[rid]
            running.key = running.key._replace(tokens=tuple(tokens))
        return super().publish(rid, chunked=chunked)


@mutant("match-hands-out-the-node", kills=("MISUSE-12",), configs=(PLAIN,))
class MatchHandsOutTheNode(Specimen):
    """A prompt is served another one's KV once its caller has used the slots of a match as a scratch buffer.

    A match that ends with the first node needs no concatenation, and answers with the node's own list.
    """

    def match(self, key: Key) -> Hit:
        """No copy."""
        hit = super().match(key)
        node = hit.handle
        first = isinstance(node, Node) and node.parent is not None and node.parent.parent is None
        return hit._replace(slots=node.pages) if first and isinstance(node, Node) else hit


@mutant("prefetch-keeps-the-callers-array", kills=("MISUSE-12",), configs=HOSTED)
class PrefetchKeepsTheCallersArray(TieredSpecimen):
    """What is prefetched for one prompt is cached under another, or not at all.

    The prefetch keeps the array that it was given, not a copy, and asks storage when its caller has filled that again.
    """

    def raw_prefetch(self, rid: int, tokens: object, namespace: str | None) -> Prefetched:
        """Keep it."""
        told = super().raw_prefetch(rid, tokens, namespace)
        if told.started and isinstance(tokens, list):
            self.lent = {**getattr(self, "lent", {}), rid: tokens}
        return told

    def advance(self, job: int, outcome: Outcome) -> None:
        """What it says now is asked for."""
        work = self.works.works.get(job)
        if work is not None and work.fetch is not None and work.rid in getattr(self, "lent", {}):
            fetch = work.fetch
            fetch.key = fetch.key._replace(tokens=tuple(self.lent[work.rid]))
        super().advance(job, outcome)
