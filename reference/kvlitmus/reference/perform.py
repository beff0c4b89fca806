"""What a correct flat cache does when it is called: it chooses, answers, and goes on.

What a call and its answer amount to is said in :mod:`kvlitmus.spec.advance`, for every cache.  Here is what is left to
the cache: whether there is memory enough, which free pages it hands out, and what it evicts to make room.

:func:`perform` makes these choices itself: the lowest free page, and the victim that the policy names, the lower name
among equals.  Or it is **given the choice** (:class:`Choice`) that another cache was seen to make (:func:`choice_of`).
Its answer, and the state after it, are then what that cache has to answer and to be.  A choice that no correct cache
makes is refused with a ``ValueError``.

Free is what is usable and neither owned nor cached: nothing else keeps account of it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple

from kvlitmus.reference.pool import slots_of, whole_pages
from kvlitmus.spec import calls, effects
from kvlitmus.spec.advance import brought_in_vain, computed_pages, expect, offered_by_request, opened_needed_by
from kvlitmus.spec.interface import Begun, Hit, Stored
from kvlitmus.spec.order import needless_victims, passed_over_by
from kvlitmus.spec.policies import worth
from kvlitmus.spec.seen import Seen
from kvlitmus.spec.setting import Setting
from kvlitmus.spec.state import Running, State, Tree
from kvlitmus.spec.step import Step
from kvlitmus.spec.units import Name, PageNo, Slot, Tokens, pages_in_order, pages_needed

Slots = tuple[Slot, ...]
Names = tuple[Name, ...]


class Choice(NamedTuple):
    """What a call may choose: the names that it evicts, in any order, and the pages that it hands out, in order.

    ``None``: the reference decides.
    """

    victims: Names | None = None
    pages: tuple[PageNo, ...] | None = None


NO_CHOICE = Choice()


class Decision(NamedTuple):
    """What a cache decides when it is called: its answer, and what it evicts for it."""

    answer: Any
    victims: Names = ()


def perform(state: State, setting: Setting, call: Any, choice: Choice | None = None) -> Step[State]:
    """The step that a correct cache makes in this state when it is called.

    Raises ``ValueError`` for a call that the contract doesn't allow (pages that aren't the caller's, a receipt that was
    given back, a request that runs already, a size that is no multiple of the page size), and for a choice that isn't
    legal.
    """
    choice = choice or NO_CHOICE
    if choice.victims and type(call) not in MAKES_ROOM:
        refuse(f"a {type(call).__name__} evicts nothing (got {choice.victims})")
    answer, victims = DECIDE[type(call)](state, setting, call, choice)
    after = expect(state, setting, call, answer)
    if victims:
        after = after._replace(tree=effects.remove(after.tree, frozenset(victims)))
    return Step(call, answer, state, after)


def choice_of(step: Step[Seen], state: State, setting: Setting) -> Choice:
    """The choice that a cache was seen to make: what vanished, and the pages of what it granted.

    ``state``: what was known before the step.
    """
    call, answer, size = step.call, step.answer, setting.size
    victims: Names = ()
    if type(call) in MAKES_ROOM:
        victims = tuple(sorted(step.before.cached.keys() - step.after.cached.keys()))
    granted: Sequence[Slot] | None = None
    if answer is not None and isinstance(call, calls.Alloc):
        granted = answer
    elif answer is not None and isinstance(call, calls.Begin):
        granted = answer.row[answer.cached :]
    elif answer is not None and isinstance(call, calls.Extend | calls.Grow):
        row = call.row if isinstance(call, calls.Extend) else state.requests[call.rid].row
        granted = answer[-len(row) % size :]
    return Choice(victims, None if granted is None else pages_in_order(granted, size))


def refuse(text: str) -> None:
    """Refuse a choice that isn't legal; ``text`` says which one, and why."""
    raise ValueError(f"no correct cache chooses so: {text}")


# What is chosen


def free_pages(state: State, setting: Setting) -> frozenset[PageNo]:
    """The pages that could be handed out: usable, and neither owned nor cached (POOL-12)."""
    return setting.usable.difference(state.owners, [page.page for page in state.tree.pages.values()])


