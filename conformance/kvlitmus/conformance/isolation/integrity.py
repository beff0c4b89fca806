"""Integrity: whether the judge in a worker still is what it was before the adapter came.

Adapter and judge share a process, and Python protects neither from the other.  So when a worker has judged, two
things are looked at in that very worker.  First the code: what every function and constant of the judge is, noted
before the adapter was imported, is noted again.  Then what it comes to: faults that are planted in the built-in
cache, one for each pack of rules that was judged, go through all that the items went through, and what is answered must
be what a process answers that has never seen the adapter.

This notices a judge that was changed and left so.  It does not notice what an adapter changes during a call and puts
back, what it does to the objects of one play alone, or code that knows of these looks and deceives them.
"""

from __future__ import annotations

import builtins
import sys
from collections.abc import Collection, Iterator, Mapping
from functools import cache
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any, NamedTuple

from kvlitmus.conformance.isolation.current_run import CurrentRun
from kvlitmus.conformance.isolation.process import Death, Process
from kvlitmus.conformance.litmus.registry import all_litmus
from kvlitmus.conformance.run import engine
from kvlitmus.conformance.run.results import Item, ItemResult, Options, result_from_json, to_json
from kvlitmus.conformance.support.text import harmless
from kvlitmus.mutants.registry import mutant_of
from kvlitmus.spec.parts import all_rules


class Planted(NamedTuple):
    """A mutant, the module that has it, and a litmus test that finds it."""

    module: str
    mutant: str
    test: str


PLANTED = (
    Planted("prefix.pool", "counter-read-after-the-swap", "pool/allocate-and-free"),
    Planted("prefix.pool", "answer-is-the-free-list", "pool/allocate-and-free"),
    Planted("prefix.keys", "pages-reported-as-units", "tree/what-was-inserted-is-matched"),
    Planted("prefix.lock", "lookup-pins", "tree/what-was-inserted-is-matched"),
    Planted("prefix.evict", "evicted-never-counted", "lock/what-is-locked-survives-every-eviction"),
    Planted(
        "prefix.request", "row-not-remapped", "request/the-slower-of-two-equal-requests-goes-on-with-the-others-pages"
    ),
    Planted("prefix.hashing", "hash-big-endian", "hashing/keys-with-known-hashes"),
    Planted("prefix.prefetch", "prefetch-truncates-first", "prefetch/key-8-8-after-eviction"),
    Planted("prefix.backup", "copy-forgets-the-last-slot", "tier/a-page-goes-from-the-device-to-the-host-and-away"),
    Planted("prefix.backup", "selective-is-not", "tier/a-page-goes-from-the-device-to-the-host-and-away"),
    Planted("prefix.load", "next-layer-told-ready", "tier/what-goes-down-and-comes-back-is-the-same"),
    Planted("prefix.fetch", "aborted-gets-cached", "fetch/an-aborted-request-leaves-nothing-at-any-stage"),
    Planted("prefix.life", "attach-replaces-storage", "life/storage-is-attached-once-and-detached-once"),
    Planted("prefix.event", "eviction-is-not-told", "lock/what-is-locked-survives-every-eviction"),
    Planted("stores", "store-counts-all", "store/a-gap-ends-the-leading-run"),
    Planted("misuse", "double-free-makes-memory", "misuse/a-page-freed-twice"),
    Planted("prefix.frame", "publishing-flushes", "frame/calls-leave-alone-what-they-are-not-about"),
    Planted("sparse.rows", "sparse-overflow-found-late", "sparse/a-row-is-full"),
    Planted("components.tree", "component-hit-of-the-main-pool", "components/what-was-stored-is-found-whole"),
    Planted("components.tree", "component-lock-of-the-kv-alone", "components/a-lock-holds-what-its-boundary-needs"),
    Planted("components.requests", "request-keeps-its-window", "component_requests/a-request-leaves-its-window-behind"),
    Planted("ranks.decisions", "rank-loads-are-noted-alone", "ranks/what-is-loaded-back-is-on-every-rank"),
)
"""Together they break rules of all packs."""

ALWAYS = 4
"""So many of them, the first, are planted whatever was judged: who judges nothing any more is noticed by them."""

OPTIONS = Options(reruns=0, shrink_trials=0, taped=False)

