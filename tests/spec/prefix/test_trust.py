"""After a broken rule: who is accused then is accused of what can still be trusted."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from kvlitmus.conformance.checker import checker as checkers
from kvlitmus.conformance.generate.schedule import draw, table
from kvlitmus.conformance.run.engine import Scheduled, make_checker, play, run_item
from kvlitmus.conformance.run.results import Item, Options
from kvlitmus.mutants.registry import all_mutants
from kvlitmus.spec.parts import all_rules
from kvlitmus.spec.prefix.frame.trust import CACHED, LOCKS, OWNERS, DistrustedError, contradicted, distrusting, parted
from kvlitmus.spec.prefix.page import Page
from kvlitmus.spec.prefix.seen import Seen
from kvlitmus.spec.prefix.state import State, Tier, empty_state
from kvlitmus.spec.words.config import Config
from kvlitmus.spec.words.profile import Profile
from kvlitmus.spec.words.setting import Setting
from kvlitmus.spec.words.units import PageNo, Tick
from tests.support.night import by_turns

SETTING = Setting(Config(), Profile(), 3, frozenset())
(FIRST, SECOND) = SETTING.names.of(None, (1, 2))


def known(*, owned: Iterable[int] = (), locked: bool = False, cached: bool = True) -> State:
    """One page is cached in page 7, under a receipt if it is locked; some are owned."""
    page = Page(SETTING.names.root(None), PageNo(7), Tick(0), Tick(0), locks=int(locked))
    state = empty_state()._replace(
        device=Tier({FIRST: page} if cached else {}, Tick(0)),
        owners={PageNo(one): 1 for one in owned},
    )
    return state._replace(receipts={1: FIRST}) if locked else state


def seen(free: tuple[int, ...], cached: tuple[int, ...] = (7,)) -> Seen:
    pages = tuple(map(PageNo, free))
    one = Seen(seen=True, listed=pages, free=frozenset(pages), cached_listed=[*map(PageNo, cached)])
    one.cached.update(zip([FIRST], one.cached_listed, strict=False))
    return one


@pytest.mark.parametrize(
    ("state", "sight", "expected"),
    [
        (known(owned=[1]), seen((2, 3)), set()),
        (known(owned=[1], locked=True), seen((2, 3)), set()),
        (known(owned=[2]), seen((2, 3)), {OWNERS}),
        (known(owned=[7]), seen((2, 3)), {OWNERS}),
        (known(), seen((2, 3, 3)), {OWNERS}),
        (known(), seen((2, 7)), {OWNERS}),
        (known(locked=True, cached=False), seen((2, 3, 7), ()), {OWNERS, LOCKS}),
    ],
)
def test_what_the_snapshot_contradicts_is_named(state: State, sight: Seen, expected: set[str]) -> None:
    assert contradicted(state, sight, SETTING) == expected


def test_without_a_snapshot_nothing_is_contradicted() -> None:
    assert contradicted(known(owned=[2]), Seen(), SETTING) == set()


def test_what_is_not_trusted_cannot_be_read_and_the_rest_can() -> None:
    state = distrusting(known(owned=[1], locked=True), frozenset({LOCKS}))
    assert state.device.pages[FIRST].page == 7
    assert state.owners == {1: 1}
    with pytest.raises(DistrustedError):
        _ = state.device.pages[FIRST].locks
    with pytest.raises(DistrustedError):
        _ = state.receipts


def test_where_state_and_cache_part_is_told_though_the_snapshot_is_believed() -> None:
    moved = seen((2, 3), (5,))
    assert parted(known(), known(), moved, SETTING) == [CACHED]
    assert parted(known(cached=False), known(), seen((2, 3)), SETTING) == [CACHED]
    assert parted(known(), known(cached=False), seen((2, 3, 7), ()), SETTING) == [], "it was evicted"


def test_a_finding_says_where_state_and_cache_first_parted() -> None:
    """A lock is lost when a node is split; no rule that is judged here says so before something is evicted."""
    one = all_mutants()["split-forgets-locks"]
    muted = frozenset(id for id in all_rules() if not id.startswith("EVICT"))
    for seed in range(40):
        item = Item(kind="random", config=one.configs[0], seed=seed, ops=250)
        schedule = tuple(draw(seed, 250, table(make_checker(one.target, item.config, Options()).capabilities)))
        checker, violation = play(one.target, item.config, Options(muted=muted), Scheduled(schedule), watches=True)
        if violation is not None and violation.rules[0] in {"EVICT-01", "EVICT-05"}:
            break
    ((at, what),) = checker.parted
    assert what == LOCKS
    assert at < len(checker.history)
    assert checker.history[at - 1].startswith(("match", "insert", "begin", "publish"))


CONSEQUENCES: dict[str, set[str]] = {
    "last-unlock-frees": set(),
    "split-forgets-locks": {"PORT-01"},
    "resumed-without-a-lock": set(),
    "match-without-split": set(),
    "abort-releases-nothing": {"REQ-15"},
    "tail-page-stranded": {"REQ-15"},
    "refusal-keeps-pages": set(),
    "answer-is-the-free-list": set(),
    "pinned-is-evicted": {"EVICT-03", "EVICT-05", "TREE-07", "PORT-01"},
    "bulk-path-ignores-locks": {"TREE-07", "PORT-01"},
    "old-pages-after-replacement": {"TREE-07", "PORT-01"},
    "parent-stays-among-the-leaves": {"REQ-10", "FRAME-02"},
}
"""Mutants with one fault, and what they are accused of, beside what breaks first, in six schedules."""

FIRST_SEED = {"old-pages-after-replacement": 5}
"""Where the schedules begin that show what a mutant would be accused of as well; few retract what was published."""

WITHOUT: dict[str, set[str]] = {
    "split-forgets-locks": {"EVICT-05"},
    "pinned-is-evicted": {"POOL-12", "POOL-14", "LOCK-04", "REQ-02", "TREE-03"},
    "bulk-path-ignores-locks": {"POOL-12", "POOL-14", "LOCK-04"},
    "old-pages-after-replacement": {"POOL-15"},
}
"""Of what some were accused as well, as long as what contradicts the snapshot was believed."""


def accused(id: str) -> tuple[set[str], set[str]]:
    """The rules that broke first in a schedule, and those that broke only after others were muted."""
    one = all_mutants()[id]
    first: set[str] = set()
    later: set[str] = set()
    for config in one.configs[:2]:
        for seed in range(start := FIRST_SEED.get(id, 0), start + 3):
            item = Item(kind="random", config=config, seed=seed, ops=250)
            for finding in run_item(one.target, item, Options(shrink_trials=0, reruns=6)).findings:
                (later if finding.after else first).update(finding.rules)
                assert set(finding.after).isdisjoint(finding.rules)
    return first, later - first


@pytest.mark.parametrize("id", by_turns(CONSEQUENCES, every=2))
def test_a_cache_with_one_fault_is_accused_of_what_the_fault_breaks(id: str) -> None:
    first, later = accused(id)
    assert first
    assert later <= CONSEQUENCES[id]


@pytest.mark.parametrize("id", by_turns(WITHOUT, every=2))
def test_without_distrust_it_would_be_accused_of_more(id: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkers, "contradicted", lambda *_: frozenset())
    assert WITHOUT[id] <= accused(id)[1]