def available(state: State, setting: Setting) -> Tokens:
    """How many slots could be handed out (POOL-13)."""
    return Tokens(len(free_pages(state, setting)) * setting.size)


def sizes(state: State, setting: Setting) -> tuple[Tokens, Tokens]:
    """How many units could be evicted, and how many are protected (LOCK-02)."""
    protected = sum(1 for page in state.tree.pages.values() if page.locks)
    return Tokens((len(state.tree.pages) - protected) * setting.size), Tokens(protected * setting.size)


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


def least_valuable(tree: Tree, wanted: int, setting: Setting) -> Names:
    """The leaves that the policy evicts until ``wanted`` pages are gone or nothing unlocked is left, in order.

    Locked pages stay (EVICT-03).  The name breaks ties (EVICT-05, EVICT-07).  Where whole nodes go, a little more than
    wanted may go (EVICT-06).
    """
    value = worth(setting.config.policy, setting.profile.slru_hits)
    victims: list[Name] = []
    while len(victims) < wanted:
        candidates = [name for name in effects.leaves(tree) if not tree.pages[name].locks]
        if not candidates:
            break
        leaf = min(candidates, key=lambda name: (*value(tree.pages[name]), name))
        gone = effects.node_of(tree, leaf) if setting.profile.evict_granularity == "node" else (leaf,)
        victims += gone
        tree = effects.remove(tree, gone)
    return tuple(victims)


def in_order(tree: Tree, victims: Names, setting: Setting) -> Names:
    """A choice of victims; raises ``ValueError`` where the rules of eviction don't allow it, in whatever amount."""
    gone = frozenset(victims)
    kept = [name for name in gone if name not in tree.pages or tree.pages[name].locks]
    if kept:
        refuse(f"{sorted(kept)} are locked or not cached, and can't be evicted")
    orphans = [name for name, page in tree.pages.items() if page.parent in gone and name not in gone]
    if orphans:
        refuse(f"{sorted(orphans)} would be cut off")
    passed = passed_over_by(tree, gone, setting.config.policy, setting.profile.slru_hits)
    if passed:
        refuse(f"{sorted(passed)} would be passed over for {sorted(gone)}")
    return victims


def room_for(pages: int, tree: Tree, free: Collection[PageNo], setting: Setting, choice: Choice) -> Names:
    """What is evicted so that so many pages are free: what lacks, or what there is.

    How much a cache evicts on its own account is its own affair, so a choice may be more or less.
    """
    if choice.victims is None:
        return least_valuable(tree, pages - len(free), setting)
    return in_order(tree, choice.victims, setting)


def freed_by(tree: Tree, victims: Names) -> frozenset[PageNo]:
    """The pages that an eviction frees (EVICT-04)."""
    return frozenset(tree.pages[name].page for name in victims)


# The pool


def alloc(state: State, setting: Setting, call: calls.Alloc, choice: Choice) -> Decision:
    """Whole pages, all or none (POOL-01, POOL-07, POOL-08).

    Only where the profile says so does an allocation evict, and then nothing unless that is enough.
    """
    size, free = setting.size, free_pages(state, setting)
    if call.asked < 0 or call.asked % size:
        raise ValueError(f"asked must be a multiple of {size} and not negative (got {call.asked})", call.asked)
    wanted, victims = pages_needed(call.asked, size), Names()
    if setting.profile.evict_moment == "alloc":
        victims = room_for(wanted, state.tree, free, setting, choice)
    elif choice.victims:
        refuse(f"an allocation evicts nothing (got {choice.victims})")
    if len(free) + len(victims) < wanted:
        return Decision(None)
    pages = hand_out(free | freed_by(state.tree, victims), wanted, choice.pages)
    return Decision(None if pages is None else slots_of(pages, size), victims)


def extend(state: State, setting: Setting, call: calls.Extend, choice: Choice) -> Decision:
    """The last page is filled first, then whole new pages are opened, no more than needed (POOL-17, POOL-18)."""
    pages = hand_out(free_pages(state, setting), opened_needed_by(call, setting), choice.pages)
    return Decision(None if pages is None else lengthened(call.row, call.asked, pages, setting.size))


