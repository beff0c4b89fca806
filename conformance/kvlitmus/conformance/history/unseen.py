"""What is done with calls where it isn't known what the cache has: they are judged by what is certain without that.

A call that can't be understood without what was before it (which pages a receipt protects, what a job copies) is only
looked at: what holds after every call must hold after this one, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kvlitmus.conformance.checker.calls.components import snapshot
from kvlitmus.conformance.checker.calls.prefix import fetch
from kvlitmus.conformance.history import families
from kvlitmus.conformance.history.handles import Places
from kvlitmus.conformance.history.reader import Call, call_text
from kvlitmus.conformance.tape.answers import NotRecorded
from kvlitmus.conformance.tape.calls import TURNS

if TYPE_CHECKING:
    from kvlitmus.conformance.history.state import TraceState

UNDERSTOOD = frozenset({"alloc", "free", "alloc_extend", "alloc_decode", "match", "insert", "evict"}) | {
    *(
        "begin",
        "publish",
        "end",
        "publish_upto",
        "end_upto",
        "page_hashes",
        "plan_prefetch",
        "available",
        "sizes",
        "view",
    ),
    *("evict_host", "load_back", "load_back_within", "poll", "loaded", "abandon", "write"),
    *("component_match", "component_alloc", "component_free", "component_insert", "component_evict"),
    *("component_evict_host", "component_start"),
}
"""Calls that say all that there is to know of them."""

GROUP = frozenset({"free_group_begin", "free_group_end"})
"""Calls between which nobody knows what is free."""


def act(trace: TraceState, calls: Sequence[Call]) -> None:
    """Judge a call, or a free group, where it isn't known what the cache has."""
    call, checker = calls[0], trace.checker
    if call.method.startswith(("sparse_", "store_")):
        raise NotRecorded("a tape of such a cache can't be judged in part")
    trace.playback.waiting.clear()
    trace.playback.waiting.extend(calls)
    if call.method.startswith("ranks_"):
        of_ranks(trace, calls)
        return
    if call.method in GROUP:
        checker.grouped = call.method == "free_group_begin" or not GROUP.isdisjoint(trace.header.without)
    if call.method in UNDERSTOOD or (call.method == "tick" and trace.ticked):
        families.ACTIONS[call.method](trace, calls)
    elif call.method == "prefetch":
        rid, key = call.args["rid"], call.args["key"]
        fetch.asked_for(checker, rid, key, checker.call(f"prefetch({rid})", "prefetch", rid, key))
    else:
        glance(trace, call)
    trace.ticked = trace.ticked or call.method == "tick"
    trace.detached = call.method == "detach" or (trace.detached and call.method != "tick")


def of_ranks(trace: TraceState, calls: Sequence[Call]) -> None:
    """Calls on ranks: which there are is known when they begin anew, and all else too, if no call is lacking."""
    call, checker = calls[0], trace.checker
    if call.method == "ranks_start":
        trace.begun = True
        if not trace.header.without:
            checker.sees_again()
    state = checker.ranks_state
    if trace.begun and call.method == TURNS:  # what not all are told to be asked says nothing
        known = len(calls) == len(state.living(state.world.tree(state.tree_of(call.args["rank"]))))
    else:
        known = trace.begun
    if known:
        families.ACTIONS[call.method](trace, calls)
        return
    for one in calls:
        checker.call(call_text(one), one.method, *one.args.values())


def glance(trace: TraceState, call: Call) -> None:
    """A call of which it isn't known what it does; after a reset of a flat cache all is known again."""
    checker = trace.checker
    checker.call(call_text(call), call.method)
    if call.method.startswith("component_"):
        checker.answered(None, None, pools=snapshot.seen(checker))
        return
    checker.step(None, None)
    header, late = trace.header, checker.has_events and checker.profile.event_delay
    unknown = header.without or call.lacking or checker.store is not None or late or not header.complete
    if call.method == "reset" and not unknown:
        trace.places = Places()
        checker.sees_again()
