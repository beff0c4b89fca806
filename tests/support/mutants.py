"""Whether a mutant is noticed: one question, whatever body of code has the bug, and whoever looks.

A look plays something on a mutant, and says what it noticed: rules that were broken, or its own name.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

from kvlitmus.conformance.checker.guard import Violation
from kvlitmus.conformance.generate.schedule import draw, table
from kvlitmus.conformance.isolation.current_run import CurrentRun
from kvlitmus.conformance.litmus.registry import all_litmus
from kvlitmus.conformance.ports import Config
from kvlitmus.conformance.run import plan
from kvlitmus.conformance.run.engine import Scheduled, fresh_checker, play, run_item
from kvlitmus.conformance.run.results import Item, Options
from kvlitmus.mutants.mutant import Mutant
from kvlitmus.mutants.registry import all_mutants

PLAYS = 5
"""How often a litmus test is played at most, as in a run."""

Look = Callable[[Mutant], Iterable[str]]

Original = Any
"""What is replaced: a function, or a method of a class."""

Change = Callable[[Original], Any]
"""What makes a replacement out of an original, which it calls where all goes on as before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Patched(Mutant):
    """A mutant of a body that has no part for what is wrong.

    ``patches``: what is replaced, by its place (``module:function``, ``module:Class.method``), while it is planted.
    """

    patches: Mapping[str, Change]


@contextmanager
def planted(one: Mutant) -> Iterator[None]:
    """For a while what a mutant patches is replaced; one that is made of parts needs nothing."""
    with ExitStack() as undo:
        for place, change in one.patches.items() if isinstance(one, Patched) else ():
            owner, name = found_at(place)
            original = inspect.getattr_static(owner, name)
            undo.callback(*((setattr, owner, name, original) if name in vars(owner) else (delattr, owner, name)))
            setattr(owner, name, change(original))
        yield


def found_at(place: str) -> tuple[Any, str]:
    """The module or class at a place, and the name in it."""
    module, _, path = place.partition(":")
    owner: Any = importlib.import_module(module)
    *classes, name = path.split(".")
    for one in classes:
        owner = getattr(owner, one)
    return owner, name


def noticed(one: Mutant, *looks: Look) -> set[str]:
    """What these notice of a mutant, look by look, up to the first that kills it."""
    found: set[str] = set()
    with planted(one):
        for look in looks:
            found.update(look(one))
            if one.killed_by(found):
                break
    return found


def assert_killed(one: Mutant, *looks: Look) -> None:
    """What the mutant names notices it."""
    found = noticed(one, *looks)
    assert one.killed_by(found), f"{one.id}: none of {one.kills} noticed it, but {sorted(found)}"


def schedules(steps: int, seed: int = 0, ops: int = plan.OPS) -> Look:
    """Drawn schedules of so many operations, so many steps of them: what they break, up to a kill or an alarm."""

    def look(one: Mutant) -> set[str]:
        broken: set[str] = set()
        kinds = cache(lambda config: kinds_of(one, config))
        done = number = 0
        while done < steps and not one.killed_by(broken) and not (one.null and broken):
            config = one.configs[number % len(one.configs)]
            drawn = draw(seed + number, ops, kinds(config))
            checker, violation = play(one.target, config, Options(), Scheduled(drawn))
            broken.update(violation.rules if violation is not None else ())
            done += checker.steps
            number += 1
        return broken

    return look


def kinds_of(one: Mutant, config: Config) -> tuple[str, ...]:
    """What a run would draw for it in a configuration: what the cache has, and what the suite has for it."""
    return table(fresh_checker(one.target, config, Options(), CurrentRun()).capabilities)


