"""A cache of components that serves requests by itself, as the plain block table that each of its pools is.

Nothing is inserted or evicted there: what a request has computed can be found, places that no request holds can be handed
out, and what was found in them is found no more.  So a pool is a block table (:mod:`kvlitmus.spec.prefix.tables`): what is
cached and not held counts as free.  The KV of a request is its row.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from typing import cast

from kvlitmus.spec.interface import Begun
from kvlitmus.spec.prefix import calls
from kvlitmus.spec.prefix.components.calls import Holding, PoolsSeen
from kvlitmus.spec.prefix.components.plain import Plain, cached_there, contents, parents_of
from kvlitmus.spec.prefix.components.plain_calls import NO_CALL, UNFOLLOWED, PoolCall, hit_of, plain_call, within
from kvlitmus.spec.prefix.components.state import fresh_of, stored_by
from kvlitmus.spec.prefix.components.steps import ComponentStep
from kvlitmus.spec.prefix.page import NO_DOUBT, Block, Page, Stored, Tier
from kvlitmus.spec.prefix.seen import NodeInfo, NodeSeen, Seen
from kvlitmus.spec.prefix.state import RequestState, State, empty_state
from kvlitmus.spec.words.names import NO_NAME, page_names
from kvlitmus.spec.words.setting import Setting
from kvlitmus.spec.words.shapes import needed
from kvlitmus.spec.words.units import Name, PageNo, Slot, Tick, pages_in_order

HELD = UNFOLLOWED | {"fits_alone", "held_before"}
"""Facts of what stands in a request's way: other components need room as well.  Where more goes with what is evicted, it is
found no more though nobody gets its place (``odd_on_device``).
"""

ROWS = frozenset({"match_length", "match_slots", "request_names", "row_before"})
"""Facts of a row in the order of its tokens: that is the KV's."""


def table_of(plain: Plain, state: State, stored: Collection[Stored], setting: Setting) -> State:
    """What is known of one pool, of these entries that may be cached there."""
    held = Counter(one for request in state.requests.values() for one in stored_by(request))
    mine = sorted([one for one in stored if one[0][0] in plain.components], key=lambda one: one[1])
    table = {PageNo(place): Block(plain.name(at), held[at, place]) for at, place in mine}
    pages: dict[Name, Page] = {}
    for at, place in mine:
        name = plain.name(at)
        locks = held[at, place] + (pages[name].locks if name in pages else 0)
        pages[name] = Page(plain.above(at[1]), PageNo(place), Tick(0), Tick(0), 0, 0, locks)
    own = {place for one in state.requests.values() for place in places_of(plain, one)}
    rows = {number: row_of(plain, one, table) for number, one in state.requests.items()}
    owners = dict.fromkeys(own - table.keys(), 1)
    doubt = NO_DOUBT if setting.seen else cached_there(plain, state, {}).doubt
    return State(Tier(pages, Tick(0), doubt), owners, rows, {}, {}, table=table)


def still_there(plain: Plain, setting: Setting, one: ComponentStep) -> frozenset[Stored]:
    """What was cached before a step and must be after it, as far as requests hold it: they hold nothing new in its place."""
    stored = one.before.stored & one.expected.stored
    fresh = fresh_of(setting.layout, one.before, one.call, one.answer)
    gone = {place for pool, place in fresh if pool == plain.pool}
    return frozenset([(at, place) for at, place in stored if place not in gone]) if gone else stored


def places_of(plain: Plain, one: RequestState) -> frozenset[PageNo]:
    """The places of one pool that a request holds."""
    return frozenset(
        [PageNo(place) for name, some in one.held.items() if name in plain.components for place in some.values()]
    )


def request_of(plain: Plain, one: RequestState) -> RequestState:
    """A request with the KV of what it has computed as its row."""
    size, names = plain.setting.size, one.path.names[: one.computed]
    held = one.held.get(next(iter(plain.components)), {})
    slots = plain.slots([held[end] for end in sorted(held)])[: len(names)]
    path = one.path._replace(names=names, pages=page_names(names, size), tokens=names)
    return RequestState(path, slots, 0, len(slots), path.root)


def row_of(plain: Plain, one: RequestState, table: Mapping[PageNo, Block]) -> RequestState:
    """A request with its row, which begins with what is cached there.

    That is in the order of the prefix for the KV alone, and else in any: what is not whole, and has no name, comes last.
    """
    if plain.tree:
        row = request_of(plain, one)
        names = row.path.pages
    else:
        mine = [entry for entry in stored_by(one) if entry[0][0] in plain.components]
        mine.sort(key=lambda entry: (not is_in(table, PageNo(entry[1]), plain.name(entry[0])), entry[1]))
        names = tuple([plain.name(at) for at, _ in mine])
        whole = [place for _, place in mine]
        slots = plain.slots([*whole, *sorted(places_of(plain, one).difference(whole))])
        row = RequestState(one.path._replace(names=names, pages=names, tokens=names), slots, 0, len(slots), NO_NAME)
    pages, cached = pages_in_order(row.row, plain.setting.size), 0
    while cached < min(len(names), len(pages)) and is_in(table, pages[cached], names[cached]):
        cached += 1
    return row._replace(cached=cached * plain.setting.size)


def is_in(table: Mapping[PageNo, Block], page: PageNo, name: Name) -> bool:
    """Whether this prefix is found in this page."""
    return page in table and table[page].name == name


