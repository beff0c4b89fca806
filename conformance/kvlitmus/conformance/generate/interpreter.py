"""The interpreter: plays the operations of a schedule as a lawful caller would.

The operations themselves are in :mod:`kvlitmus.conformance.generate.actions`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from kvlitmus.conformance.checker.calls.misuse import OWN_AGAIN, go_on
from kvlitmus.conformance.checker.guard import Violation
from kvlitmus.conformance.generate.actions import ACTIONS
from kvlitmus.conformance.generate.caller import Caller
from kvlitmus.conformance.generate.naming import Gone, Naming
from kvlitmus.conformance.generate.schedule import ENDINGS, Op


class Interpreter(Caller):
    """Plays schedules against one checker."""

    actions = ACTIONS

    def play(
        self,
        ops: Sequence[Op],
        *,
        most: int | None = None,
        began: list[int] | None = None,
        naming: Naming | None = None,
    ) -> None:
        """Play all operations, up to one that is misuse, then settle: give back what is held and empty the cache.

        ``most``: it ends after so many calls, if given.  ``began``: where it is noted how many had been made when each
        operation began, and when all had been played.  ``naming``: where it is noted what each was about.
        """
        actions, history = self.actions, self.checker.history
        began = [] if began is None else began
        if naming is None and any(ops[at].of >= 0 for at in range(len(ops))):
            naming = Naming()
        self.naming = naming
        for at, (kind, a, b, c, of) in enumerate(ops):
            if most is not None and len(history) >= most:
                return
            began.append(len(history))
            if naming is not None:
                naming.begin(at, of, self.alive())
            try:
                actions[kind](self, a, b, c)
            except Gone:
                continue
            if self.misused:
                break
        if most is not None and len(history) >= most:
            return
        began.append(len(history))
        if not self.misused:
            self.settle()
        elif not self.checker.overwrites:
            self.go_on_lawfully()
        else:
            without = partial(self.broken_by, ops, self.misused)
            go_on(self.checker, self.go_on_lawfully, without, self.misused)

    def go_on_lawfully(self) -> None:
        """What is to be looked at after misuse, then settle."""
        self.afterwards()
        self.settle()

    def broken_by(self, ops: Sequence[Op], rule: str) -> Sequence[str]:
        """The rules that a fresh cache breaks without what this one is about; any, where there is none to be had.

        Of arrays that are overwritten: all is played again, and nothing overwritten.  Of misuse: it is left out.
        """
        checker = self.checker
        if checker.again is None:
            return tuple(checker.rules)
        another = Interpreter(checker.again())
        try:
            if rule == OWN_AGAIN:
                another.checker.overwrites = False
                another.play(ops)
            else:
                another.play([op for op in ops if op.kind not in ENDINGS])
        except Violation as violation:
            return violation.rules
        return ()

    def do(self, kind: str, a: int = 0, b: int = 0, c: int = 0) -> None:
        """Play one operation."""
        self.actions[kind](self, a, b, c)
