"""Integrity: whether the judge in a worker still is what it was before the adapter came.

Adapter and judge share a process, and Python protects neither from the other.  So when a worker has judged, two
things are looked at in that very worker.  First the code: a digest of every function and constant of the judge, taken
before the adapter was imported, is taken again.  Then what it comes to: faults that are planted in the built-in
cache, one for each pack of rules, go through all that the items went through, and what is answered must be what a
process answers that has never seen the adapter.

This notices a judge that was changed and left so.  It does not notice what an adapter changes during a call and puts
back, what it does to the objects of one play alone, or code that knows of these looks and deceives them.
"""

from __future__ import annotations

import builtins
import hashlib
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any, NamedTuple

from kvlitmus.conformance.isolation.current_run import CurrentRun
from kvlitmus.conformance.isolation.process import Death, Process
from kvlitmus.conformance.litmus.registry import all_litmus
from kvlitmus.conformance.run import engine
from kvlitmus.conformance.run.results import Item, ItemResult, Options, result_from_json, to_json
from kvlitmus.conformance.support.text import harmless
from kvlitmus.mutants.registry import mutant_of
from kvlitmus.spec.rule import all_rules


class Planted(NamedTuple):
    """A mutant, the module that has it, and a litmus test that finds it."""

    module: str
    mutant: str
    test: str


PLANTED = (
    Planted("pool", "counter-read-after-the-swap", "pool/allocate-and-free"),
    Planted("pool", "answer-is-the-free-list", "pool/allocate-and-free"),
    Planted("keys", "pages-reported-as-units", "tree/what-was-inserted-is-matched"),
    Planted("lock", "lookup-pins", "tree/what-was-inserted-is-matched"),
    Planted("evict", "evicted-never-counted", "lock/what-is-locked-survives-every-eviction"),
    Planted("request", "row-not-remapped", "request/the-slower-of-two-equal-requests-goes-on-with-the-others-pages"),
    Planted("hashing", "hash-big-endian", "hashing/keys-with-known-hashes"),
    Planted("prefetch", "prefetch-truncates-first", "prefetch/key-8-8-after-eviction"),
    Planted("backup", "copy-forgets-the-last-slot", "tier/a-page-goes-from-the-device-to-the-host-and-away"),
    Planted("backup", "selective-is-not", "tier/a-page-goes-from-the-device-to-the-host-and-away"),
    Planted("load", "next-layer-told-ready", "tier/what-goes-down-and-comes-back-is-the-same"),
    Planted("fetch", "aborted-gets-cached", "fetch/an-aborted-request-leaves-nothing-at-any-stage"),
    Planted("life", "attach-replaces-storage", "life/storage-is-attached-once-and-detached-once"),
    Planted("event", "eviction-is-not-told", "lock/what-is-locked-survives-every-eviction"),
    Planted("store", "store-counts-all", "store/a-gap-ends-the-leading-run"),
    Planted("misuse", "double-free-makes-memory", "misuse/a-page-freed-twice"),
    Planted("frame", "publishing-flushes", "frame/calls-leave-alone-what-they-are-not-about"),
    Planted("sparse", "sparse-overflow-found-late", "sparse/a-row-is-full"),
    Planted("components", "component-hit-of-the-main-pool", "components/what-was-stored-is-found-whole"),
    Planted("component_requests", "request-keeps-its-window", "component_requests/a-request-leaves-its-window-behind"),
    Planted("ranks", "rank-loads-are-noted-alone", "ranks/what-is-loaded-back-is-on-every-rank"),
)
"""Together they break rules of all packs."""

OPTIONS = Options(reruns=0, shrink_trials=0)

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


class JudgeChanged(Exception):
    """The judge in a worker isn't what it was, so that what it said is worth nothing; the text says how that shows."""

    def __init__(self, how: str) -> None:
        super().__init__(f"the judge was changed: {how}")


# -- the code ----------------------------------------------------------------------------------------