ROOMS = ("kvlitmus.spec", "kvlitmus.reference", "kvlitmus.conformance")
OTHERS = ("kvlitmus.conformance.adapters", "kvlitmus.conformance.specimen", "kvlitmus.mutants")
"""What is judged, and not the judge."""

FREE = frozenset({"__import__", "breakpoint", "copyright", "credits", "exit", "help", "input", "license", "open",
                  "print", "quit"})  # fmt: skip
"""Builtins that others replace for good reasons, and that the judge does without."""

LOOK_SECONDS = 60.0
"""How long one look may take, whatever the limit of a call is: it is the suite's own code, of which none is slow."""

SHOWN = 5
"""Maximum number of changed names that are told."""

CONSTANTS = (str, bytes, int, float, bool, type(None))
MATTERS = (FunctionType, BuiltinFunctionType, type, tuple, frozenset, *CONSTANTS)

Note = Any
"""What something is: of strings, numbers, code, tuples and lists of them, and dictionaries of what has names."""


class JudgeChanged(Exception):
    """The judge in a worker isn't what it was, so that what it said is worth nothing; the text says how that shows."""

    def __init__(self, how: str) -> None:
        super().__init__(f"the judge was changed: {how}")


# -- the code ----------------------------------------------------------------------------------------


class Fingerprint:
    """Everything that the judge consists of, as it is now.

    noted: functions and constants by name, of each module and class together; each rule, each litmus test.  modules,
    builtins: what has each name.
    """

    def __init__(self) -> None:
        rules, tests = all_rules(), all_litmus()  # which imports what has them
        self.modules = dict(judging())
        notes = Notes()
        self.noted: dict[str, Note] = {name: notes.names(vars(module)) for name, module in self.modules.items()}
        self.noted.update({f"rule {id}": plain(vars_of(rule)) for id, rule in rules.items()})
        self.noted.update({f"litmus test {name}": plain(test.program) for name, test in tests.items()})
        self.builtins = {name: value for name, value in vars(builtins).items() if name not in FREE}

    def changes(self, run: CurrentRun) -> list[str]:
        """The names of what isn't any more what it was then, a few of them; ``run``: what is judged in."""
        now = Fingerprint()
        found = [f"builtins.{name}" for name, value in self.builtins.items() if now.builtins.get(name) is not value]
        found += [name for name, module in self.modules.items() if sys.modules.get(name) is not module]
        found += differing(self.noted, now.noted)
        there = {name: now.noted.get(name, {}) for name in self.modules}
        found += added(self.noted, there)  # it may hide a builtin, or what a base class has
        found += ["kvlitmus.conformance.isolation.current_run.CurrentRun.checker_type"] * (run.checker_type is not None)
        return [harmless(name, 120) for name in found[:SHOWN]]


def judging() -> Iterator[tuple[str, ModuleType]]:
    """The modules that judge, as far as they have been imported."""
    for name, module in list(sys.modules.items()):
        if name == "__main__" or (name.startswith(ROOMS) and not name.startswith(OTHERS)):
            yield name, module


class Notes:
    """What the values of names are; most have a name in several modules, and each is looked at once.

    once: each value, which so keeps its ``id``, with the note on it.
    """

    def __init__(self) -> None:
        self.once: dict[tuple[int, int], tuple[object, Note]] = {}

    def names(self, names: Mapping[str, Any], depth: int = 0) -> dict[str, Note]:
        """Everything in a namespace that makes a difference when it is replaced."""
        noted = {}
        for name, value in list(names.items()):
            value = getattr(value, "__wrapped__", getattr(value, "__func__", getattr(value, "fget", value)))
            one = self.once.get((id(value), depth))
            if one is None:
                one = self.once[id(value), depth] = value, self.note(value, depth)
            if one[1] is not None:
                noted[name] = one[1]
        return noted

    def note(self, value: Any, depth: int) -> Note:
        """What a value is, ``None`` where that makes no difference; of a class of the judge, what it has."""
        if isinstance(value, type) and depth < 2 and value.__module__.startswith((*ROOMS, "__main__")):
            return self.names(vars(value), depth + 1)
        return plain(value) if isinstance(value, MATTERS) else None


