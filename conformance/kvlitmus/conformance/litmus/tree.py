"""Litmus tests on the prefix tree."""

from __future__ import annotations

from kvlitmus.conformance.checker.calls import pool, tree
from kvlitmus.conformance.checker.checker import Judge
from kvlitmus.conformance.litmus.keys import prompt
from kvlitmus.conformance.litmus.registry import litmus
from kvlitmus.spec.units import Key, Slot, page_floor

TREE = ("pool", "tree")


def store(judge: Judge, key: Key, *, priority: int = 0, chunked: bool = False) -> None:
    """Insert a key with slots of the suite's own, and free what was brought in vain."""
    whole = page_floor(key.length, judge.size)
    slots: tuple[Slot, ...] | None = pool.alloc(judge, whole) if whole else ()
    if slots is not None:
        vain = tree.insert(judge, key, slots, priority=priority, chunked=chunked)
        if vain:
            pool.free(judge, vain)


@litmus(rules=("TREE-01", "TREE-02", "TREE-03", "TREE-04", "TREE-08"), needs=TREE)
def what_was_inserted_is_matched(judge: Judge) -> None:
    """A key that was inserted is matched whole, its prefixes in part, its extensions up to its end."""
    store(judge, prompt(judge, "abc"))
    for ways in ("abc", "ab", "a", "abcd", "b", ""):
        tree.match(judge, prompt(judge, ways))


@litmus(rules=("TREE-02", "TREE-05", "TREE-06", "TREE-08", "TREE-09"), needs=TREE)
def keys_that_part_share_their_common_pages(judge: Judge) -> None:
    """Keys that part after one or two pages share what they have in common, in whatever order they come."""
    for ways in ("abcd", "abxy", "az", "abcdef", "ab"):
        store(judge, prompt(judge, ways))
    for ways in ("abcd", "abxy", "az", "abcdef", "abx", "abcq"):
        tree.match(judge, prompt(judge, ways))


@litmus(rules=("TREE-03", "TREE-07"), needs=TREE)
def the_same_page_at_another_position_is_another_page(judge: Judge) -> None:
    """Equal tokens after different prefixes have different KV: they are never matched for one another."""
    for ways in ("aaa", "baa", "aba"):
        store(judge, prompt(judge, ways))
    for ways in ("aaaa", "baaa", "abaa", "bba"):
        tree.match(judge, prompt(judge, ways))


@litmus(rules=("TREE-02", "TREE-03"), needs=TREE)
def namespaces_never_meet(judge: Judge) -> None:
    """The same tokens in another namespace are another key: nothing is shared, nothing is found."""
    for namespace in (None, "tenant-a", "tenant-b"):
        tree.match(judge, prompt(judge, "ab", namespace=namespace))
        store(judge, prompt(judge, "ab", namespace=namespace))
    for namespace in ("tenant-a", None, "tenant-b", "tenant-c"):
        tree.match(judge, prompt(judge, "abc", namespace=namespace))


@litmus(rules=("TREE-01", "TREE-10"), needs=TREE, min_page=2)
def keys_that_part_within_a_page_share_only_what_is_before_it(judge: Judge) -> None:
    """A page that differs in its last token only is another page: a match never ends inside one."""
    store(judge, prompt(judge, "abc"))
    for ways in ("aB", "A", "abC", "aBc"):
        tree.match(judge, prompt(judge, ways))
        store(judge, prompt(judge, ways))
    tree.match(judge, prompt(judge, "abc"))


@litmus(rules=("TREE-01", "TREE-02", "TREE-10"), needs=TREE)
def keys_shorter_than_a_page_match_nothing(judge: Judge) -> None:
    """A key that fills no page matches nothing, is inserted without effect, and does no harm."""
    store(judge, prompt(judge, "a"))
    for tail in range(judge.size):
        key = prompt(judge, "", tail=tail)
        tree.match(judge, key)
        store(judge, key)
        tree.match(judge, prompt(judge, "a", tail=tail))


@litmus(rules=("TREE-08", "TREE-09", "TREE-11", "TREE-12"), needs=TREE)
def what_was_brought_in_vain_is_the_callers_to_free(judge: Judge) -> None:
    """Inserting what is cached already leaves the old pages in place and the new ones to the caller."""
    for ways in ("ab", "ab", "abcd", "a"):
        store(judge, prompt(judge, ways))
    tree.match(judge, prompt(judge, "abcd"))


@litmus(rules=("TREE-09", "TREE-11"), needs=("pool", "tree", "locks"))
def a_caller_that_reuses_a_prefix_frees_none_of_it(judge: Judge) -> None:
    """An insert that begins with the tree's own slots leaves those to the tree."""
    store(judge, prompt(judge, "ab"))
    key = prompt(judge, "abcd")
    hit = tree.match(judge, key)
    tree.lock(judge, hit, key, 1)
    own = pool.alloc(judge, page_floor(key.length, judge.size) - hit.length)
    if own is not None and hit.slots is not None:
        vain = tree.insert(judge, key, (*map(Slot, hit.slots), *own), protected=hit.length)
        if vain:
            pool.free(judge, vain)
    tree.unlock(judge, 1)
    tree.match(judge, key)


@litmus(rules=("TREE-13",), needs=("pool", "tree", "inspect"))
def hits_are_counted_once_per_use(judge: Judge) -> None:
    """Each insert counts once on the whole path, a match as declared, and a chunk not at all; splits inherit."""
    store(judge, prompt(judge, "abc"))
    store(judge, prompt(judge, "abc"))
    tree.match(judge, prompt(judge, "ab"))
    store(judge, prompt(judge, "abcd"), chunked=True)
    store(judge, prompt(judge, "ax"))
    store(judge, prompt(judge, "ax"), chunked=True)


@litmus(rules=("TREE-14",), needs=("pool", "tree", "inspect"))
def priority_is_the_highest_ever_given(judge: Judge) -> None:
    """A higher priority raises the whole path, a lower one changes nothing."""
    for ways, priority in (("ab", 1), ("abc", 3), ("ab", 0), ("ax", 2), ("abcd", 1)):
        store(judge, prompt(judge, ways), priority=priority)


@litmus(rules=("TREE-04", "TREE-06"), needs=("pool", "tree", "inspect"))
def matching_moves_nothing(judge: Judge) -> None:
    """However often and wherever a match ends, the same pages stay cached in the same places."""
    store(judge, prompt(judge, "abcdef"))
    for ways in ("abc", "ab", "abcde", "a", "abcx", "abcdefg"):
        tree.match(judge, prompt(judge, ways))


@litmus(rules=("TREE-01", "TREE-03", "TREE-10"), needs=TREE, bigram=True)
def a_bigram_key_ends_one_unit_early(judge: Judge) -> None:
    """With bigrams a page needs one token more, and the last token's own KV is never shared."""
    size = judge.size
    store(judge, prompt(judge, "ab"))
    whole = prompt(judge, "ab").tokens
    for tokens in (whole, whole[:-1], (*whole[:-1], 99), whole[:size], whole[: size + 1], whole[:1], ()):
        tree.match(judge, Key(None, tokens, bigram=True))
        store(judge, Key(None, tokens, bigram=True))
