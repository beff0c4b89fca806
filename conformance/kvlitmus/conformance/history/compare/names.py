"""Names for what caches number as they like, so that two plays can be compared.

A page has the number in which it came up among those of its kind, from when it was given until it is seen free again or
changes its owner; jobs and what is stored likewise.  A tree is what is cached under which prefix, however its nodes are
split; a page of which an event tells is named by its prefix.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias, cast

from kvlitmus.conformance.tape.calls import CALLS, FILLED, LENT, OTHER, TURNS
from kvlitmus.conformance.tape.forms import FormError, Json
from kvlitmus.conformance.tape.operands import GIVES
from kvlitmus.conformance.tape.written import raised_in

Plain: TypeAlias = object
"""What is compared: JSON, with names in it, and mappings by prefix."""

UNTOLD = frozenset({"locks", "hits", "priority", "pins", "told", "below", "left", "freed", "anchor"})
"""What a cache need not tell: fields that are compared only where both have them."""

PLACE = 3
"""So many parts has a run of places in one page: its name, where it begins, and how many."""

PAGED = frozenset({"device", "host", "row"})
"""The kinds of places that come in whole pages."""

GIVEN = frozenset({"alloc", "alloc_extend", "alloc_decode", "grow"})
HITS, BEGINS = frozenset({"match", "raw_match"}), frozenset({"begin", "raw_begin", "fork", "resume"})
BEGUNS = BEGINS | {"publish", "publish_upto"}
STORED, LOADED = frozenset({"insert", "raw_insert"}), frozenset({"load_back", "load_back_within"})
ROWS = frozenset({"sparse_request", "sparse_read", "sparse_stage", "sparse_prealloc"})
GIVEN_BACK = frozenset(
    {"component_prefetch_settled", "component_prefetch_abort", "component_copied", "component_detach"}
)
UNNAMED = frozenset({OTHER, "raw_array", "lock", "component_unlock", "shares_free_list"})
"""Calls whose answer is a handle, or what another thread saw, whenever that was."""

VIEWS = frozenset({"view", "tiers"})
ENTRIES = frozenset({"component_entries", "component_host_entries"})
FREE = frozenset({"component_free_places", "component_free_host"})


class Prefixes:
    """The prefixes that came up in two plays, each by a number that is the same in both."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[int, Hashable], int] = {}
        self._parts: list[tuple[int, Hashable]] = []

    def of(self, before: int, unit: Hashable) -> int:
        """The prefix that goes on with this unit; -1 is before all of them, then comes the namespace."""
        number = self._numbers.setdefault((before, unit), len(self._parts))
        if number == len(self._parts):
            self._parts.append((before, unit))
        return number

    def text(self, number: int) -> str:
        """The prefix, for people."""
        units: list[Hashable] = []
        while number >= 0:
            number, unit = self._parts[number]
            units.append(unit)
        space = units.pop() if units else None
        listed = json.dumps(units[::-1])
        return listed if space is None else f"{listed} of {space!r}"


