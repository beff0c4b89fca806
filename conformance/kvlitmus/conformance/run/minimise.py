"""Minimising: the shortest counterexample for each broken rule of a run.

Shrinking costs a few hundred plays.  A cache with one bug may break the same rule in every
schedule, so a run first plays everything without shrinking, and then shrinks, for each rule, a
few of the schedules that broke it.

A litmus test makes its calls itself: it is written down as a schedule, which is shrunk if it breaks a rule, too.

That happens in rounds.  The first round takes what broke first in its schedule.  What only broke
after another rule had been muted is shrunk in later rounds, with all rules muted that have their
counterexample already.  So the number of rounds, not the number of rules, decides how often
worker processes have to be started.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from dataclasses import replace
from time import monotonic
from typing import NamedTuple

from kvlitmus.conformance.run.cause import cause_of
from kvlitmus.conformance.run.results import Finding, Item, ItemResult, Options

Play = Callable[[Sequence[Item], Options], Iterable[ItemResult]]
"""Plays items with options; results come in the order of the items."""

ROUNDS = 6
CANDIDATES = 2
FURTHER = 6
MOST = 48
"""Shrunk per rule and round, as many more for further causes, and in all per round."""

TRIALS = 32_000
"""Schedules that are tried in a round, shared among those that are shrunk in it."""

LEAST_TRIALS = 100
"""Each of them has so many trials at least."""

TOTAL = 900.0
"""Seconds for shrinking, in all: a net for targets that are slow or hang.  Where it ends the search, that is said."""

BRIEF = 8
"""Calls of a counterexample that is short enough to explain all rules that it breaks at once."""

DEATH = "PORT-02"
"""Schedules that end the process are shrunk by the supervisor itself."""


class Short(NamedTuple):
    """A short counterexample; ``leads``: no other rule had been muted before."""

    finding: Finding
    leads: bool


def ranked(result: ItemResult) -> Iterator[Short]:
    """The findings of an item; the first leads, and what comes after the death of a worker, which mutes nothing."""
    leads = True
    for finding in result.findings:
        yield Short(finding, leads)
        leads = leads and DEATH in finding.rules


def minimise(
    results: Sequence[ItemResult],
    play: Play,
    options: Options,
    *,
    seconds: float = TOTAL,
    jobs: int = 1,
    total: float = TOTAL,
) -> list[Short]:
    """Short counterexamples from the drawn schedules of a run.

    Each is shrunk by so many trials, so that what is found depends on the schedules alone.  ``seconds`` bounds each
    single one, and all together get about ``total``: when calls are slow, each of ``jobs`` processes shrinks for its
    share of what is left, a second at least.
    """
    until = monotonic() + total
    raw = [one for result in results for one in ranked(result)]
    raw = [one for one in raw if shrinkable(one.finding)]
    found: list[Short] = []
    done: set[str] = set()
    for number in range(ROUNDS):
        chosen = choose([one.finding for one in raw if one.leads or number], done)
        left = until - monotonic()
        if number and (not chosen or left <= 0):
            break
        items = [item_of(one) for one in chosen]
        muted = options.muted | done
        share = max(1.0, min(seconds, left * jobs / max(1, len(items))))
        trials = max(LEAST_TRIALS, min(options.shrink_trials, TRIALS // max(1, len(items))))
        again = replace(options, muted=muted, reruns=0, shrink_trials=trials, shrink_seconds=share)
        for one, result in zip(chosen, play(items, again), strict=False):
            if not result.findings:
                # It broke nothing by itself; to try it again shows nothing.
                raw = [other for other in raw if other.finding is not one]
                if not one.litmus:
                    done.add(next(rule for rule in one.rules if rule not in muted))
            for short in result.findings:
                short.item, short.drawn_steps = one.item, max(one.steps, short.drawn_steps)
                found.append(Short(short, number == 0))
                done.update(short.rules if len(short.calls) <= BRIEF else short.rules[:1])
    return found


def shrinkable(finding: Finding) -> bool:
    """Whether there is something to shrink: a schedule that ends no process, or a long litmus test."""
    if DEATH in finding.rules:
        return False
    return bool(finding.schedule) if not finding.litmus else len(finding.calls) > BRIEF


def item_of(finding: Finding) -> Item:
    """What is played to shrink a finding."""
    if finding.litmus:
        return Item(kind="transcript", config=finding.config, name=finding.litmus)
    return Item(kind="schedule", config=finding.config, schedule=tuple(finding.schedule))


def choose(findings: Sequence[Finding], done: Set[str]) -> list[Finding]:
    """Which findings to shrink: for each rule that has no counterexample yet the few with the shortest runs.

    Those of different configurations come first.  A litmus test is one more: its schedule may break nothing.  As long
    as there is room, so is the shortest run of each further cause, by what can be guessed of it before it is shrunk: a
    fault that nobody knows must not hide behind one that breaks the same rule more often.
    """
    by_rule: dict[str, list[Finding]] = {}
    for one in findings:
        rule = next((rule for rule in one.rules if rule not in done), "")
        if rule:
            by_rule.setdefault(rule, []).append(one)
    each = CANDIDATES if len(by_rule) * CANDIDATES <= MOST else 1
    chosen: list[Finding] = []
    others: list[Finding] = []
    for found in by_rule.values():
        found.sort(key=lambda one: len(one.calls))
        chosen += [one for one in found if one.litmus][:1]
        found = [one for one in found if not one.litmus]
        first = {one.config.label: one for one in reversed(found)}
        varied = [one for one in found if first[one.config.label] is one]
        few = [*varied, *(one for one in found if first[one.config.label] is not one)][:each]
        chosen += few
        causes = {cause_of(one).id: one for one in reversed([*few, *found])}
        others += [one for one in causes.values() if one not in few][:FURTHER]
    return [*chosen, *sorted(others, key=lambda one: len(one.calls))][:MOST]
