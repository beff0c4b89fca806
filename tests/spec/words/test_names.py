"""Names stand for prefixes, one to one."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kvlitmus.spec.words.names import Names, page_names
from kvlitmus.spec.words.units import (
    Key,
    Slot,
    Unit,
    page_ceil,
    page_floor,
    pages_in_order,
    pages_needed,
    pages_of,
    same,
)

NAMESPACES = st.sampled_from([None, "a", "b", ""])
UNITS = st.lists(st.one_of(st.integers(0, 3), st.tuples(st.integers(0, 2), st.integers(0, 2))), max_size=8)


@given(st.lists(st.tuples(NAMESPACES, UNITS), max_size=6))
def test_equal_prefixes_have_equal_names_and_a_name_reads_back(keys: list[tuple[str | None, list[Unit]]]) -> None:
    names = Names()
    seen: dict[tuple[object, tuple[object, ...]], int] = {}
    for namespace, units in keys:
        found = names.of(namespace, units)

        assert len(found) == len(units)
        for end, name in enumerate(found, 1):
            prefix = (namespace, tuple(units[:end]))
            assert names.prefix(name) == prefix
            assert seen.setdefault(prefix, name) == name

    assert len(set(seen.values())) == len(seen)


@given(UNITS, st.integers(0, 8), st.integers(1, 4))
def test_extending_and_paging_agree_with_naming_at_once(units: list[Unit], cut: int, page: int) -> None:
    names = Names()
    whole = names.of("a", units)
    head = names.of("a", units[:cut])
    tail = names.extend(head[-1] if head else names.root("a"), units[cut:])

    assert head + tail == whole
    assert page_names(whole, page) == tuple(whole[end - 1] for end in range(page, len(whole) + 1, page))


@given(st.integers(0, 1000), st.integers(1, 64))
def test_pages_hold_what_they_must(tokens: int, page: int) -> None:
    assert page_floor(tokens, page) <= tokens <= page_ceil(tokens, page)
    assert pages_needed(tokens, page) * page == page_ceil(tokens, page)
    slots = [Slot(7 * page + offset) for offset in range(tokens)]
    assert pages_of(slots, page) == set(pages_in_order(slots, page))


def test_bigram_keys_are_one_unit_shorter_and_never_negative() -> None:
    assert Key(None, (1, 2, 3), bigram=True).units == ((1, 2), (2, 3))
    assert Key(None, (1,), bigram=True).length == Key(None, (), bigram=True).length == 0
    assert Key(None, (1, 2, 3)).length == 3


def test_same_compares_lengths_and_elements() -> None:
    assert same([1, 2], (1, 2))
    assert not same([1, 2], [1])
    assert not same([1, 2], [2, 1])
