"""Moves of requests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvlitmus.conformance.checker.calls import request
from kvlitmus.conformance.generate.actions.registry import GROUPED, MAX_REQUESTS, move, pick
from kvlitmus.conformance.generate.schedule import make_key, more_tokens

if TYPE_CHECKING:
    from kvlitmus.conformance.generate.interpreter import Player


@move("begin")
def begin(player: Player, a: int, b: int, c: int) -> None:
    """Begin a request."""
    if len(player.judge.requests) < MAX_REQUESTS:
        player.begun += 1
        request.begin(player.judge, player.begun, make_key(player.config, a, b, c))


@move("begin_ahead")
def begin_ahead(player: Player, a: int, b: int, c: int) -> None:
    """Begin a request whose prompt will be computed in chunks."""
    if len(player.judge.requests) < MAX_REQUESTS:
        player.begun += 1
        request.begin(player.judge, player.begun, make_key(player.config, a, b, c), ahead=True)


@move("compute")
def compute(player: Player, a: int, b: int, c: int) -> None:
    """Compute a chunk of one of the requests that are not computed yet, and publish it, or go on without a word."""
    waiting = {rid: one for rid, one in player.judge.requests.items() if one.upto is not None}
    rid = pick(waiting, c)
    if rid is not None:
        request.compute(player.judge, rid, 1 + a % (3 * player.config.page_size))
        if b & 1:
            request.publish(player.judge, rid, chunked=bool(b & 2), upto=waiting[rid].upto)


@move("grow")
def grow(player: Player, a: int, b: int, c: int) -> None:
    """Grow one of the requests."""
    rid = pick(player.judge.requests, c)
    if rid is not None and len(player.judge.requests[rid].row) < 12 * player.config.page_size:
        request.grow(player.judge, rid, more_tokens(player.config, a, b))


@move("publish")
def publish(player: Player, a: int, b: int, c: int) -> None:
    """Publish one of the requests."""
    rid = pick(player.judge.requests, c)
    if rid is not None:
        grouped = b < GROUPED and "group" in player.judge.capabilities
        running = player.judge.requests[rid]
        player.computed(running.key)
        request.publish(player.judge, rid, chunked=bool(a & 1), grouped=grouped, upto=running.upto)


@move("finish")
def finish(player: Player, a: int, b: int, c: int) -> None:
    """Finish one of the requests."""
    rid = pick(player.judge.requests, c)
    if rid is not None:
        running = player.judge.requests[rid]
        player.computed(running.key)
        request.end(player.judge, rid, keep=True, upto=running.upto)


@move("abort")
def abort(player: Player, a: int, b: int, c: int) -> None:
    """Abort one of the requests."""
    rid = pick(player.judge.requests, c)
    if rid is not None:
        request.end(player.judge, rid, keep=False)


@move("retract")
def retract(player: Player, a: int, b: int, c: int) -> None:
    """Retract one of the requests: it will be resumed under the same id."""
    rid = pick(player.judge.requests, c)
    if rid is not None:
        player.waiting[rid] = player.judge.requests[rid].key
        request.end(player.judge, rid, keep=False)


@move("resume")
def resume(player: Player, a: int, b: int, c: int) -> None:
    """Begin a retracted request again, with all that it had."""
    rid = pick(player.waiting, c)
    if rid is not None and len(player.judge.requests) < MAX_REQUESTS:
        request.begin(player.judge, rid, player.waiting.pop(rid))
