"""All states of a small pool of sparse rows: each call is made in each of them, and each step judged by every rule.

A search is a pool that is empty, the calls that are made in a state, what tells states apart, and how the next state is
known: it follows from call and answer, as a judge follows it, or it is the one that the pool itself is in.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from typing import NamedTuple

from kvlitmus.conformance.checker.judge import Judge
from kvlitmus.reference import sparse as reference
from kvlitmus.spec.interface.sparse import SPARSE_PORTS, SparseView
from kvlitmus.spec.law.facts import UNKNOWN
from kvlitmus.spec.law.occasions import occasions_of
from kvlitmus.spec.parts import all_rules
from kvlitmus.spec.sparse.calls import SparseCall, SparseDone, SparseSeen
from kvlitmus.spec.sparse.lift import LAWS, lifted
from kvlitmus.spec.sparse.state import SparseState, advance_sparse
from kvlitmus.spec.words.config import Config
from kvlitmus.spec.words.profile import Profile
from kvlitmus.spec.words.setting import SNAPSHOT, Setting
from tests.support.step_judge import StepJudge

CAPABILITIES = frozenset(SPARSE_PORTS)
RULES = [rule for rule in all_rules().values() if rule.pack == "sparse"]
OF_POOLS = Judge(
    {id: all_rules()[id] for id in sorted(LAWS)},
    depth=SNAPSHOT,
    capabilities=frozenset({"pool", "inspect"}),
    muted=frozenset(),
)
"""Who judges the host memory as the pool that it is."""

Perform = Callable[[SparseState, SparseCall], tuple[SparseState, SparseDone]]
"""What a pool does with a call in a state."""
Found = tuple[Counter[str], int, list[str]]
"""How often each rule was evaluated, how many states there are, and what was broken first, in words."""


def seen(pool: SparseState) -> SparseSeen:
    """All that can be seen of the reference."""
    size = pool.page_size
    free = tuple([page * size + at for page in reference.free_pages(pool) for at in range(size)])
    return SparseSeen(reference.available(pool), SparseView(free, {n: row.slots for n, row in pool.rows.items()}))


def broken_as_pool(judge: StepJudge, state: SparseState, call: SparseCall, answer: SparseDone) -> tuple[str, ...]:
    """The laws of pools that a step breaks; they are counted with the rules of rows."""
    for one in lifted(judge.setting, state, call, answer, advance_sparse(state, call, answer)):
        on = () if one.call is UNKNOWN else occasions_of(one.call, one.answer, one.state, one.setting, one.before)
        OF_POOLS.step(on, one.inputs, one.unknown, told=False)
        judge.evaluated.update([id for id in OF_POOLS.tally.plan.rules if id not in OF_POOLS.not_judged])
        if OF_POOLS.broken:
            return OF_POOLS.broken
    return ()


class SparseSearch(NamedTuple):
    """What a search goes through.

    ``calls``: all that can be done in a state; ``key``: what tells states apart; ``seen``: all that can be seen of one.
    ``follows``: the next state is what is known by call and answer; it is the pool's own one otherwise.
    """

    calls: Callable[[SparseState], Iterable[SparseCall]]
    key: Callable[[SparseState], Hashable]
    seen: Callable[[SparseState], SparseSeen] = seen
    follows: bool = True

    def broken_in(self, empty: SparseState, performed: Perform, profile: Profile) -> Found:
        """What is found from an empty pool on, until no state is new or a rule is broken."""
        config = Config(page_size=empty.page_size, pages=empty.pages, pool="sparse")
        setting = Setting(config, profile, SNAPSHOT, CAPABILITIES)
        found, todo, judge = {self.key(empty)}, [empty], StepJudge(RULES, CAPABILITIES, setting)
        while todo:
            pool = todo.pop()
            state = pool._replace(seen=self.seen(pool))
            for call in self.calls(pool):
                own, answer = performed(pool, call)
                if wrong := judge.broken(state, call, answer) or broken_as_pool(judge, state, call, answer):
                    return judge.evaluated, len(found), [f"{', '.join(wrong)}: {call} in {self.key(pool)} → {answer}"]
                then = advance_sparse(pool, call, answer) if self.follows else own
                if (key := self.key(then)) not in found:
                    found.add(key)
                    todo.append(then)
        return judge.evaluated, len(found), []
