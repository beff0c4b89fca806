"""The judge: what happens around one call.

A :class:`Checker` owns one adapter for one run.  For each call it notes what is known before,
makes the call behind its guard (:mod:`kvlitmus.conformance.checker.guard`), observes the cache as deeply as
the run allows, works out the **facts**, and evaluates every rule whose facts are known.  The first
broken rule ends the run with a ``Violation`` that carries the facts, so that it can be explained.

What isn't observed is known from the reference: ``self.tree`` is a reference tree that follows
what the cache was seen to do (its *choice*).  At depth 3 the snapshot confirms it after every
call.  Below that, pages whose eviction can't be seen are ``maybe``: neither certainly there nor
certainly gone.

The calls themselves are in :mod:`kvlitmus.conformance.checker.calls`, part by part.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from kvlitmus.conformance.checker.calls.hashing import HashLedger
from kvlitmus.conformance.checker.event_replica import EventReplica
from kvlitmus.conformance.checker.failures import Work
from kvlitmus.conformance.checker.guard import SPARE, Guard, Violation
from kvlitmus.conformance.checker.observation import INTEGER, Observation, Observer
from kvlitmus.conformance.checker.selection import Facts, Plan, plan_for
from kvlitmus.conformance.checker.store_model import StoreModel
from kvlitmus.conformance.checker.tier_observation import TierObservation, TierObserver
from kvlitmus.conformance.checker.tier_state import TierState
from kvlitmus.conformance.ports import Config, Profile, capabilities_of
from kvlitmus.conformance.ports.compose import with_requests
from kvlitmus.conformance.support.text import harmless, type_name
from kvlitmus.reference.tree import Page, Tree, empty_tree
from kvlitmus.spec.names import NO_NAME, Names
from kvlitmus.spec.rule import all_rules
from kvlitmus.spec.schemes import SCHEMES
from kvlitmus.spec.units import Key, Name, PageNo, Slot

DEEPEST = 3
"""The depth of a full snapshot."""

EVENTS = 2
"""The depth of events."""


def deepest(capabilities: frozenset[str]) -> int:
    """How deep an adapter with these capabilities can be observed."""
    return DEEPEST if "inspect" in capabilities else EVENTS if "events" in capabilities else 1


class Loan(NamedTuple):
    """Slots that the suite holds as a caller."""

    slots: tuple[Slot, ...]


class Tally:
    """Which rules to evaluate after calls that are alike, and how often that was done."""

    __slots__ = ("plan", "times")

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.times = 0


class Running:
    """What the suite knows of a request: its key and names, its row, what of it is cached, and the lock it holds.

    ``computed``: into how many slots of the row KV was written; the caller has not come to the others yet.
    """

    __slots__ = ("cached", "computed", "key", "locked", "names", "row")

    def __init__(self, key: Key, names: tuple[Name, ...], row: tuple[Slot, ...], cached: int, locked: Name) -> None:
        self.key = key
        self.names = names
        self.row = row
        self.cached = cached
        self.computed = len(row)
        self.locked = locked

    @property
    def upto(self) -> int | None:
        """How many slots are computed, where that is not all of them."""
        return self.computed if self.computed < len(self.row) else None


class Checker(Guard):
    """One adapter under judgement, from a fresh state on."""

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
        self.capabilities = capabilities_of(self.adapter)
        if "lifecycle" in self.capabilities and profile.attach == "any_time":
            self.capabilities |= {"reattach"}
        self.scheme = SCHEMES.get(profile.hash_scheme)
        if "hashes" in self.capabilities and self.scheme is not None:
            self.capabilities |= {"scheme"}
        self.depth = min(depth, deepest(self.capabilities))
        self.muted = muted
        self.force_misuse = force_misuse
        self.names = names or Names()
        self.hashed = HashLedger(self.names)
        reserved = profile.reserved if config.pool == "device" else 0
        self.usable = frozenset(map(PageNo, range(reserved, reserved + config.pages)))
        self.rules = all_rules()
        self.plans: dict[tuple[str, ...], Tally] = {}
        self.reached: Counter[str] = Counter()
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
        self.tree: Tree = empty_tree()
        self.maybe: set[Name] = set()
        self.loans: dict[int, Loan] = {}
        self.requests: dict[int, Running] = {}
        self.receipts: dict[int, tuple[object, Name]] = {}
        self.written: dict[Slot, Name] = {}
        self.owners: Counter[PageNo] = Counter()
        self.store_model = StoreModel(self.profile.store_put)
        self.kept = []
        if self.tiers is not None:
            self.tiers.forget()
        self.before = self.observe_now()

    # -- observation ---------------------------------------------------------------------------

    def observe_now(self) -> Observation:
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

    def finish(self, kinds: str, facts: Facts, tree: Tree, late: Callable[[Any, Facts], None] | None = None) -> None:
        """Observe, complete the facts, evaluate the rules of ``kinds`` and all state rules, go on with ``tree``.

        ``kinds`` names what the call was and how it ended, several joined by ``+``.  ``late`` adds the
        facts that need the snapshot after the call; without a snapshot it isn't asked.
        """
        before, after = self.before, self.observe_now()
        if self.kept:
            self.watch_kept()
        facts["page_size"] = self.size
        facts["usable"] = self.usable
        owned = facts["owned_after"] = frozenset(self.owners)
        facts["owned_twice"] = (
            frozenset()
            if self.owners.total() == len(owned)
            else frozenset(page for page, times in self.owners.items() if times > 1)
        )
        fresh: list[Work] = []
        tiers = self.tiers
        if tiers is not None:
            assert isinstance(after, TierObservation)
            tree = tiers.noted(tree, kinds, after, facts)
        facts["quiet"] = not self.receipts and not self.requests and not (tiers is not None and tiers.copying)
        if after.available is not None:
            facts["available_before"], facts["available_after"] = before.available, after.available
            facts["capacity"] = self.capacity
            facts["owned_slots"] = len(owned) * self.size
        if after.sizes is not None:
            facts["evictable"], facts["protected"] = after.sizes
            facts["evictable_before"], facts["protected_before"] = before.sizes or (0, 0)
        if after.seen:
            # What must still be there, by the model: taken before the model follows what was seen.
            facts["locked_pages"] = {name: page.page for name, page in tree.pages.items() if page.locks}
            tree = self.follow(tree, after)
            if tiers is not None:
                assert isinstance(before, TierObservation)
                assert isinstance(after, TierObservation)
                tree = tiers.revived(tree, before, after)
                tree, fresh = tiers.begun(tree, after)
                facts["quiet"] = facts["quiet"] and not tiers.copying
            after.facts(facts, before, tree)
            if isinstance(before, TierObservation) and isinstance(after, TierObservation) and tiers is not None:
                tiers.facts(facts, kinds, tree, before, after, fresh)
                tiers.remember(self.tree, tree, after)
            if late is not None:
                late(after, facts)
        if self.events is not None:
            self.events.facts(facts)
        self.tree = tree
        self.before = after
        self.evaluate(kinds, facts)

    def follow(self, tree: Tree, after: Observation) -> Tree:
        """The model with what the snapshot shows: pages that vanished are gone, pages that appeared are there."""
        cached = after.cached
        pages = tree.pages
        if cached == {name: page.page for name, page in pages.items()}:
            return tree
        followed: dict[Name, Page] = {}
        for name, page in cached.items():
            old = pages.get(name)
            if old is None:
                old = Page(after.parent_of(name), page, tree.clock, tree.clock)
            followed[name] = old if old.page == page else old._replace(page=page)
        return Tree(followed, tree.clock)

    # -- evaluation ----------------------------------------------------------------------------

    def evaluate(self, kinds: str, facts: Facts) -> None:
        """Evaluate every rule that applies and whose facts are known; raise for those that are broken."""
        self.reached[kinds] += 1
        alike = (kinds, *facts)
        tally = self.plans.get(alike)
        if tally is None:
            tally = self.plans[alike] = Tally(
                plan_for(kinds, facts, self.rules, depth=self.depth, muted=self.muted, capabilities=self.capabilities)
            )
        tally.times += 1
        plan = tally.plan
        for _, predicate, want, single in plan.checks:
            if not (predicate(want(facts)) if single else predicate(*want(facts))):
                break
        else:
            return
        broken = [
            id
            for id, predicate, want, single in plan.checks
            if not (predicate(want(facts)) if single else predicate(*want(facts)))
        ]
        raise Violation(broken, self.history[-1], facts)

    def counted(self) -> Counter[str]:
        """How often each rule was evaluated."""
        total = Counter(self.evaluated)
        for tally in self.plans.values():
            for id, *_ in tally.plan.checks:
                total[id] += tally.times
        return total

    # -- the ledger ----------------------------------------------------------------------------

    def own(self, slots: Sequence[Slot]) -> None:
        """The suite owns the pages of these slots from now on."""
        if self.size == 1:
            self.owners.update(slots)  # type: ignore[arg-type]
        else:
            self.owners.update({PageNo(slot // self.size) for slot in slots})

    def disown(self, slots: Sequence[Slot]) -> None:
        """The suite does not own the pages of these slots any more."""
        owners = self.owners
        for page in {PageNo(slot // self.size) for slot in slots}:
            if owners[page] > 1:
                owners[page] -= 1
            else:
                del owners[page]

    def write(self, slots: Sequence[Slot], names: Sequence[Name]) -> None:
        """The suite writes KV: each slot now holds what belongs to that prefix."""
        if self.tiers is not None and self.tiers.has_data:
            self.adapter.poke(list(slots), list(names))
        self.written.update(zip(slots, names, strict=True))

    def read(self, slots: Sequence[Slot]) -> tuple[Name, ...]:
        """What is in these slots: what was written last, or, where copies move contents, what the slots show."""
        if self.tiers is not None and self.tiers.has_data:
            loading = self.tiers.loading()
            found = self.peek("device", slots)
            return tuple([loading.get(slot, Name(value)) for slot, value in zip(slots, found, strict=True)])
        get = self.written.get
        return tuple([get(slot, NO_NAME) for slot in slots])

    def inserted(self, path: Sequence[Name]) -> None:
        """The call that is going on uses this path by an insertion: backups may become due."""
        if self.tiers is not None:
            self.tiers.inserted = path

    def peek(self, tier: str, slots: Sequence[int]) -> list[int]:
        """What slots of a tier hold."""
        values = list(self.look("peek", tier, list(slots)))
        if len(values) != len(slots) or not {*map(type, values)} <= INTEGER:
            raise self.broken("PORT-03", f"expected {len(slots)} integers from peek, got {values[:8]}")
        return values

    def locked_pages(self) -> dict[Name, PageNo]:
        """Where the protected pages are, by name."""
        return {name: page.page for name, page in self.tree.pages.items() if page.locks}

    def names_of(self, key: Key) -> tuple[Name, ...]:
        """The names of all prefixes of a key."""
        return self.names.of(key.namespace, key.units)

    def token_names(self, key: Key, names: tuple[Name, ...]) -> tuple[Name, ...]:
        """What each token's slot holds: the last token of a bigram key has no successor yet."""
        if not key.bigram or not key.tokens:
            return names
        start = names[-1] if names else self.names.root(key.namespace)
        return (*names, *self.names.extend(start, ((key.tokens[-1], -1),)))

    def cap(self, units: int) -> int:
        """The longest match that the profile allows for a key of this many units."""
        if self.profile.match_cap == "len-1":
            units = max(0, units - 1)
        return units - units % self.size

    @property
    def renews(self) -> bool:
        """Whether, by the profile, the upper half of a split node counts as created now.

        Of hierarchies nobody asks: their nodes come and go with demotions, and the policies that go
        by creation are judged on flat caches.
        """
        return self.tiers is None and self.profile.split_created == "renews"

    def cached_range(self, page_names: Sequence[Name]) -> tuple[int, int]:
        """How many of a key's pages are certainly cached, and how many possibly."""
        pages, maybe = self.tree.pages, self.maybe
        certain = possible = 0
        for name in page_names:
            if name not in pages:
                break
            possible += 1
            if certain == possible - 1 and name not in maybe:
                certain += 1
        return certain, possible
