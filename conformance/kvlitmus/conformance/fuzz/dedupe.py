"""Which findings are one and the same, and which rules rest because they are known to be broken.

Two findings have the same **shape** if the same rule leads, it is broken by the same call and, where a
text says what is wrong, that says the same but for the values in it.  (What would have been allowed says
nothing further: it is the same sentence for all violations of a rule, with other values.)  Rules that
are broken beside the leading one make a finding another one only if no finding had them before, so that
nothing hides behind what is known.  A finding is compared twice: as it is met, which saves shrinking
it again, and as it is once it has been shrunk.

A cache that breaks a rule in every schedule would let nobody see anything else.  So a rule whose
findings have been nothing new for a while **rests**: it is muted in most plays, and looked at in
some, in case it is broken in another way too.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from kvlitmus.conformance.run.results import Finding

VALUES = re.compile(r"""'[^']*'|"[^"]*"|\[[^][]*\]|\{[^{}]*\}|\([^()]*\)|‹[^›]*›|\b0x[0-9a-f]+|\d+""")
"""What is a value in a text."""

RESTS_AFTER = 20
"""A rule rests after so many findings in a row that were nothing new."""

AWAKE = 1 / 16
"""In so many plays a rule that rests is looked at all the same."""

MOST = 12
"""So many different findings of one rule are shrunk and saved; further ones are counted."""


def shape(finding: Finding) -> str:
    """The leading rule of a finding, its call, and what is said to be wrong, without any value."""
    text, before = finding.detail, ""
    while text != before:
        before, text = text, VALUES.sub("~", text)
    return f"{finding.rules[0]}|{finding.call.partition('(')[0]}|{re.sub('~(?:[, ]+~)+', '~', text)}"


@dataclass(slots=True, kw_only=True)
class Distinct:
    """One distinct finding: the shortest counterexample so far, where it is saved, how often it was met.

    new: no summary has told of it yet, so that what a killed session found is still news.
    leads: it was seen without a rule muted that was broken earlier in the same schedule.
    gone: it was known, and does not occur any more.  steady: whether it occurred again when it was played once more.
    """

    finding: Finding
    path: Path
    hits: int = 0
    new: bool = True
    leads: bool = True
    gone: bool = False
    steady: bool = True


class Known:
    """All distinct findings of a campaign.

    ``accepted``: rules that a baseline knows to be broken; they rest from the beginning.
    """

    def __init__(self, rng: random.Random, accepted: Iterable[str] = ()) -> None:
        self.rng = rng
        self.distinct: dict[str, Distinct] = {}
        self.raw: dict[str, str] = {}
        self.waiting: set[str] = set()
        self.shapes: Counter[str] = Counter()
        self.accepted = frozenset(accepted)
        self.streak: Counter[str] = Counter(dict.fromkeys(self.accepted, RESTS_AFTER))
        self.further: Counter[str] = Counter()
        self.broken: set[str] = set()

    def key(self, finding: Finding) -> str:
        """The shape of a finding, and all its rules if one of them is broken for the first time."""
        key = shape(finding)
        hides = key in self.distinct and not self.broken.issuperset(finding.rules)
        return f"{key}|{'+'.join(finding.rules)}" if hides else key

    def muted(self) -> frozenset[str]:
        """The rules that are muted in the next play."""
        return frozenset(
            rule for rule, times in sorted(self.streak.items()) if times >= RESTS_AFTER and self.rng.random() >= AWAKE
        )

    def resting(self) -> list[str]:
        """The rules that rest."""
        return sorted(rule for rule, times in self.streak.items() if times >= RESTS_AFTER)

    def meet(self, finding: Finding) -> bool:
        """Note a finding as it was met; returns whether it is worth shrinking."""
        rule, key = finding.rules[0], self.key(finding)
        known = self.distinct.get(self.raw.get(key, key))
        if known is not None:
            known.hits += 1
        if known is not None or key in self.waiting:
            self.streak[rule] += 1
            return False
        if self.shapes[rule] >= MOST:
            self.streak[rule] += 1
            self.further[rule] += 1
            return False
        self.shapes[rule] += 1
        self.waiting.add(key)
        return True

    def same_as(self, finding: Finding) -> Distinct | None:
        """The distinct finding that says the same, if there is one."""
        return self.distinct.get(self.key(finding))

    def settle(self, raw: Finding, shrunk: Finding, path: Path, *, leads: bool, steady: bool) -> Distinct | None:
        """Note what shrinking came to; returns the distinct finding if it is one that was not known."""
        first, key = self.key(raw), self.key(shrunk)
        self.waiting.discard(first)
        self.raw[first] = key
        known = self.distinct.get(key)
        if known is not None and not known.gone:
            self.streak[raw.rules[0]] += 1
            known.hits += 1
            if len(shrunk.calls) < len(known.finding.calls):
                known.finding, known.path = shrunk, path
            known.leads = known.leads or leads
            return None
        for rule in set(shrunk.rules) - self.accepted:
            self.streak[rule] = 0
        self.broken.update(shrunk.rules)
        fresh = self.distinct[key] = Distinct(finding=shrunk, path=path, hits=1, leads=leads, steady=steady)
        return fresh

    def remember(self, finding: Finding, path: Path, *, new: bool = False) -> Distinct:
        """A finding of an earlier session; ``new``: nobody was told of it."""
        self.shapes[finding.rules[0]] += 1
        known = self.distinct.setdefault(self.key(finding), Distinct(finding=finding, path=path, new=new))
        self.broken.update(finding.rules)
        return known
