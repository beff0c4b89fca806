"""Litmus tests on a page store: batches, misses, damage, crashes, ranks, and keys that nobody should use."""

from __future__ import annotations

from collections.abc import Sequence

from kvlitmus.conformance.checker.calls import store
from kvlitmus.conformance.checker.checker import Judge
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


def put(judge: Judge, *keys: str) -> None:
    """Put a new page under each of these keys, in one batch."""
    store.put(judge, keys, [store.new_page(judge, key) for key in keys])


@litmus(rules=("STORE-01", "STORE-02", "STORE-05"), needs=STORE)
def an_empty_store_has_nothing(judge: Judge) -> None:
    """Nothing is there at first, whatever one asks for; empty batches have empty answers."""
    for keys in ((), K[:1], K[:4]):
        store.exists(judge, keys)
        store.get(judge, keys)
    store.put(judge, (), ())


@litmus(rules=("STORE-01", "STORE-02", "STORE-03", "STORE-04", "STORE-17"), needs=STORE)
def a_batch_comes_back_in_its_order(judge: Judge) -> None:
    """What was put is found under its own key, in any order and with repetitions."""
    put(judge, *K[:4])
    store.exists(judge, K[:4])
    store.get(judge, K[:4])
    store.get(judge, [K[2], K[0], K[3], K[0]])
    store.get(judge, [K[1]])


@litmus(rules=("STORE-01", "STORE-03", "STORE-05", "STORE-11"), needs=STORE)
def a_gap_ends_the_leading_run(judge: Judge) -> None:
    """Of keys of which the third is missing two are leading; a get answers the others all the same."""
    put(judge, K[0], K[1], K[3], K[4])
    for keys in (K[:5], K[1:5], K[2:5], K[3:5]):
        store.exists(judge, keys)
        store.get(judge, keys)
        store.lookup(judge, keys)


@litmus(rules=("STORE-03", "STORE-06"), needs=STORE)
def a_key_is_put_twice(judge: Judge) -> None:
    """The first or the last value is kept, as declared; it is one of them, whole."""
    put(judge, K[0], K[1])
    put(judge, K[1], K[0])
    store.get(judge, K[:2])
    put(judge, K[2], K[2])
    store.get(judge, [K[2], K[2]])


@litmus(rules=("STORE-05", "STORE-16"), needs=STORE)
def cleared_means_gone(judge: Judge) -> None:
    """After a clear nothing is there, and the same keys can be used again."""
    put(judge, *K[:3])
    store.lookup(judge, K[:3])
    store.clear(judge)
    store.exists(judge, K[:3])
    store.get(judge, K[:3])
    put(judge, K[1])
    store.get(judge, K[:3])
    store.clear(judge)


@litmus(rules=("STORE-13",), needs=("store", "store_into"))
def buffers_of_misses_stay_as_they_are(judge: Judge) -> None:
    """Buffers are filled for pages that are there, and left alone for those that aren't."""
    put(judge, K[0], K[2])
    store.get_into(judge, K[:4])


def damaged(judge: Judge, how: str) -> None:
    """Damage the middle one of three pages; read, put it again, read."""
    put(judge, *K[:3])
    store.get(judge, K[:3])
    store.damage(judge, K[1], how, K[0])
    store.get(judge, [K[1]])
    store.get(judge, K[:3])
    put(judge, K[1])
    store.get(judge, K[:3])


@litmus(rules=("STORE-07", "STORE-09", "STORE-10"), needs=FAULTS)
def half_an_object_is_a_miss(judge: Judge) -> None:
    """An object whose second half is gone is a miss, in its position alone, and the next put replaces it."""
    damaged(judge, "short")


@litmus(rules=("STORE-07", "STORE-09", "STORE-10"), needs=FAULTS)
def an_empty_object_is_a_miss(judge: Judge) -> None:
    """An object of which nothing is left is a miss; a crash of the machine leaves such files."""
    damaged(judge, "empty")


@litmus(rules=("STORE-08", "STORE-09"), needs=FAULTS)
def a_flipped_bit_is_a_miss(judge: Judge) -> None:
    """An object with one wrong bit is a miss: wrong KV is worse than none."""
    damaged(judge, "flip")


@litmus(rules=("STORE-08", "STORE-09"), needs=FAULTS)
def an_object_in_anothers_place_is_a_miss(judge: Judge) -> None:
    """An object that lies where another belongs is a miss, though it is whole."""
    damaged(judge, "other")


@litmus(rules=("STORE-10", "STORE-19"), needs=FAULTS)
def a_huge_object_is_a_miss(judge: Judge) -> None:
    """An object of far more bytes than a page has is a miss; nobody asks for the memory that it would take."""
    damaged(judge, "long")


@litmus(rules=("STORE-10", "STORE-19"), needs=FAULTS)
def a_folder_in_its_place_is_a_miss(judge: Judge) -> None:
    """A folder, or a value of another type, where an object should be is a miss in its position alone."""
    damaged(judge, "folder")


