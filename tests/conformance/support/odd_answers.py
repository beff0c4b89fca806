"""Odd answers: each method of each port answers something else than it would, or raises.

The methods, and what each promises, are read from the protocols themselves: a new one is tried by itself.
"""

from __future__ import annotations

import asyncio
import inspect
import itertools
import types
import typing
from collections import Counter, OrderedDict
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from typing import Any, NamedTuple, Protocol, get_args, get_origin

import numpy as np

from kvlitmus.conformance.litmus.registry import litmus_of
from kvlitmus.conformance.ports import PORTS, Config, capabilities_in
from kvlitmus.conformance.run.engine import make_checker, run_item
from kvlitmus.conformance.run.plan import (
    COMPONENT_CONFIGS,
    COMPONENT_HOST_CONFIGS,
    COMPONENT_STORAGE_CONFIGS,
    COMPONENT_WRITE_CONFIGS,
    CONFIGS,
    RANK_CONFIGS,
    REQUEST_CONFIGS,
    SPARSE_CONFIGS,
    STORE_CONFIGS,
    TIER_CONFIGS,
    items,
)
from kvlitmus.conformance.run.results import Item, ItemResult, Options
from kvlitmus.conformance.specimen.cache import SpecimenTarget, component_request_target, component_target
from kvlitmus.conformance.specimen.cache import target as specimen
from kvlitmus.conformance.support.integers import is_integer, whether
from kvlitmus.spec.interface import cache as cache_ports
from kvlitmus.spec.interface import components, ranks, sparse, stores, tiers
from tests.conformance.support import liars

MODULES = (cache_ports, tiers, stores, sparse, components, ranks)


@cache
def promises() -> dict[str, Any]:
    """Of each method of each port, what it answers, as the protocol says."""
    named = {name for methods in PORTS.values() for name in methods}
    found: dict[str, Any] = {}
    for module in MODULES:
        for one in vars(module).values():
            if inspect.isclass(one) and one.__module__ == module.__name__ and Protocol in one.__bases__:
                for name, method in vars(one).items():
                    if name in named:
                        found[name] = typing.get_type_hints(method)["return"]
    return found


# -- what is played --------------------------------------------------------------------------------


FAMILIES: tuple[tuple[SpecimenTarget, tuple[Config, ...]], ...] = (
    (specimen, CONFIGS[1:2]),
    (specimen, TIER_CONFIGS[:4]),
    (specimen, STORE_CONFIGS[:1]),
    (specimen, SPARSE_CONFIGS[:1]),
    (specimen, RANK_CONFIGS[:1]),
    (component_target, COMPONENT_CONFIGS[:1]),
    (component_target, COMPONENT_HOST_CONFIGS[:1]),
    (component_target, COMPONENT_WRITE_CONFIGS[:1]),
    (component_target, COMPONENT_STORAGE_CONFIGS[:1]),
    (component_request_target, REQUEST_CONFIGS[:1]),
)


class Scene(NamedTuple):
    """An item in which a method is called, and how many calls of it a fresh cache sees before."""

    target: SpecimenTarget
    item: Item
    before: int


Act = Callable[[int, Callable[[], Any]], Any]
"""What a method does: told how often it was called of this cache, and what it would answer."""


class Told:
    """A target of which some methods do something else."""

    def __init__(self, target: SpecimenTarget, acts: Mapping[str, Act]) -> None:
        self.target, self.profile, self.acts = target, target.profile, acts

    def make(self, config: Config) -> Any:
        """A cache whose methods do."""
        made = self.target.make(config)
        for name, act in self.acts.items():
            lawful = getattr(made, name, None)
            if callable(lawful):
                setattr(made, name, bound(act, lawful))
        return made


def bound(act: Act, lawful: Callable[..., Any]) -> Callable[..., Any]:
    """A method that counts, and knows the lawful one."""
    counted = itertools.count()
    return lambda *args, **how: act(next(counted), lambda: lawful(*args, **how))


