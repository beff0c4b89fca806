"""What is done with each call of a trace: judge the caller, then have the cache judged.

An action is given one line, or all lines of a free group, and hands them to the function of
:mod:`kvlitmus.conformance.checker.calls` that makes this call in every other run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from kvlitmus.conformance.checker.calls.prefix import pool, request, tree
from kvlitmus.conformance.history import contract, plain
from kvlitmus.conformance.history.contract import Breach
from kvlitmus.conformance.history.handles import REMEMBERED, Handle, Places
from kvlitmus.conformance.history.reader import Call
from kvlitmus.conformance.tape.operands import Thing
from kvlitmus.spec.prefix.calls import CloseGroup, FreeInGroup
from kvlitmus.spec.words.names import page_names
from kvlitmus.spec.words.units import Slot, page_ceil

if TYPE_CHECKING:
    from kvlitmus.conformance.history.playback import RecordedChecker
    from kvlitmus.conformance.history.state import Act, TraceState


def one(judge_it: Callable[[TraceState, Call], None]) -> Act:
    """An action on a single line."""

    def act(trace: TraceState, calls: Sequence[Call]) -> None:
        trace.playback.waiting.clear()
        trace.playback.waiting.append(calls[0])
        judge_it(trace, calls[0])

    return act


# -- pool ------------------------------------------------------------------------------------------


def alloc(trace: TraceState, call: Call) -> None:
    """``alloc(n)``."""
    checker = trace.checker
    contract.alloc(checker, call.args["n"])
    pool.alloc(checker, page_ceil(call.args["n"], checker.size))
    if checker.profile.evict_moment == "alloc":
        evicted(trace, call)


def free(trace: TraceState, call: Call) -> None:
    """``free(slots)``."""
    contract.free(trace.checker, call.args["slots"])
    pool.free(trace.checker, [Slot(slot) for slot in call.args["slots"]])


def alloc_extend(trace: TraceState, call: Call) -> None:
    """``alloc_extend(before, after, last)``: for one request as in every run, for several at once as one."""
    extend(trace, call, call.args["before"], call.args["after"], call.args["last"])


def alloc_decode(trace: TraceState, call: Call) -> None:
    """``alloc_decode(after, last)``: one token more for each request."""
    after, last = call.args["after"], call.args["last"]
    extend(trace, call, tuple(new - 1 for new in after), after, last)


def extend(trace: TraceState, call: Call, before: Sequence[int], after: Sequence[int], last: Sequence[int]) -> None:
    """Slots for further tokens of some requests; of what they have, the last slot is what counts."""
    checker, decode = trace.checker, call.method == "alloc_decode"
    contract.extend(checker, before, after, last)
    if len(before) == 1:
        pool.extend(checker, [Slot(last[0])] * before[0], after[0] - before[0], decode=decode)
    else:
        pool.extend_batch(checker, before, after, last, decode=decode)
    if checker.profile.evict_moment == "alloc":
        evicted(trace, call)


def group(trace: TraceState, calls: Sequence[Call]) -> None:
    """A free group: frees alone, or one publication, as every run makes them; else call by call."""
    checker = trace.checker
    ended = calls[-1].method == "free_group_end"
    inner = calls[1:-1] if ended else calls[1:]
    waiting = trace.playback.waiting
    waiting.clear()
    waiting.extend(calls)
    if inner and all(call.method == "free" for call in inner):
        freed: list[int] = []
        for call in inner:
            trace.call = call
            contract.free(checker, call.args["slots"], freed=freed)
            freed += call.args["slots"]
        parts = [[Slot(slot) for slot in call.args["slots"]] for call in inner]
        if ended:
            pool.free_grouped(checker, parts)
        else:
            open_group(checker, parts)
    elif ended and [call.method for call in inner] in (["publish"], ["publish_upto"]):
        trace.call = calls[1]
        publish(trace, calls[1], grouped=True)
    else:
        mixed_group(trace, inner, calls[-1] if ended else None)


def open_group(checker: RecordedChecker, parts: Sequence[Sequence[Slot]]) -> None:
    """Frees in a group of which the trace doesn't show the end: nothing is available yet."""
    checker.call("free_group_begin()", "free_group_begin")
    for slots in parts:
        checker.call(f"free({list(slots)})", "free", list(slots))
    checker.step(FreeInGroup(tuple(slot for slots in parts for slot in slots)), None)


