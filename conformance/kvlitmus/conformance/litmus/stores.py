"""Litmus tests on a page store: batches, misses, damage, crashes, ranks, and keys that nobody should use."""

from __future__ import annotations

from collections.abc import Sequence

from kvlitmus.conformance.checker.calls import stores as store
from kvlitmus.conformance.checker.checker import Checker
from kvlitmus.conformance.litmus.registry import litmus

STORE = ("store",)
FAULTS = ("store", "store_faults")
K = [store.ordinary_key(number) for number in range(10)]
"""Ten keys that every store must take."""

LARGE = 1 << 21
"""Pages that take long enough to write that a reader can come in between."""

LONG = "n" * 300
HOSTILE: tuple[str, ...] = (
    "../stray",
    "a/../../stray",
    "a/../" + K[9],
    "./" + K[9],
    LONG + "x",
    LONG + "y",
    "a\0b",
    "",
    ".",
    "a\nb",
    "ü" * 100,
)
"""Keys that no engine uses, and that somebody may get a store to see all the same."""
LONE = "lone \ud800"
"""A key with half of a pair of surrogates, as JSON can spell it: there is no UTF-8 for it."""


def put(checker: Checker, *keys: str) -> None:
    """Put a new page under each of these keys, in one batch."""
    store.put(checker, keys, [store.new_page(checker, key) for key in keys])


@litmus(rules=("STORE-01", "STORE-02", "STORE-05"), needs=STORE)
def an_empty_store_has_nothing(checker: Checker) -> None:
    """Nothing is there at first, whatever one asks for; empty batches have empty answers."""
    for keys in ((), K[:1], K[:4]):
        store.exists(checker, keys)
        store.get(checker, keys)
    store.put(checker, (), ())


@litmus(rules=("STORE-01", "STORE-02", "STORE-03", "STORE-04", "STORE-17"), needs=STORE)
def a_batch_comes_back_in_its_order(checker: Checker) -> None:
    """What was put is found under its own key, in any order and with repetitions."""
    put(checker, *K[:4])
    store.exists(checker, K[:4])
    store.get(checker, K[:4])
    store.get(checker, [K[2], K[0], K[3], K[0]])
    store.get(checker, [K[1]])


@litmus(rules=("STORE-01", "STORE-03", "STORE-05", "STORE-11"), needs=STORE)
def a_gap_ends_the_leading_run(checker: Checker) -> None:
    """Of keys of which the third is missing two are leading; a get answers the others all the same."""
    put(checker, K[0], K[1], K[3], K[4])
    for keys in (K[:5], K[1:5], K[2:5], K[3:5]):
        store.exists(checker, keys)
        store.get(checker, keys)
        store.lookup(checker, keys)


@litmus(rules=("STORE-03", "STORE-06"), needs=STORE)
def a_key_is_put_twice(checker: Checker) -> None:
    """The first or the last value is kept, as declared; it is one of them, whole."""
    put(checker, K[0], K[1])
    put(checker, K[1], K[0])
    store.get(checker, K[:2])
    put(checker, K[2], K[2])
    store.get(checker, [K[2], K[2]])


@litmus(rules=("STORE-05", "STORE-16"), needs=STORE)
def cleared_means_gone(checker: Checker) -> None:
    """After a clear nothing is there, and the same keys can be used again."""
    put(checker, *K[:3])
    store.lookup(checker, K[:3])
    store.clear(checker)
    store.exists(checker, K[:3])
    store.get(checker, K[:3])
    put(checker, K[1])
    store.get(checker, K[:3])
    store.clear(checker)


@litmus(rules=("STORE-13",), needs=("store", "store_into"))
def buffers_of_misses_stay_as_they_are(checker: Checker) -> None:
    """Buffers are filled for pages that are there, and left alone for those that aren't."""
    put(checker, K[0], K[2])
    store.get_into(checker, K[:4])


def damaged(checker: Checker, how: str) -> None:
    """Damage the middle one of three pages; read, put it again, read."""
    put(checker, *K[:3])
    store.get(checker, K[:3])
    store.damage(checker, K[1], how, K[0])
    store.get(checker, [K[1]])
    store.get(checker, K[:3])
    put(checker, K[1])
    store.get(checker, K[:3])


@litmus(rules=("STORE-07", "STORE-09", "STORE-10"), needs=FAULTS)
def half_an_object_is_a_miss(checker: Checker) -> None:
    """An object whose second half is gone is a miss, in its position alone, and the next put replaces it."""
    damaged(checker, "short")


@litmus(rules=("STORE-07", "STORE-09", "STORE-10"), needs=FAULTS)
def an_empty_object_is_a_miss(checker: Checker) -> None:
    """An object of which nothing is left is a miss; a crash of the machine leaves such files."""
    damaged(checker, "empty")


@litmus(rules=("STORE-08", "STORE-09"), needs=FAULTS)
def a_flipped_bit_is_a_miss(checker: Checker) -> None:
    """An object with one wrong bit is a miss: wrong KV is worse than none."""
    damaged(checker, "flip")


@litmus(rules=("STORE-08", "STORE-09"), needs=FAULTS)
def an_object_in_anothers_place_is_a_miss(checker: Checker) -> None:
    """An object that lies where another belongs is a miss, though it is whole."""
    damaged(checker, "other")


@litmus(rules=("STORE-10", "STORE-19"), needs=FAULTS)
def a_huge_object_is_a_miss(checker: Checker) -> None:
    """An object of far more bytes than a page has is a miss; nobody asks for the memory that it would take."""
    damaged(checker, "long")


