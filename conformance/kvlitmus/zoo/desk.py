"""A desk for requests: no tree, no receipts, no eviction that anybody could ask for.

All that callers know are their requests.  Shared pages are looked up in one dictionary by the number of the page
before and the page's own units; how many requests stand on a page is counted per page.  A request may be computed in
part; what it publishes becomes shared, and what another one has shared first takes the place of its own.  A page that
nobody stands on is kept until memory is short; then the one that was left alone for longest goes.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

from kvlitmus.conformance.ports import Begun, Config, NodeView, Profile, Unsupported, View
from kvlitmus.spec.words.units import Key, Unit


@dataclass(slots=True)
class Guest:
    """A request: its key, its pages in order, and how many of them are shared."""

    key: Key
    pages: list[int]
    shared: int


class Desk:
    """Requests and the pages that they share."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.size = config.page_size
        self.reset()

    def reset(self) -> None:
        """Nobody is here."""
        self.empty = list(range(self.config.pages, 0, -1))
        self.shelf: dict[tuple[object, tuple[Unit, ...]], int] = {}
        self.spine: dict[int, tuple[object, tuple[Unit, ...]]] = {}
        self.standing: dict[int, int] = {}
        self.recent: OrderedDict[int, None] = OrderedDict()
        self.guests: dict[int, Guest] = {}

    def room(self, count: int) -> list[int] | None:
        """Empty pages, after the oldest ones that nobody needs were cleared away."""
        while len(self.empty) < count:
            leaning = {before for before, _ in self.spine.values()}
            page = next((one for one in self.recent if not self.standing[one] and one not in leaning), None)
            if page is None:
                return None
            del self.shelf[self.spine.pop(page)], self.recent[page], self.standing[page]
            self.empty.append(page)
        return [self.empty.pop() for _ in range(count)]

    def stand(self, pages: Sequence[int], by: int) -> None:
        """One more or less stands on these pages."""
        for page in pages:
            self.standing[page] += by

    def touch(self, pages: Sequence[int]) -> None:
        """These were used now, all at once: the first one counts as the most recent."""
        for page in reversed(pages):
            self.recent.move_to_end(page)

    def slots(self, guest: Guest) -> tuple[int, ...]:
        """One slot for each token."""
        slots = [page * self.size + at for page in guest.pages for at in range(self.size)]
        return tuple(slots[: len(guest.key.tokens)])

    def flush(self) -> bool:
        """Clear the shelf of what nobody stands on; all before a page that somebody stands on is stood on, too."""
        for page in [page for page, standing in self.standing.items() if not standing]:
            del self.shelf[self.spine.pop(page)], self.recent[page], self.standing[page]
            self.empty.append(page)
        return True

    def begin(self, rid: int, key: Key) -> Begun | None:
        """What is on the shelf, then empty pages."""
        before: object = (key.namespace,)
        found: list[int] = []
        for start in range(0, key.length - self.size + 1, self.size):
            page = self.shelf.get((before, tuple(key.units[start : start + self.size])))
            if page is None:
                break
            found.append(page)
            before = page
        self.touch(found)
        self.stand(found, 1)
        own = self.admit(-(-len(key.tokens) // self.size) - len(found))
        if own is None:
            self.stand(found, -1)
            return None
        self.guests[rid] = Guest(key, found + own, len(found))
        return Begun(self.slots(self.guests[rid]), len(found) * self.size)

    def admit(self, count: int) -> list[int] | None:
        """The pages of a guest who comes."""
        return self.room(count)

    def grow(self, rid: int, tokens: Sequence[int]) -> tuple[int, ...] | None:
        """Further pages, if the last one doesn't suffice."""
        guest = self.guests[rid]
        before = len(guest.key.tokens)
        own = self.room(-(-(before + len(tokens)) // self.size) - len(guest.pages))
        if own is None:
            return None
        guest.pages += own
        guest.key = guest.key._replace(tokens=(*guest.key.tokens, *tokens))
        return self.slots(guest)[before:]

    def take_back(self, rid: int, n: int) -> int:
        """Give up the pages behind what is left."""
        guest = self.guests[rid]
        guest.key = guest.key._replace(tokens=guest.key.tokens[: len(guest.key.tokens) - n])
        kept = -(-len(guest.key.tokens) // self.size)
        given, guest.pages = guest.pages[kept:], guest.pages[:kept]
        self.empty += given
        return len(given) * self.size

    def fork(self, rid: int, of: int) -> Begun | None:
        """Another guest on the same shared pages, with empty ones for the rest; nobody knows what is in them here."""
        guest = self.guests[of]
        own = self.room(len(guest.pages) - guest.shared)
        if own is None:
            return None
        self.stand(guest.pages[: guest.shared], 1)
        self.guests[rid] = guest = Guest(guest.key, guest.pages[: guest.shared] + own, guest.shared)
        return Begun(self.slots(guest), guest.shared * self.size)

    def publish(self, rid: int, *, chunked: bool) -> Begun:
        """All of it."""
        return self.publish_upto(rid, self.guests[rid].key.length, chunked=chunked)

    def publish_upto(self, rid: int, upto: int, *, chunked: bool) -> Begun:
        """Share the whole pages; a page of its own that is on the shelf already is given up for the other."""
        guest, before = self.guests[rid], (self.guests[rid].key.namespace,)
        at: object = before
        whole = min(upto, guest.key.length) // self.size
        for number in range(whole):
            name = (at, tuple(guest.key.units[number * self.size : (number + 1) * self.size]))
            own, shared = guest.pages[number], self.shelf.get(name)
            if number >= guest.shared:
                if shared is None:
                    shared = own
                    self.shelf[name], self.spine[own], self.standing[own] = own, name, 0
                    self.recent[own] = None
                else:
                    self.empty.append(own)
                guest.pages[number] = shared
                self.standing[shared] += 1
            at = guest.pages[number]
        guest.shared = max(guest.shared, whole)
        self.touch(guest.pages[:whole])
        return Begun(self.slots(guest), guest.shared * self.size)

    def end(self, rid: int, *, keep: bool) -> None:
        """Share all of it, or nothing more, and go."""
        self.end_upto(rid, self.guests[rid].key.length if keep else 0)

    def end_upto(self, rid: int, upto: int) -> None:
        """Share the first part, and go."""
        if upto:
            self.publish_upto(rid, upto, chunked=False)
        guest = self.guests.pop(rid)
        self.stand(guest.pages[: guest.shared], -1)
        self.empty += guest.pages[guest.shared :]

    def view(self) -> View:
        """The shelf, each page after the one before it."""
        at: dict[object, int] = {}
        nodes: list[NodeView] = []
        waiting = list(self.spine.items())
        while waiting:
            left = []
            for page, (before, units) in waiting:
                root = isinstance(before, tuple)
                if not root and before not in at:
                    left.append((page, (before, units)))
                    continue
                slots = tuple(page * self.size + offset for offset in range(self.size))
                namespace = before[0] if isinstance(before, tuple) else None
                parent = -1 if root else at[before]
                nodes.append(NodeView(parent, namespace, units, slots, self.standing[page]))
                at[page] = len(nodes) - 1
            waiting = left
        return View(list(self.empty), nodes)


class DeskTarget:
    """Makes them, by use."""

    profile = Profile(hit_counts="none")

    def make(self, config: Config) -> Desk:
        """A fresh one."""
        if config.policy != "lru" or config.pool != "device" or config.tiered:
            raise Unsupported("requests on the device, by use")
        return Desk(config)


target = DeskTarget()
