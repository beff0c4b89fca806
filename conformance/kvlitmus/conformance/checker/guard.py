"""The guard: calls into somebody else's code, and answers that may be anything.

A :class:`Guard` makes the port calls of one run.  What a call raises, what it answers instead of
what the port promises, and what it does to sequences that aren't its own become a
:class:`Violation` of one of the rules PORT-01 to PORT-04; nothing else gets past it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from typing import Any, cast

from kvlitmus.conformance.isolation.remote.fault import RemoteFault
from kvlitmus.conformance.ports import Begun, Hit, Stored, Unsupported
from kvlitmus.conformance.support.bounds import MAX_COUNT, MAX_SLOT, UNORDERED
from kvlitmus.conformance.support.frames import raised_at
from kvlitmus.conformance.support.integers import EXACT, integer, integers, is_integer, whether
from kvlitmus.conformance.support.text import shown, type_name
from kvlitmus.spec.interface.tiers import COPY_FAILURES
from kvlitmus.spec.law.facts import Facts
from kvlitmus.spec.words.units import Slot

SPARE = 1_000
"""So many slots more than four times the capacity are read of an answer, and no more."""

PLAIN = frozenset({type(None), int, list, tuple, Hit, Stored, Begun})
"""Types of answers that do what they say."""

KEPT = 8
"""How many returned lists are watched for changes."""

SHOWN = 32
"""How many slots of an answer are shown in the history."""


def got_text(answer: object) -> str:
    """What was answered instead, with its type: a text or a float may look like an integer."""
    return f"{shown(answer)} of type {type_name(answer)}"


class Violation(Exception):
    """Rules that a call broke, with everything needed to say why.

    ``fresh``: the checker of a cache that broke them before the first call, where it was looked at.
    """

    fresh: Any = None

    def __init__(self, rules: Sequence[str], call: str, facts: Facts, detail: str = "") -> None:
        super().__init__(", ".join(rules))
        self.rules = tuple(rules)
        self.call = call
        self.facts = facts
        self.detail = detail


class LeftOut(Unsupported):
    """What the suite doesn't ask of a target that declined nothing: for want of a port, or by its profile."""


class OutOfMemory(Exception):
    """A call ended for want of memory, as the suite had asked for."""


def differ(now: Sequence[Any], then: Sequence[Any]) -> bool:
    """Whether a sequence that a stranger holds too isn't what it was; what can't be compared is not."""
    try:
        return now != then
    except KeyboardInterrupt:
        raise
    except BaseException:  # noqa: BLE001 - what was put in may raise anything, SystemExit too
        return True


class Kept:
    """Lists that a cache has returned (``now``), each beside what it held ``then``."""

    def __init__(self) -> None:
        self.now: list[list[Any]] = []
        self.then: list[list[Any]] = []

    def add(self, got: list[Any]) -> None:
        """Watch a list, unless so many are watched already."""
        if len(self.now) < KEPT:
            self.now.append(got)
            self.then.append(list(got))

    def forget(self, one: object) -> None:
        """Watch this one no more."""
        watched = [at for at, now in enumerate(self.now) if now is not one]
        self.now, self.then = [self.now[at] for at in watched], [self.then[at] for at in watched]

    def clear(self) -> None:
        """Watch none any more."""
        self.now.clear()
        self.then.clear()

    def changed(self) -> tuple[list[Any], list[Any]] | None:
        """The first list that isn't what it was, and what that was; all are compared at once first."""
        if not differ(self.now, self.then):
            return None
        return next((pair for pair in zip(self.now, self.then, strict=True) if differ(*pair)), None)


def short_of_memory(error: BaseException, limit: int) -> str:
    """What to add where a call has run out of the memory that it may have: so many megabytes, 0 for no limit."""
    return f" (a worker may use {limit:,} MB: --memory)" if limit and issubclass(type(error), MemoryError) else ""