@litmus(rules=("STORE-10", "STORE-19"), needs=FAULTS)
def a_folder_in_its_place_is_a_miss(checker: Checker) -> None:
    """A folder, or a value of another type, where an object should be is a miss in its position alone."""
    damaged(checker, "folder")


@litmus(rules=("STORE-10", "STORE-19"), needs=FAULTS)
def a_pipe_in_its_place_is_a_miss(checker: Checker) -> None:
    """A pipe where an object should be is a miss: no reader waits for somebody to write to it."""
    damaged(checker, "pipe")


@litmus(rules=("STORE-04", "STORE-09", "STORE-19"), needs=FAULTS)
def a_link_in_its_place_leads_nowhere(checker: Checker) -> None:
    """A link to another object is a miss, and a put replaces the link: what it leads to stays as it was."""
    damaged(checker, "link")


@litmus(rules=("STORE-01", "STORE-05"), needs=FAULTS)
def a_lost_object_is_a_miss(checker: Checker) -> None:
    """An object that somebody removed is a miss, and is not counted, however often it was seen before."""
    put(checker, *K[:3])
    store.lookup(checker, K[:3])
    store.damage(checker, K[1], "gone", K[0])
    store.exists(checker, K[:3])
    store.get(checker, K[:3])
    store.exists(checker, K[:3])


@litmus(rules=("STORE-04",), needs=FAULTS)
def what_is_stored_outlives_the_process(checker: Checker) -> None:
    """A store that is opened again has what was stored before."""
    put(checker, *K[:3])
    store.reopen(checker)
    store.lookup(checker, K[:4])
    put(checker, K[3])
    store.reopen(checker)
    store.get(checker, K[:4])


@litmus(rules=("STORE-11", "STORE-14"), needs=("store", "store_crash"))
def a_writer_dies_in_the_middle(checker: Checker) -> None:
    """A writer that died after any number of bytes left nothing, or a whole page; then the page can be put."""
    size = store.page_bytes(checker)
    for number, after in enumerate((0, 1, size // 2, size - 1, size + 20, size + 1_000)):
        key = K[number]
        store.crash(checker, key, store.new_page(checker, key), after)
        put(checker, key)
        store.get(checker, [key])
    store.get(checker, K)


@litmus(rules=("STORE-14",), needs=("store", "store_crash"))
def a_writer_dies_over_an_older_page(checker: Checker) -> None:
    """A writer that died while it replaced a page left the old one, the new one or none."""
    put(checker, *K[:3])
    for key, after in zip(K, (0, 33, store.page_bytes(checker)), strict=False):
        store.crash(checker, key, store.new_page(checker, key), after)
    store.get(checker, K[:3])


@litmus(rules=("STORE-14",), needs=("store", "store_other"), once=True)
def a_reader_comes_while_pages_are_written(checker: Checker) -> None:
    """A second handle in another thread sees nothing or whole pages while large ones are being put."""
    store.race(checker, range(4), LARGE)


@litmus(rules=("STORE-03", "STORE-05", "STORE-12"), needs=("store", "store_ranks"))
def ranks_keep_their_pages_apart(checker: Checker) -> None:
    """What rank 0 stored isn't there for rank 1, under the same keys; each finds its own."""
    put(checker, K[0], K[1])
    store.rank(checker, 1)
    store.get(checker, K[:3])
    put(checker, K[1], K[2])
    store.get(checker, K[:3])
    store.lookup(checker, K[1:3])
    store.rank(checker, 0)
    store.get(checker, K[:3])


def hostile(checker: Checker, keys: Sequence[str]) -> None:
    """Put keys out of the ordinary, each alone and between two ordinary ones; nothing else may change."""
    put(checker, K[0], K[1])
    for key in keys:
        put(checker, key)
        put(checker, K[2], key, K[3])
        store.get(checker, [K[0], K[1], K[2], K[3]])
        store.get(checker, [key])
    for key in keys:
        store.get(checker, [key])


@litmus(rules=("STORE-18",), needs=STORE)
def a_path_is_not_the_key_that_it_leads_to(checker: Checker) -> None:
    """A key that is a path to another key's file is another key: nothing is put under the one by a put to the other."""
    for key in (f"./{K[9]}", f"a/../{K[9]}", f"{K[9]}/"):
        put(checker, key)
        store.get(checker, [K[9]])


@litmus(rules=("STORE-18",), needs=STORE)
def long_keys_differ_in_their_end(checker: Checker) -> None:
    """Two keys longer than any file name, alike but for the last character, are refused or kept apart."""
    put(checker, LONG + "x")
    store.get(checker, [LONG + "y"])
    put(checker, LONG + "y")
    store.get(checker, [LONG + "x"])


@litmus(rules=("STORE-17", "STORE-18"), needs=STORE)
def odd_keys_are_refused_or_contained(checker: Checker) -> None:
    """Keys that are paths, empty, too long, not printable or no Unicode name nothing but themselves, or nothing."""
    hostile(checker, [*(key for key in HOSTILE if "stray" not in key), LONE])


@litmus(rules=("STORE-15",), needs=("store", "store_yard"))
def no_key_leads_out_of_the_store(checker: Checker) -> None:
    """Nothing appears beside the store, whether a key climbs out of it or is an absolute path."""
    yard = store.yard(checker)
    hostile(checker, [*(key for key in HOSTILE if "stray" in key), f"{yard}/stray"])
