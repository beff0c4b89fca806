"""Explanations: what was allowed, what was seen, in words.

Names of prefixes are turned back into tokens, sets are sorted, long things are cut short, and
whatever an adapter handed out is made harmless for terminals before it is shown.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence, Set
from typing import Any

from kvlitmus.conformance.support.brief import brief
from kvlitmus.conformance.support.text import harmless, page_text
from kvlitmus.spec.interface.tiers import Job
from kvlitmus.spec.law.actions import Group
from kvlitmus.spec.law.facts import FACTS, Facts
from kvlitmus.spec.law.rule import Rule
from kvlitmus.spec.parts import all_rules
from kvlitmus.spec.prefix.frame.explain import Effect
from kvlitmus.spec.prefix.seen import Held
from kvlitmus.spec.prefix.work import Misnamed
from kvlitmus.spec.stores.facts import Read
from kvlitmus.spec.stores.state import Entry
from kvlitmus.spec.words.names import NO_NAME, NOBODYS, Names

__all__ = ["allowed_text", "fact_text", "harmless", "name_text", "seen_texts"]

COUNTED = frozenset({"node_hits", "node_priorities", "node_locks"})
"""Facts that are pairs of what a node shows and what its use amounts to."""


BY_HASH = frozenset({"bearers"})
"""Facts that say for page hashes which prefixes they stand for."""


@functools.cache
def slotted() -> frozenset[str]:
    """The facts that are slots: sequences or sets of them."""
    typed = [one for rule in all_rules().values() for one in inspect.signature(rule.predicate).parameters.items()]
    return frozenset(fact for fact, one in typed if re.search(r"\[Slot\b", str(one.annotation)))


def in_places(facts: Facts) -> Facts:
    """Facts in which the slots of a pool of components, seen as a plain cache, are the places that were answered."""
    size = facts.get(PLACE)
    if size is None:
        return facts
    told = {name: value for name, value in facts.items() if name != PLACE}
    for name in slotted() & told.keys():
        value = told[name]
        if isinstance(value, tuple | list | Set) and {*map(type, value)} <= {int}:
            places = dict.fromkeys(slot // size for slot in value)
            told[name] = frozenset(places) if isinstance(value, Set) else tuple(places)
    return told


@functools.cache
def named() -> frozenset[str]:
    """The facts that are names of prefixes: sequences or sets of them, or what maps them to pages."""
    typed = {
        fact
        for rule in all_rules().values()
        for fact, one in inspect.signature(rule.predicate).parameters.items()
        if re.search(r"\[Name\b", str(one.annotation))
    }
    worked_out = {
        name for name, one in FACTS.items() if re.search(r"\[Name\b", str(one.compute.__annotations__["return"]))
    }
    return frozenset(typed | worked_out)


PLACES = frozenset({"locked_pages", "cached_places"})
"""Facts that are sets of names, each with a page where it is."""

PAGES = frozenset(
    {
        "store_glimpses",
        "store_wholes",
        "buffers_before",
        "buffers_after",
    }
)
"""Facts that hold the bytes of pages."""

WHERE = "where"
"""Among the facts of a broken rule: which part of the cache it speaks of, where that is not all."""

PLACE = "place"
"""Among them where that is a pool of components: so many slots its plain cache has for each place that was answered."""

LONG = 400
"""A longer text is elided in its middle, and two collections of more are told by their difference."""

MOST = 12
"""So many entries of a collection are always told."""

LONGEST_PREFIX = 24
"""Prefixes of more units are cut short."""


def name_text(names: Names, name: int) -> str:
    """The prefix that a name stands for, short."""
    if name == NO_NAME:
        return "‹never written›"
    try:
        namespace, units = names.prefix(name)  # type: ignore[arg-type]
    except IndexError:
        return f"‹{name}›"
    plain = [unit[0] if isinstance(unit, tuple) else unit for unit in units]
    text = " ".join("unknown page" if unit == NOBODYS else str(unit) for unit in plain)
    if len(units) > LONGEST_PREFIX:
        text = f"{text[:20]} … {len(units)} units"
    return f"‹{text}›" if namespace is None else f"‹{text} @{namespace}›"


def fact_text(names: Names, fact: str, value: Any) -> str:
    """A fact as a reader wants it; of a long one what stands out is told first, and the middle is left out."""
    if is_history(value):
        return " or ".join(fact_text(names, fact, moment) for moment in value)
    if fact in named() and isinstance(value, Mapping):
        text = "{" + ", ".join(f"{name_text(names, name)}: page {page}" for name, page in value.items()) + "}"
    elif fact in PLACES and isinstance(value, Set):
        text = "{" + ", ".join(f"{name_text(names, name)}: page {page}" for name, page in sorted(value)) + "}"
    elif fact in named() and isinstance(value, Set | tuple | list):
        ordered = sorted(value) if isinstance(value, Set) else value
        text = "[" + ", ".join(name_text(names, name) for name in ordered) + "]"
    elif fact in STRUCTURED and isinstance(value, tuple | list):
        text = "[" + ", ".join(STRUCTURED[fact](names, one) for one in value) + "]"
    elif fact in PAGES and isinstance(value, Set | tuple | list):
        text = pages_text(value)
    elif fact in BY_HASH and isinstance(value, Mapping):
        text = "{" + ", ".join(f"{one[:12]}…: {name_text(names, name)}" for one, name in value.items()) + "}"
    elif fact in COUNTED and isinstance(value, tuple | list):
        text = counted_text(value)
    elif isinstance(value, Set):
        text = "{" + ", ".join(map(str, sorted(value))) + "}"
    elif isinstance(value, Mapping) and value and {*map(type, value)} == {str}:
        text = counts_text(value)
    else:
        text = harmless(value, SEEN)
    return repeated_text(value) + elided(harmless(text, SEEN))


def counts_text(value: Mapping[str, Any]) -> str:
    """What is counted by name, of a component or a pool, or that of each tier: ``kv 11, swa 3``."""
    told = [
        f"{name} ({counts_text(one)})" if isinstance(one, Mapping) and {*map(type, one)} == {str} else f"{name} {one}"
        for name, one in value.items()
    ]
    return ", ".join(told)


def is_history(value: Any) -> bool:
    """Whether a fact is a collection at each of several moments, one of which a rule asks for."""
    return isinstance(value, tuple | list) and bool(value) and all(isinstance(moment, Set) for moment in value)


def held_text(names: Names, held: Held) -> str:
    """A page that doesn't hold what belongs there."""
    return f"{name_text(names, held.page)} in {held.tier} slots {list(held.slots)}: {contents_text(names, held.holds)}"


