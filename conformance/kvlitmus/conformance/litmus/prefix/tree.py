"""Litmus tests on the prefix tree."""

from __future__ import annotations

from kvlitmus.conformance.checker.calls.prefix import pool, tree
from kvlitmus.conformance.checker.checker import Checker
from kvlitmus.conformance.litmus.keys import prompt
from kvlitmus.conformance.litmus.registry import litmus
from kvlitmus.spec.words.units import Key, Slot, page_floor

TREE = ("pool", "tree")


def store(checker: Checker, key: Key, *, priority: int = 0, chunked: bool = False) -> None:
    """Insert a key with slots of the suite's own, and free what was brought in vain."""
    whole = page_floor(key.length, checker.size)
    slots: tuple[Slot, ...] | None = pool.alloc(checker, whole) if whole else ()
    if slots is not None:
        vain = tree.insert(checker, key, slots, priority=priority, chunked=chunked)
        if vain:
            pool.free(checker, vain)


@litmus(rules=("TREE-01", "TREE-02", "TREE-03", "TREE-04", "TREE-08"), needs=TREE)
def what_was_inserted_is_matched(checker: Checker) -> None:
    """A key that was inserted is matched whole, its prefixes in part, its extensions up to its end."""
    store(checker, prompt(checker, "abc"))
    for ways in ("abc", "ab", "a", "abcd", "b", ""):
        tree.match(checker, prompt(checker, ways))


@litmus(rules=("TREE-02", "TREE-05", "TREE-06", "TREE-08", "TREE-09"), needs=TREE)
def keys_that_part_share_their_common_pages(checker: Checker) -> None:
    """Keys that part after one or two pages share what they have in common, in whatever order they come."""
    for ways in ("abcd", "abxy", "az", "abcdef", "ab"):
        store(checker, prompt(checker, ways))
    for ways in ("abcd", "abxy", "az", "abcdef", "abx", "abcq"):
        tree.match(checker, prompt(checker, ways))


@litmus(rules=("TREE-03", "TREE-07"), needs=TREE)
def the_same_page_at_another_position_is_another_page(checker: Checker) -> None:
    """Equal tokens after different prefixes have different KV: they are never matched for one another."""
    for ways in ("aaa", "baa", "aba"):
        store(checker, prompt(checker, ways))
    for ways in ("aaaa", "baaa", "abaa", "bba"):
        tree.match(checker, prompt(checker, ways))


@litmus(rules=("TREE-02", "TREE-03"), needs=TREE)
def namespaces_never_meet(checker: Checker) -> None:
    """The same tokens in another namespace are another key: nothing is shared, nothing is found."""
    for namespace in (None, "tenant-a", "tenant-b"):
        tree.match(checker, prompt(checker, "ab", namespace=namespace))
        store(checker, prompt(checker, "ab", namespace=namespace))
    for namespace in ("tenant-a", None, "tenant-b", "tenant-c"):
        tree.match(checker, prompt(checker, "abc", namespace=namespace))


@litmus(rules=("TREE-01", "TREE-10"), needs=TREE, min_page=2)
def keys_that_part_within_a_page_share_only_what_is_before_it(checker: Checker) -> None:
    """A page that differs in its last token only is another page: a match never ends inside one."""
    store(checker, prompt(checker, "abc"))
    for ways in ("aB", "A", "abC", "aBc"):
        tree.match(checker, prompt(checker, ways))
        store(checker, prompt(checker, ways))
    tree.match(checker, prompt(checker, "abc"))


@litmus(rules=("TREE-01", "TREE-02", "TREE-10"), needs=TREE)
def keys_shorter_than_a_page_match_nothing(checker: Checker) -> None:
    """A key that fills no page matches nothing, is inserted without effect, and does no harm."""
    store(checker, prompt(checker, "a"))
    for tail in range(checker.size):
        key = prompt(checker, "", tail=tail)
        tree.match(checker, key)
        store(checker, key)
        tree.match(checker, prompt(checker, "a", tail=tail))


@litmus(rules=("TREE-08", "TREE-09", "TREE-11", "TREE-12"), needs=TREE)
def what_was_brought_in_vain_is_the_callers_to_free(checker: Checker) -> None:
    """Inserting what is cached already leaves the old pages in place and the new ones to the caller."""
    for ways in ("ab", "ab", "abcd", "a"):
        store(checker, prompt(checker, ways))
    tree.match(checker, prompt(checker, "abcd"))


@litmus(rules=("TREE-09", "TREE-11"), needs=("pool", "tree", "locks"))
def a_caller_that_reuses_a_prefix_frees_none_of_it(checker: Checker) -> None:
    """An insert that begins with the tree's own slots leaves those to the tree."""
    store(checker, prompt(checker, "ab"))
    key = prompt(checker, "abcd")
    hit = tree.match(checker, key)
    tree.lock(checker, hit, key, 1)
    own = pool.alloc(checker, page_floor(key.length, checker.size) - hit.length)
    if own is not None and hit.slots is not None:
        vain = tree.insert(checker, key, (*map(Slot, hit.slots), *own), protected=hit.length)
        if vain:
            pool.free(checker, vain)
    tree.unlock(checker, 1)
    tree.match(checker, key)


@litmus(rules=("TREE-13",), needs=("pool", "tree", "inspect"))
def hits_are_counted_once_per_use(checker: Checker) -> None:
    """Each insert counts once on the whole path, a match as declared, and a chunk not at all; splits inherit."""
    store(checker, prompt(checker, "abc"))
    store(checker, prompt(checker, "abc"))
    tree.match(checker, prompt(checker, "ab"))
    store(checker, prompt(checker, "abcd"), chunked=True)
    store(checker, prompt(checker, "ax"))
    store(checker, prompt(checker, "ax"), chunked=True)


@litmus(rules=("TREE-14",), needs=("pool", "tree", "inspect"))
def priority_is_the_highest_ever_given(checker: Checker) -> None:
    """A higher priority raises the whole path, a lower one changes nothing."""
    for ways, priority in (("ab", 1), ("abc", 3), ("ab", 0), ("ax", 2), ("abcd", 1)):
        store(checker, prompt(checker, ways), priority=priority)


@litmus(rules=("TREE-04", "TREE-06"), needs=("pool", "tree", "inspect"))
def matching_moves_nothing(checker: Checker) -> None:
    """However often and wherever a match ends, the same pages stay cached in the same places."""
    store(checker, prompt(checker, "abcdef"))
    for ways in ("abc", "ab", "abcde", "a", "abcx", "abcdefg"):
        tree.match(checker, prompt(checker, ways))


@litmus(rules=("TREE-01", "TREE-03", "TREE-10"), needs=TREE, bigram=True)
def a_bigram_key_ends_one_unit_early(checker: Checker) -> None:
    """With bigrams a page needs one token more, and the last token's own KV is never shared."""
    size = checker.size
    store(checker, prompt(checker, "ab"))
    whole = prompt(checker, "ab").tokens
    for tokens in (whole, whole[:-1], (*whole[:-1], 99), whole[:size], whole[: size + 1], whole[:1], ()):
        tree.match(checker, Key(None, tokens, bigram=True))
        store(checker, Key(None, tokens, bigram=True))
