"""What a correct cache may choose, and how the reference chooses: what it evicts, and which free pages it hands out.

On either tier it hands out the lowest free pages, and evicts what the policy names, the lower name among equals; there
is one way to do each.  Or it is **given the choice** (:class:`Choice`) that another cache was seen to make.  A choice
that no correct cache makes is refused with a ``ValueError``.

On the device, free is what is usable and neither owned nor cached: nothing else keeps account of it.  On the host,
pages are in the hands of work under way as well, and what is free is a set of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from itertools import takewhile
from typing import Any, NamedTuple, TypeVar

from kvlitmus.spec.interface.cache import Sizes
from kvlitmus.spec.interface.tiers import Outcome
from kvlitmus.spec.prefix import effects
from kvlitmus.spec.prefix.calls import Begin, Match
from kvlitmus.spec.prefix.late_locks import still_locked
from kvlitmus.spec.prefix.release import waiting_in
from kvlitmus.spec.prefix.rules.order import Choosing, passed_over_by
from kvlitmus.spec.prefix.rules.tree import alike
from kvlitmus.spec.prefix.state import State, Tier
from kvlitmus.spec.prefix.work import COPIES
from kvlitmus.spec.words.policies import later
from kvlitmus.spec.words.setting import Setting
from kvlitmus.spec.words.units import Name, PageNo, Slot, Tokens

Names = tuple[Name, ...]
Kept = TypeVar("Kept")


class Choice(NamedTuple):
    """What a call leaves open; without a choice the reference decides."""

    victims: Names | None = None
    """The names that leave the device, in any order."""
    pages: tuple[PageNo, ...] | None = None
    """The pages that it hands out, in order."""
    found: tuple[PageNo, ...] | None = None
    """Where the cached prefix is that it found, page by page; how much that is may be open, too."""
    host_victims: Names | None = None
    """The names that leave the host, in any order."""
    host_pages: Mapping[Name, PageNo] | None = None
    """Where the host's copy of a page goes, by name; those that are not named go to the lowest pages that are left."""
    given_up: Collection[Name] = ()
    """The victims that are lost where write-back can't bring them to the host, with all that is below them there;
    without it they stay.
    """
    outcome: Outcome | None = None
    """How a job went on that asks storage, where the call leaves that to storage; without it storage has, gives and
    takes everything.
    """
    copies: tuple[Names, ...] = ()
    """The runs of pages that are backed up by one copy each; whole nodes, where there are none."""
    landed: bool = False
    """Whether copies that begin have landed at once."""
    at_once: bool = False
    """Whether they are even taken note of then, so that no job is left; of a query: whether a prefetch that isn't worth
    going on is over then.
    """
    chunks: bool = False
    """Whether what is inserted as a chunk is backed up, too."""
    declined: bool = False
    """Whether a load of nothing is declined, or a request that would leave less than the watermark."""
    spare: Collection[PageNo] = ()
    """The pages that a request takes beside its row when it begins or grows."""
    inside: tuple[Slot, ...] = ()
    """The slots at the end of a match that ends inside a page, or of a request's copy of them."""
    kept: int | None = None
    """How many pages of a request are cached when it is published or has finished, where a filter may end them."""
    ended: Collection[int] | None = None
    """The copies that a tick takes note of, of those that are over."""
    again: Collection[int] = ()
    """What has failed, or was refused by storage, and is begun anew by a tick though nothing depends on it."""
    released: int | None = None
    """How many of the host's pages in the hands of work under way are free after the call. A tick frees those of the
    release queue first; otherwise it is what the call itself gives back, at once instead of by a tick.
    """
    late: bool = False
    """Whether an insertion leaves the puts that are outstanding to the next tick."""
    puts: tuple[Names, ...] = ()
    """The runs of pages whose puts such a tick begins."""
    told: Tokens | None = None
    """How many units a prefetch is said to have added, where it filled some that were cached already."""
    waiting: frozenset[PageNo] = frozenset()
    """The pages that are left in the release queue of the device, as far as they may be."""
    uncounted: bool = False
    """Whether pages are due for backup by uses that the reference doesn't count: whatever began was due."""
    filtered: bool = False
    """Whether no other copies begin."""
    postponed: bool = False
    """Whether what an insertion makes due beside them is left to the next tick."""
    unnoted: Collection[int] = ()
    """Requests whose prefetch isn't worth going on, of which a tick takes no note yet."""