OPTIONS = Options(reruns=4, shrink_trials=0)


@cache
def scenes() -> dict[str, Scene]:
    """For each method the first item in which it is called."""
    found: dict[str, Scene] = {}
    for target, configs in FAMILIES:
        has = capabilities_in(target.make(configs[0]), configs[0])
        left = {name for port in has & PORTS.keys() for name in PORTS[port]} - found.keys()
        all_items = items(configs, target.profile, steps=250, vectors=())
        for item in sorted(all_items, key=lambda item: (is_misuse(item), configs.index(item.config))):
            if left and may_call(item, left):
                fresh, calls = calls_of(target, item)
                new = {name for name in left if calls[name] > 2 * fresh[name]}
                found.update({name: Scene(target, item, fresh[name]) for name in new})
                left -= new
    return found


def may_call(item: Item, names: Collection[str]) -> bool:
    """Whether it may call one of these methods: a litmus test says of which ports it needs some."""
    needs = litmus_of(item.name).needs if item.kind == "litmus" else PORTS.keys()
    return any(name in names for port in needs & PORTS.keys() for name in PORTS[port])


def is_misuse(item: Item) -> bool:
    """Whether it is about calls that a cache may refuse by an error."""
    return item.kind == "litmus" and litmus_of(item.name).misuse


def calls_of(target: SpecimenTarget, item: Item) -> tuple[Counter[str], Counter[str]]:
    """How often each method is called of a fresh cache, and in an item, for which two caches are made."""
    calls: Counter[str] = Counter()
    noting = Told(target, {name: noted(calls, name) for name in promises()})
    make_checker(noting, item.config, OPTIONS)
    fresh = Counter(calls)
    calls.clear()
    result = run_item(noting, item, OPTIONS)
    assert not result.findings and not result.error, result
    return fresh, calls


def noted(calls: Counter[str], name: str) -> Act:
    """A method that is counted and does what it would."""

    def act(_: int, lawful: Callable[[], Any]) -> Any:
        calls[name] += 1
        return lawful()

    return act


# -- what is answered ------------------------------------------------------------------------------


class Unlike:
    """Whatever is asked of it raises."""

    def raises(self, *_: object) -> Any:
        raise ZeroDivisionError("don't")

    __eq__ = __hash__ = __len__ = __iter__ = __index__ = __bool__ = __getitem__ = __contains__ = raises


class Leaving:
    """Whatever is asked of it ends the process."""

    def leaves(self, *_: object) -> Any:
        raise SystemExit(9)

    __eq__ = __hash__ = __len__ = __iter__ = __index__ = __bool__ = __getitem__ = __contains__ = leaves


def in_itself() -> list[Any]:
    """A list that contains itself."""
    one: list[Any] = []
    one.append(one)
    return one


def listed(part: object) -> bool:
    """Whether this is a plain sequence."""
    return type(part) in (list, tuple)


ODD: dict[str, Callable[[Any], Any]] = {
    "None": lambda _: None,
    "text": lambda _: "abc",
    "bytes": lambda _: b"abc",
    "float": lambda _: 1.5,
    "nan": lambda _: float("nan"),
    "True": lambda _: True,
    "huge": lambda _: 10**400,
    "large": lambda _: 1 << 47,
    "negative": lambda _: -1,
    "seven": lambda _: 7,
    "empty list": lambda _: [],
    "list": lambda _: [1, 2],
    "tuple": lambda _: (1, 2),
    "empty dict": lambda _: {},
    "set": lambda _: {1, 2},
    "generator": lambda _: (one for one in (1, 2)),
    "endless": lambda _: itertools.count(),
    "in itself": lambda _: in_itself(),
    "array": lambda _: np.array([1, 2]),
    "array of floats": lambda _: np.array([1.0, 2.0]),
    "numpy integer": lambda _: np.int64(3),
    "numpy truth": lambda _: np.bool_(True),
    "object": lambda _: object(),
    "class": lambda _: int,
    "raising": lambda _: Unlike(),
    "leaving": lambda _: Leaving(),
    "lying list": lambda _: liars.Liar((1, 2)),
    "lying tuple": lambda _: liars.LyingTuple((1, 2)),
    "no repr": lambda _: liars.NoRepr(),
    "fake class": lambda _: liars.FakeClass(),
    "exiting class": lambda _: liars.ExitingClass(),
    "never equal": lambda _: liars.NeverEqual(),
    "one more": lambda part: part + 1 if type(part) is int else [*part, *part[-1:]] if listed(part) else part,
    "one less": lambda part: part - 1 if type(part) is int else [*part[:-1]] if listed(part) else part,
    "twice": lambda part: part * 2 if type(part) is int or listed(part) else part,
    "nothing": lambda part: type(part)() if type(part) in (int, str, bytes, list, dict) else part,
}
"""What is answered in the place of an answer, or of a part of it, and made of that."""

