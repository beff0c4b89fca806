"""What is done with each call of a trace: judge the caller, then have the cache judged.

An action is given one line, or all lines of a free group, and hands them to the function of
:mod:`kvlitmus.conformance.checker.calls` that makes this call in every other run.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from kvlitmus.conformance.checker.calls import pool, request, tree
from kvlitmus.conformance.history import contract, plain
from kvlitmus.conformance.history.contract import Breach
from kvlitmus.conformance.history.lines import Call
from kvlitmus.conformance.ports import Hit
from kvlitmus.spec.names import page_names
from kvlitmus.spec.units import Key, Slot, page_ceil

if TYPE_CHECKING:
    from kvlitmus.conformance.history.checker import Checker
    from kvlitmus.conformance.history.playback import RecordedJudge

Act = Callable[["Checker", Sequence[Call]], None]

REMEMBERED = 10_000
"""So many handles of matches, and receipts given back, are remembered."""


class Handle(NamedTuple):
    """What a match answered, for a lock: the key, the hit, the line, and how often the tree had changed by then."""

    key: Key
    hit: Hit
    line: int
    changes: int


class Places:
    """Handles and receipts by the names that the trace gives them, and how often the tree changed."""

    def __init__(self) -> None:
        self.handles: OrderedDict[object, Handle] = OrderedDict()
        self.receipts: dict[object, int] = {}
        self.returned: OrderedDict[object, int] = OrderedDict()
        self.changes = 0
        self.changed_at = 0
        self.serial = 0

    def changed(self, line: int) -> None:
        """The tree isn't what it was."""
        self.changes += 1
        self.changed_at = line

    def matched(self, name: object, handle: Handle) -> None:
        """A match answered this handle."""
        if type(name) is str or type(name) is int:
            self.handles[name] = handle
            self.handles.move_to_end(name)
            if len(self.handles) > REMEMBERED:
                self.handles.popitem(last=False)


def one(judge_it: Callable[[Checker, Call], None]) -> Act:
    """An action on a single line."""

    def act(checker: Checker, calls: Sequence[Call]) -> None:
        checker.playback.waiting.clear()
        checker.playback.waiting.append(calls[0])
        judge_it(checker, calls[0])

    return act


def of_request(judge_it: Callable[[Checker, Call], None]) -> Act:
    """The same for requests: what is owned and given back is the request's, not the caller's."""

    def act(checker: Checker, call: Call) -> None:
        checker.judge.lending = False
        try:
            judge_it(checker, call)
        finally:
            checker.judge.lending = True

    return one(act)


# -- pool ------------------------------------------------------------------------------------------


def alloc(checker: Checker, call: Call) -> None:
    """``alloc(n)``."""
    judge = checker.judge
    contract.alloc(judge, call.args["n"])
    pool.alloc(judge, page_ceil(call.args["n"], judge.size))
    if judge.profile.evict_moment == "alloc":
        evicted(checker, call)


def free(checker: Checker, call: Call) -> None:
    """``free(slots)``."""
    contract.free(checker.judge, call.args["slots"])
    pool.free(checker.judge, [Slot(slot) for slot in call.args["slots"]])


def alloc_extend(checker: Checker, call: Call) -> None:
    """``alloc_extend(before, after, last)``: for one request as in every run, for several at once as one."""
    before, after, last = (call.args[name] for name in ("before", "after", "last"))
    extend(checker, call, before, after, last)


def alloc_decode(checker: Checker, call: Call) -> None:
    """``alloc_decode(after, last)``: one token more for each request."""
    after, last = call.args["after"], call.args["last"]
    extend(checker, call, tuple(new - 1 for new in after), after, last)


def extend(checker: Checker, call: Call, before: Sequence[int], after: Sequence[int], last: Sequence[int]) -> None:
    """Slots for further tokens of some requests; of what they have, the last slot is what counts."""
    judge, decode = checker.judge, call.method == "alloc_decode"
    contract.extend(judge, before, after, last)
    if len(before) == 1:
        pool.extend(judge, [Slot(last[0])] * before[0], after[0] - before[0], decode=decode)
    else:
        plain.extend_batch(judge, before, after, last, decode=decode)
    if judge.profile.evict_moment == "alloc":
        evicted(checker, call)


