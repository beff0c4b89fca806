"""Ranks: several caches that hold shards of the same pages, and must decide alike.

Each **rank** has a tree, pools and clocks of its own, and what a scheduler decides on it follows from these alone.  All
ranks of a tree get the same calls; what differs is when their copies end, what their storage answers, how much memory
others occupy there, and what their clocks show.  So a decision that depends on any of this is taken by **agreement**:
numbers are reduced over all ranks first.  Where one rank decides by itself, nothing fails there.  The trees have parted,
and much later some collective is entered by one rank and not by another, and everything hangs.

These rules name the step in which the ranks first parted.  They bind to what was decided and to what is seen of each rank;
how the ranks agree (one packed reduction or several, a leader that tells the others) is the cache's own business, as
long as every rank enters the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from kvlitmus.spec.interface.ranks import Decision, Prefix, RankView
from kvlitmus.spec.law.on import On
from kvlitmus.spec.law.rule import rule
from kvlitmus.spec.ranks import change_facts as _facts  # noqa: F401 - what the last rules speak of
from kvlitmus.spec.ranks.facts import Entered, equal

ask_rule = partial(rule, on=On.RANKS_ASK)
poll_rule = partial(rule, on=On.RANKS_POLL)
look_rule = partial(rule, on=On.RANKS_STEP, needs=("ranks_view",))


@ask_rule(
    "RANKS-01",
    source="R-MR-02; sglang#28429",
    reference="ranks.settle",
    allowed="the same decisions on every rank",
    premise="ranks_decided",
)
def ranks_decide_alike(rank_choices: Sequence[Sequence[Decision]]) -> bool:
    """All ranks of a tree MUST decide the same in the same call: what is found, granted, committed and acknowledged."""
    return equal(rank_choices)


@ask_rule(
    "RANKS-02",
    source="R-MR-02, R-EV-03",
    reference="ranks.evicted",
    allowed="the same victims in the same order on every rank",
    premise="ranks_evicted",
)
def ranks_choose_equal_victims(rank_victims: Sequence[Sequence[Decision]]) -> bool:
    """All ranks of a tree MUST evict the same pages in the same order: equal choices under equal histories."""
    return equal(rank_victims)


@look_rule(
    "RANKS-03",
    source="R-MR-02",
    reference="ranks.view",
    allowed="trees, copies, prefetches and free pages that are equal on every rank of a tree",
    premise="ranks_holding",
)
def trees_stay_equal(rank_looks: Sequence[Sequence[RankView]]) -> bool:
    """After every step all ranks of a tree MUST have the same pages on each tier, in the same order of use, the same windows
    and states, the same copies and prefetches under way, and as much free memory.
    """
    return all(equal(views) for views in rank_looks)


@ask_rule(
    "RANKS-04",
    source="R-MR-01, R-MR-05; sglang#30760, sglang#36425, sglang#27264",
    reference="ranks.rounds",
    allowed="the same collectives for all members of a group, each with values of the same meaning in the same places",
    premise="group_entered",
)
def members_enter_equal_collectives(group_entered: Sequence[Sequence[Sequence[Entered]]]) -> bool:
    """All members of a group MUST enter the same sequence of collectives, whatever each of them has by itself, and bring
    to each as many values in one layout. What a rank has not is a zero in its place.
    """
    return all(equal(members) for members in group_entered)


@ask_rule("RANKS-06", source="R-MR-01; sglang#30760", reference="ranks.rounds", allowed="no rank waits")
def no_rank_is_left_waiting(ranks_waiting: Sequence[int]) -> bool:
    """A call MUST end on every rank: none may wait for a collective or a message to which another one never comes."""
    return not ranks_waiting


@ask_rule(
    "RANKS-07",
    source="R-MR-06; sglang#20460",
    reference="ranks.agree",
    allowed="one reduction over all ranks of the tree",
    premise="ranks_reduced",
)
def reductions_span_the_tree(ranks_reduced: Sequence[Sequence[int]]) -> bool:
    """What is reduced for a decision MUST be reduced over every dimension that shares the tree, whichever of their sizes are 1,
    and over no rank of another tree.
    """
    return len(ranks_reduced) <= 1


@ask_rule("RANKS-08", source="R-MR-07", reference="ranks.agree", allowed="no message is left unread")
def messages_are_received(ranks_unread: Sequence[tuple[int, int]]) -> bool:
    """What one pipeline stage sends in a call MUST be received in the same call, so that no later one takes it for its own."""
    return not ranks_unread


@rule(
    "RANKS-10",
    on=On.RANKS_ACKS,
    source="R-MR-03, R-MR-07; sglang#4082, sglang#22607",
    reference="ranks.acked",
    allowed="the first of {acks_queued}: {acks_ended} copies to the host and from it",
    premise="acks_at_stake",
)
def what_has_ended_on_every_rank_is_acknowledged(
    acks_noted: Sequence[Sequence[Prefix]], acks_queued: Sequence[Sequence[Prefix]], acks_ended: Sequence[int]
) -> bool:
    """When acknowledgements are asked for, all copies MUST be acknowledged that have ended on every rank with all that
    began before them, in that order, and no others: what a copy reads or writes is given back then.
    """
    return all(
        tuple(noted) == tuple(queued[:ended])
        for noted, queued, ended in zip(acks_noted, acks_queued, acks_ended, strict=True)
    )


@poll_rule(
    "RANKS-12",
    source="R-MR-08",
    reference="ranks.ended",
    allowed="an end where every rank may stop, or reading has ended early on one, and none before",
)
def a_prefetch_ends_by_agreement(poll_ended: bool, poll_ends: bool) -> bool:
    """A prefetch that is polled MUST end where the stop policy lets every rank end it, or reading has ended early on one of
    them, and otherwise go on: a clock that runs ahead on one rank ends nothing.
    """
    return poll_ended == poll_ends


# FETCH-12 says it of what one has read, where it can be seen: this is the least of all ranks, also of those that
# nobody can look at.
@poll_rule(
    "RANKS-14",
    source="R-MR-04; sglang#27264",
    reference="ranks.common_part",
    allowed="{poll_common}",
    premise="poll_common",
)
def what_every_rank_has_read_is_committed(poll_committed: Sequence[Prefix], poll_common: Sequence[Prefix]) -> bool:
    """A commit MUST add all pages that every rank has read, of those that storage has on all of them, and no others."""
    return tuple(poll_committed) == tuple(poll_common)


# COMP-29 says it of what one cache has read: this is what all ranks have in common.
@poll_rule(
    "RANKS-16",
    source="R-MR-04, R-MA-06; sglang#27264, sglang#38815",
    reference="ranks.attaches",
    allowed="{parts_common}",
    premise="parts_at_stake",
)
def a_window_or_a_state_is_committed_whole_or_not_at_all(
    parts_committed: Sequence[Sequence[Prefix]], parts_common: Sequence[Sequence[Prefix]]
) -> bool:
    """A commit MUST give the last page that storage has its window, and its state, where every rank has read all of it
    and all pages before it, and none otherwise. What was read in part, or for a longer prefix, is given back, on all
    ranks alike.
    """
    return all(tuple(one) == tuple(other) for one, other in zip(parts_committed, parts_common, strict=True))


# A prefetch behind a shut gate is FETCH-01's for each rank that can be seen: this is said of ranks that nobody can look at, too.


@rule(
    "RANKS-18",
    on=On.RANKS_PREFETCH,
    source="design",
    reference="ranks.room",
    allowed="no prefetch where storage is detached on {ranks_detached}",
    premise="ranks_detached",
)
def a_prefetch_needs_storage_on_every_rank(read_granted: Sequence[Prefix], ranks_detached: Sequence[int]) -> bool:
    """A prefetch MUST NOT begin while storage is detached on one of the ranks."""
    return not read_granted or not ranks_detached


@rule(
    "RANKS-19",
    on=On.RANKS_HIT,
    source="R-MR-04; LMCache#1467",
    reference="ranks.restorable",
    allowed="{hit_restorable} pages",
    premise="hit_restorable",
)
def what_storage_has_is_what_every_rank_can_restore(hit_agreed: int | None, hit_restorable: int | None) -> bool:
    """What storage has of a prefetch MUST be the longest prefix that can be restored on *every* rank, of every
    component, out of the boundaries that all have in common. The least of each rank's, or of each component's, longest
    may be no boundary on some.
    """
    return hit_agreed == hit_restorable


@rule(
    "RANKS-24",
    on=On.RANKS_LOST,
    source="design",
    reference="ranks.settle",
    allowed="no rank waits, and none decides what another one can't",
)
def a_lost_rank_is_told_and_not_waited_for(ranks_waiting: Sequence[int], decided_while_lost: Sequence[int]) -> bool:
    """Where a rank is gone, another one MUST NOT wait for it. Where one was told, the ranks MUST NOT grant, evict,
    commit or acknowledge anything in that call.
    """
    return not ranks_waiting and not decided_while_lost


@rule(
    "RANKS-25",
    on=On.RANKS_LOST,
    source="sglang#28429",
    reference="ranks.settle",
    allowed="nothing changes",
    premise="ranks_told",
    needs=("ranks_view",),
)
def a_lost_call_changes_nothing(lost_and_changed: Sequence[int]) -> bool:
    """A call MUST leave every rank as it was that was told in it that another one is gone, however the call ends there: memory is
    taken, and pages evicted, after all have agreed.
    """
    return not lost_and_changed


# COMP-21 says how much one cache reserves: a rank names the boundary that its state is for, and that changes with
# what all have.
@rule(
    "RANKS-26",
    on=(On.RANKS_PREFETCH, On.RANKS_HIT),
    source="R-MA-05, R-SC-02; sglang#26945",
    reference="ranks.truncated",
    allowed="{state_place}",
    premise="state_place",
    needs=("rank_states",),
)
def a_prefetch_has_one_state_at_its_end(state_granted: Sequence[Prefix], state_place: Sequence[Prefix]) -> bool:
    """A prefetch that begins MUST take memory for one state on every rank, however short it is cut, for the last page
    that it takes memory for. Where storage has less of it, the state MUST be that of the last page that storage has.
    """
    return tuple(state_granted) == tuple(state_place)


# What plain caches tell of their victims are events, and EVENT-02 holds when nothing is under way: decisions of ranks
# are told with every call.
@ask_rule(
    "RANKS-29",
    source="R-MR-02, R-EV-03",
    reference="ranks.settle",
    allowed="victims that were there and are gone, and commits of what is there",
    premise="ranks_named",
    needs=("ranks_view",),
)
def what_is_named_is_so(named_falsely: Sequence[tuple[int, str, Prefix]]) -> bool:
    """What a rank names as a victim MUST have been there, and be gone after the call unless the same call brought it. What
    it names in a commit is there, unless it, or its page on the host, is a victim of the same call.
    """
    # What is equal by name only leaves trees that are not.
    return not named_falsely


@look_rule(
    "RANKS-30",
    source="R-MR-02, R-EV-03",
    reference="ranks.evicted",
    allowed="what was there before, but for the victims named",
    premise="ranks_holding",
)
def what_goes_is_named_as_a_victim(gone_unnamed: Sequence[tuple[int, str, Prefix]]) -> bool:
    """What a rank had before a call, or before something happened to one rank alone, and has no more after it, MUST be
    named as a victim of that tier or component. A window or a state may go with its page on the host, and everything
    where a rank is lost, or all begin anew.
    """
    return not gone_unnamed


# The frame says whether a call may bring a page: this says that the call names it, of windows and states too.
@look_rule(
    "RANKS-31",
    source="R-MR-02, R-PFC-02",
    reference="ranks.settle",
    allowed="no pages but those that were there before, and what a commit or a copy named",
    premise="pages_come",
)
def pages_come_by_what_is_named(pages_from_nothing: Sequence[tuple[int, str, Prefix]]) -> bool:
    """A page on a tier of a rank, a window or a state that was not there before MUST have come by what the call names, or
    by a copy under way that has ended on every rank. The call names a commit, a load to the device, or a write to the
    host.
    """
    return not pages_from_nothing


# Of a plain cache it is seen how much all prefetches hold together: a rank shows what each of them holds.
@look_rule(
    "RANKS-32",
    source="R-MR-04, R-MR-08",
    reference="ranks.restorable",
    allowed="all that it took memory for, and storage may have",
    premise="ranks_fetching",
)
def a_prefetch_keeps_what_it_took(prefetches_cut: Sequence[tuple[int, int, str]]) -> bool:
    """A prefetch that goes on MUST keep the memory that it took, for its pages, its window and its state, as far as
    storage may have them on every rank. No other call cuts it. It may give up what is cached by then, and all where its
    reading has ended early or storage is gone.
    """
    return not prefetches_cut
