"""What the steps of a play gave, by which later steps name it.

A handle or receipt that is a text or a number is itself.  Any other is ``{"@": n}``: what step ``n`` answered, or
``{"@": [n, where]}``: what stands there in its answer, ``"handle"`` of a hit for instance.  In the answer of step ``n``
itself it is one that was not given before.  Steps are numbered from 1; a step that refused or raised gave nothing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import cast

from kvlitmus.conformance.tape.compiled import Rows
from kvlitmus.conformance.tape.forms import FormError, Json, Named
from kvlitmus.spec.interface.cache import Hit

HANDLE = "handle"

GIVES: Mapping[str, str | int | None] = {
    "match": HANDLE,
    "raw_match": HANDLE,
    "raw_array": None,
    "lock": None,
    "component_match": 2,
    **dict.fromkeys(("component_lock", "component_start", "component_prefetch", "component_back_up"), 0),
    **dict.fromkeys(("component_load", "component_write"), 0),
}
"""The calls that give a handle or a receipt, and where in the answer it stands; ``None``: it is the answer."""

TAKES: Mapping[str, tuple[int, ...]] = {
    **dict.fromkeys(
        ("lock", "unlock", "component_lock", "component_unlock", "component_grow", "component_finish"), (0,)
    ),
    **dict.fromkeys(("component_back_up", "component_load", "component_copied", "component_prefetch"), (0,)),
    **dict.fromkeys(("component_prefetch_found", "component_prefetch_settled", "component_prefetch_commit"), (0,)),
    **dict.fromkeys(("component_prefetch_abort", "component_write", "component_written", "raw_free"), (0,)),
    "raw_match": (0,),
    "raw_insert": (0, 1),
    "raw_begin": (1,),
    "raw_prefetch": (1,),
}
"""The calls that take one, and as which argument."""


class Thing:
    """Stands for a handle, a receipt, or an object of the cache's where steps are read."""


class Operands:
    """The things (:class:`~kvlitmus.conformance.tape.forms.Things`) of one play that is written or read.

    strict: whether arguments must have the promised form.  step: the number of the step that is written or read.
    rows: the rows of looks, where they are remembered.
    """

    def __init__(self, *, strict: bool = False, rows: Rows | None = None) -> None:
        self.strict = strict
        self.rows = rows
        self.depth = 0
        self.step = 0
        self._names: dict[object, Json] = {}
        self._kept: list[object] = []
        self._numbers: dict[int, int] = {}
        self._named: dict[str, object] = {}
        self._objects: dict[int, Thing] = {}

    # -- writing -------------------------------------------------------------------------------

    def told(self, value: object) -> Json:
        """An object that is no plain data: known by its number."""
        number = self._numbers.get(id(value))
        if number is None:
            number = self._numbers[id(value)] = len(self._numbers)
            self._kept.append(value)  # so that ids stay its own
        return {"$": "object", "of": number}

    def name_of(self, value: object) -> Json:
        """What gave a handle; ``None`` where nothing did, and for one that is itself."""
        return None if scalar(value) else self._names.get(identity(value))

    def marked(self, method: str, answer: object) -> object:
        """The answer to this step with the handle that it gives by its name."""
        if method not in GIVES:
            return answer
        where = GIVES[method]
        value = at(answer, where)
        if scalar(value):
            return answer
        named = Named(self.name_of(value) or self.here(where))
        self._kept.append(value)
        self._names[identity(value)] = self.here(where)
        return placed(answer, where, named)

    def here(self, where: str | int | None) -> dict[str, Json]:
        """The name of what this step gives."""
        return {"@": self.step if where is None else [self.step, where]}

    # -- reading -------------------------------------------------------------------------------

    def meant(self, told: dict[str, Json]) -> object:
        """What a name stands for; raises :class:`FormError` where no step gave it."""
        if told.keys() == {"$", "of"}:
            number = told["of"]
            if type(number) is not int:
                raise FormError("the number of an object", number)
            return self._objects.setdefault(number, Thing())
        name = told.get("@")
        key = json.dumps(name)
        if key in self._named:
            return self._named[key]
        if told.keys() == {"@"} and (name == self.step or (type(name) is list and name[:1] == [self.step])):
            return self._named.setdefault(key, Thing())
        raise FormError("what a step before gave, and none that refused or raised", told)

    def noted(self, method: str, answer: object) -> None:
        """This step gave what stands in its answer, by whatever name: later steps may use its own."""
        if method in GIVES and not scalar(value := at(answer, GIVES[method])):
            self._named[json.dumps(self.here(GIVES[method])["@"])] = value


def scalar(value: object) -> bool:
    """Whether a handle is itself where it is written."""
    return value is None or type(value) in (bool, int, float, str)


def identity(value: object) -> object:
    """What two equal handles have in common: tuples are equal by what they hold, anything else is itself."""
    if type(value) is tuple:
        try:
            hash(value)
        except TypeError:
            return id(value)
        return value
    return id(value)


def placed(answer: object, where: str | int | None, thing: object) -> object:
    """An answer that has something there, with another thing in its place."""
    if where is None:
        return thing
    if isinstance(where, str):
        return cast("Hit", answer)._replace(handle=thing)
    parts = list(cast("tuple[object, ...]", answer))
    parts[where] = thing
    return tuple(parts)


def at(answer: object, where: str | int | None, *, written: bool = False) -> object:
    """What stands there in an answer, or in one as it is ``written``; ``None`` where nothing does, as in a refusal."""
    if where is None:
        return answer
    if isinstance(where, str):
        if written:
            return answer.get(where) if isinstance(answer, dict) else None
        return answer.handle if type(answer) is Hit else None
    if type(answer) is not (list if written else tuple):
        return None
    parts = cast("Sequence[object]", answer)
    return parts[where] if len(parts) > where else None
