"""The reference as a target: the frozen model behind the mutable ports.

Targets:

``target`` (also the module itself)
    evicts page by page.
``node_target``
    evicts whole nodes.
``capped_target``
    a match leaves at least one unit of the key to compute.
``late_target``
    a prefetch takes host memory when storage has told how much it has, and its time begins at the first poll.
``filling_target``
    what a prefetch reads fills pages that are on the device alone, a page that is due for backup takes its ancestors
    along, an insert that brings a page back counts as a hit, and short loads are declined.

With a host tier below (a configuration says so) the adapter is
:class:`~kvlitmus.conformance.adapters.reference.tiers.TieredReference`.

An adapter keeps one :class:`~kvlitmus.spec.prefix.state.State` and replaces it with each call by what
:func:`~kvlitmus.reference.prefix.perform.perform` says.  What it adds to the reference is names for keys, numbers for
receipts, and :attr:`~ReferencePorts.choice` for tests that let the reference choose other pages or victims.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kvlitmus.conformance.ports import Begun, Config, Hit, NodeView, Profile, Sizes, Stored, View
from kvlitmus.conformance.ports.arrays import PlainArrays
from kvlitmus.reference.prefix import event
from kvlitmus.reference.prefix.hashing import page_hashes
from kvlitmus.reference.prefix.perform import NO_CHOICE, available, free_pages, perform, sizes
from kvlitmus.reference.prefix.pool import slots_of
from kvlitmus.reference.prefix.prefetch import Answer, Call, converse, plan_prefetch
from kvlitmus.spec.interface.plans import HostPool, PrefetchAsk, PrefetchPlan
from kvlitmus.spec.interface.tiers import Event
from kvlitmus.spec.law.step import Step
from kvlitmus.spec.prefix import effects
from kvlitmus.spec.prefix.calls import (
    Alloc,
    Begin,
    Discard,
    End,
    EndGroup,
    Evict,
    Extend,
    Flush,
    Fork,
    Free,
    FreeInGroup,
    Grow,
    Insert,
    Lock,
    Match,
    Path,
    Publish,
    Resume,
    Retract,
    TakeBack,
    Unlock,
    path_of,
)
from kvlitmus.spec.prefix.state import State, Tier, empty_state
from kvlitmus.spec.prefix.work_calls import PlainCall
from kvlitmus.spec.words.names import Names
from kvlitmus.spec.words.setting import SNAPSHOT, Setting
from kvlitmus.spec.words.units import Key, Name, PageNo, Slot, Tokens

PROFILE = Profile(misuse="reject", hash_scheme="kvlitmus-2")


class ReferencePorts(PlainArrays):
    """The ports of the reference, with a host below the device or without; what shows it whole is its heirs' affair.

    ``state``: what is on the device.  ``choice`` is handed to every call that has one; tests set it for a single call.
    """

    state: State

    def __init__(self, config: Config, profile: Profile, names: Names | None = None) -> None:
        self.config = config
        self.profile = profile
        self.setting = Setting(config, profile, SNAPSHOT, frozenset({"tiers"}) if config.tiered else frozenset())
        self.size = config.page_size
        self.names = names or Names()
        self.choice = NO_CHOICE
        self.page_units: dict[Name, tuple[str | None, tuple[int | tuple[int, int], ...]]] = {}
        self.reset()

    def reset(self) -> None:
        """See :class:`~kvlitmus.conformance.ports.Resettable`."""
        self.state = empty_state()
        self.forget()

    def forget(self) -> None:
        """No open group, and no receipts were given."""
        self.group: list[Slot] | None = None
        self.serial = 0

    def perform(self, call: PlainCall) -> Any:
        """Make a call, and go on with the state after it; returns the answer.

        Pages that become free while a group is open are owned by the group until its end.
        """
        step = perform(self.state, self.setting, call, self.choice)
        self.went(step)
        self.state = self.withheld(step.before, step.after)
        return step.answer

    def went(self, step: Step[State]) -> None:
        """A call was decided, and is about to change the state."""

    def withheld(self, before: State, after: State) -> State:
        """The state after a call, in which an open group owns what has become free."""
        if self.group is None:
            return after
        freed = free_pages(after, self.setting) - free_pages(before, self.setting)
        self.group += slots_of(sorted(freed), self.size)
        return after._replace(owners=effects.take(after.owners, freed))

    # -- pool ----------------------------------------------------------------------------------

    def alloc(self, n: int) -> Sequence[int] | None:
        """See :class:`~kvlitmus.conformance.ports.Pool`."""
        slots: Sequence[int] | None = self.perform(Alloc(Tokens(n)))
        return slots

    def free(self, slots: Sequence[int]) -> None:
        """See :class:`~kvlitmus.conformance.ports.Pool`."""
        given = tuple(map(Slot, slots))
        if self.group is None:
            self.perform(Free(given))
            return
        self.perform(FreeInGroup((*self.group, *given)))
        self.group += given

    def available(self) -> int:
        """See :class:`~kvlitmus.conformance.ports.Pool`."""
        return available(self.state, self.setting)

    def alloc_extend(self, before: Sequence[int], after: Sequence[int], last: Sequence[int]) -> Sequence[int] | None:
        """See :class:`~kvlitmus.conformance.ports.Extend`: for all requests or for none.

        The port tells where a row ends, and nothing else of it matters.
        """
        state, slots = self.state, list[int]()
        for old, new, slot in zip(before, after, last, strict=True):
            further = self.perform(Extend((Slot(slot),) * old, Tokens(new - old)))
            if further is None:
                self.state = state
                return None
            slots += further
        return slots

    def alloc_decode(self, after: Sequence[int], last: Sequence[int]) -> Sequence[int] | None:
        """See :class:`~kvlitmus.conformance.ports.Extend`."""
        return self.alloc_extend([length - 1 for length in after], after, last)

    def free_group_begin(self) -> None:
        """See :class:`~kvlitmus.conformance.ports.FreeGroup`."""
        self.group = self.group or []

    def free_group_end(self) -> None:
        """See :class:`~kvlitmus.conformance.ports.FreeGroup`."""
        group, self.group = self.group or [], None
        self.perform(EndGroup(tuple(group)))

    # -- tree ----------------------------------------------------------------------------------

    def flush(self) -> bool:
        """See :class:`~kvlitmus.conformance.ports.Flush`."""
        flushed: bool = self.perform(Flush())
        return flushed

    def path(self, key: Key, *, row: bool = False) -> Path:
        """A key with the names of its prefixes; of a request, with the names of what its ``row`` holds."""
        return path_of(self.names, key, self.size, row=row)

    def match(self, key: Key) -> Hit:
        """See :class:`~kvlitmus.conformance.ports.PrefixTree`."""
        hit: Hit = self.perform(Match(self.path(key)))
        return hit

    def insert(
        self, key: Key, slots: Sequence[int], *, protected: int = 0, priority: int = 0, chunked: bool = False
    ) -> Stored:
        """See :class:`~kvlitmus.conformance.ports.PrefixTree`."""
        call = Insert(self.path(key), tuple(map(Slot, slots)), protected, priority, chunked)
        stored: Stored = self.perform(call)
        return stored

    def lock(self, handle: object) -> object:
        """See :class:`~kvlitmus.conformance.ports.Locks`: a handle is the name of the last page of the match."""
        assert isinstance(handle, int)
        self.serial += 1
        return self.perform(Lock(Name(handle), self.serial))

    def unlock(self, receipt: object) -> None:
        """See :class:`~kvlitmus.conformance.ports.Locks`; a receipt that was given back already is refused."""
        assert isinstance(receipt, int)
        self.perform(Unlock(receipt))

    def evict(self, n: int) -> int:
        """See :class:`~kvlitmus.conformance.ports.Evict`."""
        freed: int = self.perform(Evict(Tokens(n)))
        return freed

    # -- requests ------------------------------------------------------------------------------

    def begin(self, rid: int, key: Key) -> Begun | None:
        """See :class:`~kvlitmus.conformance.ports.Requests`."""
        begun: Begun | None = self.perform(Begin(rid, self.path(key, row=True)))
        return begun

    def grow(self, rid: int, tokens: Sequence[int]) -> Sequence[int] | None:
        """See :class:`~kvlitmus.conformance.ports.Requests`."""
        slots: Sequence[int] | None = self.perform(self.grown(rid, tokens))
        return slots

    def grown(self, rid: int, tokens: Sequence[int]) -> Grow:
        """The call by which a request grows."""
        key = self.state.requests[rid].path.key
        return Grow(rid, Tokens(len(tokens)), self.path(key._replace(tokens=key.tokens + tuple(tokens)), row=True))

    def take_back(self, rid: int, n: int) -> int:
        """See :class:`~kvlitmus.conformance.ports.TakeBack`."""
        key = self.state.requests[rid].path.key
        left = self.path(key._replace(tokens=key.tokens[: len(key.tokens) - n]), row=True)
        freed: int = self.perform(TakeBack(rid, Tokens(n), left))
        return freed

    def fork(self, rid: int, of: int) -> Begun | None:
        """See :class:`~kvlitmus.conformance.ports.Fork`."""
        begun: Begun | None = self.perform(Fork(rid, of))
        return begun

    def retract(self, rid: int) -> bool:
        """See :class:`~kvlitmus.conformance.ports.Retract`."""
        retracted: bool = self.perform(Retract(rid))
        return retracted

    def resume(self, rid: int) -> Begun | None:
        """See :class:`~kvlitmus.conformance.ports.Retract`."""
        begun: Begun | None = self.perform(Resume(rid, self.state.retracted.requests[rid].path))
        return begun

    def discard(self, rid: int) -> None:
        """See :class:`~kvlitmus.conformance.ports.Retract`."""
        self.perform(Discard(rid))

    def publish(self, rid: int, *, chunked: bool) -> Begun:
        """See :class:`~kvlitmus.conformance.ports.Requests`."""
        begun: Begun = self.perform(Publish(rid, None, chunked))
        return begun

    def end(self, rid: int, *, keep: bool) -> None:
        """See :class:`~kvlitmus.conformance.ports.Requests`."""
        self.perform(End(rid, keep))

    def publish_upto(self, rid: int, upto: int, *, chunked: bool) -> Begun:
        """See :class:`~kvlitmus.conformance.ports.PartlyComputed`."""
        begun: Begun = self.perform(Publish(rid, upto, chunked))
        return begun

    def end_upto(self, rid: int, upto: int) -> None:
        """See :class:`~kvlitmus.conformance.ports.PartlyComputed`."""
        self.perform(End(rid, True, upto))

    # -- hashes and prefetch -------------------------------------------------------------------

    def page_hashes(self, key: Key, page_size: int, prior: str | None) -> Sequence[str]:
        """See :func:`kvlitmus.reference.prefix.hashing.page_hashes`."""
        return page_hashes(key, page_size, prior)

    def plan_prefetch(self, ask: PrefetchAsk, host: HostPool) -> PrefetchPlan:
        """See :func:`kvlitmus.reference.prefix.prefetch.plan_prefetch`; here its calls are made."""

        def reply(call: Call) -> Answer:
            method = getattr(host, call.name)
            answer: Answer = method(call.amount) if call.name in ("alloc", "evict") else method()
            return answer

        return converse(plan_prefetch(ask), reply)

    def sizes(self) -> Sizes:
        """See :class:`~kvlitmus.conformance.ports.Counters`."""
        return sizes(self.state, self.setting)

    def units_of(self, name: Name) -> tuple[str | None, tuple[int | tuple[int, int], ...]]:
        """The namespace of a page, and its own units."""
        found = self.page_units.get(name)
        if found is None:
            namespace, units = self.names.prefix(name)
            found = self.page_units[name] = namespace, units[-self.size :]
        return found


class ReferenceCache(ReferencePorts):
    """One reference cache without a host behind the ports."""

    told: Tier | None = None
    """The tree as it was when events were last asked for."""

    def reset(self) -> None:
        """See :class:`~kvlitmus.conformance.ports.Resettable`: those who listen start over, too."""
        super().reset()
        self.cleared = self.told is not None
        self.told = self.state.device

    def events(self) -> Sequence[Event]:
        """See :class:`~kvlitmus.spec.interface.tiers.Events`: a page goes by its name."""
        assert self.told is not None
        first = [Event("cleared")] if self.cleared else []
        changes = event.cached_changes(self.told, self.state.device)
        self.cleared, self.told = False, self.state.device
        return first + [self.event(told) for told in changes]

    def event(self, told: event.PageChange) -> Event:
        """An event as the port tells it."""
        if told.what == event.REMOVED:
            return Event(told.what, told.tier, told.name)
        namespace, units = self.units_of(told.name)
        parent = None if told.parent == self.names.root(namespace) else told.parent
        return Event(told.what, told.tier, told.name, parent, units, namespace)

    def view(self) -> View:
        """See :class:`~kvlitmus.conformance.ports.Inspect`: a page that is marked begins a node."""
        runs: list[list[Name]] = []
        node_of: dict[Name, int] = {}
        parents: list[int] = []
        for name, page in self.state.device.pages.items():
            above = node_of.get(page.parent, -1)
            if page.first or above < 0:
                node_of[name] = len(runs)
                runs.append([name])
                parents.append(above)
            else:
                node_of[name] = above
                runs[above].append(name)
        return View(
            sorted(free_pages(self.state, self.setting)), [self.node(*node) for node in zip(parents, runs, strict=True)]
        )

    def node(self, parent: int, run: Sequence[Name]) -> NodeView:
        """One node as the suite sees it."""
        pages = self.state.device.pages
        namespace, _ = self.units_of(run[0])
        units = tuple(unit for name in run for unit in self.units_of(name)[1])
        slots = slots_of([PageNo(pages[name].page) for name in run], self.size)
        first = pages[run[0]]
        return NodeView(parent, namespace, units, slots, first.locks, self.setting.counted(first.hits), first.priority)
