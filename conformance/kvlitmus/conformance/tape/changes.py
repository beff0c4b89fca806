"""Looks as changes: what differs from what the same look showed last.

A change is ``{"~": [edit, …]}``, where an edit is

* ``[path, at, dropped, [value, …]]``: in the array at ``path``, ``dropped`` values from ``at`` on give way to these;
* ``[path, key, value]``: the field ``key`` of the object at ``path`` is this now;
* ``[path, key]``: that object has no such field any more.

``path`` is a list of keys and indices, ``[]`` for the look's value itself.  Edits are made one after the other.
``{"~": []}``: nothing has changed.

A look that answered several times after one step, and not the same, is ``{"several": [answer, …]}``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from marshal import dumps
from typing import Generic, TypeVar

from kvlitmus.conformance.support.compact import compact
from kvlitmus.conformance.tape.compiled import MARSHAL
from kvlitmus.conformance.tape.forms import FormError, Json

MARK, SEVERAL = "~", "several"

LIST_EDIT = 4
"""So many parts has an edit of an array."""

FEW = 8
"""So many edits are faster to make than a look is to read."""


def exact(value: Json) -> str:
    """The one text of a value: two values are the same if their texts are."""
    return compact(value)


def change(old: Json, new: Json) -> Json:
    """How a look is written that showed ``old`` before and shows ``new`` now: whichever is shorter."""
    if type(old) is not type(new) or type(new) not in (list, dict):
        return new
    whole = exact(new)
    found = exact(old)
    if whole == found:
        return {MARK: []} if len(whole) > len('{"~":[]}') else new
    edits: list[Json] = []
    differ(old, new, [], edits)
    changed: Json = {MARK: edits}
    return changed if len(exact(changed)) < len(whole) else new


def news(old: Json, new: Json) -> Json:
    """The same where time counts for more than length: as edits where these are few."""
    if type(old) is not type(new) or type(new) not in (list, dict):
        return new
    edits: list[Json] = []
    differ(old, new, [], edits)
    return {MARK: edits} if len(edits) <= FEW else new


def differ(old: Json, new: Json, path: list[Json], edits: list[Json]) -> None:
    """Add the edits that make ``new`` of ``old``: two arrays or two objects."""
    if isinstance(old, dict) and isinstance(new, dict):
        differ_fields(old, new, path, edits)
        return
    assert isinstance(old, list)
    assert isinstance(new, list)
    one, two = old, new
    start = alike(one, two)
    if start == len(one) == len(two):
        return
    end = min(alike(reversed(one), reversed(two)), len(one) - start, len(two) - start)
    left, right = one[start : len(one) - end], two[start : len(two) - end]
    if len(left) == len(right) and all(
        type(a) is type(b) and type(a) in (list, dict) for a, b in zip(left, right, strict=True)
    ):
        for at, (a, b) in enumerate(zip(left, right, strict=True), start):
            if a is not b and not same(a, b):
                differ(a, b, [*path, at], edits)
    else:
        edits.append([path, start, len(left), right])


def differ_fields(old: dict[str, Json], new: dict[str, Json], path: list[Json], edits: list[Json]) -> None:
    """The same of two objects."""
    if not old.keys() <= new.keys():
        edits += [[path, key] for key in old if key not in new]
    for key, value in new.items():
        before = old.get(key)
        if key not in old:
            edits.append([path, key, value])
        elif before is value:
            continue
        elif type(before) is type(value) and type(value) in (list, dict):
            differ(before, value, [*path, key], edits)
        elif not same(before, value):
            edits.append([path, key, value])


def alike(one: Iterable[Json], other: Iterable[Json]) -> int:
    """How many values two sequences have in common before they differ."""
    found = 0
    for a, b in zip(one, other, strict=False):
        if a is not b and not same(a, b):
            break
        found += 1
    return found


def same(one: Json, other: Json) -> bool:
    """Whether two values are the same; 1, 1.0 and true are not."""
    if type(one) is not type(other) or one != other:
        return False
    return type(one) not in (list, dict) or dumps(one, MARSHAL) == dumps(other, MARSHAL)


def changed(old: Json, told: Json) -> Json:
    """What a look shows that is written like this, and showed ``old`` before; raises :class:`FormError`.

    The parts that no edit touches are those of ``old``: whoever changes one changes the other.
    """
    if type(told) is not dict or MARK not in told or len(told) > 1:
        return told
    edits = told[MARK]
    if type(edits) is not list:
        raise FormError("a list of edits", edits)
    if old is None:
        raise FormError("a value, where this look was not seen before", told)
    for one in edits:
        old = edited(old, one)
    return old


def edited(old: Json, edit: Json) -> Json:
    """A value after one edit."""
    if type(edit) is not list or not 2 <= len(edit) <= LIST_EDIT or type(edit[0]) is not list:
        raise FormError("an edit such as [path, at, dropped, [inserted]] or [path, key, value]", edit)
    path = edit[0]
    if not path:
        return applied(old, edit)
    step, *rest = path
    inner: list[Json] = [rest, *edit[1:]]
    if isinstance(old, dict) and type(step) is str and step in old:
        return {**old, step: edited(old[step], inner)}
    if isinstance(old, list) and type(step) is int and 0 <= step < len(old):
        return [*old[:step], edited(old[step], inner), *old[step + 1 :]]
    raise FormError("a path into what this look showed before", path)


def applied(old: Json, edit: Sequence[Json]) -> Json:
    """An array or an object after an edit of its own."""
    _, at, *rest = edit
    if len(edit) == LIST_EDIT:
        dropped, inserted = rest
        if (
            type(at) is int
            and type(dropped) is int
            and isinstance(old, list)
            and type(inserted) is list
            and 0 <= at <= at + dropped <= len(old)
        ):
            return [*old[:at], *inserted, *old[at + dropped :]]
        raise FormError("an edit of an array, within its bounds", list(edit))
    if not isinstance(old, dict) or type(at) is not str or (not rest and at not in old):
        raise FormError("an edit of a field of an object", list(edit))
    return {**old, at: rest[0]} if rest else {key: value for key, value in old.items() if key != at}


Value = TypeVar("Value")


class Unchanged(Generic[Value]):
    """What the value of each look was read as, for as long as the look shows the very same."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[Json, Value]] = {}

    def of(self, key: str, told: Json, read: Callable[[Json], Value]) -> Value:
        """The value; it is read where it is another than before."""
        known = self._known.get(key)
        if known is None or known[0] is not told:
            known = self._known[key] = told, read(told)
        return known[1]


