"""Misuse as the last call of a schedule: what a caller must not do, tried once where the profile says what it does.

Beside it what is at the edge of the contract: tokens beyond the vocabulary, integers of another width, keys longer than
host memory, arrays that are overwritten once the call has returned, passed to it or handed out by it.  After it the
caller gives back what it holds, as after any schedule: a cache that refused the call goes on as if there had been none
(MISUSE-02, MISUSE-08 to MISUSE-13).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from kvlitmus.conformance.checker.calls import misuse, raw
from kvlitmus.conformance.checker.calls.prefix import fetch, pool, request, tree
from kvlitmus.conformance.checker.calls.prefix import tier as tiers
from kvlitmus.conformance.checker.calls.text import key_text
from kvlitmus.conformance.checker.checker import Checker, Loan
from kvlitmus.conformance.generate.actions.prefix.tier import below, flush
from kvlitmus.conformance.generate.actions.registry import action
from kvlitmus.spec.interface.cache import FORMS
from kvlitmus.spec.words.limits import ALL_TOKENS
from kvlitmus.spec.words.units import Key, PageNo, page_slots

if TYPE_CHECKING:
    from kvlitmus.conformance.generate.caller import Caller

OF_FLAT, LAST = "misuse", "last_call"
"""The kinds of operation with which a schedule ends: the first generations' has fewer kinds, and flat caches alone."""


class Wrong(NamedTuple):
    """One forbidden call: the method, as a reader should see it, what is wrong with it, and how it is made."""

    method: str
    text: str
    wrong: str
    make: Callable[[], object]


class Played(NamedTuple):
    """Calls that are judged by themselves, and the rule that what follows them breaks.

    ``play`` returns ``False`` where it came to nothing that could be looked at.
    """

    play: Callable[[], object]
    rule: str = misuse.GOES_ON


WRONG_FORMS = FORMS[2:]
"""What is no sequence of integers."""


def stale_unlock(caller: Caller, a: int, key: Key) -> Wrong | None:
    """The receipt that was given back last, once more."""
    checker = caller.checker
    receipt = caller.pick("receipt", checker.receipts, a)
    if receipt is None:
        caller.serial += 1
        receipt = caller.serial
        tree.lock(checker, tree.match(checker, key), key, receipt)
    token = checker.tokens[receipt]
    tree.unlock(checker, receipt)
    return Wrong("unlock", f"unlock(receipt {receipt})", "given back already", lambda: checker.adapter.unlock(token))


def unlock_of_nobody(caller: Caller, a: int, key: Key) -> Wrong | None:
    """Something that is no receipt."""
    return Wrong("unlock", "unlock('no receipt')", "no receipt", lambda: caller.checker.adapter.unlock("no receipt"))


def free_of(caller: Caller, slots: list[object], wrong: str) -> Wrong:
    """A free of these slots."""
    return Wrong("free", f"free({slots})", wrong, lambda: caller.checker.adapter.free(slots))


def free_cached(caller: Caller, a: int, key: Key) -> Wrong | None:
    """A page that the tree has."""
    cached = caller.checker.before.cached
    if not cached:
        return None
    return free_of(
        caller, list(page_slots(list(cached.values())[a % len(cached)], caller.config.page_size)), "cached, not owned"
    )


def free_outside(caller: Caller, a: int, key: Key) -> Wrong | None:
    """A page beyond the pool."""
    beyond = PageNo(max(caller.checker.usable) + 1 + a % 3)
    return free_of(caller, list(page_slots(beyond, caller.config.page_size)), "beyond the pool")


def free_no_slots(caller: Caller, a: int, key: Key) -> Wrong | None:
    """What is no slot."""
    return free_of(caller, [("1", None, 1.5, -1)[a % 4]] * caller.config.page_size, "no slots")


def insert_of(caller: Caller, key: Key, slots: list[object], wrong: str) -> Wrong:
    """An insert of a key in these slots."""
    text = f"insert({key_text(key)}, {slots})"
    return Wrong("insert", text, wrong, lambda: caller.checker.adapter.insert(key, slots))


def own_pages(caller: Caller, many: int) -> list[Any] | None:
    """Slots of the suite's own, as many pages as are asked for; ``None`` where there is no room."""
    checker = caller.checker
    got = pool.alloc(checker, many * caller.config.page_size)
    if got is None:
        return None
    caller.serial += 1
    checker.loans[caller.serial] = Loan(got)
    return list(got)


