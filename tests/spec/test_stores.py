"""The rules of page stores, one by one: each holds on what is right and bites on what is wrong."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from hypothesis import given
from hypothesis import strategies as st

from kvlitmus.reference.stores import damage, empty_store, exists, get, put
from kvlitmus.spec.stores import rules as store
from kvlitmus.spec.stores.facts import STRANGE

ONE, TWO = b"one", b"two"
KEYS = st.sampled_from("abc")
BATCH = st.lists(KEYS, max_size=5)


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
    def whole(got: Sequence[bytes | None], puts: Sequence[Collection[bytes]], damage: str = "") -> bool:
        none: list[Collection[bytes]] = [()] * len(got)
        return store.a_get_returns_what_was_put_under_its_key(got, puts, none, [damage] * len(got))

    assert whole([ONE, None], [[ONE], [TWO]])
    assert not whole([TWO, None], [[ONE], [TWO]])
    assert not whole([ONE[:2]], [[ONE]])
    assert not whole([ONE], [[]])
    assert whole([TWO], [[ONE]], "flip"), "what damage does is the affair of two other rules"


def test_found_and_missed() -> None:
    found = store.what_was_put_is_found
    assert found([ONE], [True], [""]) and not found([None], [True], [""])
    assert found([None], [None], [""]) and found([None], [True], ["short"])
    missed = store.what_is_not_there_is_a_miss
    assert missed([None], [False], [()]) and not missed([ONE], [False], [()])
    assert missed([ONE], [False], [(ONE,)]), "another rank's page is the affair of another rule"
    assert missed([ONE], [None], [()])


def test_second_puts_and_damage() -> None:
    second = store.a_second_put_does_as_declared
    assert second([ONE, TWO, None], [ONE, None, TWO], ["", "", ""])
    assert not second([TWO], [ONE], [""])
    short = store.a_short_object_is_a_miss
    assert short([None], [(ONE,)], ["empty"]) and short([ONE], [(ONE,)], ["empty"])
    assert not short([ONE[:1]], [(ONE,)], ["empty"]) and short([ONE[:1]], [(ONE,)], ["flip"])
    corrupt = store.a_corrupt_object_is_a_miss
    assert corrupt([None], [(ONE,)], ["flip"], "bytes") and corrupt([ONE], [(ONE,)], ["other"], "bytes")
    assert not corrupt([TWO], [(ONE,)], ["flip"], "bytes") and corrupt([TWO], [(ONE,)], ["flip"], "length")
    assert corrupt([TWO], [(ONE,)], ["short"], "bytes")
    strange = store.what_is_no_object_is_a_miss
    for how in STRANGE:
        assert strange([None], [(ONE,)], [how], "bytes") and strange([ONE], [(ONE,)], [how], "bytes")
        assert not strange([TWO], [(ONE,)], [how], "bytes") and strange([TWO], [(ONE,)], ["flip"], "bytes")
        assert strange([TWO], [(ONE,)], [how], "length") is (how == "link")
    mended = store.a_damaged_object_can_be_replaced
    assert mended([ONE, None], [(ONE, TWO), ()], ["flip", "flip"], "bytes")
    assert not mended([None], [(ONE,)], ["flip"], "bytes") and not mended([TWO], [(ONE,)], ["flip"], "bytes")
    assert mended([TWO], [(ONE,)], ["flip"], "length") and not mended([None], [(ONE,)], ["short"], "length")


def test_readers_and_ranks() -> None:
    half = store.no_reader_sees_half_an_object
    assert half([None, ONE, TWO], frozenset([ONE, TWO]), False)
    assert not half([ONE[:1]], frozenset([ONE]), False) and not half([None], frozenset([ONE]), True)
    read = store.what_exists_can_be_read
    assert read(1, [ONE, None], False, ["", ""]) and read(1, [None], False, ["flip"])
    assert not read(2, [ONE, None], False, ["", ""]) and not read(1, [ONE], True, [""])
    rank = store.no_rank_gets_the_pages_of_another
    assert rank([ONE, None], [(ONE,), ()], [(), (TWO,)])
    assert not rank([TWO], [(ONE,)], [(TWO,)]) and rank([TWO], [(ONE, TWO)], [(TWO,)])


def test_buffers() -> None:
    def into(filled: bool, there: bool | None, after: bytes, damage: str = "") -> bool:
        return store.a_miss_leaves_its_buffer_alone([filled], [there], [(ONE,)], [damage], [b"..."], [after])

    assert into(True, True, ONE) and into(False, False, b"...") and into(False, None, b"xxx")
    assert not into(False, True, b"...") and not into(True, False, ONE) and not into(False, False, b"x..")
    assert not into(True, True, TWO) and into(True, None, TWO, "flip")


def test_odd_keys_and_the_rest() -> None:
    odd = store.an_odd_key_names_nothing_but_itself
    assert odd([None, ONE], [(), (ONE,)], [False, True])
    assert not odd([TWO], [(ONE,)], [True]) and not odd([ONE], [()], [False])
    assert not odd([None], [(ONE,)], [True]), "what was accepted is found"
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
    none: list[Collection[bytes]] = [()] * len(keys)
    due = [(one[-1] if replaces else one[0]) if one else None for one in values]
    assert store.exists_counts_the_leading_run(exists(state, keys), there)
    assert store.each_position_is_answered(len(keys), len(got))
    assert store.a_get_returns_what_was_put_under_its_key(got, values, none, damaged)
    assert store.what_was_put_is_found(got, there, damaged)
    assert store.what_is_not_there_is_a_miss(got, there, none)
    assert store.a_second_put_does_as_declared(got, due, damaged)
    assert store.a_corrupt_object_is_a_miss(got, values, damaged, "bytes")
    assert store.an_ordinary_put_is_accepted(accepted, [True] * len(puts))
