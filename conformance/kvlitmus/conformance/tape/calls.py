"""Every call of the ports on a tape: its arguments and its answer as JSON, and back.

``CALLS["match"].arguments((key,), {}, operands)`` is what stands under ``"args"`` and ``"kwargs"``, ``.answered(hit,
operands)`` what stands under ``"answer"``; ``.given`` and ``.told`` read them.  ``operands``
(:class:`~kvlitmus.conformance.tape.operands.Operands`) is one for each play and way; its ``step`` is set before.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol, get_args, get_type_hints

from kvlitmus.conformance.tape.forms import ANYTHING, Form, FormError, Json, Named, form_of
from kvlitmus.conformance.tape.operands import GIVES, TAKES, Operands, scalar
from kvlitmus.spec.interface import PORTS, cache, components, plans, ranks, sparse, stores, tiers
from kvlitmus.spec.words.units import Key

LENT: Mapping[str, int] = {"attach": 0, "plan_prefetch": 1}
"""Calls that are handed something of the suite's, and which argument that is."""

FILLED: Mapping[str, int] = {"store_get_into": 1}
"""Calls that are handed buffers, and which argument these are."""

HANDS_OUT = "raw_match"
"""The call whose answer is written into: whether that can be done decides what is called next."""

TURNS, OTHER = "ranks_ask", "store_other"
"""The call whose answer goes on, step by step, and the one whose answer another thread asks."""

TOLD_ONCE = frozenset({"events", "component_events", "component_begun"})
"""The looks that take what they see away."""

LOOKS = (
    frozenset({"available", "sizes", "view", "tiers", "jobs", "peek", "layers", "layers_ready", "occupied"})
    | {"host_available", "failing", "component_available", "component_available_host", "component_free_places"}
    | {
        "component_sizes",
        "component_entries",
        "component_free_host",
        "component_host_entries",
        "ranks_view",
        "ranks_states",
    }
    | {"sparse_shape", "sparse_available", "sparse_view", "sparse_copying", "sparse_transferring", "sparse_buffer"}
    | {"sparse_prefills", "sparse_receives", "sparse_destinations", "sparse_device_available"}
    | {"sparse_device_buffer", "store_yard", "store_strays"}
    | TOLD_ONCE
)
"""The methods that only look."""


class Beside(Protocol):
    """Calls of no port: what an adapter may offer besides, and what an engine did by itself."""

    def scribble(self) -> object:
        """Overwrite the free list that the cache has handed out."""

    def shares_free_list(self) -> bool:
        """Whether that list lies in the memory of the cache's own."""

    def write(self, slots: Sequence[int], key: Key, start: int = 0) -> None:
        """An engine wrote the KV of a key's tokens, from ``start`` on, into these slots."""


class Lent(NamedTuple):
    """Stands for something of the suite's where steps are read."""

    what: str