class Looks:
    """What each look of one play showed last: writes what is seen after a step, and reads it again."""

    def __init__(self) -> None:
        self._last: dict[str, Json] = {}

    def written(self, seen: Mapping[str, Sequence[Json]]) -> dict[str, Json]:
        """What stands under ``"looks"``: by the key of a look its answers after a step, one or several."""
        found: dict[str, Json] = {}
        for key, answers in seen.items():
            told: list[Json] = []
            for one in answers:
                told.append(change(self._last.get(key), one))
                self._last[key] = one
            found[key] = told[0] if len(told) == 1 else {SEVERAL: told}
        return found

    def read(self, looks: Mapping[str, Json]) -> dict[str, list[Json]]:
        """The answers again; raises :class:`FormError` that names the look."""
        found: dict[str, list[Json]] = {}
        for key, told in looks.items():
            several = told[SEVERAL] if type(told) is dict and told.keys() == {SEVERAL} else [told]
            if type(several) is not list or not several:
                raise FormError(f"the looks at {key} to be a list of answers", told)
            found[key] = answers = []
            for one in several:
                try:
                    self._last[key] = changed(self._last.get(key), one)
                except FormError as error:
                    raise FormError(f"the look at {key} to be {error.expected}", error.got) from None
                answers.append(self._last[key])
        return found
