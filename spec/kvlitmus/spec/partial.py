"""Partial observation: what can be known of a cache that shows no snapshot.

Below depth 3 evictions aren't seen.  The state then keeps every page that may still be cached and
remembers which of them are doubtful; answers settle the doubt: a match that covers a page says that
it is there and where, one that stops short says that the next page is gone, with everything below.

With a snapshot there is no doubt, and these functions leave the state alone.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from kvlitmus.spec import effects
from kvlitmus.spec.setting import Setting
from kvlitmus.spec.state import State
from kvlitmus.spec.units import Name, PageNo

SOMEWHERE = PageNo(-1)
"""The place of a page that is cached nobody knows where."""


def unsure(state: State, setting: Setting, needed: int | None = None) -> State:
    """Something may have been evicted: whatever isn't locked is doubtful from now on.

    ``needed`` pages were wanted; when so many were free for certain, nothing was evicted.
    """
    if setting.seen:
        return state
    pages = state.tree.pages
    if needed is not None and needed <= len(setting.usable) - len(state.owners) - len(pages):
        return state
    unlocked = [name for name, page in pages.items() if not page.locks]
    return state._replace(doubtful=state.doubtful.union(unlocked))


def known(state: State, setting: Setting, names: Sequence[Name], pages: Sequence[PageNo]) -> State:
    """These pages are cached for certain, here."""
    if setting.seen or not names:
        return state
    tree = state.tree
    places = {name: page for name, page in zip(names, pages, strict=False) if name in tree.pages}
    return state._replace(tree=effects.move(tree, places), doubtful=state.doubtful.difference(names))


def certain(state: State, setting: Setting, names: Sequence[Name]) -> State:
    """These pages are cached for certain, wherever they are."""
    if setting.seen:
        return state
    return state._replace(doubtful=state.doubtful.difference(names))


def gone(state: State, setting: Setting, names: Collection[Name]) -> State:
    """These pages are not cached, and so nothing below them is; a locked page stays, for the rules to judge."""
    if setting.seen:
        return state
    tree = state.tree
    lost = [name for name in names if name in tree.pages and not tree.pages[name].locks]
    if not lost:
        return state
    all_lost = effects.below(tree, lost)
    return state._replace(tree=effects.remove(tree, all_lost), doubtful=state.doubtful - all_lost)


def taken(state: State, setting: Setting, pages: Collection[PageNo]) -> State:
    """These pages were handed out: whatever was cached in them is gone."""
    if setting.seen:
        return state
    return gone(state, setting, [name for name, page in state.tree.pages.items() if page.page in pages])


def cached_range(state: State, names: Sequence[Name]) -> tuple[int, int]:
    """How many of a key's pages are certainly cached, and how many possibly."""
    pages, doubtful = state.tree.pages, state.doubtful
    sure = possible = 0
    for name in names:
        if name not in pages:
            break
        possible += 1
        if sure == possible - 1 and name not in doubtful:
            sure += 1
    return sure, possible
