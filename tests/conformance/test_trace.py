"""Trace replay: figures that an independent simulation confirms, on caches that may not agree by accident."""

from __future__ import annotations

import random
from collections import OrderedDict
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.trace.mooncake import Request, load_trace
from benchmarks.trace.replay import Figures, replay
from kvlitmus.conformance.adapters.reference.target import capped_target, node_target
from kvlitmus.conformance.adapters.reference.target import target as reference
from kvlitmus.conformance.ports import Target
from kvlitmus.conformance.specimen.cache import SpecimenTarget
from kvlitmus.conformance.specimen.cache import target as specimen
from kvlitmus.conformance.specimen.parts import Parts
from kvlitmus.conformance.specimen.prefix.tree import Node, RadixTree
from tests.conformance.support.trace_maker import make

SMALL = Path(__file__).resolve().parent.parent / "data" / "small_trace.jsonl"

PINNED = {
    "full-leaf": (
        Figures(20, 529, 270848, 609, 177),
        Figures(40, 653, 334336, 465, 204),
        Figures(80, 756, 387072, 322, 211),
        Figures(160, 781, 399872, 217, 212),
        Figures(320, 792, 405504, 46, 212),
        Figures(640, 792, 405504, 0, 212),
    ),
    "all-leaf": (
        Figures(20, 500, 256000, 857, 169),
        Figures(40, 614, 313542, 723, 197),
        Figures(80, 729, 371925, 568, 207),
        Figures(160, 788, 400245, 429, 211),
        Figures(320, 799, 404520, 258, 212),
        Figures(640, 813, 411416, 0, 212),
    ),
}
"""The figures of the small trace."""

CELLS = [(variant, figures) for variant, rows in PINNED.items() for figures in rows]


