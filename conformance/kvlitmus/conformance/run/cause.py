"""The cause of a finding: what stays the same of it, whichever schedule showed it.

One bug shows in many schedules, and breaks now this rule, now another.  What stays when they are shrunk is

- the **family** of the first rule that is broken: its pack;
- the **shape** of the calls: the last one, by its method and the kind of its answer (evictions go the same way,
  whichever call lacks room), and of what is about their order the policy, where the usual one doesn't show it;
- where cache and reference **parted**: an earlier call after which the cache was not as expected any more.

How a counterexample fills the cache before that differs from seed to seed, and so do values, lengths, page sizes and
which other rules break: they are no part of it.  A baseline names the rule beside the cause, since bugs of the same
shape in one family mostly break different rules.  ``tests/conformance/test_causes.py`` measures both.
"""

from __future__ import annotations

import hashlib
import json
import re
from typing import NamedTuple

from kvlitmus.conformance.run.results import Finding
from kvlitmus.spec.parts import all_rules
from kvlitmus.spec.words.config import Config

ID = re.compile(r"[a-z]+-[0-9a-f]{8}")
"""What the id of a cause looks like."""


class Cause(NamedTuple):
    """What a finding is known by: a short id for baselines and reports, and the same in words."""

    id: str
    about: str


def cause_of(finding: Finding) -> Cause:
    """The cause of a finding; of one that was not shrunk, a guess at it."""
    pack, parted = pack_of(finding.rules[0]), parting(finding)
    last, answer = ("making room", "") if pack == "evict" else (method_of(finding.call), answer_of(finding.call))
    family = finding.rules[0] if pack == "misuse" else pack  # each of its rules is about another mistake
    policy = finding.config.policy if pack == "evict" and finding.config.policy != Config().policy else ""
    digest = hashlib.sha256(json.dumps([family, last, answer, policy, parted]).encode()).hexdigest()[:8]
    about = f"{pack}, {last}{f' → {answer}' if answer else ''}{f', policy {policy}' if policy else ''}"
    return Cause(f"{pack}-{digest}", f"{about}, parted after {parted}" if parted else about)


def pack_of(rule: str) -> str:
    """The pack of a rule; of one that this version doesn't have, what its id begins with."""
    known = all_rules().get(rule)
    return known.pack if known is not None else rule.partition("-")[0].lower()


def method_of(call: str) -> str:
    """The method of a call that is told in a text, without what it was given and answered.

    Of a call that the suite composed of others it is the last of these: they are what the cache was asked for.
    """
    if (composed := COMPOSED.search(call)) is not None:
        call = re.split(r", (?=[a-z_]+(?:[(,]| of|$))", composed[1])[-1].split(" of ")[0]
    return " ".join(re.sub(r"[\d:]+", " ", re.split(r"[\[({→]", call, maxsplit=1)[0]).split()) or "the fresh cache"


def answer_of(call: str) -> str:
    """The kind of answer that is told in the text of a call; empty, if none is: of composed calls the suite answers."""
    _, arrow, answer = call.rpartition("→")
    answer = answer.strip() if arrow and not COMPOSED.search(call) else ""
    if answer[:1] in tuple("[({"):
        return "list"
    return "number" if re.match(r"-?\d", answer) else answer.split(" ")[0].rstrip(",.:")


def parting(finding: Finding) -> str:
    """The method of the call before the last one after which the cache first wasn't as expected; empty if none."""
    at = min((int(found[1]) for text in finding.parted if (found := PARTED.match(text))), default=0)
    return method_of(finding.calls[at - 1]) if 0 < at < len(finding.calls) else ""


COMPOSED = re.compile(r"\) \(((?:match|lock|alloc|insert|free|unlock|evict).*?)\)(?: →|, begins|$)")
"""The calls of which one is composed, as its text tells them."""

PARTED = re.compile(r"call (\d+): ")
"""How it is told where state and cache parted."""