QUICKLY = {
    "fetch-without-memory": (1, 4),
    "component-writes-back-its-own-boundary": (0, 1),
    "child-before-its-parent": (3, 1),
    "rank-rejoins-as-it-is": (0, 2),
    "parent-stays-among-the-leaves": (1, 0),
    "fetch-evicts-before-its-gates": (3, 3),
    "rank-writes-by-its-own-room": (0, 1),
    "component-copies-share-a-pin": (0, 4),
    "rank-keeps-the-tail": (0, 0),
    "rank-polls-while-there-is-room": (0, 0),
    "revoked-keeps-its-anchor": (0, 0),
    "a-filter-forgets-the-parent": (0, 0),
    "request-hits-are-held-late": (0, 30),
    "failed-backup-leaves-its-host-pages": (3, 0),
    "component-writes-wait-for-a-free-host": (0, 1),
    "prefetch-behind-a-gap": (1, 0),
    "reset-keeps-the-quota": (2, 1),
    "added-includes-what-was-there": (4, 0),
    "chunks-count-as-uses": (0, 0),
    "component-inserts-do-not-count": (0, 4),
    "component-failed-write-keeps-its-pins": (0, 3),
    "detach-keeps-anchors": (6, 2),
    "detach-drops-the-host": (3, 2),
    "second-release-of-an-anchor": (1, 3),
    "load-evicts-its-own-path": (0, 13),
    "failed-load-keeps-a-part": (4, 2),
    "a-copy-makes-room-for-all": (3, 2),
    "commit-of-the-hit": (0, 0),
    "host-eviction-takes-inner-nodes": (3, 0),
    "failed-load-keeps-its-lock": (3, 3),
    "fetch-that-gives-up-keeps-its-anchor": (3, 12),
    "drop-below-the-unbacked-leaks": (1, 0),
    "abort-of-a-finished-read-leaks": (6, 1),
    "split-copies-the-pin": (0, 8),
    "copies-in-another-order": (2, 0),
    "rank-window-goes-to-the-page-before": (0, 11),
    "rank-second-prefetch-takes-the-window": (0, 9),
    "rank-asks-for-states-where-it-has-none": (0, 27),
    "rank-state-where-it-was-read": (0, 1),
    "ranks-prefetch-a-page-less-alike": (0, 3),
    "load-makes-no-room": (1, 4),
    "ranks-evict-what-is-copied-alike": (0, 0),
    "ranks-refuse-to-load-alike": (0, 0),
    "ranks-refuse-to-abort-alike": (0, 2),
    "fetch-threshold-exceeded": (4, 0),
    "component-probation-has-no-end": (0, 4),
    "request-touches-before-it-asks": (0, 4),
    "load-noted-before-it-has-landed": (4, 0),
    "load-sources-not-pinned": (1, 3),
    "reset-is-not-told": (2, 1),
    "rank-loads-are-noted-alone": (0, 1),
    "rank-page-goes-without-its-state": (0, 1),
    "component-leaf-is-another": (0, 1),
    "rank-asks-its-own-storage": (0, 1),
    "commit-below-the-unbacked": (1, 1),
    "ranks-insert-a-page-less-alike": (0, 1),
    "rank-grants-by-its-own-room": (0, 1),
    "rank-checks-loads-on-its-own-event": (0, 2),
    "rank-keeps-the-window": (0, 2),
    "failed-load-keeps-its-slots": (0, 8),
    "poll-forgets-who-must-wait": (1, 0),
    "rank-hit-is-its-own": (0, 0),
    "request-caches-again-what-it-left": (0, 2),
    "idle-cache-takes-no-note": (3, 0),
    "rank-keeps-the-state-it-did-not-commit": (0, 0),
    "rank-abort-keeps-the-state": (0, 2),
    "rank-abort-gives-back-nothing": (0, 2),
    "half-an-allocation-is-lost": (6, 0),
    "ranks-refuse-to-evict-alike": (0, 0),
    "ranks-lose-the-host-copy-alike": (0, 0),
    "ranks-insert-is-no-use-alike": (0, 12),
    "ranks-evict-a-page-more-alike": (0, 0),
    "rank-keeps-the-state-of-nothing": (0, 0),
    "split-loses-the-pending-half": (6, 0),
    "put-reads-by-another-index": (4, 0),
    "component-frontier-of-the-tokens": (0, 0),
    "ack-unlocks-twice": (3, 0),
    "ranks-evict-the-newest-alike": (0, 0),
    "component-copy-refusal-keeps-its-pins": (0, 11),
    "component-landing-is-not-pinned": (7, 2),
    "copied-after-the-pages-are-gone": (4, 2),
    "component-load-keeps-old-pairs": (5, 1),
    "resume-counts-what-waits-on-the-host": (1, 6),
    "waits-for-an-end-that-has-passed": (1, 0),
    "batch-skips-the-check": (1, 0),
    "demoted-parent-never-a-candidate": (4, 0),
    "quota-by-hit": (5, 0),
    "branch-before-others": (2, 2),
    "sparse-swap-hits-as-wanted": (0, 0),
    "fetch-makes-no-room": (6, 1),
    "growing-drops-the-namespace": (1, 0),
    "component-load-of-no-state-alone": (0, 7),
    "split-renews-the-rest": (1, 0),
    "rank-half-of-a-grant-is-lost": (0, 1),
}
"""Mutants that hide from what aims at them: by which of their configurations and which seed one schedule kills each."""


