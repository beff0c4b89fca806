"""What is certain of a step on a tape that begins in the middle, or lacks calls or looks.

Of the cache nothing is known but what was seen right before the call and after it, as far as anybody looked.  A fact
that touches anything else is unknown, and a rule that speaks of it is not judged: what is not known has no attributes
here, so that nothing can be concluded from it by accident.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from copy import copy
from dataclasses import fields
from functools import cache
from typing import Any, NamedTuple, NoReturn, cast

from kvlitmus.conformance.checker.observation import Observer
from kvlitmus.conformance.checker.tier_observation import TierObserver
from kvlitmus.spec.law.facts import FACTS, INPUTS, UNKNOWN, Facts, Unknown
from kvlitmus.spec.law.occasions import occasions_of
from kvlitmus.spec.law.plan import applies, unseen
from kvlitmus.spec.law.rule import Rule
from kvlitmus.spec.parts import all_rules
from kvlitmus.spec.prefix.page import NO_DOUBT
from kvlitmus.spec.prefix.seen import Record, Seen, TierSeen
from kvlitmus.spec.ranks.calls import RankCall, RankLocal, RankStart, Together, Views
from kvlitmus.spec.ranks.state import Agreed, Own, RanksState, after_local, begun
from kvlitmus.spec.words.setting import SNAPSHOT
from kvlitmus.spec.words.units import Name

BEYOND = (AttributeError, LookupError, TypeError, ValueError, AssertionError)
"""What comes of asking for what isn't known."""

COUNTERS = ("available", "sizes")
BELOW = ("jobs", "host_available", "occupied", "failing")
COUNTS = frozenset({"available", "host_available", "occupied"})
READ_BY = (*COUNTERS, "view", "tiers", *BELOW)
"""The looks at a cache of prefixes that something is concluded from."""


class Nothing:
    """In the place of what isn't known: there is nothing that it can be asked."""

    __slots__ = ()

    def __bool__(self) -> NoReturn:
        raise AttributeError("this isn't known")

    __eq__ = __ne__ = __hash__ = __len__ = __iter__ = __bool__  # type: ignore[assignment]


class SeenTier(Nothing):
    """A tier of which it was seen which pages are there, and of these nothing else is known."""

    __slots__ = ("doubt", "pages")

    def __init__(self, names: Iterable[Name]) -> None:
        self.pages = dict.fromkeys(names, Nothing())
        self.doubt = NO_DOUBT


class SeenState(Nothing):
    """What is known before a step by the look right before it: which pages each tier has that was looked at."""

    __slots__ = ("host", "tree")

    def __init__(self, before: object) -> None:
        if isinstance(before, Seen) and hasattr(before, "cached"):
            self.tree = SeenTier(before.cached)
        if isinstance(before, TierSeen) and hasattr(before, "hosted"):
            self.host = SeenTier(before.hosted)


def ranks_after(before: RanksState, call: RankCall, answer: Together | Views, *, happened: bool) -> RanksState:
    """What is known of ranks after a step on a tape that lacks calls: which there are, and how each looks.

    ``happened``: all that happens to one alone is told, so that it is known which of them is there, and whole.
    """
    world, own = before.world, before.own
    if isinstance(call, RankStart):
        world, own = call.world, begun(call.world).own
    elif isinstance(call, RankLocal):
        own = after_local(before, call.event).own
    if not happened:
        own = dict.fromkeys(world.ranks, Own(whole=False))
    agreed = (cast("Agreed", Nothing()),) * len(world.trees)
    return RanksState(world, own, agreed, answer.views if isinstance(answer, Together) else answer, followed=False)


class Certain(NamedTuple):
    """What came of a step: the rules that are broken, those that were evaluated, and all facts that are known."""

    broken: tuple[str, ...]
    evaluated: tuple[str, ...]
    facts: Facts


@cache
def about(occasions: tuple[str, ...], depth: int, capabilities: frozenset[str]) -> tuple[Rule, ...]:
    """The rules about such steps."""
    return tuple(
        one
        for one in all_rules().values()
        if one.pack != "misuse"
        and one.depth <= depth
        and applies(one, occasions, capabilities)
        and not (depth >= SNAPSHOT and unseen(one.facts))
    )