def contents_text(names: Names, holds: Sequence[int]) -> str:
    """What a page holds: whose KV it is, by its last slot."""
    last = holds[-1] if holds else NO_NAME
    return f"the KV of {name_text(names, last)}" if names.knows(last) else f"{list(holds)}, nobody's KV"


def misnamed_text(names: Names, one: Misnamed) -> str:
    """A prefix with two names, or a name with two prefixes."""
    if one.prefix == one.other:
        return f"{name_text(names, one.prefix)}: {one.name[:12]}… and {one.other_name[:12]}…"
    return f"{one.name[:12]}…: {name_text(names, one.other)} and {name_text(names, one.prefix)}"


def put_text(names: Names, put: tuple[str, tuple[int, ...]]) -> str:
    """What was put under a name."""
    name, contents = put
    return f"{name[:12]}…: {contents_text(names, contents)}"


def disorder_text(names: Names, read: tuple[str, int]) -> str:  # noqa: ARG001 - as the others
    """A page that was read where another was due."""
    return f"{read[0][:12]}…, where page {read[1]} of what was found was due"


def entry_text(names: Names, known: Entry) -> str:  # noqa: ARG001 - as the others
    """What is known of a key of a store."""
    told = [f"{pages_text(known.puts) if known.puts else 'nothing'} was put"]
    told += [] if known.due is None else [f"{page_text(known.due)} is due"]
    told += [f"damaged ({known.damage})"] if known.damage else []
    told += [f"then {pages_text(known.mended)} was put"] if known.mended else []
    return "; ".join([*told, {True: "it is there", False: "it isn't there", None: "it may be there"}[known.there]])


def read_text(names: Names, one: Read) -> str:
    """What a store returned for a key, beside what is known of that."""
    got = "a miss" if one.got is None else page_text(one.got)
    others = f"; by other ranks {pages_text(sorted(one.foreign))}" if one.foreign else ""
    return f"{got}, where {entry_text(names, one.known)}{others}"


def job_text(names: Names, job: Job) -> str:  # noqa: ARG001 - as the others
    """A job by its kind and number."""
    return f"{job.kind} {job.id}"


def inversion_text(names: Names, pair: tuple[int, int]) -> str:  # noqa: ARG001 - as the others
    """A node with more locks than the one above it."""
    return f"a node with {pair[1]} locks below one with {pair[0]}"


def effect_text(names: Names, effect: Effect) -> str:
    """An effect that was seen, and what it happened to."""
    shown = SUBJECTS[effect.what.group]
    return f"{effect.what.value}: {', '.join(shown(names, one) for one in effect.subjects)}"


def place_text(names: Names, one: Any) -> str:
    """A cached page by its prefix; of a block table with its place."""
    return f"{name_text(names, one[0])} in page {one[1]}" if isinstance(one, tuple) else name_text(names, one)