def group(checker: Checker, calls: Sequence[Call]) -> None:
    """A free group: frees alone, or one publication, as every run makes them; else call by call."""
    judge = checker.judge
    ended = calls[-1].method == "free_group_end"
    inner = calls[1:-1] if ended else calls[1:]
    waiting = checker.playback.waiting
    waiting.clear()
    waiting.extend(calls)
    if inner and all(call.method == "free" for call in inner):
        freed: list[int] = []
        for call in inner:
            checker.call = call
            contract.free(judge, call.args["slots"], freed=freed)
            freed += call.args["slots"]
        parts = [[Slot(slot) for slot in call.args["slots"]] for call in inner]
        if ended:
            pool.free_grouped(judge, parts)
        else:
            open_group(judge, parts)
    elif ended and [call.method for call in inner] in (["publish"], ["publish_upto"]):
        checker.call = calls[1]
        publish(checker, calls[1], grouped=True)
    else:
        mixed_group(checker, inner, calls[-1] if ended else None)


def open_group(judge: RecordedJudge, parts: Sequence[Sequence[Slot]]) -> None:
    """Frees in a group of which the trace doesn't show the end: nothing is available yet."""
    judge.call("free_group_begin()", "free_group_begin")
    for slots in parts:
        judge.call(f"free({list(slots)})", "free", list(slots))
    judge.finish("group_open", {}, judge.tree)


def mixed_group(checker: Checker, calls: Sequence[Call], ending: Call | None) -> None:
    """A group in which all sorts of things happen: until it ends, what the pool shows is unknown."""
    judge, waiting = checker.judge, checker.playback.waiting
    judge.grouped = True
    try:
        judge.call("free_group_begin()", "free_group_begin")
        for call in calls:
            act = ACTIONS.get(call.method)
            if call.method == "free_group_begin" or act is None:
                raise Breach("free group", f"{call.method} within a free group")
            rest = [later for later in waiting if later is not call]
            checker.call = call
            act(checker, [call])
            waiting.extend(rest)
        if ending is not None:
            checker.call = ending
            judge.call("free_group_end()", "free_group_end")
    finally:
        judge.grouped = False
    if ending is not None:
        judge.finish("group_closed", {}, judge.tree)


def stray_end(checker: Checker, call: Call) -> None:  # noqa: ARG001 - an action like the others
    """``free_group_end()`` without a beginning."""
    raise Breach("free group", "a free group ends that never began")


def reset(checker: Checker, call: Call) -> None:  # noqa: ARG001 - an action like the others
    """``reset()``: nobody owns anything afterwards."""
    checker.places = Places()
    pool.reset(checker.judge)


# -- tree ------------------------------------------------------------------------------------------


def match(checker: Checker, call: Call) -> None:
    """``match(key)``."""
    key, places = call.args["key"], checker.places
    hit = tree.match(checker.judge, key)
    places.matched(hit.handle, Handle(key, hit, call.line, places.changes))


def insert(checker: Checker, call: Call) -> None:
    """``insert(key, slots, …)``."""
    judge, args = checker.judge, call.args
    contract.insert(judge, args["key"], args["slots"], args["protected"])
    before = judge.tree.pages.keys()
    tree.insert(
        judge,
        args["key"],
        [Slot(slot) for slot in args["slots"]],
        protected=args["protected"],
        priority=args["priority"],
        chunked=args["chunked"],
    )
    if judge.tree.pages.keys() != before:
        checker.places.changed(call.line)


