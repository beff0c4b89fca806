"""The calls of a trace: their parameters, and answers as ports give them.

What the *logger* writes must have the form that the format promises: a parameter that hasn't is an error of
the trace.  What the *cache* answered may be anything; an answer that can't be understood is handed to the
checker as it stands, and the checker says what it thinks of it (PORT-03).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypedDict, cast

from kvlitmus.conformance.ports import PORTS, Begun, Hit, NodeView, Sizes, Stored, View
from kvlitmus.spec.interface.plans import PrefetchAsk, PrefetchPlan
from kvlitmus.spec.prefix.prefetch_plan import HostCall
from kvlitmus.spec.words.units import Key

MAX_NUMBER = 1 << 62
"""A number beyond this is nonsense."""

LOOKS = ("available", "sizes", "view")
"""The methods that only look; what they answered stands on the line of the call before."""


Looks = Mapping[str, object]
"""What was seen after a call, by the method that looks: as it was recorded, whatever its form is."""


class Arguments(TypedDict, total=False):
    """The arguments of a call, by name, in the form that the format promises; a call has those of its parameters.

    What names a request, a handle or a receipt is a text or a whole number.
    """

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
    tokens: tuple[int, ...]
    keep: bool
    upto: int
    page_size: int
    prior: str | None
    ask: PrefetchAsk
    host: tuple[HostCall, ...]
    start: int


class FormError(Exception):
    """A parameter that is not what the format promises."""

    def __init__(self, expected: str, got: object) -> None:
        super().__init__(expected)
        self.expected = expected
        self.got = got


Decode = Callable[[Any], Any]


def whole(value: Any) -> int:
    """A whole number, not negative."""
    if type(value) is not int or not 0 <= value < MAX_NUMBER:
        raise FormError("a whole number from 0 on", value)
    return value


def positive(value: Any) -> int:
    """A whole number, at least 1."""
    if type(value) is not int or not 1 <= value < MAX_NUMBER:
        raise FormError("a whole number from 1 on", value)
    return value


def number(value: Any) -> int:
    """A whole number, of either sign."""
    if type(value) is not int or not -MAX_NUMBER < value < MAX_NUMBER:
        raise FormError("a whole number", value)
    return value


def numbers(value: Any) -> tuple[int, ...]:
    """A list of whole numbers."""
    if not isinstance(value, list) or any(type(one) is not int or not -MAX_NUMBER < one < MAX_NUMBER for one in value):
        raise FormError("a list of whole numbers", value)
    return tuple(value)


def flag(value: Any) -> bool:
    """True or false."""
    if type(value) is not bool:
        raise FormError("true or false", value)
    return value


def text(value: Any) -> str:
    """A text."""
    if type(value) is not str:
        raise FormError("a text", value)
    return value


def text_or_nothing(value: Any) -> str | None:
    """A text, or null."""
    return None if value is None else text(value)


def texts(value: Any) -> tuple[str, ...]:
    """A list of texts."""
    if not isinstance(value, list):
        raise FormError("a list of texts", value)
    return tuple(map(text, value))


def name(value: Any) -> str | int:
    """What names a request, a handle or a receipt: a text or a whole number."""
    if type(value) is not str and type(value) is not int:
        raise FormError("a name: a text or a whole number", value)
    return value


def key(value: Any) -> Key:
    """A key: an object with ``tokens``, and ``namespace`` and ``bigram`` where it has them."""
    if not isinstance(value, dict) or not {"tokens"} <= value.keys() <= {"tokens", "namespace", "bigram"}:
        raise FormError('a key such as {"tokens": [1, 2], "namespace": null, "bigram": false}', value)
    return Key(text_or_nothing(value.get("namespace")), numbers(value["tokens"]), flag(value.get("bigram", False)))


def ask(value: Any) -> PrefetchAsk:
    """What a prefetch is asked to do."""
    fields = set(PrefetchAsk._fields)
    if not isinstance(value, dict) or not {"key_length", "page_size", "threshold"} <= value.keys() <= fields:
        raise FormError(f"an object with {', '.join(PrefetchAsk._fields)}", value)
    given: Any = {
        one: flag(it) if one == "storage_on" else texts(it) if one == "prefix_keys" else number(it)
        for one, it in value.items()
    }
    return PrefetchAsk(**given)


def host_calls(value: Any) -> tuple[HostCall, ...]:
    """The calls that a plan made to the host's memory, with their answers."""
    if not isinstance(value, list):
        raise FormError("the calls to the host, a list", value)
    calls = []
    for one in value:
        if not isinstance(one, dict) or not {"name"} <= one.keys() <= set(HostCall._fields):
            raise FormError(f"a call to the host: an object with {', '.join(HostCall._fields)}", one)
        answer = one.get("answer")
        calls.append(
            HostCall(
                text(one["name"]),
                number(one.get("amount", 0)),
                None if answer is None else number(answer),
                number(one.get("available", 0)),
            )
        )
    return tuple(calls)


