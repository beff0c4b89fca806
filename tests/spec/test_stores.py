"""The rules of page stores, one by one: each holds on what is right and bites on what is wrong."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from kvlitmus.reference.stores import damage, empty_store, exists, get, put
from kvlitmus.spec.stores import rules as store
from kvlitmus.spec.stores.facts import STRANGE, Read
from kvlitmus.spec.stores.state import NOTHING, Entry

ONE, TWO = b"one", b"two"
KEYS = st.sampled_from("abc")
BATCH = st.lists(KEYS, max_size=5)


def read(
    got: bytes | None, *puts: bytes, there: bool | None = True, due: bytes | None = None, damage: str = ""
) -> Read:
    """A key that was read, under which this was put."""
    return Read(got, Entry(there, puts, due, damage))


def test_the_leading_run() -> None:
    run = store.exists_counts_the_leading_run
    assert run(2, [True, True, False, True])
    assert not run(3, [True, True, False, True]), "a key behind the gap was counted"
    assert not run(1, [True, True, False, True]), "a key before the gap was not"
    assert all(run(count, [True, None]) for count in (1, 2))
    assert not run(0, [True, None])
    assert not run(3, [True, True]) and not run(-1, [])
    assert run(0, [])


def test_bytes_are_those_of_the_key() -> None:
    whole = store.a_get_returns_what_was_put_under_its_key
    assert whole([read(ONE, ONE), read(None, TWO)])
    assert not whole([read(TWO, ONE), read(None, TWO)])
    assert not whole([read(ONE[:2], ONE)])
    assert not whole([read(ONE)])
    assert whole([read(TWO, ONE, damage="flip")]), "what damage does is the affair of two other rules"
    assert whole([Read(TWO, NOTHING, [TWO])]), "another rank's page is the affair of another rule"


def test_found_and_missed() -> None:
    found = store.what_was_put_is_found
    assert found([read(ONE, ONE)]) and not found([read(None, ONE)])
    assert found([read(None, ONE, there=None)]) and found([read(None, ONE, damage="short")])
    missed = store.what_is_not_there_is_a_miss
    assert missed([Read(None, NOTHING)]) and not missed([Read(ONE, NOTHING)])
    assert missed([Read(ONE, NOTHING, [ONE])]), "another rank's page is the affair of another rule"
    assert missed([read(ONE, there=None)])


def test_second_puts_and_damage() -> None:
    second = store.a_second_put_does_as_declared
    assert second([read(ONE, ONE, due=ONE), read(TWO, TWO), read(None, TWO, due=TWO)])
    assert not second([read(TWO, ONE, TWO, due=ONE)])
    assert second([read(TWO, ONE, TWO, due=ONE, damage="flip")])
    short = store.a_short_object_is_a_miss
    assert short([read(None, ONE, damage="empty")]) and short([read(ONE, ONE, damage="empty")])
    assert not short([read(ONE[:1], ONE, damage="empty")]) and short([read(ONE[:1], ONE, damage="flip")])
    corrupt = store.a_corrupt_object_is_a_miss
    assert corrupt([read(None, ONE, damage="flip")], "bytes") and corrupt([read(ONE, ONE, damage="other")], "bytes")
    flipped = [read(TWO, ONE, damage="flip")]
    assert not corrupt(flipped, "bytes") and corrupt(flipped, "length")
    assert corrupt([read(TWO, ONE, damage="short")], "bytes")
    strange = store.what_is_no_object_is_a_miss
    for how in STRANGE:
        assert strange([read(None, ONE, damage=how)], "bytes") and strange([read(ONE, ONE, damage=how)], "bytes")
        assert not strange([read(TWO, ONE, damage=how)], "bytes") and strange(flipped, "bytes")
        assert strange([read(TWO, ONE, damage=how)], "length") is (how == "link")


def test_what_was_damaged_can_be_replaced() -> None:
    def mended(got: bytes | None, *puts: bytes, damage: str = "flip", checks: str = "bytes") -> bool:
        one = Read(got, Entry(None, puts, damage=damage, mended=puts))
        return store.a_damaged_object_can_be_replaced([one], checks)

    assert mended(ONE, ONE, TWO) and mended(None)
    assert not mended(None, ONE) and not mended(TWO, ONE)
    assert mended(TWO, ONE, checks="length") and not mended(None, ONE, damage="short", checks="length")


def test_readers_and_ranks() -> None:
    half = store.no_reader_sees_half_an_object
    assert half([None, ONE, TWO], frozenset([ONE, TWO]), False)
    assert not half([ONE[:1]], frozenset([ONE]), False) and not half([None], frozenset([ONE]), True)
    counted, both = store.what_exists_can_be_read, [read(ONE, ONE), read(None, ONE)]
    assert counted(1, False, both) and counted(1, False, [read(None, ONE, damage="flip")])
    assert not counted(2, False, both) and not counted(1, True, both)
    rank = store.no_rank_gets_the_pages_of_another
    assert rank([read(ONE, ONE), Read(None, NOTHING, [TWO])])
    assert not rank([Read(TWO, Entry(True, (ONE,)), [TWO])]) and rank([Read(TWO, Entry(True, (ONE, TWO)), [TWO])])


def test_buffers() -> None:
    def into(filled: bool, there: bool | None, after: bytes, damage: str = "") -> bool:
        return store.a_miss_leaves_its_buffer_alone([filled], [Entry(there, (ONE,), damage=damage)], [b"..."], [after])

    assert into(True, True, ONE) and into(False, False, b"...") and into(False, None, b"xxx")
    assert not into(False, True, b"...") and not into(True, False, ONE) and not into(False, False, b"x..")
    assert not into(True, True, TWO) and into(True, None, TWO, "flip")


def test_odd_keys_and_the_rest() -> None:
    odd = store.an_odd_key_names_nothing_but_itself
    assert odd([Read(None, NOTHING), read(ONE, ONE)])
    assert not odd([read(TWO, ONE)]) and not odd([Read(ONE, NOTHING)])
    assert not odd([read(None, ONE)]), "what was accepted is found"
    assert store.an_ordinary_put_is_accepted([True, False], [True, False])
    assert not store.an_ordinary_put_is_accepted([False], [True])
    assert store.one_bad_object_fails_no_other(True, True) and not store.one_bad_object_fails_no_other(True, False)
    assert store.each_position_is_answered(2, 2) and not store.each_position_is_answered(2, 1)
    assert store.a_key_stays_inside_the_store([]) and not store.a_key_stays_inside_the_store(["x"])
    assert store.clear_leaves_nothing([]) and not store.clear_leaves_nothing(["k0"])


@given(st.lists(st.tuples(KEYS, st.binary(min_size=1, max_size=3)), max_size=5), BATCH, st.booleans(), KEYS)
def test_the_reference_keeps_them(
    puts: Sequence[tuple[str, bytes]], keys: Sequence[str], replaces: bool, hurt: str
) -> None:
    state, accepted = put(empty_store(replaces=replaces), [key for key, _ in puts], [value for _, value in puts])
    state = damage(state, hurt)
    there = [key in dict(puts) and key != hurt for key in keys]
    values = [[value for key, value in puts if key == asked] for asked in keys]
    got = get(state, keys)
    damaged = ["flip" if key == hurt and key in dict(puts) else "" for key in keys]
    due = [(one[-1] if replaces else one[0]) if one else None for one in values]
    reads = [Read(*one) for one in zip(got, map(Entry, there, map(tuple, values), due, damaged), strict=True)]
    assert store.exists_counts_the_leading_run(exists(state, keys), there)
    assert store.each_position_is_answered(len(keys), len(got))
    assert store.a_get_returns_what_was_put_under_its_key(reads)
    assert store.what_was_put_is_found(reads)
    assert store.what_is_not_there_is_a_miss(reads)
    assert store.a_second_put_does_as_declared(reads)
    assert store.a_corrupt_object_is_a_miss(reads, "bytes")
    assert store.an_ordinary_put_is_accepted(accepted, [True] * len(puts))
