"""Playback: an object with exactly the recorded ports, and a checker that calls it.

A :class:`Playback` is handed the lines of one action and answers the checker's calls from them, in their
order.  What it shows of itself is what was recorded last.  A :class:`RecordedChecker` is the checker of every
other run, but for three things: facts that a trace can't give stay unknown, a broken rule need not end
it, and it remembers only the last calls.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

from kvlitmus.conformance.checker.checker import Checker
from kvlitmus.conformance.checker.guard import Violation
from kvlitmus.conformance.history.forms import LOOKS
from kvlitmus.conformance.history.lines import Call, Header, Raised
from kvlitmus.conformance.ports import PORTS, capabilities_of
from kvlitmus.spec.law.facts import INPUTS
from kvlitmus.spec.prefix import effects
from kvlitmus.spec.prefix.seen import Seen
from kvlitmus.spec.prefix.state import State
from kvlitmus.spec.words.names import NO_NAME, Names
from kvlitmus.spec.words.units import Key, Name, PageNo, Slot, Unit, pages_of

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


class Ended(BaseException):
    """What a recorded call raised, where that would have ended the process."""


class Playback:
    """The ports of a recorded cache."""

    def __init__(self, header: Header) -> None:
        self.waiting: deque[Call] = deque()
        self.line = 1
        self.seen = header.first
        for port in header.ports:
            for method in PORTS[port]:
                setattr(self, method, partial(self._look if method in LOOKS else self._answer, method))

    def _look(self, method: str) -> Any:
        """What was seen after the last call."""
        seen = self.seen[method]
        if isinstance(seen, Raised):
            raise exception_of(seen.text)
        return seen

    def _answer(self, method: str, *args: Any, **kwargs: Any) -> Any:
        """What the next of the waiting lines answered, or raised."""
        call = self.waiting.popleft()
        assert call.method == method, (call.method, method)
        self.line, self.seen = call.line, call.look
        if call.raised is not None:
            raise exception_of(call.raised)
        return call.answer


EXPECTED: dict[str, type[Exception]] = {one.__name__: one for one in (MemoryError, TypeError)}
"""What is told apart by its type: memory that was made short, and an answer of the wrong type."""


def exception_of(raised: str) -> BaseException:
    """An exception that reads like the one that was recorded."""
    kind, _, message = raised.partition(": ")
    if not kind.isidentifier():
        kind, message = "Exception", raised
    if kind in EXPECTED:
        return EXPECTED[kind](message)
    base = Ended if kind in ("SystemExit", "KeyboardInterrupt", "GeneratorExit") else Exception
    made: BaseException = type(kind, (base,), {})(message)
    return made


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
    may be freed that isn't ``loose``.
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
    ) -> None:
        self.contents = header.contents
        self.grouped = False
        self.vanished_last = False
        self.lines: list[int] = []
        self.silenced: set[str] = set()
        self.found = found
        self.playback = playback
        self.prefixes = RecordedNames()
        super().__init__(playback, header.config, header.profile, depth=depth, muted=muted, names=self.prefixes)
        self.adapter = playback  # without the requests that a checker composes: nobody asked this cache for any
        self.capabilities = capabilities_of(playback) | (self.capabilities & {"scheme"})

    def announce(self, text: str, method: str) -> None:
        """A call is about to be judged: note the line that it stands on."""
        super().announce(text, method)
        self.lines.append(self.playback.waiting[0].line if self.playback.waiting else self.playback.line)

    def forget_calls(self, keep: int) -> None:
        """Drop all but the last calls, and what else would grow with the trace."""
        if len(self.history) > 2 * keep:
            del self.history[:-keep], self.lines[:-keep]
        self.victims.clear()
        self.kept.clear()
        if self.prefixes.crowded:
            self.prefixes.keep_only(self.held_names())
            self.observer.forget()

    def held_names(self) -> Iterator[Name]:
        """The names that the checker's state speaks of."""
        yield from self.tree.pages
        yield from self.state.doubt.unsure
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
        seen = super().observe_now()
        if self.grouped:
            seen.available = None
        return seen

    def expect(self, call: Any, answer: Any) -> State:
        """What a call amounts to; the caller wrote what it was asked to compute only if the trace vouches for it."""
        expected = super().expect(call, answer)
        return expected if self.contents == "as_asked" else expected._replace(contents=self.state.contents)

    def was_written(self, slots: Sequence[int], names: Sequence[Name]) -> None:
        """The trace itself says what was written."""
        contents = effects.write(self.state.contents, tuple(map(Slot, slots)), names)
        self.state = self.state._replace(contents=contents)

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
            fresh = [id for id in violation.rules if id not in self.silenced]
            if fresh and not self.found(Violation(fresh, violation.call, violation.facts, violation.detail)):
                raise
            self.silenced.update(fresh)
