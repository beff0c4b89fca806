"""What is drawn of flat caches and hierarchies: pools, the tree with what is on which tier, jobs, storage, events."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from kvlitmus.conformance.support.text import harmless
from kvlitmus.conformance.tape.changes import exact
from kvlitmus.conformance.tape.forms import Json
from kvlitmus.conformance.viewer.holders import holders_of, pages
from kvlitmus.conformance.viewer.plain import (
    event_text,
    fields,
    items,
    number,
    numbers,
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
from kvlitmus.spec.words.config import CONFIG_VALUES

MOST_PAGES = max(map(int, CONFIG_VALUES["pages"]))
"""No pool has more."""

STORED = 40
"""So many of the pages that were put into storage last are shown."""

PROTECTED = {"slots": ("locks", "locked"), "host": ("pins", "pinned")}
"""Of the pages of each tier the field of their node that says how often they are protected, and the word for it."""


class Prefix:
    """A flat cache, or a hierarchy."""

    def __init__(self, config: Mapping[str, Json], profile: Mapping[str, Json]) -> None:
        self.size = max(1, number(config.get("page_size"), 1))
        device = config.get("pool", "device") == "device"
        self.name = "Device pool" if device else "Host pool"
        first = number(profile.get("reserved"), 1) if device else 0
        self.device = range(first, first + min(MOST_PAGES, number(config.get("pages"))))
        self.host = range(min(MOST_PAGES, number(config.get("host_pages"))))
        self.found_while_free = profile.get("publish") == "at_alloc"
        self.empty = "waiting" if number(profile.get("release_delay")) else "none"
        self.holders = holders_of(config, profile)
        self.number = Numbered()
        self.stored: dict[str, str] = {}
        self.listed: dict[str, Job] = {}
        self.ended: tuple[str, str] | None = None

    def follow(self, call: Call) -> None:
        """A call was made and answered."""
        self.holders.follow(call)
        self.ended = None
        if call.name == "advance" and not call.refused:
            how = fields(call.given.get("outcome")).get("how")
            self.ended = exact(call.given.get("job")), "failed" if how == "fail" else "ended"
        for one in call.did:
            if part(one, 0) == "put" and part(one, 2) is True:
                name = harmless(part(items(part(one, 1)), 0), 80)
                self.stored.pop(name, None)
                self.stored[name] = f"step {call.number}"

    def draw(self, looks: Looks) -> tuple[list[Pool], list[Drawn], list[Job]]:
        """What is there now."""
        key = "tiers" if "tiers" in looks else "view"
        view = fields(looks.get(key))
        nodes = [fields(one) for one in items(view.get("nodes"))]
        names = prefixes(nodes)
        pools = [self.device_pool(view, nodes, looks.stale(key))]
        if key == "tiers":
            idle = "jobs" in looks and not items(looks["jobs"])
            pools.append(self.host_pool(view, nodes, looks.stale(key), "of ended work" if idle else ""))
        tables = [self.tree(nodes, names, tiered=key == "tiers", stale=looks.stale(key))] if view else []
        if self.holders.requests:
            tables.append(self.holders.drawn())
        if self.stored:
            tables.append(self.storage())
        if "events" in looks and not looks.stale("events"):
            rows = [Row(f"{at}", [event_text(fields(one))]) for at, one in enumerate(items(looks["events"]))]
            tables.append(table("Events told", ["event"], rows))
        return pools, tables, self.jobs(looks)

    def jobs(self, looks: Looks) -> list[Job]:
        """The jobs that the cache lists, and the one that this step has ended, if it lists it no more."""
        before, self.listed = self.listed, {one[0]: one for one in map(job_of, map(fields, items(looks.get("jobs"))))}
        found: list[Job] = []
        if self.ended and self.ended[0] in before and self.ended[0] not in self.listed:
            id, kind, _, about = before[self.ended[0]]
            found.append((id, kind, self.ended[1], about))
        return [*found, *self.listed.values()]

    def device_pool(self, view: dict[str, Json], nodes: list[dict[str, Json]], stale: str) -> Pool:
        """The pool of the device, or of the host where it is judged alone."""
        homes: Homes = {page: [("free", "")] * times for page, times in Counter(numbers(view.get("free"))).items()}
        self.cached(homes, nodes, "slots")
        held = [(page, home) for page, some in self.holders.homes().items() for home in some]
        taken(homes, held, stale=bool(stale))
        if self.found_while_free:
            homes = {page: in_table(some) for page, some in homes.items()}
        empty = "unseen" if stale or not view else self.empty
        every = sorted({*self.device, *homes})
        squares = [square(page, homes.get(page, []), usable=page in self.device, empty=empty) for page in every]
        return {"name": f"{self.name}{SEEN if stale else ''}{stale}", "squares": squares}

    def host_pool(self, view: dict[str, Json], nodes: list[dict[str, Json]], stale: str, by: str) -> Pool:
        """The pool of the host; ``by``: what has the pages that move, if more is known of it."""
        homes: Homes = {page: [("free", "")] * times for page, times in Counter(numbers(view.get("host_free"))).items()}
        self.cached(homes, nodes, "host")
        slots = Counter(numbers(view.get("moving")))
        for page in pages(list(slots), self.size):
            times = max(slots[slot] for slot in range(page * self.size, page * self.size + self.size))
            homes[page] = [*homes.get(page, []), *[("flight", by)] * times]
        every = sorted({*self.host, *homes})
        empty = "unseen" if stale else "none"
        squares = [square(page, homes.get(page, []), usable=page in self.host, empty=empty) for page in every]
        return {"name": f"Host pool{stale}", "squares": squares}

    def cached(self, homes: Homes, nodes: list[dict[str, Json]], tier: str) -> None:
        """Add the cached pages of a tier, each with its own units, and how often it is protected."""
        field, word = PROTECTED[tier]
        for node in nodes:
            more = protected(number(node.get(field)), word)
            units = items(node.get("units"))
            inner = number(node.get("parent"), -1) != -1
            for at, page in enumerate(pages(numbers(node.get(tier)), self.size)):
                own = units_text(units[at * self.size : (at + 1) * self.size])
                homes.setdefault(page, []).append(("cached", ("… " if inner or at else "") + own + more))

    def tree(self, nodes: list[dict[str, Json]], names: list[str], *, tiered: bool, stale: str) -> Drawn:
        """The tree, one node a row, children below their parents."""
        more = [name for name in ("locks", "hits", "priority", "pins") if any(name in node for node in nodes)]
        head = ["prefix", "device pages", *(["host pages"] if tiered else []), *more]
        below: dict[int, list[int]] = {}
        for at, node in enumerate(nodes):
            above = number(node.get("parent"), -1)
            below.setdefault(above if 0 <= above < at else -1, []).append(at)
        rows: list[Row] = []
        keys: dict[int, str] = {}
        waiting = [(at, 0) for at in reversed(below.get(-1, []))]
        while waiting:
            at, depth = waiting.pop()
            node = nodes[at]
            above = number(node.get("parent"), -1)
            keys[at] = self.number(keys.get(above, ""), node.get("namespace"), node.get("units"))
            tiers = [numbers(node.get(tier)) for tier in ("slots", *(("host",) if tiered else ()))]
            cells = [names[at], *(span(pages(slots, self.size)) or "–" for slots in tiers)]
            cells += [told(node[name]) if name in node else "" for name in more]
            rows.append(Row(keys[at], cells, depth, odd=above < -1 or above >= at))
            waiting += [(child, depth + 1) for child in reversed(below.get(at, []))]
        return table(f"Tree{stale}", head, rows, tree=True)

    def storage(self) -> Drawn:
        """What the cache has put into the suite's storage, the last pages."""
        put = list(self.stored.items())[-STORED:]
        name = f"Storage: {len(self.stored)} page{'s' * (len(self.stored) != 1)} put by the cache"
        return table(name, ["page", "put in"], [Row(one, [one[:16], when]) for one, when in put])


