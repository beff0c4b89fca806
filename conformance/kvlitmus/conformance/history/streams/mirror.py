"""The mirror: what a router knows that has heard all events of a publisher.

Each group of layers is mirrored by itself.  Of a group in which a block is of use behind all blocks before it, prefixes
are followed (:mod:`kvlitmus.spec.prefix.replay`); of others (windows, chunks, states) the blocks alone, by their names,
since an engine caches some of them and not those before.

What was not heard isn't held against anybody: after a gap nothing is certain but what was told since.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from kvlitmus.conformance.history.streams.forms import WHOLE, Batch, Cleared, Removed, Stored
from kvlitmus.conformance.support.text import harmless
from kvlitmus.spec.interface.tiers import Event
from kvlitmus.spec.prefix import batches
from kvlitmus.spec.prefix.listener import Listener
from kvlitmus.spec.prefix.replay import Replica
from kvlitmus.spec.prefix.state import Amiss, EventMirror
from kvlitmus.spec.words.names import Names
from kvlitmus.spec.words.setting import Setting
from kvlitmus.spec.words.units import Name

PAST = 1 << 18
"""So many blocks of a group that are on no tier any more are remembered; of one that is forgotten nothing is known."""

FEW = 20
"""So many gaps are told one by one."""

KEPT = 10_000
"""So many batches of a publisher are remembered, in case they are sent again; publishers keep as many."""


def shown(value: object) -> str:
    """A block by its name, or an event by the names in it."""
    if isinstance(value, Event):
        below = "" if value.parent is None else f" below {shown(value.parent)}"
        return f"{shown(value.page)}{below}"
    return harmless(value if isinstance(value, str | int) else repr(value), 80)


def named(*what: object) -> Name:
    """A name by what it stands for: a digest, so that nothing is kept of it, however long a stream is."""
    return Name(int.from_bytes(hashlib.blake2b(repr(what).encode(), digest_size=16).digest()))


class BlockNames(Names):
    """Names of blocks; only the roots are looked up here."""

    def root(self, namespace: str | None) -> Name:
        """The name of the empty prefix of a namespace."""
        return named("root", namespace)


class Group(Replica):
    """One group of layers: what is on which tier by the events that were heard.

    ``whole``: whether its blocks are prefixes, each of use behind those before it.  ``complete``: whether there was no
    gap since it was empty.  ``gone``: what was removed since the gap, by tier.
    """

    def __init__(self, setting: Setting, *, complete: bool) -> None:
        super().__init__(EventMirror(), setting, shown)
        self.heard = Listener[Name](setting.profile, {})
        self.whole = True
        self.complete = complete
        self.gone: dict[tuple[str, object], None] = {}
        self.past: dict[object, None] = {}
        self.plain: dict[object, Name] = {}
        self.ids: dict[Name, object] = {}
        self.aliases: list[str] = []
        self.unlike: object = None

    def forget(self) -> None:
        """Know nothing of what is there."""
        self.heard.cleared()
        for known in (self.pages, self.roots, self.gone, self.past, self.plain, self.ids):
            known.clear()

    def odd_ones(self) -> tuple[list[str], ...]:
        """What was wrong since this was asked last: odd, renamed, strays, orphans, aliases."""
        found = ([one.text for one in self.odd], self.renamed, self.strays, self.orphans, self.aliases)
        self.odd, self.renamed, self.strays, self.orphans, self.aliases = [], [], [], [], []
        self.twice.clear()
        return found

    # -- what may have been missed -------------------------------------------------------------

    def may_have(self, page: object, tier: str = "") -> bool:
        """Whether a block may be there though nothing says so: there was a gap, and it wasn't removed since.

        Where copies count, nobody knows how many there were before the gap.
        """
        if self.complete:
            return False
        if self.heard.counting:
            return True
        tiers = [tier] if tier else self.heard.tiers
        return not tiers or any((one, page) not in self.gone for one in tiers)

    def missed(self, page: object) -> Name | None:
        """A block that may have been told in the gap stands for a prefix that nobody knows."""
        return named("missed", page) if self.may_have(page) else None

    # -- events --------------------------------------------------------------------------------

    def named(self, start: Name, event: Event) -> Name:
        """A block is what it is made of, and what it is called: not all that it is made of need be told.

        What is before it is taken by its name, too, which holds when that is told only later.
        """
        return named(start if event.parent is None else event.parent, tuple(event.units), self.unlike, event.page)

    def page(self, id: object) -> str:
        """A block by its name alone."""
        return f"{'block' if id in self.pages else 'an unknown block,'} {shown(id)}"

    def hear_stored(self, event: Stored) -> None:
        """Blocks were stored, each behind the one before."""
        if event.kind:
            self.whole = event.kind in WHOLE
        self.heard.tiers.setdefault(event.tier, {})
        if not self.whole or len(event.tokens) != len(event.ids) * event.size:
            for id in event.ids:
                self.pages[id] = named("block", id)
                self.heard.stored(event.tier, self.pages[id])
                self.is_there(event.tier, id)
            if self.whole:
                blocks, first = len(event.ids), shown(event.ids[0]) if event.ids else "none"
                text = f"{len(event.tokens)} tokens for {blocks} blocks of {event.size}, the first of them {first}"
                self.odd.append(Amiss(event.tier, text))
            return
        self.size, parent = event.size, event.parent
        for at, id in enumerate(event.ids):
            units = event.tokens[at * event.size : (at + 1) * event.size]
            self.unlike = event.unlike[at] if event.unlike else None
            self.stored(Event("stored", event.tier, id, parent, units, event.namespace))  # type: ignore[arg-type]
            self.is_there(event.tier, id)
            self.follow_names(parent, id, units, event.namespace)
            parent = id

    def follow_names(self, parent: object, id: object, units: Sequence[object], namespace: str | None) -> None:
        """Note of what is there by which name, and whether it had another one."""
        if id not in self.pages:
            return
        plain = named(self.setting.names.root(namespace) if parent is None else parent, tuple(units), self.unlike)
        other = self.ids.get(plain, id)
        if other != id and self.somewhere(self.pages.get(other)):
            self.aliases.append(f"called {shown(id)}, and {shown(other)} before, where it still is")
        self.ids[plain], self.plain[id] = id, plain

    def is_there(self, tier: str, id: object) -> None:
        """A block is there for sure."""
        self.past.pop(id, None)
        self.gone.pop((tier, id), None)

    def hear_removed(self, event: Removed) -> None:
        """Blocks were removed."""
        self.heard.tiers.setdefault(event.tier, {})
        for id in event.ids:
            self.removed(Event("removed", event.tier, id))
            if not self.complete:
                self.gone[event.tier, id] = None
                if len(self.gone) > PAST:
                    del self.gone[next(iter(self.gone))]
            if id in self.pages and not self.somewhere(self.pages[id]):
                self.past[id] = None
                if len(self.past) > PAST:
                    self.drop(next(iter(self.past)))

    def drop(self, id: object) -> None:
        """Forget a block that is on no tier."""
        del self.past[id]
        self.roots.pop(self.pages.pop(id), None)
        self.ids.pop(self.plain.pop(id, Name(0)), None)


class Odd(NamedTuple):
    """What was wrong with the events of a batch, in words."""

    odd: list[str]
    renamed: list[str]
    strays: list[str]
    orphans: list[str]
    aliases: list[str]


class Gap(NamedTuple):
    """Batches that were not captured: before which line, and their numbers, first and last."""

    line: int
    publisher: str
    first: int
    last: int


class Publisher:
    """One publisher: the groups that it tells of, and the numbers of its batches."""

    def __init__(self, setting: Setting, *, complete: bool) -> None:
        self.setting = setting
        self.complete = complete
        self.groups: dict[int, Group] = {}
        self.next = 0
        self.known: dict[int, bytes] = {}
        self.gaps: list[Gap] = []
        self.missing = self.again = self.late = self.restarts = 0

    def numbered(self, batch: Batch) -> batches.Batch | None:
        """The batch as rules see it; ``None`` for one that was heard before, or that comes after later ones.

        What comes late may fill a gap: it can't be heard in its place any more, and nobody is to blame.  A number that
        comes again with other events is another life of the publisher, with an empty cache; but not that of the last
        batch, which two publishers had that should have one each.
        """
        number = batch.number
        if number is None:
            return batches.Batch()
        if self.known.get(number) == batch.digest:
            self.again += 1
            return None
        taken = number == self.next - 1 and number > 0
        if number in self.known and not taken:
            self.start_anew()
        elif number < self.next and not taken:
            self.late += 1
            return None
        if number > self.next:
            self.missed(batch, self.next, number - 1)
        self.known[number] = batch.digest
        if len(self.known) > KEPT:
            del self.known[next(iter(self.known))]
        self.next = max(self.next, number + 1)
        return batches.Batch(number, taken)

    def start_anew(self) -> None:
        """The publisher was started again."""
        self.restarts += 1
        self.known.clear()
        self.next = 0
        self.hear_cleared()

    def missed(self, batch: Batch, first: int, last: int) -> None:
        """So many batches were not captured: nobody knows what they told."""
        if len(self.gaps) < FEW:
            self.gaps.append(Gap(batch.line, batch.publisher, first, last))
        self.missing += last - first + 1
        self.complete = False
        for one in self.groups.values():
            one.complete = False
            one.forget()

    def hear(self, batch: Batch) -> Odd:
        """The events of a batch; what was wrong with them."""
        for event in batch.events:
            if isinstance(event, Cleared):
                self.hear_cleared()
            elif isinstance(event, Stored):
                self.group(event.group).hear_stored(event)
            else:
                self.group(event.group).hear_removed(event)
        wrong = Odd([], [], [], [], [])
        for number, one in self.groups.items():
            where = f"group {number}: " if len(self.groups) > 1 else ""
            for into, texts in zip(wrong, one.odd_ones(), strict=True):
                into += [f"{where}{text}" for text in texts]
        return wrong

    def hear_cleared(self) -> None:
        """Everything has left all tiers; from here on all is known."""
        self.complete = True
        for one in self.groups.values():
            one.complete = True
            one.forget()

    def group(self, number: int) -> Group:
        """The group of this number."""
        found = self.groups.get(number)
        if found is None:
            found = self.groups[number] = Group(self.setting, complete=self.complete)
        return found

    def holds(self) -> Iterator[tuple[int, str, int]]:
        """What the mirror has: group, tier, and how many blocks."""
        for number, one in sorted(self.groups.items()):
            yield from ((number, tier, sum(there.values())) for tier, there in sorted(one.heard.tiers.items()))
