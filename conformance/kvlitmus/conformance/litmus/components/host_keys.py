"""Litmus tests on host memory of components with keys of two namespaces, of bigrams, and that part on the host."""

from __future__ import annotations

from kvlitmus.conformance.checker.calls.components import tree as components
from kvlitmus.conformance.checker.checker import Checker
from kvlitmus.conformance.generate.actions.components.tree import use
from kvlitmus.conformance.litmus.components.host import NEEDS, back_up, backed, beginning, end, load
from kvlitmus.conformance.litmus.components.tree import ALL, evict_all
from kvlitmus.conformance.litmus.keys import prompt
from kvlitmus.conformance.litmus.registry import litmus
from kvlitmus.spec.words.units import Key


def parting(checker: Checker, key: Key, pages: int, ways: str) -> Key:
    """A key that goes other ways behind these pages of another one."""
    begins = beginning(checker, key, pages)
    return begins._replace(tokens=begins.tokens + prompt(checker, ways).tokens)


@litmus(rules=("COMP-32", "LOAD-11", "COMP-36", "COMP-15"), needs=NEEDS)
def a_namespace_has_its_own_host_memory(checker: Checker) -> None:
    """What one namespace has on the host is not loaded for another, nor does it count as backed up for that."""
    ours, theirs = [prompt(checker, "ab", tail=1, namespace=one) for one in (None, "other")]
    backed(checker, ours)
    evict_all(checker)
    load(checker, theirs)
    end(checker)
    components.match(checker, theirs)
    backed(checker, theirs)
    evict_all(checker)
    for key in (theirs, ours):
        load(checker, key)
        end(checker)
        components.match(checker, key)


@litmus(rules=("COMP-32", "COMP-15"), needs=NEEDS)
def a_longer_key_of_another_namespace_is_backed_up_whole(checker: Checker) -> None:
    """One namespace has the first half of a key on the host: another one's backup of the key copies that half, too."""
    backed(checker, beginning(checker, prompt(checker, "abcd"), 2))
    backed(checker, prompt(checker, "abcd", namespace="other"))


@litmus(rules=("LOAD-11", "COMP-36"), needs=NEEDS, bigram=True)
def a_bigram_on_the_host_knows_its_next_token(checker: Checker) -> None:
    """A key that goes on with another token behind its first page has no page there; the same key has them all."""
    key = prompt(checker, "ab")
    backed(checker, key)
    evict_all(checker)
    for ways in ("ac", "abc", "ab"):
        load(checker, prompt(checker, ways))
        end(checker)
        components.match(checker, prompt(checker, ways))


@litmus(rules=("COMP-32", "LOAD-11", "COMP-36", "COMP-15"), needs=NEEDS)
def a_key_parts_from_what_is_on_the_host(checker: Checker) -> None:
    """A key has the first half of what was backed up: that much is loaded, and what it adds is backed up beside it."""
    key = prompt(checker, "abcd")
    other = parting(checker, key, 2, "xy")
    backed(checker, beginning(checker, key, 2))
    backed(checker, key)
    evict_all(checker)
    load(checker, other)
    end(checker)
    components.match(checker, other)
    use(checker, other, ALL)
    back_up(checker, other)
    end(checker)
    evict_all(checker)
    for one in (other, key):
        load(checker, one)
        end(checker)
        components.match(checker, one)
    load(checker, other)


@litmus(rules=("COMP-32",), needs=NEEDS)
def two_keys_part_behind_one_page(checker: Checker) -> None:
    """Two keys of equal length are backed up that part behind their first pages: each has pages of its own there."""
    key = prompt(checker, "abcd")
    for one in (key, parting(checker, key, 2, "xy")):
        backed(checker, one)