def quickly(one: Mutant, known: Mapping[str, tuple[int, int]] = QUICKLY) -> set[str]:
    """The one schedule that is known to kill a mutant, where there is one: without it others do, later."""
    if one.id not in known:
        return set()
    place, seed = known[one.id]
    config = one.configs[place]
    ops = draw(seed, plan.OPS, kinds_of(one, config))
    _, violation = play(one.target, config, Options(), Scheduled(ops))
    return set(violation.rules if violation is not None else ())


def litmus(one: Mutant) -> set[str]:
    """The litmus tests, played as in a run: what is broken is muted, and the test played again."""
    return tried(one, plan.items(one.configs, one.profile, steps=0))


def shared(one: Mutant, every: int = 1) -> set[str]:
    """Each litmus test once, in one of the configurations that it fits: which one is another for each mutant.

    ``every``: every third of them alone, for instance; which ones are others for each mutant.
    """
    turn = list(all_mutants()).index(one.id)
    fitting: dict[str, list[Item]] = {}
    for item in plan.items(one.configs, one.profile, steps=0):
        fitting.setdefault(item.name, []).append(item)
    chosen = [items[(turn + place) % len(items)] for place, items in enumerate(fitting.values())]
    return tried(one, chosen[turn % every :: every])


def aimed(one: Mutant) -> set[str]:
    """Those litmus tests that aim at a rule that it names."""
    names = {test.id for test in all_litmus().values() if set(test.rules).intersection(one.kills)}
    return tried(one, (item for item in plan.items(one.configs, one.profile, steps=0) if item.name in names))


def tried(one: Mutant, items: Iterable[Item]) -> set[str]:
    """What litmus tests break, up to a kill; one that breaks a rule is played again past it, as in a run."""
    broken: set[str] = set()
    for item in items:
        muted: frozenset[str] = frozenset()
        for _ in range(PLAYS if item.kind == "litmus" and not one.killed_by(broken) else 0):
            options = Options(muted=muted, reruns=0, shrink_trials=0)
            found = {rule for finding in run_item(one.target, item, options).findings for rule in finding.rules}
            broken |= found
            muted |= found
            if not found or one.killed_by(broken) or any(rule.startswith("PORT-") for rule in found):
                break
    return broken


def fails(name: str, test: Callable[[], object], *errors: type[BaseException]) -> Look:
    """A test, which notices what makes it fail: with a violation, an assertion, or one of these errors."""
    failures: tuple[type[BaseException], ...] = (Violation, AssertionError, *errors)

    def look(_: Mutant) -> tuple[str, ...]:
        try:
            test()
        except failures:
            return (name,)
        return ()

    return look
