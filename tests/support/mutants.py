"""Whether a mutant is noticed: one question, whatever body of code has the bug, and whoever looks.

A look plays something on a mutant, and says what it noticed: rules that were broken, or its own name.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from kvlitmus.conformance.checker.guard import Violation
from kvlitmus.conformance.generate.schedule import draw, table
from kvlitmus.conformance.isolation.current_run import CurrentRun
from kvlitmus.conformance.litmus.registry import all_litmus, litmus_of
from kvlitmus.conformance.ports import Config, Profile, Unsupported
from kvlitmus.conformance.run import plan
from kvlitmus.conformance.run.engine import HarnessError, Scheduled, fresh_checker, play
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


Known = tuple[int, int | str]
"""What kills a mutant: in which of its configurations, and the seed of a schedule or a litmus test."""

QUICKLY: dict[str, Known] = {
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
    "component-failed-write-keeps-its-pins": (0, 53),
    "component-writes-untold-evictions": (1, 12),
    "component-refused-load-publishes-its-state": (0, 28),
    "component-eviction-frees-a-tombstone": (0, 19),
    "component-write-of-what-storage-has": (0, 32),
    "component-write-forgets-the-window": (0, 27),
    "expires-though-in-use": (0, 48),
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
    "component-leaf-is-another": (0, 1),
    "rank-asks-its-own-storage": (0, 1),
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
    "retracted-before-its-load-has-landed": (0, "load/a-request-is-retracted-before-its-load-has-landed"),
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
    "component-path-forgets-a-part": (1, "component_host_keys/a-longer-key-of-another-namespace-is-backed-up-whole"),
    "component-path-stops-with-kv-alone": (
        1,
        "component_host_keys/a-longer-key-of-another-namespace-is-backed-up-whole",
    ),
    "component-path-lets-its-parts-go": (1, "component_host/what-a-backup-takes-before-it-stops-stays"),
    "rank-reserves-a-state-before-all-agree": (0, "ranks/a-rank-that-is-gone-costs-no-state"),
    "component-refused-load-hides-what-it-evicted": (2, "component_host/a-refused-load-back-says-what-it-has-evicted"),
    "release-queue-counts-as-free": (1, 0),
    "component-write-of-a-part-protects-nothing": (0, "component_storing/what-comes-during-a-write-may-stay"),
    "rank-second-state-is-lost": (0, "ranks/a-boundary-that-is-read-twice-has-one-state"),
    "abort-frees-what-is-being-read": (3, "fetch/a-read-that-was-aborted-overwrites-nobody"),
    "component-backup-once-for-all-namespaces": (
        0,
        "component_host_keys/a-longer-key-of-another-namespace-is-backed-up-whole",
    ),
    "quota-after-adding": (1, 13),
    "rank-states-by-the-length": (0, 9),
    "component-path-reads-what-may-go": (2, "component_host/what-a-copy-along-its-path-reads-stays"),
    "prefetch-of-what-the-host-has": (4, 17),
    "rank-window-is-its-own": (0, 4),
    "component-refused-backup-hides-what-it-evicted": (3, "component_host/a-refused-backup-says-what-it-has-evicted"),
    "component-failed-write-counts": (0, "component_storing/a-write-that-fails-is-made-again"),
    "component-load-of-whole-backups": (1, "component_host_keys/a-key-parts-from-what-is-on-the-host"),
    "rank-ends-a-prefetch-by-itself": (0, 3),
    "stale-revocation-ends-the-next": (3, "fetch/a-late-message-does-not-hit-the-next-prefetch"),
    "host-eviction-stops-at-the-first-node": (6, 11),
    "rank-commits-what-it-has-read": (0, 1),
    "rank-state-moves-up": (0, "ranks/a-state-goes-with-its-page"),
    "restored-counts-as-duplicate": (3, "life/what-finds-no-memory-changes-nothing"),
    "rank-commit-drops-a-state": (0, "ranks/a-state-stays-where-another-one-was-not-read"),
    "component-prefetch-evicts-before-it-asks": (1, 2),
    "rank-state-stays-where-it-was": (0, "ranks/boundaries-are-those-where-all-ranks-have-a-state"),
    "refused-retraction-has-ended": (1, 6),
    "rank-hit-without-states": (0, "ranks/boundaries-are-those-where-all-ranks-have-a-state"),
    "host-parent-never-a-candidate": (6, 11),
    "component-backup-evicts-the-latest": (0, "component_order/room-for-a-backup-is-made-in-order"),
    "detach-forgets-the-dying": (1, "life/a-detach-ends-what-nobody-waits-for"),
    "rank-state-of-the-key": (0, "ranks/a-state-is-one-however-short-a-prefetch-is-cut"),
    "landing-flushes-the-tiers": (3, 13),
    "component-write-of-what-is-on-the-device": (0, "component_storing/nothing-is-written-that-the-host-lacks"),
    "fetch-is-longer-than-its-memory": (3, "fetch/a-late-message-does-not-hit-the-next-prefetch"),
    "memory-runs-out-too-late": (2, "life/what-finds-no-memory-changes-nothing"),
    "component-write-protects-nothing": (0, "component_storing/what-a-write-reads-stays"),
    "rank-takes-a-state-that-others-have": (0, "ranks/a-state-fits-the-rank-with-least-room"),
    "component-refill-under-a-lock": (0, 7),
    "rank-packs-states-that-it-has": (0, "ranks/a-state-is-of-its-own-boundary"),
    "prefetch-overwrites-its-namesake": (3, "fetch/the-gates-of-a-prefetch"),
    "reset-keeps-a-host-page": (0, "life/a-reset-forgets-receipts"),
    "component-backup-by-depth": (0, "component_host_keys/two-keys-part-behind-one-page"),
    "component-write-protects-the-kv-alone": (0, "component_storing/what-a-write-reads-stays"),
    "reset-keeps-prefetches": (3, "life/a-reset-forgets-what-is-under-way"),
    "component-copy-refusal-leaks": (0, "component_host/a-refusal-takes-nothing"),
    "component-full-host-refuses": (0, "component_host/a-refused-backup-says-what-it-has-evicted"),
    "component-write-reads-what-lands": (2, "component_storing/what-is-written-comes-back"),
    "rank-knows-the-request-before": (0, "ranks/a-request-that-is-aborted-is-retried"),
    "component-detach-forgets-writes": (0, "component_storing/what-a-write-reads-stays"),
    "reset-keeps-the-release-queue": (3, "life/a-reset-forgets-what-is-under-way"),
    "detach-frees-whole-reservations": (3, "life/a-detach-ends-what-is-under-way"),
    "component-drop-asks-for-states": (1, "components/states-are-sparse"),
    "component-writes-where-the-kv-ends": (1, 4),
    "component-pair-stays-tied": (0, 3),
    "write-back-loses-what-does-not-fit": (0, "fetch/a-commit-meets-what-was-computed-meanwhile"),
    "request-moves-its-tail": (0, 2),
    "rank-windows-go-without-a-word": (0, "ranks/a-state-fits-the-rank-with-least-room"),
    "component-host-spares-what-the-device-had": (1, "component_host/a-refusal-takes-nothing"),
    "component-write-needs-the-kv-alone": (0, "component_storing/nothing-is-written-that-the-host-lacks"),
    "rank-window-of-a-longer-prefix": (0, "ranks/a-state-is-of-its-own-boundary"),
    "seam-within-a-page": (0, 2),
    "component-landing-is-taken-twice": (2, "component_host/what-is-on-its-way-counts"),
    "commit-frees-twice": (2, "fetch/a-commit-meets-what-was-computed-meanwhile"),
    "commit-replaces-the-branch": (3, "fetch/a-commit-meets-what-was-computed-meanwhile"),
    "commit-below-the-unbacked": (4, "fetch/a-commit-below-what-is-not-backed-up"),
    "sparse-swap-moves-before-it-looks": (1, 24),
    "rank-ends-before-the-state": (0, "ranks/a-state-is-of-its-own-boundary"),
    "retracted-keeps-its-lock": (0, 15),
    "component-unlock-after-a-load-back": (0, "component_host/a-receipt-does-not-cover-what-is-loaded-back"),
    "rank-skips-a-poll-it-need-not-make": (0, 17),
    "rank-commit-names-pages-that-go": (0, 3),
    "rank-states-go-while-they-are-read": (0, "ranks/a-prefetch-keeps-its-state"),
    "component-path-goes-beyond": (2, "component_host/what-is-on-its-way-counts"),
    "whole-prompt-hit": (0, 6),
    "component-refill-leaks": (2, 3),
    "query-restarts-the-chain": (1, "backup/names-do-not-depend-on-splits"),
    "a-load-makes-room-from-the-newest": (2, "load/a-load-makes-room-in-order-and-no-more-than-needed"),
    "rank-writes-what-nobody-has-room-for": (0, "ranks/a-backup-fits-the-rank-with-least-room"),
    "rank-clock-ends-a-prefetch": (0, "ranks/a-clock-that-runs-ahead-ends-nothing"),
    "empty-insert-moves-the-anchor": (1, 12),
    "a-load-makes-room-for-all": (3, "load/a-load-makes-room-in-order-and-no-more-than-needed"),
    "rank-ends-at-the-limit": (0, "ranks/a-clock-that-runs-ahead-ends-nothing"),
    "component-load-of-any-namespace": (1, "component_host_keys/a-namespace-has-its-own-host-memory"),
    "rank-no-state-when-cut-short": (0, "ranks/a-state-is-one-however-short-a-prefetch-is-cut"),
    "load-resident-before-it-can-begin": (2, "load/a-load-that-cannot-begin-is-declined"),
    "rank-caches-a-page-more-than-was-read": (0, "ranks/a-state-is-of-its-own-boundary"),
    "component-policy-is-always-lru": (2, "component_order/what-comes-last-is-used-last"),
    "component-load-beyond-the-parting": (1, "component_host_keys/a-key-parts-from-what-is-on-the-host"),
    "one-flag-keeps-the-lock": (0, 19),
    "component-copy-overwrites": (0, "component_host/two-backups-land-once"),
    "component-load-keeps-old-pairs": (4, "component_host_keys/a-key-parts-from-what-is-on-the-host"),
    "rank-drops-a-state-by-its-own-room": (0, "ranks/a-state-fits-the-rank-with-least-room"),
    "rank-packs-what-it-has": (0, "ranks/reads-that-end-apart-are-committed-alike"),
    "request-makes-room-to-spare": (0, 0),
    "put-under-the-name-before": (1, "backup/names-do-not-depend-on-when-storage-came"),
    "ranks-drop-a-page-more-alike": (0, 3),
    "null-slot-is-freed": (0, 2),
    "component-eviction-of-two-empties-both": (1, "components/components-go-one-by-one"),
    "revived-counts-as-duplicate": (0, 2),
    "component-load-of-one-tier": (0, "component_host/a-load-back-ends-where-both-tiers-can-together"),
    "component-write-goes-by-the-kv": (0, "component_storing/a-window-and-a-state-are-written-alone"),
    "cached-when-scheduled": (1, 0),
    "a-filter-in-place-of-the-policy": (0, 15),
    "failed-load-counts-as-landed": (0, "load/what-a-request-holds-is-loaded-again"),
    "component-prefetch-protects-the-state": (0, "component_prefetch/the-anchor-stays-and-its-state-may-go"),
    "rank-evicts-without-a-word": (0, "ranks/what-goes-for-a-load-is-a-victim"),
    "component-hit-is-raised": (0, 9),
    "component-prefetch-keeps-its-anchor": (0, "component_prefetch/a-refusal-lets-the-anchor-go"),
    "fetch-loses-a-page-of-its-memory": (0, "fetch/a-late-message-does-not-hit-the-next-prefetch"),
    "component-prefetch-anchor-may-go": (0, "component_prefetch/the-anchor-stays-and-its-state-may-go"),
    "overlap-slot-freed-twice": (1, 2),
    "room-from-the-newest": (0, 22),
    "put-restarts-the-chain": (1, "backup/names-do-not-depend-on-when-storage-came"),
    "component-load-of-bigrams-by-token": (0, "component_host_keys/a-bigram-on-the-host-knows-its-next-token"),
    "ranks-refuse-to-prefetch-alike": (0, 1),
    "failed-backup-gives-up": (1, "backup/a-backup-that-cannot-begin-waits-for-the-next-use"),
    "component-detach-frees-what-is-written": (0, "component_storing/storage-goes-during-a-fetch"),
    "rank-page-goes-without-its-state": (0, "ranks/a-state-goes-with-its-page"),
    "component-prefetch-evicts-the-latest": (1, "component_order/room-for-a-prefetch-is-made-in-order"),
    "failed-backup-stays-busy": (1, "backup/a-backup-that-cannot-begin-waits-for-the-next-use"),
    "component-commit-keeps-the-anchor": (0, "component_prefetch/the-anchor-stays-and-its-state-may-go"),
    "rank-reads-what-it-has": (0, "ranks/what-the-host-has-is-not-read-again"),
}
"""Mutants that hide from what aims at them, or from the first of it, and what kills each at once."""


def quickly(one: Mutant, known: Mapping[str, Known] = QUICKLY) -> set[str]:
    """The one schedule or litmus test that is known to kill a mutant, if any: without it others do, later."""
    if one.id not in known:
        return set()
    place, what = known[one.id]
    config = one.configs[place]
    if isinstance(what, str):
        return tried(one, [Item(kind="litmus", config=config, name=what)])
    ops = draw(what, plan.OPS, kinds_of(one, config))
    _, violation = play(one.target, config, Options(), Scheduled(ops))
    return set(violation.rules if violation is not None else ())


@cache
def litmus_items(configs: tuple[Config, ...], profile: Profile) -> tuple[Item, ...]:
    """The litmus tests of a run, configuration by configuration: many mutants have the same."""
    return tuple([item for item in plan.items(configs, profile, steps=0) if item.kind == "litmus"])


def litmus(one: Mutant) -> set[str]:
    """The litmus tests, played as in a run: what is broken is muted, and the test played again."""
    return tried(one, litmus_items(one.configs, one.profile))


def shared(one: Mutant, every: int = 1) -> set[str]:
    """Each litmus test once, in one of the configurations that it fits: which one is another for each mutant.

    ``every``: every third of them alone, for instance; which ones are others for each mutant.
    """
    turn = list(all_mutants()).index(one.id)
    fitting: dict[str, list[Item]] = {}
    for item in litmus_items(one.configs, one.profile):
        fitting.setdefault(item.name, []).append(item)
    chosen = [items[(turn + place) % len(items)] for place, items in enumerate(fitting.values())]
    return tried(one, chosen[turn % every :: every])


def aimed(one: Mutant) -> set[str]:
    """Those litmus tests that aim at a rule that it names."""
    names = {test.id for test in all_litmus().values() if set(test.rules).intersection(one.kills)}
    return tried(one, (item for item in litmus_items(one.configs, one.profile) if item.name in names))


def tried(one: Mutant, items: Iterable[Item]) -> set[str]:
    """What litmus tests break, up to a kill; one that breaks a rule is played again past it, as in a run."""
    broken: set[str] = set()
    has = cache(lambda config: fresh_checker(one.target, config, Options(), CurrentRun()).capabilities)
    for item in items:
        muted: frozenset[str] = frozenset()
        for _ in range(0 if one.killed_by(broken) else PLAYS):
            found = broken_in(one, item, muted, has)
            broken |= found
            muted |= found
            if not found or one.killed_by(broken) or any(rule.startswith("PORT-") for rule in found):
                break
    return broken


def broken_in(one: Mutant, item: Item, muted: frozenset[str], has: Callable[[Config], frozenset[str]]) -> set[str]:
    """What one play of a litmus test breaks: no finding is told, so it isn't played again to be looked at."""
    test = litmus_of(item.name)
    try:
        if not test.needs <= has(item.config):
            return set()
        config = replace(item.config, page_size=test.page) if test.page else item.config
        _, violation = play(one.target, config, Options(muted=muted), test.program)
    except (HarnessError, Unsupported):
        return set()
    return set(violation.rules if violation is not None else ())


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