def lengthened(row: Sequence[Slot], further: int, pages: Sequence[PageNo], size: int) -> Slots:
    """The slots of further tokens behind a row: the rest of its last page, then the pages that were opened (REQ-05)."""
    room = min(further, -len(row) % size)
    rest = tuple([Slot(row[-1] + 1 + at) for at in range(room)])
    return rest + slots_of(pages, size)[: further - room]


def free(state: State, setting: Setting, call: calls.Free | calls.FreeInGroup | calls.EndGroup, _: Choice) -> Decision:
    """Taken back is what is owned, in whole pages, each once (POOL-09, POOL-10; MISUSE-01, MISUSE-03, MISUSE-04)."""
    pages = whole_pages(call.slots, setting.size)
    if len(set(pages)) < len(pages):
        raise ValueError(f"a page is named twice in {sorted(pages)}", pages)
    strange = sorted(set(pages) - setting.usable)
    if strange:
        raise ValueError(f"pages {strange} are not the pool's", pages)
    unowned = sorted(page for page in pages if page not in state.owners)
    if unowned:
        raise ValueError(f"pages {unowned} are nobody's to give back", pages)
    return Decision(None)


def nothing(state: State, setting: Setting, call: object, choice: Choice) -> Decision:
    """Nothing to decide, nothing to say."""
    return Decision(None)


# The tree


def cached_part(state: State, setting: Setting, path: calls.Path) -> Names:
    """The cached pages that a match covers, as far as the profile lets it (TREE-02, TREE-10)."""
    most = setting.cap(len(path.names)) // setting.size
    return path.pages[: effects.cached_prefix(state.tree, path.pages[:most])]


def slots_at(tree: Tree, names: Sequence[Name], size: int) -> Slots:
    """Where these cached pages are (TREE-03)."""
    return slots_of([tree.pages[name].page for name in names], size)


def match(state: State, setting: Setting, call: calls.Match, _: Choice) -> Decision:
    """The longest cached prefix, where it is, and its last page as the handle for a lock."""
    covered = cached_part(state, setting, call.path)
    slots = slots_at(state.tree, covered, setting.size)
    return Decision(Hit(len(slots), slots, call.path.end(len(covered))))


def insert(state: State, setting: Setting, call: calls.Insert, _: Choice) -> Decision:
    """How much was cached before, and what the caller has to free of what it brought (TREE-09, TREE-11, TREE-12)."""
    size, paged = setting.size, call.path.pages
    if len(call.slots) < len(paged) * size:
        raise ValueError(f"expected {len(paged) * size} slots, got {len(call.slots)}", call.slots)
    whole_pages(call.slots[: len(paged) * size], size)
    already = effects.cached_prefix(state.tree, paged)
    vain = brought_in_vain(state, setting, call, already) if setting.profile.duplicates == "caller_frees" else []
    return Decision(Stored(already * size, slots_of(vain, size)))


def lock(state: State, setting: Setting, call: calls.Lock, _: Choice) -> Decision:
    """The receipt is the caller's number for it."""
    return Decision(call.receipt)


def unlock(state: State, setting: Setting, call: calls.Unlock, _: Choice) -> Decision:
    """A receipt is worth one unlock, once (LOCK-04, MISUSE-06)."""
    if state.receipts.get(call.receipt) != call.at:
        raise ValueError(f"receipt {call.receipt} was given back already", call.receipt)
    return Decision(None)


def evict(state: State, setting: Setting, call: calls.Evict, choice: Choice) -> Decision:
    """At least what was asked for, if there is so much, and nothing after that (EVICT-01, EVICT-02, EVICT-06)."""
    tree, size, granularity = state.tree, setting.size, setting.profile.evict_granularity
    wanted = pages_needed(call.asked, size)
    if choice.victims is None:
        victims = least_valuable(tree, wanted, setting)
    else:
        victims = in_order(tree, choice.victims, setting)
        evictable = sum(1 for page in tree.pages.values() if not page.locks)
        needless = needless_victims(effects.nodes(tree), victims, call.asked, size, granularity)
        enough = len(victims) >= min(wanted, evictable)
        if not enough or needless:
            refuse(f"expected {wanted} pages to be evicted, got {sorted(victims)}")
    return Decision(len(victims) * size, victims)


