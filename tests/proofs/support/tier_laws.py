"""What is checked in every state of a small hierarchy beside the rules: laws that no rule can say.

They are in words of their own, by other means than the reference's: counting, following parents, comparing sets.  They
are about what can't be observed of a cache: who holds each lock and each pin, what is in memory that is no page's yet.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from kvlitmus.reference.prefix.choose import free_pages
from kvlitmus.reference.prefix.hierarchy import HOST, alone_of, under_way, works_of
from kvlitmus.spec.interface.tiers import BACKUP, FETCH, LOAD, PUT
from kvlitmus.spec.prefix.state import State
from kvlitmus.spec.prefix.work import COPIES
from kvlitmus.spec.words.setting import Setting
from kvlitmus.spec.words.units import Name, PageNo
from tests.proofs.support.tier_shown import Contents


def sources(now: State) -> list[Name]:
    """The pages whose host copies are being read."""
    return [name for one in under_way(now, LOAD, PUT) for name in one.names]


def pins_are_those_of_holders(now: State, setting: Setting) -> str:
    """Each pin is a prefetch that begins there, a load or a put that reads there."""
    held: Counter[Name] = Counter(sources(now))
    held.update(one.anchor for one in works_of(now).operations if one.live and one.anchor in now.host.pages)
    pins = {name: copy.locks for name, copy in now.host.pages.items() if copy.locks}
    return "" if pins == dict(held) else f"pins {pins}, holders {dict(held)}"


def locks_are_those_of_holders(now: State, setting: Setting) -> str:
    """Each lock is a request or a copy under way, on the path to where it ends."""
    resident = now.device.pages
    held: Counter[Name] = Counter()
    ends = [one.names[-1] for one in under_way(now, *COPIES)] + [one.locked for one in now.requests.values()]
    for name in ends:
        while name in resident:
            held[name] += 1
            name = resident[name].parent
    locks = {name: page.locks for name, page in resident.items() if page.locks}
    return "" if locks == dict(held) else f"locks {locks}, holders {dict(held)}"


def a_page_is_on_one_side_of_the_books(now: State, setting: Setting) -> str:
    """No page is resident and remembered as being on the host alone; no device page has two homes or none."""
    both = now.device.pages.keys() & alone_of(now).keys()
    size = setting.size
    own: list[PageNo] = [*free_pages(now, setting), *[page.page for page in now.device.pages.values()]]
    for one in now.requests.values():
        own += [PageNo(slot // size) for slot in one.row[one.cached :: size]]
    lost = Counter(own) != Counter(setting.usable)
    return f"on both sides {sorted(both)}, device pages {sorted(own)}" if both or lost else ""


def nodes_are_of_one_kind(now: State, setting: Setting) -> str:
    """All pages of a node are on the same tiers, equally used and locked, and only the last one has other children."""
    resident, alone = now.device.pages, alone_of(now)
    pages = {**alone, **resident}
    children: Counter[Name] = Counter(page.parent for page in pages.values())
    for name, page in pages.items():
        over = pages.get(page.parent)
        if page.first or over is None:
            continue
        here, there = (
            (at in resident, at in now.host.pages, at in resident and one.locks, one.hits, one.touched)
            for at, one in ((name, page), (page.parent, over))
        )
        if here != there or children[page.parent] > 1:
            return f"page {name} continues a node of another kind: {here} and {there}"
    return ""


def a_prefetch_holds_what_it_reads_into(now: State, setting: Setting) -> str:
    """A prefetch holds no more pages than it reads, and completes no more than it holds."""
    for one in works_of(now).operations:
        reads = one.names[: one.hit] if one.hit is not None else one.names
        if one.live and (len(one.held) > len(reads) or one.completed > len(one.held)):
            return f"{one}"
        if one.live and one.stage == FETCH and len(one.held) != len(reads):
            return f"{one}"
    return ""


LAWS: dict[str, Callable[[State, Setting], str]] = {
    "pins are those of holders": pins_are_those_of_holders,
    "locks are those of holders": locks_are_those_of_holders,
    "a page is on one side of the books": a_page_is_on_one_side_of_the_books,
    "nodes are of one kind": nodes_are_of_one_kind,
    "a prefetch holds what it reads into": a_prefetch_holds_what_it_reads_into,
}
"""Each says what is wrong, or nothing."""


# -- laws of steps: what is in the slots, and what whoever followed the step knows -------------------------


def what_was_read_is_there(now: State, setting: Setting, contents: Contents, known: State) -> str:
    """Each page that a prefetch has read is in the memory that it holds for it."""
    for one in works_of(now).operations:
        read = zip(one.names[: one.completed], one.held, strict=False)
        wrong = [name for name, page in read if one.live and contents[HOST].get(page) != name]
        if wrong:
            return f"{wrong} of {one}"
    return ""


def what_storage_gave_is_counted(now: State, setting: Setting, contents: Contents, known: State) -> str:
    """A prefetch has completed what storage gave it, also when its read is over and no job tells it any more."""
    assert known.tiers is not None
    for one in works_of(now).operations:
        given = known.tiers.prefetches.of(one.rid) if one.live else None
        if given is not None and given.got != one.completed * setting.size:
            return f"{given.got} units were given to {one}"
    return ""


def events_tell_what_there_is(now: State, setting: Setting, contents: Contents, known: State) -> str:
    """Who has replayed all events knows what is on which tier, whatever is under way."""
    assert known.told is not None
    told, resident, host = known.told, set(now.device.pages), set(now.host.pages)
    host.difference_update(name for one in under_way(now, BACKUP) for name in one.names)
    if told.device.keys() == resident and told.host.keys() == host:
        return ""
    return f"told {sorted(told.device)} and {sorted(told.host)}, there are {sorted(resident)} and {sorted(host)}"


LAWS_OF_STEPS: dict[str, Callable[[State, Setting, Contents, State], str]] = {
    "what was read is there": what_was_read_is_there,
    "what storage gave is counted": what_storage_gave_is_counted,
    "events tell what there is": events_tell_what_there_is,
}
"""Likewise, after a step."""
