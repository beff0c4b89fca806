"""The page store: what keeps pages outside the machine's memory, and what it owes its callers.

A page store maps keys (page hashes, as a rule) to **objects**: the bytes of one page, always whole.  It works in
**batches** and answers by position.  Because a page is of no use without the pages before it, ``exists``
answers one number: how many of the *leading* keys are there.

A store is a cache, and a cache may be wrong about what it has lost; it may never be wrong about what
it returns.  So whatever has gone wrong below it (a file cut short, a flipped bit, a writer that died half
way) is a **miss**, for that one object, and never an exception that takes the rest of the batch along.

The rules speak of each asked key, position by position.  The suite's values are unlike each other, so that a
mix-up of keys, positions or ranks shows in the bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from kvlitmus.spec.law.on import On
from kvlitmus.spec.law.rule import Strength, rule
from kvlitmus.spec.stores.facts import CORRUPT, SHORT, STRANGE, UNSEEN, Read, misread
from kvlitmus.spec.stores.state import Entry

get_rule = partial(rule, on=(On.STORE_GET,), reference="stores.get")
damage_rule = partial(get_rule, needs=("store_faults",), premise="store_damaged")
put_rule = partial(rule, reference="stores.put")


@rule(
    "STORE-01",
    on=(On.STORE_EXISTS,),
    source="R-L3-01",
    reference="stores.exists",
    allowed="the number of leading keys that are there",
    premise="store_expected",
)
def exists_counts_the_leading_run(store_counted: int, store_there: Sequence[bool | None]) -> bool:
    """``exists`` MUST answer how many of the keys are there from the first one on without a gap."""
    if not 0 <= store_counted <= len(store_there):
        return False
    if False in store_there[:store_counted]:
        return False
    return store_counted == len(store_there) or store_there[store_counted] is not True


@rule(
    "STORE-02",
    on=(On.STORE_GET, On.STORE_PUT, On.STORE_GET_INTO),
    source="R-L3-03",
    reference="stores.get",
    allowed="{store_asked} answers",
)
def each_position_is_answered(store_asked: int, store_answered: int) -> bool:
    """The answer to a batch MUST have one position for each key: what failed is told from what did not."""
    return store_asked == store_answered


@get_rule(
    "STORE-03",
    source="R-L3-02, R-L3-03",
    allowed="for each key none, or one of the values put under it",
    premise="store_found",
)
def a_get_returns_what_was_put_under_its_key(store_reads: Sequence[Read]) -> bool:
    """What a get returns MUST be, byte for byte, one whole value that was put under the key at this position."""
    return not any(misread(one) and not one.known.damage and one.got not in one.foreign for one in store_reads)


@get_rule(
    "STORE-04",
    source="R-L3-02",
    allowed="bytes wherever an object is there, by the profile's store_room",
    premise="store_expected",
)
def what_was_put_is_found(store_reads: Sequence[Read]) -> bool:
    """A get after a successful put MUST find the object, as long as it was neither cleared nor damaged, nor, where the profile says that the store evicts, perhaps evicted by another put."""
    return not any(one.got is None and one.known.there is True and not one.known.damage for one in store_reads)


@get_rule("STORE-05", source="R-L3-02", allowed="none for every key that is not there")
def what_is_not_there_is_a_miss(store_reads: Sequence[Read]) -> bool:
    """A get of a key under which nothing was put, or nothing since the store was cleared, MUST answer none."""
    return all(one.got is None or one.known.there is not False or one.got in one.foreign for one in store_reads)


@rule(
    "STORE-06",
    on=(On.STORE_GET,),
    source="R-L3-02; design",
    reference="stores.put",
    allowed="of several values the one that the profile's store_put says",
    premise="store_decided",
)
def a_second_put_does_as_declared(store_reads: Sequence[Read]) -> bool:
    """Of two values put under one key, the first or the last MUST be kept, as the profile declares; *either* leaves it
    open.
    """
    decided = [one for one in store_reads if one.known.due is not None and not one.known.damage]
    return all(one.got is None or one.got == one.known.due for one in decided)


@damage_rule(
    "STORE-07", source="R-L3-08; sglang#39269", allowed="none, or a whole value, where the object was cut short"
)
def a_short_object_is_a_miss(store_reads: Sequence[Read]) -> bool:
    """An object of which a part is missing MUST be a miss: no part of it is returned, and nothing filled up."""
    return not any(misread(one) and one.known.damage in SHORT for one in store_reads)


@damage_rule("STORE-08", source="R-L3-08", allowed="none, or a whole value, where the object was changed")
def a_corrupt_object_is_a_miss(store_reads: Sequence[Read], store_checks: str) -> bool:
    """An object that has all its bytes, but not those that were put under its key, MUST be a miss, unless the store
    declares that it looks at the length alone.
    """
    return store_checks == "length" or not any(misread(one) and one.known.damage in CORRUPT for one in store_reads)


@damage_rule(
    "STORE-09",
    strength=Strength.SHOULD,
    source="R-L3-08, H-11",
    reference="stores.put",
    allowed="a value put after the damage",
)
def a_damaged_object_can_be_replaced(store_reads: Sequence[Read], store_checks: str) -> bool:
    """A successful put under the key of a damaged object SHOULD replace it: else the page is lost until somebody clears
    the store, although every put says that it is stored.
    """
    return all(
        not one.known.mended or one.got in one.known.mended or (one.known.damage in UNSEEN and store_checks == "length")
        for one in store_reads
    )


@rule(
    "STORE-10",
    on=(On.STORE_EXISTS, On.STORE_GET, On.STORE_PUT, On.STORE_GET_INTO),
    source="R-L3-03, R-L3-09; sglang#39269",
    reference="stores.get",
    allowed="an answer for each of the keys; the damaged ones are misses",
)
def one_bad_object_fails_no_other(store_raised: bool, store_excused: bool) -> bool:
    """A call MUST NOT raise for what one of its objects is like: that position fails, all others are answered."""
    return not store_raised or store_excused


@rule(
    "STORE-11",
    on=(On.STORE_LOOKUP,),
    source="R-L3-01, R-L3-07; design",
    reference="stores.exists",
    allowed="bytes for each of the first {store_leading} keys, but for damaged ones",
    premise="store_leading",
)
def what_exists_can_be_read(store_leading: int, store_raised: bool, store_reads: Sequence[Read]) -> bool:
    """An object that ``exists`` counts MUST be readable: an engine reserves memory for what is counted."""
    return not store_raised and not any(one.got is None and not one.known.damage for one in store_reads[:store_leading])


@rule(
    "STORE-12",
    on=(On.STORE_GET,),
    needs=("store_ranks",),
    source="R-L3-10; sglang#10969, sglang#26670",
    reference="stores.place",
    allowed="none, or a value of this rank",
    premise="store_shared",
)
def no_rank_gets_the_pages_of_another(store_reads: Sequence[Read]) -> bool:
    """What a rank stores of its own share of a page MUST be found by that rank alone: the place of an object includes
    the rank's identity.
    """
    return not any(misread(one) and one.got in one.foreign for one in store_reads)


@rule(
    "STORE-13",
    on=(On.STORE_GET_INTO,),
    source="R-L3-02",
    reference="stores.get",
    allowed="a whole value in each buffer said to be filled; the others unchanged where nothing is there",
    premise="store_expected",
)
def a_miss_leaves_its_buffer_alone(
    store_filled: Sequence[bool],
    plain_entries: Sequence[Entry],
    buffers_before: Sequence[bytes],
    buffers_after: Sequence[bytes],
) -> bool:
    """A get into buffers MUST fill the buffer of what it reports as read with one whole value. It MUST leave the buffer
    of a key that is not there as it was.
    """
    for filled, known, before, after in zip(store_filled, plain_entries, buffers_before, buffers_after, strict=False):
        if known.there is False and (filled or before != after):
            return False
        if not known.damage and (after not in known.puts if filled else known.there is True):
            return False
    return True


@put_rule(
    "STORE-14",
    on=(On.STORE_CRASH, On.STORE_RACE),
    source="R-L3-07, H-10; sglang#39269",
    allowed="none, or one whole value",
)
def no_reader_sees_half_an_object(
    store_glimpses: Sequence[bytes | None], store_wholes: frozenset[bytes], store_raised: bool
) -> bool:
    """While a put is going on, and after its writer died at any moment of it, every reader MUST find nothing or one whole
    value under the key.
    """
    return not store_raised and all(glimpse is None or glimpse in store_wholes for glimpse in store_glimpses)


@rule(
    "STORE-15",
    on=(On.STORE_PUT,),
    needs=("store_yard",),
    source="design; CWE-22",
    reference="stores.place",
    allowed="nothing outside of the store's own place",
)
def a_key_stays_inside_the_store(store_strays: Sequence[str]) -> bool:
    """Whatever its text, a key MUST NOT name anything outside of the store's own place: it is refused or contained."""
    return not store_strays