LIKE: dict[type, tuple[Callable[[Any], Any], ...]] = {
    int: (np.int64, liars.FakeInt),
    bool: (np.bool_,),
    list: (tuple, iter, lambda part: (one for one in part)),
    tuple: (list, iter, lambda part: (one for one in part)),
    dict: (types.MappingProxyType, OrderedDict),
}
"""What answers as well as a value of a type, where a sequence, a mapping, an integer or a truth value is promised."""


ENDS: dict[str, Callable[[], BaseException]] = {
    "Exception": lambda: RuntimeError("odd"),
    "StopIteration": StopIteration,
    "RecursionError": RecursionError,
    "MemoryError": MemoryError,
    "ExceptionGroup": lambda: ExceptionGroup("odd", [ValueError()]),
    "mute": liars.Mute,
    "SystemExit": lambda: SystemExit(3),
    "KeyboardInterrupt": KeyboardInterrupt,
    "GeneratorExit": GeneratorExit,
    "CancelledError": asyncio.CancelledError,
    "BaseExceptionGroup": lambda: BaseExceptionGroup("odd", [KeyboardInterrupt()]),
}
"""What is raised."""


def fits(promise: Any, value: Any) -> bool:
    """Whether a value is what a protocol promises."""
    origin, parts = get_origin(promise), get_args(promise)
    if promise is object:
        return True
    if promise is types.NoneType:
        return value is None
    if origin in (types.UnionType, typing.Union):
        return any(fits(part, value) for part in parts)
    if promise is int:
        return is_integer(value)
    if promise is bool:
        with suppress(TypeError):
            return isinstance(whether(value), bool)
        return False
    if promise is stores.Storage:
        return callable(getattr(value, "store_get", None))
    if origin is Generator:
        return isinstance(value, Generator)
    if promise in (str, bytes):
        return type(value) is promise
    if origin is Sequence or parts[-1:] == (Ellipsis,):
        return type(value) in SEQUENCES and all(fits(parts[0], one) for one in list(value))
    if origin is Mapping:
        return type(value) is dict and all(fits(parts[0], one) and fits(parts[1], of) for one, of in value.items())
    fields = fields_of(promise)
    if fields is not None and type(value) in (*SEQUENCES, promise):  # where only some tuple is promised
        many = list(value)
        return len(many) == len(fields) and all(map(fits, fields, many))
    return False


SEQUENCES = (list, tuple, np.ndarray, types.GeneratorType)


def fields_of(promise: Any) -> tuple[Any, ...] | None:
    """What the fields of a tuple promise; ``None`` for what is none."""
    if get_origin(promise) is tuple:
        parts = get_args(promise)
        return None if parts[-1] is Ellipsis else parts
    if inspect.isclass(promise) and issubclass(promise, tuple) and hasattr(promise, "_fields"):
        return tuple(typing.get_type_hints(promise).values())
    return None