def in_table(homes: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """The homes of a block: what is free or somebody's may be found as well, and several requests may hold one."""
    found = [one for one in homes if one[0] == "cached"]
    free = [one for one in homes if one[0] == "free"]
    held = [one for one in homes if one[0] not in ("cached", "free")]
    text = " + ".join(who for _, who in (*held, *found))
    if len(free) > 1 or len(found) > 1 or (free and held):
        return homes
    return [(held[0][0] if held else "cached" if found else "free", text)]


def prefixes(nodes: list[dict[str, Json]]) -> list[str]:
    """The units of each node as a text, with the namespace where it begins one."""
    found = []
    for node in nodes:
        text = units_text(node.get("units"))
        namespace = node.get("namespace")
        above = number(node.get("parent"), -1)
        found.append(f"{text} @{short(namespace, 60)}" if namespace is not None and above < 0 else text)
    return found


def job_of(job: dict[str, Json]) -> Job:
    """A job: what it is about, and how it stands."""
    if job.get("failed") is True:
        state = "failed"
    elif job.get("landed") is True:
        state = "landed"
    else:
        state = "under way" if job.get("ready", True) is True else "waits"
    about = f"{told(job.get('key'))} from unit {told(job.get('start'))}"
    done, rid = number(job.get("done")), number(job.get("rid"), -1)
    about += f", {done} done" * bool(done) + f", request {rid}" * (rid >= 0)
    return exact(job.get("id")), short(job.get("kind"), 20), state, about