def two_pages(caller: Caller) -> Key:
    """A key of two pages that nothing else has.  Where it is to be taken it must be fitted, and may be longer."""
    size = caller.config.page_size
    return Key(None, tuple([9] * (2 * size + caller.config.bigram)), caller.config.bigram)


def insert_too_few(caller: Caller, a: int, key: Key) -> Wrong | None:
    """Slots for one page of two."""
    own = own_pages(caller, 1)
    return None if own is None else insert_of(caller, two_pages(caller), own, "too few slots")


def insert_repeated(caller: Caller, a: int, key: Key) -> Wrong | None:
    """One page twice."""
    own = own_pages(caller, 1)
    return None if own is None else insert_of(caller, two_pages(caller), own * 2, "a page named twice")


def insert_foreign(caller: Caller, a: int, key: Key) -> Wrong | None:
    """Pages that are free."""
    free = sorted(caller.checker.before.free)[: a % 3 + 2]
    if len(free) < 2:
        return None
    slots = [slot for page in free[:2] for slot in page_slots(page, caller.config.page_size)]
    return insert_of(caller, two_pages(caller), list(slots), "slots that nobody owns")


def insert_cached(caller: Caller, a: int, key: Key) -> Wrong | None:
    """Pages that the tree has under another prefix."""
    pages = list(caller.checker.before.cached.values())[:2]
    if len(pages) < 2:
        return None
    slots = [slot for page in pages for slot in page_slots(page, caller.config.page_size)]
    return insert_of(caller, two_pages(caller), list(slots), "slots of another prefix")


def insert_no_slots(caller: Caller, a: int, key: Key) -> Wrong | None:
    """What is no slot."""
    odd: object = ("1", None, 1.5, -1, 1 << 40)[a % 5]
    return insert_of(caller, two_pages(caller), [odd] * (2 * caller.config.page_size), "no slots")


def insert_beyond(caller: Caller, a: int, key: Key) -> Wrong | None:
    """A token that no key has."""
    own = own_pages(caller, 2)
    if own is None:
        return None
    return insert_of(caller, with_odd_token(two_pages(caller), a), own, "a token that no key has")


def with_odd_token(key: Key, a: int) -> Key:
    """A key with a first token that none has."""
    return key._replace(tokens=((-1, -ALL_TOKENS, ALL_TOKENS, 1 << 63)[a % 4], *key.tokens[1:]))


def beyond_vocabulary(match: Callable[[Checker, Key, int], None]) -> Kind:
    """A match of what is cached, with a token that is as much more as its vocabulary."""

    def match_beyond(caller: Caller, a: int, key: Key) -> Played | None:
        if key.length < caller.config.page_size:
            return None
        vocabulary = caller.checker.profile.vocabulary
        more = (-vocabulary, vocabulary, ALL_TOKENS, 1 << 64)[a % 4]
        return Played(lambda: match(caller.checker, key, key.tokens[0] + more))

    return match_beyond


def raw_match_wrong(caller: Caller, a: int, key: Key) -> Wrong | None:
    """Tokens that are no sequence of integers."""
    form = WRONG_FORMS[a % len(WRONG_FORMS)]
    tokens = raw.array(caller.checker, two_pages(caller).tokens, form)
    make = partial(caller.checker.adapter.raw_match, tokens, None)
    return None if tokens is None else Wrong("match", f"match({form})", "no sequence of integers", make)


def raw_insert_wrong(caller: Caller, a: int, key: Key) -> Wrong | None:
    """Tokens or slots that are no sequence of integers."""
    own = own_pages(caller, 2)
    if own is None:
        return None
    key, form = two_pages(caller), WRONG_FORMS[a % len(WRONG_FORMS)]
    of_tokens = a // len(WRONG_FORMS) % 2
    tokens = raw.array(caller.checker, key.tokens, form if of_tokens else "own")
    slots = raw.array(caller.checker, own, "own" if of_tokens else form)
    if tokens is None or slots is None:
        return None
    text = f"insert({form} for {'tokens' if of_tokens else 'slots'}, {own})"
    make = partial(caller.checker.adapter.raw_insert, tokens, slots, None)
    return Wrong("insert", text, "no sequence of integers", make)