def differing(then: Mapping[str, Note], now: Mapping[str, Note], prefix: str = "") -> Iterator[str]:
    """The full names of what was noted and isn't the same any more, or isn't there."""
    for name, note in then.items():
        other = now.get(name)
        if note != other:
            if isinstance(note, dict):
                yield from differing(note, other if isinstance(other, dict) else {}, f"{prefix}{name}.")
            else:
                yield f"{prefix}{name}"


def added(then: Mapping[str, Note], now: Mapping[str, Note], prefix: str = "") -> Iterator[str]:
    """The full names of what is noted now and wasn't there."""
    for name, note in now.items():
        other = then.get(name)
        if isinstance(note, dict):
            if note != other:
                yield from added(other if isinstance(other, dict) else {}, note, f"{prefix}{name}.")
        elif other is None or isinstance(other, dict):
            yield f"{prefix}{name}"


def vars_of(rule: Any) -> tuple[Any, ...]:
    """What a rule says and when."""
    return rule.id, rule.strength.value, rule.pack, rule.on, rule.facts, sorted(rule.needs), rule.predicate


def plain(value: Any) -> Note:
    """A value as something that is equal to what it is later in the same process, as long as it is the same.

    Code can't be changed, only replaced, and no class of a stranger says whether two pieces of it are equal.
    """
    if isinstance(value, FunctionType):
        given, named = value.__defaults__, value.__kwdefaults__
        return value.__code__, given and plain(given), named and plain(sorted(named.items()))
    if isinstance(value, tuple | list):
        return tuple(map(plain, value))
    if isinstance(value, frozenset):
        return sorted(map(repr, map(plain, value)))
    return repr(value) if isinstance(value, CONSTANTS) else id(value)


# -- what it comes to --------------------------------------------------------------------------------


def planted_item(one: Planted) -> Item:
    """What is played on a planted fault."""
    return Item(kind="litmus", config=mutant_of(one.module, one.mutant).configs[0], name=one.test)


def said(result: ItemResult) -> object:
    """What a judge has said of an item, as far as it is the same in every process and every version of Python."""
    found = [(one.rules, one.call, one.calls) for one in result.findings]
    return result.item, result.steps, dict(result.evaluated), found, bool(result.error), result.unsupported


@cache
def expected(one: Planted) -> object:
    """What is to be said of a planted fault, found out in this process, which has never seen the adapter."""
    mutant = mutant_of(one.module, one.mutant)
    result = engine.run_item(mutant.target, planted_item(one), OPTIONS)
    if not {rule for finding in result.findings for rule in finding.rules} & set(mutant.kills):
        raise AssertionError(f"{one.mutant} is not found by {one.test}")
    return said(result)


def planted(judged: Collection[str] | None) -> Iterator[Planted]:
    """What is planted where these rules were judged, ``None`` for all: what is about others says nothing of these."""
    rules = all_rules()
    packs = {rules[id].pack for id in judged or () if id in rules}
    for at, one in enumerate(PLANTED):
        kills = mutant_of(one.module, one.mutant).kills
        if judged is None or at < ALWAYS or not packs.isdisjoint(rules[id].pack for id in kills):
            yield one


def look(worker: Process, judged: Collection[str] | None = None) -> None:
    """Look at the judge in a worker that has judged these rules; raises :class:`JudgeChanged`."""
    came = worker.ask(LOOK_SECONDS, do="look")
    if isinstance(came, Death):
        raise JudgeChanged(f"it can't be looked at, since the worker {came.text}")
    changes = came.get("changes")
    if not isinstance(changes, list) or changes:
        names = ", ".join(map(harmless, changes or ["what tells so"]))
        raise JudgeChanged(f"{names} {'are' if len(changes or []) > 1 else 'is'} not what it was")
    for one in planted(judged):
        item = planted_item(one)
        named = [one.module, one.mutant]
        came = worker.ask(
            LOOK_SECONDS, do="item", planted=named, item=to_json(item), options=to_json(OPTIONS), fenced=[]
        )
        if isinstance(came, Death):
            raise JudgeChanged(f"over the planted fault {one.mutant} the worker {came.text}")
        try:
            result = result_from_json(came["result"])
            caught, why = said(result) == expected(one), result.error
        except (KeyError, TypeError, ValueError, AttributeError):
            caught, why = False, ""
        if not caught:
            more = f", but {harmless(why)}" if why else ""
            raise JudgeChanged(f"of the planted fault {one.mutant} it does not say what it must{more}")
