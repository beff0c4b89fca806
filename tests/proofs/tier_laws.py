"""What is checked in every state of a small hierarchy: facts for the rules, and laws that no rule can say.

The facts are worked out from the value before and the value after a step, by other means than the reference's own:
counting, following parents, comparing sets.  The **laws** are about what can't be observed of a cache: who holds each
lock and each pin.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from kvlitmus.reference import event
from kvlitmus.reference.hierarchy import DEVICE, HOST, Hierarchy, moving, occupied
from kvlitmus.spec.interface.tiers import BACKUP, FETCH, LOAD, QUERY
from kvlitmus.spec.policies import WRITE_BACK
from kvlitmus.spec.prefetch_plan import PrefetchAsk, full_length, truncated_length
from kvlitmus.spec.rule import Kind, Rule, all_rules
from kvlitmus.spec.units import Name, PageNo
from tests.proofs.tier_bench import Bench

PACKS = ("tier", "backup", "load", "fetch", "life", "event")


def rules_for(kind: str) -> list[Rule]:
    """The rules of hierarchies that speak of this kind of step."""
    rules = [rule for rule in all_rules().values() if rule.pack in PACKS]
    kinds = set(kind.split("+"))
    return [
        rule for rule in rules if rule.kind is Kind.STATE or (rule.kind is Kind.STEP and not kinds.isdisjoint(rule.on))
    ]


def state_facts(bench: Bench, before: Hierarchy, after: Hierarchy) -> dict[str, Any]:
    """What can be said after any step."""
    resident, alone, copies = after.cache.tree.pages, after.host.alone, after.host.copies
    had = {name: copy.page for name, copy in before.host.copies.items()}
    has = {name: copy.page for name, copy in copies.items()}
    parents = {name: page.parent for pages in (resident, alone) for name, page in pages.items()}
    known = {bench.root, *parents}
    facts: dict[str, Any] = {
        "page_size": bench.scope.page_size,
        "host_usable": after.host.pool.usable,
        "host_free": sorted(after.host.pool.free),
        "host_free_before": before.host.pool.free,
        "host_listed": list(has.values()),
        "host_moving": list(moving(after)),
        "hosted_before": had,
        "hosted": has,
        "host_vanished": had.keys() - has.keys(),
        "host_appeared": has.keys() - had.keys(),
        "cached_before": {name: page.page for name, page in before.cache.tree.pages.items()},
        "cached_after": {name: page.page for name, page in resident.items()},
        "homeless": [name for name, over in parents.items() if over not in known]
        + [name for name in alone if name not in copies]
        + [name for name in copies if name not in parents],
        "gaps": [name for name, page in resident.items() if page.parent not in resident and page.parent != bench.root],
        "unbacked_parents": unbacked(bench, after, parents),
        "host_available": len(after.host.pool.free) * bench.scope.page_size,
        "in_tree": frozenset(parents),
        "anchors": frozenset(one.anchor for one in after.operations if one.live) - {bench.root},
        "held_sources": {name: had[name] for name in sources(after) if name in had},
        "occupied_now": occupied(after),
        "odd_events": odd_events(bench, before, after),
    }
    facts["host_wrong"], facts["device_wrong"] = wrong_contents(bench, after)
    units = sum(len(one.names) * bench.scope.page_size for one in after.operations if one.live and one.stage == QUERY)
    others = sum(one.asked for one in after.operations if one.live and one.stage != QUERY)
    facts["occupied_least"] = facts["occupied_most"] = units + others
    changed = facts["host_vanished"] or facts["host_appeared"]
    facts["tree_changed"] = bool(changed) or facts["cached_before"].keys() != facts["cached_after"].keys()
    facts["pins_changed"] = [
        name for name, copy in copies.items() if name in had and copy.pins != before.host.copies[name].pins
    ]
    facts["jobs_begun"] = [one.kind for one in after.transfers if one.id > before.serial]
    facts["jobs_begun"] += ["put" for one in after.puts if one.id > before.serial]
    facts["jobs_begun"] += [one.stage for one in after.operations if one.job > before.serial]
    facts["acked_unlanded"] = early_acks(before, after)
    return facts | failure_facts(before, after, had)


def failure_facts(before: Hierarchy, after: Hierarchy, had: dict[Name, PageNo]) -> dict[str, Any]:
    """What copies that failed, and ended with the step, have left."""
    left = {one.id for one in after.transfers}
    ended = [one for one in before.transfers if one.failed and one.id not in left and after.serial >= before.serial]
    kinds = (BACKUP, LOAD)
    names = {kind: frozenset(name for one in ended if one.kind == kind for name in one.names) for kind in kinds}
    again = {kind: {name for one in after.transfers if one.kind == kind for name in one.names} for kind in names}
    return {
        "failed_backups": names[BACKUP],
        "failed_loads": names[LOAD],
        "failed_hosted": names[BACKUP] & after.host.copies.keys() - again[BACKUP],
        "failed_resident": names[LOAD] & after.cache.tree.pages.keys() - again[LOAD],
        "failed_sources": {name: had[name] for name in names[LOAD]},
    }


def unbacked(bench: Bench, after: Hierarchy, parents: dict[Name, Name]) -> list[Name]:
    """Host copies whose parent has none, where the write policy forbids it."""
    if after.choices.write == WRITE_BACK:
        return []
    copies = after.host.copies
    return [name for name in copies if parents.get(name, bench.root) not in {*copies, bench.root}]


def sources(now: Hierarchy) -> list[Name]:
    """The pages whose host copies are being read."""
    loads = [name for one in now.transfers if one.kind == LOAD for name in one.names]
    return loads + [name for one in now.puts for name in one.names]


def wrong_contents(bench: Bench, after: Hierarchy) -> tuple[list[Name], list[Name]]:
    """Pages of the host and of the device whose slots don't hold their KV, those being filled left out."""
    filling: dict[str, set[Name]] = {BACKUP: set(), LOAD: set()}
    for one in after.transfers:
        if one.failed or not one.landed:
            filling[one.kind].update(one.names)
    host, device = bench.contents[HOST], bench.contents[DEVICE]
    wrong_host = [
        name for name, copy in after.host.copies.items() if name not in filling[BACKUP] and host.get(copy.page) != name
    ]
    for operation in after.operations:
        if operation.live:
            read = zip(operation.names[: operation.completed], operation.held, strict=False)
            wrong_host += [name for name, page in read if host.get(page) != name]
    wrong_device = [
        name
        for name, page in after.cache.tree.pages.items()
        if name not in filling[LOAD] and device.get(page.page) != name
    ]
    return wrong_host, wrong_device


