"""What is done with the calls that flat caches don't have: of hierarchies, components, sparse pools, stores, ranks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kvlitmus.conformance.checker.calls import ranks, sparse, stores
from kvlitmus.conformance.checker.calls.components import host, prefetch, requests, storing
from kvlitmus.conformance.checker.calls.components import tree as components
from kvlitmus.conformance.checker.calls.prefix import fetch, tier
from kvlitmus.conformance.checker.checker import Checker
from kvlitmus.conformance.history import actions, contract
from kvlitmus.conformance.history.actions import evicted, one
from kvlitmus.conformance.history.contract import Breach, Contradiction
from kvlitmus.conformance.history.handles import Handle, Places
from kvlitmus.conformance.history.reader import Call
from kvlitmus.conformance.ports import Hit
from kvlitmus.conformance.tape.calls import TURNS
from kvlitmus.spec.interface.ranks import Ask
from kvlitmus.spec.stores.calls import Cleared, StoreClear
from kvlitmus.spec.stores.state import advance_store

if TYPE_CHECKING:
    from kvlitmus.conformance.history.following import Following
    from kvlitmus.conformance.history.playback import RecordedChecker
    from kvlitmus.conformance.history.state import Act, TraceState

Make = Callable[[Checker, Any], object]
"""Makes a call; it has the arguments by name."""


def plainly(make: Make) -> Act:
    """An action on a single line that says all that there is to know."""

    def judge_it(trace: TraceState, call: Call) -> None:
        make(trace.checker, call.args)

    return one(judge_it)


# -- hierarchies -----------------------------------------------------------------------------------


def below(make: Make) -> Act:
    """An action on a hierarchy; what is cached may be another afterwards."""

    def judge_it(trace: TraceState, call: Call) -> None:
        make(trace.checker, call.args)
        evicted(trace, call)

    return one(judge_it)


def advance(trace: TraceState, call: Call) -> None:
    """``advance(job, outcome)``: of a job that goes on."""
    checker, job = trace.checker, call.args["job"]
    listed = tier.seen(checker).jobs
    if job not in listed or listed[job].landed or job not in checker.below.work:
        raise Breach("no such job", f"job {job} isn't under way")
    tier.advance(checker, job, call.args["outcome"])
    evicted(trace, call)


def tick(trace: TraceState, call: Call) -> None:
    """``tick()``; the first one after storage was detached takes note of that."""
    tier.tick(trace.checker, detached=trace.detached)
    trace.detached = False
    evicted(trace, call)


def attach(trace: TraceState, call: Call) -> None:
    """``attach(store)`` and ``detach()``; which storage that is says the tape."""
    on = call.method == "attach"
    lent = call.step.args[0] if on and call.step.args else None
    number = lent.get("of", 0) if isinstance(lent, dict) else None
    done = tier.exchanged(trace.checker, on=on, storage=number if isinstance(number, int) else None)
    if not on:
        trace.detached = done
    evicted(trace, call)


def ask_for(trace: TraceState, call: Call) -> None:
    """``prefetch(rid, key)``: of a request that doesn't wait for one."""
    fetch.prefetch(trace.checker, call.args["rid"], call.args["key"])
    if trace.playback.waiting:
        raise Breach("second prefetch", f"request {call.args['rid']!r} waits for a prefetch already")
    evicted(trace, call)


# -- components ------------------------------------------------------------------------------------


def number_of(names: Mapping[int, object], name: object, what: str) -> int:
    """The suite's number of a receipt, a copy and the like."""
    for number, given in names.items():
        if given is name or (type(given) is type(name) and given == name):
            return number
    raise Breach(f"unknown {what}", f"no call answered the {what} {name!r}, or it was given back already")


def component_match(trace: TraceState, call: Call) -> None:
    """``component_match(key)``."""
    places, key = trace.places, call.args["key"]
    length, handle = components.match(trace.checker, key)
    places.matched(handle, Handle(key, Hit(length, None, handle), call.line, places.changes))


def handle_of(trace: TraceState, call: Call) -> Handle:
    """What a match found, if nothing has changed since."""
    places, name = trace.places, call.args["handle"]
    found = places.handles.get(name)
    if found is None:
        raise Breach("unknown handle", f"no match answered the handle {name!r}")
    if found.changes != places.changes:
        text = f"the handle is of line {found.line}, and what is cached may have changed in line {places.changed_at}"
        raise Breach("stale handle", text)
    return found


def changing(make: Make) -> Act:
    """An action on a cache of components after which handles are old."""

    def judge_it(trace: TraceState, call: Call) -> None:
        make(trace.checker, call.args)
        trace.places.changed(call.line)

    return one(judge_it)


def lawful(judge: Callable[[RecordedChecker, Any], None], act: Act) -> Act:
    """An action on a call that the contract may forbid."""

    def judged(trace: TraceState, calls: Sequence[Call]) -> None:
        judge(trace.checker, calls[0].args)
        act(trace, calls)

    return judged


