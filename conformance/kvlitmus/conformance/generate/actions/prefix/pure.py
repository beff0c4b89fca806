"""Actions that change nothing: hashes, and the plan of a prefetch."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from kvlitmus.conformance.checker.calls.prefix import pure
from kvlitmus.conformance.generate.actions.registry import action
from kvlitmus.conformance.litmus.prefix import hashing_table, prefetch_table
from kvlitmus.spec.words.units import Key

if TYPE_CHECKING:
    from kvlitmus.conformance.generate.caller import Caller


@action("hashes")
def hashes(caller: Caller, a: int, b: int, c: int) -> None:
    """Hash keys that share a beginning: one of them whole and in pieces, both, and in another namespace."""
    take = random.Random(a << 16 | b << 8 | c).randrange
    key, other, size, pages = hashing_table.draw(take)
    key, other = caller.fit(key), caller.fit(other)
    pure.hashes(caller.checker, key, size)
    pure.hash_pieces(caller.checker, key, size, pages)
    pure.hash_pair(caller.checker, key, other, size)
    foreign = caller.fit(Key("lora-c", key.tokens, key.bigram)).namespace
    if foreign != key.namespace:
        pure.hash_namespaces(caller.checker, key, foreign, size)


@action("plan")
def plan(caller: Caller, a: int, b: int, c: int) -> None:
    """Have a prefetch planned."""
    ask, script = prefetch_table.draw(random.Random(a << 16 | b << 8 | c).randrange)
    pure.plan(caller.checker, ask, script)


@action("plan_behind")
def plan_behind(caller: Caller, a: int, b: int, c: int) -> None:
    """Have the same prefetch planned for what follows pages that have names in storage."""
    take = random.Random(a << 16 | b << 8 | c).randrange
    ask, script = prefetch_table.draw(take)
    pure.plan(caller.checker, ask._replace(prefix_keys=prefetch_table.names_before(take)), script)