@rule("STORE-16", on=(On.STORE_CLEAR,), source="R-L3-02; design", reference="stores.clear", allowed="nothing")
def clear_leaves_nothing(store_left: Sequence[str]) -> bool:
    """After a clear a key MUST NOT be there: none is counted, and none can be read."""
    return not store_left


@put_rule(
    "STORE-17",
    on=(On.STORE_PUT,),
    source="design",
    allowed="all stored, but for keys out of the ordinary, by the profile's store_room",
)
def an_ordinary_put_is_accepted(store_accepted: Sequence[bool], store_ordinary: Sequence[bool]) -> bool:
    """While nothing fails, a put of a page under an ordinary key MUST be accepted; where the profile says that the store may be full, the first one while nothing is there."""
    return all(accepted or not ordinary for accepted, ordinary in zip(store_accepted, store_ordinary, strict=False))


@rule(
    "STORE-18",
    on=(On.STORE_GET,),
    strength=Strength.SHOULD,
    source="design; CWE-22",
    reference="stores.place",
    allowed="none where it was refused, else what was put under that very key",
)
def an_odd_key_names_nothing_but_itself(store_odd_reads: Sequence[Read]) -> bool:
    """A key that is no page hash SHOULD be refused, or name an object of its own: keys that are paths to the same file, or
    differ in a part that is cut off, are different keys.
    """
    return all(one.known.there is not True if one.got is None else not misread(one) for one in store_odd_reads)


@damage_rule(
    "STORE-19",
    source="R-L3-08, R-L3-09; design; CWE-59, CWE-770",
    allowed="none, or a whole value, where something else lies",
)
def what_is_no_object_is_a_miss(store_reads: Sequence[Read], store_checks: str) -> bool:
    """What lies in an object's place and isn't one MUST be a miss: far more bytes than a page has, a folder, a pipe, a
    link to another object. A store that declares that it looks at the length alone may follow the link.
    """
    seen = [one for one in store_reads if store_checks != "length" or one.known.damage not in UNSEEN]
    return not any(misread(one) and one.known.damage in STRANGE for one in seen)
