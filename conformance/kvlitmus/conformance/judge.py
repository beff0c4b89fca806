"""The judge: what happens around one call.

A :class:`Judge` owns one adapter for one run.  For each call it notes what is known before,
makes the call behind a guard, observes the cache as deeply as the run allows, works out the
**facts**, and evaluates every rule whose facts are known.  The first broken rule ends the run
with a :class:`Violation` that carries the facts, so that it can be explained.

What isn't observed is known from the reference: ``self.tree`` is a reference tree that follows
what the cache was seen to do (its *choice*).  At depth 3 the snapshot confirms it after every
call.  Below that, pages whose eviction can't be seen are ``maybe``: neither certainly there nor
certainly gone.

The calls themselves are in :mod:`kvlitmus.conformance.calls`, part by part.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from itertools import islice
from typing import Any, NamedTuple, cast

from kvlitmus.conformance.compose import with_requests
from kvlitmus.conformance.observation import Observation, Observer
from kvlitmus.conformance.ports import Begun, Config, Hit, Profile, Stored, capabilities_of
from kvlitmus.conformance.selection import Facts, Plan, plan_for
from kvlitmus.conformance.text import harmless, raised_text, shown, type_name
from kvlitmus.reference.tree import Page, Tree, empty_tree
from kvlitmus.spec.names import NO_NAME, Names
from kvlitmus.spec.rule import all_rules
from kvlitmus.spec.units import Key, Name, PageNo, Slot, Tick

DEEPEST = 3
"""The depth of a full snapshot."""

SPARE = 1_000
"""So many slots more than four times the capacity are read of an answer, and no more."""

PLAIN = frozenset({type(None), int, list, tuple, Hit, Stored, Begun})
"""Types of answers that do what they say."""

UNORDERED = (str, bytes, bytearray, Mapping, Set)
"""What iterates without being a sequence of slots."""

MAX_SLOT = 1 << 48
"""A slot beyond this is nonsense whatever the pool."""

KEPT = 8
"""How many returned lists are watched for changes."""

SHOWN = 32
"""How many slots of an answer are shown on the trail."""


class Violation(Exception):
    """Rules that a call broke, with everything needed to say why."""

    def __init__(self, rules: Sequence[str], call: str, facts: Facts, detail: str = "") -> None:
        super().__init__(", ".join(rules))
        self.rules = tuple(rules)
        self.call = call
        self.facts = facts
        self.detail = detail


class Loan(NamedTuple):
    """Slots that the suite holds as a caller."""

    slots: tuple[Slot, ...]


class Running:
    """What the suite knows of a request: its key and names, its row, what of it is cached, and the lock it holds."""

    __slots__ = ("cached", "key", "locked", "names", "row")

    def __init__(self, key: Key, names: tuple[Name, ...], row: tuple[Slot, ...], cached: int, locked: Name) -> None:
        self.key = key
        self.names = names
        self.row = row
        self.cached = cached
        self.locked = locked


def differ(now: Sequence[Any], then: Sequence[Any]) -> bool:
    """Whether a sequence that a stranger holds too isn't what it was; what can't be compared is not."""
    try:
        return now != then
    except Exception:  # noqa: BLE001 - what was put in may raise anything
        return True


class Judge:
    """One adapter under judgement, from a fresh state on.

    interruptible: whether a ``KeyboardInterrupt`` comes from the user; in a worker it can only come
    from the adapter.
    """

    interruptible = True

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
        self.adapter = with_requests(adapter, config.page_size, profile)
        self.config = config
        self.profile = profile
        self.size = config.page_size
        self.capabilities = capabilities_of(self.adapter)
        self.depth = min(depth, 3 if "inspect" in self.capabilities else 1)
        self.muted = muted
        self.force_misuse = force_misuse
        self.names = names or Names()
        reserved = profile.reserved if config.pool == "device" else 0
        self.usable = frozenset(map(PageNo, range(reserved, reserved + config.pages)))
        self.capacity = config.pages * self.size
        self.rules = all_rules()
        self.plans: dict[str, Plan] = {}
        self.evaluated: Counter[str] = Counter()
        self.reached: Counter[str] = Counter()
        self.trail: list[str] = []
        self.victims: list[frozenset[Name]] = []
        self.again: Callable[[], Judge] | None = None
        self.steps = 0
        self.observer = Observer(self.names, self.size, 4 * self.capacity + SPARE)
        self.forget()

    def forget(self) -> None:
        """Start from an empty cache again."""
        self.tree: Tree = empty_tree()
        self.maybe: set[Name] = set()
        self.loans: dict[int, Loan] = {}
        self.requests: dict[int, Running] = {}
        self.receipts: dict[int, tuple[object, Name]] = {}
        self.written: dict[Slot, Name] = {}
        self.owners: Counter[PageNo] = Counter()
        self.kept: list[tuple[list[Any], list[Any]]] = []
        self.before = self.observe_now()

    # -- the guard -----------------------------------------------------------------------------

    def call(self, text: str, method: str, *args: Any, **kwargs: Any) -> Any:
        """Make one port call.  What it raises breaks PORT-01; that it ends the process breaks PORT-02.

        ``text`` is the call as a reader should see it; it goes on the trail.
        """
        self.announce(text, method)
        given = [(arg, list(arg)) for arg in args if isinstance(arg, list)]
        try:
            answer = getattr(self.adapter, method)(*args, **kwargs)
        except NotImplementedError:
            raise
        except BaseException as error:
            raise self.raised(error, "the call") from error
        for now, then in given:
            if differ(now, then):
                raise self.broken("PORT-04", f"the call changed its argument from {then} to {shown(now)}")
        if type(answer) not in PLAIN and issubclass(type(answer), tuple):
            return tuple.__getitem__(
                cast("tuple[Any, ...]", answer), slice(None)
            )  # a stranger's class may lie about its length
        return answer

    def announce(self, text: str, method: str) -> None:
        """A call is about to be made: it goes on the trail."""
        self.steps += 1
        self.trail.append(text)

    def look(self, method: str) -> Any:
        """Make one of the calls that only look; what it raises is judged like that of any call."""
        try:
            return getattr(self.adapter, method)()
        except NotImplementedError:
            raise
        except BaseException as error:
            raise self.raised(error, f"{method}()") from error

    def raised(self, error: BaseException, what: str) -> BaseException:
        """What it means that a call raised: PORT-01, or PORT-02 for what ends a process."""
        if isinstance(error, Exception):
            return self.broken("PORT-01", f"{what} raised {raised_text(error)}")
        if self.interruptible and isinstance(error, KeyboardInterrupt):
            return KeyboardInterrupt()
        return self.broken("PORT-02", f"{what} tried to end the process: it raised {raised_text(error)}")

    def slots(self, answer: object) -> tuple[Slot, ...]:
        """The answer as slots; anything but a sequence of non-negative integers breaks PORT-03."""
        got = answer if type(answer) is list or type(answer) is tuple else self.listed(answer)
        if len(got) > 4 * self.capacity + SPARE:
            raise self.broken("PORT-03", f"expected at most {self.capacity} slots, got {len(got)} or more")
        if any(type(slot) is not int for slot in got):
            odd = next(slot for slot in got if type(slot) is not int)
            raise self.broken("PORT-03", f"expected integer slots, got {shown(odd)} of type {type_name(odd)}")
        if got and not (min(got) >= 0 and max(got) < MAX_SLOT):
            lowest, highest = shown(min(got)), shown(max(got))
            raise self.broken("PORT-03", f"expected slots from 0 on, got {lowest} to {highest}")
        if got is answer and type(got) is list and len(self.kept) < KEPT:
            self.kept.append((got, list(got)))
        self.trail[-1] += f" → {list(got) if len(got) <= SHOWN else f'{len(got)} slots'}"
        return tuple(got)

    def listed(self, answer: object) -> list[Any]:
        """What iterates, as a list that is no longer than it may be; anything else breaks PORT-03."""
        name = type_name(answer)
        try:
            if not isinstance(answer, UNORDERED) and answer is not None:
                return list(islice(cast("Iterable[Any]", answer), 4 * self.capacity + SPARE + 1))
        except TypeError:
            pass
        except Exception as error:
            detail = f"expected a sequence of slots, got a {name} that raised {raised_text(error)}"
            raise self.broken("PORT-03", detail) from error
        raise self.broken("PORT-03", f"expected a sequence of slots, got {name}")

    def fields(self, answer: object, many: int, form: str) -> tuple[Any, ...]:
        """The answer as a tuple of so many fields; anything else breaks PORT-03."""
        if not issubclass(type(answer), tuple) or len(cast("tuple[Any, ...]", answer)) != many:
            raise self.broken("PORT-03", f"expected {form}, got {shown(answer)}")
        return cast("tuple[Any, ...]", answer)

    def count(self, answer: object, what: str) -> int:
        """The answer as a count; anything but a non-negative integer breaks PORT-03."""
        if type(answer) is not int or not 0 <= answer < MAX_SLOT:
            raise self.broken("PORT-03", f"expected {what} as a count, got {shown(answer)}")
        return answer

    def broken(self, rule: str, detail: str) -> Violation:
        """A violation of a rule that has no facts."""
        self.evaluated[rule] += 1
        return Violation((rule,), self.trail[-1] if self.trail else "", {}, detail)

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
        if self.depth >= DEEPEST:
            view = self.look("view")
            if view is None:
                raise self.broken("PORT-03", "expected a View, got None")
        try:
            return self.observer.read(available, sizes, view)
        except Exception as error:
            detail = f"the snapshot has not the promised form: {harmless(error) or type_name(error)}"
            raise self.broken("PORT-03", detail) from error

    def watch_kept(self) -> None:
        """Sequences returned earlier must be what they were."""
        for now, then in self.kept:
            if differ(now, then):
                raise self.broken("PORT-04", f"a sequence returned earlier changed from {then} to {shown(now)}")

    def finish(
        self, kinds: str, facts: Facts, tree: Tree, late: Callable[[Observation, Facts], None] | None = None
    ) -> None:
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
        facts["quiet"] = not self.receipts and not self.requests
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
            after.facts(facts, before, tree)
            if late is not None:
                late(after, facts)
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
        plan = self.plans.get(kinds)
        if plan is None:
            plan = self.plans[kinds] = plan_for(
                kinds, facts, self.rules, depth=self.depth, muted=self.muted, capabilities=self.capabilities
            )
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
        raise Violation(broken, self.trail[-1], facts)

    def counted(self) -> Counter[str]:
        """How often each rule was evaluated."""
        total = Counter(self.evaluated)
        for kinds, times in self.reached.items():
            for id, *_ in self.plans[kinds].checks if kinds in self.plans else ():
                total[id] += times
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
        self.written.update(zip(slots, names, strict=True))

    def read(self, slots: Sequence[Slot]) -> tuple[Name, ...]:
        """What was written last into these slots."""
        get = self.written.get
        return tuple([get(slot, NO_NAME) for slot in slots])

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
        """Whether, by the profile, the upper half of a split node counts as created now."""
        return self.profile.split_created == "renews"

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

    @property
    def now(self) -> Tick:
        """The model's time."""
        return self.tree.clock