def places(promise: Any, value: Any) -> Iterator[tuple[str, Any, Any, Callable[[Any], Any]]]:
    """The parts of a lawful answer: how each is called, what it promises, what it is, the answer with another there."""
    yield "", promise, value, lambda odd: odd
    origin, parts = get_origin(promise), get_args(promise)
    if origin in (types.UnionType, typing.Union):
        part = next((part for part in parts if part is not types.NoneType and shape_fits(part, value)), None)
        if part is not None:
            yield from itertools.islice(places(part, value), 1, None)
        return
    fields = fields_of(promise)
    if fields is not None and isinstance(value, tuple):
        for at, field in enumerate(fields):
            for name, part, own, put in places(field, value[at]):
                yield f"[{at}]{name}", part, own, in_place(value, at, put)
    elif origin is Sequence or origin is tuple:
        for name, part, own, put in places(parts[0], value[-1]) if isinstance(value, list | tuple) and value else ():
            yield f"[-1]{name}", part, own, in_place(value, len(value) - 1, put)
    elif origin is Mapping and isinstance(value, dict) and value:
        key = list(value)[-1]
        for name, part, own, put in places(parts[1], value[key]):
            yield f"{{}}{name}", part, own, in_mapping(value, key, put)
        rest = {one: of for one, of in value.items() if one != key}
        yield "{key}", parts[0], key, in_place_of_key(rest, value[key])


def shape_fits(part: Any, value: Any) -> bool:
    """Whether a value is of the kind of a promise."""
    kind = get_origin(part) or part
    return kind is not object and isinstance(value, kind)


def in_place(value: Sequence[Any], at: int, put: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A sequence with another part there, of the same class."""

    def changed(odd: Any) -> Any:
        many = [*value[:at], put(odd), *value[at + 1 :]]
        return value._make(many) if hasattr(value, "_make") else type(value)(many)  # type: ignore[call-arg]

    return changed


def in_mapping(value: Mapping[Any, Any], key: Any, put: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A mapping with another part there."""
    return lambda odd: {**value, key: put(odd)}


def in_place_of_key(rest: Mapping[Any, Any], part: Any) -> Callable[[Any], Any]:
    """A mapping with another key; raises ``TypeError`` for what can't be one, or is one that is there."""

    def changed(odd: Any) -> Any:
        if odd in rest:
            raise TypeError("this key is there")
        return {**rest, odd: part}

    return changed


class Answered:
    """A method that answers something odd in one place of its answer; ``times``: how often it has."""

    def __init__(self, name: str, place: str, odd: Callable[[Any], Any]) -> None:
        self.promise, self.place, self.odd = promises()[name], place, odd
        self.before = scenes()[name].before
        self.times = 0

    def __call__(self, number: int, lawful: Callable[[], Any]) -> Any:
        answer = lawful()
        if number < self.before:
            return answer
        for name, _, own, put in places(self.promise, answer):
            if name == self.place:
                with suppress(TypeError):  # an odd key that can't be one
                    odd = put(self.odd(own))
                    self.times += 1
                    return odd
        return answer


def judged(name: str, act: Act) -> ItemResult:
    """What comes of a method that does something else."""
    scene = scenes()[name]
    return run_item(Told(scene.target, {name: act}), scene.item, OPTIONS)


@cache
def parts_of(name: str) -> dict[str, tuple[Any, Any]]:
    """The places of the answers of a method, what each promises, and an example."""
    found: dict[str, tuple[Any, Any]] = {}

    def act(_: int, lawful: Callable[[], Any]) -> Any:
        answer = lawful()
        found.update((place, (part, own)) for place, part, own, _ in places(promises()[name], answer))
        return answer

    judged(name, act)
    return found


def may_be_like(promise: Any, part: Any) -> bool:
    """Whether something else may take the place of a part: of a number, a truth value, a sequence, a mapping."""
    parts = get_args(promise)
    if get_origin(promise) in (types.UnionType, typing.Union):
        return any(may_be_like(one, part) for one in parts)
    origin = get_origin(promise)
    if promise is int:
        return type(part) is int
    return (
        promise is type(part) is bool
        or (origin is Sequence and listed(part))
        or (origin is Mapping and type(part) is dict)
    )
