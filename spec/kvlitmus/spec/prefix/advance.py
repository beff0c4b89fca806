"""What a call and its answer amount to: the state after it, as a correct cache has it.

:func:`expect` folds the elementary effects of one call.  Where a correct cache has a choice (how long the cached prefix
is that it found, which slots it handed out), the answer says which it made.  Evictions are no part of the answer; they
are seen in a snapshot (:func:`follow`), or, without one, leave doubt (:mod:`kvlitmus.spec.prefix.partial`).

The reference uses the same functions: it makes the choice itself, answers, and goes on with what this says.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from kvlitmus.spec.interface import Begun, Hit, Stored
from kvlitmus.spec.prefix import calls, effects, partial, tables, windows
from kvlitmus.spec.prefix.calls import Slots
from kvlitmus.spec.prefix.late_locks import given_back
from kvlitmus.spec.prefix.release import queued, without
from kvlitmus.spec.prefix.seen import Seen
from kvlitmus.spec.prefix.spare_pages import spares_seen, with_spares
from kvlitmus.spec.prefix.state import Page, RequestState, Retracted, State, Tier, empty_state
from kvlitmus.spec.prefix.work_calls import PlainCall
from kvlitmus.spec.words.names import page_names
from kvlitmus.spec.words.setting import Setting
from kvlitmus.spec.words.units import (
    Name,
    PageNo,
    Slot,
    Tick,
    Tokens,
    page_floor,
    page_slots,
    pages_in_order,
    pages_needed,
    pages_of,
)


def expect(state: State, setting: Setting, call: PlainCall, answer: object) -> State:
    """The state after a call that was answered so."""
    if state.device.doubt.odd:
        state = partial.doubting(state, state.device.doubt._replace(odd=()))
    then = EXPECT[type(call)](state, setting, call, answer)
    if not setting.filters_in_sight:
        then = queued(state, then, setting, call)
    return given_back(state, then, setting, call) if setting.unlock_delay else then


def follow(state: State, setting: Setting, after: Seen) -> State:
    """What was expected, as the snapshot shows it: pages that vanished are gone, pages that appeared are there."""
    if setting.table:
        state = state._replace(table=tables.as_seen(state.table, after.places()))
    if state.leaving:
        state = without(state, after.free)
    if setting.spare_pages:
        state = spares_seen(state, setting, after)
    now = state.device.clock
    tree = as_seen(state.device, after.cached, lambda name, page: Page(after.parent_of(name), page, now, now))
    return state if tree is state.device else state._replace(device=tree)


def as_seen(tier: Tier, places: Mapping[Name, PageNo], begun: Callable[[Name, PageNo], Page]) -> Tier:
    """A tier with the pages that a snapshot shows, where it shows them; ``begun``: the record of one that is new."""
    if places == {name: page.page for name, page in tier.pages.items()}:
        return tier
    followed: dict[Name, Page] = {}
    for name, page in places.items():
        old = tier.pages.get(name)
        if old is None:
            old = begun(name, page)
        followed[name] = old if old.page == page else old._replace(page=page)
    return tier._replace(pages=followed)


# What several facts and effects ask of a call


def owned_by(slots: Sequence[Slot], setting: Setting) -> Sequence[PageNo]:
    """The pages that somebody owns who owns these slots: each as often as a slot of one unit names it."""
    return cast("Sequence[PageNo]", slots) if setting.size == 1 else list(pages_of(slots, setting.size))


def offered_by(call: calls.Insert[Slots], setting: Setting) -> dict[Name, PageNo]:
    """What an insert offers for each whole page of its key."""
    return {name: PageNo(call.slots[at * setting.size] // setting.size) for at, name in enumerate(call.path.pages)}


def inserted_already(state: State, setting: Setting, call: calls.Insert[Slots], answer: Stored) -> int:
    """How many pages of its key were cached when an insert came: what it reports, as far as that can be."""
    sure, possible = partial.cached_range(state, call.path.pages)
    return min(max(answer.already // setting.size, sure), possible)


def duplicate_pages(state: State, setting: Setting, call: calls.Insert[Slots], already: int) -> list[PageNo]:
    """The pages of an insert that were brought for what was cached already, elsewhere: duplicates."""
    tree = partial.gone(state, setting, call.path.pages[already:]).device
    offered = list(offered_by(call, setting).items())[call.protected // setting.size : already]
    return [page for name, page in offered if tree.pages[name].page != page]


def computed_pages(running: RequestState, setting: Setting, upto: int | None) -> tuple[Name, ...]:
    """The whole pages of a request that are computed."""
    return running.path.pages if upto is None else page_names(running.path.names[:upto], setting.size)


def used_path(state: State, setting: Setting, call: calls.Insert[Slots] | calls.Publish | calls.End) -> Sequence[Name]:
    """The pages of the path that a call uses by an insertion; none of a chunk, which is no new use."""
    if isinstance(call, calls.Insert):
        return () if call.chunked else call.path.pages
    if isinstance(call, calls.Publish):
        return () if call.chunked else computed_pages(state.requests[call.rid], setting, call.upto)
    return computed_pages(state.requests[call.rid], setting, call.upto) if call.keep else ()


def offered_by_request(running: RequestState, setting: Setting, paged: Sequence[Name]) -> list[PageNo]:
    """The request's page for each whole page of its key; no page (-1) where its row is too short."""
    size, row = setting.size, running.row
    return [PageNo(row[at * size] // size if at * size < len(row) else -1) for at in range(len(paged))]


def opened_by(row: Sequence[Slot], new: Sequence[Slot], setting: Setting) -> frozenset[PageNo]:
    """The pages that ``new`` slots behind a row opened."""
    size = setting.size
    return pages_of(new, size) - pages_of(row[-1:], size) if len(row) % size else pages_of(new, size)


def written_by(
    state: State, setting: Setting, call: PlainCall, answer: Any
) -> tuple[Sequence[Slot], Sequence[Name]] | None:
    """The slots that the caller writes when the call is answered, and what it writes there; ``None`` where it computes nothing."""
    size = setting.size
    if type(call) is calls.Insert:
        whole = len(call.path.pages) * size
        return call.slots[call.protected : whole], call.path.names[call.protected : whole]
    if type(call) is calls.Begin and answer is not None:
        row, tokens = answer.row, call.path.tokens
        end = min(answer.cached if call.ahead else len(row), len(row), len(tokens))
        return row[answer.cached : end], tokens[answer.cached : end]
    if type(call) is calls.Grow and answer is not None and call.path is not None:
        running = state.requests[call.rid]
        if running.upto is not None:
            return None
        before, row, tokens = running.row, running.row + answer, call.path.tokens
        start = max(0, len(before) - 1) if call.path.key.bigram else len(before)
        return row[start : len(tokens)], tokens[start : len(row)]
    if type(call) is calls.TakeBack and call.path.key.bigram:
        running, left = state.requests[call.rid], len(call.path.tokens)
        if running.computed < left:
            return None
        return running.row[left - 1 : left], call.path.tokens[left - 1 :]  # it has lost the token behind it
    if type(call) is calls.Compute:
        running = state.requests[call.rid]
        start = running.computed
        end = min(start + call.units, len(running.row), len(running.path.tokens))
        return running.row[start:end], running.path.tokens[start:end]
    return None


def written(state: State, setting: Setting, call: PlainCall, answer: Any) -> Mapping[Slot, Name]:
    """What slots hold after the caller has written."""
    wrote = written_by(state, setting, call, answer)
    contents = state.contents if wrote is None else effects.write(state.contents, *wrote)
    if setting.inside and isinstance(call, calls.Begin) and answer is not None:
        copied = slice(page_floor(answer.cached, setting.size), min(answer.cached, len(answer.row)))
        contents = effects.write(contents, answer.row[copied], call.path.tokens[copied])
    return contents


# The calls


def alloc(state: State, setting: Setting, call: calls.Alloc[Tokens], answer: Slots | None) -> State:
    """The slots are the caller's."""
    if answer is None:
        return refused(state, setting, pages_needed(call.asked, setting.size))
    state = state._replace(owners=effects.take(state.owners, owned_by(answer, setting)))
    return allocated(state, setting, pages_of(answer, setting.size))


def allocated(state: State, setting: Setting, pages: frozenset[PageNo]) -> State:
    """These pages were handed out, after an eviction where allocations evict: what was cached in them isn't any more."""
    if setting.table:
        return tables.hand_out(state, pages)
    if setting.profile.evict_moment == "alloc":
        state = partial.made_room(state, setting, len(pages))
    return partial.taken(state, setting, pages)


def refused(state: State, setting: Setting, needed: int) -> State:
    """An allocation of so many pages was refused, after an eviction where allocations evict."""
    if setting.table or setting.profile.evict_moment != "alloc":
        return state
    return partial.tried(state, setting, needed)


def extended_by(call: calls.Extend | calls.ExtendBatch, answer: Slots, setting: Setting) -> frozenset[PageNo]:
    """The pages that an extension opened, of one request or of a batch."""
    if isinstance(call, calls.Extend):
        begun: Sequence[Slot] = call.row
    else:
        begun = [slot for before, slot in zip(call.before, call.last, strict=False) if before]
    return pages_of(answer, setting.size) - pages_of(begun, setting.size)


def extend(state: State, setting: Setting, call: calls.Extend | calls.ExtendBatch, answer: Slots | None) -> State:
    """The pages that were opened are the caller's."""
    if answer is None:
        return refused(state, setting, opened_needed_by(call, setting))
    opened = extended_by(call, answer, setting)
    slots = [slot for page in opened for slot in page_slots(page, setting.size)]
    state = state._replace(owners=effects.take(state.owners, owned_by(slots, setting)))
    return allocated(state, setting, opened)


def free(state: State, setting: Setting, call: calls.Free[Slots] | calls.EndGroup, answer: None) -> State:
    """The slots are the caller's no more."""
    return state._replace(owners=effects.release(state.owners, pages_of(call.slots, setting.size)))


def nothing(state: State, setting: Setting, call: object, answer: object) -> State:
    """Nothing that anybody knows of has changed."""
    return state


def reset(state: State, setting: Setting, call: calls.Reset, answer: None) -> State:
    """The cache is as new; what is stored, whether storage is there, and what was told, is not forgotten."""
    tiers = None if state.tiers is None else state.tiers.forgotten()
    return empty_state()._replace(tiers=tiers, told=state.told, late=state.late)


def flush(state: State, setting: Setting, call: calls.Flush, answer: object) -> State:
    """What nobody protects is gone, and what is left is cached for certain."""
    if not answer:
        return state
    if setting.table:
        return tables.hand_out(state, [page for page, block in state.table.items() if not block.holders])
    lost = frozenset([name for name, page in state.device.pages.items() if not page.locks])
    tree = effects.remove(state.device, lost)
    doubt = tree.doubt if setting.seen else windows.forgotten(tree.doubt, lost)
    return state._replace(device=Tier(tree.pages, tree.clock, doubt))


def match(state: State, setting: Setting, call: calls.Match, answer: Hit) -> State:
    """What was found was used, and a node ends there."""
    state = partial.aged(state, setting)
    paged, length = call.path.pages, answer.length
    _, possible = partial.cached_range(state, paged)
    covered = paged[: min(length // setting.size, possible)]
    if answer.slots is not None:
        state = partial.known(state, setting, covered, pages_in_order(answer.slots, setting.size))
    if length < setting.cap(len(call.path.names)) and setting.profile.match_ends != "node":
        state = partial.gone(state, setting, paged[len(covered) :])
    return state._replace(device=matched(state.device, setting, covered))


def matched(tree: Tier, setting: Setting, covered: Sequence[Name]) -> Tier:
    """The tree after a match that covered these pages; in a block table only giving them back counts as a use."""
    if setting.table:
        return tree
    return used(tree, setting, covered, hits=int(setting.profile.hit_counts == "match"))


def used(tree: Tier, setting: Setting, covered: Sequence[Name], *, hits: int = 0, now: Tick | None = None) -> Tier:
    """The tree after a use of these pages of one path, at its next tick or ``now``: a node ends with the last of them."""
    tree = effects.touch(tree, covered, hits=hits, now=now)
    return effects.split(tree, covered[-1], renews=setting.renews) if covered else tree


def insert(state: State, setting: Setting, call: calls.Insert[Slots], answer: Stored) -> State:
    """What was missing is cached in the slots that were brought, which are the tree's now."""
    size, paged = setting.size, call.path.pages
    already = inserted_already(state, setting, call, answer)
    own = duplicate_pages(state, setting, call, already) if setting.profile.duplicates == "cache_frees" else []
    contents = written(state, setting, call, answer)
    state = partial.gone(state, setting, paged[already:])
    tree, _ = effects.insert(
        state.device,
        call.path.root,
        paged,
        list(offered_by(call, setting).values()),
        counts=setting.profile.hit_counts == "insert" and not call.chunked,
        priority=call.priority,
        renews=setting.renews,
    )
    adopted = pages_of(
        [*[call.slots[at * size] for at in range(already, len(paged))], *[Slot(page * size) for page in set(own)]],
        size,
    )
    state = partial.certain(state, setting, paged)
    return state._replace(device=tree, owners=effects.release(state.owners, adopted), contents=contents)


def lock(state: State, setting: Setting, call: calls.Lock, answer: object) -> State:
    """The path is protected once more; it was used, where the profile says that a lock is a use."""
    tree = effects.lock(state.device, call.at)
    covered = effects.path(tree, call.at)
    if setting.profile.lock_touches:
        tree = effects.touch(tree, covered)
    state = partial.certain(state, setting, covered)
    return state._replace(device=tree, receipts={**state.receipts, call.receipt: call.at})


def unlock(state: State, setting: Setting, call: calls.Unlock, answer: object) -> State:
    """The path is protected once less."""
    receipts = {number: at for number, at in state.receipts.items() if number != call.receipt}
    return state._replace(device=unlocked(state.device, setting, state.receipts[call.receipt]), receipts=receipts)


def unlocked(tree: Tier, setting: Setting, at: Name) -> Tier:
    """The tree after the path that ends here was given back; it was used, where the profile says that this is a use."""
    tree = effects.lock(tree, at, -1)
    return effects.touch(tree, effects.path(tree, at)) if setting.profile.unlock_touches else tree


def evict(state: State, setting: Setting, call: calls.Evict[Tokens], answer: int) -> State:
    """The victims are gone and free; which those are is no part of the answer, so it is seen, or in doubt."""
    return partial.evicted(state, setting, answer)


def begin(state: State, setting: Setting, call: calls.Begin, answer: Begun | None) -> State:
    """The cached prefix is used and locked, the rest of the row is the request's; a block table enters what is full."""
    size, paged = setting.size, call.path.pages
    cap = setting.cap(len(call.path.names))
    state = partial.aged(state, setting)
    sure, possible = partial.cached_range(state, paged)
    if answer is None:
        if setting.table:
            return state
        used = paged[: min(possible, cap // size)]
        if setting.profile.match_ends == "node":
            used = used[: effects.whole_nodes(state.device, used)]
        touched = state
        if setting.profile.refused_begin == "renews":
            touched = partial.used(
                state._replace(device=matched(state.device, setting, used)), setting, state, used[sure:]
            )
        return partial.tried(
            touched, setting, pages_needed(len(call.path.key.tokens), size) + setting.spare_pages, used
        )
    row, found = cast("Slots", tuple(answer.row)), answer.cached
    cached = page_floor(found, size) if setting.inside else found
    contents = written(state, setting, call, answer)
    covered = paged[: min(cached // size, possible)]
    state = partial.known(state, setting, covered, pages_in_order(row, size))
    if cached < cap and setting.profile.match_ends != "node":
        state = partial.gone(state, setting, paged[len(covered) :])
    at = covered[-1] if covered else call.path.root
    computed = min(found, len(row)) if call.ahead else len(row)
    running = with_spares(RequestState(call.path, row, cached, computed, at), setting)
    tree = effects.lock(matched(state.device, setting, covered), at)
    state = state._replace(
        device=tree,
        owners=effects.take(state.owners, owned_by(row[cached:], setting)),
        requests={**state.requests, call.rid: running},
        contents=contents,
    )
    opened = pages_of(row[cached:], size)
    if setting.table:
        return tables.enter(tables.hand_out(state, opened), setting, call.rid, 0)
    return partial.taken(partial.made_room(state, setting, len(opened)), setting, opened)


def grow(state: State, setting: Setting, call: calls.Grow, answer: Slots | None) -> State:
    """The row is longer, in the request's own slots; a block table enters those that are full now."""
    running = state.requests[call.rid]
    if answer is None or call.path is None:
        if setting.table:
            return state
        before, size = len(running.row), setting.size
        needed = pages_needed(before + call.tokens, size) - pages_needed(before, size) + setting.spare_pages
        return partial.tried(state, setting, needed)
    row = running.row + answer
    opened = opened_by(running.row, answer, setting) - running.spare
    computed = len(row) if running.upto is None else running.computed
    grown = with_spares(running._replace(path=call.path, row=row, computed=computed), setting)
    state = state._replace(
        owners=effects.take(state.owners, opened),
        requests={**state.requests, call.rid: grown},
        contents=written(state, setting, call, answer),
    )
    if setting.table:
        return tables.enter(tables.hand_out(state, opened), setting, call.rid, running.cached // setting.size)
    return partial.taken(partial.made_room(state, setting, len(opened)), setting, opened)


def dropped_by(state: State, setting: Setting, call: calls.TakeBack) -> frozenset[PageNo]:
    """The pages of a request that lie wholly behind what is left of it."""
    row, left = state.requests[call.rid].row, len(call.path.tokens)
    return pages_of(row[left:], setting.size) - pages_of(row[:left], setting.size)


def take_back(state: State, setting: Setting, call: calls.TakeBack, answer: int) -> State:
    """The row is shorter, and the pages behind it are the request's no more."""
    running, left = state.requests[call.rid], len(call.path.tokens)
    shorter = running._replace(path=call.path, row=running.row[:left], computed=min(running.computed, left))
    return state._replace(
        owners=effects.release(state.owners, dropped_by(state, setting, call)),
        requests={**state.requests, call.rid: shorter},
        contents=written(state, setting, call, answer),
    )


def copied_from(state: State, call: calls.Fork | calls.Resume) -> RequestState:
    """The request whose row a call copies."""
    return state.requests[call.of] if isinstance(call, calls.Fork) else state.retracted.requests[call.rid]


def copied_pages(state: State, setting: Setting, call: calls.Fork | calls.Resume, answer: Begun | None = None) -> int:
    """How many pages a copy of a request needs: those that it doesn't share."""
    one = copied_from(state, call)
    return pages_needed(len(one.row), setting.size) - (one if answer is None else answer).cached // setting.size


def fork(state: State, setting: Setting, call: calls.Fork, answer: Begun | None) -> State:
    """The path that the other request shares is protected once more; the rest of its row is copied into own pages."""
    one = copied_from(state, call)
    if answer is None:
        needed = copied_pages(state, setting, call) + setting.spare_pages
        return state if setting.table else partial.tried(state, setting, needed)
    tree = effects.lock(state.device, one.locked)
    if setting.profile.lock_touches:
        tree = effects.touch(tree, effects.path(tree, one.locked))
    return row_copied(state._replace(device=tree), setting, call.rid, one, answer)


def row_copied(state: State, setting: Setting, rid: int, one: RequestState, answer: Begun) -> State:
    """A request runs in these slots; its own hold what another row of the same tokens has held."""
    row, cached = cast("Slots", tuple(answer.row)), answer.cached
    end = min(one.computed, len(row), len(one.path.tokens))
    state = state._replace(
        owners=effects.take(state.owners, owned_by(row[cached:], setting)),
        requests={**state.requests, rid: with_spares(one._replace(row=row, cached=cached, spare=frozenset()), setting)},
        contents=effects.write(state.contents, row[cached:end], one.path.tokens[cached:end]),
    )
    opened = pages_of(row[cached:], setting.size)
    if setting.table:
        return tables.enter(tables.hand_out(state, opened), setting, rid, 0)
    return partial.taken(partial.made_room(state, setting, len(opened)), setting, opened)


def retract(state: State, setting: Setting, call: calls.Retract, answer: object) -> State:
    """The request is on the host, with all of its row, and owns and protects nothing on the device."""
    if not answer:
        return state
    one, parked = state.requests[call.rid], state.retracted
    parked = parked._replace(requests={**parked.requests, call.rid: one._replace(cached=0, locked=one.path.root)})
    parked = parked._replace(most=max(parked.most, parked.pages(setting.size)))
    return end(state, setting, calls.End(call.rid, keep=False), None)._replace(retracted=parked)


def resume(state: State, setting: Setting, call: calls.Resume, answer: Begun | None) -> State:
    """The request runs again: what it was answered to share is used and locked, the rest of its row was brought back."""
    one, paged = copied_from(state, call), call.path.pages
    _, possible = partial.cached_range(state, paged)
    if answer is None:
        needed = copied_pages(state, setting, call) + setting.spare_pages
        return state if setting.table else partial.tried(state, setting, needed, paged[:possible])
    covered = paged[: min(answer.cached // setting.size, possible)]
    state = partial.known(state, setting, covered, pages_in_order(tuple(answer.row), setting.size))
    at = covered[-1] if covered else call.path.root
    state = discard(state, setting, calls.Discard(call.rid), None)
    state = state._replace(
        device=effects.lock(matched(state.device, setting, covered) if covered else state.device, at)
    )
    return row_copied(state, setting, call.rid, one._replace(locked=at), answer)


def discard(state: State, setting: Setting, call: calls.Discard, answer: object) -> State:
    """The request is not on the host any more."""
    others = {rid: one for rid, one in state.retracted.requests.items() if rid != call.rid}
    return state._replace(retracted=Retracted(others, state.retracted.most))


def compute(state: State, setting: Setting, call: calls.Compute, answer: None) -> State:
    """More of the row holds what it should."""
    running = state.requests[call.rid]
    computed = min(running.computed + call.units, len(running.row))
    requests = {**state.requests, call.rid: running._replace(computed=computed)}
    return state._replace(requests=requests, contents=written(state, setting, call, answer))


def publish(state: State, setting: Setting, call: calls.Publish, answer: Begun) -> State:
    """The whole pages that are computed are the tree's, locked; the request goes on in the tree's slots."""
    size, running = setting.size, state.requests[call.rid]
    row, cached = cast("Slots", tuple(answer.row)), answer.cached
    state = partial.aged(state, setting)
    paged = computed_pages(running, setting, call.upto)
    if setting.filters:
        paged = paged[: max(running.cached, cached) // size]
    state = partial.gone(state, setting, paged[kept_from(state, setting, running, paged, row) :])
    at = paged[-1] if paged else running.path.root
    tree = stored(state.device, setting, running, paged, chunked=call.chunked)
    if paged and "composed" in setting.capabilities:  # the request's slots come from a match of their own
        tree = matched(tree, setting, paged)
    tree = effects.lock(effects.lock(tree, at), running.locked, -1)
    owners = effects.release(state.owners, pages_of(running.row[running.cached :], size))
    state = state._replace(
        device=tree,
        owners=effects.take(owners, owned_by(row[cached:], setting)),
        requests={**state.requests, call.rid: running._replace(row=row, cached=cached, locked=at)},
    )
    return partial.known(state, setting, paged, pages_in_order(row, size))


def kept_from(state: State, setting: Setting, running: RequestState, paged: Sequence[Name], row: Slots) -> int:
    """The first of the pages to publish that wasn't cached, since the request keeps its own page for it; only of those in doubt."""
    if not state.device.doubt.unsure:
        return len(paged)
    own, now = offered_by_request(running, setting, paged), pages_in_order(row, setting.size)
    for at, (name, old, new) in enumerate(zip(paged, own, now, strict=False)):
        if name in state.device.doubt.unsure and old == new and at >= running.cached // setting.size:
            return at
    return len(paged)


def end(state: State, setting: Setting, call: calls.End, answer: None) -> State:
    """What is kept is cached; the request owns and protects nothing.  A block table has cached it long since."""
    if setting.table:
        return tables.leave(state, setting, call.rid)
    running = state.requests[call.rid]
    paged = computed_pages(running, setting, call.upto) if call.keep else ()
    tree = stored(state.device, setting, running, paged, chunked=False) if call.keep else state.device
    filtered = setting.filters and not setting.seen
    unsure = [
        name for name in paged if name in state.device.doubt.unsure or (filtered and name not in state.device.pages)
    ]
    if unsure:
        fresh = int(setting.profile.hit_counts == "insert")
        others = [tree.pages[name]._replace(created=tree.clock, hits=fresh, priority=0) for name in unsure]
        state = partial.renewed(state._replace(device=tree), setting, unsure, others, filtered=filtered)
        state = partial.joined(state, setting, paged[paged.index(unsure[0]) + 1 :])
        tree = state.device
    return state._replace(
        device=unlocked(tree, setting, running.locked),
        owners=effects.release(state.owners, pages_of(running.row[running.cached :], setting.size) | running.spare),
        requests={rid: one for rid, one in state.requests.items() if rid != call.rid},
    )


def stored(tree: Tier, setting: Setting, running: RequestState, paged: Sequence[Name], *, chunked: bool) -> Tier:
    """The tree after the request's whole pages were inserted; where there are none, nothing was used."""
    if not paged:
        return tree
    counts = setting.profile.hit_counts == "insert" and not chunked
    offered = offered_by_request(running, setting, paged)
    return effects.insert(tree, running.path.root, paged, offered, counts=counts, renews=setting.renews)[0]


def opened_needed_by(call: calls.Extend | calls.ExtendBatch, setting: Setting) -> int:
    """How many pages further tokens need beyond the last page of each request."""
    if isinstance(call, calls.Extend):
        grown = [(len(call.row), len(call.row) + call.asked)]
    else:
        grown = list(zip(call.before, call.after, strict=False))
    return sum([pages_needed(new, setting.size) - pages_needed(old, setting.size) for old, new in grown])


EXPECT: dict[type, Callable[..., State]] = {
    calls.Alloc: alloc,
    calls.Extend: extend,
    calls.ExtendBatch: extend,
    calls.Free: free,
    calls.FreeInGroup: nothing,
    calls.CloseGroup: nothing,
    calls.EndGroup: free,
    calls.Reset: reset,
    calls.Flush: flush,
    calls.Match: match,
    calls.Insert: insert,
    calls.Lock: lock,
    calls.Unlock: unlock,
    calls.Evict: evict,
    calls.Begin: begin,
    calls.Grow: grow,
    calls.TakeBack: take_back,
    calls.Fork: fork,
    calls.Retract: retract,
    calls.Resume: resume,
    calls.Discard: discard,
    calls.Compute: compute,
    calls.Publish: publish,
    calls.End: end,
    calls.PlayedAgain: nothing,
}
"""What each call amounts to."""
