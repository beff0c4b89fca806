"""The checker: what happens around one call.

A :class:`Checker` owns one adapter for one run.  For each call it notes what is known before,
makes the call behind its guard (:mod:`kvlitmus.conformance.checker.guard`), observes the cache as deeply as
the run allows, and evaluates every rule whose facts can be known (:mod:`kvlitmus.spec.law.plan`).  The first
broken rule ends the run with a ``Violation`` that carries the facts, so that it can be explained.

What is known is a :class:`~kvlitmus.spec.prefix.state.State`.  After each call it is what the call and its answer
amount to (:mod:`kvlitmus.spec.prefix.advance`), and at depth 3 what the snapshot shows.

The calls themselves are in :mod:`kvlitmus.conformance.checker.calls`, part by part.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from kvlitmus.conformance.checker.calls.components.plain import Pools
from kvlitmus.conformance.checker.explain import PLACE, WHERE
from kvlitmus.conformance.checker.guard import SPARE, Guard, LeftOut, Violation
from kvlitmus.conformance.checker.harness_store import HarnessStore
from kvlitmus.conformance.checker.judge import Judge
from kvlitmus.conformance.checker.observation import Observer
from kvlitmus.conformance.checker.tier_observation import LED, TierObserver, begun
from kvlitmus.conformance.isolation.remote.apart import PIPED
from kvlitmus.conformance.ports import SNAPSHOTS, Config, Profile, capabilities_in
from kvlitmus.conformance.ports.compose import Composed, with_requests
from kvlitmus.conformance.support.text import harmless, shown, type_name
from kvlitmus.spec.interface import Begun, Hit
from kvlitmus.spec.interface.tiers import LOAD, Event
from kvlitmus.spec.law.facts import INPUTS, UNKNOWN, Facts
from kvlitmus.spec.law.lifted import Lifted
from kvlitmus.spec.law.occasions import occasions_of
from kvlitmus.spec.law.plan import Judged, value_of
from kvlitmus.spec.misuse.calls import Aftermath, Lookups, MisuseCall
from kvlitmus.spec.parts import all_rules
from kvlitmus.spec.prefix import effects
from kvlitmus.spec.prefix.advance import EXPECT, expect, follow, written_by
from kvlitmus.spec.prefix.calls import Compute, Insert, Path, Reset, path_of
from kvlitmus.spec.prefix.components.calls import PoolsSeen
from kvlitmus.spec.prefix.components.state import at_first
from kvlitmus.spec.prefix.frame.trust import blocked, contradicted, parted
from kvlitmus.spec.prefix.hash_calls import EMPTY_LEDGER, HashLedger
from kvlitmus.spec.prefix.page import At
from kvlitmus.spec.prefix.partial import counted, told
from kvlitmus.spec.prefix.release import queued_as_seen
from kvlitmus.spec.prefix.replay import replay
from kvlitmus.spec.prefix.rules.event import remembered
from kvlitmus.spec.prefix.rules.request import computed_slots
from kvlitmus.spec.prefix.seen import Held, Seen, TierSeen
from kvlitmus.spec.prefix.state import EventMirror, State, Tier, empty_state
from kvlitmus.spec.prefix.work import Tiers
from kvlitmus.spec.prefix.work_advance import follow_tiers
from kvlitmus.spec.prefix.work_calls import Advance, PlainCall
from kvlitmus.spec.prefix.work_unseen import filling, follow_unseen
from kvlitmus.spec.ranks.calls import RankCall, Together, Views
from kvlitmus.spec.ranks.one_rank import Lift
from kvlitmus.spec.ranks.state import NO_RANKS, RanksState, advance_ranks
from kvlitmus.spec.sparse.state import SparseState
from kvlitmus.spec.stores.state import EMPTY_STORE, StoreState
from kvlitmus.spec.words.limits import beyond_limits, unlimited
from kvlitmus.spec.words.names import Names, page_names
from kvlitmus.spec.words.schemes import SCHEMES
from kvlitmus.spec.words.setting import Setting
from kvlitmus.spec.words.units import Key, Name, PageNo, Slot, pages_in_order

DEEPEST = 3
"""The depth of a full snapshot."""

EVENTS = 2
"""The depth of events."""

UNSEEN = frozenset(INPUTS) - {"setting", "state", "call", "answer"}
"""The inputs that a step lacks after which nothing is observed."""


def deepest(capabilities: frozenset[str]) -> int:
    """How deep an adapter with these capabilities can be observed."""
    return DEEPEST if capabilities & SNAPSHOTS else EVENTS if capabilities & {"events", "component_events"} else 1


class Loan(NamedTuple):
    """Slots that the suite holds as a caller."""

    slots: tuple[Slot, ...]


class Checker(Guard):
    """One adapter under judgement, from a fresh state on."""

    most_hashes: int | None = None
    """How many page hashes are remembered of each page size and kind of units; all, if ``None``."""

    watches_parting = False
    """Whether it is noted after which call state and cache first disagreed, whatever rules say of that."""

    overwrites = True
    """Whether arrays that were passed, or handed out, are written into; not where it is tried what happens without."""

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
        memory_mb: int = 0,
    ) -> None:
        ports = with_requests(adapter, config.page_size, profile)
        super().__init__(ports, config.pages * config.page_size, memory_mb)
        self.composed = ports if isinstance(ports, Composed) else None
        self.config = config
        self.profile = profile
        self.limited = not unlimited(profile)
        self.size = config.page_size
        self.scheme = SCHEMES.get(profile.hash_scheme)
        self.capabilities = capabilities = self.offered()
        self.names = names or Names()
        self.depth = min(depth, deepest(capabilities))
        self.setting = Setting(config, profile, self.depth, capabilities, self.names)
        self.usable = self.setting.usable
        self.muted = muted
        self.force_misuse = force_misuse
        self.passed_over: dict[str, None] = {}
        self.parted: list[tuple[int, str]] = []
        self.declined, self.answered_asks = set[str](), set[str]()
        self.begun: dict[int, str] = {}
        self.ledger: HashLedger = EMPTY_LEDGER
        self.rules = all_rules()
        self.victims: list[list[At]] = []  # the component is empty in a flat cache
        self.again: Callable[[], Checker] | None = None
        most = 4 * (config.pages + config.host_pages) * self.size + SPARE
        steady = PIPED in self.capabilities
        self.observer = Observer(self.names, self.size, most, table=self.setting.table, steady=steady)
        self.stores: dict[int, HarnessStore] = {}
        self.store: HarnessStore | None = None
        self.has_events = "events" in self.capabilities and self.depth >= EVENTS
        if "tiers" in self.capabilities and (self.depth >= DEEPEST or (config.tiered and self.capabilities >= LED)):
            self.observer = TierObserver(self.names, self.size, most)
            self.store = self.storage(0)
        else:
            self.capabilities -= {"tiers"}
        self.own_judge = Judge(self.rules, depth=self.depth, capabilities=self.capabilities, muted=muted)
        self.lifts: dict[str, Judge] = {}
        self.has_data = "data" in self.capabilities and (config.tiered or self.setting.inside)
        tiers = None if self.store is None else Tiers()
        self.state = empty_state()._replace(tiers=tiers, told=EventMirror() if self.has_events else None)
        try:
            self.forget()
            self.attach_at_first()
        except Violation as violation:
            violation.fresh = self
            raise

    def attach_at_first(self) -> None:
        """Attach the suite's storage, where there is some from the beginning."""
        if self.store is not None and self.config.storage == "attached" and "lifecycle" in self.capabilities:
            answer = self.call("attach(the suite's storage)", "attach", self.store)
            attached = self.flag(answer, "whether that was done")
            self.state = self.state._replace(tiers=self.below._replace(attached=attached))
            self.store.record()  # what it is asked before the first call is of no step

    def offered(self) -> frozenset[str]:
        """The capabilities of the adapter, and those that follow from what it declares."""
        capabilities = capabilities_in(self.adapter, self.config)
        if "lifecycle" in capabilities and self.profile.attach == "any_time":
            capabilities |= {"reattach"}
        if self.composed is not None:
            capabilities |= {"composed"}
        if "hashes" in capabilities and self.scheme is not None:
            capabilities |= {"scheme"}
        if getattr(self.adapter, PIPED, None) is True:
            capabilities |= {PIPED}
        return capabilities

    def call(self, text: str, method: str, *args: Any, **kwargs: Any) -> Any:
        """Make one port call; of one that the suite composes the history says what it was made of.

        Raises :class:`LeftOut` where a key is beyond the limits of the profile: drawn keys never are.
        """
        if self.limited:
            for arg in args:
                if type(arg) is Key:
                    self.within(arg)
        if self.composed is None:
            return super().call(text, method, *args, **kwargs)
        try:
            return super().call(text, method, *args, **kwargs)
        finally:
            if made := self.composed.made_of():
                self.history[-1] += f" ({', '.join(made)})"

    def within(self, key: Key) -> None:
        """Raise :class:`LeftOut` for a key that this cache doesn't take."""
        if self.limited and (why := beyond_limits(self.profile, key)):
            raise LeftOut(why)

    def storage(self, number: int) -> HarnessStore:
        """One of the suite's storages, empty until something is put there."""
        return self.stores.setdefault(number, HarnessStore(self.size))

    def forget(self) -> None:
        """Start from an empty cache again."""
        self.state = at_first(expect(self.state, self.setting, Reset(), None), self.setting)
        self.loans: dict[int, Loan] = {}
        self.tokens: dict[int, object] = {}
        self.fetching: dict[int, object] = {}
        self.copying: dict[int, object] = {}
        self.writing: dict[int, object] = {}
        self.store_state: StoreState = EMPTY_STORE
        self.sparse_state: SparseState | None = None
        self.component_pools: Pools | None = None
        self.ranks_state: RanksState = NO_RANKS
        self.rank_lift: Lift | None = None
        self.pages_made = 0
        self.kept.clear()
        self.distrusted: frozenset[str] = frozenset()
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
        if self.depth >= DEEPEST and "inspect" in self.capabilities:
            view = self.look("view" if self.store is None else "tiers")
            if view is None:
                raise self.broken("PORT-03", f"expected a {'View' if self.store is None else 'TierView'}, got None")
        if self.store is not None and self.setting.steps:
            jobs = self.look("jobs")
            if jobs is None:
                raise self.broken("PORT-03", "expected a list of jobs, got None")
        try:
            if isinstance(self.observer, TierObserver):
                if view is None:
                    return self.observer.read_jobs_alone(available, sizes, jobs)
                return self.observer.read_tiers(available, sizes, view, jobs)
            return self.observer.read(available, sizes, view)
        except BaseException as error:
            if not issubclass(type(error), Exception):
                raise self.raised(error, "looking at the snapshot") from error
            detail = f"the snapshot has not the promised form: {harmless(error) or type_name(error)}"
            raise self.broken("PORT-03", detail) from error

    def look_below(self, after: TierSeen, call: PlainCall) -> None:
        """Add what else a hierarchy shows after a call: counters, contents, and what storage saw."""
        has = self.capabilities
        assert self.store is not None
        if "host" in has and self.depth >= 1:
            after.host_available = self.count(self.look("host_available"), "what the host has free")
        after.odd = self.odd_contents(after) if self.has_data and after.seen else ()
        if "copy_faults" in has:
            after.failing = self.kinds_failing()
        if "prefetching" in has and self.depth >= 1:
            after.occupied = self.count(self.look("occupied"), "what prefetches occupy")
        if isinstance(call, Advance) and call.layers is not None:
            ready = self.count(self.look("layers_ready", call.job), "the layers that may be read")
            after.layers_ready = ready
        if isinstance(call, Advance) and call.job in after.jobs and call.outcome.how == "fail":
            self.flag(after.jobs[call.job].failed, "whether a job has failed")
        after.record = self.store.record()

    def odd_contents(self, after: TierSeen) -> tuple[Held, ...]:
        """The pages whose slots don't hold what belongs there, on either tier."""
        return (*self.odd_on(after, "host"), *self.odd_on(after, "device"))

    def odd_on(self, after: TierSeen, tier: str) -> list[Held]:
        """The same on one tier; of all slots one look, and of each page another if they are not as they should be."""
        slots: list[int] = []
        names: list[Name] = []
        places = [(node, node.host if tier == "host" else node.slots) for node in after.tier_nodes]
        for node, own in places:
            if own:
                slots += own
                names += node.named.units
        if not slots or self.peek(tier, slots) == names:
            return []
        found: list[Held] = []
        for node, own in places:
            for at, (page, units) in enumerate(node.named.of_page.items()) if own else ():
                assert own is not None
                part = own[at * self.size : at * self.size + self.size]
                holds = tuple(self.peek(tier, part))
                if holds != units:
                    found.append(Held(page, tier, part, holds))
        return found

    def look_at_events(self) -> tuple[Event, ...]:
        """What was told since the last look."""
        rows = self.listed(self.look("events"), "events")
        with self.reading("events, each of fields of the promised types"):
            return tuple(map(self.observer.read_event, rows))

    # -- steps ---------------------------------------------------------------------------------

    def step(self, call: PlainCall, answer: Any) -> None:
        """A call was made and answered: the caller computes, the cache is seen, and the step is judged."""
        found = row_found = None
        if self.has_data:
            found = self.contents_found(call, answer)
            if type(call) is not Insert:
                self.poke(call, answer)
        expected = self.expect(call, answer)
        if self.has_data:
            row_found = self.row_contents(call, answer, expected)
        self._observe(call, answer, expected, found, row_found)

    def expect(self, call: PlainCall, answer: Any) -> State:
        """What a call amounts to that was answered so; a call on the tiers is folded when the cache was seen."""
        return expect(self.state, self.setting, call, answer) if type(call) in EXPECT else self.state

    def poke(self, call: PlainCall, answer: Any) -> None:
        """The caller computes what comes with a call: where copies move contents, the slots must hold it."""
        if not self.has_data:
            return
        wrote = written_by(self.state, self.setting, call, answer)
        if wrote is not None:
            slots, names = wrote
            self.look("poke", list(slots), list(names))

    def compute(self, call: Compute) -> None:
        """The caller computes more of a request; the cache isn't told."""
        self.poke(call, None)
        self.state = self.expect(call, None)

    def _observe(self, call: PlainCall, answer: Any, expected: State, found: Any, row_found: Any) -> None:
        """Look at the cache, follow what is seen, and judge."""
        state, before, after = self.state, self.before, self.observe_now()
        self.watch_kept()
        then = expected
        occasions = occasions_of(call, answer, state, self.setting, before)
        if isinstance(after, TierSeen):
            assert isinstance(before, TierSeen)
            self.look_below(after, call)
            fold = follow_tiers if after.seen else follow_unseen
            expected, then = fold(state, expected, self.setting, call, answer, before, after)
            if not after.seen:
                then = counted(state, then, self.setting, before, after)
            self.begun |= begun(len(self.history), state.tiers, then.tiers)
        elif after.seen:
            then = follow(expected, self.setting, after)
        else:
            then = counted(state, expected, self.setting, before, after)
        if self.setting.filters_in_sight:
            then = queued_as_seen(state, then, self.setting, call, after.free)
        if self.has_events:
            after.events = self.look_at_events()
            assert then.told is not None
            with self.reading("events whose names of pages can be compared"):
                heard = replay(then.told, self.setting, after.events, shown)
            then = told(then if heard is then.told else then._replace(told=heard), self.setting)
            if self.profile.event_delay:
                then = remembered(then, self.setting, call, answer, after)
        self.state, self.before = then, after
        if self.watches_parting and not self.parted:
            self.parted = [(len(self.history), what) for what in parted(expected, then, after, self.setting)]
        inputs = (self.setting, state, expected, then, call, answer, before, after, found, row_found, None, None)
        self.judge(occasions, inputs, frozenset())

    # -- evaluation ----------------------------------------------------------------------------

    def ranks_after(self, before: RanksState, call: RankCall, answer: Together | Views) -> RanksState:
        """What is known of ranks after a step."""
        return advance_ranks(before, call, answer)

    def answered(
        self, call: Any, answer: Any, state: Any = None, pools: PoolsSeen | None = None, known: State | None = None
    ) -> None:
        """Judge a call by its answer, which brings along all that was seen, or the cache is left alone by it.

        ``state``: what was known before it, of what it is about.  ``pools``, ``known``: of components what was seen and
        what is known after it.
        """
        inputs = (self.setting, state, None, None, call, answer, None, None, None, None, pools, known)
        unknown = UNSEEN if pools is None else UNSEEN - {"pools", "component_known"}
        self.judge(occasions_of(call, answer, self.state, self.setting, self.before), inputs, unknown)

    def misused(self, call: MisuseCall, answer: Aftermath | Lookups, state: State, before: Seen, after: Seen) -> None:
        """Judge a call that broke the contract: nothing is expected of the cache, and nothing is followed."""
        inputs = (self.setting, state, None, self.state, call, answer, before, after, None, None, None, None)
        occasions = occasions_of(call, answer, self.state, self.setting, before)
        self.judge(occasions, inputs, frozenset({"expected", "found", "row_found"}))

    def judge(self, occasions: tuple[str, ...], inputs: tuple[Any, ...], unknown: frozenset[str]) -> None:
        """Evaluate every rule that applies and whose facts are known; raise for those that are broken."""
        judged = self.own_judge.step(occasions, inputs, unknown, told=self.wants_facts)
        if judged is None:
            if self.distrusted:
                self.trusted((), inputs)
            return
        if self.wants_facts:
            self.note_facts(occasions, judged.facts)
        broken = [id for id in judged.broken if id not in self.muted]
        if self.distrusted:
            broken = self.trusted(broken, inputs)
        if broken:
            raise Violation(broken, self.history[-1], self.explained(broken, inputs, judged))
        if judged.broken:
            self.go_on(judged.broken, inputs)

    def lifted(self, one: Lifted[State, Seen]) -> None:
        """Judge the last step by the rules of plain caches too, where it kept its own: these say the same first.

        What an answer alone tells is judged all the same.
        """
        if self.own_judge.broken and one.then is not UNKNOWN:
            return
        judge = self.lifts.get(one.where)
        if judge is None:
            judge = self.own_judge.beside(one.setting.depth, one.setting.capabilities, one.laws)
            self.lifts[one.where] = judge
        inputs, unknown, call, answer = one.inputs, one.unknown, one.call, one.answer
        occasions = () if "call" in unknown else occasions_of(call, answer, one.state, one.setting, one.before)
        judged = judge.step(occasions, inputs, unknown, told=False)
        if judged is None:
            return
        broken = [id for id in judged.broken if id not in self.muted]
        if broken:
            size = {PLACE: one.setting.size} if self.component_pools is not None else {}
            facts = {WHERE: one.where, **size, **self.explained(broken, inputs, judged)}
            raise Violation(broken, self.history[-1], facts)
        self.passed_over.update(dict.fromkeys(judged.broken))

    def trusted(self, broken: Sequence[str], inputs: tuple[Any, ...]) -> list[str]:
        """Those of these broken rules that don't need what can't be trusted; which do is noted for all that apply."""
        judge = self.own_judge
        rules = [self.rules[id] for id in judge.tally.plan.rules if id not in self.muted.union(judge.not_judged)]
        return judge.block(blocked(rules, dict(zip(INPUTS, inputs, strict=True)), self.distrusted), broken)

    def go_on(self, broken: Sequence[str], inputs: tuple[Any, ...]) -> None:
        """Rules are broken that are muted: what the snapshot contradicts from now on can't be trusted any more."""
        self.passed_over.update(dict.fromkeys(id for id in broken if id in self.muted))
        then, after = (inputs[list(INPUTS).index(name)] for name in ("then", "after"))
        if then is not None and after is not None:
            self.distrusted |= contradicted(then, after, self.setting)

    def note_facts(self, occasions: tuple[str, ...], facts: Facts) -> None:
        """All facts of a step, for whoever wants to be told."""

    def explained(self, broken: Sequence[str], inputs: tuple[Any, ...], judged: Judged) -> Facts:
        """The facts of a step, those that the explanations of broken rules speak of included."""
        facts = dict(judged.facts)
        named = dict(zip(INPUTS, inputs, strict=True))
        if named["call"] is None:
            return facts
        for id in broken:
            for name in re.findall(r"{(\w+)}", self.rules[id].allowed):
                if name not in facts:
                    value_of(name, named, facts)
        return {name: value for name, value in facts.items() if value is not UNKNOWN}

    @property
    def reached(self) -> Counter[str]:
        """How often there was each occasion."""
        return self.own_judge.reached

    def counted(self) -> Counter[str]:
        """How often each rule was evaluated where its premise was true."""
        others = sum([one.counted({}) for one in self.lifts.values()], Counter[str]())
        return self.own_judge.counted(self.evaluated) + others

    def idle(self) -> Counter[str]:
        """How often each rule was judged though its premise was not true: it had nothing to say."""
        return sum([one.idle() for one in self.lifts.values()], self.own_judge.idle())

    def unknown(self) -> Counter[str]:
        """How often each rule was not judged, since a fact that it speaks of could not be known."""
        return sum([one.unknown() for one in self.lifts.values()], self.own_judge.unknown())

    # -- what is known -------------------------------------------------------------------------

    @property
    def tree(self) -> Tier:
        """What is cached."""
        return self.state.device

    @property
    def below(self) -> Tiers:
        """What is known below the device of a hierarchy."""
        assert self.state.tiers is not None
        return self.state.tiers

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

    def path(self, key: Key, *, row: bool = False) -> Path:
        """A key with the names of its prefixes; of a request that has a ``row``, with the names of its tokens."""
        return path_of(self.names, key, self.size, row=row)

    def names_of(self, key: Key) -> tuple[Name, ...]:
        """The names of all prefixes of a key."""
        return self.names.of(key.namespace, key.units)

    # -- contents ------------------------------------------------------------------------------

    def contents_found(self, call: Any, answer: Any) -> tuple[Name, ...] | None:
        """What the slots of a match held when it was given."""
        if isinstance(answer, Hit):
            return None if answer.slots is None else self.read(tuple(map(Slot, answer.slots)), call.path.pages)
        if isinstance(answer, Begun) and hasattr(call, "path"):
            return self.read(tuple(map(Slot, answer.row[: answer.cached])), call.path.pages)
        return None

    def row_contents(self, call: Any, answer: Any, expected: State) -> tuple[Name, ...] | None:
        """What the computed slots of a request's row hold after the caller has written."""
        rid = getattr(call, "rid", None)
        if rid is None or answer is None or rid not in expected.requests:
            return None
        running = expected.requests[rid]
        slots = running.row[: computed_slots(self.state, call, running)]
        return self.read(slots, page_names(running.path.names, self.size))

    def read(self, slots: Sequence[Slot], paged: Sequence[Name]) -> tuple[Name, ...]:
        """What the slots of these pages show where copies move contents; those that a load fills count as filled."""
        loading = self.loading(slots, paged)
        found = self.peek("device", slots)
        return tuple([loading.get(slot, Name(value)) for slot, value in zip(slots, found, strict=True)])

    def loading(self, slots: Sequence[Slot], paged: Sequence[Name]) -> dict[Slot, Name]:
        """What slots that a load is filling will hold; these ``slots`` are of the pages ``paged``."""
        seen = self.before
        if not isinstance(seen, TierSeen):
            return {}
        if not seen.seen:
            places = dict(zip(paged, pages_in_order(slots, self.size), strict=False))
            return filling(self.state, self.setting, places)
        works = (work for work in self.below.work.values() if work.job.kind == LOAD and not work.landed)
        filled = {name for work in works for name in work.names}
        if not filled:
            return {}
        return {
            Slot(slot): name
            for node in seen.tier_nodes
            if node.slots and not filled.isdisjoint(node.named.pages)
            for slot, name in zip(node.slots, node.named.units, strict=False)
        }

    def own(self, slots: Sequence[Slot]) -> None:
        """The suite owns the pages of these slots from now on."""
        owned = slots if self.size == 1 else {PageNo(slot // self.size) for slot in slots}
        self.state = self.state._replace(owners=effects.take(self.state.owners, map(PageNo, owned)))

    def disown(self, slots: Sequence[Slot]) -> None:
        """The suite does not own the pages of these slots any more."""
        pages = {PageNo(slot // self.size) for slot in slots}
        self.state = self.state._replace(owners=effects.release(self.state.owners, pages))