NO_CHOICE = Choice()


def refuse(text: str) -> None:
    """Refuse a choice that isn't legal; ``text`` says which one, and why."""
    raise ValueError(f"no correct cache chooses so: {text}")


def ends_at_nodes(setting: Setting) -> bool:
    """Whether a match may end before a node that the key leaves in its middle."""
    return setting.profile.match_ends == "node"


# Free pages


def free_pages(state: State, setting: Setting) -> frozenset[PageNo]:
    """The pages of the device that could be handed out: usable, and neither owned nor cached nor waiting (POOL-12).

    In a block table what is cached can be handed out, too, where nobody holds it.
    """
    if setting.table:
        return setting.usable.difference(state.owners, [page for page, block in state.table.items() if block.holders])
    cached = [page.page for page in state.device.pages.values()]
    return setting.usable.difference(state.owners, cached, waiting_in(state))


def available(state: State, setting: Setting) -> Tokens:
    """How many slots could be handed out (POOL-13)."""
    return Tokens(len(free_pages(state, setting)) * setting.size)


def counted(state: State, setting: Setting) -> Tier:
    """The tree with the locks that nodes show.

    Those that end late are there, those of copies under way not where these protect apart.
    """
    tree = still_locked(state) if setting.unlock_delay else state.device
    if state.works is not None and setting.profile.copy_locks == "apart":
        for one in state.works.transfers:
            tree = effects.lock(tree, one.names[-1], -1) if one.kind in COPIES else tree
    return tree


def sizes(state: State, setting: Setting) -> Sizes:
    """How many units could be evicted, and how many are protected (LOCK-02)."""
    protected = sum(1 for page in counted(state, setting).pages.values() if page.locks)
    return Sizes((len(state.device.pages) - protected) * setting.size, protected * setting.size)


def hand_out(free: Collection[PageNo], wanted: int, choice: tuple[PageNo, ...] | None) -> tuple[PageNo, ...] | None:
    """So many free pages, the lowest ones unless chosen; ``None`` where there are too few (POOL-05, POOL-07)."""
    if wanted > len(free):
        return None
    if choice is None:
        return tuple(sorted(free)[:wanted])
    legal = len(choice) == wanted == len(set(choice)) and set(choice) <= set(free)
    if not legal:
        refuse(f"expected {wanted} of the free pages {sorted(free)}, got {list(choice)}")
    return choice


# Eviction


def next_to_go(tree: Tier, most: int, setting: Setting, spared: Collection[Name], first: Collection[Name]) -> Names:
    """The pages that go together next, last page first: the end of a node, ``most`` pages of it or the whole node.

    It is the node whose leaf is worth least (EVICT-05, EVICT-07); among equals, and those whose last uses may share a
    tick with the least, one of those that are to go ``first``, then the lower name.  Where a cache has an order of its
    own, any of those that are to go ``first`` comes before the others.  Locked and ``spared`` pages stay (EVICT-03).
    Empty where nothing can go.
    """
    value = setting.order

    def goes(name: Name) -> bool:
        return not tree.pages[name].locks and name not in spared

    leaves = [name for name in effects.leaves(tree) if goes(name)]
    if not leaves:
        return ()
    last = later(min(value(tree.pages[name]) for name in leaves), setting.ties)
    equal = [name for name in leaves if name in first and (setting.own_order or value(tree.pages[name]) <= last)]
    leaf = min(equal or leaves, key=lambda name: (value(tree.pages[name]), name))
    node = tuple(takewhile(goes, effects.node_of(tree, leaf)))
    return node if setting.profile.evict_granularity == "node" else node[:most]


