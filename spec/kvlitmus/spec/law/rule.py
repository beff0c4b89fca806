"""What a rule is, and the register of all rules.

A rule is a function.  Its **docstring** is the normative sentence; its **parameters** name the
**facts** it speaks of (:mod:`kvlitmus.spec.law.facts`); its **result** says whether the sentence is
true.  It is pure and total, so prose, symbolic execution, enumeration and judge all use this
one function, and text and logic cannot drift apart.

Rules of upkeep:

* an id is never reused and never renumbered; a rule that turns out wrong is retired in
  :data:`RETIRED` with the reason;
* a rule looks at the facts it is given and at nothing else;
* whether a rule can be judged at a **depth** of observation follows from its facts alone.
"""

from __future__ import annotations

import enum
import inspect
import re
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from kvlitmus.spec.law.actions import What, occasions_of_rule
from kvlitmus.spec.law.facts import FACTS, digests_of, worked_out_from
from kvlitmus.spec.law.fingerprint import Source, digest, everything
from kvlitmus.spec.law.on import On

Predicate = TypeVar("Predicate", bound=Callable[..., bool])


class Strength(enum.Enum):
    """How much is lost when a rule is broken."""

    MUST = "MUST"
    """A broken rule is a defect: the verdict is *violated*."""
    SHOULD = "SHOULD"
    """A broken rule is a weakness that somebody may have chosen: the verdict is *warned*."""


class Kind(enum.Enum):
    """What a rule is a statement about."""

    STATE = "state"
    """An invariant: true after every step."""
    STEP = "step"
    """A relation between what was asked, what was answered, before and after."""
    HISTORY = "history"
    """A statement about a whole run."""
    PROCEDURE = "procedure"
    """A sentence and a litmus test, no predicate (crash safety, misuse, error texts)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One rule with everything that is known about it."""

    id: str
    """Like ``TREE-03``; never reused."""
    title: str
    """Its name, in words."""
    text: str
    """The normative sentence."""
    strength: Strength
    """How much is lost when it is broken."""
    kind: Kind
    """What it is a statement about."""
    pack: str
    """Which pack of rules it belongs to."""
    on: tuple[On, ...]
    """The occasions on which a rule of steps is judged."""
    facts: tuple[str, ...]
    """The facts that it speaks of, by name."""
    needs: frozenset[str]
    """Capabilities beyond those that its occasions imply."""
    source: str
    """Where it comes from."""
    reference: str
    """The function of the reference that shows how one correct cache keeps it."""
    allowed: str
    """A format string over the facts that says what would have been right."""
    predicate: Callable[..., bool]
    """Whether the sentence is true of these facts."""
    premise: str = ""
    """Names the fact that says when the rule has something to say: where it is false, zero or empty (with ``not``
    before it: where it is true) the rule is kept whatever the cache does, or as good as. It is judged all the same, but
    that doesn't count as an evaluation, so a rule that never had anything to say doesn't read as passed.
    """

    @property
    def depth(self) -> int:
        """The least depth of observation at which all facts of the rule can be known."""
        return max((FACTS[name].depth for name in self.facts), default=0)

    @property
    def digest(self) -> str:
        """Twelve hex digits that change with the rule's logic: its predicate, its facts, or when it is judged.

        No words are in it, and no names that can be chosen freely (:mod:`kvlitmus.spec.law.fingerprint`).
        """
        return self.digest_by(everything())

    def digest_by(self, source: Source) -> str:
        """The same, where only a part of the sources counts."""
        facts = digests_of((*self.facts, *[self.premise_fact] * bool(self.premise)), source)
        judged = (self.id, self.strength.value, self.kind.value, [str(one) for one in self.on], sorted(self.needs))
        premise = f"{self.negated} {facts[self.premise_fact]}" if self.premise else ""
        return digest(f"{judged} {premise} {[facts[one] for one in self.facts]} {source.of(self.predicate)}")

    @property
    def sentence(self) -> str:
        """Twelve hex digits that change with the rule's words alone: its sentence, and what would have been right.

        What facts are called, which that speaks of, is no part of it.
        """
        return digest(f"{self.text}\n{re.sub('{[^}]*}', '{}', self.allowed)}")

    @property
    def premise_fact(self) -> str:
        """The fact that the premise is about; empty without a premise."""
        return self.premise.removeprefix(NOT)

    @property
    def premise_text(self) -> str:
        """The premise in words; empty without one."""
        if not self.premise:
            return ""
        text = FACTS[self.premise_fact].meaning
        return f"not: {text}" if self.negated else text

    @property
    def negated(self) -> bool:
        """Whether the premise is true where its fact is not."""
        return self.premise.startswith(NOT)

    def idle(self, value: object) -> bool:
        """Whether the rule has nothing to say where the fact of its premise is this; that must be known."""
        return bool(value) == self.negated