def odd_events(bench: Bench, before: Hierarchy, after: Hierarchy) -> list[event.Told]:
    """Events that make no sense, or that don't lead from what was known before to what is known after."""
    known = {DEVICE: set(before.cache.tree.pages), HOST: set(event.on_host(before))}
    odd = []
    for told in event.changes(before, after):
        there = known[told.tier]
        if (told.name in there) == (told.what == event.STORED):
            odd.append(told)
        if told.what == event.STORED:
            if told.parent not in {bench.root, *known[DEVICE], *known[HOST]}:
                odd.append(told)
            there.add(told.name)
        else:
            there.discard(told.name)
    if known != {DEVICE: set(after.cache.tree.pages), HOST: set(event.on_host(after))}:
        odd.append(event.Told("missing", "", bench.root, bench.root))
    return odd


def early_acks(before: Hierarchy, after: Hierarchy) -> list[int]:
    """Copies that ended before they had landed, or before one of their kind that began earlier and had not."""
    left = {one.id for one in after.transfers}
    if not before.transfers or after.serial < before.serial:
        return []
    early = [one.id for one in before.transfers if one.id not in left and not one.landed]
    for one in before.transfers:
        waits = [other for other in before.transfers if other.kind == one.kind and other.id < one.id]
        if one.id not in left and any(not other.landed for other in waits):
            early.append(one.id)
    return early


def settled_facts(after: Hierarchy) -> dict[str, Any]:
    """What can be said when everything was delivered."""
    return {
        "work_left": [*after.transfers, *after.puts, *after.operations],
        "still_waiting": [one.rid for one in after.operations if one.live],
        "moving_left": moving(after),
        "pins_left": [name for name, copy in after.host.copies.items() if copy.pins],
        "protected_left": sum(1 for page in after.cache.tree.pages.values() if page.locks),
        "told_device": frozenset(after.cache.tree.pages),
        "told_host": event.on_host(after),
    }