def judged(
    inputs: Mapping[str, Any], depth: int, capabilities: frozenset[str], muted: Collection[str], facts: Facts
) -> Certain:
    """Evaluate the rules about a step whose facts are certain.

    ``inputs``: those that there are of what facts are worked out from.  ``facts``: those that are unknown anyway.
    """
    try:
        given = {name: inputs[name] for name in ("call", "answer", "state", "setting", "before") if name in inputs}
        occasions = tuple(occasions_of(**given)) if "call" in given else ()
    except BEYOND:
        occasions = ()
    broken: list[str] = []
    evaluated: list[str] = []
    for one in about(occasions, depth, capabilities):
        if one.id in muted:
            continue
        values = {name: known(name, inputs, capabilities, facts) for name in one.facts}
        if any(value is UNKNOWN for value in values.values()):
            continue
        try:
            kept = one.predicate(**values)
        except BEYOND:
            continue
        if not kept:
            broken.append(one.id)
        if not kept or premised(one, inputs, capabilities, facts):
            evaluated.append(one.id)
    return Certain(tuple(broken), tuple(evaluated), {name: one for name, one in facts.items() if one is not UNKNOWN})


def premised(one: Rule, inputs: Mapping[str, Any], capabilities: frozenset[str], facts: Facts) -> bool:
    """Whether a rule has anything to say: its premise is true, or it has none."""
    if not one.premise:
        return True
    value = known(one.premise_fact, inputs, capabilities, facts)
    return value is not UNKNOWN and not one.idle(value)


def known(name: str, inputs: Mapping[str, Any], capabilities: frozenset[str], facts: Facts) -> Any:
    """A fact, if it is certain; it is noted, as is all that it is worked out from."""
    if name in INPUTS:
        return inputs.get(name, UNKNOWN)
    if name not in facts:
        one = FACTS[name]
        values = [known(need, inputs, capabilities, facts) for need in one.needs]
        facts[name] = UNKNOWN
        if one.ports <= capabilities and not any(value is UNKNOWN for value in values):
            try:
                facts[name] = one.compute(*values)
            except BEYOND:
                return UNKNOWN
    return facts[name]


def unseen_by(observer: Observer) -> Seen:
    """A cache at which nobody looked."""
    return without(TierSeen() if isinstance(observer, TierObserver) else Seen(), ())


def without(seen: Seen, kept: Collection[str]) -> Seen:
    """What was seen, but for what nobody looked at: that can't be asked for."""
    for one in fields(seen):
        if one.name not in kept and one.name != "seen":
            delattr(seen, one.name)
    return seen


def pool_seen(seen: Seen | Unknown) -> Seen:
    """What was seen of a pool of a cache of components: there is a snapshot, and perhaps a count of what is free.

    It is a copy: what was seen after one part of a call is what was seen before the next.
    """
    assert isinstance(seen, Seen), "both looks were made"
    snapshot = {one.name for one in fields(Seen)} - {*COUNTERS, "events"}
    return without(copy(seen), snapshot if seen.available is None else {"available", *snapshot})


def seen_of(observer: Observer, looked: Mapping[str, Any], record: Record) -> Seen:
    """What was seen by these looks; raises for one that has not the promised form."""
    available, sizes = looked.get("available"), looked.get("sizes")
    kept = {one for one in COUNTERS if one in looked}
    if not isinstance(observer, TierObserver):
        seen = observer.read(available, sizes, looked.get("view"))
        snapshot = {one.name for one in fields(Seen)} - {*COUNTERS, "events"}
        return without(seen, kept | (snapshot if "view" in looked else set()))
    if "tiers" in looked:
        seen = observer.read_tiers(available, sizes, looked["tiers"], looked.get("jobs", ()))
        kept |= {one.name for one in fields(TierSeen)} - {*COUNTERS, *BELOW, "events", "odd", "layers_ready"}
    else:
        seen = observer.read_jobs_alone(available, sizes, looked.get("jobs", ()))
    for name in ("host_available", "occupied"):
        setattr(seen, name, looked.get(name))
    seen.record = record
    return without(seen, kept | {one for one in BELOW if one in looked and one != "failing"} | {"record"})
