"""The judge: what happens around one call.

A :class:`Checker` owns one adapter for one run.  For each call it notes what is known before,
makes the call behind its guard (:mod:`kvlitmus.conformance.checker.guard`), observes the cache as deeply as
the run allows, and evaluates every rule whose facts can be known (:mod:`kvlitmus.spec.plan`).  The first
broken rule ends the run with a ``Violation`` that carries the facts, so that it can be explained.

What is known is a :class:`~kvlitmus.spec.state.State`.  After each call it is what the call and its answer amount to
(:mod:`kvlitmus.spec.advance`), and at depth 3 what the snapshot shows.

The calls themselves are in :mod:`kvlitmus.conformance.checker.calls`, part by part.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from kvlitmus.conformance.checker.event_replica import EventReplica
from kvlitmus.conformance.checker.failures import Work
from kvlitmus.conformance.checker.guard import SPARE, Guard, Violation
from kvlitmus.conformance.checker.observation import INTEGER, Observer
from kvlitmus.conformance.checker.selection import Facts, plan_for
from kvlitmus.conformance.checker.tier_observation import TierObservation, TierObserver
from kvlitmus.conformance.checker.tier_state import TierState
from kvlitmus.conformance.ports import Config, Profile, capabilities_of
from kvlitmus.conformance.ports.compose import with_requests
from kvlitmus.conformance.support.text import harmless, type_name
from kvlitmus.spec import effects
from kvlitmus.spec.advance import expect, follow, written_by
from kvlitmus.spec.calls import Compute, Insert, Path, path_of
from kvlitmus.spec.facts import FACTS, INPUTS, UNKNOWN
from kvlitmus.spec.hash_calls import EMPTY_LEDGER, HashLedger
from kvlitmus.spec.interface import Begun, Hit
from kvlitmus.spec.misuse_calls import Aftermath, MisuseCall
from kvlitmus.spec.names import NO_NAME, Names
from kvlitmus.spec.occasions import occasions_of
from kvlitmus.spec.plan import Judged, Plan, value_of
from kvlitmus.spec.request import computed_slots
from kvlitmus.spec.rule import all_rules
from kvlitmus.spec.schemes import SCHEMES
from kvlitmus.spec.seen import Seen
from kvlitmus.spec.setting import Setting
from kvlitmus.spec.state import State, Tree, empty_state
from kvlitmus.spec.store_state import EMPTY_STORE, StoreState
from kvlitmus.spec.units import Key, Name, PageNo, Slot

DEEPEST = 3
"""The depth of a full snapshot."""

EVENTS = 2
"""The depth of events."""

NOBODY = object()
"""Stands for what is not known of a call that is judged by given facts alone."""

CALL = frozenset({"call", "answer", "found", "row_found"})
"""The inputs that a step without a call value lacks."""

UNSEEN = frozenset(INPUTS) - {"setting", "state", "call", "answer"}
"""The inputs that a step lacks after which nothing is observed."""

NO_FACTS: Mapping[str, Any] = {}


def deepest(capabilities: frozenset[str]) -> int:
    """How deep an adapter with these capabilities can be observed."""
    return DEEPEST if "inspect" in capabilities else EVENTS if "events" in capabilities else 1


class Loan(NamedTuple):
    """Slots that the suite holds as a caller."""

    slots: tuple[Slot, ...]


class Tally:
    """Which rules to evaluate after calls that are alike, how often that was done, and how often one was unknown."""

    __slots__ = ("occasions", "plan", "times", "unknown")

    def __init__(self, occasions: tuple[str, ...], plan: Plan) -> None:
        self.occasions = occasions
        self.plan = plan
        self.times = 0
        self.unknown: Counter[str] = Counter()


class Checker(Guard):
    """One adapter under judgement, from a fresh state on."""

    most_hashes: int | None = None
    """How many page hashes are remembered of each page size and kind of units; all, if ``None``."""

    wants_facts = False
    """Whether :meth:`note_facts` is to be told the facts of every step."""

    def __init__(
        self,
        adapter: Any,
        config: Config,
        profile: Profile,
        *,
        depth: int = 3,
        muted: frozenset[str] = frozenset(),
        names: Names | None = None,
        force_misuse: bool = False,
    ) -> None:
        super().__init__(with_requests(adapter, config.page_size, profile), config.pages * config.page_size)
        self.config = config
        self.profile = profile
        self.size = config.page_size
        capabilities = capabilities_of(self.adapter)
        if "lifecycle" in capabilities and profile.attach == "any_time":
            capabilities |= {"reattach"}
        self.scheme = SCHEMES.get(profile.hash_scheme)
        if "hashes" in capabilities and self.scheme is not None:
            capabilities |= {"scheme"}
        self.capabilities = capabilities
        self.depth = min(depth, deepest(capabilities))
        self.setting = Setting(config, profile, self.depth, capabilities)
        self.usable = self.setting.usable
        self.muted = muted
        self.force_misuse = force_misuse
        self.names = names or Names()
        self.ledger: HashLedger = EMPTY_LEDGER
        self.rules = all_rules()
        self.plans: dict[object, Tally] = {}
        self.tally: Tally
        self.not_judged: tuple[str, ...] = ()
        self.victims: list[frozenset[Name]] = []
        self.again: Callable[[], Checker] | None = None
        most = 4 * (config.pages + config.host_pages) * self.size + SPARE
        self.tiers: TierState | None = None
        self.events = EventReplica(self) if "events" in self.capabilities and self.depth >= EVENTS else None
        self.observer = Observer(self.names, self.size, most)
        if "tiers" in self.capabilities and self.depth >= DEEPEST:
            self.observer = TierObserver(self.names, self.size, most)
            self.tiers = TierState(self)
        self.forget()
        if self.tiers is not None and config.storage == "attached":
            self.tiers.attached = bool(self.call("attach(the suite's storage)", "attach", self.tiers.store))

    def forget(self) -> None:
        """Start from an empty cache again."""
        self.state = empty_state()
        self.loans: dict[int, Loan] = {}
        self.tokens: dict[int, object] = {}
        self.store_state: StoreState = EMPTY_STORE
        self.pages_made = 0
        self.kept = []
        if self.tiers is not None:
            self.tiers.forget()
        self.before = self.observe_now()

    # -- observation ---------------------------------------------------------------------------

    def observe_now(self) -> Seen:
        """What can be seen of the cache now, at the depth of this run."""
        available = sizes = view = None
        if self.depth >= 1:
            if "pool" in self.capabilities:
                available = self.count(self.look("available"), "what is available")
            if "counters" in self.capabilities:
                sizes = self.look("sizes")
                if sizes is None:
                    raise self.broken("PORT-03", "expected Sizes, got None")
        jobs = None
        if self.depth >= DEEPEST:
            view = self.look("view" if self.tiers is None else "tiers")
            if view is None:
                raise self.broken("PORT-03", f"expected a {'View' if self.tiers is None else 'TierView'}, got None")
            if self.tiers is not None and self.tiers.steps:
                jobs = self.look("jobs")
        try:
            if isinstance(self.observer, TierObserver):
                return self.observer.read_tiers(available, sizes, view, jobs)
            return self.observer.read(available, sizes, view)
        except BaseException as error:
            if not issubclass(type(error), Exception):
                raise self.raised(error, "looking at the snapshot") from error
            detail = f"the snapshot has not the promised form: {harmless(error) or type_name(error)}"
            raise self.broken("PORT-03", detail) from error

    # -- steps ---------------------------------------------------------------------------------

    def step(
        self, call: Any, answer: Any, given: Facts | None = None, late: Callable[[Any, Facts], None] | None = None
    ) -> None:
        """A call was made and answered: the caller computes, the cache is seen, and the step is judged.

        ``given``: facts that come with the step; ``late`` adds those that need the snapshot after the call.
        """
        found = row_found = None
        if self.has_data:
            found = self.contents_found(call, answer)
            if type(call) is not Insert:
                self.poke(call, answer)
        expected = self.expect(call, answer)
        if self.has_data:
            row_found = self.row_contents(call, answer, expected)
        self._observe(occasions_of(call, answer), expected, given, late, call, answer, found, row_found)

    def expect(self, call: Any, answer: Any) -> State:
        """What a call amounts to that was answered so."""
        return expect(self.state, self.setting, call, answer)

    def poke(self, call: Any, answer: Any) -> None:
        """The caller computes what comes with a call: where copies move contents, the slots must hold it."""
        if not self.has_data:
            return
        wrote = written_by(self.state, self.setting, call, answer)
        if wrote is not None:
            slots, names = wrote
            self.adapter.poke(list(slots), list(names))

    def compute(self, call: Compute) -> None:
        """The caller computes more of a request; the cache isn't told."""
        self.poke(call, None)
        self.state = self.expect(call, None)

    def finish(self, kinds: str, facts: Facts, tree: Tree, late: Callable[[Any, Facts], None] | None = None) -> None:
        """The same for a call that is no value yet: its facts are given, and the tree that it leads to.

        ``kinds`` names what the call was and how it ended, several joined by ``+``.
        """
        self._observe(tuple(kinds.split("+")), self.state._replace(tree=tree), facts, late, NOBODY, None, None, None)

    def _observe(
        self,
        occasions: tuple[str, ...],
        expected: State,
        given: Facts | None,
        late: Callable[[Any, Facts], None] | None,
        call: Any,
        answer: Any,
        found: Any,
        row_found: Any,
    ) -> None:
        """Look at the cache, follow what is seen, and judge."""
        state, before, after = self.state, self.before, self.observe_now()
        if self.kept:
            self.watch_kept()
        then, tiers = expected, self.tiers
        if tiers is None and self.events is None:
            if after.seen:
                then = follow(expected, after)
                if late is not None:
                    late(after, given if given is not None else {})
        else:
            given = {} if given is None else given
            expected, then = self._observe_tiers("+".join(occasions), expected, given, late, before, after)
        self.state, self.before = then, after
        inputs = (self.setting, state, expected, then, call, answer, before, after, found, row_found)
        self.judge(occasions, inputs, NO_FACTS if given is None else given, CALL if call is NOBODY else frozenset())

    def _observe_tiers(
        self,
        kinds: str,
        expected: State,
        facts: Facts,
        late: Callable[[Any, Facts], None] | None,
        before: Seen,
        after: Seen,
    ) -> tuple[State, State]:
        """The same for a cache with a host tier, or with events."""
        tiers, old = self.tiers, self.state.tree
        fresh: list[Work] = []
        if tiers is not None:
            assert isinstance(after, TierObservation)
            expected = expected._replace(tree=tiers.noted(expected.tree, kinds, after, facts))
        then = follow(expected, after) if after.seen else expected
        if tiers is not None:
            assert isinstance(before, TierObservation)
            assert isinstance(after, TierObservation)
            tree = tiers.revived(then.tree, before, after)
            tree, fresh = tiers.begun(tree, after)
            then = then._replace(tree=tree)
            facts["quiet"] = not then.receipts and not then.requests and not tiers.copying
            tiers.facts(facts, kinds, tree, before, after, fresh)
            tiers.remember(old, tree, after)
        if late is not None and after.seen:
            late(after, facts)
        if self.events is not None:
            self.events.facts(facts)
        return expected, then

    # -- evaluation ----------------------------------------------------------------------------

    def answered(self, call: Any, answer: Any, state: Any = None) -> None:
        """Judge a call after which nothing is observed, since it leaves the cache alone.

        ``state``: what was known before it, of what it is about.
        """
        inputs = (self.setting, state, None, None, call, answer, None, None, None, None)
        self.judge(occasions_of(call, answer), inputs, NO_FACTS, UNSEEN)

    def misused(self, call: MisuseCall, answer: Aftermath, state: State, before: Seen, after: Seen) -> None:
        """Judge a call that broke the contract: nothing is expected of the cache, and nothing is followed."""
        inputs = (self.setting, state, None, self.state, call, answer, before, after, None, None)
        self.judge(occasions_of(call, answer), inputs, NO_FACTS, frozenset({"expected", "found", "row_found"}))

    def judge(
        self, occasions: tuple[str, ...], inputs: tuple[Any, ...], given: Mapping[str, Any], unknown: frozenset[str]
    ) -> None:
        """Evaluate every rule that applies and whose facts are known; raise for those that are broken."""
        alike = (occasions, unknown, *given) if given or unknown else occasions
        tally = self.plans.get(alike)
        if tally is None:
            tally = self.plans[alike] = Tally(
                occasions,
                plan_for(occasions, given, unknown, self.rules, depth=self.depth, capabilities=self.capabilities),
            )
        tally.times += 1
        self.tally, self.not_judged = tally, ()
        judged = tally.plan.run(*inputs, given, self.wants_facts)
        if judged is None:
            return
        if self.wants_facts:
            self.note_facts(occasions, {**given, **judged.facts})
        if judged.unknown:
            self.not_judged = judged.unknown
            tally.unknown.update(judged.unknown)
        broken = [id for id in judged.broken if id not in self.muted]
        if broken:
            raise Violation(broken, self.history[-1], self.explained(broken, inputs, given, judged))

    def note_facts(self, occasions: tuple[str, ...], facts: Facts) -> None:
        """All facts of a step, for whoever wants to be told."""

    def explained(
        self, broken: Sequence[str], inputs: tuple[Any, ...], given: Mapping[str, Any], judged: Judged
    ) -> Facts:
        """The facts of a step, those that the explanations of broken rules speak of included."""
        facts = {**given, **judged.facts}
        named = dict(zip(INPUTS, inputs, strict=True))
        if named["call"] is None:
            return facts
        for id in broken:
            for name in re.findall(r"{(\w+)}", self.rules[id].allowed):
                if name not in facts and FACTS[name].compute is not None:
                    value_of(name, named, facts)
        return {name: value for name, value in facts.items() if value is not UNKNOWN}

    @property
    def reached(self) -> Counter[str]:
        """How often there was each occasion."""
        total: Counter[str] = Counter()
        for tally in self.plans.values():
            for occasion in tally.occasions:
                total[str(occasion)] += tally.times
        return total

    def counted(self) -> Counter[str]:
        """How often each rule was evaluated."""
        total = Counter(self.evaluated)
        for tally in self.plans.values():
            for id in tally.plan.rules:
                if id not in self.muted:
                    total[id] += tally.times - tally.unknown[id]
        return +total

    # -- what is known -------------------------------------------------------------------------

    @property
    def tree(self) -> Tree:
        """What is cached."""
        return self.state.tree

    @property
    def requests(self) -> Mapping[int, Any]:
        """The running requests."""
        return self.state.requests

    @property
    def receipts(self) -> Mapping[int, Name]:
        """Where the paths end that receipts protect, by the suite's number of each."""
        return self.state.receipts

    @property
    def owners(self) -> Mapping[PageNo, int]:
        """How many requests and callers own each page."""
        return self.state.owners

    @property
    def renews(self) -> bool:
        """Whether the upper half of a split node counts as created now."""
        return self.setting.renews

    def path(self, key: Key, *, row: bool = False) -> Path:
        """A key with the names of its prefixes; of a request that has a ``row``, with the names of its tokens."""
        return path_of(self.names, key, self.size, row=row)

    def names_of(self, key: Key) -> tuple[Name, ...]:
        """The names of all prefixes of a key."""
        return self.names.of(key.namespace, key.units)

    # -- contents ------------------------------------------------------------------------------

    @property
    def has_data(self) -> bool:
        """Whether copies move contents, so that what slots hold must be looked at."""
        return self.tiers is not None and self.tiers.has_data

    def contents_found(self, call: Any, answer: Any) -> tuple[Name, ...] | None:
        """What the slots of a match held when it was given."""
        if isinstance(answer, Hit):
            return None if answer.slots is None else self.read(tuple(map(Slot, answer.slots)))
        if isinstance(answer, Begun) and hasattr(call, "path"):
            return self.read(tuple(map(Slot, answer.row[: answer.cached])))
        return None

    def row_contents(self, call: Any, answer: Any, expected: State) -> tuple[Name, ...] | None:
        """What the computed slots of a request's row hold after the caller has written."""
        rid = getattr(call, "rid", None)
        if rid is None or answer is None or rid not in expected.requests:
            return None
        running = expected.requests[rid]
        return self.read(running.row[: computed_slots(self.state, call, running)])

    def read(self, slots: Sequence[Slot]) -> tuple[Name, ...]:
        """What is in these slots: what was written last, or, where copies move contents, what the slots show."""
        if self.tiers is not None and self.tiers.has_data:
            loading = self.tiers.loading()
            found = self.peek("device", slots)
            return tuple([loading.get(slot, Name(value)) for slot, value in zip(slots, found, strict=True)])
        get = self.state.contents.get
        return tuple([get(slot, NO_NAME) for slot in slots])

    def peek(self, tier: str, slots: Sequence[int]) -> list[int]:
        """What slots of a tier hold."""
        values = list(self.look("peek", tier, list(slots)))
        if len(values) != len(slots) or not {*map(type, values)} <= INTEGER:
            raise self.broken("PORT-03", f"expected {len(slots)} integers from peek, got {values[:8]}")
        return values

    def inserted(self, path: Sequence[Name]) -> None:
        """The call that is going on uses this path by an insertion: backups may become due."""
        if self.tiers is not None:
            self.tiers.inserted = path

    def own(self, slots: Sequence[Slot]) -> None:
        """The suite owns the pages of these slots from now on."""
        owned = slots if self.size == 1 else {PageNo(slot // self.size) for slot in slots}
        self.state = self.state._replace(owners=effects.take(self.state.owners, map(PageNo, owned)))

    def disown(self, slots: Sequence[Slot]) -> None:
        """The suite does not own the pages of these slots any more."""
        pages = {PageNo(slot // self.size) for slot in slots}
        self.state = self.state._replace(owners=effects.release(self.state.owners, pages))

    def locked_pages(self) -> dict[Name, PageNo]:
        """Where the protected pages are, by name."""
        return {name: page.page for name, page in self.tree.pages.items() if page.locks}
