"""Block tables: what a cache knows that publishes pages when it hands them out.

Some caches have no tree.  A request has a table of **blocks** (pages); a block that is full is entered under the name of
its prefix at once, whether that prefix is cached elsewhere or not, so that a name may have **several places**.  A block
that no request holds any more stands on the free list and can still be found there: a hit takes it back.  What evicts
is handing it out for something else, and nothing else does.

The tree of the state says which names are cached, and how often each is held; the **table** says where: for each page
that is entered its name, and how many requests hold this very page.  Since every page that is handed out is told in an
answer, both are known at any depth.

These are elementary effects on the state, as those of :mod:`kvlitmus.spec.prefix.effects` are on its parts.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from kvlitmus.spec.prefix import effects
from kvlitmus.spec.prefix.page import Block
from kvlitmus.spec.prefix.state import State
from kvlitmus.spec.words.setting import Setting
from kvlitmus.spec.words.units import Name, PageNo, pages_in_order, pages_of


def hand_out(state: State, pages: Collection[PageNo]) -> State:
    """These pages left the free list: what was found in them is not found there any more, nor at all if nowhere else."""
    lost = {state.table[page].name for page in pages if page in state.table}
    if not lost:
        return state
    table = {page: block for page, block in state.table.items() if page not in pages}
    lost -= {block.name for block in table.values()}
    tree = effects.remove(state.device, lost) if lost else state.device
    return state._replace(device=tree, table=table)


def enter(state: State, setting: Setting, rid: int, start: int) -> State:
    """The blocks of a request that are full are entered under their names, and held from number ``start`` on."""
    size, running = setting.size, state.requests[rid]
    pages = pages_in_order(running.row, size)[: len(running.path.pages)]
    names = running.path.pages[: len(pages)]
    end = running.path.end(len(names))
    tree, _ = effects.insert(state.device, running.path.root, names, pages, counts=False)
    tree = effects.lock(effects.lock(tree, end), running.locked, -1)
    own = pages_of(running.row[running.cached : len(names) * size], size)
    whole = running._replace(cached=max(running.cached, len(names) * size), locked=end)
    return state._replace(
        device=tree,
        table=hold(state.table, names[start:], pages[start:]),
        owners=effects.release(state.owners, own),
        requests={**state.requests, rid: whole},
    )


def leave(state: State, setting: Setting, rid: int) -> State:
    """A request holds and owns nothing any more; its blocks were used until now, and stay where they are found."""
    size, running = setting.size, state.requests[rid]
    held = pages_of(running.row[: running.cached], size)
    tree = effects.touch(state.device, effects.path(state.device, running.locked))
    return state._replace(
        device=effects.lock(tree, running.locked, -1),
        table=let_go(state.table, held),
        owners=effects.release(state.owners, pages_of(running.row[running.cached :], size)),
        requests={number: one for number, one in state.requests.items() if number != rid},
    )


def hold(table: Mapping[PageNo, Block], names: Sequence[Name], pages: Sequence[PageNo]) -> Mapping[PageNo, Block]:
    """These pages are entered under these names, and held by one more."""
    held = dict(table)
    for name, page in zip(names, pages, strict=False):
        old = held.get(page)
        held[page] = Block(name, 1 if old is None or old.name != name else old.holders + 1)
    return held


def let_go(table: Mapping[PageNo, Block], pages: Collection[PageNo]) -> Mapping[PageNo, Block]:
    """These pages are held by one less."""
    left = dict(table)
    for page in pages:
        if page in left:
            left[page] = left[page]._replace(holders=max(0, left[page].holders - 1))
    return left


def as_seen(table: Mapping[PageNo, Block], places: Mapping[PageNo, Name]) -> Mapping[PageNo, Block]:
    """The table as a snapshot shows it."""
    if places == {page: block.name for page, block in table.items()}:
        return table
    nobody = Block(Name(-1), 0)
    seen = {}
    for page, name in places.items():
        old = table.get(page, nobody)
        seen[page] = old if old.name == name else Block(name, 0)
    return seen
