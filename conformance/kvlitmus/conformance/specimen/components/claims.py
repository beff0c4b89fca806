"""What the caller of the specimen's cache of components has: places of its own, and what it will come back with."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from kvlitmus.conformance.specimen.components.tree import ComponentNode, ComponentPools, ComponentTree
from kvlitmus.spec.words.limits import ALL_TOKENS
from kvlitmus.spec.words.shapes import Component
from kvlitmus.spec.words.units import Key


class ComponentClaims:
    """What callers own, and what they were told to come back with.

    Who breaks the contract is refused before anything has changed: each check raises ``ValueError``.
    """

    def __init__(self, pools: ComponentPools, tree: ComponentTree) -> None:
        self.pools, self.tree = pools, tree
        self.components = {one.name: one for one in pools.layout.components}
        self.owned: Counter[tuple[str, int]] = Counter()
        self.out: dict[int, object] = {}

    def asks(self, wants: Mapping[str, int]) -> None:
        """So many places of each component are asked for."""
        if not wants.keys() <= self.components.keys() or any(many < 0 for many in wants.values()):
            raise ValueError(f"nobody can have {dict(wants)}")

    def gets(self, entries: Mapping[str, Sequence[int]]) -> None:
        """The caller owns these from now on."""
        self.owned.update([(self.pools.pool_of[name], place) for name, places in entries.items() for place in places])

    def gives(self, given: Mapping[str, Iterable[int]]) -> None:
        """The caller gives these up, all of which have to be its own."""
        self.owned -= self.handed(given)

    def handed(self, given: Mapping[str, Iterable[int]]) -> Counter[tuple[str, int]]:
        """The places that are handed over, all of which have to be the caller's."""
        if not given.keys() <= self.components.keys():
            raise ValueError(f"there are no such components: {sorted(given)}")
        handed = Counter([(self.pools.pool_of[name], place) for name, places in given.items() for place in places])
        if not self.are_owned(handed):
            raise ValueError(f"not all of {dict(given)} are the caller's, each once")
        return handed

    def are_owned(self, handed: Mapping[tuple[str, int], int]) -> bool:
        """Whether the caller owns all these places, as often as they are handed over."""
        return all(self.owned[place] >= many for place, many in handed.items())

    def brings(self, key: Key, entries: Mapping[str, Mapping[int, int]]) -> None:
        """The caller brings entries for a key, in places of its own, and gives them up."""
        self.may_bring(key, entries)
        self.gives({name: some.values() for name, some in entries.items()})

    def may_bring(self, key: Key, entries: Mapping[str, Mapping[int, int]]) -> None:
        """Whoever brings entries for a key brings what can be cached for it, in places of its own."""
        if any(not 0 <= token < ALL_TOKENS for token in key.tokens):
            raise ValueError("a token that no key has")
        for name, some in entries.items():
            if name not in self.components or any(not self.may_end(self.components[name], key, end) for end in some):
                raise ValueError(f"nothing of {name} ends at {sorted(some)} of {len(key.units)} units")
        self.handed({name: some.values() for name, some in entries.items()})

    def may_end(self, component: Component, key: Key, end: int) -> bool:
        """Whether an entry of a component may end there."""
        return 0 < end <= len(key.units) and end % component.unit == 0

    def found(self, handle: object) -> ComponentNode | None:
        """The node of a hit, which has to be there still."""
        if handle is None:
            return None
        if not isinstance(handle, ComponentNode) or not self.is_there(handle):
            raise ValueError("that is no handle, or one of what has gone")
        return handle

    def is_there(self, node: ComponentNode) -> bool:
        """Whether a node is one of the tree."""
        at = node
        while at.above is not None and at.above.children.get(at.units) is at:
            at = at.above
        return at.above is None and any(root is at for root in self.tree.roots.values())

    def begins(self, what: object) -> None:
        """The caller will come back with this: a receipt, a copy, a write, a prefetch."""
        if what is not None:
            self.out[id(what)] = what

    def goes_on(self, what: object, *, last: bool = False) -> None:
        """The caller comes back with something, and may once more; ``last``: to end it, which is over then."""
        if self.out.get(id(what)) is not what or (last and getattr(what, "over", False)):
            raise ValueError("that is out no more, or never was")

    def ends(self, what: object) -> None:
        """The caller comes back with something for the last time."""
        self.goes_on(what)
        del self.out[id(what)]
