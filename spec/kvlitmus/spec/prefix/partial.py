"""Partial observation: what can be known of a cache that shows no snapshot.

Below depth 3 evictions aren't seen.  The state then keeps every page that may still be cached and
remembers which of them are in doubt (:class:`~kvlitmus.spec.prefix.windows.Doubt`): which may be gone at all, and which of
these the policy and the amounts leave open.  Answers settle the doubt: a match that covers a page says that
it is there and where, one that stops short says that the next page is gone, with everything below; a page that is handed
out holds nothing any more; counters say how many pages are cached.

With a snapshot there is no doubt, and these functions leave the state alone.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from kvlitmus.spec.prefix import effects, windows
from kvlitmus.spec.prefix.late_locks import late_locks
from kvlitmus.spec.prefix.page import Doubt, Tier
from kvlitmus.spec.prefix.release import waiting_in
from kvlitmus.spec.prefix.seen import Seen
from kvlitmus.spec.prefix.spare_pages import unseen_in
from kvlitmus.spec.prefix.state import Page, State
from kvlitmus.spec.words.policies import WRITE_BACK, Order
from kvlitmus.spec.words.setting import Setting
from kvlitmus.spec.words.units import Name, PageNo, Pages, pages_needed

SOMEWHERE = PageNo(-1)
"""The place of a page that is cached nobody knows where."""


# What may have been evicted


def doubting(state: State, doubt: Doubt) -> State:
    """The same where this isn't known."""
    return state._replace(device=state.device._replace(doubt=doubt))