class Guard:
    """What makes the calls of one run.

    blind: whether nothing is known of the cache but what is seen of it.
    starved: whether the suite has asked for a call that finds no memory.
    interruptible: whether a ``KeyboardInterrupt`` comes from the user; in a worker it can only come
    from the adapter.
    met: the methods that this process has called before in such a configuration, where anybody wants to know;
    warming: whether a method is called for the first time, so that what is compiled then takes its time; whoever is to
    be told that before the call is made, and when it has come back, is (``on_first``).
    """

    blind = False
    starved = False
    interruptible = True
    met: set[str] | None = None
    warming = False
    on_first: Callable[[], None] | None = None

    def __init__(self, adapter: Any, capacity: int, memory_mb: int = 0) -> None:
        self.memory_mb = memory_mb
        self.adapter = adapter
        self.capacity = capacity
        self.evaluated: Counter[str] = Counter()
        self.history: list[str] = []
        self.steps = 0
        self.kept = Kept()

    def call(self, text: str, method: str, *args: Any, **kwargs: Any) -> Any:
        """Make one port call.  What it raises breaks PORT-01; that it ends the process breaks PORT-02.

        ``text`` is the call as a reader should see it; it goes in the history.
        """
        self.announce(text, method)
        given = [(arg, list(arg)) for arg in args if type(arg) is list]  # of a stranger's handle nothing is asked
        try:
            answer = getattr(self.adapter, method)(*args, **kwargs)
        except NotImplementedError:
            raise
        except BaseException as error:
            if self.starved and isinstance(error, MemoryError):
                raise OutOfMemory from error
            raise self.raised(error, "the call") from error
        self.unchanged(given)
        if type(answer) not in PLAIN and issubclass(type(answer), tuple):
            return tuple.__getitem__(
                cast("tuple[Any, ...]", answer), slice(None)
            )  # a stranger's class may lie about its length
        return answer

    def unchanged(self, given: Iterable[tuple[list[Any], list[Any]]]) -> None:
        """Lists that were passed (``now``, ``then``) must hold what they held (PORT-04)."""
        for now, then in given:
            if differ(now, then):
                raise self.broken("PORT-04", f"the call changed its argument from {shown(then)} to {shown(now)}")

    def attempt(self, make: Callable[[], Any]) -> tuple[Any, Exception | None]:
        """Make a call that may refuse by an error of its own choice: its answer, and what it raised.

        That it ends the process breaks PORT-02 here, too.
        """
        try:
            return make(), None
        except BaseException as error:
            if not issubclass(type(error), Exception):
                raise self.raised(error, "the call") from error
            return None, cast("Exception", error)

    def announce(self, text: str, method: str) -> None:
        """A call is about to be made: it goes in the history."""
        self.steps += 1
        self.history.append(text)
        was, self.warming = self.warming, False
        if self.met is not None and method not in self.met:
            self.first(self.met, method)
        elif was and self.on_first is not None:
            self.on_first()

    def first(self, met: set[str], method: str) -> None:
        """A method is about to be called for the first time."""
        met.add(method)
        self.warming = True
        if self.on_first is not None:
            self.on_first()

    def look(self, method: str, *args: Any) -> Any:
        """Make one of the calls that only look; what it raises is judged like that of any call."""
        if self.met is not None and method not in self.met:
            self.first(self.met, method)
        try:
            return getattr(self.adapter, method)(*args)
        except NotImplementedError:
            raise
        except BaseException as error:
            raise self.raised(error, f"{method}()") from error

    @contextmanager
    def looked(self, method: str, *args: Any) -> Iterator[Any]:
        """The answer of a call that only looks, to be read inside: what is odd names the method, not the last call."""
        try:
            yield self.look(method, *args)
        except Violation as odd:
            if odd.rules == ("PORT-03",):
                odd.detail = f"{method}: {odd.detail}"
            raise

    def raised(self, error: BaseException, what: str) -> BaseException:
        """What it means that a call raised: PORT-01, or PORT-02 for what ends a process."""
        kind = type(error)  # not isinstance: what the error says of its class may be anything
        if issubclass(kind, RemoteFault):
            return self.broken(cast("RemoteFault", error).rule, f"{what} {error}")
        if issubclass(kind, Exception):
            return self.broken("PORT-01", f"{what} raised {raised_at(error)}{short_of_memory(error, self.memory_mb)}")
        if self.interruptible and issubclass(kind, KeyboardInterrupt):
            return KeyboardInterrupt()
        return self.broken("PORT-02", f"{what} tried to end the process: it raised {raised_at(error)}")

    def slots(self, answer: object) -> tuple[Slot, ...]:
        """The answer as slots; anything but a sequence of non-negative integers breaks PORT-03."""
        mine = self.granted(answer)
        if type(answer) is list:
            self.kept.add(answer)
        self.history[-1] += f" → {list(mine) if len(mine) <= SHOWN else f'{len(mine)} slots'}"
        return mine

    def granted(self, answer: object) -> tuple[Slot, ...]:
        """The same of an answer that is neither kept nor shown."""
        got = self.bounded(self.listed(answer, "slots"), "slots")
        mine = self.plain(got)
        if mine and not (min(mine) >= 0 and max(mine) < MAX_SLOT):
            lowest, highest = shown(min(mine)), shown(max(mine))
            raise self.broken("PORT-03", f"expected slots from 0 on, got {lowest} to {highest}")
        return cast("tuple[Slot, ...]", tuple(mine))

    def plain(self, got: Sequence[Any]) -> Collection[int]:
        """What a sequence of integers of whatever class holds; anything else breaks PORT-03."""
        try:
            return integers(got)
        except TypeError as error:
            odd = next(slot for slot in got if not is_integer(slot))
            detail = f"expected integer slots, got {shown(odd)} of type {type_name(odd)}"
            raise self.broken("PORT-03", detail) from error

    def slots_or_none(self, answer: object) -> tuple[Slot, ...] | None:
        """The answer as slots, where it is no refusal."""
        if answer is None:
            self.history[-1] += " → None"
            return None
        return self.slots(answer)

    def listed(self, answer: object, what: str) -> Sequence[Any]:
        """What iterates, as a list that is no longer than it may be; anything else breaks PORT-03."""
        if type(answer) is list or type(answer) is tuple:
            return answer
        with self.reading(f"a sequence of {what}"):
            if not isinstance(answer, UNORDERED) and answer is not None:
                with suppress(TypeError):
                    got = list(islice(cast("Iterable[Any]", answer), 4 * self.capacity + SPARE + 1))
                    return self.bounded(got, what)
        raise self.broken("PORT-03", f"expected a sequence of {what}, got {got_text(answer)}")

    def bounded(self, got: Sequence[Any], what: str) -> Sequence[Any]:
        """What isn't longer than it may be; anything else breaks PORT-03."""
        if len(got) > 4 * self.capacity + SPARE:
            raise self.broken("PORT-03", f"expected at most {self.capacity} {what}, got {len(got)} or more")
        return got

    @contextmanager
    def reading(self, what: str) -> Iterator[None]:
        """An answer is read: what it raises by being read breaks PORT-03, or PORT-02 where it would end the process."""
        try:
            yield
        except Violation:
            raise
        except BaseException as error:
            if not issubclass(type(error), Exception):
                raise self.raised(error, "looking at the answer") from error
            raise self.broken("PORT-03", f"expected {what}, got what raised {raised_at(error)}") from error

    def fields(self, answer: object, many: int, form: str) -> tuple[Any, ...]:
        """The answer as a tuple of so many fields; anything else breaks PORT-03."""
        if not issubclass(type(answer), tuple):
            raise self.broken("PORT-03", f"expected {form}, got {shown(answer)}")
        # Whatever its class says of its length and what it holds.
        found = tuple.__getitem__(cast("tuple[Any, ...]", answer), slice(None))
        if len(found) != many:
            raise self.broken("PORT-03", f"expected {form}, got {shown(answer)}")
        return found

    def count(self, answer: object, what: str, most: int = MAX_COUNT) -> int:
        """The answer as a count; anything but a non-negative integer of some size breaks PORT-03."""
        number = answer if type(answer) is int else integer(answer) if is_integer(answer) else -1
        if not 0 <= number <= most:
            upto = f"to {most}" if number > most else "on"
            raise self.broken("PORT-03", f"expected {what}, an integer from 0 {upto}, got {got_text(answer)}")
        return number

    def flag(self, answer: object, what: str) -> bool:
        """The answer as yes or no; anything else breaks PORT-03."""
        try:
            return whether(answer)
        except TypeError as error:
            raise self.broken("PORT-03", f"expected {what}, True or False, got {shown(answer)}") from error

    def kinds_failing(self) -> frozenset[str]:
        """The kinds of which a copy is still to fail, as the cache says."""
        kinds = self.listed(self.look("failing"), "kinds of copies")
        if not ({*map(type, kinds)} <= {str} and {*kinds} <= {*COPY_FAILURES}):
            raise self.broken("PORT-03", f"expected kinds of copies from failing, got {shown(kinds)}")
        return frozenset(kinds)

    def peek(self, tier: str, slots: Sequence[int]) -> list[int]:
        """What slots of a tier hold."""
        values = self.listed(self.look("peek", tier, list(slots)), "what slots hold")
        if len(values) != len(slots) or not (EXACT.issuperset(map(type, values)) or all(map(is_integer, values))):
            raise self.broken("PORT-03", f"expected {len(slots)} integers from peek, got {shown(values)}")
        return [*integers(values)]

    def broken(self, rule: str, detail: str) -> Violation:
        """A violation of a rule that has no facts."""
        self.evaluated[rule] += 1
        if not self.history:
            self.history.append("a look at the fresh cache")
        return Violation((rule,), self.history[-1], {}, detail)

    def watch_kept(self) -> None:
        """Sequences returned earlier must be what they were."""
        if changed := self.kept.changed():
            now, then = changed
            raise self.broken("PORT-04", f"a sequence returned earlier changed from {then} to {shown(now)}")
