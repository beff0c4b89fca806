"""What several ranks of SGLang 0.5.13.post1 do, each shown on the published code, as JSON.

Run by the release's own interpreter.  Each function returns what was seen; what that must be, says
``test_sglang_ranks.py``.  ``drawn`` as argument judges drawn schedules instead.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Generator, Mapping
from typing import Any

from kvlitmus.conformance.adapters.sglang.common.hicache import BackendFactory
from kvlitmus.conformance.adapters.sglang.common.network import Call
from kvlitmus.conformance.adapters.sglang.v0_5_13.rank_environment import PAGE, Building
from kvlitmus.conformance.adapters.sglang.v0_5_13.ranks import CONFIGS, Rank, RankedHiRadix
from kvlitmus.conformance.adapters.sglang.v0_5_13.ranks import ranks as target
from kvlitmus.conformance.checker.calls import ranks
from kvlitmus.conformance.checker.checker import Checker
from kvlitmus.conformance.checker.guard import Violation
from kvlitmus.conformance.checker.rendezvous import together
from kvlitmus.conformance.generate.interpreter import Interpreter
from kvlitmus.conformance.generate.schedule import draw, table
from kvlitmus.spec.interface.ranks import Ask, Exchange, Local, worlds
from kvlitmus.spec.ranks.calls import Trace

KEY = (1, 2, 3, 4)
ALIKE = ("tp2", "tp4", "cp2", "tp2cp2", "attn2")
STAGED = ("pp2", "tp2pp2")


def made(shape: str = "tp2", stop: str = "wait_complete") -> RankedHiRadix:
    """Fresh ranks."""
    adapter = target.make(CONFIGS[0])
    assert isinstance(adapter, RankedHiRadix)
    adapter.ranks_start(worlds(stop=stop)[shape])
    return adapter


def told(traces: list[Trace]) -> list[str]:
    """How a call ended on each rank, and what one that waits has entered last."""
    return [
        f"{one.ended} for {getattr(one.entered[-1], 'layout', ('a message',))[0]}"
        if one.ended == "waiting"
        else one.ended
        for one in traces
    ]


def asked(adapter: RankedHiRadix, what: str, key: tuple[int, ...] = (), *, rid: int = 0, pages: int = 0) -> list[Trace]:
    """Ask all ranks the same."""
    return together({rank: adapter.ranks_ask(rank, Ask(what, key, rid, pages)) for rank in adapter.ranks})[0]


def each(adapter: RankedHiRadix, call: Callable[[Rank], Any]) -> list[Trace]:
    """Have each rank run a piece of a scheduler's step."""

    def turns(rank: Rank) -> Generator[Exchange, tuple[int, ...], list[Any]]:
        one = Call(lambda: call(rank))
        try:
            entered = one.go_on()
            while entered is not None:
                entered = one.go_on((yield entered))
        finally:
            one.end()
        return []

    return together({number: turns(rank) for number, rank in adapter.ranks.items()})[0]


def attach_fails_on_one() -> dict[str, Any]:
    """Storage is attached in a running server, and can't be reached from one rank."""
    adapter = made()
    for rank in adapter.ranks.values():
        rank.detach()
    create, answers = BackendFactory.create_backend, {}

    def refused(*_args: object, **_kwargs: object) -> object:
        raise ConnectionError("not reached from here")

    def attach(rank: Rank) -> None:
        BackendFactory.create_backend = refused if rank.number else create  # type: ignore[method-assign,assignment]
        Building.together = False
        try:
            answers[rank.number] = rank.attach_storage()
        finally:
            BackendFactory.create_backend, Building.together = create, True  # type: ignore[method-assign]

    return {"ends": told(each(adapter, attach)), "answers": answers}


def load_ends_on_one() -> dict[str, Any]:
    """H-32: a decode server asks whether a load is over; on one rank it is, on the other it isn't yet."""
    adapter = made()
    asked(adapter, "insert", KEY)
    for rank in adapter.ranks:
        adapter.ranks_local(Local(rank, "wrote", KEY))
    asked(adapter, "acks")
    asked(adapter, "evict", pages=4)
    asked(adapter, "load", KEY)
    adapter.ranks_local(Local(0, "loaded", KEY))
    done: dict[int, bool] = {}

    def step(rank: Rank) -> None:
        done[rank.number] = rank.cache.is_load_back_event_done(rank.controller.layer_done_counter.producer_index)
        rank.cache.check_hicache_events()

    return {"ends": told(each(adapter, step)), "done": done}


def less_room_on_one(what: str) -> dict[str, Any]:
    """H-68, H-31: others occupy the host of one rank, by a direct call; then all are asked the same."""
    adapter = made()
    adapter.ranks[1].host.alloc(8 * PAGE)
    begun = asked(adapter, what, KEY, rid=1)
    granted = [sum(len(one.prefixes) for one in trace.decisions if one.kind == "grant") for trace in begun]
    return {"granted": granted, "ends": told(asked(adapter, "poll" if what == "prefetch" else "acks", rid=1))}


def stages_read_apart() -> dict[str, Any]:
    """H-67: one pipeline stage has read a prefetch, the next one hasn't; H-31: then another request computes the key,
    and copies are noted.
    """
    adapter = made("pp2")
    asked(adapter, "prefetch", KEY, rid=1)
    for rank in adapter.ranks:
        adapter.ranks_local(Local(rank, "found", rid=1, boundaries=(1, 2, 3, 4)))
    asked(adapter, "hit", rid=1)
    adapter.ranks_local(Local(0, "read", rid=1, pages=4))
    asked(adapter, "poll", rid=1)
    host = [len(rank.on("host_value")) for rank in adapter.ranks.values()]
    asked(adapter, "abort", rid=1)
    asked(adapter, "insert", KEY)
    return {"host": host, "ends": told(asked(adapter, "acks"))}


def drawn(shapes: tuple[str, ...], seeds: range) -> dict[str, Any]:
    """What drawn schedules break, by rule, with the calls in which they do; and how many steps were judged."""
    broken: dict[str, list[str]] = {}
    steps = 0
    for seed in seeds:
        config = CONFIGS[seed % len(CONFIGS)]
        checker = Checker(target.make(config), config, target.profile)
        ranks.start(checker, shapes[seed % len(shapes)])
        ops = [op for op in draw(seed, 200, table(checker.capabilities)) if op[0] != "ranks_start"]
        try:
            Interpreter(checker).play(ops)
        except Violation as violation:
            for rule in violation.rules:
                broken.setdefault(rule, []).append(f"{violation.call} {violation.detail}")
        steps += checker.steps
    return {"broken": {rule: sorted(set(where)) for rule, where in broken.items()}, "steps": steps}


MECHANISMS: Mapping[str, Callable[[], dict[str, Any]]] = {
    "attach": attach_fails_on_one,
    "load": load_ends_on_one,
    "less room, prefetch": lambda: less_room_on_one("prefetch"),
    "less room, insert": lambda: less_room_on_one("insert"),
    "stages": stages_read_apart,
}

if __name__ == "__main__":
    if sys.argv[1] == "mechanisms":
        print(json.dumps({name: find() for name, find in MECHANISMS.items()}))
    else:
        print(json.dumps({"alike": drawn(ALIKE, range(60)), "staged": drawn(STAGED, range(20))}))
