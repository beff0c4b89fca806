"""A published trace, and every integer that an LRU prefix cache gives on it.

The conversation trace of the Mooncake paper (FAST '25; github.com/kvcache-ai/Mooncake, folder
FAST25-release/traces, Apache-2.0) is not part of this project.  With a copy of it:

    KVLITMUS_TRACE=conversation_trace.jsonl python -m pytest -m nightly tests/conformance/test_trace_published.py

The figures were computed by a simulation and by an independent one-pass stack-distance program.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from benchmarks.trace.mooncake import Trace, load_trace
from benchmarks.trace.replay import Figures, replay
from kvlitmus.conformance.specimen.cache import target as specimen
from tests.conformance.test_trace import simulate

SHA256 = "b8cbb061a85206d729d91cdc2981f43c9e0d99209dce588d3af5f7934408b9df"

PUBLISHED = {
    "full-leaf": (
        Figures(500, 12165, 6228480, 263826, 12030),
        Figures(2000, 15944, 8163328, 258547, 12030),
        Figures(5000, 34193, 17506816, 237298, 12030),
        Figures(10000, 62005, 31746560, 204486, 12030),
        Figures(30000, 95337, 48812544, 151154, 12030),
        Figures(100000, 104926, 53722112, 71565, 12030),
        Figures(200000, 105592, 54063104, 0, 12030),
    ),
    "all-leaf": (
        Figures(500, 12168, 6229259, 275832, 12030),
        Figures(2000, 15665, 8016630, 270835, 12030),
        Figures(5000, 32260, 16505817, 251240, 12030),
        Figures(10000, 61046, 31238981, 217454, 12030),
        Figures(30000, 93978, 48093740, 164522, 12030),
        Figures(100000, 104924, 53695979, 83576, 12030),
        Figures(200000, 105710, 54098411, 0, 12030),
    ),
}

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.timeout(1200),  # half a minute for the largest capacities on a core of its own
    pytest.mark.skipif("KVLITMUS_TRACE" not in os.environ, reason="KVLITMUS_TRACE names no copy of the trace"),
]


@pytest.fixture(scope="module")
def trace() -> Trace:
    path = Path(os.environ["KVLITMUS_TRACE"])
    assert hashlib.sha256(path.read_bytes()).hexdigest() == SHA256, "this is another trace"
    return load_trace(path)


def test_the_trace_is_what_was_published(trace: Trace) -> None:
    assert len(trace.requests) == 12_031
    assert sum(request.tokens for request in trace.requests) == 144_793_823
    assert sum(len(request.blocks) for request in trace.requests) == 288_500
    assert sum(request.full for request in trace.requests) == 276_491
    assert len({block for request in trace.requests for block in request.blocks}) == 182_790


@pytest.mark.parametrize(
    ("variant", "figures"), [(variant, one) for variant, rows in PUBLISHED.items() for one in rows]
)
def test_every_integer_is_equal(trace: Trace, variant: str, figures: Figures) -> None:
    assert simulate(trace.requests, figures.capacity, variant) == figures
    assert replay(trace.requests, specimen, figures.capacity, variant) == figures