def lock(checker: Checker, call: Call) -> None:
    """``lock(handle)``: of a match after which the tree did not change."""
    judge, places = checker.judge, checker.places
    handle = places.handles.get(call.args["handle"])
    if handle is None:
        raise Breach("unknown handle", f"no match answered the handle {call.args['handle']!r}")
    if handle.changes != places.changes:
        text = f"the handle is of line {handle.line}, and the tree changed in line {places.changed_at}"
        paged = page_names(judge.names_of(handle.key), judge.size)[: handle.hit.length // judge.size]
        if not all(name in judge.tree.pages for name in paged):
            raise Breach("stale handle", f"{text}: what it names may be gone")
        checker.misused(Breach("stale handle", f"{text}; what it names is still there"), harmless=True)
    hit = handle.hit._replace(length=min(handle.hit.length, handle.key.length))
    places.serial += 1
    places.receipts[receipt_name(call)] = places.serial
    tree.lock(judge, hit, handle.key, places.serial)


def receipt_name(call: Call) -> object:
    """What the trace calls the receipt; one that is no name can't be given back."""
    return call.answer if type(call.answer) is str or type(call.answer) is int else None


def unlock(checker: Checker, call: Call) -> None:
    """``unlock(receipt)``: one that was given out, and not given back yet."""
    places, name = checker.places, call.args["receipt"]
    if name not in places.receipts:
        if name in places.returned:
            raise Breach("unlock twice", f"receipt {name!r} was given back in line {places.returned[name]} already")
        raise Breach("unknown receipt", f"no lock answered the receipt {name!r}, or it was given back already")
    number = places.receipts.pop(name)
    places.returned[name] = call.line
    if len(places.returned) > REMEMBERED:
        places.returned.popitem(last=False)
    tree.unlock(checker.judge, number)


def evict(checker: Checker, call: Call) -> None:
    """``evict(n)``."""
    if tree.evict(checker.judge, call.args["n"]):
        checker.places.changed(call.line)


def evicted(checker: Checker, call: Call) -> None:
    """After a call that may evict: the tree changed if the snapshot shows it, else it gets the benefit of the doubt."""
    judge = checker.judge
    if judge.depth >= 3 and judge.vanished_last:
        checker.places.changed(call.line)


# -- requests --------------------------------------------------------------------------------------


def begin(checker: Checker, call: Call) -> None:
    """``begin(rid, key)``."""
    contract.beginning(checker.judge, call.args["rid"])
    request.begin(checker.judge, call.args["rid"], call.args["key"])
    evicted(checker, call)


def grow(checker: Checker, call: Call) -> None:
    """``grow(rid, tokens)``."""
    contract.running(checker.judge, call.args["rid"])
    request.grow(checker.judge, call.args["rid"], call.args["tokens"])
    evicted(checker, call)


def publish(checker: Checker, call: Call, *, grouped: bool = False) -> None:
    """``publish(rid, chunked=…)`` and ``publish_upto(rid, upto, chunked=…)``."""
    judge, upto = checker.judge, call.args.get("upto")
    contract.running(judge, call.args["rid"])
    contract.computed(judge, call.args["rid"], upto)
    judge.lending = False
    try:
        request.publish(judge, call.args["rid"], chunked=call.args["chunked"], grouped=grouped, upto=upto)
    finally:
        judge.lending = True
    checker.places.changed(call.line)


def end(checker: Checker, call: Call) -> None:
    """``end(rid, keep=…)`` and ``end_upto(rid, upto)``."""
    judge, rid, upto = checker.judge, call.args["rid"], call.args.get("upto")
    contract.running(judge, rid)
    contract.computed(judge, rid, upto)
    keep = call.args.get("keep", True)
    request.end(judge, rid, keep=keep, upto=upto)
    if keep:
        checker.places.changed(call.line)


# -- what was written -------------------------------------------------------------------


def write(checker: Checker, call: Call) -> None:
    """``write(slots, key, start)``: the engine put the KV of the key's tokens, from ``start`` on, into these slots."""
    judge, (slots, key, start) = checker.judge, (call.args[name] for name in ("slots", "key", "start"))
    names = judge.token_names(key, judge.names_of(key))[start : start + len(slots)]
    if len(names) != len(slots):
        raise Breach("write", f"{len(slots)} slots for {len(names)} tokens of the key, from {start} on")
    if checker.header.contents == "recorded":
        judge.was_written(slots, names)


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
    "begin": of_request(begin),
    "grow": of_request(grow),
    "publish": one(publish),
    "end": of_request(end),
    "publish_upto": one(publish),
    "end_upto": of_request(end),
    "reset": one(reset),
    "page_hashes": one(plain.hashes),
    "plan_prefetch": one(plain.plan),
    "write": one(write),
    "available": one(plain.look),
    "sizes": one(plain.look),
    "view": one(plain.look),
}
"""What is done with the calls, by method."""