def on_hit(make: Callable[[Checker, Any, Handle, int], object], *, changes: bool = True) -> Act:
    """An action on what a match found, which may get a number of the suite's."""

    def judge_it(trace: TraceState, call: Call) -> None:
        found = handle_of(trace, call)
        trace.places.serial += 1
        make(trace.checker, call.args, found, trace.places.serial)
        if changes:
            trace.places.changed(call.line)

    return one(judge_it)


def start(trace: TraceState, call: Call) -> None:
    """``component_start(key, chunk)``."""
    trace.places.serial += 1
    requests.start(trace.checker, call.args["key"], call.args["chunk"], trace.places.serial)
    trace.places.changed(call.line)


def component_reset(trace: TraceState, call: Call) -> None:  # noqa: ARG001 - an action like the others
    """``component_reset()``: nobody owns anything afterwards."""
    trace.places = Places()
    components.reset(trace.checker)


# -- stores ----------------------------------------------------------------------------------------


def clear(checker: Checker, args: Any) -> None:  # noqa: ARG001 - an action like the others
    """``store_clear()``: what is left, later calls show."""
    checker.call("clear()", "store_clear")
    checker.store_state = advance_store(checker.store_state, checker.profile, StoreClear(), Cleared(()))


# -- ranks -----------------------------------------------------------------------------------------


def rank_and_ask(call: Call) -> tuple[object, object]:
    """Which rank a call asks, and what; ``None`` where it asks none."""
    return (call.args["rank"], call.args["ask"]) if call.method == TURNS else (None, None)


def asked_together(trace: TraceState, call: Call, following: Following[Call]) -> list[Call]:
    """The lines that ask the ranks of a tree the same as this one, one after the other."""
    state, rank = trace.checker.ranks_state, call.args["rank"]
    if rank not in state.world.ranks:
        raise Contradiction(call.line, f"there is no rank {rank}")
    members = state.world.tree(state.tree_of(rank))
    living = state.living(members)
    asked = following.asked_together(call, rank_and_ask, living)
    if len(asked) < len(living) and not following.ended:
        if not trace.checker.blind:
            raise Contradiction(call.line, "not all ranks of a tree were asked the same, one after the other")
        if TURNS not in trace.header.without:  # all that was asked is told: the others are gone
            here = {one.args["rank"] for one in asked}
            own = {rank: state.own[rank]._replace(alive=rank in here) for rank in members}
            trace.checker.ranks_state = state._replace(own={**state.own, **own})
    return asked


def ask(trace: TraceState, calls: Sequence[Call]) -> None:
    """``ranks_ask(rank, ask)``, of all living ranks of a tree one after the other."""
    first: Ask = calls[0].args["ask"]
    trace.playback.waiting.clear()
    trace.playback.waiting.extend(calls)
    tree = trace.checker.ranks_state.tree_of(calls[0].args["rank"])
    ranks.ask(trace.checker, first.what, tuple(first.key), rid=first.rid, pages=first.pages, tree=tree)


