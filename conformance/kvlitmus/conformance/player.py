"""The player: plays the operations of a schedule as a lawful caller would.

It keeps the caller's side of the contract: what it allocates it frees, what it locks it
unlocks, a handle is used at once, and a request that runs is ended once.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence

from kvlitmus.conformance.calls import pool, pure, request, tree
from kvlitmus.conformance.judge import Judge, Loan
from kvlitmus.conformance.litmus import hashing_table, prefetch_table
from kvlitmus.conformance.schedule import Op, evict_size, make_key, more_tokens
from kvlitmus.spec.units import Key, PageNo, Slot, page_floor, page_slots

MAX_LOANS = 4
MAX_RECEIPTS = 4
MAX_REQUESTS = 6
GROUPED = 32
"""Of 256 publications so many happen within a free group."""


class Player:
    """Plays schedules against one judge."""

    def __init__(self, judge: Judge) -> None:
        self.judge = judge
        self.config = judge.config
        self.waiting: dict[int, Key] = {}
        self.serial = 0
        self.begun = 0
        self.moves: dict[str, Callable[[int, int, int], None]] = {
            "alloc": self.alloc,
            "free": self.free,
            "extend": self.extend,
            "decode": self.decode,
            "group": self.group,
            "match": self.match,
            "insert": self.insert,
            "lock": self.lock,
            "unlock": self.unlock,
            "evict": self.evict,
            "begin": self.begin,
            "grow": self.grow,
            "publish": self.publish,
            "finish": self.finish,
            "abort": self.abort,
            "retract": self.retract,
            "resume": self.resume,
            "reset": self.reset,
            "hashes": self.hashes,
            "plan": self.plan,
        }

    def play(self, ops: Sequence[Op]) -> None:
        """Play all operations, then settle: give back what is held and empty the cache."""
        moves = self.moves
        for kind, a, b, c in ops:
            moves[kind](a, b, c)
        self.settle()

    def settle(self) -> None:
        """End everything that is still going on, and evict everything: nothing may be left."""
        judge = self.judge
        for at, rid in enumerate(list(judge.requests)):
            request.end(judge, rid, keep=at % 2 == 0)
        for receipt in list(judge.receipts):
            tree.unlock(judge, receipt)
        for loan in list(judge.loans):
            pool.free(judge, judge.loans.pop(loan).slots)
        if "evict" in judge.capabilities:
            tree.evict(judge, judge.capacity)

    # -- pool ----------------------------------------------------------------------------------

    def alloc(self, a: int, b: int, c: int) -> None:
        """Allocate one to four pages."""
        if len(self.judge.loans) < MAX_LOANS:
            slots = pool.alloc(self.judge, (1 + a % 4) * self.config.page_size)
            self.keep(slots)

    def keep(self, slots: tuple[Slot, ...] | None) -> None:
        """Note slots as the suite's own."""
        if slots:
            self.serial += 1
            self.judge.loans[self.serial] = Loan(slots)

    def free(self, a: int, b: int, c: int) -> None:
        """Free one of the loans, or its first page only."""
        loan = pick(self.judge.loans, a)
        if loan is None:
            return
        slots = self.judge.loans.pop(loan).slots
        cut = self.config.page_size if b % 4 == 0 else len(slots)
        pool.free(self.judge, slots[:cut])
        self.keep(slots[cut:])

    def extend(self, a: int, b: int, c: int) -> None:
        """Extend a loan as an engine extends a request, and trim it to whole pages of ownership."""
        self.continue_loan(a, 1 + b % (2 * self.config.page_size + 1), decode=False)

    def decode(self, a: int, b: int, c: int) -> None:
        """Extend a loan by one token."""
        self.continue_loan(a, 1, decode=True)

    def continue_loan(self, a: int, further: int, *, decode: bool) -> None:
        """Continue part of a loan: its last page counts as partly used."""
        judge, size = self.judge, self.config.page_size
        loan = pick(judge.loans, a)
        if loan is None:
            return
        slots = judge.loans[loan].slots
        used = slots[: len(slots) - (a // 16) % size]
        got = pool.extend(judge, used, further, decode=decode)
        if got is not None:
            opened = dict.fromkeys(PageNo(slot // size) for slot in got if slot not in slots)
            judge.loans[loan] = Loan(slots + tuple(slot for page in opened for slot in page_slots(page, size)))

    def group(self, a: int, b: int, c: int) -> None:
        """Free up to two loans in one group."""
        judge = self.judge
        chosen = list(judge.loans)[: 1 + a % 2]
        if chosen:
            pool.free_grouped(judge, [judge.loans.pop(loan).slots for loan in chosen])

    def reset(self, a: int, b: int, c: int) -> None:
        """Forget everything; rarely."""
        if a < 64:
            pool.reset(self.judge)
            self.waiting.clear()

    # -- hashes and prefetch -------------------------------------------------------------------

    def hashes(self, a: int, b: int, c: int) -> None:
        """Hash keys that share a beginning: one of them whole and in pieces, both, and in another namespace."""
        take = random.Random(a << 16 | b << 8 | c).randrange
        key, other, size, pages = hashing_table.draw(take)
        pure.hashes(self.judge, key, size)
        pure.hash_pieces(self.judge, key, size, pages)
        pure.hash_pair(self.judge, key, other, size)
        pure.hash_namespaces(self.judge, key, "lora-c", size)

    def plan(self, a: int, b: int, c: int) -> None:
        """Have a prefetch planned."""
        ask, script = prefetch_table.draw(random.Random(a << 16 | b << 8 | c).randrange)
        pure.plan(self.judge, ask, script)

    # -- tree ----------------------------------------------------------------------------------

    def match(self, a: int, b: int, c: int) -> None:
        """Match a key."""
        tree.match(self.judge, make_key(self.config, a, b, c))

    def lock(self, a: int, b: int, c: int) -> None:
        """Match a key and lock what was found."""
        if len(self.judge.receipts) < MAX_RECEIPTS:
            key = make_key(self.config, a, b, c)
            self.serial += 1
            tree.lock(self.judge, tree.match(self.judge, key), key, self.serial)

    def unlock(self, a: int, b: int, c: int) -> None:
        """Give one of the receipts back."""
        receipt = pick(self.judge.receipts, a)
        if receipt is not None:
            tree.unlock(self.judge, receipt)

    def evict(self, a: int, b: int, c: int) -> None:
        """Make room."""
        tree.evict(self.judge, evict_size(self.config, a))

    def insert(self, a: int, b: int, c: int) -> None:
        """Insert a key, as a caller does who reuses the cached prefix, or as one who computed everything anew."""
        judge = self.judge
        key = make_key(self.config, a, b, c)
        whole = page_floor(key.length, self.config.page_size)
        reuse = c & 16 and "locks" in judge.capabilities
        shared: tuple[Slot, ...] = ()
        receipt = 0
        if reuse:
            hit = tree.match(judge, key)
            if hit.slots is not None:
                shared = tuple(map(Slot, hit.slots))
                self.serial += 1
                receipt = self.serial
                tree.lock(judge, hit, key, receipt)
        own = self.room(whole - len(shared))
        if own is not None:
            slots = (*shared, *own)
            vain = tree.insert(
                judge, key, slots, protected=len(shared), priority=(c >> 5) & 3 if c & 16 else 0, chunked=bool(c & 32)
            )
            if vain:
                pool.free(judge, vain)
        if receipt:
            tree.unlock(judge, receipt)

    def room(self, n: int) -> tuple[Slot, ...] | None:
        """Slots of the suite's own, making room first where needed; ``None`` when there is no room."""
        judge = self.judge
        if not n:
            return ()
        known = judge.before.available
        if known is not None and known < n and "evict" in judge.capabilities:
            tree.evict(judge, n - known)
        got = pool.alloc(judge, n)
        if got is None or len(got) == n:
            return got
        self.keep(got)  # another number than was asked for (POOL-01, muted) is of no use
        return None

    # -- requests ------------------------------------------------------------------------------

    def begin(self, a: int, b: int, c: int) -> None:
        """Begin a request."""
        if len(self.judge.requests) < MAX_REQUESTS:
            self.begun += 1
            request.begin(self.judge, self.begun, make_key(self.config, a, b, c))

    def grow(self, a: int, b: int, c: int) -> None:
        """Grow one of the requests."""
        rid = pick(self.judge.requests, c)
        if rid is not None and len(self.judge.requests[rid].row) < 12 * self.config.page_size:
            request.grow(self.judge, rid, more_tokens(self.config, a, b))

    def publish(self, a: int, b: int, c: int) -> None:
        """Publish one of the requests."""
        rid = pick(self.judge.requests, c)
        if rid is not None:
            grouped = b < GROUPED and "group" in self.judge.capabilities
            request.publish(self.judge, rid, chunked=bool(a & 1), grouped=grouped)

    def finish(self, a: int, b: int, c: int) -> None:
        """Finish one of the requests."""
        rid = pick(self.judge.requests, c)
        if rid is not None:
            request.end(self.judge, rid, keep=True)

    def abort(self, a: int, b: int, c: int) -> None:
        """Abort one of the requests."""
        rid = pick(self.judge.requests, c)
        if rid is not None:
            request.end(self.judge, rid, keep=False)

    def retract(self, a: int, b: int, c: int) -> None:
        """Retract one of the requests: it will be resumed under the same id."""
        rid = pick(self.judge.requests, c)
        if rid is not None:
            self.waiting[rid] = self.judge.requests[rid].key
            request.end(self.judge, rid, keep=False)

    def resume(self, a: int, b: int, c: int) -> None:
        """Begin a retracted request again, with all that it had."""
        rid = pick(self.waiting, c)
        if rid is not None and len(self.judge.requests) < MAX_REQUESTS:
            request.begin(self.judge, rid, self.waiting.pop(rid))


def pick(among: Mapping[int, object], which: int) -> int | None:
    """One of the things that are alive, or ``None``."""
    if not among:
        return None
    at = which % len(among)
    for number in among:
        if not at:
            return number
        at -= 1
    return None
