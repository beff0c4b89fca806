"""Playback: an object with exactly the recorded ports, and a checker that calls it.

A :class:`Playback` is handed the lines of one action and answers the checker's calls from them, in their
order.  What it shows of itself is what was recorded last.  A :class:`RecordedChecker` is the checker of every
other run, but for four things: facts that a trace can't give stay unknown, a broken rule need not end
it, it remembers only the last calls, and it may know nothing but what it sees (``blind``).
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from kvlitmus.conformance.checker.calls.components.plain import glimpsed, said
from kvlitmus.conformance.checker.checker import Checker
from kvlitmus.conformance.checker.explain import WHERE
from kvlitmus.conformance.checker.guard import Violation
from kvlitmus.conformance.checker.harness_store import HarnessStore
from kvlitmus.conformance.history import certain
from kvlitmus.conformance.history.reader import ONCE, Call, Header, Raised
from kvlitmus.conformance.ports import PORTS
from kvlitmus.conformance.tape.answers import Answers, NotRecorded, exception_at
from kvlitmus.conformance.tape.calls import CALLS, DOES, LOOKS, TOLD_ONCE, TURNS, look_key
from kvlitmus.conformance.tape.forms import Json
from kvlitmus.conformance.tape.lines import Step
from kvlitmus.conformance.tape.operands import Operands
from kvlitmus.spec.law.facts import INPUTS, UNKNOWN, Facts
from kvlitmus.spec.law.lifted import Lifted
from kvlitmus.spec.prefix import effects
from kvlitmus.spec.prefix.components.calls import PoolsSeen
from kvlitmus.spec.prefix.hash_calls import HashLedger
from kvlitmus.spec.prefix.seen import Asked, Got, Put, Record, Seen
from kvlitmus.spec.prefix.state import EventMirror, State, empty_state
from kvlitmus.spec.ranks.calls import RankCall, Together, Views
from kvlitmus.spec.ranks.state import RanksState
from kvlitmus.spec.words.names import NO_NAME, Names
from kvlitmus.spec.words.units import Key, Name, PageNo, Slot, Unit, pages_of

UNSAID: Mapping[str, object] = {"sparse_prefills": True, "sparse_receives": True}
"""Questions that an engine has asked before its call, and what the answer was, since it made the call."""

OF_A_RANK = frozenset({"ranks_view", "ranks_states"})
"""The looks at one rank: whoever judges ranks knows what it means that nobody could look at one."""

LOOK_PORTS: Mapping[str, frozenset[str]] = {
    port: frozenset([one for one in methods if not CALLS[one].parameters])
    for port, methods in PORTS.items()
    if LOOKS.issuperset(methods)
}
"""The ports that only look, and how."""

CONTENT_FACTS = frozenset({"found_names", "row_names"})
"""What is in slots: known only if the trace says what was written."""

POOL_FACTS = frozenset({"available_before", "available_after", "free_before", "free_after", "free_listed"})
"""What is up in the air while frees are collected."""

INPUTS_BEFORE, INPUTS_AFTER = (list(INPUTS).index(name) for name in ("before", "after"))
"""Where the inputs of facts have what was seen."""

MANY_NAMES = 200_000
"""Maximum number of names of prefixes that are kept before those that nothing speaks of any more are forgotten."""

MANY_HASHES = 4_096
"""So many page hashes, for each page size and kind of units, are compared with later ones."""

MANY_UNITS = 1 << 20
"""Keys of so many units in all are remembered together with their names."""


class ToldStore(HarnessStore):
    """Storage as a tape tells of it: what it was asked, and what it answered then."""

    def tell(self, what: str, asked: Sequence[Any], answer: Any) -> None:
        """The cache asked this; an answer that is an exception was raised."""
        failed = isinstance(answer, BaseException)
        if what == "exists":
            self.asked.append(Asked(tuple(asked[0]), 0 if failed else int(answer)))
        elif what == "get":
            whole = not failed and answer is not None and len(answer) == self.page_size
            self.got.append(Got(asked[0], whole))
            if answer is None:
                self.contents.pop(asked[0], None)
        else:
            self.puts.append(Put(asked[0], tuple(asked[1]), answer is True))
            if answer is True:
                self.contents[asked[0]] = tuple(asked[1])


class Playback(Answers):
    """The ports of a recorded cache: the next of the ``waiting`` calls is answered as it was.

    ``seen``: what was looked at after it, by the key of the look; what is said but once is kept.  ``unseen``: a look
    that nobody made where it would have been made.
    """

    def __init__(self, header: Header, operands: Operands) -> None:
        super().__init__([*header.methods, *[one for port in header.ports for one in PORTS[port]]], operands)
        self.waiting: deque[Call] = deque()
        self.line = 1
        self.unseen = ""
        self.seen: Mapping[str, Sequence[object]] = header.first
        self._kept: dict[str, object] = {}
        self._call: Call

    def _look(self, method: str, *args: Any) -> Any:
        """What was seen after the last call."""
        key = look_key(method, CALLS[method].arguments(args, {}, self.operands)[0])
        told = self.seen.get(key)
        if told is None:
            if method in UNSAID:
                return UNSAID[method]
            if method in ONCE and key in self._kept:
                return self._kept[key]
            self.unseen = f"line {self.line}: nobody looked at {key} after it"
            if method in OF_A_RANK:
                return None
            raise NotRecorded(f"nobody looked at {key} after line {self.line}")
        seen = told[self._due(key, len(told))]
        if method in TOLD_ONCE and self._looked[key] > len(told):
            return ()
        self._kept[key] = seen
        if isinstance(seen, Raised):
            raise exception_at(seen.text)
        return seen

    def _answer(self, method: str, *args: Any, **kwargs: Any) -> Any:
        """What the next of the waiting lines answered, or raised."""
        if not self.waiting or self.waiting[0].method != method:
            raise NotRecorded(f"line {self.line} is not followed by this call: {method}")
        self._call = call = self.waiting.popleft()
        self.line, self.seen = call.line, call.look
        self._looked.clear()
        return self.played(call.step, args)

    def _made(self, step: Step, args: Sequence[Any]) -> Any:
        return super()._made(step, args) if step.call == TURNS else self._call.answer

    def _use(self, what: str, asked: Sequence[Any], answer: Json) -> None:
        """Storage is told of; of anything else that was lent only the answer of the cache is judged."""
        if isinstance(store := self._lent.get(what), ToldStore):
            store.tell(what, asked, self._told(DOES[what].answer, answer))


class RecordedNames(Names):
    """Names of prefixes that can be forgotten: a trace may name more of them than there is memory.

    What is forgotten is used again for another prefix, so only what nobody holds may be forgotten.
    """

    __slots__ = ("most", "spare", "units")

    def __init__(self) -> None:
        super().__init__()
        self.most = MANY_NAMES
        self.spare: list[Name] = []
        self.units = 0

    def extend(self, start: Name, units: Sequence[Unit]) -> tuple[Name, ...]:
        """The same names as ever."""
        before = len(self._chunks)
        found = super().extend(start, units)
        if len(self._chunks) > before:
            self.units += len(units)
            if self.units > MANY_UNITS:
                self._chunks.clear()
                self.units = 0
        return found

    @property
    def crowded(self) -> bool:
        """Whether it is time to forget some."""
        return len(self._ids) > self.most

    def keep_only(self, held: Iterable[Name]) -> None:
        """Forget all names but these and those of their beginnings."""
        kept: set[Name] = set()
        for name in held:
            while name not in kept and name != NO_NAME:
                kept.add(name)
                name = self._parents[name]
        self.spare += [name for name in self._ids.values() if name not in kept]
        self._ids = {place: name for place, name in self._ids.items() if name in kept}
        self._chunks.clear()
        self.most = max(MANY_NAMES, 2 * len(self._ids))

    def _new(self, parent: Name, unit: Unit | str | None) -> Name:
        if not self.spare:
            return super()._new(parent, unit)
        name = self.spare.pop()
        self._parents[name], self._units[name] = parent, unit
        return name


class RecordedChecker(Checker):
    """The checker of a trace.

    ``found`` is told of each violation and says whether to go on; then its rules are ``silenced``.  Nothing
    may be freed that isn't ``loose``.  ``blind``: nothing is known but what is seen, since the tape begins in the
    middle, or lacks calls or looks.  ``evaluations``: how many rules were.
    """

    most_hashes = MANY_HASHES

    def __init__(
        self,
        playback: Playback,
        header: Header,
        *,
        depth: int,
        muted: frozenset[str],
        found: Callable[[Violation], bool],
        blind: bool = False,
    ) -> None:
        self.contents = header.contents
        self.grouped, self.blind = False, blind
        self.without = header.without
        self.vanished_last = False
        self.last_look: PoolsSeen | None = None
        self.evaluations = 0
        self.lines: list[int] = []
        self.silenced: set[str] = set()
        self.found = found
        self.playback = playback
        self.prefixes = RecordedNames()
        super().__init__(playback, header.config, header.profile, depth=depth, muted=muted, names=self.prefixes)
        self.every = self.capabilities
        if header.begins != "fresh" or "free_group_begin" in header.without:
            self.grouped = "group" in self.every  # perhaps
        if header.without:
            self.before = certain.unseen_by(self.observer)

    def offered(self) -> frozenset[str]:
        """The capabilities of what was recorded: nobody asked this cache for the requests that a checker composes."""
        self.adapter, self.composed = self.playback, None
        return super().offered()

    def attach_at_first(self) -> None:
        """Storage is attached by a call like all others, or was there from the beginning."""

    def attached_before(self) -> None:
        """A call attaches storage before anybody looks."""
        super().attach_at_first()

    def storage(self, number: int) -> HarnessStore:
        """Storage of which the tape tells."""
        return self.stores.setdefault(number, ToldStore(self.size))

    def announce(self, text: str, method: str) -> None:
        """A call is about to be judged: note the line that it stands on."""
        super().announce(text, method)
        self.lines.append(self.playback.waiting[0].line if self.playback.waiting else self.playback.line)

    def forget_calls(self, keep: int) -> None:
        """Drop all but the last calls, and what else would grow with the trace."""
        if len(self.history) > 2 * keep:
            del self.history[:-keep], self.lines[:-keep]
            self.begun.clear()
        self.victims.clear()
        self.kept.clear()
        if self.prefixes.crowded and self.forgets:
            self.prefixes.keep_only(self.held_names())
            self.observer.forget()

    @property
    def forgets(self) -> bool:
        """Whether it is known which names are spoken of: of a flat cache."""
        return not self.blind and self.store is None and not self.config.components and self.config.pool != "ranks"

    def held_names(self) -> Iterator[Name]:
        """The names that the checker's state speaks of."""
        yield from self.tree.pages
        yield from self.state.device.doubt.unsure
        yield from self.ledger.held()
        yield from self.state.contents.values()
        for running in self.requests.values():
            yield from running.path.names[-1:]
            yield running.locked
        yield from self.receipts.values()

    @property
    def loose(self) -> Counter[PageNo]:
        """The pages that the caller owns by itself, outside of any request."""
        loose = Counter(dict(self.owners))
        for running in self.requests.values():
            loose.subtract(pages_of(running.row[running.cached :], self.size))
        return +loose

    def within(self, key: Key) -> None:
        """Whatever the recorded engine was asked, it was asked."""

    def observe_now(self) -> Seen:
        """What can be seen; within a free group nobody knows what is available."""
        if self.blind:
            return self.glimpsed()
        seen = super().observe_now()
        if self.grouped:
            seen.available = None
        return seen

    def call(self, text: str, method: str, *args: Any, **kwargs: Any) -> Any:
        """Make one port call; rules about what nobody looked at after it aren't judged."""
        answer = super().call(text, method, *args, **kwargs)
        if self.blind:
            seen = self.playback.seen.keys()
            self.capabilities = self.every - {port for port in LOOK_PORTS if not LOOK_PORTS[port] <= seen}
        return answer

    def glimpsed(self) -> Seen:
        """What was seen, if not all was looked at."""
        if self.grouped:
            return certain.unseen_by(self.observer)
        shown = [one for one in certain.READ_BY if one in self.playback.seen and hasattr(self.playback, one)]
        looked = {one: self.look(one) for one in shown}
        for one in certain.COUNTS & looked.keys():
            looked[one] = self.count(looked[one], f"what {one}() counts")
        with self.reading("a snapshot of the promised form"):
            return certain.seen_of(self.observer, looked, self.store.record() if self.store else Record())

    def blinded(self) -> None:
        """From now on nothing is known but what is seen."""
        self.blind = True
        self.before = certain.unseen_by(self.observer)

    def expect(self, call: Any, answer: Any) -> State:
        """What a call amounts to; the caller wrote what it was asked to compute only if the trace vouches for it."""
        expected = super().expect(call, answer)
        return expected if self.contents == "as_asked" else expected._replace(contents=self.state.contents)

    def was_written(self, slots: Sequence[int], names: Sequence[Name]) -> None:
        """The trace itself says what was written."""
        contents = effects.write(self.state.contents, tuple(map(Slot, slots)), names)
        self.state = self.state._replace(contents=contents)

    def sees_again(self) -> None:
        """From now on all is known: the cache is empty, and nobody owns anything."""
        self.blind, self.grouped, self.capabilities = False, False, self.every
        self.state = empty_state()._replace(told=EventMirror() if self.has_events else None)
        self.forget()

    def ranks_after(self, before: RanksState, call: RankCall, answer: Together | Views) -> RanksState:
        """What is known of ranks after a step; which of them is there is known if all that happens to one is told."""
        if not self.blind:
            return super().ranks_after(before, call, answer)
        return certain.ranks_after(before, call, answer, happened="ranks_local" not in self.without)

    def step(self, call: Any, answer: Any) -> None:
        """A call was made and answered."""
        if not self.blind:
            super().step(call, answer)
            return
        before, after = self.before, self.observe_now()
        self.before = certain.unseen_by(self.observer) if self.without else after
        self.by_what_is_certain(call, answer, before, after)

    def answered(
        self, call: Any, answer: Any, state: Any = None, pools: PoolsSeen | None = None, known: State | None = None
    ) -> None:
        """Judge a call by its answer."""
        if self.blind:
            self.by_what_is_certain(call, answer, None, None, state, pools)
            if pools is not None:
                self.looked_at(call, answer, pools)
        else:
            super().answered(call, answer, state, pools, known)

    def by_what_is_certain(
        self, call: Any, answer: Any, before: Any, after: Any, state: Any = None, pools: Any = None
    ) -> None:
        """Evaluate the rules that speak of nothing but this."""
        inputs = {"setting": self.setting, "state": state, "expected": certain.Nothing(), "then": certain.Nothing()}
        if isinstance(state, RanksState):
            inputs["state"] = state._replace(seen=())
        elif not isinstance(state, HashLedger):
            inputs["state"] = certain.SeenState(before)
        seen = {"call": call, "answer": answer, "before": before, "after": after, "pools": pools}
        inputs |= {
            name: one for name, one in seen.items() if one is not None or (name == "answer" and call is not None)
        }
        self.certainly(inputs, self.setting.depth, self.capabilities, POOL_FACTS if self.grouped else frozenset())

    def looked_at(self, call: Any, answer: object, look: PoolsSeen) -> None:
        """Judge a call on a cache of components by its pools, from the look before it to the one after it."""
        nothing = certain.Nothing()
        for one in said(self.setting, call, answer):
            inputs = {"setting": one.setting, "call": one.call, "answer": one.answer}
            inputs |= dict.fromkeys(("state", "expected", "then", "before", "after"), nothing)
            self.certainly(inputs, one.setting.depth, one.setting.capabilities, one.hidden, {WHERE: one.where})
        before, self.last_look = self.last_look, None if self.without else look
        alone = "component_writes" in self.capabilities or not self.config.host_pages
        if before is None or call is None or not alone:
            return  # what the cache may have begun by itself nobody saw
        for one in glimpsed(self.setting, before, call, answer, look):
            inputs = {"setting": one.setting, "call": one.call, "answer": one.answer}
            inputs |= {"before": certain.pool_seen(one.before), "after": certain.pool_seen(one.after)}
            inputs |= dict.fromkeys(("state", "expected", "then"), nothing)
            has = one.setting.capabilities - {"events"}  # what was told before nobody knows
            self.certainly(inputs, one.setting.depth, has, one.hidden, {WHERE: one.where})

    def certainly(
        self,
        inputs: Mapping[str, Any],
        depth: int,
        capabilities: frozenset[str],
        unknown: frozenset[str],
        told: Facts | None = None,
    ) -> None:
        """Evaluate the rules that are certain; ``told``: what is said besides of those that are broken."""
        hidden: Facts = dict.fromkeys(CONTENT_FACTS | unknown, UNKNOWN)
        judged = certain.judged(inputs, depth, capabilities, self.muted, hidden)
        self.evaluated.update(judged.evaluated)
        self.evaluations += len(judged.evaluated)
        if judged.broken:
            self.told_of(Violation(judged.broken, self.history[-1], {**(told or {}), **judged.facts}))

    def told_of(self, violation: Violation) -> None:
        """Say that rules are broken that were not before; raise where that is the end."""
        fresh = [id for id in violation.rules if id not in self.silenced]
        if fresh and not self.found(Violation(fresh, violation.call, violation.facts, violation.detail)):
            raise violation
        self.silenced.update(fresh)

    def judge(self, occasions: tuple[str, ...], inputs: tuple[Any, ...], unknown: frozenset[str]) -> None:
        """Evaluate the rules whose facts the trace gives; go on after a broken one where that is wanted."""
        before, after = inputs[INPUTS_BEFORE], inputs[INPUTS_AFTER]
        self.vanished_last = before is not None and not before.cached.keys() <= after.cached.keys()
        if self.contents == "unknown":
            unknown |= CONTENT_FACTS
        elif self.contents == "recorded":
            unknown |= {"row_names"}  # a row is written after the call that made it
        if self.grouped:
            unknown |= POOL_FACTS
        try:
            super().judge(occasions, inputs, unknown)
        except Violation as violation:
            self.told_of(violation)

    def lifted(self, one: Lifted[State, Seen]) -> None:
        """Evaluate the rules of plain caches of a step too, and go on in the same way."""
        try:
            super().lifted(one)
        except Violation as violation:
            self.told_of(violation)