ACTIONS: dict[str, Act] = {
    **actions.ACTIONS,
    "evict_host": below(lambda checker, args: tier.evict_host(checker, args["n"])),
    "load_back": below(lambda checker, args: tier.load_back(checker, args["key"])),
    "load_back_within": below(lambda checker, args: tier.load_back(checker, args["key"], args["quota"])),
    "advance": one(advance),
    "tick": one(tick),
    "attach": one(attach),
    "detach": one(attach),
    "prefetch": one(ask_for),
    "poll": below(lambda checker, args: fetch.poll(checker, args["rid"], asks=False)),
    "loaded": plainly(lambda checker, args: fetch.loaded(checker, args["rid"])),
    "abandon": below(lambda checker, args: fetch.abandon(checker, args["rid"])),
    "set_clock": plainly(lambda checker, args: fetch.set_clock(checker, args["seconds"])),
    "fail_host_alloc": plainly(lambda checker, args: fetch.fail_alloc(checker, args["after"])),
    "fail_copy": plainly(lambda checker, args: tier.fail_copy(checker, args["kind"], args["after"])),
    "component_match": one(component_match),
    "component_alloc": lawful(
        lambda checker, args: contract.wanted(checker, args["wants"]),
        changing(lambda checker, args: components.alloc(checker, args["wants"])),
    ),
    "component_free": lawful(
        lambda checker, args: contract.places(checker, args["given"]),
        plainly(lambda checker, args: components.free(checker, args["given"])),
    ),
    "component_insert": lawful(
        lambda checker, args: contract.entries(checker, args["key"], args["entries"]),
        changing(lambda checker, args: components.insert(checker, args["key"], args["entries"])),
    ),
    "component_lock": on_hit(
        lambda checker, args, hit, number: components.lock(checker, hit.key, hit.hit.length, args["handle"], number),
        changes=False,
    ),
    "component_unlock": plainly(
        lambda checker, args: components.unlock(checker, number_of(checker.tokens, args["receipt"], "receipt"))
    ),
    "component_evict": lawful(
        lambda checker, args: contract.wanted(checker, args["wants"]),
        changing(lambda checker, args: components.evict(checker, args["wants"])),
    ),
    "component_reset": one(component_reset),
    "component_back_up": on_hit(
        lambda checker, args, hit, number: host.back_up(checker, hit.key, hit.hit.length, args["handle"], number)
    ),
    "component_load": on_hit(
        lambda checker, args, hit, number: host.load(checker, args["key"], hit.hit.length, args["handle"], number)
    ),
    "component_copied": changing(
        lambda checker, args: host.copied(checker, number_of(checker.copying, args["copy"], "copy"), args["ok"])
    ),
    "component_evict_host": lawful(
        lambda checker, args: contract.wanted(checker, args["wants"]),
        changing(lambda checker, args: host.evict_host(checker, args["wants"])),
    ),
    "component_prefetch": on_hit(
        lambda checker, args, hit, number: prefetch.prefetch(
            checker, args["key"], hit.hit.length, args["handle"], args["threshold"], number
        )
    ),
    "component_prefetch_found": changing(
        lambda checker, args: prefetch.found(
            checker, number_of(checker.fetching, args["fetch"], "prefetch"), args["stored"]
        )
    ),
    "component_prefetch_settled": changing(
        lambda checker, args: prefetch.settled(checker, number_of(checker.fetching, args["fetch"], "prefetch"))
    ),
    "component_prefetch_commit": changing(
        lambda checker, args: prefetch.commit(
            checker, number_of(checker.fetching, args["fetch"], "prefetch"), args["came"]
        )
    ),
    "component_prefetch_abort": changing(
        lambda checker, args: prefetch.abort(checker, number_of(checker.fetching, args["fetch"], "prefetch"))
    ),
    "component_start": one(start),
    "component_grow": changing(
        lambda checker, args: requests.grow(
            checker, number_of(checker.tokens, args["receipt"], "receipt"), args["chunk"]
        )
    ),
    "component_finish": changing(
        lambda checker, args: requests.finish(checker, number_of(checker.tokens, args["receipt"], "receipt"))
    ),
    "component_attach": plainly(lambda checker, _: storing.attach(checker)),
    "component_detach": changing(lambda checker, _: storing.detach(checker)),
    "component_write": on_hit(
        lambda checker, args, hit, number: storing.write(
            checker, hit.key, hit.hit.length, args["handle"], args["stored"], number
        ),
        changes=False,
    ),
    "component_written": plainly(
        lambda checker, args: storing.written(checker, number_of(checker.writing, args["write"], "write"), args["ok"])
    ),
    "sparse_request": plainly(
        lambda checker, args: sparse.request(checker, args["row"], args["start"], args["tokens"])
    ),
    "sparse_read": plainly(lambda checker, args: sparse.read(checker, args["row"])),
    "sparse_free": plainly(lambda checker, args: sparse.free(checker, args["row"])),
    "sparse_abort": plainly(lambda checker, args: sparse.abort(checker, args["row"])),
    "sparse_stage": plainly(lambda checker, args: sparse.stage(checker, args["row"], args["tokens"])),
    "sparse_copied": plainly(lambda checker, args: sparse.copied(checker, args["copy"])),
    "sparse_ready": plainly(lambda checker, _: sparse.ready(checker)),
    "sparse_retract": plainly(lambda checker, args: sparse.retract(checker, args["row"])),
    "sparse_prealloc": plainly(
        lambda checker, args: sparse.prealloc(checker, args["row"], args["tokens"], args["page_size"])
    ),
    "sparse_transferred": plainly(
        lambda checker, args: sparse.transferred(checker, args["transfer"], arrived=args["arrived"])
    ),
    "sparse_admit": plainly(lambda checker, args: sparse.admit(checker, args["row"], args["length"])),
    "sparse_swap": plainly(lambda checker, args: sparse.swap(checker, args["row"], args["length"], args["tokens"])),
    "sparse_grow": plainly(lambda checker, args: sparse.grow(checker, args["row"], args["length"])),
    "sparse_back_up": plainly(lambda checker, args: sparse.back_up(checker, args["row"], args["length"])),
    "sparse_reserve": plainly(lambda checker, args: sparse.reserve(checker, args["row"], args["tokens"])),
    "sparse_connect": plainly(lambda checker, args: sparse.connect(checker, args["page_size"])),
    "store_exists": plainly(lambda checker, args: stores.exists(checker, args["keys"])),
    "store_get": plainly(lambda checker, args: stores.get(checker, args["keys"], args["size"])),
    "store_put": plainly(lambda checker, args: stores.put(checker, args["keys"], args["values"])),
    "store_clear": plainly(clear),
    "ranks_start": plainly(lambda checker, args: ranks.begin(checker, args["world"], args["world"].name)),
    "ranks_local": plainly(lambda checker, args: ranks.local(checker, args["event"])),
    "ranks_ask": ask,
}
"""What is done with the calls, by method."""