def evicted(state: State, setting: Setting, reported: int) -> State:
    """An eviction says that it has freed so many slots."""
    if setting.seen:
        return state
    if not counts(setting) and order_known(setting) is None:
        return doubted(state, setting, 0, len(state.device.pages))
    size = setting.size
    return doubted(state, setting, reported // size, pages_needed(reported, size))


def made_room(state: State, setting: Setting, needed: int) -> State:
    """A call was granted that took so many pages, which are owned by now: what the free list lacked was evicted."""
    if setting.seen:
        return state
    if not counts(setting):
        return doubted(state, setting, 0, len(state.device.pages))
    sure, possible = cached_pages(state)
    taken = len(state.owners) - len(setting.usable)
    most = possible + taken + len(waiting_in(state)) + unseen_in(state, setting)
    return doubted(state, setting, sure + taken, most_evicted(state, setting, most, needed))


def tried(state: State, setting: Setting, needed: int, held: Sequence[Name] = ()) -> State:
    """A call was refused that would have taken up to so many pages: what was lacking may have been evicted.

    ``held``: what it found cached, which may have been protected meanwhile.
    """
    if setting.seen:
        return state
    pages = len(state.device.pages)
    if not counts(setting):
        return doubted(state, setting, 0, pages, held)
    lacking = needed - free_least(state, setting)
    return doubted(state, setting, 0, most_evicted(state, setting, lacking, needed), held)


def free_least(state: State, setting: Setting) -> int:
    """How many pages are free at least: neither owned, nor perhaps cached, nor waiting to be free; negative in doubt."""
    others = len(state.owners) + len(waiting_in(state)) + unseen_in(state, setting)
    return len(setting.usable) - others - cached_pages(state)[1]


def most_evicted(state: State, setting: Setting, lacking: int, needed: int) -> int:
    """How many pages may be evicted at most for a call that lacks and needs so many."""
    profile = setting.profile
    most = lacking + profile.evict_slack
    if most <= 0:
        return 0
    if profile.evict_amount == "need":
        most = max(most, needed + profile.evict_slack)
    return setting.in_batches(most) + beyond(state, setting)


def beyond(state: State, setting: Setting) -> int:
    """How many pages more may go with the last victim, where whole nodes do: how pages are grouped isn't seen."""
    if setting.profile.evict_granularity == "page":
        return 0
    pages = state.device.pages
    longest = 0
    for page in pages.values():
        length = 0
        above: Page | None = page
        while above is not None and not above.locks:
            length += 1
            above = pages.get(above.parent)
        longest = max(longest, length)
    return max(0, longest - 1)


def aged(state: State, setting: Setting) -> State:
    """Somebody looks: where pages expire, whatever isn't locked may be gone from now on, in no order."""
    if setting.seen or not setting.expires:
        return state
    return doubted(state, setting, 0, len(state.device.pages), ordered=False)


def doubted(
    state: State, setting: Setting, least: int, most: int, held: Sequence[Name] = (), *, ordered: bool = True
) -> State:
    """Between so many pages were evicted: whatever isn't locked may be gone from now on."""
    if most <= 0:
        return state
    tree = state.device
    doubt = state.device.doubt._replace(
        unsure=state.device.doubt.unsure.union([name for name, page in tree.pages.items() if not page.locks])
    )
    order = order_known(setting) if ordered else None
    held = (
        *held,
        *late_locks(state, tree),
        *(ageless(tree, setting) if setting.config.tiered and order is not None else ()),
    )
    return doubting(state, windows.opened(doubt, tree, least, most, order, held, ties=setting.ties))


def counts(setting: Setting) -> bool:
    """Whether what is neither free nor owned is cached, page for page."""
    flat = not setting.config.tiered and setting.profile.publish == "explicit"
    return flat and setting.profile.duplicates != "kept"


def ageless(tree: Tier, setting: Setting) -> set[Name]:
    """The pages whose place in the order nobody knows, with all that is above them: that waits for them."""
    found: set[Name] = set()
    for name, page in tree.pages.items():
        while page.is_ageless(setting.config.policy) and name in tree.pages and name not in found:
            found.add(name)
            name = tree.pages[name].parent
    return found


BY_LAST_USE = ("lru", "mru")
"""The policies that look at nothing but the last use, which a page gets anew when it comes back to the device."""


def order_known(setting: Setting) -> Order | None:
    """The order of victims, where the state says all that it goes by; else nothing.

    On the device of a hierarchy this is so by the last use, where each page can go, and one by one.
    """
    profile, config = setting.profile, setting.config
    if profile.clock != "counter" or setting.own_order:
        return None
    if config.tiered:
        one_by_one = profile.evict_granularity == "page" and config.write != WRITE_BACK
        known = one_by_one and config.policy in BY_LAST_USE and setting.steps and profile.publish == "explicit"
        return setting.order if known and profile.duplicates != "kept" else None
    if not counts(setting):
        return None
    # A split renews what is above it, and where others were is not known for certain.
    return None if setting.renews and setting.config.policy in ("fifo", "filo") else setting.order


# What an answer shows


def known(state: State, setting: Setting, names: Sequence[Name], pages: Sequence[PageNo]) -> State:
    """These pages are cached for certain, here."""
    if setting.seen or not names:
        return state
    tree = state.device
    places = {name: page for name, page in zip(names, pages, strict=False) if name in tree.pages}
    return certain(state._replace(device=effects.move(tree, places)), setting, names)


def certain(state: State, setting: Setting, names: Sequence[Name]) -> State:
    """These pages are cached for certain, wherever they are."""
    if setting.seen or not state.device.doubt.unsure:
        return state
    return doubting(state, windows.present(state.device.doubt, frozenset(names)))


def renewed(
    state: State, setting: Setting, names: Sequence[Name], others: Sequence[Page], *, filtered: bool = False
) -> State:
    """These pages are cached for certain, or not if a filter may keep them out, whether they were before or not; if not, each was used as the other says."""
    if setting.seen or not names:
        return state
    places = dict.fromkeys(names, SOMEWHERE)
    doubt = (windows.left_open if filtered else windows.forgotten)(state.device.doubt, names)
    doubt = windows.blurred(doubt, zip(names, others, strict=True))
    return doubting(state._replace(device=effects.move(state.device, places)), doubt)


def joined(state: State, setting: Setting, names: Sequence[Name]) -> State:
    """These pages may have been cached as one node with what is before them: none is known to begin one.

    That matters where matches end at nodes.  What was evicted and comes back with what follows is no node of its own.
    """
    if setting.seen or setting.profile.match_ends != "node":
        return state
    pages = state.device.pages
    inside = {name: pages[name]._replace(first=False) for name in names if name in pages}
    return state._replace(device=state.device._replace(pages={**pages, **inside}))


def used(state: State, setting: Setting, before: State, names: Collection[Name]) -> State:
    """These pages may have been used since ``before``, or not."""
    if setting.seen:
        return state
    others = [(name, before.device.pages[name]) for name in names if name in before.device.pages]
    return doubting(state, windows.blurred(state.device.doubt, others))


def gone(state: State, setting: Setting, names: Collection[Name]) -> State:
    """These pages are not cached, and so nothing below them is; a locked page stays, for the rules to judge.

    What a block table has is known without: all pages that are handed out are told.
    """
    if setting.seen or setting.table:
        return state
    tree = state.device
    lost = [name for name in names if name in tree.pages and not tree.pages[name].locks]
    if not lost:
        return state
    all_lost = effects.below(tree, lost)
    return doubting(state._replace(device=effects.remove(tree, all_lost)), windows.absent(tree.doubt, all_lost))


def taken(state: State, setting: Setting, pages: Collection[PageNo]) -> State:
    """These pages were handed out: whatever was cached in them is gone."""
    if setting.seen:
        return state
    return gone(state, setting, [name for name, page in state.device.pages.items() if page.page in pages])


def told(then: State, setting: Setting) -> State:
    """What is known where events were told: of a flat cache they tell after each call exactly what is cached (EVENT-02)."""
    if setting.seen:
        return then
    lag = setting.profile.event_delay
    if lag or setting.table or setting.config.tiered or then.told is None or not then.device.doubt.unsure:
        return then
    unsure, device = then.device.doubt.unsure, then.told.device
    then = certain(then, setting, [name for name in unsure if name in device])
    return gone(then, setting, [name for name in unsure if name not in device])


def counted(state: State, then: State, setting: Setting, before: Seen, after: Seen) -> State:
    """What is known after a step from ``state`` to ``then``, where the pool was asked what is available."""
    if setting.seen or not then.device.doubt.windows:
        return then
    was, now = cached_count(state, setting, before), cached_count(then, setting, after)
    if was is None or now is None:
        return then
    made = (
        then.device.doubt.made > state.device.doubt.made and not setting.expires
    )  # else some went by age, whatever was evicted
    last = was - now if made else None
    return doubting(then, windows.counted(then.device.doubt, then.device, last, now))


# What is known


def cached_count(state: State, setting: Setting, seen: Seen) -> Pages | None:
    """How many pages are cached, by what the pool says is available; ``None`` where that can't be told."""
    available = seen.available
    profile = setting.profile
    if available is None or not counts(setting) or profile.evict_moment != "call" or profile.release_delay:
        return None
    if setting.reclaims or unseen_in(state, setting):
        return None
    if "counters" not in setting.capabilities:
        return None  # a pool whose tree doesn't count may hold something back
    return Pages(len(setting.usable) - len(state.owners) - available // setting.size)


def cached_pages(state: State) -> tuple[int, int]:
    """How many pages are certainly cached, and how many possibly, if what was evicted is what should be."""
    possible = len(state.device.pages) - len(state.device.doubt.fallen)
    return possible - len(state.device.doubt.open), possible


def cached_range(state: State, names: Sequence[Name]) -> tuple[int, int]:
    """How many of a key's pages are certainly on the device, and how many possibly."""
    return run_of(names, state.device)


def run_of(names: Sequence[Name], *tiers: Tier) -> tuple[int, int]:
    """How many of a key's pages are certainly on one of these tiers, from the first one on, and how many possibly."""
    sure = possible = 0
    if not any(tier.doubt.unsure for tier in tiers):
        for name in names:
            for tier in tiers:
                if name in tier.pages:
                    sure += 1
                    break
            else:
                break
        return sure, sure
    known = [(tier.pages, tier.doubt.fallen, tier.doubt.open) for tier in tiers]
    for name in names:
        found = [name not in open_ for pages, fallen, open_ in known if name in pages and name not in fallen]
        if not found:
            break
        possible += 1
        if sure == possible - 1 and any(found):
            sure += 1
    return sure, possible


def known_part(state: State, names: Sequence[Name]) -> Sequence[Name]:
    """The pages of a key that are certainly cached on either tier, from the first one on."""
    return names[: run_of(names, state.device, state.host)[0]]


def surely(tier: Tier) -> set[Name]:
    """The pages that are on a tier for certain."""
    return tier.pages.keys() - tier.doubt.open - tier.doubt.fallen
