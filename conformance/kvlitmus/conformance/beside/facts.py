"""What a cache shows, as facts in words: the same for the reference and for a cache beside it, so that they compare.

How a tree splits its nodes, what a job is called, and which place of the host an entry of a component has is no fact.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from kvlitmus.conformance.tape.calls import look_of
from kvlitmus.conformance.tape.forms import FormError, Json
from kvlitmus.conformance.viewer.holders import pages
from kvlitmus.conformance.viewer.plain import (
    fields,
    items,
    number,
    numbers,
    pairs,
    part,
    prefix_text,
    short,
    span,
    told,
)
from kvlitmus.conformance.viewer.ranks import WHERE
from kvlitmus.conformance.viewer.scenes import COUNTERS
from kvlitmus.spec.words.config import Config

NOTHING = "–"


class Facts(NamedTuple):
    """Facts by what they are about.  ``firm``: what one side doesn't have it lacks; ``soft``: or it doesn't tell."""

    firm: dict[str, str]
    soft: dict[str, str]

    def beside(self, other: Facts) -> list[tuple[str, str, str]]:
        """What the two differ in: what it is about, what this one shows, and what the other one does."""
        about = dict.fromkeys([*self.firm, *other.firm])
        both = [one for one in self.soft if one in other.soft]
        found = [(one, self.firm.get(one, NOTHING), other.firm.get(one, NOTHING)) for one in about]
        found += [(one, self.soft[one], other.soft[one]) for one in both]
        return [one for one in found if one[1] != one[2]]


def facts_of(looks: Mapping[str, Json], config: Config, *, table: bool) -> Facts:
    """The facts in what was looked at last.  ``table``: in a block table, where a prefix has a place doesn't matter."""
    found = Facts({}, {})
    if config.components:
        components(found, looks)
    elif config.pool == "ranks":
        ranks(found, looks)
    elif config.pool == "sparse":
        sparse(found, looks, config.page_size)
    else:
        view = fields(looks.get("tiers", looks.get("view")))
        tree(found, view, config, table=table)
        if "jobs" in looks:
            going = [one for one in map(fields, items(looks["jobs"])) if one.get("landed") is not True]
            found.firm["jobs"] = ", ".join(sorted(map(job, going))) or "none"
    for key, name in COUNTERS.items():
        if key in looks:
            found.soft[name] = told(looks[key])
    return found


def tree(found: Facts, view: Mapping[str, Json], config: Config, *, table: bool) -> None:
    """What is cached where, page by page, with the locks of each node; and what is free."""
    if not view:
        return
    size, pool = config.page_size, config.pool  # the pool of the device, or of the host where it is judged alone
    ends: list[tuple[Json, list[Json]]] = []
    where: dict[str, list[str]] = {}
    for one in map(fields, items(view.get("nodes"))):
        parent = number(one.get("parent"), -1)
        namespace, before = ends[parent] if 0 <= parent < len(ends) else (one.get("namespace"), [])
        own = items(one.get("units"))
        ends.append((namespace, [*before, *own]))
        for tier, field in ((pool, "slots"), ("host", "host")):
            for at, page in enumerate(pages(numbers(one.get(field)), size), 1):
                key = f"{prefix_text(namespace, [*before, *own[: at * size]])} on the {tier}"
                where.setdefault(key, []).append("cached" if table else f"page {page}")
                if "locks" in one and not table:
                    found.soft[f"locks on {prefix_text(namespace, [*before, *own[: at * size]])}"] = told(one["locks"])
    found.firm.update({key: " and ".join(dict.fromkeys(sorted(some))) for key, some in where.items()})
    for field, name in (("free", f"free pages of the {pool}"), ("host_free", "free pages of the host")):
        if field in view:
            listed = numbers(view[field])
            twice = [page for page, times in Counter(listed).items() if times > 1]
            more = f" ({span(sorted(twice))} more than once)" if twice else ""
            found.firm[name] = (span(sorted(set(listed))) or "none") + more
    moving = pages(numbers(view.get("moving")), size)
    found.firm["host pages of work under way"] = str(len(moving))
    if "host_free" in view:
        lies = [page for one in map(fields, items(view.get("nodes"))) for page in pages(numbers(one.get("host")), size)]
        lost = set(range(config.host_pages)).difference(numbers(view["host_free"]), lies, moving)
        found.firm["pages of the host with no home"] = span(sorted(lost)) or "none"


def job(about: Mapping[str, Json]) -> str:
    """A job: what it is about, and how it stands.  When one that has landed is noted, is a cache's to choose."""
    state = "failed" if about.get("failed") is True else "under way"
    return f"{short(about.get('kind'), 20)} of {told(about.get('key'))} from unit {told(about.get('start'))} {state}"


def components(found: Facts, looks: Mapping[str, Json]) -> None:
    """Which entries there are, and how many places are free."""
    for tier, entries, free in (
        ("device", "component_entries", "component_free_places"),
        ("host", "component_host_entries", "component_free_host"),
    ):
        where: dict[str, list[str]] = {}
        for row in items(looks.get(entries)):
            about = f"{short(part(row, 0), 40)} of {prefix_text(part(row, 1), items(part(row, 2)))} on the {tier}"
            where.setdefault(about, []).append(f"place {told(part(row, 3))}" if tier == "device" else "cached")
        found.firm.update({key: " and ".join(sorted(some)) for key, some in where.items()})
        for pool, places in fields(looks.get(free)).items():
            found.firm[f"free places of {short(pool, 40)} on the {tier}"] = str(len(items(places)))


def sparse(found: Facts, looks: Mapping[str, Json], size: int) -> None:
    """What each row has, and what is free."""
    view = fields(looks.get("sparse_view"))
    for row, slots in pairs(view.get("rows")):
        if items(slots):
            found.firm[f"row {told(row)}"] = f"pages {span(pages(numbers(slots), size))}"
    if view:
        found.firm["free pages"] = span(sorted(pages(numbers(view.get("free")), size))) or "none"
    for row, slots in by_argument(looks, "sparse_device_buffer"):
        if items(slots):
            found.firm[f"buffer of row {row}"] = f"{len(items(slots))} slots"


def ranks(found: Facts, looks: Mapping[str, Json]) -> None:
    """What every rank has of each prefix, and how much is free."""
    for rank, value in by_argument(looks, "ranks_view"):
        view = fields(value)
        for field, word in WHERE:
            for one in items(view.get(field)):
                found.firm[f"rank {rank}: {told(one)} {word}"] = "there"
        for field in ("device_free", "host_free", "window_free"):
            if field in view:
                found.firm[f"rank {rank}: {field.replace('_', ' ')}"] = told(view[field])
        if "reading" in view:
            found.firm[f"rank {rank}: prefetches"] = ", ".join(map(reading, items(view["reading"]))) or "none"
    for rank, value in by_argument(looks, "ranks_states"):
        found.firm[f"rank {rank}: states"] = told(value)


def reading(one: Json) -> str:
    """A prefetch: for which request, and how much it reads."""
    return f"request {told(part(one, 0))} reads {len(items(part(one, 1)))} pages"


def by_argument(looks: Mapping[str, Json], method: str) -> Iterator[tuple[str, Json]]:
    """What a look showed of each row or rank."""
    for key, value in looks.items():
        try:
            name, args = look_of(key)
        except FormError:
            continue
        if name == method and value is not None:
            yield told(part(args, 0)), value