def droppable(now: Hierarchy, spared: Iterable[Name] = ()) -> set[Name]:
    """The pages that evictions of the host could drop one after the other, those spared and those held left out."""
    alone, held = now.host.alone, {*sources(now), *spared, *(one.anchor for one in now.operations if one.live)}
    children: Counter[Name] = Counter(page.parent for page in alone.values())
    gone: set[Name] = set()
    ripe = [name for name in alone if not children[name]]
    while ripe:
        name = ripe.pop()
        if name in held:
            continue
        gone.add(name)
        over = alone[name].parent
        children[over] -= 1
        if not children[over] and over in alone:
            ripe.append(over)
    return gone


def reservable(now: Hierarchy, ask: PrefetchAsk, anchor: Name) -> int:
    """How much a prefetch behind this anchor can reserve."""
    room = (len(now.host.pool.free) + len(droppable(now, [anchor]))) * ask.page_size
    full = full_length(ask)
    return full if room >= full else truncated_length(ask, room)


# -- laws -------------------------------------------------------------------------------------------------


def pins_are_those_of_holders(now: Hierarchy) -> str:
    """Each pin is a prefetch that begins there, a load or a put that reads there."""
    held: Counter[Name] = Counter(sources(now))
    held.update(one.anchor for one in now.operations if one.live and one.anchor in now.host.copies)
    pins = {name: copy.pins for name, copy in now.host.copies.items() if copy.pins}
    return "" if pins == dict(held) else f"pins {pins}, holders {dict(held)}"


def locks_are_those_of_holders(now: Hierarchy) -> str:
    """Each lock is a request or a copy under way, on the path to where it ends."""
    resident = now.cache.tree.pages
    held: Counter[Name] = Counter()
    ends = [one.names[-1] for one in now.transfers] + [one.locked for one in now.cache.requests.values()]
    for name in ends:
        while name in resident:
            held[name] += 1
            name = resident[name].parent
    locks = {name: page.locks for name, page in resident.items() if page.locks}
    return "" if locks == dict(held) else f"locks {locks}, holders {dict(held)}"


def a_page_is_on_one_side_of_the_books(now: Hierarchy) -> str:
    """No page is resident and remembered as being on the host alone; no device page has two homes or none."""
    both = now.cache.tree.pages.keys() & now.host.alone.keys()
    size = now.setting.size
    own: list[PageNo] = [*now.free, *[page.page for page in now.cache.tree.pages.values()]]
    for one in now.cache.requests.values():
        own += [PageNo(slot // size) for slot in one.row[one.cached :: size]]
    lost = Counter(own) != Counter(now.setting.usable)
    return f"on both sides {sorted(both)}, device pages {sorted(own)}" if both or lost else ""


def nodes_are_of_one_kind(now: Hierarchy) -> str:
    """All pages of a node are on the same tiers, equally used and locked, and only the last one has other children."""
    resident, alone = now.cache.tree.pages, now.host.alone
    pages = {**alone, **resident}
    children: Counter[Name] = Counter(page.parent for page in pages.values())
    for name, page in pages.items():
        over = pages.get(page.parent)
        if page.first or over is None:
            continue
        here, there = (
            (at in resident, at in now.host.copies, one.locks, one.hits, one.touched)
            for at, one in ((name, page), (page.parent, over))
        )
        if here != there or children[page.parent] > 1:
            return f"page {name} continues a node of another kind: {here} and {there}"
    return ""


def a_prefetch_holds_what_it_reads_into(now: Hierarchy) -> str:
    """A prefetch holds no more pages than it reads, and completes no more than it holds."""
    for one in now.operations:
        reads = one.names[: one.hit] if one.hit is not None else one.names
        if one.live and (len(one.held) > len(reads) or one.completed > len(one.held)):
            return f"{one}"
        if one.live and one.stage == FETCH and len(one.held) != len(reads):
            return f"{one}"
    return ""


LAWS: dict[str, Callable[[Hierarchy], str]] = {
    "pins are those of holders": pins_are_those_of_holders,
    "locks are those of holders": locks_are_those_of_holders,
    "a page is on one side of the books": a_page_is_on_one_side_of_the_books,
    "nodes are of one kind": nodes_are_of_one_kind,
    "a prefetch holds what it reads into": a_prefetch_holds_what_it_reads_into,
}
"""Each says what is wrong, or nothing."""