NOT = "not "
"""How a premise begins that is true where its fact is not."""

RULES: dict[str, Rule] = {}
"""The rules that have been registered, by id; all of them are :func:`kvlitmus.spec.parts.all_rules`."""


class Retired(NamedTuple):
    """Why an id is no longer in force, and the rule that says now what it said; empty where none does."""

    why: str
    by: str = ""


_ON_BOTH = "one rule says it of device and host"
_OF_CALLS = "one rule says it of all calls"
_OF_DEPTHS = "one rule says it of a snapshot and of counters"
_OF_POOLS = "each pool of each tier is judged as the plain cache that it is"

RETIRED: dict[str, Retired] = {
    id: Retired(why, by)
    for why, by, ids in (
        (_OF_CALLS, "TREE-04", "LOCK-05"),
        (_OF_CALLS, "BACKUP-01", "BACKUP-12"),
        (_OF_CALLS, "BACKUP-02", "BACKUP-13"),
        (_OF_CALLS, "FETCH-12", "FETCH-15"),
        (_OF_DEPTHS, "EVICT-02", "EVICT-22"),
        (_OF_POOLS, "POOL-06", "SPARSE-04"),
        (_OF_POOLS, "POOL-04", "SPARSE-05 COMP-06 COMP-25 COMP-35 CREQ-04"),
        (_OF_POOLS, "POOL-12", "SPARSE-19 COMP-17 COMP-45"),
        (_OF_POOLS, "POOL-13", "SPARSE-20"),
        (_OF_CALLS, "SPARSE-06", "SPARSE-08 SPARSE-15 SPARSE-35 SPARSE-37 SPARSE-50"),
        (
            _OF_CALLS,
            "SPARSE-17",
            "SPARSE-16 SPARSE-18 SPARSE-21 SPARSE-29 SPARSE-36 SPARSE-41 SPARSE-51 SPARSE-61 SPARSE-64",
        ),
        (_OF_CALLS, "SPARSE-34", "SPARSE-33"),
        (_OF_CALLS, "SPARSE-48", "SPARSE-49 SPARSE-62"),
        (_OF_POOLS, "TREE-02", "COMP-01 COMP-02 COMP-03"),
        (_OF_POOLS, "TREE-03", "COMP-04"),
        (_OF_POOLS, "POOL-01", "COMP-05"),
        (_OF_POOLS, "POOL-07", "COMP-07"),
        (_OF_POOLS, "LOCK-01", "COMP-14 COMP-44 COMP-60"),
        (_OF_POOLS, "TREE-05", "COMP-18 COMP-46"),
        (_OF_POOLS, "POOL-10", "COMP-08"),
        (_OF_POOLS, "TREE-11", "COMP-09"),
        (_OF_POOLS, "LOAD-11", "COMP-33 COMP-34"),
        (_OF_POOLS, "EVENT-01", "COMP-48"),
        (_OF_POOLS, "EVENT-02", "COMP-49"),
        (_OF_POOLS, "EVENT-08", "COMP-51"),
        (_OF_POOLS, "EVENT-09", "COMP-52"),
        (_ON_BOTH, "COMP-12", "COMP-38"),
        (_ON_BOTH, "COMP-13", "COMP-39"),
        (_ON_BOTH, "POOL-10", "COMP-41"),
        (_ON_BOTH, "COMP-15", "COMP-42"),
        (_ON_BOTH, "COMP-16", "COMP-43"),
        (_ON_BOTH, "COMP-19", "COMP-47"),
        (_ON_BOTH, "COMP-49", "COMP-50"),
        (_ON_BOTH, "COMP-63", "COMP-64"),
        ("each rank is a plain cache, and what one may read is said of that", "FETCH-06", "RANKS-17"),
        ("each rank is a plain cache, and what a load back brings is said of that", "LOAD-01", "RANKS-20"),
        ("each rank is a plain cache, and what a match finds is said of that", "TREE-02", "RANKS-21"),
        ("each rank is a plain cache, and no page that others occupy has another home", "POOL-12", "RANKS-22"),
        ("each rank is a plain cache, and the home of each page is said of that", "POOL-12", "RANKS-23"),
        ("states come as windows and pages do", "RANKS-31", "RANKS-28"),
        ("which copies are acknowledged, and in which order, is one sentence", "RANKS-10", "RANKS-09 RANKS-11"),
        ("which collectives are entered, and with what, is one sentence", "RANKS-04", "RANKS-05"),
        ("when a prefetch ends is one sentence", "RANKS-12", "RANKS-13"),
        ("what a commit adds is one sentence", "RANKS-14", "RANKS-15"),
        ("a state is committed as a window is", "RANKS-16", "RANKS-27"),
        ("what is named is so, victim or commit", "RANKS-29", "RANKS-33"),
        ("what goes is named, whoever was asked", "RANKS-30", "RANKS-34"),
        ("the home of each page is one law on every tier", "POOL-12", "TIER-01 TIER-02"),
        ("pages are whole on every tier", "TREE-06", "TIER-03"),
        ("what can be reached is one law on every tier", "TREE-05", "TIER-05 TIER-06"),
        ("what pages hold is one law on every tier", "TIER-08", "TIER-07"),
        ("what an eviction has to keep is one law on every tier", "EVICT-03", "TIER-14"),
        ("what an eviction frees is one law on every tier", "EVICT-04", "TIER-16"),
        ("hits are counted alike on every tier", "TREE-13", "TIER-25"),
        ("priorities are kept alike on every tier", "TREE-14", "TIER-26"),
        ("what goes first is one law on every tier", "EVICT-05", "TIER-30"),
        ("how much may go is one law on every tier", "EVICT-06", "TIER-31"),
        ("how much is evicted is one law, whatever it is for", "COMP-13", "COMP-24 COMP-37"),
        ("what is copied is one law, to a tier or to storage", "COMP-32", "COMP-57"),
        ("a receipt covers exactly what it is for", "COMP-10", "COMP-11"),
        ("a request holds exactly what it is computed with", "CREQ-01", "CREQ-02"),
        ("while storage is away there is nothing to fetch", "COMP-20", "COMP-62"),
        ("whatever ends gives back what it had", "COMP-29", "COMP-30 COMP-31 COMP-40 COMP-61"),
        ("whatever is wrong with a request, it is refused", "SPARSE-12", "SPARSE-10 SPARSE-11 SPARSE-46"),
        ("a detach ends all work with storage", "LIFE-05", "FETCH-18"),
        ("whatever is declined leaves nothing", "LOAD-04", "LIFE-10"),
        ("whichever gate is shut, nothing happens", "PREFETCH-01", "PREFETCH-02 PREFETCH-03"),
        ("whatever the contract forbids is treated as declared", "MISUSE-02", "MISUSE-07"),
        ("whoever takes pages takes free ones", "POOL-05", "REQ-06"),
        ("whatever grows fills its last page first", "POOL-17", "REQ-05"),
        ("a request that finishes is inserted", "TREE-08", "REQ-08"),
        ("what is published in part is published", "REQ-04", "REQ-12"),
        ("a copy that failed brings nothing, to whichever tier", "LOAD-08", "BACKUP-10"),
    )
    for id in ids.split()
}
"""Ids that are never used again."""