@litmus(rules=("STORE-10", "STORE-19"), needs=FAULTS)
def a_pipe_in_its_place_is_a_miss(judge: Judge) -> None:
    """A pipe where an object should be is a miss: no reader waits for somebody to write to it."""
    damaged(judge, "pipe")


@litmus(rules=("STORE-04", "STORE-09", "STORE-19"), needs=FAULTS)
def a_link_in_its_place_leads_nowhere(judge: Judge) -> None:
    """A link to another object is a miss, and a put replaces the link: what it leads to stays as it was."""
    damaged(judge, "link")


@litmus(rules=("STORE-01", "STORE-05"), needs=FAULTS)
def a_lost_object_is_a_miss(judge: Judge) -> None:
    """An object that somebody removed is a miss, and is not counted, however often it was seen before."""
    put(judge, *K[:3])
    store.lookup(judge, K[:3])
    store.damage(judge, K[1], "gone", K[0])
    store.exists(judge, K[:3])
    store.get(judge, K[:3])
    store.exists(judge, K[:3])


@litmus(rules=("STORE-04",), needs=FAULTS)
def what_is_stored_outlives_the_process(judge: Judge) -> None:
    """A store that is opened again has what was stored before."""
    put(judge, *K[:3])
    store.reopen(judge)
    store.lookup(judge, K[:4])
    put(judge, K[3])
    store.reopen(judge)
    store.get(judge, K[:4])


@litmus(rules=("STORE-11", "STORE-14"), needs=("store", "store_crash"))
def a_writer_dies_in_the_middle(judge: Judge) -> None:
    """A writer that died after any number of bytes left nothing, or a whole page; then the page can be put."""
    size = store.page_bytes(judge)
    for number, after in enumerate((0, 1, size // 2, size - 1, size + 20, size + 1_000)):
        key = K[number]
        store.crash(judge, key, store.new_page(judge, key), after)
        put(judge, key)
        store.get(judge, [key])
    store.get(judge, K)


@litmus(rules=("STORE-14",), needs=("store", "store_crash"))
def a_writer_dies_over_an_older_page(judge: Judge) -> None:
    """A writer that died while it replaced a page left the old one, the new one or none."""
    put(judge, *K[:3])
    for key, after in zip(K, (0, 33, store.page_bytes(judge)), strict=False):
        store.crash(judge, key, store.new_page(judge, key), after)
    store.get(judge, K[:3])


@litmus(rules=("STORE-14",), needs=("store", "store_other"), once=True)
def a_reader_comes_while_pages_are_written(judge: Judge) -> None:
    """A second handle in another thread sees nothing or whole pages while large ones are being put."""
    store.race(judge, range(4), LARGE)


@litmus(rules=("STORE-03", "STORE-05", "STORE-12"), needs=("store", "store_ranks"))
def ranks_keep_their_pages_apart(judge: Judge) -> None:
    """What rank 0 stored isn't there for rank 1, under the same keys; each finds its own."""
    put(judge, K[0], K[1])
    store.rank(judge, 1)
    store.get(judge, K[:3])
    put(judge, K[1], K[2])
    store.get(judge, K[:3])
    store.lookup(judge, K[1:3])
    store.rank(judge, 0)
    store.get(judge, K[:3])


def hostile(judge: Judge, keys: Sequence[str]) -> None:
    """Put keys out of the ordinary, each alone and between two ordinary ones; nothing else may change."""
    put(judge, K[0], K[1])
    for key in keys:
        put(judge, key)
        put(judge, K[2], key, K[3])
        store.get(judge, [K[0], K[1], K[2], K[3]])
        store.get(judge, [key])
    for key in keys:
        store.get(judge, [key])


@litmus(rules=("STORE-18",), needs=STORE)
def a_path_is_not_the_key_that_it_leads_to(judge: Judge) -> None:
    """A key that is a path to another key's file is another key: nothing is put under the one by a put to the other."""
    for key in (f"./{K[9]}", f"a/../{K[9]}", f"{K[9]}/"):
        put(judge, key)
        store.get(judge, [K[9]])


@litmus(rules=("STORE-18",), needs=STORE)
def long_keys_differ_in_their_end(judge: Judge) -> None:
    """Two keys longer than any file name, alike but for the last character, are refused or kept apart."""
    put(judge, LONG + "x")
    store.get(judge, [LONG + "y"])
    put(judge, LONG + "y")
    store.get(judge, [LONG + "x"])


@litmus(rules=("STORE-17", "STORE-18"), needs=STORE)
def odd_keys_are_refused_or_contained(judge: Judge) -> None:
    """Keys that are paths, empty, too long, not printable or no Unicode name nothing but themselves, or nothing."""
    hostile(judge, [*(key for key in HOSTILE if "stray" not in key), LONE])


@litmus(rules=("STORE-15",), needs=("store", "store_yard"))
def no_key_leads_out_of_the_store(judge: Judge) -> None:
    """Nothing appears beside the store, whether a key climbs out of it or is an absolute path."""
    yard = str(judge.look("store_yard"))
    hostile(judge, [*(key for key in HOSTILE if "stray" in key), f"{yard}/stray"])