class Fingerprint:
    """Everything that the judge consists of, as it is now.

    digests: of functions and constants, by their full name.  modules, builtins: what has each name.
    """

    def __init__(self) -> None:
        rules, tests = all_rules(), all_litmus()  # which imports what has them
        self.modules = dict(judging())
        self.digests: dict[str, str] = {}
        once: dict[int, tuple[object, str]] = {}  # most functions have a name in several modules
        for name, module in self.modules.items():
            for full, value in values_of(name, vars(module)):
                if id(value) not in once:
                    once[id(value)] = value, digest_of(value)
                self.digests[full] = once[id(value)][1]
        self.digests.update({f"rule {id}": digest_of(vars_of(rule)) for id, rule in rules.items()})
        self.digests.update({f"litmus test {name}": digest_of(test.program) for name, test in tests.items()})
        self.builtins = {name: value for name, value in vars(builtins).items() if name not in FREE}

    def changes(self, run: CurrentRun) -> list[str]:
        """The names of what isn't any more what it was then, a few of them; ``run``: what is judged in."""
        now = Fingerprint()
        found = [f"builtins.{name}" for name, value in self.builtins.items() if now.builtins.get(name) is not value]
        found += [name for name, module in self.modules.items() if sys.modules.get(name) is not module]
        found += [name for name, digest in self.digests.items() if now.digests.get(name) != digest]
        names = [name for place, module in self.modules.items() for name, _ in values_of(place, vars(module))]
        found += [name for name in names if name not in self.digests]  # it may hide a builtin, or what a base class has
        found += ["kvlitmus.conformance.isolation.current_run.CurrentRun.checker_type"] * (run.checker_type is not None)
        return [harmless(name, 120) for name in found[:SHOWN]]


def judging() -> Iterator[tuple[str, ModuleType]]:
    """The modules that judge, as far as they have been imported."""
    for name, module in list(sys.modules.items()):
        if name == "__main__" or (name.startswith(ROOMS) and not name.startswith(OTHERS)):
            yield name, module


def values_of(prefix: str, names: Mapping[str, Any], depth: int = 0) -> Iterator[tuple[str, Any]]:
    """Everything in a namespace that makes a difference when it is replaced."""
    for name, value in list(names.items()):
        value = getattr(value, "__wrapped__", getattr(value, "__func__", getattr(value, "fget", value)))
        if isinstance(value, type) and depth < 2 and value.__module__.startswith((*ROOMS, "__main__")):
            yield from values_of(f"{prefix}.{name}", vars(value), depth + 1)
        elif isinstance(value, (FunctionType, BuiltinFunctionType, type, tuple, frozenset, *CONSTANTS)):
            yield f"{prefix}.{name}", value


def vars_of(rule: Any) -> tuple[Any, ...]:
    """What a rule says and when."""
    return rule.id, rule.strength.value, rule.pack, rule.on, rule.facts, sorted(rule.needs), rule.predicate


def digest_of(value: Any) -> str:
    """A digest of a value that can be compared with one that is taken later in the same process."""
    return hashlib.sha256(repr(plain(value)).encode("utf-8", "backslashreplace")).hexdigest()[:16]


def plain(value: Any) -> Any:
    """A value as something whose representation says all that matters."""
    if isinstance(value, FunctionType):
        return plain(value.__code__), plain(value.__defaults__), plain(sorted((value.__kwdefaults__ or {}).items()))
    if isinstance(value, CodeType):
        return value.co_code, value.co_names, value.co_varnames, value.co_freevars, plain(value.co_consts)
    if isinstance(value, tuple | list):
        return tuple(map(plain, value))
    if isinstance(value, frozenset):
        return sorted(map(repr, map(plain, value)))
    if isinstance(value, CONSTANTS):
        return value
    return id(value)


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


def look(worker: Process) -> None:
    """Look at the judge in a worker that has judged; raises :class:`JudgeChanged`."""
    came = worker.ask(LOOK_SECONDS, do="look")
    if isinstance(came, Death):
        raise JudgeChanged(f"it can't be looked at, since the worker {came.text}")
    changes = came.get("changes")
    if not isinstance(changes, list) or changes:
        names = ", ".join(map(harmless, changes or ["what tells so"]))
        raise JudgeChanged(f"{names} {'are' if len(changes or []) > 1 else 'is'} not what it was")
    for one in PLANTED:
        item = planted_item(one)
        planted = [one.module, one.mutant]
        came = worker.ask(
            LOOK_SECONDS, do="item", planted=planted, item=to_json(item), options=to_json(OPTIONS), fenced=[]
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