# Requests


def begin(state: State, setting: Setting, call: calls.Begin, choice: Choice) -> Decision:
    """The cached prefix, and own slots for the rest (REQ-01); or nothing without memory (REQ-10).

    The cached prefix is locked *before* room is made, so that making room can't take it.
    """
    if call.rid in state.requests:
        raise ValueError(f"request {call.rid} is running already", call.rid)
    size, tokens, unused = setting.size, len(call.path.key.tokens), free_pages(state, setting)
    covered = cached_part(state, setting, call.path)
    protected = effects.lock(expect(state, setting, call, None).tree, call.path.end(len(covered)))
    wanted = pages_needed(tokens, size) - len(covered)
    victims = room_for(wanted, protected, unused, setting, choice)
    own = hand_out(unused | freed_by(state.tree, victims), wanted, choice.pages)
    if own is None:
        return Decision(None, victims)
    row = slots_at(state.tree, covered, size) + slots_of(own, size)
    return Decision(Begun(row[:tokens], len(covered) * size), victims)


def grow(state: State, setting: Setting, call: calls.Grow, choice: Choice) -> Decision:
    """Slots for further tokens, the last page filled first (REQ-05); without memory nothing (REQ-10)."""
    size, row, unused = setting.size, state.requests[call.rid].row, free_pages(state, setting)
    wanted = pages_needed(len(row) + len(call.tokens), size) - pages_needed(len(row), size)
    victims = room_for(wanted, state.tree, unused, setting, choice)
    own = hand_out(unused | freed_by(state.tree, victims), wanted, choice.pages)
    return Decision(None if own is None else lengthened(row, len(call.tokens), own, size), victims)


def publish(state: State, setting: Setting, call: calls.Publish, _: Choice) -> Decision:
    """The request goes on in the tree's slots: its own pages, and those that another request cached first (REQ-03)."""
    running, tree, size = state.requests[call.rid], state.tree, setting.size
    paged = computed(running, setting, call.upto)
    own = offered_by_request(running, setting, paged)
    pages = [tree.pages[name].page if name in tree.pages else page for name, page in zip(paged, own, strict=True)]
    kept = len(paged) * size
    return Decision(Begun(slots_of(pages, size) + running.row[kept:], kept))


def end(state: State, setting: Setting, call: calls.End, _: Choice) -> Decision:
    """Nothing to say: what becomes of its pages is no choice (REQ-07, REQ-08, REQ-09)."""
    computed(state.requests[call.rid], setting, call.upto)
    return Decision(None)


def computed(running: Running, setting: Setting, upto: int | None) -> Names:
    """The whole pages of a request that are computed.

    Raises ``ValueError`` when ``upto`` is less than what is cached, or more than the request has (REQ-12, REQ-13).
    """
    if upto is not None and not running.cached <= upto <= len(running.row):
        raise ValueError(f"computed are between {running.cached} and {len(running.row)} units (got {upto})", upto)
    return computed_pages(running, setting, upto)


MAKES_ROOM = frozenset({calls.Alloc, calls.Evict, calls.Begin, calls.Grow})
"""The calls that may evict; the profile says whether an allocation does."""

DECIDE: dict[type, Callable[..., Decision]] = {
    calls.Alloc: alloc,
    calls.Extend: extend,
    calls.Free: free,
    calls.FreeInGroup: free,
    calls.EndGroup: free,
    calls.Reset: nothing,
    calls.Match: match,
    calls.Insert: insert,
    calls.Lock: lock,
    calls.Unlock: unlock,
    calls.Evict: evict,
    calls.Begin: begin,
    calls.Grow: grow,
    calls.Compute: nothing,
    calls.Publish: publish,
    calls.End: end,
}
"""How each call is decided."""