def mixed_group(trace: TraceState, calls: Sequence[Call], ending: Call | None) -> None:
    """A group in which all sorts of things happen: until it ends, what the pool shows is unknown."""
    checker, waiting = trace.checker, trace.playback.waiting
    checker.grouped = True
    try:
        checker.call("free_group_begin()", "free_group_begin")
        for call in calls:
            act = trace.act_of(call.method)
            if call.method == "free_group_begin" or act is None:
                raise Breach("free group", f"{call.method} within a free group")
            rest = [later for later in waiting if later is not call]
            trace.call = call
            act(trace, [call])
            waiting.extend(rest)
        if ending is not None:
            trace.call = ending
            checker.call("free_group_end()", "free_group_end")
    finally:
        checker.grouped = False
    if ending is not None:
        checker.step(CloseGroup(), None)


def stray_end(trace: TraceState, call: Call) -> None:  # noqa: ARG001 - an action like the others
    """``free_group_end()`` without a beginning."""
    raise Breach("free group", "a free group ends that never began")


def reset(trace: TraceState, call: Call) -> None:  # noqa: ARG001 - an action like the others
    """``reset()``: nobody owns anything afterwards."""
    trace.places = Places()
    pool.reset(trace.checker)


def flush(trace: TraceState, call: Call) -> None:
    """``flush()``."""
    if pool.flush(trace.checker):
        trace.places.changed(call.line)


# -- tree ------------------------------------------------------------------------------------------


def match(trace: TraceState, call: Call) -> None:
    """``match(key)``."""
    key, places = call.args["key"], trace.places
    hit = tree.match(trace.checker, key)
    places.matched(hit.handle, Handle(key, hit, call.line, places.changes))


def insert(trace: TraceState, call: Call) -> None:
    """``insert(key, slots, …)``."""
    checker, args = trace.checker, call.args
    contract.insert(checker, args["key"], args["slots"], args["protected"])
    before = checker.tree.pages.keys()
    tree.insert(
        checker,
        args["key"],
        [Slot(slot) for slot in args["slots"]],
        protected=args["protected"],
        priority=args["priority"],
        chunked=args["chunked"],
    )
    if checker.tree.pages.keys() != before:
        trace.places.changed(call.line)