class Names:
    """The names of what one cache numbers as it likes."""

    def __init__(self, page: int, prefixes: Prefixes) -> None:
        self._page = page
        self._prefixes = prefixes
        self._known: dict[str, dict[Hashable, int]] = {}
        self._numbers: dict[str, dict[int, Json]] = {}
        self._many: dict[str, int] = {}
        self._owners: dict[str, dict[Hashable, Hashable]] = {}
        self._before: dict[str, dict[Hashable, Hashable]] = {}
        self._other: dict[str, str] = {}
        self._told: dict[str, int] = {}

    def of(self, kind: str, number: Json, *, fresh: bool = False) -> str:
        """The name; ``fresh``: another thing has this number now."""
        known = self._known.setdefault(kind, {})
        key: Hashable = number if isinstance(number, int | str | float | None) else json.dumps(number)
        if fresh or key not in known:
            known[key] = self._many[kind] = self._many.get(kind, -1) + 1
            self._numbers.setdefault(kind, {})[known[key]] = number
        name = f"{kind} {known[key]}"
        return self._other.get(name, name)

    def there(self, name: str, told: Json, given: Mapping[str, Json], other: Names) -> Json:
        """An argument with the numbers that the same places and jobs have in another play.

        Raises :class:`FormError` for what has none there.
        """
        if name in ("slots", "last"):
            return self._places_there("host" if given.get("tier") == "host" else "device", told, other)
        if name == "job":
            return self._number_there("job", told, other)
        if name in ("given", "entries") and type(told) is dict:
            return {kind: self._places_there(kind, one, other) for kind, one in told.items()}
        return told

    def _places_there(self, kind: str, told: Json, other: Names) -> Json:
        """Places, or where they end and the places."""
        if type(told) is not list:
            return told
        size = self._page if kind in PAGED else 1
        found: list[Json] = []
        for one in told:
            if type(one) is list and len(one) == 2:
                found.append([one[0], self._number_there(kind, one[1], other)])
            elif type(one) is int and one >= 0:
                found.append(cast("int", self._number_there(kind, one // size, other)) * size + one % size)
            else:
                found.append(one)
        return found

    def _number_there(self, kind: str, number: Json, other: Names) -> Json:
        key: Hashable = number if isinstance(number, int | str | float | None) else json.dumps(number)
        index = self._known.get(kind, {}).get(key)
        if index is None or index not in other._numbers.get(kind, {}):
            raise FormError(f"a {kind} that a step before gave both", number)
        return other._numbers[kind][index]

    def swap(self, one: str, other: str) -> None:
        """From now on one of these names stands for what the other did."""
        known = {now: name for name, now in self._other.items()}
        self._other |= {known.get(one, one): other, known.get(other, other): one}

    def places(self, kind: str, told: Json, *, given: bool = False, owner: Hashable = None) -> Plain:
        """Slots by their pages: the name, where it begins in the page, and how many.

        ``given``: pages that are begun here belong to somebody else than before; ``owner``: to whom, if it is seen.
        """
        if type(told) is not list:
            return told
        size = self._page if kind in PAGED else 1
        found: list[Plain] = []
        at = 0
        while at < len(told):
            number = told[at]
            if type(number) is not int or number < 0:
                found.append(number)
                at += 1
                continue
            page, start = divmod(number, size)
            many = 1
            while at + many < len(told) and told[at + many] == number + many and start + many < size:
                many += 1
            fresh = given and start == 0
            if owner is not None:
                fresh = self._before.get(kind, {}).get(page, owner) != owner
                self._owners.setdefault(kind, {})[page] = owner
            found.append([self.of(kind, page, fresh=fresh), start, many])
            at += many
        return found

    def freed(self, kind: str, pages: Json) -> Plain:
        """How many pages are free; they have no name any more."""
        if type(pages) is not list:
            return pages
        known, owners = self._known.get(kind, {}), self._owners.get(kind, {})
        for page in pages:
            if type(page) is int:
                known.pop(page, None)
                owners.pop(page, None)
        return len(pages)

    # -- snapshots -----------------------------------------------------------------------------

    def view(self, told: Json) -> Plain:
        """A tree: what is where, by prefix, page by page; and how much is free."""
        if type(told) is not dict or type(told.get("nodes", [])) is not list:
            return told
        try:
            pages = dict(self._pages(cast("list[dict[str, Json]]", told.get("nodes", []))))
        except (TypeError, ValueError, KeyError, IndexError, AttributeError):  # whatever it is, it is no tree
            return told
        self._seen_anew("device", "host")
        tree: dict[Hashable, Plain] = {}
        for prefix in sorted(pages):
            one = pages[prefix]
            tree[prefix] = {
                **one,
                "slots": self.places("device", cast("Json", one["slots"]), owner=prefix),
                "host": self.places("host", cast("Json", one["host"]), owner=prefix),
            }
        found: dict[Hashable, Plain] = {"tree": tree, "moving": many(told.get("moving", []))}
        found["free"], found["host_free"] = (
            self.freed("device", told.get("free", [])),
            self.freed("host", told.get("host_free", [])),
        )
        return found

    def _seen_anew(self, *kinds: str) -> None:
        """All owners of these places are about to be seen."""
        for kind in kinds:
            self._before[kind] = self._owners.pop(kind, {})

    def _pages(self, nodes: Iterable[dict[str, Json]]) -> Iterator[tuple[int, dict[Hashable, Plain]]]:
        ends: list[int] = []
        for node in nodes:
            parent = cast("int", node["parent"])
            at = ends[parent] if parent >= 0 else self._prefixes.of(-1, cast("Hashable", node["namespace"]))
            units = cast("list[Json]", node["units"])
            said: dict[Hashable, Plain] = {name: node.get(name) for name in ("locks", "hits", "priority", "pins")}
            start = 0
            for number, unit in enumerate(units, 1):
                at = self._prefixes.of(at, tuple(unit) if isinstance(unit, list) else cast("Hashable", unit))
                if number % self._page == 0 or number == len(units):
                    slots, host = (cast("list[Json] | None", node.get(name)) for name in ("slots", "host"))
                    yield (
                        at,
                        {
                            **said,
                            "slots": slots and slots[start:number],
                            "host": host and host[start:number],
                        },
                    )
                    start = number
            ends.append(at)

    def entries(self, method: str, told: Json) -> Plain:
        """The entries of components, by component and prefix; several under one where a cache keeps them."""
        if type(told) is not list or not all(type(one) is list and len(one) == 4 for one in told):
            return told
        rows = sorted((json.dumps(one[:3]), one) for one in cast("list[list[Json]]", told))
        where = " of the host" if method == "component_host_entries" else ""
        self._seen_anew(*{f"{row[0]}{where}" for _, row in rows})
        found: dict[Hashable, list[Plain]] = {}
        for key, row in rows:
            kind = f"{row[0]}{where}"
            found.setdefault(key, []).append(self.places(kind, [row[3]], owner=key))
        return cast("Plain", found)

    # -- calls ---------------------------------------------------------------------------------

    def arguments(self, method: str, args: Sequence[Json], kwargs: Mapping[str, Json]) -> dict[Hashable, Plain]:
        """What was asked, by the names of the parameters."""
        if method not in CALLS:
            return dict(kwargs) | dict(enumerate(args))
        order, given = list(CALLS[method].parameters), CALLS[method].by_name(args, kwargs)
        lent = [order[at] for calls in (LENT, FILLED) if method in calls for at in (calls[method],) if at < len(order)]
        return {name: None if name in lent else self._argument(method, name, one, given) for name, one in given.items()}

    def _argument(self, method: str, name: str, told: Json, given: Mapping[str, Json]) -> Plain:
        if not method.startswith("raw_") and method in CALLS and name in CALLS[method].takes:
            return None
        if method == "raw_array" and name == "values":
            return many(told)
        if name in ("slots", "last"):
            return self.places("host" if given.get("tier") == "host" else "device", told)
        if name == "job":
            return self.of("job", told)
        if name == "given":
            return self._each(told, self.places)
        if name == "entries":
            return self._each(told, self._pairs)
        return told

    def _each(self, told: Json, how: Callable[[str, Json], Plain], where: str = "") -> Plain:
        """By component."""
        return {name: how(name + where, one) for name, one in told.items()} if type(told) is dict else told

    def _given(self, kind: str, told: Json) -> Plain:
        return self.places(kind, told, given=True)

    def _pairs(self, kind: str, told: Json) -> Plain:
        """Places by where they end."""
        if type(told) is not list or not all(type(one) is list and len(one) == 2 for one in told):
            return told
        pairs = sorted(cast("list[list[Json]]", told), key=str)
        return [[end, self.places(kind, [place])] for end, place in pairs]

    def answer(self, method: str, told: Json) -> Plain:
        """What came of a call."""
        if told is None or method in UNNAMED:
            return None
        if method in GIVEN:
            return self.places("device", told, given=True)
        if method == "evict_host":
            return {"freed": told}
        if method in ROWS:
            return self.places("row", told)
        if method in ("sparse_back_up", "sparse_grow"):
            return self.places("row" if method == "sparse_back_up" else "buffer", [told])
        if method.startswith("component_"):
            return self._of_components(method, told)
        if method == TURNS and type(told) is dict:  # how ranks agree is their own affair, what they decide is not
            return {name: one for name, one in told.items() if name != "turns"}
        return self._of_record(method, told) if type(told) is dict else told

    def _of_record(self, method: str, told: dict[str, Json]) -> Plain:
        if method in HITS:
            slots = self.places("device", told.get("slots"))
            return {"length": told.get("length"), "told": slots, "below": told.get("host")}
        if method in STORED:
            return {"already": told.get("already"), "left": self.places("device", told.get("to_free"))}
        if method in LOADED:
            return {"before": told.get("before"), "slots": self.places("device", told.get("slots"), given=True)}
        if method in BEGUNS and type(row := told.get("row")) is list and type(cached := told.get("cached")) is int:
            rest = self.places("device", row[cached:], given=method in BEGINS)
            return {"cached": cached, "row": [self.places("device", row[:cached]), rest]}
        return cast("Plain", told)

    def _of_components(self, method: str, told: Json) -> Plain:
        if method == "component_alloc":
            return self._each(told, self._given)
        if method == "component_insert":
            return self._each(told, self.places)
        if method in GIVEN_BACK:
            return self._each(told, lambda _, one: many(one))
        if type(told) is not list:
            return told
        host = " of the host" if "prefetch" in method or method == "component_back_up" else ""
        return [self._of_part(method, at, one, host) for at, one in enumerate(told)]

    def _of_part(self, method: str, at: int, told: Json, host: str) -> Plain:
        """One part of an answer that is a tuple."""
        if (method, at) == ("component_match", 1):
            return self._each(told, self.places)
        if (method, at) in PAIRED:
            return self._each(told, self._pairs, host)
        if (method, at) in (
            ("component_prefetch", 1),
            ("component_prefetch_found", 2),
            ("component_prefetch_commit", 1),
        ):
            return self._each(told, lambda _, one: many(one))
        if at == 0 == GIVES.get(method):
            return told is not None
        return None if (method, at) == ("component_match", 2) else told

    # -- looks ---------------------------------------------------------------------------------

    def look(self, method: str, told: Json) -> Plain:
        """What was seen."""
        if raised_in(told) is not None:
            return "raised"
        if method in VIEWS:
            return self.view(told)
        if method in ENTRIES:
            return self.entries(method, told)
        if method in FREE:
            return self._each(told, lambda _, one: many(one))
        if method == "sparse_view" and type(told) is dict:
            return {"free": many(told.get("free")), "rows": self._rows(told.get("rows"))}
        if method in ("sparse_destinations", "sparse_device_buffer"):
            return self.places("destination" if method == "sparse_destinations" else "buffer", told)
        if type(told) is list and all(type(one) is dict for one in told):
            return [self._listed(method, cast("dict[str, Json]", one)) for one in told]
        return told

    def _rows(self, told: Json) -> Plain:
        if type(told) is not list or not all(type(one) is list and len(one) == 2 for one in told):
            return told
        rows = sorted(cast("list[list[Json]]", told), key=str)
        return {cast("Hashable", number): self.places("row", slots) for number, slots in rows}

    def _listed(self, method: str, told: dict[str, Json]) -> Plain:
        if method == "jobs":
            return {**told, "id": self.of("job", told.get("id"))}
        if method == "events":
            return self._event(told)
        if method == "component_begun":
            begun = told.get("copy") is not None
            return {**told, "copy": begun, "places": self._each(told.get("places"), self._pairs, " of the host")}
        return cast("Plain", told)

    def _event(self, told: dict[str, Json]) -> Plain:
        """What was told of a page, which is named by its prefix from when it is said what that is."""
        page, parent = (told.get(name) and json.dumps(told[name]) for name in ("page", "parent"))
        if told.get("what") == "stored" and type(units := told.get("units")) is list:
            root = self._prefixes.of(-1, cast("Hashable", told.get("namespace")))
            before = self._told.get(parent, -1) if parent else root
            self._told[cast("str", page)] = self._prefixes.of(before, json.dumps(units))
        prefixes: dict[str, Json] = {
            name: one and self._told.get(one, -1) for name, one in (("page", page), ("parent", parent))
        }
        return cast("Plain", {**told, **prefixes})

    def did(self, told: Sequence[Json]) -> Plain:
        """What was done with what the suite had lent."""
        found: list[Plain] = []
        for one in cast("Sequence[list[Json]]", told):
            if one[0] == "wrote":  # into what it had answered: numbers of slots
                continue
            if one[0] in ("exists", "get", "put") and len(one) > 1 and type(one[1]) is list and one[1]:
                names, *rest = one[1]
                listed = [self.of("stored", name) for name in (names if type(names) is list else [names])]
                found.append([one[0], listed, *cast("list[Plain]", rest), *cast("list[Plain]", one[2:])])
            else:
                found.append(cast("Plain", one))
        return found


PAIRED = frozenset(
    {("component_start", 2), ("component_grow", 1), ("component_prefetch_found", 1), ("component_back_up", 1)}
    | {("component_load", 2)}
)
"""Parts of answers that say places by where they end."""


def many(told: Json) -> Plain:
    """How many there are, where it doesn't matter which."""
    return len(told) if type(told) is list else told
