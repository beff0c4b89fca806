"""The reference store: against a dictionary, and under faults."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvlitmus.reference.stores import KEY_LIMIT, clear, crash, damage, empty_store, exists, get, place, put

KEYS = st.sampled_from(("a", "b", "c", "1/a", "../a", "é"))
VALUES = st.binary(max_size=4)
RANKS = st.sampled_from((None, 0, 1, 11))
PUTS = st.lists(st.tuples(RANKS, st.lists(st.tuples(KEYS, VALUES), max_size=4)), max_size=6)
BATCH = st.lists(KEYS, max_size=6)

Batches = Sequence[tuple[int | None, Sequence[tuple[str, bytes]]]]


@given(PUTS, st.booleans(), BATCH, RANKS)
def test_it_is_a_dictionary_per_rank(puts: Batches, replaces: bool, keys: Sequence[str], rank: int | None) -> None:
    store = empty_store(replaces=replaces)
    model: dict[tuple[int | None, str], bytes] = {}
    for by, batch in puts:
        store, stored = put(store, [key for key, _ in batch], [value for _, value in batch], by)
        assert stored == (True,) * len(batch)
        for key, value in batch:
            if replaces or (by, key) not in model:
                model[by, key] = value
    expected = [model.get((rank, key)) for key in keys]
    assert list(get(store, keys, rank)) == expected
    assert exists(store, keys, rank) == (expected.index(None) if None in expected else len(keys))
    assert get(clear(store), keys, rank) == (None,) * len(keys)


@given(RANKS, RANKS, st.text(min_size=1, max_size=8), st.text(min_size=1, max_size=8))
def test_places_are_unlike_each_other(rank: int | None, other: int | None, key: str, another: str) -> None:
    one, two = place(key, rank), place(another, other)
    assert one is None or two is None or (one == two) == ((rank, key) == (other, another))


@pytest.mark.parametrize("key", ["", "a\0b", "k" * (KEY_LIMIT + 1)])
def test_odd_keys_are_refused(key: str) -> None:
    store, stored = put(empty_store(), ["a", key, "b"], [b"1", b"2", b"3"])
    assert stored == (True, False, True)
    assert get(store, ["a", key, "b"]) == (b"1", None, b"3")
    assert exists(store, ["a", key, "b"]) == 1
    assert damage(store, key) == store


@pytest.mark.parametrize("replaces", [False, True])
def test_a_damaged_object_is_a_miss_and_is_replaced(replaces: bool) -> None:
    store, _ = put(empty_store(replaces=replaces), ["a", "b"], [b"1", b"2"])
    store = damage(store, "a")
    assert get(store, ["a", "b"]) == (None, b"2")
    assert exists(store, ["a", "b"]) == 0
    store, stored = put(store, ["a"], [b"3"])
    assert (stored, get(store, ["a"])) == ((True,), (b"3",))


def test_faults_hit_one_position() -> None:
    before, _ = put(empty_store(replaces=True), ["b"], [b"old"])
    after, stored = put(before, ["a", "b", "c"], [b"1", b"2", b"3"], failing={1})
    assert stored == (True, False, True)
    assert get(after, ["a", "b", "c"]) == (b"1", b"old", b"3")
    assert crash(before, "b", b"new", finished=False) == before
    assert get(crash(before, "b", b"new", finished=True), ["b"]) == (b"new",)
    with pytest.raises(ValueError, match="as many"):
        put(before, ["a"], [])