def simulate(requests: tuple[Request, ...], capacity: int, variant: str) -> Figures:
    """The figures without any tree: one LRU list of ids, each request touching its last block first."""
    resident: OrderedDict[int, None] = OrderedDict()
    hit_blocks = hit_tokens = evictions = with_hit = 0
    for request in requests:
        blocks = request.blocks[: request.tokens // 512] if variant == "full-leaf" else request.blocks
        found = 0
        while found < len(blocks) and blocks[found] in resident:
            found += 1
        hit_blocks += found
        hit_tokens += min(512 * found, request.tokens)
        with_hit += found > 0
        for block in reversed(blocks):
            resident[block] = None
            resident.move_to_end(block)
        while len(resident) > capacity:
            resident.popitem(last=False)
            evictions += 1
    return Figures(capacity, hit_blocks, hit_tokens, evictions, with_hit)


def test_the_small_trace_is_what_its_maker_writes() -> None:
    assert SMALL.read_text(encoding="utf-8") == make(240, seed=20)


def test_the_small_trace_has_what_makes_a_trace_hard() -> None:
    requests = load_trace(SMALL).requests
    assert len(requests) == 240
    assert any(request.full == 0 for request in requests), "requests without a full block"
    assert any(request.tokens % 512 == 0 for request in requests), "requests that end with a full block"
    assert len({request.timestamp for request in requests}) < 150, "many that arrive at the same time"
    assert len({request.blocks for request in requests}) < 235, "some that come twice"


@pytest.mark.parametrize("target", [specimen, reference], ids=["specimen", "reference"])
@pytest.mark.parametrize(("variant", "figures"), CELLS)
def test_the_figures_of_the_small_trace(variant: str, figures: Figures, target: Target) -> None:
    requests = load_trace(SMALL).requests
    assert simulate(requests, figures.capacity, variant) == figures
    assert replay(requests, target, figures.capacity, variant) == figures


@st.composite
def workloads(draw: st.DrawFn) -> tuple[tuple[Request, ...], int]:
    """Requests over a small tree of ids, and a capacity that holds each one of them."""
    seed = draw(st.integers(0, 2**32 - 1))
    random_ = random.Random(seed)
    children: dict[tuple[int, ...], list[int]] = {}
    tails: dict[tuple[int, ...], tuple[int, int]] = {}
    requests: list[Request] = []
    count, fan, depth = draw(st.integers(1, 60)), draw(st.integers(1, 4)), draw(st.integers(1, 12))
    names = iter(range(10**6))
    for line in range(1, count + 1):
        path: tuple[int, ...] = ()
        for _ in range(random_.randint(0, depth)):
            below = children.setdefault(path, [])
            if not below or (len(below) < fan and random_.random() < 0.5):
                below.append(next(names))
            path = (*path, random_.choice(below))
        tokens = 512 * len(path)
        if not path or random_.random() < 0.5:
            last, length = tails.setdefault(path, (next(names), random_.randint(1, 511)))
            path, tokens = (*path, last), tokens + length
        requests.append(Request(line, 0, tokens, path))
    longest = max(len(request.blocks) for request in requests)
    return tuple(requests), draw(st.integers(longest, longest + 20))


@given(workloads(), st.sampled_from(["full-leaf", "all-leaf"]))
def test_specimen_reference_and_simulation_agree(workload: tuple[tuple[Request, ...], int], variant: str) -> None:
    requests, capacity = workload
    expected = simulate(requests, capacity, variant)
    assert replay(requests, specimen, capacity, variant) == expected
    assert replay(requests, reference, capacity, variant) == expected


class FirstInFirstOut(RadixTree):
    """A tree that evicts the oldest leaf whether it was used or not."""

    def __init__(self, *args: object) -> None:
        super().__init__(*args)  # type: ignore[arg-type]
        self.worth = lambda node: (node.created, node.serial)


class OneMore(RadixTree):
    """A tree that evicts a page more than it has to."""

    def evict(self, n: int) -> int:
        return super().evict(n + 1)


@pytest.mark.parametrize("tree", [FirstInFirstOut, OneMore])
def test_another_order_of_eviction_shows_in_the_figures(tree: type[RadixTree]) -> None:
    requests = load_trace(SMALL).requests
    other = SpecimenTarget(Parts(tree=tree))
    assert any(replay(requests, other, figures.capacity, "full-leaf") != figures for figures in PINNED["full-leaf"][:3])


class WholeNodes(RadixTree):
    """A tree that evicts whole nodes."""

    def pages_to_trim(self, leaf: Node, n: int) -> int:
        return len(leaf.pages)


def test_whole_nodes_give_other_figures_and_both_caches_the_same_ones() -> None:
    requests = load_trace(SMALL).requests
    nodes = SpecimenTarget(Parts(tree=WholeNodes), node_target.profile)
    for figures in PINNED["full-leaf"][:4]:
        found = replay(requests, node_target, figures.capacity, "full-leaf")
        assert found == replay(requests, nodes, figures.capacity, "full-leaf")
        assert found.evictions >= figures.evictions
    assert replay(requests, node_target, 40, "full-leaf") != PINNED["full-leaf"][1]
    assert replay(requests, node_target, 640, "full-leaf") == PINNED["full-leaf"][-1], (
        "nothing evicted, nothing different"
    )


def test_a_match_that_leaves_one_block_brings_a_duplicate_that_is_freed() -> None:
    blocks = (7, 8, 9)
    twice = (Request(1, 0, 1400, blocks), Request(2, 0, 1400, blocks), Request(3, 5, 1400, blocks))
    # At capacity 4 a slot that isn't freed would be missing for the third request.
    assert replay(twice, capped_target, 4, "all-leaf") == Figures(4, 4, 2048, 0, 2)
    assert replay(twice, reference, 3, "all-leaf") == Figures(3, 6, 2800, 0, 2)


def test_a_request_without_a_full_block_takes_no_part() -> None:
    short = (Request(1, 0, 100, (1,)), Request(2, 0, 100, (1,)))
    assert replay(short, specimen, 1, "full-leaf") == Figures(1, 0, 0, 0, 0)
    assert replay(short, specimen, 1, "all-leaf") == Figures(1, 1, 100, 0, 1)
