"""Who judges the steps of a small hierarchy: by the spec's rules, and their facts by the spec's own functions.

What is known before a step is read off the state that the search is in (:mod:`tests.proofs.support.tier_shown`); what
is known after it is what the call and its answer amount to, corrected by what is seen, as for any cache.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from kvlitmus.reference.prefix.hierarchy import works_of
from kvlitmus.spec.interface.tiers import Event
from kvlitmus.spec.law.occasions import occasions_of
from kvlitmus.spec.law.on import On
from kvlitmus.spec.law.plan import Judged, Plan, plan_of
from kvlitmus.spec.parts import all_rules
from kvlitmus.spec.prefix.advance import EXPECT, expect
from kvlitmus.spec.prefix.calls import Reset
from kvlitmus.spec.prefix.replay import replay
from kvlitmus.spec.prefix.seen import Record, TierSeen
from kvlitmus.spec.prefix.state import State
from kvlitmus.spec.prefix.work_advance import follow_tiers
from kvlitmus.spec.prefix.work_calls import Advance, Settled
from kvlitmus.spec.words.setting import SNAPSHOT, Setting
from tests.proofs.support.tier_shown import Contents, Shower

RULES = all_rules()
PACKS = ("tier", "backup", "load", "fetch", "life", "event", "frame")
ON_BOTH_TIERS = frozenset({"EVICT-03", "EVICT-04", "EVICT-05", "EVICT-06", "POOL-12", "TREE-05", "TREE-13", "TREE-14"})
"""The laws of plain caches that say of the host what they say of the device."""


class Broken(AssertionError):
    """A rule that a step has broken, and its facts."""

    def __init__(self, id: str, facts: dict[str, Any]) -> None:
        super().__init__(f"{id} broken: {facts}")
        self.id, self.facts = id, facts


class Judge:
    """Judges steps from one state after the other, and counts what it has judged."""

    def __init__(self, setting: Setting, shower: Shower) -> None:
        self.setting = setting
        self.shower = shower
        self.rules = [one for one in RULES.values() if one.pack in PACKS or one.id in ON_BOTH_TIERS]
        self.plans: dict[tuple[On, ...], Plan] = {}
        self.times: Counter[tuple[On, ...]] = Counter()
        self.unknown: Counter[str] = Counter()
        self.idle: dict[tuple[On, ...], list[int]] = {}
        self.now: State
        self.state: State
        self.before: TierSeen

    def start(self, now: State, contents: Contents) -> None:
        """What comes next starts from here."""
        self.now = now
        self.before = self.shower.shown(now, contents)
        self.state = self.shower.known(now, self.before)
        self.started = (self.now, self.state, self.before)

    def again(self) -> None:
        """What comes next starts where the last start was."""
        self.now, self.state, self.before = self.started

    def observe(self, now: State, contents: Contents, call: Any, answer: Any, record: Record) -> None:
        """Judge one step; raises :class:`Broken`."""
        setting, state, before = self.setting, self.state, self.before
        after = self.seen(now, contents, call, record)
        occasions = occasions_of(call, answer, state, setting, before)
        expected = expect(state, setting, call, answer) if type(call) in EXPECT else state
        expected, then = follow_tiers(state, expected, setting, call, answer, before, after)
        if now is not self.now:
            after.events = (Event("cleared"),) if type(call) is Reset else tuple(self.shower.events(self.now, now))
        assert then.told is not None
        then = then._replace(told=replay(then.told, setting, after.events))
        self.now, self.state, self.before = now, then, after
        plan = self.plans.get(occasions)
        if plan is None:
            plan = self.plans[occasions] = plan_of(
                self.rules, occasions, depth=SNAPSHOT, capabilities=setting.capabilities
            )
            self.idle[occasions] = [0] * len(plan.premised)
        self.times[occasions] += 1
        judged = plan.run(
            setting, state, expected, then, call, answer, before, after, *[None] * 4, False, self.idle[occasions]
        )
        if judged is not None:
            self.conclude(judged)

    def seen(self, now: State, contents: Contents, call: Any, record: Record) -> TierSeen:
        """What is seen after a step."""
        after = self.shower.shown(now, contents)
        after.record = record
        if type(call) is Advance and call.layers is not None:
            after.layers_ready = next((one.done for one in works_of(now).transfers if one.id == call.job), 0)
        return after

    def conclude(self, judged: Judged) -> None:
        """Note what was unknown; raises :class:`Broken` for the first rule that is broken."""
        self.unknown.update(judged.unknown)
        if judged.broken:
            id = judged.broken[0]
            raise Broken(id, {name: judged.facts[name] for name in RULES[id].facts if name in judged.facts})

    def settled(self, now: State, contents: Contents) -> None:
        """Judge the rest after everything was delivered; of what was told on the way, the sum is replayed."""
        told = self.state.told
        assert told is not None
        told = replay(told, self.setting, self.shower.events(self.now, now))
        waiting = tuple([int(one.rid) for one in works_of(now).operations if one.live])
        self.start(now, contents)
        self.state = self.state._replace(told=told)
        self.observe(now, contents, Settled(waiting), None, Record())

    def evaluated(self) -> Counter[str]:
        """How often each rule was evaluated where its premise was true."""
        total: Counter[str] = Counter()
        for occasions, plan in self.plans.items():
            for id in plan.rules:
                total[id] += self.times[occasions]
            total.subtract(dict(zip(plan.premised, self.idle[occasions], strict=True)))
        total.subtract(self.unknown)
        return +total

    def reached(self) -> Counter[str]:
        """How often there was each occasion."""
        total: Counter[str] = Counter()
        for occasions, times in self.times.items():
            for one in occasions:
                total[str(one)] += times
        return total