def lock(trace: TraceState, call: Call) -> None:
    """``lock(handle)``: of a match after which the tree did not change."""
    checker, places = trace.checker, trace.places
    handle = places.handles.get(call.args["handle"])
    if handle is None:
        raise Breach("unknown handle", f"no match answered the handle {call.args['handle']!r}")
    if handle.changes != places.changes:
        text = f"the handle is of line {handle.line}, and the tree changed in line {places.changed_at}"
        paged = page_names(checker.names_of(handle.key), checker.size)[: handle.hit.length // checker.size]
        if not all(name in checker.tree.pages for name in paged):
            raise Breach("stale handle", f"{text}: what it names may be gone")
        trace.misused(Breach("stale handle", f"{text}; what it names is still there"), harmless=True)
    hit = handle.hit._replace(length=min(handle.hit.length, handle.key.length))
    places.serial += 1
    places.receipts.setdefault(receipt_name(call), []).append(places.serial)
    tree.lock(checker, hit, handle.key, places.serial)


def receipt_name(call: Call) -> object:
    """What the trace calls the receipt; one that is no name can't be given back."""
    return call.answer if type(call.answer) in (str, int, Thing) else None


def unlock(trace: TraceState, call: Call) -> None:
    """``unlock(receipt)``: one that was given out more often than it was given back."""
    places, name = trace.places, call.args["receipt"]
    if name not in places.receipts:
        if name in places.returned:
            raise Breach("unlock twice", f"receipt {name!r} was given back in line {places.returned[name]} already")
        raise Breach("unknown receipt", f"no lock answered the receipt {name!r}, or it was given back already")
    number = places.receipts[name].pop()
    if not places.receipts[name]:
        del places.receipts[name]
    places.returned[name] = call.line
    if len(places.returned) > REMEMBERED:
        places.returned.popitem(last=False)
    tree.unlock(trace.checker, number)


def evict(trace: TraceState, call: Call) -> None:
    """``evict(n)``."""
    if tree.evict(trace.checker, call.args["n"]):
        trace.places.changed(call.line)


def evicted(trace: TraceState, call: Call) -> None:
    """After a call that may evict: the tree changed if the snapshot shows it, else it gets the benefit of the doubt."""
    checker = trace.checker
    if checker.depth >= 3 and checker.vanished_last:
        trace.places.changed(call.line)


# -- requests --------------------------------------------------------------------------------------


def begin(trace: TraceState, call: Call) -> None:
    """``begin(rid, key)``."""
    contract.beginning(trace.checker, call.args["rid"])
    request.begin(trace.checker, call.args["rid"], call.args["key"])
    evicted(trace, call)


def grow(trace: TraceState, call: Call) -> None:
    """``grow(rid, tokens)``."""
    contract.running(trace.checker, call.args["rid"])
    request.grow(trace.checker, call.args["rid"], call.args["tokens"])
    evicted(trace, call)


def take_back(trace: TraceState, call: Call) -> None:
    """``take_back(rid, n)``."""
    contract.running(trace.checker, call.args["rid"])
    contract.own_tokens(trace.checker, call.args["rid"], call.args["n"])
    request.take_back(trace.checker, call.args["rid"], call.args["n"])


def fork(trace: TraceState, call: Call) -> None:
    """``fork(rid, of)``."""
    contract.beginning(trace.checker, call.args["rid"])
    contract.running(trace.checker, call.args["of"])
    request.fork(trace.checker, call.args["rid"], call.args["of"])
    evicted(trace, call)


def retract(trace: TraceState, call: Call) -> None:
    """``retract(rid)``."""
    contract.running(trace.checker, call.args["rid"])
    request.retract(trace.checker, call.args["rid"])


def resume(trace: TraceState, call: Call) -> None:
    """``resume(rid)``."""
    contract.retracted(trace.checker, call.args["rid"])
    request.resume(trace.checker, call.args["rid"])
    evicted(trace, call)


def discard(trace: TraceState, call: Call) -> None:
    """``discard(rid)``."""
    contract.retracted(trace.checker, call.args["rid"])
    request.discard(trace.checker, call.args["rid"])


def publish(trace: TraceState, call: Call, *, grouped: bool = False) -> None:
    """``publish(rid, chunked=…)`` and ``publish_upto(rid, upto, chunked=…)``."""
    checker, upto = trace.checker, call.args.get("upto")
    contract.running(checker, call.args["rid"])
    contract.computed(checker, call.args["rid"], upto)
    request.publish(checker, call.args["rid"], chunked=call.args["chunked"], grouped=grouped, upto=upto)
    trace.places.changed(call.line)


def end(trace: TraceState, call: Call) -> None:
    """``end(rid, keep=…)`` and ``end_upto(rid, upto)``."""
    checker, rid, upto = trace.checker, call.args["rid"], call.args.get("upto")
    contract.running(checker, rid)
    contract.computed(checker, rid, upto)
    keep = call.args.get("keep", True)
    request.end(checker, rid, keep=keep, upto=upto)
    if keep:
        trace.places.changed(call.line)


# -- what was written -------------------------------------------------------------------


def write(trace: TraceState, call: Call) -> None:
    """``write(slots, key, start)``: the engine put the KV of the key's tokens, from ``start`` on, into these slots."""
    checker, slots, key, start = trace.checker, call.args["slots"], call.args["key"], call.args["start"]
    names = checker.path(key, row=True).tokens[start : start + len(slots)]
    if len(names) != len(slots):
        raise Breach("write", f"{len(slots)} slots for {len(names)} tokens of the key, from {start} on")
    if trace.header.contents == "recorded":
        checker.was_written(slots, names)


ACTIONS: dict[str, Act] = {
    "alloc": one(alloc),
    "free": one(free),
    "alloc_extend": one(alloc_extend),
    "alloc_decode": one(alloc_decode),
    "free_group_begin": group,
    "free_group_end": one(stray_end),
    "match": one(match),
    "insert": one(insert),
    "lock": one(lock),
    "unlock": one(unlock),
    "evict": one(evict),
    "begin": one(begin),
    "grow": one(grow),
    "take_back": one(take_back),
    "fork": one(fork),
    "retract": one(retract),
    "resume": one(resume),
    "discard": one(discard),
    "publish": one(publish),
    "end": one(end),
    "publish_upto": one(publish),
    "end_upto": one(end),
    "reset": one(reset),
    "flush": one(flush),
    "page_hashes": one(plain.hashes),
    "plan_prefetch": one(plain.plan),
    "write": one(write),
    "available": one(plain.look),
    "sizes": one(plain.look),
    "view": one(plain.look),
}
"""What is done with the calls, by method."""
