"""What the rules of ranks speak of: what each did in a call, what was due, and how each looks afterwards.

What was decided is a fact only where all ranks have decided alike: one that parted from the others is reported as that.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from kvlitmus.spec.interface.ranks import Collective, Decision, Group, Prefix, RankView, Receive, Send
from kvlitmus.spec.law.facts import UNKNOWN, Unknown, fact
from kvlitmus.spec.ranks.calls import RETURNED, WAITING, RankAsk, RankCall, Together, Trace, Views
from kvlitmus.spec.ranks.state import (
    RanksState,
    advance_ranks,
    awaited,
    common_pages,
    common_parts,
    decided,
    finished,
    restorable,
    stops,
)

VICTIMS = "victims"
WITH_PAGES = ("window", "state")
"""What goes with a page: it may go with it on the host, without being named."""
PORT = ("ranks", "ranks_view")

# What each rank did


@fact(0)
def ranks_waiting(answer: Together) -> Sequence[int]:
    """The ranks that wait, when no rank can go on, for others that never come."""
    return [one.rank for one in answer.traces if one.ended == WAITING]


@fact(0)
def ranks_unread(answer: Together) -> Sequence[tuple[int, int]]:
    """The messages, as sender and receiver, that nobody had received when the call was over."""
    return answer.unread


@fact(0)
def ranks_decided(answer: Together) -> bool:
    """Whether some rank found, granted, committed, acknowledged or evicted a page."""
    return any(any(one.prefixes) for trace in answer.traces for one in trace.decisions)


@fact(0)
def rank_choices(answer: Together) -> Sequence[Sequence[Decision]] | Unknown:
    """For each rank what it decided, in order, without victims; unknown where one did not return."""
    return _of_all(answer, lambda one: one.kind != VICTIMS)


@fact(0)
def rank_victims(answer: Together) -> Sequence[Sequence[Decision]] | Unknown:
    """For each rank the victims that it chose, in order; unknown where one did not return."""
    return _of_all(answer, lambda one: one.kind == VICTIMS)


@fact(0)
def ranks_evicted(rank_victims: Sequence[Sequence[Decision]]) -> bool:
    """Whether some rank evicted something."""
    return any(one.prefixes for mine in rank_victims for one in mine)


def _of_all(answer: Together, wanted: object) -> Sequence[Sequence[Decision]] | Unknown:
    assert callable(wanted)
    if any(one.ended != RETURNED for one in answer.traces):
        return UNKNOWN
    return [tuple([decision for decision in one.decisions if wanted(decision)]) for one in answer.traces]


@fact(0)
def common_choices(rank_choices: Sequence[Sequence[Decision]]) -> Sequence[Decision] | Unknown:
    """What all ranks decided, victims left out; unknown where they decided differently."""
    return rank_choices[0] if equal(rank_choices) else UNKNOWN


def equal(values: Sequence[object]) -> bool:
    """Whether all of these are equal."""
    return all(one == values[0] for one in values)


def entered(traces: Iterable[Trace]) -> Mapping[Group, Mapping[int, list[Collective]]]:
    """For each group that a rank entered a collective of: what each member entered there, in order."""
    traces = list(traces)
    found: dict[Group, dict[int, list[Collective]]] = {}
    for trace in traces:
        for one in trace.entered:
            if isinstance(one, Collective):
                mine = found.setdefault(one.group, {rank: [] for rank in one.group.members})
                mine.setdefault(trace.rank, []).append(one)
    return found


Entered = tuple[str, tuple[str, ...], int]
"""A collective that a member entered: the operation, what the values were about that it brought, and how many."""


@fact(0)
def group_entered(answer: Together) -> Sequence[Sequence[Sequence[Entered]]]:
    """For each group of which a collective was entered: the collectives that each member entered, in order."""
    return [
        [[(one.op, one.layout, len(one.values)) for one in mine] for mine in members.values()]
        for members in entered(answer.traces).values()
    ]


@fact(0)
def ranks_reduced(answer: Together) -> Sequence[Sequence[int]] | Unknown:
    """The parts of the tree that have exchanged numbers with each other; none where nothing was reduced."""
    if any(one.ended != RETURNED for one in answer.traces):
        return UNKNOWN
    parts = [{one.rank} for one in answer.traces]
    reduced = False
    for trace in answer.traces:
        for one in trace.entered:
            if isinstance(one, Collective):
                reduced = reduced or one.op != "barrier"
                parts = joined(parts, {trace.rank, *one.group.members})
            elif isinstance(one, Send):
                parts = joined(parts, {trace.rank, one.to})
            elif isinstance(one, Receive):
                parts = joined(parts, {trace.rank, one.source})
    return [sorted(part) for part in parts] if reduced else []


def joined(parts: Sequence[set[int]], members: set[int]) -> list[set[int]]:
    """The parts after those that have one of these members became one."""
    apart = [part for part in parts if not part & members]
    return [*apart, set().union(*[part for part in parts if part & members])]


# How each rank looks


@fact(0, ports=PORT)
def ranks_then(state: RanksState, call: RankCall, answer: Together | Views) -> RanksState:
    """What is known of the ranks after the step, and how each looks."""
    return advance_ranks(state, call, answer)


@fact(0, ports=PORT)
def rank_looks(ranks_then: RanksState) -> Sequence[Sequence[RankView]] | Unknown:
    """For each tree how its ranks look, those left out that have lost something since and have not rejoined; unknown where
    those that can be seen look alike, and one can't be seen.
    """
    own, seen = ranks_then.own, looks_of(ranks_then)
    trees = [ranks_then.world.tree(at) for at in range(len(ranks_then.world.trees))]
    looks = [[seen[rank] for rank in tree if own[rank].whole and rank in seen] for tree in trees]
    return UNKNOWN if all(map(equal, looks)) and some_unseen(ranks_then) else looks


def looks_of(ranks: RanksState) -> Mapping[int, RankView]:
    """How each rank looks that somebody could look at."""
    return {rank: view for rank, view in zip(ranks.own, ranks.seen, strict=False) if view is not None}


def some_unseen(ranks: RanksState) -> bool:
    """Whether nobody could look at some living rank: what it has is unknown, and not in order."""
    seen = (*ranks.seen, *(None,) * (len(ranks.own) - len(ranks.seen)))
    return None in seen and any(view is None and own.alive for view, own in zip(seen, ranks.own.values(), strict=False))


@fact(0, ports=PORT)
def ranks_holding(ranks_then: RanksState) -> Sequence[int]:
    """The ranks that have pages cached, or under way."""
    looks = looks_of(ranks_then).items()
    return [rank for rank, one in looks if one.device or one.host or one.writing or one.loading or one.reading]


# What was due


@fact(0)
def acks_noted(common_choices: Sequence[Decision]) -> Sequence[Sequence[Prefix]]:
    """The copies to the host, and from it, that all ranks count as ended now."""
    return [decided(common_choices, "ack", kind) or () for kind in ("write", "load")]


@fact(0)
def acks_queued(state: RanksState, call: RankAsk) -> Sequence[Sequence[Prefix]]:
    """The copies to the host, and from it, that have begun and are not noted, in the order in which they began."""
    agreed = state.trees[state.tree_of(call.ranks[0])]
    return [agreed.writing, agreed.loading]


@fact(0)
def acks_ended(
    state: RanksState, call: RankAsk, answer: Together, acks_queued: Sequence[Sequence[Prefix]]
) -> Sequence[int]:
    """How many copies to the host, and from it, have ended on every rank, from the first that began on without a gap; those
    that a rank waited for in this call have.
    """
    return [
        min(finished(queue, getattr(state.own[rank], what) | awaited(answer, rank, what)) for rank in call.ranks)
        for what, queue in zip(("wrote", "loaded"), acks_queued, strict=True)
    ]


@fact(0)
def acks_at_stake(acks_noted: Sequence[Sequence[Prefix]], acks_ended: Sequence[int]) -> bool:
    """Whether any copy counts as ended now, or has ended on every rank with all that began before it."""
    return any(acks_noted) or any(acks_ended)


@fact(0)
def poll_ends(state: RanksState, call: RankAsk) -> bool | Unknown:
    """Whether the prefetch may end: every rank lets it, or reading has ended early on one; unknown where there is none."""
    fetch = state.trees[state.tree_of(call.ranks[0])].fetches.get(call.ask.rid)
    return UNKNOWN if fetch is None else stops(state, call.ranks, call.ask.rid, fetch)


@fact(0)
def poll_ended(common_choices: Sequence[Decision]) -> bool:
    """Whether the prefetch was ended by the poll."""
    return decided(common_choices, "commit", "kv") is not None


@fact(0)
def poll_committed(common_choices: Sequence[Decision]) -> Sequence[Prefix] | Unknown:
    """The pages that were committed; unknown where the prefetch goes on."""
    pages = decided(common_choices, "commit", "kv")
    return UNKNOWN if pages is None else pages


@fact(0)
def poll_common(state: RanksState, call: RankAsk) -> Sequence[Prefix] | Unknown:
    """The pages that every rank has read, of those that storage has on all; unknown where there is no prefetch."""
    fetch = state.trees[state.tree_of(call.ranks[0])].fetches.get(call.ask.rid)
    if fetch is None:
        return UNKNOWN
    return fetch.granted[: common_pages(state, call.ranks, call.ask.rid, fetch)]


@fact(0)
def parts_committed(common_choices: Sequence[Decision], poll_ended: bool) -> Sequence[Sequence[Prefix]] | Unknown:
    """The boundaries that the commit gave a window, and those that it gave a state; unknown where the prefetch goes on."""
    return [decided(common_choices, "commit", of) or () for of in WITH_PAGES] if poll_ended else UNKNOWN


@fact(0)
def parts_common(state: RanksState, call: RankAsk, poll_common: Sequence[Prefix]) -> Sequence[Sequence[Prefix]]:
    """The boundary for which every rank has read the whole window and all pages before it, and the same of the state; none where there is none."""
    fetch = state.trees[state.tree_of(call.ranks[0])].fetches.get(call.ask.rid)
    read = (False, False) if fetch is None else common_parts(state, call.ranks, call.ask.rid, fetch)
    return [poll_common[-1:] if one else () for one in read]


@fact(0)
def parts_at_stake(state: RanksState, call: RankAsk, parts_committed: Sequence[Sequence[Prefix]]) -> bool:
    """Whether the prefetch that ends has memory for a window or a state, or one is committed all the same."""
    fetch = state.trees[state.tree_of(call.ranks[0])].fetches.get(call.ask.rid)
    return any(parts_committed) or (fetch is not None and (fetch.window or fetch.state))


@fact(0)
def state_granted(common_choices: Sequence[Decision]) -> Sequence[Prefix]:
    """The boundaries for whose states memory was taken, or is kept."""
    return decided(common_choices, "grant", "state") or ()


@fact(0)
def state_place(state: RanksState, call: RankAsk, common_choices: Sequence[Decision]) -> Sequence[Prefix]:
    """The boundary of the prefetch's one state: the last page that it took memory for, or that storage has; none where no
    memory was taken, nothing was noted, or the ranks keep no states.
    """
    pages = decided(common_choices, "grant", "read" if call.ask.what == "prefetch" else "hit") or ()
    return pages[-1:] if state.world.state_slots else ()


def cached_states(view: RankView | None) -> Sequence[Prefix]:
    """The boundaries that have a state."""
    return () if view is None or view.states is None else view.states.cached


@fact(0)
def read_granted(common_choices: Sequence[Decision]) -> Sequence[Prefix]:
    """The pages that a prefetch took host memory for."""
    return decided(common_choices, "grant", "read") or ()


@fact(0)
def ranks_detached(state: RanksState, call: RankAsk) -> Sequence[int]:
    """The ranks on which no storage is attached."""
    return [rank for rank in call.ranks if not state.own[rank].attached]


@fact(0)
def hit_agreed(common_choices: Sequence[Decision]) -> int | None:
    """How many pages all ranks take storage to have; none where that is still open."""
    pages = decided(common_choices, "grant", "hit")
    return None if pages is None else len(pages)


@fact(0)
def hit_restorable(state: RanksState, call: RankAsk) -> int | Unknown | None:
    """The longest prefix, in pages, that can be restored on every rank; none while one has no answer; unknown where there is no prefetch."""
    fetch = state.trees[state.tree_of(call.ranks[0])].fetches.get(call.ask.rid)
    return UNKNOWN if fetch is None or fetch.hit is not None else restorable(state, call.ranks, call.ask.rid, fetch)


# Where a rank is gone


@fact(0)
def ranks_told(answer: Together) -> Sequence[int]:
    """The ranks that were told that another one is lost, or noticed it, however the call ended on them."""
    return [one.rank for one in answer.traces if one.told]


@fact(0)
def decided_while_lost(answer: Together, ranks_told: Sequence[int]) -> Sequence[int]:
    """The ranks that granted, evicted, committed or acknowledged something where one was told that a rank is lost."""
    if not ranks_told:
        return []
    return [one.rank for one in answer.traces if any(some.kind != "match" and some.prefixes for some in one.decisions)]


@fact(0, ports=PORT)
def lost_and_changed(state: RanksState, answer: Together, ranks_told: Sequence[int]) -> Sequence[int] | Unknown:
    """The ranks that were told that another one is lost, and have changed something all the same; unknown where none is
    found, and one of them can't be seen.
    """
    looks = [(rank, state.seen[rank], answer.views[rank]) for rank in ranks_told]
    found = [rank for rank, before, after in looks if None not in (before, after) and before != after]
    return UNKNOWN if not found and any(None in (before, after) for _, before, after in looks) else found