PARAMETERS: dict[str, dict[str, Decode]] = {
    "alloc": {"n": whole},
    "free": {"slots": numbers},
    "alloc_extend": {"before": numbers, "after": numbers, "last": numbers},
    "alloc_decode": {"after": numbers, "last": numbers},
    "free_group_begin": {},
    "free_group_end": {},
    "match": {"key": key},
    "insert": {"key": key, "slots": numbers, "protected": whole, "priority": number, "chunked": flag},
    "lock": {"handle": name},
    "unlock": {"receipt": name},
    "evict": {"n": whole},
    "begin": {"rid": name, "key": key},
    "grow": {"rid": name, "tokens": numbers},
    "publish": {"rid": name, "chunked": flag},
    "end": {"rid": name, "keep": flag},
    "publish_upto": {"rid": name, "upto": whole, "chunked": flag},
    "end_upto": {"rid": name, "upto": whole},
    "reset": {},
    "page_hashes": {"key": key, "page_size": positive, "prior": text_or_nothing},
    "plan_prefetch": {"ask": ask, "host": host_calls},
    "write": {"slots": numbers, "key": key, "start": whole},
    "available": {},
    "sizes": {},
    "view": {},
}
"""The calls that can be judged, with their parameters in order.  ``write`` is no port's: it says what was written."""

OPTIONAL: Mapping[str, object] = {"protected": 0, "priority": 0, "chunked": False, "prior": None, "start": 0}
"""Parameters that may be left out."""

JUDGED_PORTS = frozenset(port for port, methods in PORTS.items() if all(one in PARAMETERS for one in methods))
"""The ports whose every method can be judged from a trace."""


def arguments(method: str, args: Sequence[object], kwargs: Mapping[str, object]) -> Arguments:
    """The arguments of a call, by name; raises :class:`FormError`."""
    parameters = PARAMETERS[method]
    given = dict(zip(parameters, args, strict=False))
    doubled = given.keys() & kwargs.keys()
    given.update(kwargs)
    strange = given.keys() - parameters.keys()
    missing = [one for one in parameters if one not in given and one not in OPTIONAL]
    if len(args) > len(parameters) or doubled or strange or missing:
        raise FormError(f"{method}({', '.join(parameters)})", {"args": list(args), "kwargs": dict(kwargs)})
    found = {one: OPTIONAL[one] for one in parameters if one not in given}
    for one, value in given.items():
        try:
            found[one] = parameters[one](value)
        except FormError as error:
            raise FormError(f"the {one} of {method} to be {error.expected}", error.got) from None
    return cast("Arguments", found)


def answer_of(method: str, answer: Any) -> Any:
    """An answer as the port gives it; one of another form as it stands."""
    make = ANSWERS.get(method)
    if make is None or not isinstance(answer, dict):
        return answer
    try:
        return make(**answer)
    except (KeyError, TypeError, AttributeError):
        return answer


def view_of(free: Any, nodes: Any = (), **_: object) -> View:
    """A snapshot."""
    return View(tuple(free), [_node(**node) for node in nodes])


def _node(
    parent: Any,
    units: Any,
    slots: Any,
    namespace: Any = None,
    locks: Any = None,
    hits: Any = None,
    priority: Any = None,
) -> NodeView:
    pairs = bool(units) and type(units[0]) is list
    return NodeView(
        parent,
        namespace,
        tuple([tuple(unit) if type(unit) is list else unit for unit in units]) if pairs else tuple(units),
        tuple(slots),
        locks,
        hits,
        priority,
    )


ANSWERS: dict[str, Callable[..., object]] = {
    "match": Hit,
    "insert": Stored,
    "begin": Begun,
    "publish": Begun,
    "publish_upto": Begun,
    "sizes": Sizes,
    "view": view_of,
    "plan_prefetch": PrefetchPlan,
}
"""What an answer that is an object becomes: what the port promises, of its fields."""
