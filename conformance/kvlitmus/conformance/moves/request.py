"""Moves of requests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvlitmus.conformance.calls import request
from kvlitmus.conformance.moves.registry import GROUPED, MAX_REQUESTS, move, pick
from kvlitmus.conformance.schedule import make_key, more_tokens

if TYPE_CHECKING:
    from kvlitmus.conformance.player import Player


@move("begin")
def begin(player: Player, a: int, b: int, c: int) -> None:
    """Begin a request."""
    if len(player.judge.requests) < MAX_REQUESTS:
        player.begun += 1
        request.begin(player.judge, player.begun, make_key(player.config, a, b, c))


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
        player.computed(player.judge.requests[rid].key)
        request.publish(player.judge, rid, chunked=bool(a & 1), grouped=grouped)


@move("finish")
def finish(player: Player, a: int, b: int, c: int) -> None:
    """Finish one of the requests."""
    rid = pick(player.judge.requests, c)
    if rid is not None:
        player.computed(player.judge.requests[rid].key)
        request.end(player.judge, rid, keep=True)


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