SUBJECTS: dict[Group, Callable[[Names, Any], str]] = {
    Group.DEVICE: place_text,
    Group.HOST: name_text,
    Group.PINS: name_text,
    Group.JOBS: job_text,
    Group.POOL: lambda _, page: f"page {page}",
    Group.HOST_POOL: lambda _, page: f"host page {page}",
    Group.STORAGE: lambda _, name: f"{name[:12]}…",
}
"""How the subjects of effects are shown."""

STRUCTURED: dict[str, Callable[[Names, Any], str]] = {
    **dict.fromkeys(
        (
            "odd_on_device",
            "odd_in_pool",
            "odd_on_host",
            "odd_in_host_pool",
            "odd_pins",
            "odd_jobs",
            "odd_with_storage",
        ),
        effect_text,
    ),
    "wrong_pages": held_text,
    "many_names": misnamed_text,
    "many_prefixes": misnamed_text,
    "put_wrong": put_text,
    "fetch_disorder": disorder_text,
    "acked_unlanded": job_text,
    "lock_inversions": inversion_text,
    "plain_entries": entry_text,
    "store_reads": read_text,
    "store_odd_reads": read_text,
}
"""Facts whose parts are told in words of their own."""

SEEN = 1 << 16
"""No text of a fact is looked at beyond this."""


def counted_text(pairs: Sequence[Any]) -> str:
    """Counts of nodes beside what they should be; those that are right aren't told."""
    wrong = [f"{shows} where it should be {due}" for shows, due in pairs if shows != due]
    return ", ".join(wrong) or f"{len(pairs)} nodes as it should be"


def repeated_text(value: Any) -> str:
    """What is more than once in a long sequence of numbers, to stand before it."""
    if not isinstance(value, tuple | list) or len(value) <= MOST or {*map(type, value)} != {int}:
        return ""
    twice = [str(one) for one, times in Counter(value).items() if times > 1]
    more = f" and {len(twice) - MOST} more" if len(twice) > MOST else ""
    return f"{', '.join(twice[:MOST])}{more} more than once in " if 0 < len(twice) < len(value) // 2 else ""


def elided(text: str) -> str:
    """A text that is told briefly, and without its middle where it is long all the same."""
    text = text if len(text) <= LONG else brief(text)
    return text if len(text) <= LONG else f"{text[: LONG // 2]} … {text[-LONG // 2 :]}"


def pages_text(value: Set[Any] | Sequence[Any]) -> str:
    """Pages by the names that the suite gave them, in whatever they are nested."""
    items = sorted(value, key=str) if isinstance(value, Set) else value
    texts = [
        pages_text(one)
        if isinstance(one, Set | tuple | list)
        else page_text(one)
        if one is None or isinstance(one, bytes)
        else str(one)
        for one in items
    ]
    return "[" + ", ".join(texts) + "]"


class _Shown(dict[str, str]):
    """Facts for a format string; a fact that isn't there shows as its name."""

    def __missing__(self, key: str) -> str:
        return f"‹{key}›"


def allowed_text(rule: Rule, names: Names, facts: Facts) -> str:
    """What the rule would have allowed; its sentence where it says nothing more specific.

    Of a step that was judged as one of a plainer cache: of which component, tier or rank.
    """
    facts = in_places(facts)
    if WHERE in facts:
        part = {name: value for name, value in facts.items() if name != WHERE}
        return f"{facts[WHERE]}: {allowed_text(rule, names, part)}"
    if not rule.allowed:
        return rule.text
    shown = _Shown(
        {fact: fact_text(names, fact, value) for fact, value in facts.items() if f"{{{fact}}}" in rule.allowed}
    )
    return rule.allowed.format_map(shown)


def seen_texts(rule: Rule, names: Names, facts: Facts) -> dict[str, str]:
    """The facts that the rule speaks of, as they were."""
    facts = in_places(facts)
    told = {fact: of_one_moment(facts[fact]) for fact in rule.facts if facts.get(fact, "") != ""}
    if len(told) == PAIR and all(isinstance(value, Set | Mapping) and len(value) > MOST for value in told.values()):
        one, other = told
        if set(told[one]) != set(told[other]) and (one in named()) == (other in named()):
            return {fact: difference(names, fact, told, than) for fact, than in ((one, other), (other, one))}
    return {fact: fact_text(names, fact, value) for fact, value in told.items()}


def of_one_moment(value: Any) -> Any:
    """A collection at one moment alone is that collection."""
    return value[0] if is_history(value) and len(value) == 1 else value


PAIR = 2
"""A rule of so many facts holds one against the other."""


def difference(names: Names, fact: str, facts: Mapping[str, Any], than: str) -> str:
    """A large collection that a rule holds against another one: what only it has."""
    value = facts[fact]
    only = set(value) - set(facts[than])
    part = {one: value[one] for one in value if one in only} if isinstance(value, Mapping) else only
    text = fact_text(names, fact, part) if only else "nothing"
    return f"{len(value)} entries; {text} is not in {than.replace('_', ' ')}"
