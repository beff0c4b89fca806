"""What can be known of a cache that shows no snapshot.

Below depth 3 evictions aren't seen.  The model then keeps every page that may still be cached and
remembers which of them are ``maybe``; answers settle the doubt: a match that covers a page says that
it is there and where, one that stops short says that the next page is gone, with everything below.

Each function takes the model and returns it as it is known now.  With a snapshot there is no
doubt, and they leave the model alone.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from kvlitmus.reference.tree import Tree
from kvlitmus.spec.units import Name, PageNo

if TYPE_CHECKING:
    from kvlitmus.conformance.checker.checker import Checker

SOMEWHERE = PageNo(-1)
"""The place of a page that is cached nobody knows where."""


def unsure(checker: Checker, tree: Tree, needed: int | None = None) -> None:
    """Something may have been evicted: whatever isn't locked is ``maybe`` from now on.

    ``needed`` pages were wanted; when so many were free for certain, nothing was evicted.
    """
    if checker.depth >= 3:
        return
    if needed is None or needed > len(checker.usable) - len(checker.owners) - len(tree.pages):
        checker.maybe.update(name for name, page in tree.pages.items() if not page.locks)


def known(checker: Checker, tree: Tree, names: Sequence[Name], pages: Sequence[PageNo]) -> Tree:
    """These pages are cached for certain, here."""
    if checker.depth >= 3 or not names:
        return tree
    checker.maybe.difference_update(names)
    settled = dict(tree.pages)
    for name, page in zip(names, pages, strict=False):
        if name in settled:
            settled[name] = settled[name]._replace(page=page)
    return Tree(settled, tree.clock)


def gone(checker: Checker, tree: Tree, names: Collection[Name]) -> Tree:
    """These pages are not cached, and so nothing below them is; a locked page stays, for the rules to judge."""
    if checker.depth >= 3:
        return tree
    lost = {name for name in names if name in tree.pages and not tree.pages[name].locks}
    while True:
        below = {name for name, page in tree.pages.items() if page.parent in lost and name not in lost}
        if not below:
            break
        lost |= below
    if not lost:
        return tree
    checker.maybe -= lost
    return Tree({name: page for name, page in tree.pages.items() if name not in lost}, tree.clock)


def taken(checker: Checker, tree: Tree, pages: Collection[PageNo]) -> Tree:
    """These pages were handed out: whatever was cached in them is gone."""
    if checker.depth >= 3:
        return tree
    return gone(checker, tree, [name for name, page in tree.pages.items() if page.page in pages])
