"""What is drawn of several ranks: each prefix, and what every rank has of it, side by side."""

from __future__ import annotations

from kvlitmus.conformance.tape.calls import TURNS, look_of
from kvlitmus.conformance.tape.changes import exact
from kvlitmus.conformance.tape.forms import FormError, Json
from kvlitmus.conformance.viewer.plain import (
    Exchange,
    fields,
    items,
    number,
    part,
    short,
    told,
    turn_text,
    with_members,
)
from kvlitmus.conformance.viewer.scenes import Call, Drawn, Job, Looks, Numbered, Pool, Row, table
from kvlitmus.spec.ranks.facts import joined

WHERE = (("device", "device"), ("host", "host"), ("writing", "to host"), ("loading", "to device"), ("window", "window"))
"""What a rank may have of a prefix: the field of the look, and the word for it."""


class Ranks:
    """Several ranks."""

    def __init__(self) -> None:
        self.number = Numbered()
        self.trees: list[list[int]] = []
        self.entered: dict[int, list[Exchange]] = {}

    def follow(self, call: Call) -> None:
        """A call was made and answered."""
        if call.name == "ranks_start":
            trees = items(fields(call.given.get("world")).get("trees"))
            self.trees = [[number(rank, -1) for stage in items(tree) for rank in items(stage)] for tree in trees]
        rank = number(call.given.get("rank"), -1)
        if call.name != TURNS or rank in self.entered:
            self.entered = {}
        if call.name == TURNS and not call.refused:
            self.entered[rank] = with_members(call.answer)

    def draw(self, looks: Looks) -> tuple[list[Pool], list[Drawn], list[Job]]:
        """What is there now."""
        views = {rank: fields(value) for rank, value in by_rank(looks, "ranks_view").items() if value is not None}
        states = {rank: fields(value) for rank, value in by_rank(looks, "ranks_states").items() if value is not None}
        trees = self.trees or [sorted(views)]
        tables = []
        for at, ranks in enumerate(trees):
            those = [rank for rank in ranks if rank in views]
            name = f" of tree {at}" if len(trees) > 1 else ""
            tables += self.exchanged(f"Who exchanged numbers in this call{name}", ranks)
            if those:
                tables.append(self.prefixes(f"Ranks{name}", those, views, states))
                tables.append(counts(f"Free pages{name}", those, views, states))
        return [], tables, reads(views)

    def exchanged(self, name: str, ranks: list[int]) -> list[Drawn]:
        """With whom each rank exchanged numbers; what leaves a tree in parts stands out, once all have been asked."""
        turns = dict.fromkeys(
            (turn_text(one), frozenset({rank, *one[0]})) for rank in ranks for one in self.entered.get(rank, ())
        )
        parts = [{rank} for rank in ranks]
        for _, members in turns:
            parts = joined(parts, set(members))
        odd = len(parts) > 1 and self.entered.keys() >= set(ranks)
        every = [("allowed: one reduction over all ranks of the tree", frozenset(ranks)), *turns]
        rows = [
            Row(f"{at}", [text, *("●" if rank in members else "–" for rank in ranks)], odd=odd and at > 0)
            for at, (text, members) in enumerate(every)
        ]
        return [table(name, ["", *(f"rank {rank}" for rank in ranks)], rows, leads=True)] if turns else []

    def prefixes(
        self, name: str, ranks: list[int], views: dict[int, dict[str, Json]], states: dict[int, dict[str, Json]]
    ) -> Drawn:
        """Every prefix, and where each rank has it; a row in which they differ stands out."""
        has: dict[str, dict[int, list[str]]] = {}
        shown: dict[str, Json] = {}
        for rank in ranks:
            places = [(views[rank].get(field), word) for field, word in WHERE]
            places.append((states.get(rank, {}).get("cached"), "state"))
            for prefixes, word in places:
                for prefix in items(prefixes):
                    key = exact(prefix)
                    shown[key] = prefix
                    has.setdefault(key, {}).setdefault(rank, []).append(word)
        rows = []
        for key in sorted(has, key=lambda one: [number(page, -1) for page in items(shown[one])]):
            cells = [", ".join(has[key].get(rank, ())) or "–" for rank in ranks]
            prefix = items(shown[key])
            text = short(" ".join(told(page) for page in prefix) or "root", 120)
            rows.append(Row(self.number(key), [text, *cells], max(0, len(prefix) - 1), odd=len(set(cells)) > 1))
        return table(name, ["prefix", *(f"rank {rank}" for rank in ranks)], rows, tree=True)


def by_rank(looks: Looks, method: str) -> dict[int, Json]:
    """What a look showed of each rank."""
    found: dict[int, Json] = {}
    for key, value in looks.items():
        try:
            name, args = look_of(key)
        except FormError:
            continue
        if name == method and type(part(args, 0)) is int:
            found[number(args[0])] = value
    return found


def counts(name: str, ranks: list[int], views: dict[int, dict[str, Json]], states: dict[int, dict[str, Json]]) -> Drawn:
    """What each rank has free; a row in which they differ stands out."""
    rows = []
    for field, word in (("device_free", "device"), ("host_free", "host"), ("window_free", "window")):
        cells = [told(views[rank].get(field)) for rank in ranks]
        rows.append(Row(field, [word, *cells], odd=len(set(cells)) > 1))
    if any(rank in states for rank in ranks):
        cells = [told(states.get(rank, {}).get("free")) for rank in ranks]
        rows.append(Row("states", ["states", *cells], odd=len(set(cells)) > 1))
    return table(name, ["pool", *(f"rank {rank}" for rank in ranks)], rows)


def reads(views: dict[int, dict[str, Json]]) -> list[Job]:
    """The prefetches of each rank."""
    found: list[Job] = []
    for rank, view in views.items():
        for one in items(view.get("reading")):
            rid, pages, window = (part(one, at) for at in range(3))
            text = f"{len(items(pages))} pages, window {told(window)}"
            found.append((f"{told(rid)}/{rank}", f"rank {rank}: prefetch", "under way", f"request {told(rid)}, {text}"))
    return found
