"""What is drawn of a cache of components: each pool, and where the entries of each prefix lie, side by side."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import NamedTuple

from kvlitmus.conformance.tape.changes import exact
from kvlitmus.conformance.tape.forms import Json
from kvlitmus.conformance.viewer.plain import (
    fields,
    items,
    number,
    numbers,
    pairs,
    part,
    short,
    span,
    told,
    units_text,
)
from kvlitmus.conformance.viewer.scenes import (
    SEEN,
    Call,
    Drawn,
    Follows,
    Homes,
    Job,
    Looks,
    Numbered,
    Pool,
    Row,
    protected,
    square,
    table,
    taken,
)
from kvlitmus.spec.words.layouts import LAYOUTS, NONE, layout_of

DEVICE, HOST = "device", "host"

Places = dict[str, list[int]]
"""Places by component; one that is told twice is there twice."""


def by_component(value: Json) -> Places:
    """Places by component: listed, or by the ends of their entries."""
    return {name: numbers([place for _, place in pairs(some)]) or numbers(some) for name, some in fields(value).items()}


class Work(NamedTuple):
    """A copy, a prefetch or a write: its kind, to which tier it goes, the step that began it, and its places.

    Of a prefetch: what its I/O reads, by where the entries end, until that has settled; and whether it is ``over``.
    """

    kind: str
    to: str
    step: int
    places: Places
    reads: Mapping[str, Mapping[int, int]] = {}
    over: bool = False

    def state(self) -> str:
        """How it stands."""
        return "over, its I/O is under way" if self.over else "under way"


class Components(Follows):
    """A cache of components."""

    begins = "component_"

    def __init__(self, config: Mapping[str, Json], ports: frozenset[str]) -> None:
        name = config.get("components")
        size, pages = max(1, number(config.get("page_size"), 1)), number(config.get("pages"))
        known = isinstance(name, str) and name in LAYOUTS and pages > 0
        self.layout = layout_of(str(name), size, pages, number(config.get("host_pages"))) if known else NONE
        self.pool_of = {one.name: one.pool for one in self.layout.components}
        self.units_of = {one.name: one.unit for one in self.layout.components}
        self.serves = "component_requests" in ports
        self.number = Numbered()
        self.every: dict[tuple[str, str], set[int]] = {}
        self.forget()

    def forget(self) -> None:
        """Nobody holds anything, and nothing is under way."""
        self.loans: dict[tuple[str, int], list[int]] = {}
        self.requests: dict[str, tuple[int, Places]] = {}
        self.works: dict[str, Work] = {}
        self.keys: dict[int, dict[str, Json]] = {}
        self.locks: dict[str, list[str]] = {}

    def draw(self, looks: Looks) -> tuple[list[Pool], list[Drawn], list[Job]]:
        """What is there now."""
        tiers = [(DEVICE, looks.get("component_free_places"), looks.get("component_entries"))]
        if "component_free_host" in looks or "component_host_entries" in looks:
            tiers.append((HOST, looks.get("component_free_host"), looks.get("component_host_entries")))
        if not looks.stale("component_begun"):
            self.begun(looks.get("component_begun"))
        stale = looks.stale("component_entries")
        pools = [one for tier, free, entries in tiers for one in self.pools(tier, free, entries, stale)]
        tables = [self.entries(tiers, stale)]
        if self.requests:
            rows = [
                Row(key, [f"request of step {step}", places_text(places)])
                for key, (step, places) in self.requests.items()
            ]
            tables.append(table("Requests", ["request", "places"], rows))
        if (events := looks.get("component_events")) is not None:
            rows = [Row(str(at), [told(one)]) for at, one in enumerate(items(events))]
            tables.append(table("Events told last", ["event"], rows))
        jobs = [
            (f"of step {one.step}" if one.step else key, one.kind, one.state(), places_text(one.places))
            for key, one in self.works.items()
        ]
        return pools, tables, jobs

    def pools(self, tier: str, free: Json, entries: Json, stale: str) -> list[Pool]:
        """The pools of one tier, each place a square."""
        found: dict[str, Homes] = {name: {} for name in (self.layout.host if tier == HOST else self.layout.places)}
        for name, places in fields(free).items():
            found[name] = {place: [("free", "")] * times for place, times in Counter(numbers(places)).items()}
        locks = Counter(one for covered in self.locks.values() for one in covered if tier == DEVICE)
        for one in items(entries):
            component, namespace, units, at = (part(one, at) for at in range(4))
            name = self.pool_of.get(str(component), short(component, 40))
            text = short(f"{component} {entry_text(units, self.units_of.get(str(component), 1))}", 120)
            text += protected(locks[exact([component, namespace, units])], "locked")
            found.setdefault(name, {}).setdefault(number(at, -1), []).append(("cached", text))
        held = self.held(tier)
        empty = "unseen" if stale or free is None else "none"
        drawn: list[Pool] = []
        for name in dict.fromkeys([*found, *(name for (name, _), _ in held)]):
            homes = found.setdefault(name, {})
            taken(homes, [(place, home) for (of, place), home in held if of == name], stale=bool(stale))
            every = self.every.setdefault((tier, name), set())
            every.update(homes)
            squares = [square(place, self.legal(homes.get(place, [])), empty=empty) for place in sorted(every)]
            drawn.append({"name": f"{tier.capitalize()}: {name}{SEEN if stale else ''}{stale}", "squares": squares})
        return drawn

    def held(self, tier: str) -> list[tuple[tuple[str, int], tuple[str, str]]]:
        """Who holds places that were handed out."""
        found: list[tuple[tuple[str, int], tuple[str, str]]] = []
        if tier == DEVICE:
            found += [(one, ("caller", f"caller, step {step}")) for one, steps in self.loans.items() for step in steps]
            for step, places in self.requests.values():
                found += self.spread(places, ("request", f"request of step {step}"))
        for one in self.works.values():
            if one.to == tier:
                found += self.spread(one.places, ("flight", f"{one.kind} of step {one.step}"))
        return found

    def spread(self, places: Places, home: tuple[str, str]) -> list[tuple[tuple[str, int], tuple[str, str]]]:
        """The same home for all these places."""
        return [
            ((self.pool_of.get(name, name), place), home) for name, some in places.items() for place in sorted(some)
        ]

    def legal(self, homes: list[tuple[str, str]]) -> list[tuple[str, str]]:
        """Homes that one place may have together are one: what requests hold or copies bring, others may find."""
        kinds = [kind for kind, _ in homes]
        if len(set(homes)) < len(homes):
            return homes
        shared = {"cached", "request", "flight"} if self.serves else {"cached", "flight"}
        if self.serves and set(kinds) == {"free", "cached"}:
            return [home for home in homes if home[0] == "cached"][:1]
        if len(homes) > 1 and set(kinds) <= shared and kinds.count("cached") <= 1 and (self.serves or len(homes) <= 2):
            first = next(kind for kind in ("request", "flight", "cached") if kind in kinds)
            return [(first, " + ".join(who for _, who in homes))]
        return homes

    def entries(self, tiers: list[tuple[str, Json, Json]], stale: str) -> Drawn:
        """Each cached prefix, and where the entries of each component lie."""
        known = [one.name for one in self.layout.components]
        where: dict[tuple[str | None, str], dict[str, list[str]]] = {}
        units_of: dict[tuple[str | None, str], Json] = {}
        for tier, _, entries in tiers:
            for one in items(entries):
                component, namespace, units, place = (part(one, at) for at in range(4))
                prefix = (short(namespace, 60) if namespace is not None else None, exact(units))
                units_of[prefix] = units
                name = short(component, 40)
                if name not in known:
                    known.append(name)
                where.setdefault(prefix, {}).setdefault(name, []).append(f"{tier} {told(place)}")
        rows = [
            Row(
                self.number(namespace, key),
                [prefix_text(namespace, units_of[namespace, key]), *cells_of(where[namespace, key], known)],
            )
            for namespace, key in sorted(where, key=lambda one: (one[0] or "", sort_key(units_of[one])))
        ]
        return table(f"Entries{stale}", ["prefix", *known], rows, tree=True)

    # -- calls ---------------------------------------------------------------------------------

    def _alloc(self, call: Call) -> None:
        for one in self.placed(call.answer):
            self.loans.setdefault(one, []).append(call.number)

    def give(self, places: Iterable[tuple[str, int]]) -> None:
        """Each place is given back once; what was handed out twice somebody holds still."""
        for one in dict.fromkeys(places):
            if len(self.loans.get(one, ())) > 1:
                self.loans[one].pop(0)
            else:
                self.loans.pop(one, None)

    def placed(self, value: Json) -> list[tuple[str, int]]:
        """Places with their pools."""
        return [(self.pool_of.get(name, name), one) for name, some in by_component(value).items() for one in some]

    def _free(self, call: Call) -> None:
        self.give(self.placed(call.given.get("given")))

    def _match(self, call: Call) -> None:
        self.keys[call.number] = fields(call.given.get("key"))

    def _lock(self, call: Call) -> None:
        key = self.keys.get(number(fields(operand(call.given.get("handle"))).get("@"), -1), {})
        units = items(key.get("tokens"))
        units = [list(pair) for pair in pairwise(units)] if key.get("bigram") is True else units
        self.locks[name_of(call, part(call.answer, 0))] = [
            exact([name, key.get("namespace"), units[:end]])
            for name, ends in fields(part(call.answer, 1)).items()
            for end in numbers(ends)
        ]

    def _unlock(self, call: Call) -> None:
        self.locks.pop(exact(operand(call.given.get("receipt"))), None)

    def _insert(self, call: Call) -> None:
        left = set(self.placed(call.answer))
        self.give(one for one in self.placed(call.given.get("entries")) if one not in left)

    def _reset(self, call: Call) -> None:
        self.forget()

    def _start(self, call: Call) -> None:
        if call.answer is not None:
            self.requests[name_of(call, part(call.answer, 0))] = call.number, by_component(part(call.answer, 2))

    def _grow(self, call: Call) -> None:
        name = exact(operand(call.given.get("receipt")))
        if name in self.requests:
            self.requests[name] = self.requests[name][0], by_component(part(call.answer, 1))

    def _finish(self, call: Call) -> None:
        self.requests.pop(exact(operand(call.given.get("receipt"))), None)

    def _back_up(self, call: Call) -> None:
        self._work(call, "backup", HOST, part(call.answer, 1))

    def _load(self, call: Call) -> None:
        self._work(call, "load", DEVICE, part(call.answer, 2))

    def _prefetch(self, call: Call) -> None:
        self._work(call, "prefetch", DEVICE, part(call.answer, 1))

    def _write(self, call: Call) -> None:
        self._work(call, "write", "storage", None)

    def _work(self, call: Call, kind: str, tier: str, places: Json) -> None:
        if part(call.answer, 0) is not None:
            self.works[name_of(call, part(call.answer, 0))] = Work(kind, tier, call.number, by_component(places))

    def begun(self, begun: Json) -> None:
        """Backups that the cache has begun by itself."""
        for one in items(begun):
            copy = fields(one).get("copy")
            if copy is not None:
                work = Work("backup", HOST, 0, by_component(fields(one).get("places")))
                self.works.setdefault(exact(operand(copy)), work)

    def _copied(self, call: Call) -> None:
        self.works.pop(exact(operand(call.given.get("copy"))), None)

    def _written(self, call: Call) -> None:
        self.works.pop(exact(operand(call.given.get("write"))), None)

    def _prefetch_found(self, call: Call) -> None:
        name = exact(operand(call.given.get("fetch")))
        if name in self.works:
            work, back = self.works[name], by_component(part(call.answer, 2))
            places = {of: [one for one in some if one not in back.get(of, ())] for of, some in work.places.items()}
            reads = {
                of: {number(end, -1): number(place, -1) for end, place in pairs(some)}
                for of, some in fields(part(call.answer, 1)).items()
            }
            self.works[name] = work._replace(places=places, reads=reads)

    def _prefetch_settled(self, call: Call) -> None:
        name = exact(operand(call.given.get("fetch")))
        if name in self.works:
            self.works[name] = self.works[name]._replace(reads={})
            if self.works[name].over:
                del self.works[name]

    def _prefetch_commit(self, call: Call) -> None:
        came = fields(call.given.get("came"))
        self.ended(exact(operand(call.given.get("fetch"))), {of: numbers(some) for of, some in came.items()})

    def _prefetch_abort(self, call: Call) -> None:
        self.ended(exact(operand(call.given.get("fetch"))), {})

    def _detach(self, call: Call) -> None:
        for name in [name for name, one in self.works.items() if one.kind == "prefetch"]:
            self.ended(name, {})

    def ended(self, name: str, came: Places) -> None:
        """A prefetch is over, of which this came: it has still what its I/O may write, until that has settled."""
        work = self.works.get(name)
        if work is None or work.over:
            return
        left = {
            of: [place for end, place in some.items() if end not in came.get(of, ())] for of, some in work.reads.items()
        }
        if any(left.values()):
            self.works[name] = work._replace(places=left, over=True)
        else:
            del self.works[name]


def places_text(places: Places) -> str:
    """Places by component, for one line."""
    return short(", ".join(f"{name} {span(sorted(some))}" for name, some in places.items() if some))


def operand(value: Json) -> Json:
    """A receipt or the like, by what gave it."""
    if isinstance(value, dict) and "@" in value:
        return {"@": part(value["@"], 0) if isinstance(value["@"], list) else value["@"]}
    return value


def name_of(call: Call, given: Json) -> str:
    """By what later calls name what this one gave."""
    plain = isinstance(given, str | int | float)
    return exact(
        given if plain else {"@": call.number} if not isinstance(given, dict) or "@" not in given else operand(given)
    )


def prefix_text(namespace: Json, units: Json) -> str:
    """A prefix by its units."""
    text = units_text(units)
    return text if namespace is None else f"{text} @{short(namespace, 60)}"


def entry_text(units: Json, own: int) -> str:
    """The units that an entry stands for: the last ones of its prefix."""
    every = items(units)
    return f"… {units_text(every[-own:])}" if len(every) > own else units_text(every)


def cells_of(where: Mapping[str, list[str]], components: list[str]) -> list[str]:
    """Where the entries of a prefix lie, component by component."""
    return [", ".join(where.get(one, ())) for one in components]


def sort_key(units: Json) -> list[str]:
    """An order in which prefixes come before what they begin."""
    return [f"{one:020}" if isinstance(one, int) else exact(one) for one in items(units)]