def raw_free_wrong(caller: Caller, a: int, key: Key) -> Wrong | None:
    """Own slots, but no sequence of integers."""
    own = own_pages(caller, 1)
    if own is None:
        return None
    form = WRONG_FORMS[a % len(WRONG_FORMS)]
    slots = raw.array(caller.checker, own, form)
    make = partial(caller.checker.adapter.raw_free, slots)
    return None if slots is None else Wrong("free", f"free({form} of {own})", "no sequence of integers", make)


def raw_match_narrow(caller: Caller, a: int, key: Key) -> Played | None:
    """Integers of fewer bits."""
    return Played(lambda: raw.match_narrow(caller.checker, key))


def raw_insert_overwritten(caller: Caller, a: int, key: Key) -> Played | None:
    """The arrays of an insert, overwritten after it."""
    whole = caller.fit(two_pages(caller))
    if own_pages(caller, whole.length // caller.config.page_size) is None:
        return None

    def play() -> None:
        checker = caller.checker
        loan = checker.loans.pop(caller.serial)
        left, arrays = raw.insert(checker, whole, loan.slots)
        if left:
            checker.loans[caller.serial] = Loan(left)
        raw.overwrite(checker, arrays)
        caller.afterwards = partial(raw.match, checker, whole)

    return Played(play, misuse.OWN_AGAIN)


def raw_begin_overwritten(caller: Caller, a: int, key: Key) -> Played | None:
    """The prompt of a request, overwritten while it runs."""
    checker, rid = caller.checker, 1 + max(caller.checker.requests, default=0)

    def play() -> None:
        arrays = raw.begin(checker, rid, key)
        if arrays is not None:
            raw.overwrite(checker, arrays)
            caller.afterwards = partial(request.publish, checker, rid, chunked=False)

    return Played(play, misuse.OWN_AGAIN)


def raw_hit_overwritten(caller: Caller, a: int, key: Key) -> Played | None:
    """The slots that a match handed out, overwritten after it."""
    whole = caller.fit(two_pages(caller))
    own = own_pages(caller, whole.length // caller.config.page_size)

    def play() -> bool:
        checker = caller.checker
        sought = key
        if own is not None:
            sought, loan = whole, checker.loans.pop(caller.serial)
            left = tree.insert(checker, whole, loan.slots)
            if left:
                checker.loans[caller.serial] = Loan(left)
        caller.afterwards = partial(raw.match, checker, sought)
        slots = raw.handed_out(checker, sought)
        return raw.overwrite_answer(checker, slots)

    return Played(play, misuse.OWN_AGAIN)


def another(caller: Caller) -> int:
    """The number of a request that there hasn't been."""
    caller.begun += 1
    return caller.begun


def gone_below(caller: Caller, a: int, key: Key) -> Key:
    """A key that is in storage alone, if one was computed: all is delivered, and both tiers are emptied."""
    tiers.deliver(caller.checker)
    flush(caller, 0, 0, 0)
    return below(caller, a, stored=True) or key


def prefetch_long(caller: Caller, a: int, key: Key) -> Played | None:
    """A key longer than host memory, which is lawful."""
    config = caller.config
    many = (1 + a % 2) * config.host_pages * config.page_size + config.bigram
    long = caller.fit(key._replace(tokens=(*key.tokens, *[1 + a % 2] * many)))
    of_array = {"raw", "raw_prefetching"} <= caller.checker.capabilities

    def play() -> None:
        (raw.prefetch if of_array else fetch.prefetch)(caller.checker, another(caller), long)

    return Played(play)


def raw_prefetch_wrong(caller: Caller, a: int, key: Key) -> Wrong | None:
    """Tokens that are no sequence of integers; without storage a cache may refuse before it looks at them."""
    form = WRONG_FORMS[a % len(WRONG_FORMS)]
    config = caller.config
    key = key._replace(tokens=(1,) * (config.threshold + config.page_size + config.bigram))
    tokens = raw.array(caller.checker, key.tokens, form)
    if tokens is None or not caller.checker.below.attached:
        return None
    rid = another(caller)
    make = partial(caller.checker.adapter.raw_prefetch, rid, tokens, None)
    return Wrong("prefetch", f"prefetch({rid}, {form})", "no sequence of integers", make)


def raw_prefetch_narrow(caller: Caller, a: int, key: Key) -> Played | None:
    """Integers of fewer bits."""

    def play() -> None:
        sought = gone_below(caller, a, key)
        raw.prefetch_narrow(caller.checker, another(caller), sought)

    return Played(play)


def raw_prefetch_overwritten(caller: Caller, a: int, key: Key) -> Played | None:
    """The array of a prefetch, overwritten while it is under way."""

    def play() -> bool:
        checker, sought = caller.checker, gone_below(caller, a, key)
        rid = another(caller)
        arrays = raw.prefetch(checker, rid, sought)
        if arrays is None:
            return False
        raw.overwrite(checker, arrays)
        caller.afterwards = partial(lands, checker, rid, sought)
        return True

    return Played(play, misuse.OWN_AGAIN)


def lands(checker: Checker, rid: int, key: Key) -> None:
    """All that is under way lands; the request is told, and finds what was brought."""
    tiers.deliver(checker)
    fetch.poll(checker, rid)
    tree.match(checker, key)


Kind = Callable[["Caller", int, Key], Wrong | Played | None]

KINDS: tuple[tuple[frozenset[str], Kind], ...] = (
    (frozenset({"tree", "locks"}), stale_unlock),
    (frozenset({"locks"}), unlock_of_nobody),
    (frozenset({"pool", "inspect", "tree"}), free_cached),
    (frozenset({"pool"}), free_outside),
    (frozenset({"pool"}), free_no_slots),
    (frozenset({"pool", "tree"}), insert_too_few),
    (frozenset({"pool", "tree"}), insert_repeated),
    (frozenset({"pool", "tree", "inspect"}), insert_foreign),
    (frozenset({"pool", "tree", "inspect"}), insert_cached),
    (frozenset({"pool", "tree"}), insert_no_slots),
    (frozenset({"pool", "tree"}), insert_beyond),
    (frozenset({"tree"}), beyond_vocabulary(raw.match_beyond)),
    (frozenset({"raw", "tree"}), raw_match_wrong),
    (frozenset({"raw", "tree"}), raw_insert_wrong),
    (frozenset({"raw", "pool"}), raw_free_wrong),
    (frozenset({"raw", "tree"}), raw_match_narrow),
    (frozenset({"raw", "tree"}), raw_insert_overwritten),
    (frozenset({"raw", "raw_requests", "requests"}), raw_begin_overwritten),
)
"""The kinds of calls with which a schedule of a flat cache may end so, and the ports that each needs."""

OVERWRITTEN: tuple[tuple[frozenset[str], Kind], ...] = ((frozenset({"raw", "tree", "pool"}), raw_hit_overwritten),)
"""Those with which one of any cache may end."""

BELOW: tuple[tuple[frozenset[str], Kind], ...] = tuple(
    (frozenset({"tiers", "prefetching", "steps", "evict", "host", *more}), kind)
    for more, kind in (
        ((), prefetch_long),
        (("raw", "raw_prefetching"), raw_prefetch_wrong),
        (("raw", "raw_prefetching"), raw_prefetch_narrow),
        (("raw", "raw_prefetching"), raw_prefetch_overwritten),
    )
)
"""Those with which one of a hierarchy may end."""


@action(OF_FLAT)
def flat_misuse(caller: Caller, a: int, b: int, c: int) -> None:
    """One forbidden call of a flat cache; where the profile leaves it undefined what happens then, none is made."""
    if caller.checker.store is None:
        end_with(KINDS, caller, a, b, c)


@action(LAST)
def last(caller: Caller, a: int, b: int, c: int) -> None:
    """One forbidden call, or one at the edge of the contract; with a profile that leaves misuse undefined, none."""
    end_with((KINDS if caller.checker.store is None else BELOW) + OVERWRITTEN, caller, a, b, c)


def end_with(
    kinds: Sequence[tuple[frozenset[str], Kind]],
    caller: Caller,
    a: int,
    b: int,
    c: int,
    forbidden: Callable[[Checker, str, str, str, Callable[[], object]], None] = misuse.forbidden,
) -> None:
    """The first of these kinds of calls, from the ``b``-th on, that the cache has the ports for.

    ``forbidden``: how one is made and judged.
    """
    checker = caller.checker
    if checker.profile.misuse == "undefined" or caller.misused:
        return
    for further in range(len(kinds)):
        needs, kind = kinds[(b + further) % len(kinds)]
        if needs <= checker.capabilities:
            wrong = kind(caller, a, caller.key(a, b, c))
            if wrong is None:
                continue
            if isinstance(wrong, Played):
                caller.misused = wrong.rule
                if wrong.play() is False:
                    caller.misused = ""
            else:
                caller.misused = misuse.GOES_ON
                forbidden(checker, *wrong)
            return
