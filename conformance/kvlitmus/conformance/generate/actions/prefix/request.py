"""Actions on requests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvlitmus.conformance.checker.calls.prefix import request
from kvlitmus.conformance.generate.actions.registry import GROUPED, MAX_REQUESTS, action
from kvlitmus.spec.words.limits import beyond_limits

if TYPE_CHECKING:
    from kvlitmus.conformance.generate.caller import Caller


ALONE = 224
"""From this number on tokens are taken back of a request that has not grown for it."""


@action("begin")
def begin(caller: Caller, a: int, b: int, c: int) -> None:
    """Begin a request."""
    if len(caller.checker.requests) < MAX_REQUESTS:
        caller.begun += 1
        request.begin(caller.checker, caller.begun, caller.key(a, b, c))


@action("begin_ahead")
def begin_ahead(caller: Caller, a: int, b: int, c: int) -> None:
    """Begin a request whose prompt will be computed in chunks."""
    if len(caller.checker.requests) < MAX_REQUESTS:
        caller.begun += 1
        request.begin(caller.checker, caller.begun, caller.key(a, b, c), ahead=True)


@action("compute")
def compute(caller: Caller, a: int, b: int, c: int) -> None:
    """Compute a chunk of one of the requests that are not computed yet, and publish it, or go on without a word."""
    waiting = {rid: one for rid, one in caller.checker.requests.items() if one.upto is not None}
    rid = caller.pick("request", waiting, c)
    if rid is not None:
        request.compute(caller.checker, rid, 1 + a % (3 * caller.config.page_size))
        if b & 1:
            request.publish(caller.checker, rid, chunked=bool(b & 2), upto=caller.checker.requests[rid].upto)


@action("grow")
def grow(caller: Caller, a: int, b: int, c: int) -> None:
    """Grow one of the requests."""
    rid = caller.pick("request", caller.checker.requests, c)
    if rid is not None and len(caller.checker.requests[rid].row) < 12 * caller.config.page_size:
        request.grow(caller.checker, rid, caller.tokens(a, b))


@action("take_back")
def take_back(caller: Caller, a: int, b: int, c: int) -> None:
    """Grow one of the requests by drafts, and take some of them back, or more: to the end of a page, or all of its own.

    Now and then it takes back alone.  In a cache that takes nothing back it grows.
    """
    rid, alone = caller.pick("request", caller.checker.requests, c), b >= ALONE
    if not (alone and "take_back" in caller.checker.capabilities):
        grow(caller, a, b, c)
    if rid is None or "take_back" not in caller.checker.capabilities:
        return
    running = caller.checker.requests[rid]
    if most := request.most_to_take_back(running):
        to_page = (len(running.row) - 1) % caller.config.page_size + 1
        many = (1, 1 + a % caller.config.page_size, to_page, most if b & 8 else 2)[b % 4]
        request.take_back(caller.checker, rid, 1 + a % most if alone else min(most, many))


@action("fork")
def fork(caller: Caller, a: int, b: int, c: int) -> None:
    """Begin a second request over the row of one of the requests, which publishes what it has now and then before.

    In a cache that forks nothing, or where none runs, a request begins.
    """
    running = caller.checker.requests if "fork" in caller.checker.capabilities else {}
    of = caller.pick("request", running, c)
    if of is None:
        begin(caller, a, b, c)
    elif len(running) < MAX_REQUESTS:
        if b & 1:
            publish(caller, a, ALONE, list(running).index(of))
        caller.begun += 1
        request.fork(caller.checker, caller.begun, of)


@action("publish")
def publish(caller: Caller, a: int, b: int, c: int) -> None:
    """Publish one of the requests."""
    rid = caller.pick("request", caller.checker.requests, c)
    if rid is not None:
        grouped = b < GROUPED and "group" in caller.checker.capabilities
        running = caller.checker.requests[rid]
        caller.computed(running.path.key)
        request.publish(caller.checker, rid, chunked=bool(a & 1), grouped=grouped, upto=running.upto)


@action("finish")
def finish(caller: Caller, a: int, b: int, c: int) -> None:
    """Finish one of the requests."""
    rid = caller.pick("request", caller.checker.requests, c)
    if rid is not None:
        running = caller.checker.requests[rid]
        caller.computed(running.path.key)
        request.end(caller.checker, rid, keep=True, upto=running.upto)


@action("abort")
def abort(caller: Caller, a: int, b: int, c: int) -> None:
    """Abort one of the requests."""
    rid = caller.pick("request", caller.checker.requests, c)
    if rid is not None:
        request.end(caller.checker, rid, keep=False)


@action("retract")
def retract(caller: Caller, a: int, b: int, c: int) -> None:
    """Retract one of the requests: it will be resumed under the same id.

    So much may have been taken back of it that the cache takes no such prompt: that one was aborted.
    """
    rid = caller.pick("request", caller.checker.requests, c)
    if rid is not None:
        key = caller.checker.requests[rid].path.key
        if not beyond_limits(caller.checker.profile, key):
            caller.waiting[rid] = key
        request.end(caller.checker, rid, keep=False)


@action("resume")
def resume(caller: Caller, a: int, b: int, c: int) -> None:
    """Begin a retracted request again, with all that it had."""
    rid = caller.pick("retracted", caller.waiting, c)
    if rid is not None and len(caller.checker.requests) < MAX_REQUESTS:
        request.begin(caller.checker, rid, caller.waiting.pop(rid))


@action("save")
def save(caller: Caller, a: int, b: int, c: int) -> None:
    """Retract one of the requests with a copy on the host; without one, where a cache makes none."""
    if "retract" not in caller.checker.capabilities:
        retract(caller, a, b, c)
        return
    rid = caller.pick("request", caller.checker.requests, c)
    if rid is not None:
        request.retract(caller.checker, rid)


@action("bring_back")
def bring_back(caller: Caller, a: int, b: int, c: int) -> None:
    """Let one of the requests run again that are on the host, or now and then abort it; else one without a copy."""
    rid = caller.pick("saved", caller.checker.state.retracted.requests, c)
    if rid is None:
        resume(caller, a, b, c)
    elif b >= ALONE:
        request.discard(caller.checker, rid)
    elif len(caller.checker.requests) < MAX_REQUESTS:
        request.resume(caller.checker, rid)