def in_force(id: str) -> str:
    """The rule that says now what the rule of this id said; the id itself where that is in force, or nothing says it."""
    while id in RETIRED and RETIRED[id].by:
        id = RETIRED[id].by
    return id


def said_before(id: str) -> tuple[str, ...]:
    """The retired ids of what a rule says now."""
    return tuple(old for old in RETIRED if in_force(old) == id)


def rule(
    id: str,
    *,
    kind: Kind | None = None,
    on: On | What | tuple[On | What, ...] = (),
    strength: Strength = Strength.MUST,
    pack: str = "",
    needs: tuple[str, ...] = (),
    source: str,
    reference: str = "",
    allowed: str = "",
    premise: str = "",
) -> Callable[[Predicate], Predicate]:
    """Register a predicate as a rule; the predicate itself is returned unchanged.

    ``id`` is like ``TREE-03``; the part before the dash, in lower case, is the pack unless ``pack`` says otherwise.
    ``on`` names the occasions on which a rule of steps is judged, or an effect: then these are all occasions that may
    have it (:mod:`kvlitmus.spec.law.actions`).  A rule without any is an invariant, unless ``kind`` says what else it
    is.  ``needs`` names capabilities beyond those that the calls in ``on`` imply.  ``source`` is where the rule comes
    from (the map's id, a paper, an upstream change).  ``reference`` is the function of the reference that shows how one
    correct cache keeps the rule.  ``allowed`` is a format string over the facts that says what would have been right;
    it is shown in explanations.  ``premise``: see :class:`Rule`.

    Raises ``ValueError`` for an id that is in use, retired or malformed, an unknown fact, and a rule without a sentence.
    """

    def register(predicate: Predicate) -> Predicate:
        text = inspect.getdoc(predicate) or ""
        facts = tuple(inspect.signature(predicate).parameters)
        unknown = [name for name in facts if name not in FACTS]
        prefix, _, number = id.partition("-")
        if not (prefix.isupper() and number.isdigit()):
            raise ValueError(f"rule id must look like TREE-03 (got {id!r})", id)
        if id in RULES or id in RETIRED:
            raise ValueError(f"rule id {id} is already taken or retired; ids are never reused", id)
        if unknown:
            raise ValueError(f"{id}: unknown facts {unknown}; add them to kvlitmus.spec.law.facts", id, unknown)
        if not text:
            raise ValueError(f"{id} has no sentence", id)
        check_premise(id, premise.removeprefix(NOT), facts)
        RULES[id] = Rule(
            id=id,
            title=predicate.__name__.replace("_", " "),
            text=" ".join(text.split()),
            strength=strength,
            kind=kind or (Kind.STEP if on else Kind.STATE),
            pack=pack or prefix.lower(),
            on=occasions_of_rule(on),
            facts=facts,
            needs=frozenset(needs),
            source=source,
            reference=reference,
            allowed=allowed,
            predicate=predicate,
            premise=premise,
        )
        return predicate

    return register


def check_premise(id: str, name: str, facts: Collection[str]) -> None:
    """Raise ``ValueError`` for a premise that is no fact, or that can't be known wherever the rule is judged."""
    if not name:
        return
    if name not in FACTS:
        raise ValueError(f"{id}: its premise {name!r} is no fact", id, name)
    known = {one for fact in worked_out_from(facts) for one in (fact, *FACTS[fact].needs)}
    depth = max((FACTS[one].depth for one in facts), default=0)
    ports = frozenset[str]().union(*(FACTS[one].ports for one in worked_out_from(facts)))
    asked = [one for one in worked_out_from((name,)) if one not in known]
    deeper = [one for one in asked if FACTS[one].depth > depth or not FACTS[one].ports <= ports]
    if deeper:
        raise ValueError(f"{id}: its premise needs {deeper}, which can't be known wherever the rule is judged", id)
