"""Moves of requests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvlitmus.conformance.checker.calls import request
from kvlitmus.conformance.generate.actions.registry import GROUPED, MAX_REQUESTS, move, pick
from kvlitmus.conformance.generate.schedule import make_key, more_tokens

if TYPE_CHECKING:
    from kvlitmus.conformance.generate.interpreter import Interpreter


@move("begin")
def begin(interpreter: Interpreter, a: int, b: int, c: int) -> None:
    """Begin a request."""
    if len(interpreter.checker.requests) < MAX_REQUESTS:
        interpreter.begun += 1
        request.begin(interpreter.checker, interpreter.begun, make_key(interpreter.config, a, b, c))


@move("begin_ahead")
def begin_ahead(interpreter: Interpreter, a: int, b: int, c: int) -> None:
    """Begin a request whose prompt will be computed in chunks."""
    if len(interpreter.checker.requests) < MAX_REQUESTS:
        interpreter.begun += 1
        request.begin(interpreter.checker, interpreter.begun, make_key(interpreter.config, a, b, c), ahead=True)


@move("compute")
def compute(interpreter: Interpreter, a: int, b: int, c: int) -> None:
    """Compute a chunk of one of the requests that are not computed yet, and publish it, or go on without a word."""
    waiting = {rid: one for rid, one in interpreter.checker.requests.items() if one.upto is not None}
    rid = pick(waiting, c)
    if rid is not None:
        request.compute(interpreter.checker, rid, 1 + a % (3 * interpreter.config.page_size))
        if b & 1:
            request.publish(interpreter.checker, rid, chunked=bool(b & 2), upto=interpreter.checker.requests[rid].upto)


@move("grow")
def grow(interpreter: Interpreter, a: int, b: int, c: int) -> None:
    """Grow one of the requests."""
    rid = pick(interpreter.checker.requests, c)
    if rid is not None and len(interpreter.checker.requests[rid].row) < 12 * interpreter.config.page_size:
        request.grow(interpreter.checker, rid, more_tokens(interpreter.config, a, b))


@move("publish")
def publish(interpreter: Interpreter, a: int, b: int, c: int) -> None:
    """Publish one of the requests."""
    rid = pick(interpreter.checker.requests, c)
    if rid is not None:
        grouped = b < GROUPED and "group" in interpreter.checker.capabilities
        running = interpreter.checker.requests[rid]
        interpreter.computed(running.path.key)
        request.publish(interpreter.checker, rid, chunked=bool(a & 1), grouped=grouped, upto=running.upto)


@move("finish")
def finish(interpreter: Interpreter, a: int, b: int, c: int) -> None:
    """Finish one of the requests."""
    rid = pick(interpreter.checker.requests, c)
    if rid is not None:
        running = interpreter.checker.requests[rid]
        interpreter.computed(running.path.key)
        request.end(interpreter.checker, rid, keep=True, upto=running.upto)


@move("abort")
def abort(interpreter: Interpreter, a: int, b: int, c: int) -> None:
    """Abort one of the requests."""
    rid = pick(interpreter.checker.requests, c)
    if rid is not None:
        request.end(interpreter.checker, rid, keep=False)


@move("retract")
def retract(interpreter: Interpreter, a: int, b: int, c: int) -> None:
    """Retract one of the requests: it will be resumed under the same id."""
    rid = pick(interpreter.checker.requests, c)
    if rid is not None:
        interpreter.waiting[rid] = interpreter.checker.requests[rid].path.key
        request.end(interpreter.checker, rid, keep=False)


@move("resume")
def resume(interpreter: Interpreter, a: int, b: int, c: int) -> None:
    """Begin a retracted request again, with all that it had."""
    rid = pick(interpreter.waiting, c)
    if rid is not None and len(interpreter.checker.requests) < MAX_REQUESTS:
        request.begin(interpreter.checker, rid, interpreter.waiting.pop(rid))