def make_room(
    start: Kept,
    wanted: int,
    setting: Setting,
    tree_of: Callable[[Kept], Tier],
    let_go: Callable[[Kept, Names], tuple[Kept, Names]],
    spared: Collection[Name] = (),
    first: Collection[Name] = (),
) -> tuple[Kept, Names]:
    """Evict until ``wanted`` pages are gone or nothing can go; what is left, and what went, in order.

    Where whole nodes go, a little more than wanted may go (EVICT-06).  ``let_go`` answers which of the pages it could
    let go of; where that is none, their leaf is passed over.
    """
    victims: list[Name] = []
    stay = set(spared)
    while len(victims) < wanted:
        run = next_to_go(tree_of(start), wanted - len(victims), setting, stay, first)
        if not run:
            break
        start, gone = let_go(start, run)
        victims += gone
        if not gone:
            stay.add(run[0])
    return start, tuple(victims)


def least_valuable(tree: Tier, wanted: int, setting: Setting) -> Names:
    """What the policy evicts until ``wanted`` pages are gone or nothing unlocked is left, in order."""
    return make_room(tree, wanted, setting, lambda left: left, lambda left, run: (effects.remove(left, run), run))[1]


def in_order(tree: Tier, victims: Names, setting: Setting) -> Names:
    """A choice of victims; raises ``ValueError`` where the rules of eviction don't allow it, in whatever amount."""
    gone = frozenset(victims)
    kept = [name for name in gone if name not in tree.pages or tree.pages[name].locks]
    if kept:
        refuse(f"{sorted(kept)} are locked or not cached, and can't be evicted")
    orphans = [name for name, page in tree.pages.items() if page.parent in gone and name not in gone]
    if orphans:
        refuse(f"{sorted(orphans)} would be cut off")
    if setting.own_order or setting.expires:
        return victims
    passed = passed_over_by(Choosing(tree, gone), setting.order, ties=setting.ties)
    if passed:
        refuse(f"{sorted(passed)} would be passed over for {sorted(gone)}")
    return victims


class Decision(NamedTuple):
    """What a cache decides when it is called: its answer, and what it evicts for it."""

    answer: Any
    victims: Names = ()


def room_for(pages: int, tree: Tier, free: Collection[PageNo], setting: Setting, choice: Choice) -> Names:
    """What is evicted so that so many pages are free: what lacks, or what there is.

    How much a cache evicts on its own account is its own affair, so a choice may be more or less.  A block table evicts
    by handing out, and nothing before that.
    """
    if setting.table:
        return ()
    if choice.victims is None:
        return least_valuable(tree, pages - len(free), setting)
    return in_order(tree, choice.victims, setting)


def freed_by(tree: Tier, victims: Names) -> frozenset[PageNo]:
    """The pages that an eviction frees (EVICT-04)."""
    return frozenset(tree.pages[name].page for name in victims)


# Requests


def inside_of(state: State, setting: Setting, call: Match | Begin, whole: int, choice: Choice) -> tuple[Slot, ...]:
    """What is found inside the page behind so many: nothing, unless it was chosen and is as a cached page begins."""
    if len(choice.inside) > (
        alike(state.device, setting.names, call.path, whole, setting.size) if choice.inside else 0
    ):
        refuse(f"no cached page begins with {len(choice.inside)} units of the key behind {whole} pages")
    return choice.inside


def leaves_too_few(tree: Tier, victims: Names, left: int, setting: Setting) -> bool:
    """Whether a request that leaves so many pages free may be refused.

    They are too few to be spare, or with what could go they are below the watermark.
    """
    if left < setting.spare_pages:
        return True
    evictable = 0 if setting.table else sum(not page.locks for page in tree.pages.values()) - len(victims)
    return left + evictable < setting.profile.watermark
