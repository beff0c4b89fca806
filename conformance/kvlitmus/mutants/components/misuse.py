"""Mutants of a cache of components whose callers break the contract, and legal variations that ignore what they do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from kvlitmus.conformance.run.plan import COMPONENT_CONFIGS, COMPONENT_HOST_CONFIGS, COMPONENT_STORAGE_CONFIGS
from kvlitmus.conformance.specimen.components.claims import ComponentClaims
from kvlitmus.conformance.specimen.components.storing import ComponentStorehouse
from kvlitmus.conformance.specimen.components.tree import (
    ComponentNode,
    ComponentPools,
    ComponentSpecimen,
    ComponentTree,
)
from kvlitmus.conformance.specimen.parts import PROFILE
from kvlitmus.mutants.registry import mutant, null_mutant
from kvlitmus.spec.words.layouts import Layout
from kvlitmus.spec.words.units import Key

Handed = Counter[tuple[str, int]]


class BelievingClaims(ComponentClaims):
    """Takes whatever comes for the caller's own."""

    def are_owned(self, handed: Mapping[tuple[str, int], int]) -> bool:
        """It always says so."""
        return True


@mutant("component-double-free-makes-memory", kills=("MISUSE-01", "MISUSE-02"))
class DoubleFreeMakesMemory(BelievingClaims):
    """A window's place is freed by the request and by the tree, and goes to two requests: pools believe who frees."""


@mutant("component-duplicates-in-one-free", kills=("MISUSE-02", "MISUSE-03"))
class DuplicatesInOneFree(ComponentClaims):
    """A place that one free names twice is free twice: that it is the caller's is looked up place by place."""

    def are_owned(self, handed: Mapping[tuple[str, int], int]) -> bool:
        """Each by itself."""
        return all(self.owned[place] for place in handed)


@mutant("component-lent-by-handle", kills=("MISUSE-05",))
class LentByHandle(ComponentPools):
    """A caller that works on the places it was given changes the pool: what is in no list that was lent is free."""

    def __init__(self, layout: Layout) -> None:
        super().__init__(layout)
        self.lent: list[tuple[str, list[int], set[int]]] = []

    def alloc(self, wants: Mapping[str, int]) -> dict[str, list[int]] | None:
        """Lend, after a look at what others still have."""
        for pool, handle, known in self.lent:
            gone = known.difference(handle, self.free[pool])
            self.free[pool].extend(gone)
            known -= gone
        granted = super().alloc(wants)
        self.lent += [(self.pool_of[name], some, set(some)) for name, some in (granted or {}).items()]
        return granted

    def give(self, name: str, places: Sequence[int]) -> None:
        """These are lent no more."""
        for pool, _, known in self.lent:
            if pool == self.pool_of[name]:
                known.difference_update(places)
        super().give(name, places)


@mutant("component-insert-believes-its-caller", kills=("MISUSE-02", "MISUSE-08"))
class InsertBelievesItsCaller(ComponentClaims):
    """A place is cached for two prefixes, or is free and cached, after an insert with somebody else's places."""

    def brings(self, key: Key, entries: Mapping[str, Mapping[int, int]]) -> None:
        """Without a look at them."""
        handed = Counter((self.pools.pool_of[name], place) for name, some in entries.items() for place in some.values())
        self.owned -= handed


@mutant("component-insert-looks-too-late", kills=("MISUSE-08",))
class InsertLooksTooLate(ComponentClaims):
    """A refused insert has cached its KV: what is brought of a component is looked at when its turn comes."""

    def brings(self, key: Key, entries: Mapping[str, Mapping[int, int]]) -> None:
        """The KV, and then the others."""
        base = self.tree.base.name
        try:
            super().brings(key, entries)
        except ValueError:
            with suppress(ValueError):
                super().brings(key, {base: dict(list(entries[base].items())[:1])})
                self.tree.insert(key, {base: dict(list(entries[base].items())[:1])})
            raise


@mutant("component-receipt-works-twice", kills=("MISUSE-02",))
class ReceiptWorksTwice(ComponentClaims):
    """A receipt that is given back twice takes somebody else's protection away: it isn't marked as given back."""

    def ends(self, what: object) -> None:
        """Without a look at its past."""


@mutant("component-refused-unlock-still-counts", kills=("MISUSE-09",))
class RefusedUnlockStillCounts(ComponentClaims):
    """After a refused second unlock what nobody protects can't be evicted: it is counted before it is refused."""

    def ends(self, what: object) -> None:
        """The counts first."""
        if isinstance(what, dict) and id(what) not in self.past:
            self.past[id(what)] = what
        elif isinstance(what, dict):
            self.tree.keep(what)
        super().ends(what)

    def __init__(self, pools: ComponentPools, tree: ComponentTree) -> None:
        super().__init__(pools, tree)
        self.past: dict[int, object] = {}


