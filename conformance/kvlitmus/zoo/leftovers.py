"""Requests that leave everything behind: what an aborted one has computed is cached, as if it had finished.

Pages are found under their whole prefix, in one dictionary that is ordered by use: what is used goes to its end, the
deepest page of a path before those above it.  Whoever needs room takes the first page that no request uses and none
goes on from.  A request that is retracted or whose client has gone leaves its pages to the next one that asks the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kvlitmus.conformance.ports import Begun, Config, NodeView, Profile, Unsupported, View
from kvlitmus.spec.words.units import Key, Unit

Prefix = tuple[str | None, tuple[Unit, ...]]


@dataclass(slots=True)
class Kept:
    """A cached page, and how many requests use it."""

    page: int
    users: int = 0


@dataclass(slots=True)
class Visitor:
    """A request: its key, its pages, and how many of them are cached."""

    key: Key
    pages: list[int]
    shared: int


class Leftovers:
    """The dictionary, the free pages, and the requests."""

    def __init__(self, config: Config) -> None:
        self.size = config.page_size
        self.count = config.pages
        self.reset()

    def reset(self) -> None:
        """Nothing is left of anybody."""
        self.unused = set(range(1, self.count + 1))
        self.kept: dict[Prefix, Kept] = {}
        self.visitors: dict[int, Visitor] = {}

    def prefixes(self, key: Key) -> list[Prefix]:
        """What each whole page of a key is found under."""
        units = tuple(key.units)
        return [(key.namespace, units[:end]) for end in range(self.size, len(units) + 1, self.size)]

    def use(self, prefixes: Sequence[Prefix]) -> None:
        """To the end of the dictionary, the deepest first."""
        for prefix in reversed(prefixes):
            self.kept[prefix] = self.kept.pop(prefix)

    def hold(self, prefixes: Sequence[Prefix], by: int) -> None:
        """One user more or less."""
        for prefix in prefixes:
            self.kept[prefix].users += by

    def room(self, count: int) -> list[int] | None:
        """Free pages, the highest first; what is least recently used makes room."""
        while len(self.unused) < count:
            above = {(space, units[: -self.size]) for space, units in self.kept}
            victim = next((one for one, kept in self.kept.items() if not kept.users and one not in above), None)
            if victim is None:
                return None
            self.unused.add(self.kept.pop(victim).page)
        pages = sorted(self.unused, reverse=True)[:count]
        self.unused -= set(pages)
        return pages

    def row(self, visitor: Visitor) -> list[int]:
        """A slot for each token."""
        slots = [page * self.size + at for page in visitor.pages for at in range(self.size)]
        return slots[: len(visitor.key.tokens)]

    def begin(self, rid: int, key: Key) -> Begun | None:
        """What is left of others, and free pages."""
        prefixes = self.prefixes(key)
        found = prefixes[: next((at for at, one in enumerate(prefixes) if one not in self.kept), len(prefixes))]
        self.use(found)
        self.hold(found, 1)
        own = self.room(-(-len(key.tokens) // self.size) - len(found))
        if own is None:
            self.hold(found, -1)
            return None
        self.visitors[rid] = visitor = Visitor(key, [self.kept[one].page for one in found] + own, len(found))
        return Begun(self.row(visitor), len(found) * self.size)

    def grow(self, rid: int, tokens: Sequence[int]) -> list[int] | None:
        """The rest of the last page, then free ones."""
        visitor = self.visitors[rid]
        before = len(visitor.key.tokens)
        own = self.room(-(-(before + len(tokens)) // self.size) - len(visitor.pages))
        if own is None:
            return None
        visitor.pages += own
        visitor.key = visitor.key._replace(tokens=(*visitor.key.tokens, *tokens))
        return self.row(visitor)[before:]

    def publish(self, rid: int, *, chunked: bool) -> Begun:
        """All whole pages are cached; of two for one prefix the first stays."""
        visitor = self.visitors[rid]
        return self.share(visitor, self.prefixes(visitor.key))

    def share(self, visitor: Visitor, prefixes: Sequence[Prefix]) -> Begun:
        """Cache the pages of these prefixes."""
        for at, prefix in list(enumerate(prefixes))[visitor.shared :]:
            if prefix in self.kept:
                self.unused.add(visitor.pages[at])
            else:
                self.kept[prefix] = Kept(visitor.pages[at])
            visitor.pages[at] = self.kept[prefix].page
        self.hold(prefixes[visitor.shared :], 1)
        self.use(prefixes)
        visitor.shared = len(prefixes)
        return Begun(self.row(visitor), visitor.shared * self.size)

    def end(self, rid: int, *, keep: bool) -> None:
        """Whether it has finished or not: what is whole is cached, the rest is free."""
        self.publish(rid, chunked=False)
        self.leave(rid)

    def leave(self, rid: int) -> None:
        """What isn't cached is free."""
        visitor = self.visitors.pop(rid)
        self.hold(self.prefixes(visitor.key)[: visitor.shared], -1)
        self.unused.update(visitor.pages[visitor.shared :])

    def view(self) -> View:
        """A node for each page, the shortest prefixes first."""
        ordered = sorted(self.kept, key=lambda one: len(one[1]))
        index = {prefix: at for at, prefix in enumerate(ordered)}
        nodes = []
        for space, units in ordered:
            kept = self.kept[space, units]
            slots = tuple(range(kept.page * self.size, (kept.page + 1) * self.size))
            parent = index.get((space, units[: -self.size]), -1)
            nodes.append(NodeView(parent, space, units[-self.size :], slots, kept.users))
        return View(sorted(self.unused), nodes)


class LeftoversTarget:
    """Makes them, by use."""

    profile = Profile(hit_counts="none", aborted="kept")

    def make(self, config: Config) -> Leftovers:
        """A fresh one."""
        if config.policy != "lru" or config.pool != "device" or config.tiered:
            raise Unsupported("requests on the device, by use")
        return Leftovers(config)


target = LeftoversTarget()
