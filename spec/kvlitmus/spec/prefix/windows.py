"""Windows: what evictions may have taken that nobody saw.

A step that may evict is a **window**: it took ``k`` pages, between ``low`` and ``high``.  The policy gives each page that
nothing protected a **rank** at that moment, the place at which an eviction comes to it; a page is gone if, and only if,
the ``k`` of some window has reached its rank.  A rank is known as an interval, since some pages may have been gone already,
and how recently a page was used may not be known.

What is found later narrows all this.  A page that is *present* was reached by no window, and neither was any page that comes
after it.  A page that is *absent* was reached by a window; where one alone may have been it, that one has reached all pages
before it, too.  Counters tell ``k``, and how many pages are cached in all.

This is propagation of bounds: what it says is certain is so in every history of a correct cache, but it may leave open what
another argument could decide.  ``tests/spec/prefix/test_windows.py`` compares it with all histories of small caches.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Mapping

from kvlitmus.spec.prefix.page import Doubt, Page, Rank, Tier, Window
from kvlitmus.spec.words.policies import Order, Worth, later
from kvlitmus.spec.words.units import Name

LEAST, MOST = -(1 << 62), 1 << 62
"""Less and more than any part of a worth."""

MANY = 24
"""So many windows are told apart; beyond that the oldest two are taken for one of which no order is known."""


def opened(
    doubt: Doubt, tree: Tier, low: int, high: int, order: Order | None, held: Collection[Name] = (), *, ties: int = 0
) -> Doubt:
    """An eviction may have taken between so many pages; in an order that isn't known (``None``) any may be gone.

    ``held``: pages that may have been protected meanwhile, with all that is above them.  ``ties``: of pages whose ticks
    are no further apart than that, any may come first.
    """
    left = {name: page for name, page in tree.pages.items() if not page.locks and name not in doubt.fallen}
    high = min(high, len(left))
    if high <= 0:
        return doubt
    ranks = ranked(left, doubt, order, held, ties)
    made = doubt._replace(windows=(*doubt.windows, Window(min(max(low, 0), high), high, ranks)), made=doubt.made + 1)
    return settled(merged(made))


def left_open(doubt: Doubt, names: Collection[Name]) -> Doubt:
    """These pages were cached just now or not, whatever was before: any number of them may be missing."""
    forgot = forgotten(doubt, names)
    rank = Rank(1, len(names), (LEAST,), (MOST,))
    unsure, window = forgot.unsure.union(names), Window(0, len(names), dict.fromkeys(names, rank))
    return merged(forgot._replace(unsure=unsure, windows=(*forgot.windows, window)))


def ranked(
    left: Mapping[Name, Page], doubt: Doubt, order: Order | None, held: Collection[Name], ties: int
) -> dict[Name, Rank]:
    """When an eviction comes to each of the pages that are left to it."""
    many = len(left)
    if order is None:
        return dict.fromkeys(left, Rank(1, many, (LEAST,), (MOST,)))
    sure = (left.keys() - doubt.open).difference(held)
    low, high = bounds(left, sure, doubt.vague, order, ties)
    for name in held:
        if name in left:
            low[name], high[name] = (LEAST,), (MOST,)
    lows, highs = sorted(low.values()), sorted([high[name] for name in sure])
    least = {name: 1 + bisect_left(highs, low[name]) for name in left}
    most = {name: bisect_right(lows, high[name]) for name in left}
    for name, page in left.items():
        above = page.parent
        while above in left:
            if name in sure and high[name] >= low[above]:
                least[above] += 1
            if low[above] <= high[name]:
                most[name] -= 1
            above = left[above].parent
    return {name: Rank(least[name], most[name], low[name], high[name]) for name in left}


def bounds(
    left: Mapping[Name, Page], sure: Collection[Name], vague: Mapping[Name, Page], worth_of: Order, ties: int
) -> tuple[dict[Name, Worth], dict[Name, Worth]]:
    """Between which worths each page ranks: it goes when the last page below it has gone, or later."""
    low: dict[Name, Worth] = {}
    high: dict[Name, Worth] = {}
    for name, page in left.items():
        one = worth_of(page)
        other = worth_of(vague[name]) if name in vague else one
        low[name], high[name] = min(one, other), later(max(one, other), ties)
    own = dict(low), dict(high)
    for name, page in left.items():
        above = page.parent
        while above in left:
            if name in sure and own[0][name] > low[above]:
                low[above] = own[0][name]
            if own[1][name] > high[above]:
                high[above] = own[1][name]
            above = left[above].parent
    return low, high


def merged(doubt: Doubt) -> Doubt:
    """Where there are too many windows, the oldest two count as one of which no order is known."""
    if len(doubt.windows) <= MANY:
        return doubt
    first, second, *rest = doubt.windows
    names = first.ranks.keys() | second.ranks.keys()
    whole = Window(0, len(names), dict.fromkeys(names, Rank(1, len(names), (LEAST,), (MOST,))))
    return doubt._replace(windows=(whole, *rest))


def settled(doubt: Doubt) -> Doubt:
    """Each window without the pages that it has certainly taken, or certainly spared."""
    fallen = {name for window in doubt.windows for name, rank in window.ranks.items() if rank.most <= window.low}
    windows = []
    for low, high, ranks in doubt.windows:
        left = {name: rank for name, rank in ranks.items() if rank.least <= high and name not in fallen}
        if left:
            windows.append(Window(low, high, left if len(left) < len(ranks) else ranks))
    return doubt._replace(windows=tuple(windows), fallen=doubt.fallen | fallen if fallen else doubt.fallen)


def present(doubt: Doubt, names: Collection[Name]) -> Doubt:
    """These pages are there: no window has reached them, nor what comes after them."""
    odd = [name for name in names if name in doubt.fallen]
    doubt = doubt._replace(unsure=doubt.unsure.difference(names), fallen=doubt.fallen.difference(names))
    if odd:
        doubt = doubt._replace(odd=(*doubt.odd, *odd))
    windows = []
    for window in doubt.windows:
        found = [window.ranks[name] for name in names if name in window.ranks]
        if found:
            first = min([rank.high for rank in found])
            high = min(window.high, min([rank.most for rank in found]) - 1)
            ranks = {name: rank for name, rank in window.ranks.items() if name not in names and rank.low <= first}
            window = Window(min(window.low, high), high, ranks)
        windows.append(window)
    return settled(doubt._replace(windows=tuple(windows)))


def absent(doubt: Doubt, names: Collection[Name]) -> Doubt:
    """These pages are gone: a window has reached each of them, and if it is one alone, all that come before it."""
    open_ = doubt.open
    odd = [name for name in names if name in doubt.unsure and name not in open_ and name not in doubt.fallen]
    if odd:
        doubt = doubt._replace(odd=(*doubt.odd, *odd))
    windows = list(doubt.windows)
    fallen: set[Name] = set()
    for name in names:
        reached = [at for at, window in enumerate(windows) if name in window.ranks]
        if len(reached) == 1:
            window = windows[reached[0]]
            rank = window.ranks[name]
            fallen.update(other for other, its in window.ranks.items() if its.high < rank.low)
            windows[reached[0]] = window._replace(low=max(window.low, min(rank.least, window.high)))
    doubt = doubt._replace(windows=tuple(windows), fallen=doubt.fallen | fallen)
    return forgotten(settled(without(doubt, fallen)), names)


def without(doubt: Doubt, names: Collection[Name]) -> Doubt:
    """The windows leave these pages open no more."""
    if not names:
        return doubt
    windows = [
        window._replace(ranks={name: rank for name, rank in window.ranks.items() if name not in names})
        for window in doubt.windows
    ]
    return doubt._replace(windows=tuple([window for window in windows if window.ranks]))


def forgotten(doubt: Doubt, names: Collection[Name]) -> Doubt:
    """Nothing that was thought of these pages holds any more: they are gone, or new."""
    doubt = without(doubt, names)
    vague = {name: page for name, page in doubt.vague.items() if name not in names} if doubt.vague else doubt.vague
    return doubt._replace(unsure=doubt.unsure.difference(names), fallen=doubt.fallen.difference(names), vague=vague)


def counted(doubt: Doubt, tree: Tier, last: int | None, cached: int) -> Doubt:
    """The last window took exactly ``last`` pages (``None``: none was opened), and so many are ``cached`` now in all.

    What contradicts this is left as it is, for rules to judge.
    """
    windows = doubt.windows
    if last is not None and windows and windows[-1].low <= last <= windows[-1].high:
        doubt = settled(doubt._replace(windows=(*windows[:-1], windows[-1]._replace(low=last, high=last))))
    open_ = doubt.open
    if not open_:
        return doubt
    possible = len(tree.pages) - len(doubt.fallen)
    if cached == possible:
        return doubt._replace(windows=())
    if cached == possible - len(open_):
        return doubt._replace(windows=(), fallen=doubt.fallen | open_)
    return doubt


def blurred(doubt: Doubt, others: Iterable[tuple[Name, Page]]) -> Doubt:
    """Of these pages another account is as good as the one that the tree has."""
    vague = dict(doubt.vague)
    for name, page in others:
        old = vague.get(name, page)
        vague[name] = page._replace(
            touched=min(old.touched, page.touched),
            created=max(old.created, page.created),
            hits=min(old.hits, page.hits),
            priority=min(old.priority, page.priority),
        )
    return doubt._replace(vague=vague)