@mutant("component-copy-ends-twice", kills=("MISUSE-02", "MISUSE-08", "MISUSE-09"), configs=COMPONENT_HOST_CONFIGS[:2])
class CopyEndsTwice(ComponentClaims):
    """What a copy brings is given back once more when somebody says twice that it has ended."""

    def goes_on(self, what: object, *, last: bool = False) -> None:
        """Copies are believed."""
        if not hasattr(what, "buffers"):
            super().goes_on(what, last=last)

    def ends(self, what: object) -> None:
        """It may have been forgotten."""
        self.goes_on(what)
        self.out.pop(id(what), None)


@mutant("component-handle-outlives-its-tree", kills=("MISUSE-02",))
class HandleOutlivesItsTree(ComponentClaims):
    """A lock on the hit of a cache that was reset protects nothing, and says that it protects what is gone."""

    def found(self, handle: object) -> ComponentNode | None:
        """Whatever it is a node of."""
        return handle if isinstance(handle, ComponentNode) else super().found(handle)


@mutant("component-asks-for-less-than-none", kills=("MISUSE-02",))
class AsksForLessThanNone(ComponentClaims):
    """Who asks for fewer than no places is told that he has got them: numbers aren't looked at."""

    def asks(self, wants: Mapping[str, int]) -> None:
        """All but the names."""
        super().asks(dict.fromkeys(wants, 0))


@mutant("component-tokens-are-cut-to-their-bits", kills=("MISUSE-13",))
class TokensAreCutToTheirBits(ComponentTree):
    """A prompt is served the states of another one, whose token ids are the same modulo a power of two."""

    def match(self, key: Key) -> ComponentNode | None:
        """The low bits."""
        return super().match(key._replace(tokens=tuple(token % self.profile.vocabulary for token in key.tokens)))


class Ignoring:
    """Each call that the contract forbids returns as if it had not been made."""

    def component_alloc(self, wants: Mapping[str, int]) -> Any:
        """Nobody gets anything."""
        return self.quiet("component_alloc", None, wants)

    def component_free(self, given: Mapping[str, Iterable[int]]) -> Any:
        """Nothing is free."""
        return self.quiet("component_free", None, given)

    def component_insert(self, key: Key, entries: Mapping[str, Mapping[int, int]]) -> Any:
        """Nothing is cached."""
        return self.quiet("component_insert", {}, key, entries)

    def component_lock(self, handle: object) -> Any:
        """Nothing is protected."""
        return self.quiet("component_lock", (None, {}), handle)

    def component_unlock(self, receipt: object) -> Any:
        """Nothing is protected less."""
        return self.quiet("component_unlock", None, receipt)

    def component_evict(self, wants: Mapping[str, int]) -> Any:
        """Nothing goes."""
        return self.quiet("component_evict", {}, wants)

    def component_prefetch_abort(self, fetch: object) -> Any:
        """Nothing is given back."""
        return self.quiet("component_prefetch_abort", {}, fetch)

    def component_copied(self, copy: object, ok: bool) -> Any:
        """Nothing is given back."""
        return self.quiet("component_copied", {}, copy, ok)

    def component_written(self, write: object, ok: bool) -> Any:
        """Nothing has ended."""
        return self.quiet("component_written", None, write, ok)

    def quiet(self, method: str, otherwise: object, *args: object) -> Any:
        """What the call answers; something else where it is refused."""
        try:
            return getattr(super(), method)(*args)
        except ValueError:
            return otherwise


IGNORING = replace(PROFILE, misuse="ignore")


@null_mutant("null-component-ignores-misuse", profile=IGNORING, configs=COMPONENT_CONFIGS)
class IgnoresMisuse(Ignoring, ComponentSpecimen):
    """What the contract forbids changes nothing and raises nothing, as the profile declares."""


@null_mutant("null-component-host-ignores-misuse", profile=IGNORING, configs=COMPONENT_STORAGE_CONFIGS)
class HostIgnoresMisuse(Ignoring, ComponentStorehouse):
    """The same with host memory, and storage behind it."""


@mutant(
    "component-spent-receipt-takes-protection",
    bugs=("L06",),
    links=("https://github.com/LMCache/LMCache/pull/3004", "https://github.com/LMCache/LMCache/issues/4133"),
    kills=("MISUSE-06",),
    profile=IGNORING,
)
class SpentReceiptTakesProtection(IgnoresMisuse):
    """A window that a running request reads can go: a receipt that is given back twice takes another's protection away.

    It raises nothing, as declared, and no entry changes: what is counted as protected shows it.
    """

    def component_unlock(self, receipt: object) -> Any:
        """Without a look at its past."""
        if isinstance(receipt, dict):
            self.tree.unlock(receipt)


@null_mutant("null-component-misuse-is-undefined", profile=replace(PROFILE, misuse="undefined"))
class MisuseIsUndefined(BelievingClaims):
    """What is freed or brought is believed: who breaks the contract breaks the cache, and nothing else was promised."""

    def may_bring(self, key: Key, entries: Mapping[str, Mapping[int, int]]) -> None:
        """Anything."""

    def asks(self, wants: Mapping[str, int]) -> None:
        """Any number."""

    def goes_on(self, what: object, *, last: bool = False) -> None:
        """Anything."""
