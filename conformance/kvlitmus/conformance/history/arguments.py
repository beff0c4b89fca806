"""The calls that ``kvlitmus check`` judges, and the bounds on their arguments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict, cast

from kvlitmus.conformance.ports import PORTS
from kvlitmus.conformance.tape.calls import CALLS
from kvlitmus.conformance.tape.forms import FormError, Json, Record, form_of
from kvlitmus.conformance.tape.operands import Operands, Thing
from kvlitmus.spec.interface.plans import PrefetchAsk
from kvlitmus.spec.interface.ranks import Local, World
from kvlitmus.spec.interface.tiers import DONE, Outcome
from kvlitmus.spec.prefix.prefetch_plan import HostCall
from kvlitmus.spec.words.units import Key

MAX_NUMBER = 1 << 62
"""A number beyond this is nonsense."""

SUITES = frozenset({"raw", "raw_requests", "raw_prefetching", "memory_faults", "data"}) | {
    *("store_into", "store_faults", "store_crash", "store_other", "store_ranks")
}
"""What the suite alone does to a cache."""

JUDGED_PORTS = PORTS.keys() - SUITES
"""The ports whose every method can be judged."""

JUDGED = (*dict.fromkeys(method for port in PORTS if port in JUDGED_PORTS for method in PORTS[port]), "write")
"""The calls that can be judged.  ``write`` is no port's: it says what was written."""

HARMLESS = frozenset({"store_get_into", "raw_array", "shares_free_list", "poke"})
"""Calls that can't be judged, and change nothing."""

OPTIONAL: Mapping[str, object] = {
    "protected": 0,
    "priority": 0,
    "chunked": False,
    "prior": None,
    "start": 0,
    "outcome": DONE,
    "ok": True,
}
"""Parameters that may be left out."""

LEAST: Mapping[str, int] = {"n": 0, "protected": 0, "upto": 0, "start": 0, "page_size": 1}
"""The least that a number may be."""

HOST_CALL = Record(
    HostCall, {"name": form_of(str), "amount": form_of(int), "answer": form_of(int | None), "available": form_of(int)}
)
"""One call to the host's memory."""


class Arguments(TypedDict, total=False):
    """The arguments of a call, by name, in the form that is promised; a call has those of its parameters."""

    n: int
    slots: tuple[int, ...]
    before: tuple[int, ...]
    after: tuple[int, ...]
    last: tuple[int, ...]
    key: Key
    protected: int
    priority: int
    chunked: bool
    handle: Any
    receipt: Any
    rid: Any
    of: Any
    tokens: tuple[int, ...]
    keep: bool
    upto: int
    page_size: int
    prior: str | None
    ask: Any
    host: tuple[HostCall, ...] | None
    start: int
    job: int
    outcome: Outcome
    quota: int
    seconds: float
    kind: str
    size: int
    keys: tuple[str, ...]
    values: tuple[bytes, ...]
    wants: Mapping[str, int]
    given: Mapping[str, Sequence[int]]
    entries: Mapping[str, Mapping[int, int]]
    stored: Mapping[str, Sequence[int]]
    came: Mapping[str, Sequence[int]]
    threshold: int
    chunk: int
    ok: bool
    copy: Any
    fetch: Any
    write: Any
    row: int
    length: int
    transfer: int
    arrived: bool
    world: World
    event: Local
    rank: int


def arguments(method: str, args: Sequence[Json], kwargs: Mapping[str, Json], operands: Operands) -> Arguments:
    """The arguments of a call, by name; raises :class:`FormError`."""
    call = CALLS[method]
    given = dict(zip(call.parameters, args, strict=False))
    doubled = given.keys() & kwargs.keys()
    given.update(kwargs)
    strange = given.keys() - call.parameters.keys()
    missing = [one for one in call.parameters if one not in given and one not in OPTIONAL]
    if len(args) > len(call.parameters) or doubled or strange or missing:
        raise FormError(repr(call), {"args": list(args), "kwargs": dict(kwargs)})
    found = {one: OPTIONAL[one] for one in call.parameters if one not in given}
    for one, told in given.items():
        try:
            found[one] = value_of(method, one, told, call.parameters[one].read, operands)
        except FormError as error:
            raise FormError(f"the {one} of {method} to be {error.expected}", error.got) from None
    return cast("Arguments", found)


def value_of(method: str, name: str, told: Json, read: Any, operands: Operands) -> object:
    """An argument; raises :class:`FormError` for one of another form, or beyond its bounds."""
    if name == "host":
        return conversation(told, operands)
    if type(told) is dict and "lent" in told:
        return None
    if name in ("rid", "of") or name in CALLS[method].takes:
        named = type(told) is dict and ("@" in told or told.get("$") == "object")  # the latter is told by a look
        value = operands.meant(cast("dict[str, Json]", told)) if named else told
        if type(value) not in (str, int, Thing) and not (value is None and name == "handle" and method != "lock"):
            raise FormError("a name: a text, a whole number, or what a step gave", told)
        return value
    value = read(told, operands)
    if isinstance(value, list):
        value = tuple(value)
    for number in (value,) if type(value) is int else value.tokens if type(value) is Key else numbers_in(value):
        if not -MAX_NUMBER < number < MAX_NUMBER:
            raise FormError("a number of at most 62 bits", number)
    if isinstance(value, PrefetchAsk):
        value = value._replace(prefix_keys=tuple(value.prefix_keys))
    if name in LEAST and cast("int", value) < LEAST[name]:
        raise FormError(f"a whole number from {LEAST[name]} on", told)
    return value


def numbers_in(value: object) -> Sequence[int]:
    """The numbers of a sequence of numbers."""
    return value if type(value) is tuple and value and type(value[0]) is int else ()


def conversation(told: Json, operands: Operands) -> tuple[HostCall, ...] | None:
    """What a planner asked the host's memory, and what it got, with what was available then; ``None``: not told."""
    if type(told) is dict and told.keys() == {"lent"}:
        return None  # what the planner did is told, but not what was available at each call
    if type(told) is not list:
        raise FormError("the calls to the host's memory, a list", told)
    return cast("tuple[HostCall, ...]", tuple([HOST_CALL.read(one, operands) for one in told]))
