"""Calls whose judging needs more than one function of the calls: batches, hashes, prefetch plans, and looks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kvlitmus.conformance.checker.calls.prefix import pure
from kvlitmus.conformance.checker.calls.prefix.hashing import Answered
from kvlitmus.conformance.checker.calls.prefix.prefetch import checked_plan
from kvlitmus.conformance.history.contract import Contradiction
from kvlitmus.conformance.history.reader import Call
from kvlitmus.conformance.support.text import harmless, shown
from kvlitmus.spec.prefix.hash_calls import (
    HashCall,
    HashNamespaces,
    HashPair,
    HashPieces,
    PageHashes,
    TwoHashes,
    split_key,
)
from kvlitmus.spec.prefix.prefetch_plan import Planned, PlanPrefetch

if TYPE_CHECKING:
    from kvlitmus.conformance.history.state import TraceState


def hashes(trace: TraceState, call: Call) -> None:
    """``page_hashes(key, page_size, prior)``: by itself, and beside the calls before it."""
    checker, key, size, prior = trace.checker, call.args["key"], call.args["page_size"], call.args["prior"]
    pure.hashes(checker, key, size, prior)
    if call.raised is not None or not isinstance(call.answer, list):
        return
    now = Answered(PageHashes(key, size, prior), tuple(call.answer))
    for related, answers in relations(now, trace.hashed):
        checker.answered(related, answers)
    trace.hashed.append(now)


def relations(now: Answered, earlier: Sequence[Answered]) -> list[tuple[HashCall, TwoHashes]]:
    """What a call to ``page_hashes`` must have in common with earlier ones, or must not: as calls with both answers."""
    found: list[tuple[HashCall, TwoHashes]] = []
    key, size, prior = now.call
    alike = [one for one in earlier if one.call.page_size == size and one.call.key.bigram == key.bigram]
    whole = [one for one in alike if one.call.prior is None]
    for one in whole if prior is None else ():
        answers = TwoHashes(one.hashes, now.hashes)
        if one.call.key.namespace == key.namespace:
            found.append((HashPair(one.call.key, key, size), answers))
        elif one.call.key.tokens == key.tokens:
            found.append((HashNamespaces(one.call.key, key.namespace, size), answers))
    for head in whole if prior is not None else ():
        if head.hashes and head.hashes[-1] == prior:
            first = head.call.key.length
            found += [
                (HashPieces(one.call.key, size, first // size), TwoHashes(one.hashes, head.hashes + now.hashes))
                for one in whole
                if split_key(one.call.key, first) == (head.call.key, key)
            ]
    return found


def plan(trace: TraceState, call: Call) -> None:
    """``plan_prefetch(ask, host)``: the conversation with the host's memory, and what came of it."""
    checker, ask, host = trace.checker, call.args["ask"], call.args["host"]
    assert host is not None
    asked = PlanPrefetch(ask)
    given = ", ".join(f"{name}={value}" for name, value in ask._asdict().items())
    checker.announce(f"plan_prefetch({given}) in {len(host)} calls to the host's memory", "plan_prefetch")
    if call.raised is not None:
        checker.answered(asked, Planned(None, host))
        raise checker.broken("PORT-01", f"the call raised {harmless(call.raised)}")
    try:
        found = checked_plan(call.answer)
    except (TypeError, ValueError) as error:
        raise checker.broken("PORT-03", harmless(error)) from error
    checker.answered(asked, Planned(found, host))


def look(trace: TraceState, call: Call) -> None:
    """The engine looked: it must have seen what was recorded after the call before."""
    if call.raised is not None:
        raise trace.checker.broken("PORT-01", f"{call.method}() raised {harmless(call.raised)}")
    known = trace.playback.seen.get(call.method, (call.answer,))[-1]
    if call.answer != known:
        raise Contradiction(
            call.line,
            f"{call.method}() answers {shown(call.answer)}, and after the call before it was {shown(known)}: "
            "a call between them was not recorded, or looking changes the cache",
        )