def lets_go(plain: Plain, one: ComponentStep) -> bool:
    """Whether the request of a call holds something of this pool no more where it was."""
    number = one.call.rid if isinstance(one.call, calls.Grow) else -1
    held = [stored_by(state.requests[number]) for state in (one.before, one.expected)]
    return any(at[0] in plain.components for at, _ in held[0] - held[1])


def written(plain: Plain, state: State) -> Mapping[Slot, Name]:
    """Of the KV alone what each slot holds: what is cached there, or was computed by the request that holds it."""
    found: dict[Slot, Name] = {}
    for one in state.requests.values():
        row = request_of(plain, one)
        found.update(zip(row.row, row.path.names, strict=False))
    return found | contents(plain, state.stored)


def computed(state: State, expected: State, call: calls.Begin | calls.Grow, answer: object) -> Mapping[Slot, Name]:
    """What slots hold after the request of a call has computed what is behind its hit, or behind what it had."""
    row = expected.requests[call.rid]
    had = answer.cached if isinstance(answer, Begun) else len(state.requests[call.rid].row)
    return {**state.contents, **dict(zip(row.row[had:], row.path.names[had:], strict=False))}


def table_seen(plain: Plain, after: PoolsSeen, then: State) -> Seen:
    """What was seen of one pool: its entries, and on its free list also what is cached and no request holds."""
    shown = () if after.held is None else (*after.held.items(), *after.copies)
    entries = sorted([(place, at) for at, place in shown if at[0] in plain.components])
    held = {place for one in then.requests.values() for place in places_of(plain, one)}
    nodes, cached = [], dict[Name, PageNo]()
    for place, at in entries:
        name, page = plain.name(at), PageNo(place)
        cached.setdefault(name, page)
        info = NodeInfo((name,), (page,), plain.above(at[1]), name, "", (), {name: page})
        nodes.append(NodeSeen(info, -1, None, None, None))
    listed = cast("tuple[PageNo, ...]", after.free[plain.pool])
    listed += tuple([PageNo(place) for place, _ in entries if place not in held])
    parents = parents_of(plain, cached)
    pages = [PageNo(place) for place, _ in entries]
    return Seen(None, None, True, listed, frozenset(listed), cached, pages, parents, nodes)


def serving(plain: Plain, setting: Setting, one: ComponentStep) -> Iterator[tuple[State, PoolCall]]:
    """What is done for a request first, each with what is known of it: what it has found is named, and it gets places."""
    call, answer = one.call, one.answer
    if not isinstance(call, calls.Begin | calls.Grow) or not isinstance(answer, Holding) or not answer.granted:
        return
    if isinstance(call, calls.Begin) and not plain.tree:
        root = setting.profile.window_root
        places = [
            answer.held[name][end]
            for name, each in plain.components.items()
            for end in needed(each, answer.length, root) or ()
            if end in answer.held.get(name, {})
        ]
        hit = hit_of(plain, setting, one.before, call.path, answer.length, places)
        yield empty_state()._replace(contents=hit.contents or {}), hit
    got = fresh_of(setting.layout, one.before, call, answer)
    fresh = [PageNo(place) for pool, place in got if pool == plain.pool]
    kept = Counter(place for name in plain.components for place in answer.held.get(name, {}).values())
    others = [places_of(plain, each) for number, each in one.before.requests.items() if number != call.rid]
    owners = dict.fromkeys(kept - Counter(fresh), 1) | dict.fromkeys(frozenset[PageNo]().union(*others), 1)
    asked = calls.Alloc(plain.tokens(len(fresh)))
    granted = PoolCall(asked, plain.slots(fresh), frozenset({"asked"}))
    yield empty_state()._replace(owners=cast("Mapping[PageNo, int]", owners)), granted


def served(plain: Plain, setting: Setting, one: ComponentStep, state: State, expected: State) -> PoolCall:
    """What a call is to one pool, as to a block table; ``state``, ``expected``: what is known of that."""
    call, answer = one.call, one.answer
    goes_along = setting.profile.component_cascade != "none" or setting.profile.evict_granularity == "node"
    hidden = HELD | {"odd_on_device"} if goes_along else HELD
    if not plain.tree:
        hidden |= ROWS
    match call:
        case calls.Begin():
            length = answer.length if isinstance(answer, Holding) else None
            begin = call._replace(within=within(setting, one.before, call.path, length), chunk=None)
            if not isinstance(answer, Holding):
                return PoolCall(begin, None, hidden)
            row = expected.requests[call.rid]
            cached = answer.length if plain.tree else row.cached
            return PoolCall(begin, Begun(list(row.row), cached), hidden)
        case calls.Grow():
            assert isinstance(answer, Holding)
            was, row = state.requests[call.rid].row, expected.requests[call.rid]
            new = row.row[len(was) :] if plain.tree else tuple([slot for slot in row.row if slot not in was])
            if not plain.tree and (not {*was} <= {*row.row} or lets_go(plain, one)):
                return NO_CALL  # none on a plain cache gives back what a window has left behind, and may take it again
            grow = call._replace(path=row.path)
            return PoolCall(grow, new if answer.granted else None, hidden)
        case calls.End():
            if plain.tree and setting.profile.component_copies == "one":
                # Of two that computed the same one's is cached: a row may begin with its own, and go on with cached ones.
                hidden |= {"request_pages"}
            return PoolCall(call._replace(keep=False), None, hidden)
        case _:
            return plain_call(plain, setting, one.before, call, answer)
