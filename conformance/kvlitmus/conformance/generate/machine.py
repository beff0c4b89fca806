"""The same calls as a rule-based state machine, for those who drive tests with Hypothesis.

``machine(target, config)`` makes a :class:`hypothesis.stateful.RuleBasedStateMachine` whose rules
make the checker's calls: loans, receipts and requests are bundles, every rule of every pack is
judged after each call, and what is left at the end is given back.  Hypothesis is an extra; it is
imported when a machine is made, not before.

    >>> from hypothesis.stateful import run_state_machine_as_test
    >>> from kvlitmus.conformance.generate.machine import machine
    >>> run_state_machine_as_test(machine(my_target, Config(page_size=4)))  # doctest: +SKIP

The engine of this suite plays the same calls faster (``benchmarks/engine.py``); a machine is worth
its price where it joins others in one test suite, or where its shrinking is wanted.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, TypeVar

from kvlitmus.conformance.checker.calls.prefix import pool, request, tree
from kvlitmus.conformance.checker.checker import Checker, Loan
from kvlitmus.conformance.generate.actions.registry import MAX_LOANS, MAX_RECEIPTS, MAX_REQUESTS
from kvlitmus.conformance.generate.interpreter import Interpreter
from kvlitmus.conformance.generate.schedule import evict_size, fitted, make_key, more_tokens
from kvlitmus.conformance.ports import Config

Rule = TypeVar("Rule", bound=Callable[..., Any])


class Driver:
    """What the rules of a machine do; it counts and remembers nothing that the checker knows."""

    def __init__(self, target: Any, config: Config) -> None:
        adapter = target.make(config)
        self.config = config
        self.checker = Checker(adapter, config, target.profile)
        self.interpreter = Interpreter(self.checker)
        self.serial = 1_000_000

    def number(self) -> int:
        """A number that nothing has yet."""
        self.serial += 1
        return self.serial

    def can(self, *ports: str) -> bool:
        """Whether the cache has these ports."""
        return self.checker.capabilities.issuperset(ports)

    def alloc(self, pages: int) -> int | None:
        """Allocate some pages; the number of the loan."""
        slots = pool.alloc(self.checker, pages * self.config.page_size) if len(self.checker.loans) < MAX_LOANS else None
        if not slots:
            return None
        loan = self.number()
        self.checker.loans[loan] = Loan(slots)
        return loan

    def free(self, loan: int) -> None:
        """Give a loan back, unless a reset did."""
        if loan in self.checker.loans:
            pool.free(self.checker, self.checker.loans.pop(loan).slots)

    def lock(self, numbers: tuple[int, int, int]) -> int | None:
        """Match a key and lock what was found; the number of the receipt."""
        if len(self.checker.receipts) >= MAX_RECEIPTS:
            return None
        key, receipt = fitted(self.checker.profile, make_key(self.config, *numbers)), self.number()
        tree.lock(self.checker, tree.match(self.checker, key), key, receipt)
        return receipt

    def unlock(self, receipt: int) -> None:
        """Give a receipt back, unless a reset did."""
        if receipt in self.checker.receipts:
            tree.unlock(self.checker, receipt)

    def begin(self, numbers: tuple[int, int, int], ahead: bool) -> int | None:
        """Begin a request, to be computed later if ``ahead`` and the cache lets it; its id."""
        if len(self.checker.requests) >= MAX_REQUESTS:
            return None
        rid, key = self.number(), fitted(self.checker.profile, make_key(self.config, *numbers))
        return rid if request.begin(self.checker, rid, key, ahead=ahead and self.can("partial")) else None

    def grow(self, rid: int, a: int, b: int) -> None:
        """Grow a request."""
        running = self.checker.requests.get(rid)
        if running is not None and len(running.row) < 12 * self.config.page_size:
            request.grow(self.checker, rid, more_tokens(self.config, a, b))

    def publish(self, rid: int, chunked: bool, units: int) -> None:
        """Publish a request, of which so many units more are computed by now."""
        if rid in self.checker.requests:
            request.compute(self.checker, rid, units)
            request.publish(self.checker, rid, chunked=chunked, upto=self.checker.requests[rid].upto)

    def end(self, rid: int, keep: bool) -> None:
        """Finish or abort a request."""
        if rid in self.checker.requests:
            request.end(self.checker, rid, keep=keep, upto=self.checker.requests[rid].upto)


def machine(target: Any, config: Config, observers: Any = None) -> Any:
    """The class of a state machine over one target in one configuration.

    ``observers``, if given, is called with the :class:`Driver` of each run when it ends.
    """
    from hypothesis import strategies as st
    from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, multiple, precondition, rule

    byte = st.integers(0, 255)
    three = st.tuples(byte, byte, byte)

    def maybe(number: int | None) -> Any:
        return multiple() if number is None else number

    def has(*ports: str) -> Callable[[Rule], Rule]:
        guard: Callable[[Rule], Rule] = precondition(lambda self: self.driver.can(*ports))
        return guard

    class CacheMachine(RuleBasedStateMachine):
        loans: Bundle[int] = Bundle("loans")
        receipts: Bundle[int] = Bundle("receipts")
        running: Bundle[int] = Bundle("running")

        def __init__(self) -> None:
            super().__init__()
            self.driver = Driver(target, config)

        @has("pool")
        @rule(target=loans, pages=st.integers(1, 4))
        def alloc(self, pages: int) -> Any:
            return maybe(self.driver.alloc(pages))

        @rule(loan=consumes(loans))
        def free(self, loan: int) -> None:
            self.driver.free(loan)

        @has("pool", "extend")
        @rule(numbers=three)
        def extend(self, numbers: tuple[int, int, int]) -> None:
            self.driver.interpreter.do("extend", *numbers)

        @has("pool", "extend")
        @rule(numbers=three)
        def decode(self, numbers: tuple[int, int, int]) -> None:
            self.driver.interpreter.do("decode", *numbers)

        @has("pool", "group")
        @rule(a=byte)
        def group(self, a: int) -> None:
            self.driver.interpreter.do("group", a, 0, 0)

        @has("tree")
        @rule(numbers=three)
        def match(self, numbers: tuple[int, int, int]) -> None:
            self.driver.interpreter.do("match", *numbers)

        @has("pool", "tree")
        @rule(numbers=three)
        def insert(self, numbers: tuple[int, int, int]) -> None:
            self.driver.interpreter.do("insert", *numbers)

        @has("tree", "locks")
        @rule(target=receipts, numbers=three)
        def lock(self, numbers: tuple[int, int, int]) -> Any:
            return maybe(self.driver.lock(numbers))

        @rule(receipt=consumes(receipts))
        def unlock(self, receipt: int) -> None:
            self.driver.unlock(receipt)

        @has("evict")
        @rule(a=byte)
        def evict(self, a: int) -> None:
            tree.evict(self.driver.checker, evict_size(config, a))

        @has("requests")
        @rule(target=running, numbers=three, ahead=st.booleans())
        def begin(self, numbers: tuple[int, int, int], ahead: bool) -> Any:
            return maybe(self.driver.begin(numbers, ahead))

        @rule(rid=running, a=byte, b=byte)
        def grow(self, rid: int, a: int, b: int) -> None:
            self.driver.grow(rid, a, b)

        @rule(rid=running, chunked=st.booleans(), units=st.integers(0, 3 * config.page_size))
        def publish(self, rid: int, chunked: bool, units: int) -> None:
            self.driver.publish(rid, chunked, units)

        @rule(rid=consumes(running), keep=st.booleans())
        def end(self, rid: int, keep: bool) -> None:
            self.driver.end(rid, keep)

        @has("reset")
        @rule(a=byte)
        def reset(self, a: int) -> None:
            self.driver.interpreter.do("reset", a, 0, 0)

        def teardown(self) -> None:
            if sys.exc_info()[0] is None:  # a run that ended with a violation has nothing more to say
                self.driver.interpreter.settle()
            if observers is not None:
                observers(self.driver)

    CacheMachine.__qualname__ = CacheMachine.__name__ = f"CacheMachine[{config.label}]"
    return CacheMachine