class Call:
    """The forms of one call.

    ``takes``: its parameters that are something which a step before has given: a handle, a receipt, an array.
    """

    def __init__(self, function: Callable[..., object]) -> None:
        hints = get_type_hints(function)
        parameters = [one for one in inspect.signature(function).parameters.values() if one.name != "self"]
        self.method = function.__name__
        self.parameters: dict[str, Form] = {one.name: form_of(hints[one.name]) for one in parameters}
        self.optional: dict[str, object] = {
            one.name: one.default for one in parameters if one.default is not inspect.Parameter.empty
        }
        names = [one.name for one in parameters]
        self.takes = frozenset([names[at] for at in TAKES.get(self.method, ()) if at < len(names)])
        self.forms = tuple(self.parameters.values())
        self.lends = self.method in LENT or self.method in FILLED
        self.taken = TAKES.get(self.method, ())
        self.gives = self.method in GIVES
        self.answer = form_of(hints["return"])
        self.turns: tuple[Form, ...] = tuple(map(form_of, get_args(hints["return"]))) if self.method == TURNS else ()

    def __repr__(self) -> str:
        return f"{self.method}({', '.join(self.parameters)})"

    # -- writing -------------------------------------------------------------------------------

    def arguments(
        self, args: Sequence[object], kwargs: Mapping[str, object], operands: Operands
    ) -> tuple[list[Json], dict[str, Json]]:
        """What stands under ``"args"`` and ``"kwargs"``."""
        forms, parameters = self.forms, self.parameters
        named = {name: parameters.get(name, ANYTHING).write(one, operands) for name, one in kwargs.items()}
        things = bool(self.taken) and not all(map(scalar, args[: self.taken[-1] + 1]))
        if not things and not self.lends and len(args) <= len(forms):
            return [form.write(value, operands) for form, value in zip(forms, args, strict=False)], named
        told: list[Json] = []
        for at, value in enumerate(args):
            if LENT.get(self.method) == at:
                told.append({"lent": self.method})
                continue
            if FILLED.get(self.method) == at:
                told.append({"lent": "buffers"})
                continue
            name = operands.name_of(value) if at in self.taken else None
            form = forms[at] if at < len(forms) else ANYTHING
            told.append(form.write(value if name is None else Named(name), operands))
        return told, named

    def answered(self, answer: object, operands: Operands) -> Json:
        """What stands under ``"answer"``; from now on the step's number names what it gave."""
        told = self.answer.write(operands.marked(self.method, answer) if self.gives else answer, operands)
        if self.method != HANDS_OUT or type(told) is not dict or "slots" not in told:
            return told
        mutable = type(getattr(answer, "slots", None)) is not tuple
        return told if mutable else told | {"slots": {"$": "tuple", "of": told["slots"]}}

    # -- reading -------------------------------------------------------------------------------

    def given(
        self, args: Sequence[Json], kwargs: Mapping[str, Json], operands: Operands
    ) -> tuple[list[object], dict[str, object]]:
        """The arguments again; raises :class:`FormError` that names the parameter."""
        if not self.lends and not operands.strict and len(args) <= len(self.forms):
            try:
                found = [form.read(one, operands) for form, one in zip(self.forms, args, strict=False)]
                return found, {name: self.parameters[name].read(one, operands) for name, one in kwargs.items()}
            except (FormError, KeyError):
                pass  # what it is that can't be read is told below
        names = list(self.parameters)
        if operands.strict:
            self.check(args, kwargs)
        positional = [self._read(names[at] if at < len(names) else "", one, operands) for at, one in enumerate(args)]
        return positional, {name: self._read(name, one, operands) for name, one in kwargs.items()}

    def by_name(self, args: Sequence[Json], kwargs: Mapping[str, Json]) -> dict[str, Json]:
        """The arguments by the names of the parameters; one too many by its place."""
        names = list(self.parameters)
        return {names[at] if at < len(names) else str(at): one for at, one in enumerate(args)} | dict(kwargs)

    def check(self, args: Sequence[Json], kwargs: Mapping[str, Json]) -> None:
        """Raise :class:`FormError` unless each parameter is given once, but for those that may be left out."""
        by_place = list(self.parameters)[: len(args)]
        names = [*by_place, *kwargs]
        if (
            len(args) > len(self.parameters)
            or len(set(names)) < len(names)
            or not self.parameters.keys() - self.optional.keys() <= set(names) <= self.parameters.keys()
        ):
            raise FormError(repr(self), {"args": list(args), "kwargs": dict(kwargs)})

    def _read(self, name: str, told: Json, operands: Operands) -> object:
        if type(told) is dict and "lent" in told:
            return Lent(str(told["lent"]))
        try:
            return self.parameters.get(name, ANYTHING).read(told, operands)
        except FormError as error:
            raise FormError(f"the {name} of {self.method} to be {error.expected}", error.got) from None

    def told(self, answer: Json, operands: Operands) -> object:
        """The answer again, as it stands where it isn't as promised; raises :class:`FormError` for a bad tag."""
        strict = operands.strict
        if strict:
            operands.strict = False
        try:
            found = self.answer.read(answer, operands)
        except FormError as error:
            raise FormError(f"the answer of {self.method} to be {error.expected}", error.got) from None
        finally:
            operands.strict = strict
        if self.gives:
            operands.noted(self.method, found)
        return found


class Calls(Mapping[str, Call]):
    """Calls by method, each made when it is asked for first: few are in a run, and to read their forms takes long."""

    def __init__(self, functions: Mapping[str, Callable[..., object]]) -> None:
        self._functions = functions
        self._made: dict[str, Call] = {}

    def __getitem__(self, method: str) -> Call:
        call = self._made.get(method)
        return call if call is not None else self._made.setdefault(method, Call(self._functions[method]))

    def __contains__(self, method: object) -> bool:
        return method in self._functions

    def __iter__(self) -> Iterator[str]:
        return iter(self._functions)

    def __len__(self) -> int:
        return len(self._functions)


def methods_of(protocol: type) -> dict[str, Callable[..., object]]:
    """The methods of a protocol, by name."""
    return {
        name: function
        for name, function in vars(protocol).items()
        if inspect.isfunction(function) and not name.startswith("_")
    }


_METHODS = frozenset(name for names in PORTS.values() for name in names)

CALLS: Mapping[str, Call] = Calls(
    {
        name: function
        for module in (cache, tiers, components, ranks, sparse, stores)
        for protocol in vars(module).values()
        if isinstance(protocol, type)
        and protocol.__module__ == module.__name__
        and getattr(protocol, "_is_protocol", False)
        for name, function in methods_of(protocol).items()
        if name in _METHODS
    }
    | methods_of(Beside)
)
"""Every call, by its method."""

DOING: Mapping[str, Collection[str]] = {
    "attach": methods_of(tiers.PageStore).keys(),
    "plan_prefetch": methods_of(plans.HostPool).keys(),
}
"""What a cache may do with what each call lends it."""

DOES: Mapping[str, Call] = Calls(methods_of(tiers.PageStore) | methods_of(plans.HostPool))
"""What a cache may do with what it is lent."""

READS = "store_get"
"""The call by which another thread asks the handle that ``store_other`` gave."""


def look_key(method: str, args: Sequence[Json] = ()) -> str:
    """The key of a look: the method, with its arguments in parentheses where it has some."""
    return f"{method}({json.dumps(args, separators=(',', ':'))[1:-1]})" if args else method


def look_of(key: str) -> tuple[str, list[Json]]:
    """The method and arguments of a look's key; raises :class:`FormError`."""
    method, bracket, rest = key.partition("(")
    if not bracket:
        return method, []
    try:
        if rest[-1:] != ")":
            raise ValueError
        args: list[Json] = json.loads(f"[{rest[:-1]}]")
    except (ValueError, RecursionError):
        raise FormError('the key of a look, such as available or peek("host",[4,5])', key) from None
    return method, args
